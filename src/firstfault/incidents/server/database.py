"""Opens the database, brings its tables up to date, and tells its errors in words that help. Must not read a record's parts.

Several clients may open an empty or an older database at once: one changes it, the others wait and find it done.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from firstfault.incidents.errors import IncidentError
from firstfault.incidents.index import columns, edition
from firstfault.incidents.index import facts as facts_of
from firstfault.incidents.places import shown
from firstfault.incidents.record import parse
from firstfault.incidents.server import schema
from firstfault.incidents.server.vectors import vectors, words_of
from firstfault.incidents.shipped import shipped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from firstfault.incidents.record import Record

SECONDS = 10
"""How long a connection may take."""
_STEM = sa.text(
    "SELECT word, (ts_lexize(CAST(:dictionary AS regdictionary), word))[1] FROM unnest(CAST(:words AS text[])) AS word"
)
_STATE = sa.text(
    "SELECT key, value FROM firstfault_meta UNION ALL "
    "SELECT 'ships', 'yes' WHERE EXISTS (SELECT 1 FROM firstfault_records WHERE edition = :edition)"
)
_ASKED = 5_000
"""Words whose stems are asked for at once."""
_KEPT = 200_000
"""Stems that are remembered."""


class Database:
    """One database of records; each piece of work is one transaction on a connection that stays open."""

    def __init__(self, place: str) -> None:
        """place: its address, such as `postgresql://host/name`.

        Raises:
            IncidentError: it cannot be reached or used.
        """
        self.where = shown(place)
        self._stems: dict[str, str] = {}
        with self._told():
            address = _address(place).set(drivername="postgresql+psycopg")
            # hstore: a question to the server that no record needs.
            self._engine = sa.create_engine(
                address, poolclass=NullPool, connect_args={"connect_timeout": SECONDS}, use_native_hstore=False
            )
            self._base = self._engine.connect()
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes the connection."""
        self._base.close()
        self._engine.dispose()

    @contextlib.contextmanager
    def work(self) -> Iterator[sa.Connection]:
        """One transaction: all of it is done or nothing.

        Raises:
            IncidentError: the database refuses it, or went away.
        """
        with self._told(), self._base.begin():
            yield self._base

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            said = str(error.orig) if isinstance(error, DBAPIError) and error.orig is not None else str(error)
            first = next((line.strip() for line in said.splitlines() if line.strip()), type(error).__name__)
            raise IncidentError(
                f"the database of records cannot be used: {shown(first)}",
                where=self.where,
                fix="Look at the address, at the rights of its user, and whether the server runs. A password belongs into ~/.pgpass.",
            ) from None

    def _prepare(self) -> None:
        with self.work() as base:
            form, words, ships = self._versions(base)
            if not form:
                self._needs_utf8(base)
        if form > schema.FORM or words > schema.WORDS:
            raise IncidentError(
                "the database was made by a later firstfault", where=self.where, fix="Use that version or a later one."
            )
        if form < schema.FORM or words < schema.WORDS:
            self._migrate()
            with self.work() as base:
                _, _, ships = self._versions(base)
        if not ships:
            # A user who may only read goes on without the records that ship.
            with contextlib.suppress(IncidentError), self.work() as base:
                self.add(base, shipped(), edition())
                self._forget_older(base)

    def _needs_utf8(self, base: sa.Connection) -> None:
        encoding = base.execute(sa.text("SHOW server_encoding")).scalar_one()
        if encoding != "UTF8":
            raise IncidentError(
                f"the database keeps text as {encoding}, and records are UTF-8",
                where=self.where,
                fix="Make one by `createdb --encoding UTF8 --template template0 NAME`.",
            )

    @staticmethod
    def _forget_older(base: sa.Connection) -> None:
        """Deletes what shipped with earlier versions; one of them that is still in use puts its own there again."""
        table = schema.records
        there = base.execute(sa.select(table.c.edition).distinct().where(table.c.edition != "")).scalars()
        older = [of for of in there if of != edition() and version_of(str(of)) <= version_of(edition())]
        if older:
            base.execute(sa.delete(table).where(table.c.edition.in_(older)))

    @staticmethod
    def _versions(base: sa.Connection) -> tuple[int, int, bool]:
        """Form of the tables, of the words, and whether the records that ship are there."""
        if base.execute(sa.text("SELECT to_regclass('firstfault_meta')")).scalar_one() is None:
            return 0, 0, False
        rows = {str(row[0]): str(row[1]) for row in base.execute(_STATE, {"edition": edition()})}
        return int(rows.get("form", "0")), int(rows.get("words", "0")), "ships" in rows

    def _migrate(self) -> None:
        with self._alone(), self.work() as base:
            form, words, _ = self._versions(base)
            for step in schema.STEPS[form:]:
                step(base)
            if words < schema.WORDS:
                self._cut_anew(base)
            base.execute(sa.delete(schema.meta).where(schema.meta.c.key.in_(["form", "words"])))
            now = [{"key": "form", "value": str(schema.FORM)}, {"key": "words", "value": str(schema.WORDS)}]
            base.execute(sa.insert(schema.meta), now)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Waits until no other client changes tables, and keeps them away."""
        # Not the lock of a transaction: one that waited would go on with what it had read of the catalogue before.
        with self.work() as base:
            base.execute(sa.select(sa.func.pg_advisory_lock(schema.LOCK)))
        try:
            yield
        finally:
            with self.work() as base:
                base.execute(sa.select(sa.func.pg_advisory_unlock(schema.LOCK)))

    def _cut_anew(self, base: sa.Connection) -> None:
        """Makes words and facts of all records anew; those that ship come again by themselves."""
        table = schema.records
        base.execute(sa.delete(table).where(table.c.edition != ""))
        base.execute(sa.delete(schema.facts))
        last = -1
        while True:
            some = sa.select(table.c.number, table.c.body).where(table.c.number > last).order_by(table.c.number)
            rows = base.execute(some.limit(500)).all()
            if not rows:
                return
            for number, body in rows:
                self.set_words(base, int(number), parse(str(body), place=self.where))
            last = int(rows[-1][0])

    def stems(self, words: Iterable[str]) -> Mapping[str, str]:
        """What is kept of words: their ends are cut by the database's own dictionary."""
        new = [w for w in dict.fromkeys(words) if w not in self._stems]
        if len(self._stems) + len(new) > _KEPT:
            self._stems.clear()
            new = list(dict.fromkeys(words))
        for at in range(0, len(new), _ASKED):
            asked = new[at : at + _ASKED]
            for word, stem in self._base.execute(_STEM, {"dictionary": schema.STEMS, "words": asked}):
                # FTS5 leaves alone what has fewer than three letters.
                self._stems[word] = str(stem) if stem and len(word) > 2 else str(word)
        return self._stems

    def add(self, base: sa.Connection, new: Iterable[Record], of: str = "") -> list[str]:
        """Adds those records whose ids are not taken yet; their ids.

        Args:
            base: within a transaction.
            new: records with different ids.
            of: the edition of the program with which they ship; empty for records of the organisation.
        """
        by_id = {record.id: record for record in new}
        # All writers take ids in one order: of two with the same ids the second waits and then finds them taken.
        cut = {name: self._vectors(record) for name, record in sorted(by_id.items())}
        rows = [
            {"id": name, "edition": of, "date": by_id[name].one("date"), "body": by_id[name].text, **parts}
            for name, (_, parts) in cut.items()
        ]
        if not rows:
            return []
        taken = insert(schema.records).on_conflict_do_nothing().returning(schema.records.c.number, schema.records.c.id)
        added = [(int(number), str(name)) for number, name in base.execute(taken, rows)]
        whole = [{"number": number, "edition": of, "said": cut[name][0]} for number, name in added]
        if whole:
            base.execute(sa.insert(schema.said), whole)
        told = [fact for number, name in added for fact in _facts(number, by_id[name])]
        if told:
            base.execute(sa.insert(schema.facts), told)
        return [name for _, name in added]

    def set_words(self, base: sa.Connection, number: int, record: Record) -> None:
        """Makes the words and facts of one record anew."""
        table = schema.records
        whole, parts = self._vectors(record)
        base.execute(sa.update(table).where(table.c.number == number).values({"date": record.one("date"), **parts}))
        base.execute(sa.update(schema.said).where(schema.said.c.number == number).values(said=whole))
        base.execute(sa.delete(schema.facts).where(schema.facts.c.number == number))
        base.execute(sa.insert(schema.facts), list(_facts(number, record)))

    def _vectors(self, record: Record) -> tuple[str, dict[str, str]]:
        """The words of the whole record, and those of each part."""
        parts = [words_of(text) for text in columns(record)]
        made = vectors(parts, self.stems(word for words in parts for word in words))
        return made.pop("said"), made


def version_of(of: str) -> tuple[int, ...]:
    """The version of the program in the name of an edition."""
    return tuple(int(part) for part in re.findall(r"\d+", of.partition(" ")[0])[:3])


def _address(place: str) -> sa.URL:
    try:
        return sa.make_url(place)
    except ValueError as error:
        raise ArgumentError("the port of the address is no number") from error


def _facts(number: int, record: Record) -> Iterator[dict[str, object]]:
    for kind, value in dict.fromkeys(facts_of(record)):
        # An index holds no value of more than 2,700 bytes; nobody looks for such a one.
        if len(value.encode("utf-8")) <= 1000:
            yield {"kind": kind, "value": value, "number": number}


def database_at(place: str) -> Database:
    """The database of an address.

    Raises:
        IncidentError: it cannot be reached or used.
    """
    return Database(place)
