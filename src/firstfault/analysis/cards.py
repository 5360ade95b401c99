"""Which rank computed on the card that a kernel line names: by lines that state both the card's address and the rank.

Only a stated map joins them; the number of a card in `nvidia-smi`, or the order of addresses, says nothing of ranks.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firstfault.model.evidence import GlobalRank
from firstfault.model.lazy import lazy
from firstfault.model.words import Mark

if TYPE_CHECKING:
    from collections.abc import Callable

    from firstfault.analysis.scene import Scene
    from firstfault.analysis.suspects import Suspect
    from firstfault.model.evidence import Event

_ADDRESS = lazy(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.[0-7])?")
_NUMBER = lazy(r"[0-9a-fA-F]{4,10}")

Address = tuple[int, int, int]
"""Domain, bus and device; the function is left out, since a card has one."""


def address(text: str) -> Address | None:
    """Address of a card on its PCI bus, as the kernel writes it (`0000:db:00.0`) or as NCCL does (`db000`)."""
    found = _ADDRESS.fullmatch(text.strip())
    if found is not None:
        return (int(found[1] or "0", 16), int(found[2], 16), int(found[3], 16))
    if _NUMBER.fullmatch(text) is None:
        return None
    number = int(text, 16)
    return (number >> 20, (number >> 12) & 0xFF, (number >> 4) & 0xFF)


def rank_of_card(scene: Scene, suspect: Suspect) -> tuple[GlobalRank, str, Event] | None:
    """The rank on the one card that a suspect's lines name, with its host and the line that states the map.

    None where the lines name no card or several, no line states its rank, or lines contradict each other.
    """
    named = {(h, a) for e in suspect.events if (a := address(e.fields.get("pci", ""))) and (h := scene.roster.host(e))}
    if len(named) != 1:
        return None
    host, card = next(iter(named))
    found = rank_at(scene, host, card)
    return None if found is None else (found[0], host, found[1])


def rank_at(scene: Scene, host: str, card: Address) -> tuple[GlobalRank, Event] | None:
    """The rank on the card at an address of a host, with the line that states it; None where none does, or lines differ."""
    return _stated(scene, host, lambda e: address(e.fields.get("pci", "")) == card)


def rank_at_index(scene: Scene, host: str, index: int) -> tuple[GlobalRank, Event] | None:
    """The rank on the card that the driver's tools count as `index`: NCCL states that number beside the rank."""
    return _stated(scene, host, lambda e: e.fields.get("nvml_device") == str(index))


def _stated(scene: Scene, host: str, fits: Callable[[Event], bool]) -> tuple[GlobalRank, Event] | None:
    found: dict[GlobalRank, Event] = {}
    for event in scene.events:
        if not scene.case.has(event, Mark.IDENTITY) or not fits(event) or not _same(scene.roster.host(event), host):
            continue
        rank = _rank(scene, event)
        if rank is not None:
            found.setdefault(rank, event)
    return next(iter(found.items())) if len(found) == 1 else None


def _rank(scene: Scene, event: Event) -> GlobalRank | None:
    """Rank that an identity line states; the rank in a communicator is the global one where it spans the whole world."""
    rank = scene.roster.rank(event)
    if rank is not None:
        return rank
    size, own = event.fields.get("size", ""), event.fields.get("group_rank", "")
    if own.isdecimal() and size.isdecimal() and int(size) == _world(scene):
        return GlobalRank(int(own))
    return None


def _world(scene: Scene) -> int | None:
    """The size of the world: as stated, else that of the communicator which holds every process that joined any."""
    if scene.complete.expected is not None:
        return scene.complete.expected
    joined = [e for e in scene.events if scene.case.has(e, Mark.IDENTITY) and e.fields.get("size", "").isdecimal()]
    processes = {(scene.roster.host(e), e.fields.get("pid")) for e in joined}
    largest = max((int(e.fields["size"]) for e in joined), default=0)
    return largest if largest and len(processes) == largest else None


def _same(a: str | None, b: str) -> bool:
    return a is not None and re.split(r"\.", a, maxsplit=1)[0] == re.split(r"\.", b, maxsplit=1)[0]
