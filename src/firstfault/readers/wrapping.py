r"""What people and tools put before every line when they hand a log on: quote marks, line numbers, file names, indentation.

Told from a sample of the whole source, never from one line. Says nothing of who wrote the log; a label that a launcher
or collector writes is no wrapping (see `firstfault.readers.prefixes`).
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

FEWEST = 4
"""Lines from which on a common beginning is no chance."""
NEARLY_ALL = 0.95
_COLOUR = rb"(?:\x1b\[[0-9;?]*[A-Za-z])*"
_QUOTE = lazy(_COLOUR + rb"(?:> ?){1,4}")
_NUMBER = lazy(_COLOUR + rb"\s{0,8}(?P<number>\d{1,9})(?:\x1b\[[0-9;]*[mK])*(?:[:\-\t]| ?\| )(?:\x1b\[[0-9;]*[mK])*")
_FILE_TEXT = (
    _COLOUR + rb"(?!\d{1,3}(?:\.\d{1,3}){3}:)"  # an address: of a machine, as pdsh and ssh loops put it, and no file
    rb"(?P<file>(?:[\w.\-@+=,%~]{0,200}/){0,20}[\w.\-@+=,%~]{1,200}\.(?:log|out|err|txt|stderr|stdout|gz|\d{1,6}))"
    rb"(?:\x1b\[[0-9;]*[mK])*[:\-]"
)
_FILE = lazy(_FILE_TEXT)
_FILE_NUMBER = lazy(_FILE_TEXT + rb"(?P<number>\d{1,9})[:\-]")
_INDENT = lazy(rb"[ \t]*")


class Wrapping(Struct, frozen=True):
    """What stands before every line of a source and is not part of it."""

    kind: str
    """`quote`, `number`, `file`, `file_number` or `indent`."""
    indent: int = 0
    """Characters of white space, where that is all."""
    several: bool = False
    """Whether lines of several files stand together, so that the file tells speakers apart."""

    def end(self, segment: bytes) -> int:
        """Where the line proper begins; 0 where this line does not carry the wrapping."""
        if self.kind == "indent":
            return self.indent if not segment[: self.indent].strip() else 0
        found = _PATTERNS[self.kind].match(segment)
        return 0 if found is None else found.end()

    def file(self, segment: bytes) -> str | None:
        """The file that a line comes from, where the wrapping names several."""
        if not self.several:
            return None
        found = _FILE.match(segment)
        return None if found is None else found["file"].decode("utf-8", "replace")


_PATTERNS = {"quote": _QUOTE, "number": _NUMBER, "file": _FILE, "file_number": _FILE_NUMBER}


def find_wrapping(lines: Sequence[bytes]) -> Wrapping | None:
    """The wrapping of a source; None where there is none.

    Args:
        lines: of a sample, in order, without empty ones.
    """
    if len(lines) < FEWEST:
        return None
    wanted = NEARLY_ALL * len(lines)
    if len(_matches(_QUOTE, lines)) >= wanted:
        return Wrapping("quote")
    files = [m["file"] for m in _matches(_FILE, lines)]
    if len(files) >= wanted:
        numbered: dict[bytes, list[int]] = {}
        for found in map(_FILE_NUMBER.match, lines):
            if found is not None:
                numbered.setdefault(found["file"], []).append(int(found["number"]))
        counted = sum(map(len, numbered.values())) >= wanted and all(map(_counts, numbered.values()))
        return Wrapping("file_number" if counted else "file", several=len(set(files)) > 1)
    numbers = [int(m["number"]) for m in _matches(_NUMBER, lines)]
    if len(numbers) >= wanted and _counts(numbers):
        return Wrapping("number")
    indents = sorted(m.end() for m in map(_INDENT.match, lines) if m is not None)
    least = indents[int(len(indents) * (1 - NEARLY_ALL))] if len(indents) >= 2 * FEWEST else indents[0]
    return Wrapping("indent", indent=least) if least else None


def _matches(pattern: re.Pattern[bytes], lines: Sequence[bytes]) -> list[re.Match[bytes]]:
    """Where nearly all lines match, what matches them; as soon as too many do not, nothing: no more need be looked at."""
    allowed = len(lines) - NEARLY_ALL * len(lines)
    found: list[re.Match[bytes]] = []
    for looked, line in enumerate(lines, start=1):
        match = pattern.match(line)
        if match is not None:
            found.append(match)
        elif looked - len(found) > allowed:
            return []
    return found


def _counts(numbers: Sequence[int]) -> bool:
    """Whether numbers are those of lines: from 1 or later on, and ever higher; task numbers begin at 0 or repeat."""
    higher = sum(a < b for a, b in pairwise(numbers))
    return numbers[0] >= 1 and higher >= NEARLY_ALL * (len(numbers) - 1)
