"""Reads which ranks speak at all in the logs of a hang that names nobody; bounded effort.

What follows from it is said in `firstfault.analysis.roll`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from firstfault.analysis.roll import absent, absent_files, arrived, missed, unaccounted
from firstfault.model.evidence import Event, GlobalRank, Span, When
from firstfault.model.words import Mark
from firstfault.readers.identity import locate
from firstfault.readers.lines import lines_from

if TYPE_CHECKING:
    from collections.abc import Mapping

    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import SourceId
    from firstfault.readers.identity import SourceProfile
    from firstfault.readers.lines import TextStore

REACH = 1 << 20
"""Bytes before the first line about the wait, and as many behind the last, in which ranks are listened to."""
MOST_BYTES = 4 << 20
"""Of all sources together."""


class Spoke(Struct):
    """What the logs hold of the ranks that are labelled in them."""

    before: set[GlobalRank] = field(default_factory=set)
    """Ranks with a line above the first one about a wait in its file."""
    behind: dict[GlobalRank, Event] = field(default_factory=dict)
    """The first line of each rank behind the last one about a wait in its file."""


def heed_roll(
    scene: Scene, answer: Answer, store: TextStore, profiles: Mapping[SourceId, SourceProfile]
) -> tuple[Answer, dict[SourceId, GlobalRank]]:
    """The answer about a hang that names nobody, with the few ranks that speak and do not wait.

    Returns:
        The answer, and the files that were taken for those of ranks by their names alone.
    """
    seen = unaccounted(scene, answer)
    if seen is None:
        return answer, {}
    files = absent_files(seen)
    if files:
        return missed(seen, tuple(sorted(files.values()))), files
    spoke = _listen(scene, store, profiles)
    ranks = absent(seen, {*spoke.before, *spoke.behind})
    if not ranks:
        return answer, {}
    answer = missed(seen, ranks)
    late = {r: spoke.behind[r] for r in ranks if r in spoke.behind and r not in spoke.before}
    return arrived(answer, late), {}


def _listen(scene: Scene, store: TextStore, profiles: Mapping[SourceId, SourceProfile]) -> Spoke:
    spoke = Spoke()
    waits: dict[SourceId, list[int]] = {}
    for event in scene.marked(Mark.HANG, Mark.STATE, Mark.ABORT):
        waits.setdefault(event.span.source, []).append(event.span.offset)
    left = MOST_BYTES
    for source in sorted(profiles, key=lambda s: (s not in waits, s)):
        size = store.size(source)
        first, last = min(waits.get(source, [size])), max(waits.get(source, [size]))
        start, end = max(0, first - REACH), min(size, last + REACH, max(0, first - REACH) + left)
        left -= max(0, end - start)
        for line in lines_from(store, source, start, 1, end - start):
            segment = line.text.rsplit(b"\r", 1)[-1]
            who = locate(segment, len(segment), profiles[source]).who if segment.strip() else None
            rank = None if who is None else scene.roster.rank_of(who, source, {})
            if rank is None or who is None:
                continue
            if line.offset < first:
                spoke.before.add(rank)
            elif line.offset > last and rank not in spoke.behind:
                number = _number(store, source, line.offset)
                text = segment.decode("utf-8", "backslashreplace")[:4096]
                begin = len(line.text) - len(segment)
                span = Span(source, line.offset + begin, len(segment), number, begin + 1)
                spoke.behind[rank] = Event(signature="rank.arrived", span=span, text=text, who=who, when=When())
        if left <= 0:
            break
    return spoke


def _number(store: TextStore, source: SourceId, offset: int) -> int:
    """Line number at an offset."""
    return 1 + sum(store.read(source, at, min(REACH, offset - at)).count(b"\n") for at in range(0, offset, REACH))
