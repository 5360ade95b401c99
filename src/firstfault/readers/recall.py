"""Reads the prefixes of a line with the help of what was seen before: of the same line, and of lines of the same shape.

One line is asked about several times (where its message begins, who speaks, when), and a thousand ranks print lines that
differ in their numbers alone. What comes out is the same as without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.readers.chain import Chain
from firstfault.readers.inner import inner_parts
from firstfault.readers.prefixes import parse_chain
from firstfault.readers.shape import shape_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.readers.chain import Layout
    from firstfault.readers.identity import SourceProfile

LONGEST = 2048
"""Bytes of a line from which on its shape is not remembered."""
MOST = 4096
"""Shapes that are remembered at a time."""


class _Shape:
    """What is known of lines of one shape."""

    __slots__ = ("layouts", "parts", "starts")

    def __init__(self) -> None:
        self.layouts: dict[int, Chain | Layout | None] = {}
        """By the position at which the prefixes begin: the first that were read there, and from the second line on how they
        are laid out; None where that cannot be told from the shape."""
        self.parts: tuple[int, tuple[int, ...]] | None = None
        """Where prefixes stand in the middle of the line, and the position behind which they were looked for."""
        self.starts: tuple[int, ...] | None = None
        """Where messages may begin, as long as all prefixes are laid out as `layouts` has them."""


class _Seen:
    """What is remembered in this process."""

    def __init__(self) -> None:
        self.styles: dict[tuple[object, ...], dict[bytes, _Shape]] = {}
        self.count = 0
        """Shapes that are remembered, of all styles."""
        self.profile: SourceProfile | None = None
        self.shapes: dict[bytes, _Shape] = {}
        """Of the sources that look like the last one."""
        self.segment: bytes | None = None
        self.chain: Chain | None = None
        """Prefixes of the last line."""
        self.shape: _Shape | None = None
        self.usual = True
        """Whether all prefixes of the last line so far are laid out as is known of its shape."""
        self.inner: list[Chain] | None = None
        """Prefixes in the middle of the last line."""

    def turn_to(self, segment: bytes, profile: SourceProfile) -> None:
        """Forgets the last line for another."""
        if profile is not self.profile:
            self.profile = profile
            self.shapes = self.styles.setdefault(style_of(profile), {})
        self.segment, self.chain, self.inner, self.shape, self.usual = segment, None, None, None, True
        if len(segment) < LONGEST:
            bare = shape_of(segment)
            shape = self.shapes.get(bare)
            if shape is None:
                if self.count >= MOST:
                    self.count = 0
                    self.shapes = {}
                    self.styles = {style_of(profile): self.shapes}
                self.count += 1
                shape = self.shapes[bare] = _Shape()
            self.shape = shape

    def read(self, position: int) -> Chain:
        """The prefixes that begin at a position of the line."""
        assert self.segment is not None
        assert self.profile is not None
        shape = self.shape
        if shape is None:
            return parse_chain(self.segment, position, self.profile)
        known = shape.layouts.get(position)
        if isinstance(known, Chain):
            known = shape.layouts[position] = known.layout()
        found = None if known is None else known.read(self.segment)
        if found is None:
            found = parse_chain(self.segment, position, self.profile)
            shape.layouts[position] = found if found.alike else None
            self.usual, shape.starts = False, None
        return found


_seen = _Seen()


def forget() -> None:
    """Drops all that is remembered: what comes after the readers needs the memory."""
    _seen.__dict__.update(_Seen().__dict__)


def style_of(profile: SourceProfile) -> tuple[object, ...]:
    """All of a profile that the reading of prefixes heeds."""
    return (
        profile.style,
        profile.inner,
        profile.tasks_are_ranks,
        profile.tee_rank,
        profile.hosts,
        profile.roles,
        profile.unit,
        profile.wrapping,
    )


def read_chain(segment: bytes, position: int, profile: SourceProfile) -> Chain:
    """The prefixes that begin at a position of a line, until the message begins; not to be changed."""
    if segment is not _seen.segment or profile is not _seen.profile:
        _seen.turn_to(segment, profile)
    if position:
        return _seen.read(position)
    if _seen.chain is None:
        _seen.chain = _seen.read(0)
    return _seen.chain


def read_parts(segment: bytes, line: Chain, profile: SourceProfile) -> Sequence[Chain]:
    """Prefixes that stand inside a segment after those of the line (`line`, as `read_chain` gives it)."""
    if segment is not _seen.segment or profile is not _seen.profile:
        _seen.turn_to(segment, profile)
    if _seen.inner is not None and _seen.chain is line:
        return _seen.inner
    behind = max(line.position, 1)
    shape = _seen.shape
    if shape is not None and shape.parts is not None and shape.parts[0] == behind:
        places: Sequence[int] = shape.parts[1]
    else:
        places = inner_parts(segment, behind, len(segment))
        if shape is not None:
            shape.parts = (behind, tuple(places))
            _seen.usual, shape.starts = False, None
    parts: list[Chain] = []
    for start in places:
        if start >= behind:
            chain = _seen.read(start)
            behind = max(chain.position, start + 1)
            parts.append(chain)
    _seen.inner = parts
    return parts


def usual_starts() -> tuple[int, ...] | None:
    """Where messages may begin in the line whose prefixes were read last; None where its shape does not tell."""
    return _seen.shape.starts if _seen.shape is not None and _seen.usual else None


def usual_layouts() -> tuple[Layout, ...] | None:
    """How the prefixes of the line that was read last are laid out, and those of its parts; None where its shape does not tell.

    To be asked once its parts were read.
    """
    shape = _seen.shape
    if shape is None or not _seen.usual or _seen.inner is None:
        return None
    known = [shape.layouts.get(at) for at in (0, *(part.starts[0] for part in _seen.inner))]
    found = [layout for layout in known if layout is not None and not isinstance(layout, Chain)]
    return tuple(found) if len(found) == len(known) else None


def keep_starts(starts: tuple[int, ...]) -> None:
    """Remembers where messages may begin in lines like the last one, where its prefixes alone decide that."""
    if _seen.shape is not None and _seen.usual:
        _seen.shape.starts = starts
