"""The rank on the card that a kernel line names: only by lines that state address and rank, and never by the number."""

from __future__ import annotations

import pytest
from incident import event, scene_of

from firstfault.analysis.cards import address, rank_of_card
from firstfault.analysis.conclude import ask
from firstfault.model.words import Strength

KERNEL = {"pci": "0000:db:00.0"}


def joins(line, rank, pci, *, size=2, pid=None, host="n1"):
    fields = {"pci": pci, "group_rank": str(rank), "size": str(size), "pid": str(pid or 100 + rank)}
    return event("run.member", line, host=host, fields=fields)


def fault(line=50, host="n1", **fields):
    return event("gpu.fell_off", line, source=1, host=host, fields=KERNEL | fields)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0000:db:00.0", (0, 0xDB, 0)),
        ("0000:db:00", (0, 0xDB, 0)),
        ("DB:00.0", (0, 0xDB, 0)),
        ("db000", (0, 0xDB, 0)),
        ("1000", (0, 1, 0)),
        ("100db000", (0x100, 0xDB, 0)),
        ("", None),
        ("unknown", None),
    ],
)
def test_addresses_of_the_kernel_and_of_nccl_are_the_same(text, expected):
    assert address(text) == expected


def card(*events):
    scene = scene_of(*events)
    suspect = next(s for s in scene.suspects if s.nature.key == "gpu.fell_off")
    found = rank_of_card(scene, suspect)
    return None if found is None else found[:2]


def test_the_rank_whose_line_names_the_card_is_found():
    assert card(joins(1, 0, "1a000"), joins(2, 1, "db000"), fault()) == (1, "n1")
    answer = ask(scene_of(joins(1, 0, "1a000"), joins(2, 1, "db000"), fault(), event("launcher.exit", 90)))
    assert (answer.culprits.ranks, answer.culprits.hosts) == ((1,), ("n1",))
    assert answer.culprits.strength.level <= Strength.SUPPORTED.level
    assert "run.member" in [e.signature for e in answer.proof]


def test_the_same_address_on_another_host_is_another_card():
    assert card(joins(1, 0, "1a000"), joins(2, 1, "db000"), fault(host="n2")) is None


def test_a_rank_in_a_part_of_the_world_is_not_the_global_one():
    events = [joins(n, n, f"{n + 1}a000", size=2, pid=200 + n) for n in range(3)]
    assert card(*events, joins(9, 1, "db000", pid=300), fault()) is None


def test_cards_without_a_stated_rank_and_two_ranks_of_one_card_name_nobody():
    assert card(fault()) is None
    assert card(joins(1, 0, "db000"), joins(2, 1, "db000"), fault()) is None
    assert card(joins(1, 0, "1a000"), joins(2, 1, "db000"), fault(), fault(60, pci="0000:1a:00.0")) is None
