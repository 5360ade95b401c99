"""Searches records in PostgreSQL, with the answers that the embedded index gives. Must not change a record.

Which records fit is the same in both. Their order comes from how rare a word is and where it stands, as near to that of the
embedded index as PostgreSQL's own rank allows.
"""

from __future__ import annotations

import math
import re
from itertools import islice
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, TSQUERY

from firstfault.incidents import search as limits
from firstfault.incidents.errors import IncidentError
from firstfault.incidents.index import edition
from firstfault.incidents.record import parse
from firstfault.incidents.search import span_of
from firstfault.incidents.server.schema import facts, records, said
from firstfault.incidents.server.vectors import WORTH, joined, queries, query_words
from firstfault.incidents.shipped import shipped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from firstfault.incidents.record import Record
    from firstfault.incidents.search import Query
    from firstfault.incidents.server.database import Database
    from firstfault.incidents.tokens import Wanted

RANKED = 1_000
"""Matches beyond which they are given newest first: to weigh each takes its time."""
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
"""What PostgreSQL keeps in no text, so that no record holds it."""
_AT_ONCE = 50
"""Records that are fetched in one go."""


def _most() -> int:
    return min(limits.MANY, RANKED)


class ServerIndex:
    """The index of one database; close it after use."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._edition = edition()

    def close(self) -> None:
        """Closes the connection."""
        self._database.close()

    @staticmethod
    def refresh(*, full: bool = False) -> int:  # noqa: ARG004 - a folder has to be looked through
        """Nothing is to be done: words and facts change with their record."""
        return 0

    def count(self) -> int:
        """How many records there are, those that ship among them."""
        with self._database.work() as base:
            return int(base.execute(sa.select(sa.func.count()).where(self._ours())).scalar_one())

    @staticmethod
    def unreadable() -> list[str]:
        """None: what is no record is not taken in."""
        return []

    def by_text(self, query: Query, wanted: Wanted, limit: int) -> tuple[list[int], bool]:
        """Numbers of records, best first, and whether they are too many to be ranked."""
        if not wanted.phrases:
            return [], False
        where = self._where(query, said.c.number)
        if where is None:
            return [], False
        with self._database.work() as base:
            parts = queries(wanted, self._database.stems(query_words(wanted)))
            whole = _query(joined(parts, every=wanted.every))
            fits = [said.c.edition.in_(["", self._edition]), said.c.said.op("@@")(whole), *where]
            found = sa.select(said.c.number)
            if query.fields:
                found = found.join(records, records.c.number == said.c.number)
                fits.append(_within(query).op("@@")(whole))
            found = found.where(*fits)
            # Which fit is found once; how rare each word is tells then what it weighs.
            numbers = [int(row[0]) for row in base.execute(found.limit(_most() + 1))]
            if len(numbers) > _most():
                newest = found.order_by(said.c.number.desc()).limit(limit)
                return [int(row[0]) for row in base.execute(newest)], True
            if len(numbers) < 2:
                return numbers[:limit], False
            best = sa.select(said.c.number).where(said.c.number == sa.any_(sa.cast(numbers, ARRAY(sa.BigInteger))))
            ranked = best.order_by(self._rank(base, parts).desc(), said.c.number).limit(limit)
            return [int(row[0]) for row in base.execute(ranked)], False

    def _rank(self, base: sa.Connection, parts: list[str]) -> Any:
        # To count them all takes longer than the search; the planner's guess will do once there is one.
        total = int(base.execute(_GUESSED).scalar_one())
        if total < _most():
            total = max(int(base.execute(_ROWS).scalar_one()), 1)
        weighed = []
        for part in parts:
            some = sa.select(said.c.number).where(said.c.said.op("@@")(_query(part))).limit(_most() + 1)
            held = int(base.execute(sa.select(sa.func.count()).select_from(some.subquery())).scalar_one())
            rare = max(math.log((max(total, held) - held + 0.5) / (held + 0.5)), 1e-6)
            # 1: a long text is not better for holding a word; ts_rank itself tires of a word that comes again and again.
            score = sa.func.ts_rank(sa.text(f"CAST('{WORTH}' AS float4[])"), said.c.said, _query(part), 1)
            weighed.append(score * rare)
        return sum(weighed[1:], weighed[0])

    def by_facts(self, query: Query, limit: int) -> list[int]:
        """Numbers of records, newest first."""
        where = self._where(query, records.c.number)
        if where is None:
            return []
        newest = sa.select(records.c.number).where(self._ours(), *where)
        with self._database.work() as base:
            rows = base.execute(newest.order_by(records.c.date.desc(), records.c.id).limit(limit))
            return [int(row[0]) for row in rows]

    def holding(self, kind: str, value: str, limit: int) -> list[int]:
        """Numbers of the records that hold a value, those that came last first."""
        if _NO_TEXT.search(value):
            return []
        found = (
            sa.select(facts.c.number)
            .join(records, records.c.number == facts.c.number)
            .where(self._ours(), facts.c.kind == kind, facts.c.value == value)
            .order_by(facts.c.number.desc())
            .limit(limit)
        )
        with self._database.work() as base:
            return [int(row[0]) for row in base.execute(found)]

    def own_rules(self) -> list[tuple[str, int]]:
        """What the records of the organisation are shown by, with their numbers."""
        rules = (
            sa.select(facts.c.value, facts.c.number)
            .join(records, records.c.number == facts.c.number)
            .where(records.c.edition == "", facts.c.kind == "shown_by")
            .order_by(facts.c.number, facts.c.value)
        )
        with self._database.work() as base:
            return [(str(rule), int(number)) for rule, number in base.execute(rules)]

    def records_of(self, numbers: Iterable[int]) -> Iterator[tuple[int, Record]]:
        """The records as they are now, in the given order; those that are gone are left out."""
        waiting = iter(numbers)
        while some := list(islice(waiting, _AT_ONCE)):
            with self._database.work() as base:
                chosen = sa.select(records.c.number, records.c.id, records.c.edition, records.c.body)
                rows = {int(row[0]): row for row in base.execute(chosen.where(records.c.number.in_(some)))}
            for number in some:
                record = None if number not in rows else self._record(*rows[number][1:])
                if record is not None:
                    yield number, record

    def _record(self, name: str, of: str, body: str) -> Record | None:
        if of:
            return next((r for r in shipped() if r.id == name), None)
        try:
            return parse(body, place=self._database.where)
        except IncidentError:
            return None

    def _ours(self) -> sa.ColumnElement[bool]:
        return records.c.edition.in_(["", self._edition])

    @staticmethod
    def _where(query: Query, of: sa.ColumnElement[int]) -> list[sa.ColumnElement[bool]] | None:
        """Conditions for the facts of a record of that number; None where no record can hold one of them."""
        parts: list[sa.ColumnElement[bool]] = []
        for kind, value in query.facts:
            low, high = span_of(value)
            if _NO_TEXT.search(value):
                return None
            fits = facts.c.value == low if low == high else sa.and_(facts.c.value >= low, facts.c.value <= high)
            held = sa.select(sa.literal(1)).where(facts.c.kind == kind, fits, facts.c.number == of)
            parts.append(held.exists())
        return parts


_GUESSED = sa.text("SELECT reltuples::bigint FROM pg_class WHERE oid = 'firstfault_said'::regclass")
_ROWS = sa.select(sa.func.count()).select_from(said)


def _query(text: str) -> Any:
    return sa.cast(sa.literal(text), TSQUERY)


def _within(query: Query) -> Any:
    """The words of the parts in which they have to stand."""
    chosen = [records.c[name] for name in query.fields]
    whole: Any = chosen[0]
    for column in chosen[1:]:
        whole = whole.op("||")(column)
    return sa.type_coerce(whole, said.c.said.type)
