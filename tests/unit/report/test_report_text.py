import re
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from firstfault.model.diagnosis import Action, ChainLink, CoverageRow, Culprits, Ranks, Recurrence, Verdict
from firstfault.model.words import ActionKind, Category, CoverageState, Strength
from firstfault.pipelines.publish import publish
from firstfault.report.neutral import neutral
from firstfault.report.text import columns, wrap

EVIL = "\x1b]0;owned\x07\x1b[2J[rank3]: \u202eboom\u202c\x9b31m `*_[x](javascript:1)<b> | \r\n done\u200b"


@pytest.mark.parametrize("width", [40, 80, 100, 120])
def test_no_line_is_wider_than_the_page(build_diagnosis, width):
    text = publish(build_diagnosis("x" * 400 + " 日本語" * 40), "text", "secrets", width=width)
    assert max(columns(line) for line in text.splitlines()) <= width


def test_it_is_one_screen_even_where_much_is_known(build_diagnosis):
    links = [ChainLink(what=f"step {i}", why="because", evidence=[]) for i in range(40)]
    rows = [CoverageRow(file=f"f{i}", state=CoverageState.SKIPPED, reason="binary") for i in range(200)]
    rows.append(CoverageRow(file="log", state=CoverageState.READ))
    text = publish(build_diagnosis("y " * 200, chain=links, coverage=rows), "text", "secrets", width=100)
    assert len(text.splitlines()) <= 45
    assert "35 steps between" in text
    assert "and 197 more" in text


def test_it_says_all_that_one_screen_must(build_diagnosis):
    text = publish(build_diagnosis(), "text", "secrets")
    for needed in (
        "FAILED",
        "supported: lines favour it",
        "Rank 37 (node-04) never entered",
        "rank 37 on node-04 (established",
        "error-4711-4.out:1893",
        "127 of 128 ranks seen",
        "error-4711-7.out",
        "core.88 (binary)",
        "Rerun from the last checkpoint",
        "exit code 1: a failure was found",
        "41 of 41 cited lines",
    ):
        assert needed in " ".join(text.split()), needed


@pytest.mark.parametrize("form", ["text", "markdown", "json"])
def test_log_text_acts_nowhere(build_diagnosis, form):
    out = publish(build_diagnosis(EVIL), form, "secrets")
    bad = [c for c in out if c != "\n" and unicodedata.category(c) in {"Cc", "Cf"}]
    assert not bad, bad


@settings(max_examples=60)
@given(st.text(max_size=200), st.sampled_from(["text", "markdown", "json"]), st.integers(40, 130))
def test_any_log_text_is_printable_everywhere(build_diagnosis, text, form, width):
    out = publish(build_diagnosis(text), form, "secrets", width=width)
    assert not [c for c in out if c != "\n" and unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}]
    out.encode("utf-8")


def test_colour_changes_no_letter(build_diagnosis):
    plain = publish(build_diagnosis(), "text", "secrets", color=False)
    painted = publish(build_diagnosis(), "text", "secrets", color=True)
    assert "\x1b[" in painted
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == plain


def test_raw_says_that_secrets_are_in_it(build_diagnosis):
    assert "SECRETS ARE NOT REMOVED" in publish(build_diagnosis(), "text", "none")
    assert "SECRETS ARE NOT REMOVED" not in publish(build_diagnosis(), "text", "secrets")


def test_unknown_is_said_as_unknown(build_diagnosis):
    verdict = build_diagnosis().verdict
    unknown = Verdict(
        failed=None,
        category=Category.UNKNOWN,
        strength=Strength.UNKNOWN,
        summary="The log stops.",
        culprits=Culprits(),
        first_failed=verdict.first_failed,
        trigger=None,
        classes=verdict.classes,
        action=Action(kind=ActionKind.COLLECT_MORE, steps=["Get the scheduler's record."]),
    )
    text = publish(build_diagnosis(verdict=unknown), "text", "secrets")
    assert text.startswith("NOT DECIDABLE  the evidence does not say")
    assert "nobody: the fault is not one rank" in text
    assert "exit code 3" in text


def test_the_drain_command_is_given_only_for_hosts_that_are_left_out(build_diagnosis):
    verdict = build_diagnosis().verdict

    def said(kind, hostlist):
        action = Action(kind=kind, exclude_hosts=["a"], exclude_hostlist=hostlist)
        changed = Verdict(**{**{f: getattr(verdict, f) for f in verdict.__struct_fields__}, "action": action})
        return publish(build_diagnosis(verdict=changed), "text", "secrets", width=120)

    assert "scontrol update NodeName='node-[01-02]'" in said(ActionKind.RESTART_WITHOUT, "node-[01-02]")
    assert "scontrol" not in said(ActionKind.FIX_AND_RERUN, "node-[01-02]")
    assert "scontrol" not in said(ActionKind.RESTART_WITHOUT, "node'; rm -rf /'")


@given(st.text(max_size=120), st.integers(4, 60))
def test_wrapping_loses_nothing_but_blanks(text, width):
    lines = wrap(text, width)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(columns(line) <= width for line in lines)


LONG = "a collective that never ended because one rank of the tensor-parallel group was elsewhere " * 3


def full(build_diagnosis, words=LONG):
    """A diagnosis in which every part has more to say than a small screen holds."""
    base = build_diagnosis()
    links = [ChainLink(what=f"step {i}: {words}", why=words, evidence=base.chain[0].evidence) for i in range(9)]
    verdict = replace(
        base.verdict, summary=words, action=replace(base.verdict.action, steps=[f"{i} {words}" for i in range(6)])
    )
    return replace(
        base, verdict=verdict, chain=links, rivals=base.rivals * 4, naive=base.naive * 3, collect_next=[words] * 5
    )


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (120, 40)])
def test_on_a_terminal_it_fits_the_screen_and_still_says_what_it_must(build_diagnosis, width, height):
    diagnosis = full(build_diagnosis)
    text = publish(diagnosis, "text", "secrets", width=width, height=height)
    assert len(text.splitlines()) < height
    assert max(columns(line) for line in text.splitlines()) <= width
    shown = " ".join(text.split())
    for needed in (
        "FAILED",
        "rank 37 on node-04",
        "1. step 0",
        "error-4711-4.out:1893",
        "127 of 128 ranks",
        "1. 0 a",
        "exit code 1",
    ):
        assert needed in shown, needed


def test_off_a_terminal_the_page_is_as_long_as_it_is(build_diagnosis):
    diagnosis = full(build_diagnosis)
    page = publish(diagnosis, "text", "secrets", width=80)
    assert len(page.splitlines()) > 40
    assert publish(diagnosis, "text", "secrets", width=80, height=1000) == page


def test_parts_without_anything_to_say_leave_no_double_blank_lines(build_diagnosis):
    text = publish(build_diagnosis(chain=[], rivals=[], naive=[], key_lines=[]), "text", "secrets")
    assert "\n\n\n" not in text


def test_one_rank_is_not_called_ranks(build_diagnosis):
    alone = Ranks(seen=1)
    assert "1 rank seen; how many" in publish(build_diagnosis(ranks=alone), "text", "secrets")


def test_attempts_that_failed_alike_are_said_to(build_diagnosis):
    again = [Recurrence(attempts=[1, 2], what="Disk full", hosts=["node-04"])]
    text = publish(build_diagnosis(recurrence=again), "text", "secrets")
    assert "attempts 1-2 failed in the same way: Disk full; each time host node-04" in " ".join(text.split())


def test_no_acting_character_of_all_that_there_are_is_let_through():
    acting = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    every = map(chr, range(sys.maxunicode + 1))
    assert [hex(ord(c)) for c in every if unicodedata.category(c) in acting and c != "\t" and neutral(c) == c] == []
