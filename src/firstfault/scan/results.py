"""What a scan gives: per source the size, the number of lines, the kept hits and how many there were.

Floods are folded: of the hits of one signature by one speaker in one source the first `FIRST` and the last `LAST` are
kept. Folds of consecutive parts of a source join to the fold of the whole, so that no split of the work can be seen.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from firstfault.model.evidence import SourceId
from firstfault.model.patterns import Hit
from firstfault.readers.identity import SourceProfile

if TYPE_CHECKING:
    from collections.abc import Iterable

FIRST = 4
LAST = 2
MOST_NAMED = 1 << 17
"""Ranks that are noted of one fold; a number from here on is no rank."""

Tally = tuple[str, bytes]
"""Signature id and stream key."""
Named = dict[int, tuple[int, int, str]]
"""By a rank that a line names: offsets of the first and the last such line, and the host that the last one names."""


class SourceScan(Struct, frozen=True, kw_only=True):
    """What was found in one source."""

    source: SourceId
    bytes: int
    """Bytes that were scanned."""
    lines: int
    """Newlines, and one more where the last line has none."""
    hits: tuple[Hit, ...] = ()
    """Kept hits by offset."""
    tallies: dict[Tally, int] = {}
    """Number of all hits, kept or folded."""
    named: dict[Tally, Named] = {}
    """Ranks (else a scheduler's tasks) that the hits name, kept or folded, of folds of more than are kept."""
    damage: str = ""
    """Why the end was not reached; empty where it was."""
    profile: SourceProfile | None = None
    """Label style of the source; None where nothing of it could be read."""
    unterminated: bool = False
    """Whether the last line has no end."""


class ScanResult(Struct, frozen=True, kw_only=True):
    """The scans of all sources that hold text."""

    sources: tuple[SourceScan, ...]
    """By source id."""
    engine: str
    """Which engine proposed; for chatter, never for an answer."""
    complete: bool = True
    """False where the scan was stopped before its end."""

    def of(self, source: SourceId) -> SourceScan | None:
        """Scan of one source; None where it was not scanned."""
        # By source id, so that the place is found by halving: a job may leave tens of thousands of files.
        at = bisect_left(self.sources, source, key=lambda s: s.source)
        return self.sources[at] if at < len(self.sources) and self.sources[at].source == source else None


class Fold(Struct):
    """The hits of one signature by one speaker in one part of a source."""

    count: int = 0
    first: list[Hit] = []
    last: list[Hit] = []
    """The last ones of all, also where they are among the first."""
    named: Named = {}
    """Ranks that any of them names: what many say alike of themselves is one fold, whatever their number."""


class Part(Struct):
    """What was found in one stretch of a source; lines count from 0 at its start."""

    bytes: int = 0
    newlines: int = 0
    unterminated: bool = False
    profile: SourceProfile | None = None
    """Label style of the source, told from its head."""
    folds: dict[Tally, Fold] = {}
    damage: str = ""


def joined(source: SourceId, parts: Iterable[Part]) -> SourceScan:
    """The scan of a source from its consecutive parts, which are used up."""
    rest = iter(parts)
    total = next(rest, None) or Part()
    for part in rest:
        _append(total, part)
    hits = [hit for fold in total.folds.values() for hit in _kept(fold)]
    return SourceScan(
        source=source,
        bytes=total.bytes,
        lines=total.newlines + total.unterminated,
        hits=tuple(sorted(hits, key=lambda h: (h.offset, h.column, h.signature, h.key))),
        tallies={key: total.folds[key].count for key in sorted(total.folds)},
        named={
            key: fold.named for key, fold in sorted(total.folds.items()) if fold.named and fold.count > FIRST + LAST
        },
        damage=total.damage,
        profile=total.profile,
        unterminated=total.unterminated,
    )


def _append(total: Part, part: Part) -> None:
    base = total.newlines
    for key, fold in part.folds.items():
        known = total.folds.setdefault(key, Fold())
        room = FIRST - len(known.first)
        known.first.extend(_moved(hit, base) for hit in fold.first[:room])
        known.last = [*known.last, *(_moved(hit, base) for hit in fold.last)][-LAST:]
        known.count += fold.count
        for rank, (first, last, host) in fold.named.items():
            name(known.named, rank, first, last, host)
    total.bytes += part.bytes
    total.newlines += part.newlines
    total.unterminated = part.unterminated
    total.damage = total.damage or part.damage
    total.profile = total.profile or part.profile


def name(named: Named, rank: int, first: int, last: int, host: str) -> None:
    """Notes that lines from one offset to another name a rank; they come in order of offset."""
    known = named.get(rank)
    if known is not None:
        named[rank] = (known[0], last, host or known[2])
    elif rank < MOST_NAMED:
        named[rank] = (first, last, host)


def _moved(hit: Hit, lines: int) -> Hit:
    return hit if lines == 0 else replace(hit, line=hit.line + lines)


def _kept(fold: Fold) -> list[Hit]:
    if fold.count == 1:
        return fold.first  # as it is: the first and only one
    front = [replace(hit, count=fold.count, ordinal=i) for i, hit in enumerate(fold.first)]
    behind = min(len(fold.last), max(0, fold.count - len(front)))
    back = fold.last[len(fold.last) - behind :]
    return front + [replace(hit, count=fold.count, ordinal=i - behind) for i, hit in enumerate(back)]
