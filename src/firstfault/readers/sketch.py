"""Who speaks, and when, in a line of which the shape is known: by the places of the facts, without reading its prefixes again.

A sketch is made of what `firstfault.readers.identity` reads in one line; of the next line of the shape it tells the same
as that would, or nothing, where the line is laid out otherwise. It judges nothing and knows no signature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firstfault.model.place import Located
from firstfault.readers.identity import best_stamp, chains_at, locate, speaker_in, with_name
from firstfault.readers.recall import LONGEST, read_chain, read_parts, style_of, usual_layouts
from firstfault.readers.shape import shape_of

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Sequence

    from firstfault.model.evidence import Who
    from firstfault.model.place import Stamp
    from firstfault.readers.chain import Layout
    from firstfault.readers.identity import SourceProfile

    Stamps = list[tuple[str, re.Match[bytes]]]

MOST = 4096
"""Shapes of which it is remembered what time their lines tell."""


class _Spot(NamedTuple):
    """What is the same at one place of all lines of a shape."""

    part: int
    """Index of the layout of the part of the line; 0 where that is the line's own."""
    body: int
    level: str | None


class Sight:
    """Who speaks at one place of one line; the rest of what it tells there is made when it is asked for."""

    __slots__ = ("_profile", "_spot", "_stamps", "_who", "key")

    def __init__(self, told: tuple[Who, bytes], spot: _Spot, stamps: Sequence[Stamps], profile: SourceProfile) -> None:
        """`told`: who speaks, and the stream key of that."""
        self._who, self.key = told
        self._spot = spot
        self._stamps = stamps
        self._profile = profile

    def located(self) -> Located:
        """As `locate` gives it."""
        part, body, level = self._spot
        stamp = _stamp_of(self._stamps, part)
        return Located(with_name(self._who, self._profile), body, stamp, level, self.key)


def _stamp_of(stamps: Sequence[Stamps], part: int) -> Stamp | None:
    return best_stamp(stamps[:1] if part == 0 else (stamps[0], stamps[part]))


class Sketch:
    """How lines of one shape tell who speaks at some places of them."""

    __slots__ = ("_layouts", "_order", "_spots")

    def __init__(self, layouts: Sequence[Layout], spots: Sequence[_Spot], order: Sequence[int]) -> None:
        """`order`: for each place that was asked for the index of its spot."""
        self._layouts = layouts
        self._spots = spots
        self._order = order

    def read(self, segment: bytes, profile: SourceProfile) -> list[Sight] | None:
        """Who speaks at each of the places in another line of the shape; None where it is not laid out so.

        Args:
            segment: the line, or the part of it between carriage returns.
            profile: of the source; one that `style_of` finds equal to that of the line of which the sketch was made.
        """
        stamps = self._stamps_in(segment)
        if stamps is None:
            return None
        if not self._spots:
            return []
        line = self._layouts[0].filled(segment, stamps[0])
        sights = []
        for spot in self._spots:
            part = line if spot.part == 0 else self._layouts[spot.part].filled(segment, stamps[spot.part])
            sights.append(Sight(speaker_in(segment, line, part), spot, stamps, profile))
        return [sights[n] for n in self._order]

    def stamp(self, segment: bytes) -> tuple[Stamp | None] | None:
        """The time stamp at the first of the places in another line of the shape; None where it is not laid out so."""
        stamps = self._stamps_in(segment)
        return None if stamps is None else (_stamp_of(stamps, self._spots[0].part),)

    def _stamps_in(self, segment: bytes) -> list[Stamps] | None:
        """The time stamps of all its parts."""
        stamps = []
        for layout in self._layouts:
            held = layout.stamps_in(segment)
            if held is None:
                return None
            stamps.append(held)
        return stamps


def sketch_of(segment: bytes, positions: Iterable[int], profile: SourceProfile) -> Sketch | None:
    """How lines of the shape of this one tell who speaks at some positions; None where its shape does not tell."""
    parts = read_parts(segment, read_chain(segment, 0, profile), profile)
    layouts = usual_layouts()
    if layouts is None:
        return None
    spots = []
    for position in positions:
        place, (_, part) = locate(segment, position, profile), chains_at(segment, position, profile)
        which = next((n for n, chain in enumerate(parts, start=1) if chain is part), 0)
        spots.append(_Spot(which, place.body, place.level))
    few = list(dict.fromkeys(spots))
    return Sketch(layouts, few, [few.index(spot) for spot in spots])


class _Ends:
    """Sketches of the ends of lines that are remembered in this process."""

    def __init__(self) -> None:
        self.styles: dict[tuple[object, ...], dict[bytes, Sketch | None]] = {}
        self.profile: SourceProfile | None = None
        self.known: dict[bytes, Sketch | None] = {}
        """Of sources that look like the last one; None where lines of the shape were read before, but no sketch could be made."""
        self.count = 0

    def turn_to(self, profile: SourceProfile) -> None:
        """Forgets the last source for another."""
        if self.count >= MOST:
            self.styles, self.count = {}, 0
        self.profile = profile
        self.known = self.styles.setdefault(style_of(profile), {})


_ends = _Ends()


def stamp_at_end(segment: bytes, profile: SourceProfile) -> Stamp | None:
    """The time stamp of the last message of a segment, as `locate` gives it for the segment's end."""
    if len(segment) >= LONGEST:
        return locate(segment, len(segment), profile).stamp
    if profile is not _ends.profile or _ends.count >= MOST:
        _ends.turn_to(profile)
    shape = shape_of(segment)
    sketch = _ends.known.get(shape)
    if sketch is not None:
        told = sketch.stamp(segment)
        if told is not None:
            return told[0]
    stamp = locate(segment, len(segment), profile).stamp
    if sketch is None:
        _ends.count += shape not in _ends.known
        _ends.known[shape] = sketch_of(segment, (len(segment),), profile)
    return stamp
