"""Turns proposals into hits: finds the segment, asks the confirmer, drops what a better signature explains, folds.

The only place that decides what a hit is; it does not read files and knows nothing of engines or of the split of work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firstfault.model.patterns import Hit
from firstfault.readers.identity import body_starts, locate, stream_key
from firstfault.readers.inner import is_native_frame
from firstfault.readers.recall import style_of, usual_starts
from firstfault.readers.shape import shape_of
from firstfault.readers.sketch import sketch_of
from firstfault.scan.engines import SHIFT
from firstfault.scan.newlines import count_newlines, lines_of
from firstfault.scan.plan import dropped
from firstfault.scan.regions import STEP, WINDOW
from firstfault.scan.results import FIRST, LAST, Fold, Named, Part, name
from firstfault.scan.shapes import LONGEST

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from firstfault.model.place import Located
    from firstfault.readers.identity import SourceProfile
    from firstfault.readers.sketch import Sight
    from firstfault.scan.plan import Confirmed, Plan
    from firstfault.scan.regions import Region
    from firstfault.scan.shapes import Shapes

RAW = 8 * 1024
"""Bytes of a segment that a hit keeps; longer ones are cut around the match."""
_SHORT = 1024
"""Longest segment of which it is remembered what it holds."""
_KNOWN = 2048
"""Segments that are remembered at a time."""
_DIGITS = 8
"""A number of so many digits is no rank."""
_MASK = (1 << SHIFT) - 1


class Collector:
    """Collects the hits of one stretch of a source."""

    def __init__(self, plan: Plan, profile: SourceProfile, shapes: Shapes) -> None:
        """`shapes`: what was found in the lines of other stretches, and for the same plan."""
        self._plan = plan
        self._profile = profile
        self._style = style_of(profile)
        self._shapes = shapes
        self._places: dict[frozenset[int], bool] = {}
        self.part = Part(profile=profile)
        self._folds: dict[tuple[int, bytes], _Growing] = {}
        self._known: dict[bytes, tuple[list[int], Sequence[_Found]]] = {}
        self._line = 0
        self._line_start = 0

    def take(self, region: Region, proposals: list[int]) -> None:
        """Confirms the proposals of one region, and counts its bytes and newlines."""
        data = region.data
        for before, start, end, asked in lines_of(data, region.size, proposals, SHIFT):
            self._line = self.part.newlines + before
            self._line_start = region.offset + start if before else region.line_start
            if data.find(b"\r", start, end) < 0:
                self._segment(region, start, end, asked)
                continue
            for left, right, inner in _segments(data, start, end, asked):
                self._segment(region, left, right, inner)
        if region.used:
            self.part.newlines += count_newlines(data, 0, region.used)
            self.part.bytes += region.used
            self.part.unterminated = data[region.used - 1] != 0x0A

    def _segment(self, region: Region, start: int, end: int, asked: list[int]) -> None:
        first = region.segment_start if start == 0 else region.offset + start
        length = region.offset + end - first
        is_open = region.open_end and end == region.size
        if length <= WINDOW and not is_open:
            part = bytes(region.data[start:end])
            found = self._recall(part, [p & _MASK for p in asked])
            if found:
                self._keep(found, part, first, first)
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
            cut = stop < end or is_open
            found = self._in_window(part, windows[window], head=begin == first - region.offset, cut=cut)
            self._keep(found, part, first, region.offset + begin)

    def _recall(self, part: bytes, asked: list[int]) -> Sequence[_Found]:
        """The matches in a whole segment; equal lines, of which floods are made, are confirmed once, and so are those of a shape.

        Args:
            part: the segment.
            asked: signatures that were proposed, in order of place.
        """
        known = self._known.get(part)
        if known is not None and known[0] == asked:
            return known[1]
        found: Sequence[_Found] | None
        if len(part) < LONGEST and not is_native_frame(part):
            shape = shape_of(part)
            found = self._shapes.retell(shape, part, asked, self._style, self._profile)
            if found is None:
                found = self._of_shape(shape, part, asked)
        else:
            signatures = frozenset(asked)
            found = self._keyed(part, self._ask(part, signatures, self._starts(part, signatures))[0])
        found = self._once(part, found)
        if len(part) <= _SHORT:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[part] = (asked, found)
        return found

    def _starts(self, part: bytes, signatures: frozenset[int]) -> tuple[int, ...] | None:
        """Where messages may begin in a segment; None where that does not matter."""
        return body_starts(part, self._profile) if self._placed(signatures) else None

    def _keyed(self, part: bytes, matches: Iterable[tuple[int, Confirmed]]) -> list[_Found]:
        return [(s, match, stream_key(part, match.start, self._profile)) for s, match in matches]

    def _once(self, part: bytes, found: Sequence[_Found]) -> Sequence[_Found]:
        """Matches in one segment without those by which another pattern of a signature tells nothing beyond an earlier one.

        A line that says one thing in two ways, `[Errno 5] Input/output error`, is one line; one that says the same twice
        is two that were glued.
        """
        if len({signature for signature, _, _ in found}) == len(found):
            return found
        kept: list[_Found] = []
        before: dict[tuple[int, bytes], list[Confirmed]] = {}
        for signature, match, who in found:
            others = before.setdefault((signature, who if isinstance(who, bytes) else who.key), [])
            if self._plan.confirmer(signature).several and any(
                part[other.start : other.end] != part[match.start : match.end]
                and match.fields.items() <= other.fields.items()
                for other in others
            ):
                continue
            others.append(match)
            kept.append((signature, match, who))
        return kept

    def _of_shape(self, shape: bytes, part: bytes, asked: list[int]) -> Sequence[_Found]:
        signatures = frozenset(asked)
        starts = self._starts(part, signatures)
        told = starts is None or usual_starts() is not None
        matches = self._shapes.recall(shape, part, signatures, starts)
        if matches is None:
            matches, lasting = self._ask(part, signatures, starts)
            self._shapes.keep(shape, signatures, starts, matches, lasting=lasting)
        elif told:
            sketch = sketch_of(part, [match.start for _, match in matches], self._profile)
            if sketch is not None:
                self._shapes.draw(shape, asked, self._style, sketch)
        return self._keyed(part, matches)

    def _in_window(self, part: bytes, signatures: set[int], *, head: bool, cut: bool) -> Sequence[_Found]:
        """The matches in a window of a long segment, without those that belong to the next window.

        Args:
            part: the bytes.
            signatures: those that were proposed.
            head: whether `part` begins where its segment does.
            cut: whether the segment goes on behind it; then what ends with it may only seem to.
        """
        starts: tuple[int, ...] | None = None
        if self._placed(frozenset(signatures)):
            starts = body_starts(part, self._profile)
            starts = starts if head else tuple(s for s in starts if s != 0)
        matches, _ = self._ask(part, signatures, starts, until=STEP, within=len(part) - cut)
        return self._once(part, self._keyed(part, matches))

    def _placed(self, signatures: frozenset[int]) -> bool:
        """Whether it matters to one of some signatures where messages start."""
        known = self._places.get(signatures)
        if known is None:
            known = self._places[signatures] = any(self._plan.confirmer(s).placed for s in signatures)
        return known

    def _ask(
        self,
        part: bytes,
        signatures: Iterable[int],
        starts: tuple[int, ...] | None,
        until: int | None = None,
        within: int = 0,
    ) -> tuple[list[tuple[int, Confirmed]], bool]:
        """The matches in some bytes that nothing better explains, and whether they are those of all lines of this shape.

        Args:
            part: the bytes.
            signatures: those that were proposed.
            starts: positions at which a message may begin; None where that does not matter.
            until: matches that start here or later are left out.
            within: with `until`, matches that end behind this place are left out too.
        """
        plan = self._plan
        found: dict[int, Sequence[Confirmed]] = {}
        lasts = True
        for signature in sorted(signatures):
            matches, lasting = plan.confirmer(signature).look(part, starts or ())
            lasts = lasts and lasting
            if until is not None:
                matches = [m for m in matches if m.start < until and m.end <= within]
            if matches:
                found[signature] = matches
        if len(found) > 1:
            gone = dropped(plan, found)
            found = {s: m for s, m in found.items() if s not in gone}
        return [(s, match) for s, m in found.items() for match in m], lasts

    def _keep(self, found: Sequence[_Found], part: bytes, segment: int, offset: int) -> None:
        for signature, match, speaker in found:
            key = speaker if isinstance(speaker, bytes) else speaker.key
            fold = self._folds.get((signature, key))
            if fold is None:
                fold = self._folds[signature, key] = _Growing()
            fold.count += 1
            fields = match.fields
            rank = fields.get("rank") or fields.get("task", "")
            if rank.isascii() and rank.isdigit() and len(rank) < _DIGITS:
                name(fold.named, int(rank), segment, segment, fields.get("host", ""))
            place = _Place(match, part, segment, offset, self._line, self._line_start, speaker)
            if len(fold.first) < FIRST:
                fold.first.append(self._hit(signature, key, place, fields))
                continue
            # Of a flood all but the last few are only counted: a hit is made of them at the end, unless it is long.
            fold.last.append(place if len(part) <= RAW else self._hit(signature, key, place, fields))
            if len(fold.last) > LAST:
                del fold.last[0]

    def _hit(self, signature: int, key: bytes, place: _Place, fields: dict[str, str]) -> Hit:
        part, match = place.part, place.match
        cut = 0 if len(part) <= RAW else max(0, min(match.start - RAW // 2, len(part) - RAW))
        whole = len(part) <= RAW and place.offset == place.segment
        raw = part if whole else part[cut : cut + RAW]
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
            fields=fields,
            place=self._located(place) if whole else None,
        )

    def _located(self, place: _Place) -> Located:
        if isinstance(place.speaker, bytes):
            return locate(place.part, place.match.start, self._profile)
        return place.speaker.located()

    def finish(self) -> Part:
        """What was collected."""
        ids = self._plan.ids
        for (signature, key), fold in self._folds.items():
            last = [p if isinstance(p, Hit) else self._hit(signature, key, p, p.match.fields) for p in fold.last]
            # The last ones of a short fold are among the first, where they are hits already.
            self.part.folds[ids[signature], key] = Fold(
                fold.count, fold.first, [*fold.first, *last][-LAST:], fold.named
            )
        self._folds.clear()
        return self.part


def _segments(data: bytearray, start: int, end: int, asked: list[int]) -> Iterator[tuple[int, int, list[int]]]:
    """The parts of a line between carriage returns in which places lie."""
    left, right = start, start - 1
    inner: list[int] = []
    for place in asked:
        at = place >> SHIFT
        if at <= right:
            inner.append(place)
            continue
        if inner:
            yield left, right, inner
        left = max(start, data.rfind(b"\r", start, at) + 1)
        right = data.find(b"\r", at, end)
        right = end if right < 0 else right
        inner = [place]
    if inner:
        yield left, right, inner


_Found = tuple[int, "Confirmed", "bytes | Sight"]
"""Signature, match, and who speaks: the stream key, or more where the shape of the line tells it."""


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
    speaker: bytes | Sight


class _Growing:
    """A fold while it grows."""

    __slots__ = ("count", "first", "last", "named")

    def __init__(self) -> None:
        self.count = 0
        self.first: list[Hit] = []
        self.last: list[_Place | Hit] = []
        """The last ones of those that are not among the first."""
        self.named: Named = {}
