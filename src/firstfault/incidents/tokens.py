"""Cuts text into what is searched for: words of letters and digits, and overlapping pairs of Chinese characters.

Most Chinese words have two characters, so pairs find them without a dictionary; SQLite's own trigrams would not.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

_HAN = "㐀-䶿一-鿿豈-﫿぀-ヿ가-힯"
_PART = re.compile(rf"([{_HAN}]+)|([^\W_{_HAN}]+)")
STOP = frozenset(
    ["a", "an", "and", "are", "as", "at", "be", "but", "by", "can", "do", "does", "for", "from", "has", "have", "how", "i", "in", "into", "is", "it",
     "its", "my", "no", "not", "of", "off", "on", "or", "our", "out", "that", "the", "then", "there", "this", "to", "up", "was", "we", "what", "when", "why", "with"]
)  # fmt: skip
"""Words that say nothing of a fault; left out where any word may match."""


def tokens(text: str) -> list[str]:
    """The words of a text in their order, in small letters."""
    found: list[str] = []
    for match in _PART.finditer(unicodedata.normalize("NFKC", text).lower()):
        run = match[1]
        if run is None:
            found.append(match[2])
        elif len(run) == 1:
            found.append(run)
        else:
            found += [run[i : i + 2] for i in range(len(run) - 1)]
    return found


def indexed(text: str) -> str:
    """A text as the index takes it: its words with blanks between."""
    return " ".join(tokens(text))


class Phrase(NamedTuple):
    """Words that have to follow each other."""

    words: tuple[str, ...]
    open_end: bool
    """Whether the last of them may be the begin of a longer one."""


class Wanted(NamedTuple):
    """What is looked for in texts: every phrase, or any of them; nothing where there is none."""

    phrases: tuple[Phrase, ...]
    every: bool


def every_word(text: str) -> Wanted:
    """Looks for texts that hold every word of this one."""
    return Wanted(tuple(p for p in map(_phrase, text.split()) if p.words), every=True)


def whole_words(wanted: Wanted) -> Wanted:
    """The same, but no word of more than one letter or character may be the begin of a longer one."""
    return wanted._replace(
        phrases=tuple(p._replace(open_end=p.open_end and len(p.words[-1]) == 1) for p in wanted.phrases)
    )


def any_word(text: str) -> Wanted:
    """Looks for texts that hold any word of this one that says something."""
    words = [t for t in dict.fromkeys(tokens(text)) if t not in STOP]
    return Wanted(tuple(Phrase((word,), len(word) >= 4) for word in words[:64]), every=False)


def fts(wanted: Wanted) -> str:
    """The query as FTS5 takes it."""
    parts = ['"' + " ".join(p.words) + '"' + (" *" if p.open_end else "") for p in wanted.phrases]
    return (" AND " if wanted.every else " OR ").join(parts)


def all_of(text: str) -> str:
    """The query of FTS5 for records that hold every word of a text; empty where it has none."""
    return fts(every_word(text))


def any_of(text: str) -> str:
    """The query of FTS5 for records that hold any word of a text; empty where it has none that says something."""
    return fts(any_word(text))


def _phrase(word: str) -> Phrase:
    parts = tuple(tokens(word))
    # The begin of a word will do where it is long enough to mean it; so will the first of two characters.
    return Phrase(parts, bool(parts) and (len(parts[-1]) >= 3 or not parts[-1].isascii()))
