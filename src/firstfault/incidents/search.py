"""Finds records by text and by stable fields. Must not say that two incidents are one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from firstfault.incidents.record import Record
from firstfault.incidents.tokens import all_of, any_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.incidents.index import Index

Field = Literal["title", "symptom", "diagnosis", "cause", "fix", "rest"]
FIELDS: tuple[Field, ...] = ("title", "symptom", "diagnosis", "cause", "fix", "rest")
MANY = 5_000
"""Matches beyond which they are not ranked but given newest first: to weigh them all takes longer than it tells."""
_WEIGHTS = "bm25(said, 8.0, 4.0, 2.0, 3.0, 2.0, 1.0)"


class Query(Struct, frozen=True, kw_only=True):
    """What is looked for; every part that is given has to fit."""

    text: str = ""
    fields: tuple[Field, ...] = ()
    """Parts of the record in which the words have to stand; all where empty."""
    facts: tuple[tuple[str, str], ...] = ()
    """Kind and value, such as `host` and `host-3fa2c1d09b`; a `*` at the end stands for anything."""
    limit: int = 20


class Hit(Struct, frozen=True):
    """One record that was found."""

    record: Record
    number: int
    every: bool
    """Whether it holds every word, not only some."""


class Found(Struct, frozen=True):
    """What a search found."""

    hits: tuple[Hit, ...]
    more: bool
    """Whether there are more than were asked for."""
    unranked: bool
    """Whether they are given newest first, since so many match."""


def search(index: Index, query: Query) -> Found:
    """Records that fit, best first: those that hold every word, then those that hold some."""
    chosen: dict[int, bool] = {}
    unranked = False
    # One more than is shown tells whether there are more; some may be gone when they are looked at.
    wanted = query.limit + 1
    if not query.text.strip():
        for number in _by_facts(index, query, wanted):
            chosen.setdefault(number, True)
    else:
        exact, unranked = by_text(index, query, all_of(query.text), wanted)
        chosen = dict.fromkeys(exact, True)
        if len(chosen) < query.limit:
            others, _ = by_text(index, query, any_of(query.text), wanted)
            for number in others:
                chosen.setdefault(number, False)
    hits = []
    for number, every in chosen.items():
        record = index.current(number)
        if record is not None:
            hits.append(Hit(record, number, every))
        if len(hits) == wanted:
            break
    return Found(tuple(hits[: query.limit]), len(hits) > query.limit, unranked)


def by_text(index: Index, query: Query, words: str, limit: int) -> tuple[list[int], bool]:
    """Numbers of records, and whether they are too many to be ranked."""
    if not words:
        return [], False
    match = f"{{{' '.join(query.fields)}}} : ({words})" if query.fields else words
    where, values = _where(query, "said.rowid", each=True)
    many = index.base.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM said WHERE said MATCH ?{where} LIMIT ?)",  # noqa: S608 - our own clauses
        (match, *values, MANY + 1),
    ).fetchone()[0]
    order = "said.rowid DESC" if many > MANY else _WEIGHTS
    rows = index.base.execute(
        f"SELECT said.rowid FROM said WHERE said MATCH ?{where} ORDER BY {order} LIMIT ?",  # noqa: S608 - our own clauses
        (match, *values, limit),
    )
    return [int(row[0]) for row in rows], many > MANY


def _by_facts(index: Index, query: Query, limit: int) -> Iterator[int]:
    # A value that few records hold names them; one that many hold is met soon on the way from the newest to the oldest.
    many = any(_held(index, kind, value) > MANY for kind, value in query.facts)
    where, values = _where(query, "records.number", each=many)
    rows = index.base.execute(
        f"SELECT number FROM records WHERE 1{where} ORDER BY date DESC, id LIMIT ?",  # noqa: S608 - our own clauses
        (*values, limit),
    )
    yield from (int(row[0]) for row in rows)


def _held(index: Index, kind: str, value: str) -> int:
    """How many records hold a value, counted up to one more than `MANY`."""
    sql = "SELECT count(*) FROM (SELECT 1 FROM facts WHERE kind = ? AND value >= ? AND value <= ? LIMIT ?)"
    return int(index.base.execute(sql, (kind, *_range(value), MANY + 1)).fetchone()[0])


def _range(value: str) -> tuple[str, str]:
    """The first and the last value that fit."""
    low = value.lower()
    return (low[:-1], low[:-1] + "\U0010ffff") if low.endswith("*") else (low, low)


def _where(query: Query, column: str, *, each: bool) -> tuple[str, list[str]]:
    """Conditions for the facts, and their values.

    each: whether every row is asked for its facts, instead of the facts for their rows.
    """
    parts, values = [], []
    for kind, value in query.facts:
        low, high = _range(value)
        # One value is found by its key; a range of them has to be looked for among those of the record.
        by = "" if low == high else " INDEXED BY facts_by_record"
        inner = f"facts{by if each else ''} WHERE kind = ? AND value >= ? AND value <= ?"
        if each:
            inner = inner.replace("value >= ? AND value <= ?", "value = ?") if low == high else inner
            parts.append(f" AND EXISTS (SELECT 1 FROM {inner} AND number = {column})")  # noqa: S608 - our own clauses
            values += [kind, low] if low == high else [kind, low, high]
        else:
            parts.append(f" AND {column} IN (SELECT number FROM {inner})")  # noqa: S608 - our own clauses
            values += [kind, low, high]
    return "".join(parts), values
