"""What the prefixes before one message say, and where in the line it stands, so that lines of one shape need one look.

Lines that differ in the value of their digits alone have one shape. Their prefixes are laid out alike where the same time
stamps are found at the same places: only there do the readers of prefixes look at what a digit is. It reads no prefix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from firstfault.readers.stamps import digits_decide, match_stamp, match_style

if TYPE_CHECKING:
    import re


class Chain:
    """What the prefixes before one message say; filled token by token."""

    rank: int | None = None
    local_rank: int | None = None
    group_rank: int | None = None
    group: str | None = None
    desc: str | None = None
    host: str | None = None
    pid: int | None = None
    device: int | None = None
    label: str | None = None
    level: str | None = None
    c10 = False
    tokens = 0

    def __init__(self, position: int) -> None:
        self.position = position
        self.starts = [position]
        self.stamps: list[tuple[str, re.Match[bytes]]] = []
        self.alike = True
        """Whether other lines of this shape are read in the same way, as far as `trace` tells."""
        self.trace: list[_Stamped | _Listed | _Take] = []

    def stamp_at(self, segment: bytes, position: int) -> tuple[str, re.Match[bytes]] | None:
        """The time stamp that begins exactly at a position; None where none does."""
        found = match_stamp(segment, position)
        if found is not None:
            self.trace.append(_Stamped(position, found[0], found[1].end()))
        elif digits_decide(segment, position):
            self.trace.append(_Stamped(position, None, 0))
        return found

    def is_among(self, names: frozenset[str], found: re.Match[bytes], group: str) -> bool:
        """Whether a group of a match is one of some names."""
        listed = found[group].decode("ascii", "replace") in names
        self.trace.append(_Listed(names, *found.span(group), listed))
        return listed

    def take(self, name: str, found: re.Match[bytes], group: str, *, number: bool = False, before: str = "") -> None:
        """Takes a fact from a group of a match; one that is not there leaves the fact as it was.

        Args:
            name: of the fact.
            found: the match.
            group: of the match.
            number: whether it holds a number, else it is text.
            before: words in front of it, which make text of it.
        """
        start, end = found.span(group)
        if start >= 0:
            self.take_span(name, found.string, start, end, number=number, before=before)

    def take_span(
        self, name: str, segment: bytes, start: int, end: int, *, number: bool = False, before: str = ""
    ) -> None:
        """As `take`, from a stretch of the segment."""
        taken = _Take(name, start, end, number, before)
        self.trace.append(taken)
        setattr(self, name, taken.of(segment))

    def layout(self) -> Layout | None:
        """How these prefixes are laid out; None where another line of the same shape may be read otherwise."""
        if not self.alike:
            return None
        held = {found.start(): style for style, found in self.stamps}
        return Layout(
            stamps=tuple((t, held.get(t.position) == t.style) for t in self.trace if isinstance(t, _Stamped)),
            names=tuple(t for t in self.trace if isinstance(t, _Listed)),
            takes=tuple(t for t in self.trace if isinstance(t, _Take)),
            constant={name: value for name, value in vars(self).items() if name not in _OWN},
        )


class _Stamped(NamedTuple):
    """A place at which a time stamp was looked for, and either found or missed for the value of a digit."""

    position: int
    style: str | None
    """Of the stamp that was found there; None where none was."""
    end: int


class _Listed(NamedTuple):
    """A name that was looked up among others."""

    names: frozenset[str]
    start: int
    end: int
    listed: bool


class _Take(NamedTuple):
    """A fact and where it stands."""

    name: str
    start: int
    end: int
    number: bool
    before: str

    def of(self, segment: bytes) -> int | str:
        """The fact as a segment states it."""
        text = segment[self.start : self.end]
        if not self.number:
            return self.before + text.decode("ascii", "replace")
        return f"{self.before}{int(text)}" if self.before else int(text)


_OWN = frozenset({"stamps", "trace", "alike"})
"""What each line has for itself."""


class Layout(NamedTuple):
    """How the prefixes before one message are laid out in lines of one shape."""

    stamps: tuple[tuple[_Stamped, bool], ...]
    """Where stamps are looked for, and whether the chain holds the one that is found there."""
    names: tuple[_Listed, ...]
    takes: tuple[_Take, ...]
    constant: dict[str, Any]

    def stamps_in(self, segment: bytes) -> list[tuple[str, re.Match[bytes]]] | None:
        """The time stamps in the prefixes of another line of the shape; None where it is not laid out so."""
        stamps = []
        for (position, style, end), held in self.stamps:
            found = match_stamp(segment, position) if style is None else match_style(style, segment, position)
            if found is None:
                if style is not None:
                    return None
            elif found[0] != style or found[1].end() != end:
                return None
            elif held:
                stamps.append(found)
        for names, start, end, listed in self.names:
            if (segment[start:end].decode("ascii", "replace") in names) is not listed:
                return None
        return stamps

    def read(self, segment: bytes) -> Chain | None:
        """The prefixes of another line of the shape; None where it is not laid out so."""
        stamps = self.stamps_in(segment)
        return None if stamps is None else self.filled(segment, stamps)

    def filled(self, segment: bytes, stamps: list[tuple[str, re.Match[bytes]]]) -> Chain:
        """The prefixes of a line that is laid out so, with the stamps that `stamps_in` found in it."""
        chain = Chain.__new__(Chain)
        facts = vars(chain)
        facts.update(self.constant)
        facts["stamps"] = stamps
        for taken in self.takes:
            facts[taken.name] = taken.of(segment)
        return chain
