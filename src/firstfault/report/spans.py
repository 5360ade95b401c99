"""Commands and other code inside our own sentences: told apart from prose, kept whole, folded so that a shell takes them.

Sentences mark code by backticks; what follows a colon there is a command to run. Must not shorten code: what does not
fit is left out with all of its words, never cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firstfault.analysis.wording import clipped
from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Iterator

_CODE = lazy(r"(?<!`)`([^`\n]+)`(?!`)")
_TO_RUN = lazy(r"[:：]\s*$")


class Part(NamedTuple):
    """A stretch of a sentence."""

    text: str
    code: bool
    to_run: bool = False
    """Whether it is a command that stands behind a colon, to be run as it is."""


def parts(sentence: str) -> Iterator[Part]:
    """The sentence as prose and code in turn; code without its backticks."""
    at = 0
    for found in _CODE.finditer(sentence):
        before = sentence[at : found.start()]
        if before:
            yield Part(before, code=False)
        yield Part(found[1], code=True, to_run=_TO_RUN.search(before) is not None)
        at = found.end()
    if at < len(sentence):
        yield Part(sentence[at:], code=False)


def cut(sentence: str, limit: int) -> str:
    """The sentence in at most `limit` characters of prose; commands to run do not count, and other code is kept or left out whole."""
    kept: list[str] = []
    room = limit
    for part in parts(sentence):
        shown = f"`{part.text}`" if part.code else part.text
        if part.to_run or len(shown) <= room:
            kept.append(shown)
            room -= 0 if part.to_run else len(shown)
            continue
        kept.append(clipped(shown, max(room, 3)) if not part.code else "…")
        break
    return "".join(kept)


def folded(command: str, width: int) -> list[str]:
    """A command in lines of at most `width` columns, each but the last ending in a backslash: pasted, they are one command.

    Breaks only at blanks outside of quotes; a word that is longer than a line stays whole on a line of its own.
    """
    lines: list[str] = []
    line = ""
    for word in _words(command):
        if not line:
            line = word
        elif len(line) + 1 + len(word) <= width - 2:
            line += f" {word}"
        else:
            lines.append(f"{line} \\")
            line = f"  {word}"
    return [*lines, line]


def _words(command: str) -> list[str]:
    """The words of a command as they are written: a blank inside quotes does not end one."""
    words = [""]
    quote = ""
    for char in command:
        if char == " " and not quote:
            words.append("")
            continue
        words[-1] += char
        if char == quote:
            quote = ""
        elif char in "'\"" and not quote:
            quote = char
    return words
