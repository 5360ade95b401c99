"""Reads which ranks speak at all in the logs of a hang that names nobody; bounded effort.

What follows from it is said in `firstfault.analysis.roll`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field

from firstfault.analysis.last_words import lived
from firstfault.analysis.roll import absent, absent_files, arrived, circled, circling, missed, other_of_two, unaccounted
from firstfault.model.evidence import Event, GlobalRank
from firstfault.model.lazy import lazy
from firstfault.model.words import Mark
from firstfault.pipelines.last_words import recent_words
from firstfault.readers.identity import locate
from firstfault.readers.lines import last_part, lines_from, number_at, said_in_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import SourceId, Who
    from firstfault.pipelines.ground import Ground
    from firstfault.readers.identity import SourceProfile
    from firstfault.readers.lines import Line, TextStore

_NUMBER = lazy(r"\d+")
REACH = 1 << 20
"""Bytes before the first line about the wait, and as many behind the last, in which ranks are listened to."""
LATE_BYTES = 64 << 10
"""Bytes before the first line about the wait in which a line that comes over and over is looked for."""
AGAIN = 3
"""How often a line must come on each side of the wait to be one that its rank prints over and over."""
MOST_BYTES = 4 << 20
"""Of all sources together."""


class _Line(NamedTuple):
    """A line of a rank, and where it stands."""

    source: SourceId
    line: Line
    who: Who


class Spoke(Struct):
    """What the logs hold of the ranks that are labelled in them."""

    before: set[GlobalRank] = field(default_factory=set)
    """Ranks with a line above the first one about a wait in its file."""
    behind: dict[GlobalRank, Event] = field(default_factory=dict)
    """The first line of each rank behind the last one about a wait in its file."""
    above: dict[GlobalRank, dict[str, list[_Line]]] = field(default_factory=dict)
    """Of each rank the lines shortly above the first wait, by their words without numbers; the first few of each."""
    again: dict[GlobalRank, dict[str, int]] = field(default_factory=dict)
    """How often such words came behind the last wait."""
    local: bool = False
    """Whether a number of these two is of a rank of its machine, of which it is not told whether it is the global one."""

    def rounds(self) -> dict[GlobalRank, _Line]:
        """The first line of each rank that printed lines of one kind again and again above the wait, and nothing else behind it.

        A line that ranks print too which did not go on is no loop of these: a monitor prints it beside the program.
        """
        found: dict[GlobalRank, _Line] = {}
        kinds: set[str] = set()
        for rank, after in self.again.items():
            words = next(iter(after), "")
            before = self.above.get(rank, {}).get(words, [])
            if len(after) == 1 and after[words] >= AGAIN and len(before) >= AGAIN:
                found[rank] = before[0]
                kinds.add(words)
        common = any(kinds & said.keys() for rank, said in self.above.items() if rank not in found)
        return {} if common else found


def heed_roll(
    scene: Scene,
    answer: Answer,
    ground: Ground,
) -> tuple[Answer, dict[SourceId, GlobalRank]]:
    """The answer about a hang that names nobody, with the few ranks that speak and do not wait.

    Returns:
        The answer, and the files that were taken for those of ranks by their names alone.
    """
    store, profiles, _ = ground
    seen = unaccounted(scene, answer)
    if seen is None:
        return answer, {}
    files = absent_files(seen)
    if files:
        return missed(seen, tuple(sorted(files.values()))), files
    spoke = _listen(scene, store, profiles)
    speakers = {*spoke.before, *spoke.behind}
    ranks = absent(seen, speakers)
    if not ranks and (pair := other_of_two(seen, spoke.before)):
        words = recent_words(scene, pair, ground)
        if any(lived(scene, lines) for lines in words.values()):
            return missed(seen, pair), {}
    if not ranks:
        rounds = {r: _said("rank.rounds", store, said) for r, said in spoke.rounds().items()}
        named = not spoke.local
        return (circled(seen, rounds, named=named) if circling(seen, rounds, named=named) else answer), {}
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
            segment = last_part(line)
            who = locate(segment, len(segment), profiles[source]).who if segment.strip() else None
            rank = None if who is None else scene.roster.rank_of(who, source, {})
            place = rank if rank is not None or who is None or who.local_rank is None else GlobalRank(who.local_rank)
            if place is None or who is None:
                continue
            spoke.local = spoke.local or rank is None
            said = _Line(source, line, who)
            if line.offset < first:
                if rank is not None:
                    spoke.before.add(rank)
                if first - line.offset <= LATE_BYTES:
                    kept = spoke.above.setdefault(place, {}).setdefault(_words(segment), [])
                    if len(kept) < AGAIN:
                        kept.append(said)
            elif line.offset > last:
                counts, words = spoke.again.setdefault(place, {}), _words(segment)
                counts[words] = counts.get(words, 0) + 1
                if rank is not None and rank not in spoke.behind:
                    spoke.behind[rank] = _said("rank.arrived", store, said)
        if left <= 0:
            break
    return spoke


def _words(segment: bytes) -> str:
    return _NUMBER.sub("#", segment.decode("utf-8", "backslashreplace")[:400])


def _said(name: str, store: TextStore, said: _Line) -> Event:
    number = number_at(store, said.source, said.line.offset)
    return said_in_line(name, said.source, said.line._replace(number=number), said.who)
