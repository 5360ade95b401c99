"""Cuts text into what is searched for: words of letters and digits, and overlapping pairs of Chinese characters.

Most Chinese words have two characters, so pairs find them without a dictionary; SQLite's own trigrams would not.
"""

from __future__ import annotations

import re
import unicodedata

_HAN = "㐀-䶿一-鿿豈-﫿぀-ヿ가-힯"
_PART = re.compile(rf"([{_HAN}]+)|([^\W_{_HAN}]+)")
STOP = frozenset(
    ["a", "an", "and", "are", "as", "at", "be", "but", "by", "can", "do", "does", "for", "from", "has", "have", "how", "i", "in", "into", "is", "it",
     "my", "no", "not", "of", "on", "or", "our", "the", "then", "to", "was", "we", "what", "when", "why", "with"]
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


def all_of(text: str) -> str:
    """The query for records that hold every word of a text; empty where it has none."""
    return " AND ".join(filter(None, (_phrase(word) for word in text.split())))


def any_of(text: str) -> str:
    """The query for records that hold any word of a text; empty where it has none that says something."""
    words = [t for t in dict.fromkeys(tokens(text)) if t not in STOP]
    return " OR ".join(_quoted(word) for word in words[:64])


def _phrase(word: str) -> str:
    parts = tokens(word)
    if not parts:
        return ""
    # The begin of a word will do where it is long enough to mean it; so will the first of two characters.
    open_end = len(parts[-1]) >= 3 or not parts[-1].isascii()
    return '"' + " ".join(parts) + '"' + (" *" if open_end else "")


def _quoted(word: str) -> str:
    return f'"{word}" *' if len(word) >= 4 else f'"{word}"'
