"""Writes texts and queries as PostgreSQL takes them: `tsvector` and `tsquery`, of the words that we cut ourselves.

The same cutting serves the embedded index, so both find the same records, Chinese among them. Must not open a database.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from firstfault.incidents.search import FIELDS
from firstfault.incidents.tokens import tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from firstfault.incidents.tokens import Wanted

LONGEST = 200
"""Characters of a word at most: PostgreSQL refuses one of 2 KB."""
_LAST = 16_383
"""Position behind which PostgreSQL tells none apart."""
_MOST = 200
"""Positions of one word in one part at most, of the 255 that PostgreSQL keeps in the whole."""
_BYTES = 600_000
"""Size of the words of a record at most; PostgreSQL refuses more than 1 MB of them."""
_GAP = 2
"""Positions between two parts, so that no phrase reaches from one into the next."""
WEIGHTS = dict(zip(FIELDS, "ABCBCD", strict=True))
"""What a word weighs by the part in which it stands."""
WORTH = "{0.125, 0.25, 0.44, 1.0}"
"""Weights D, C, B, A; those of the embedded index as near as four of them come."""


def words_of(text: str) -> list[str]:
    """The words of a text without accents, each no longer than can be kept."""
    return [plain(word) for word in tokens(text)]


def plain(word: str) -> str:
    """A word without accents, as FTS5 takes it."""
    if word.isascii():
        return word
    split = unicodedata.normalize("NFD", word)
    return unicodedata.normalize("NFC", "".join(c for c in split if not unicodedata.combining(c)))[:LONGEST]


def vectors(columns: Iterable[list[str]], stems: Mapping[str, str]) -> dict[str, str]:
    """The vector of each part of a record, and of the whole as `said`.

    Args:
        columns: words of each part, in the order of `FIELDS`.
        stems: what is kept of each word.
    """
    whole: dict[str, list[str]] = {}
    made: dict[str, str] = {}
    begin, size = 1, 0
    for name, words in zip(FIELDS, columns, strict=True):
        held: dict[str, list[str]] = {}
        for at, word in enumerate(words):
            lexeme = stems.get(word, word)[:LONGEST]
            places = held.setdefault(lexeme, [])
            if not places:
                size += len(lexeme.encode("utf-8")) + 8
            if size > _BYTES:
                break
            if len(places) < _MOST:
                places.append(f"{min(at + 1, _LAST)}")
                whole.setdefault(lexeme, []).append(f"{min(begin + at, _LAST)}{WEIGHTS[name]}")
        begin += len(words) + _GAP
        made[name] = _literal(held)
    return {"said": _literal(whole), **made}


def _literal(held: Mapping[str, list[str]]) -> str:
    return " ".join(f"{quoted(lexeme)}:{','.join(places)}" for lexeme, places in held.items() if places)


def quoted(lexeme: str) -> str:
    """A word between quotes."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


def query_words(wanted: Wanted) -> list[str]:
    """Every word of a query without accents."""
    return [plain(word) for phrase in wanted.phrases for word in phrase.words]


def queries(wanted: Wanted, stems: Mapping[str, str]) -> list[str]:
    """The `tsquery` of each phrase."""
    made = []
    for phrase in wanted.phrases:
        parts = [quoted(stems.get(plain(word), plain(word))[:LONGEST]) for word in phrase.words]
        made.append(" <-> ".join(parts) + (":*" if phrase.open_end else ""))
    return made


def joined(parts: Iterable[str], *, every: bool) -> str:
    """One `tsquery` of several."""
    return (" & " if every else " | ").join(f"({part})" for part in parts)
