"""Remembers what was found in lines of one shape: lines that differ in nothing but the value of their digits.

A thousand ranks say the same with other numbers; what was confirmed in the words of one of them need not be asked again of
the next. It remembers places and no values, and only where every signature that was asked sees no single digit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from firstfault.readers.identity import SourceProfile
    from firstfault.readers.sketch import Sight, Sketch
    from firstfault.scan.plan import Confirmed

LONGEST = 4096
"""Bytes of a line from which on its shape is not remembered."""
_MOST = 4096
"""Shapes that are remembered at a time."""


class Spot:
    """A match in a segment by the places that are known of its shape."""

    __slots__ = ("_segment", "end", "places", "start")

    def __init__(self, segment: bytes, start: int, end: int, places: Mapping[str, tuple[int, int]]) -> None:
        self._segment = segment
        self.start = start
        self.end = end
        self.places = places

    @property
    def fields(self) -> dict[str, str]:
        """Named facts of the line."""
        segment = self._segment
        return {name: segment[a:b].decode("utf-8", "backslashreplace") for name, (a, b) in self.places.items()}


class _Drawn(NamedTuple):
    """A shape of which it is known, too, who speaks at its matches."""

    style: object
    """How sources look in which this holds."""
    asked: list[int]
    """Signatures that were proposed, in order of place."""
    sketch: Sketch
    found: tuple[tuple[int, int, int, Mapping[str, tuple[int, int]]], ...]
    """As of `_Known`."""


class _Known(NamedTuple):
    signatures: frozenset[int]
    """Those that were asked."""
    starts: tuple[int, ...] | None
    """Where a message could begin; None where that does not matter."""
    lasting: bool
    """Whether the same holds for all lines of the shape."""
    found: tuple[tuple[int, int, int, Mapping[str, tuple[int, int]]], ...]
    """Signature, start, end and places of the fields of each match."""


class Shapes:
    """What was found, by shape."""

    def __init__(self) -> None:
        self._known: dict[bytes, _Known] = {}
        self._drawn: dict[bytes, _Drawn] = {}

    def recall(
        self, shape: bytes, segment: bytes, signatures: frozenset[int], starts: tuple[int, ...] | None
    ) -> list[tuple[int, Confirmed]] | None:
        """The matches in a segment, with their signatures; None where it must be asked.

        Args:
            shape: of the segment.
            segment: a whole line, or one part of it between carriage returns.
            signatures: those that were proposed for it.
            starts: positions in it at which a message may begin; None where that matters to none of them.
        """
        known = self._known.get(shape)
        if known is None or not known.lasting or known.signatures != signatures or known.starts != starts:
            return None
        return [(s, Spot(segment, start, end, places)) for s, start, end, places in known.found]

    def keep(
        self,
        shape: bytes,
        signatures: frozenset[int],
        starts: tuple[int, ...] | None,
        found: Sequence[tuple[int, Confirmed]],
        *,
        lasting: bool,
    ) -> None:
        """Remembers what was found in a segment of a shape; a later answer takes the place of an earlier one."""
        if len(self._known) >= _MOST:
            self._known.clear()
            self._drawn.clear()
        self._drawn.pop(shape, None)
        spots = tuple((s, m.start, m.end, m.places) for s, m in found) if lasting else ()
        self._known[shape] = _Known(signatures, starts, lasting, spots)

    def draw(self, shape: bytes, asked: list[int], style: object, sketch: Sketch) -> None:
        """Remembers who speaks at the matches that are remembered of a shape.

        Args:
            shape: of the segment.
            asked: signatures that were proposed for it, in order of place.
            style: how its source looks; equal values read alike.
            sketch: of the starts of the matches.
        """
        known = self._known.get(shape)
        if known is not None and known.lasting:
            self._drawn[shape] = _Drawn(style, asked, sketch, known.found)

    def retell(
        self, shape: bytes, segment: bytes, asked: list[int], style: object, profile: SourceProfile
    ) -> list[tuple[int, Confirmed, Sight]] | None:
        """The matches in a segment, each with its signature and who speaks there; None where that is not known of its shape.

        Args:
            shape: of the segment.
            segment: see `recall`.
            asked: see `draw`.
            style: see `draw`.
            profile: of the source.
        """
        drawn = self._drawn.get(shape)
        if drawn is None or drawn.asked != asked or drawn.style != style:
            return None
        sights = drawn.sketch.read(segment, profile)
        if sights is None:
            return None
        return [
            (s, Spot(segment, start, end, places), sight)
            for (s, start, end, places), sight in zip(drawn.found, sights, strict=True)
        ]
