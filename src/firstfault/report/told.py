"""Finds the commands in a sentence of advice: what stands between backticks is copied as it is.

A command is never broken, cut or escaped, whatever the format. Must not be used on text of a log.
"""

from __future__ import annotations

from typing import NamedTuple

from firstfault.analysis.wording import clipped
from firstfault.model.lazy import lazy

_SPAN = lazy(r"(?<!`)`([^`\n]+)`(?!`)")


class Part(NamedTuple):
    """A piece of a sentence."""

    text: str
    """Without the backticks around it."""
    command: bool
    """Whether it is to be copied as it is."""


def parts_of(sentence: str) -> list[Part]:
    """The pieces of a sentence in their order; none is empty."""
    found, at = [], 0
    for match in _SPAN.finditer(sentence):
        found += [Part(sentence[at : match.start()], command=False), Part(match[1], command=True)]
        at = match.end()
    return [part for part in (*found, Part(sentence[at:], command=False)) if part.text]


def words_of(sentence: str) -> list[str]:
    """The words between blanks, where a command is one word, with its backticks and the signs that touch it."""
    words = [""]
    for part in parts_of(sentence):
        if part.command:
            words[-1] += f"`{part.text}`"
            continue
        first, *rest = part.text.split(" ")
        words[-1] += first
        words += rest
    return words


def shortened(sentence: str, limit: int) -> str:
    """A sentence in at most so many characters; whole where it holds a command, since half of one is none."""
    return sentence if any(part.command for part in parts_of(sentence)) else clipped(sentence, limit)
