"""Turns proposals into hits: finds the segment, asks the confirmer, drops what a better signature explains, folds.

The only place that decides what a hit is; it does not read files and knows nothing of engines or of the split of work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.patterns import Hit
from firstfault.readers.identity import body_starts, stream_key
from firstfault.scan.engines import SHIFT
from firstfault.scan.newlines import count_newlines
from firstfault.scan.regions import STEP, WINDOW
from firstfault.scan.results import FIRST, LAST, Fold, Part

if TYPE_CHECKING:
    from collections.abc import Iterable

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
        starts = body_starts(part, self._profile)
        if offset != segment:
            starts = tuple(s for s in starts if s != 0)
        found: dict[int, list[Confirmed]] = {}
        for signature in signatures:
            matches = [m for m in plan.confirmer(signature).find(part, starts) if whole or m.start < STEP]
            if matches:
                found[signature] = matches
        if not found:
            return
        if len(found) > 1:
            dropped = {general for signature in found for general in plan.drops[signature]}
            if not plan.generic.issuperset(found):
                dropped |= plan.generic
            found = {s: m for s, m in found.items() if s not in dropped}
        for signature, matches in found.items():
            for match in matches:
                self._keep(plan.ids[signature], part, segment, offset, match)

    def _keep(self, name: str, part: bytes, segment: int, offset: int, match: Confirmed) -> None:
        key = stream_key(part, match.start, self._profile)
        fold = self.part.folds.get((name, key))
        if fold is None:
            fold = self.part.folds[name, key] = Fold()
        cut = 0 if len(part) <= RAW else max(0, min(match.start - RAW // 2, len(part) - RAW))
        raw = part[cut : cut + RAW]
        hit = Hit(
            signature=name,
            line=self._line + 1,
            offset=segment,
            column=offset + match.start - self._line_start + 1,
            raw=raw,
            raw_offset=offset + cut,
            match_start=match.start - cut,
            match_end=min(match.end - cut, len(raw)),
            key=key,
            fields=dict(match.fields),
        )
        fold.count += 1
        if len(fold.first) < FIRST:
            fold.first.append(hit)
        fold.last = [*fold.last[-(LAST - 1) :], hit]
