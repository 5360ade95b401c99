"""Turns proposals into hits: finds the segment, asks the confirmer, drops what a better signature explains, folds.

The only place that decides what a hit is; it does not read files and knows nothing of engines or of the split of work.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from firstfault.model.patterns import Hit
from firstfault.readers.identity import body_starts, stream_key
from firstfault.scan.engines import SHIFT
from firstfault.scan.newlines import count_newlines
from firstfault.scan.regions import STEP, WINDOW
from firstfault.scan.results import FIRST, LAST, Fold, Part

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from firstfault.readers.identity import SourceProfile
    from firstfault.scan.plan import Confirmed, Plan
    from firstfault.scan.regions import Region

RAW = 8 * 1024
"""Bytes of a segment that a hit keeps; longer ones are cut around the match."""
_MASK = (1 << SHIFT) - 1


class Collector:
    """Collects the hits of one stretch of a source."""

    def __init__(self, plan: Plan, profile: SourceProfile) -> None:
        self._plan = plan
        self._profile = profile
        self.part = Part()
        self._folds: dict[tuple[int, bytes], _Growing] = {}
        self._line = 0
        self._line_start = 0
        self._counted = 0

    def take(self, region: Region, proposals: list[int]) -> None:
        """Confirms the proposals of one region, and counts its bytes and newlines."""
        data, size = region.data, region.size
        self._line, self._counted = self.part.newlines, 0
        self._line_start = region.line_start
        start = floor = 0
        end = -1
        asked: list[int] = []
        for proposal in proposals:
            at = proposal >> SHIFT
            if at < end:
                asked.append(proposal)
                continue
            if asked:
                self._segment(region, start, end, asked)
                asked = []
            if data[at] in b"\r\n":
                continue
            start, end = self._borders(region, floor, at)
            floor = end
            asked.append(proposal)
        if asked:
            self._segment(region, start, end, asked)
        if region.used:
            self.part.newlines += count_newlines(data, 0, region.used)
            self.part.bytes += region.used
            self.part.unterminated = data[region.used - 1] != 0x0A
        del data, size

    def _borders(self, region: Region, floor: int, at: int) -> tuple[int, int]:
        """Start and end of the segment around a position; keeps line number and start up to date."""
        data, size = region.data, region.size
        newline = data.rfind(b"\n", floor, at)
        if newline >= 0:
            self._line_start = region.offset + newline + 1
            self._line += count_newlines(data, self._counted, newline + 1)
            self._counted = newline + 1
        start = max(newline, data.rfind(b"\r", max(newline, floor), at)) + 1
        end = data.find(b"\n", at, size)
        end = size if end < 0 else end
        carriage = data.find(b"\r", at, end)
        return start, (end if carriage < 0 else carriage)

    def _segment(self, region: Region, start: int, end: int, asked: list[int]) -> None:
        first = region.segment_start if start == 0 else region.offset + start
        length = region.offset + end - first
        is_open = region.open_end and end == region.size
        if length <= WINDOW and not is_open:
            signatures = {p & _MASK for p in asked}
            self._confirm(bytes(region.data[start:end]), first, first, signatures, whole=True)
            return
        windows: dict[int, set[int]] = {}
        for proposal in asked:
            bucket = (region.offset + (proposal >> SHIFT) - first) // STEP
            for window in {max(0, bucket - 1), bucket}:
                windows.setdefault(window, set()).add(proposal & _MASK)
        for window in sorted(windows):
            begin = first + window * STEP - region.offset
            stop = begin + WINDOW
            if begin < 0 or (is_open and stop > end):
                continue  # the region before has it whole, or the next one will
            part = bytes(region.data[begin : min(stop, end)])
            self._confirm(part, first, region.offset + begin, windows[window], whole=False)

    def _confirm(self, part: bytes, segment: int, offset: int, signatures: Iterable[int], *, whole: bool) -> None:
        """Confirms signatures in a segment, or in a window of a long one (then matches that start in its first half)."""
        plan = self._plan
        starts: tuple[int, ...] | None = None
        found: dict[int, Sequence[Confirmed]] = {}
        for signature in signatures:
            confirmer = plan.confirmer(signature)
            if starts is None and confirmer.anchored:
                starts = body_starts(part, self._profile)
                starts = starts if offset == segment else tuple(s for s in starts if s != 0)
            matches = confirmer.find(part, starts or ())
            if matches and not whole:
                matches = [m for m in matches if m.start < STEP]
            if matches:
                found[signature] = matches
        if len(found) > 1:
            dropped = {general for signature in found for general in plan.drops[signature]}
            if not plan.generic.issuperset(found):
                dropped |= plan.generic
            found = {s: m for s, m in found.items() if s not in dropped}
        for signature, matches in found.items():
            for match in matches:
                self._keep(signature, _Place(match, part, segment, offset, self._line, self._line_start))

    def _keep(self, signature: int, place: _Place) -> None:
        key = stream_key(place.part, place.match.start, self._profile)
        fold = self._folds.get((signature, key))
        if fold is None:
            fold = self._folds[signature, key] = _Growing()
        fold.count += 1
        if len(fold.first) < FIRST:
            fold.first.append(self._hit(signature, key, place))
        # Of a flood all but the last few are only counted: a hit is made of them at the end, unless the line is long.
        fold.last.append(place if len(place.part) <= RAW else self._hit(signature, key, place))

    def _hit(self, signature: int, key: bytes, place: _Place) -> Hit:
        part, match = place.part, place.match
        cut = 0 if len(part) <= RAW else max(0, min(match.start - RAW // 2, len(part) - RAW))
        raw = part[cut : cut + RAW]
        return Hit(
            signature=self._plan.ids[signature],
            line=place.line + 1,
            offset=place.segment,
            column=place.offset + match.start - place.line_start + 1,
            raw=raw,
            raw_offset=place.offset + cut,
            match_start=match.start - cut,
            match_end=min(match.end - cut, len(raw)),
            key=key,
            fields=dict(match.fields),
        )

    def finish(self) -> Part:
        """What was collected."""
        for (signature, key), fold in self._folds.items():
            last = [p if isinstance(p, Hit) else self._hit(signature, key, p) for p in fold.last]
            self.part.folds[self._plan.ids[signature], key] = Fold(fold.count, fold.first, last)
        self._folds.clear()
        return self.part


class _Place(NamedTuple):
    """Where a match is: enough to make a hit of it later."""

    match: Confirmed
    part: bytes
    """The segment, or the window of it."""
    segment: int
    """Absolute offset of the segment."""
    offset: int
    """Absolute offset of `part`."""
    line: int
    line_start: int


class _Growing:
    """A fold while it grows."""

    __slots__ = ("count", "first", "last")

    def __init__(self) -> None:
        self.count = 0
        self.first: list[Hit] = []
        self.last: deque[_Place | Hit] = deque(maxlen=LAST)
