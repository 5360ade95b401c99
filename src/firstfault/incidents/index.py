"""The embedded index of a folder of records: SQLite with FTS5 in the user's cache folder.

Only a cache: it may be deleted at any time, a damaged one is made anew, and where none can be kept it lives in memory. Two
processes may use it at once, and one that is killed leaves it whole (each change is one transaction). Must not answer
with what a file no longer says.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import time
from typing import TYPE_CHECKING

from firstfault import __version__
from firstfault.incidents import search as limits
from firstfault.incidents.errors import IncidentError
from firstfault.incidents.search import span_of
from firstfault.incidents.shipped import FOLDER, shipped
from firstfault.incidents.store import Stamp
from firstfault.incidents.tokens import fts, indexed
from firstfault.incidents.words import FACTS, Section
from firstfault.model.lazy import lazy
from firstfault.scan.cache import own_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from firstfault.incidents.record import Record
    from firstfault.incidents.search import Query
    from firstfault.incidents.store import Store
    from firstfault.incidents.tokens import Wanted

FORM = 4
"""Form of the index; each has a file of its own, and a file of another form is made anew."""
EACH_TIME = 5_000
"""Records up to which every search looks at every file."""
TRUSTED = 3600.0
"""Seconds for which the files of a larger folder are not looked at one by one."""
_RACE = 2_000_000_000
"""Nanoseconds within which a file may change again without a new stamp: it is read again next time."""
_HOST = lazy(r"\bhost-[0-9a-f]{10}\b")
_WEIGHTS = "bm25(said, 8.0, 4.0, 2.0, 3.0, 2.0, 1.0)"
SHIPPED = "ships:"
"""Begin of the names of records that ship with the program."""
_TABLES = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS files (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, modified INTEGER NOT NULL,
  size INTEGER NOT NULL, inode INTEGER NOT NULL, wrong TEXT NOT NULL DEFAULT '');
CREATE INDEX IF NOT EXISTS files_unread ON files (name, wrong) WHERE wrong <> '';
CREATE TABLE IF NOT EXISTS records (number INTEGER PRIMARY KEY, id TEXT NOT NULL, state TEXT NOT NULL, date TEXT NOT NULL,
  title TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS records_by_date ON records (date DESC, id);
CREATE TABLE IF NOT EXISTS facts (kind TEXT NOT NULL, value TEXT NOT NULL, number INTEGER NOT NULL,
  PRIMARY KEY (kind, value, number)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS facts_by_record ON facts (number);
CREATE VIRTUAL TABLE IF NOT EXISTS said USING fts5 (title, symptom, diagnosis, cause, fix, rest,
  tokenize = "porter unicode61 remove_diacritics 2");
"""


class Index:
    """The index of one store; close it after use."""

    def __init__(self, store: Store, *, place: Path | None = None, in_memory: bool = False) -> None:
        """place: the file; one in the user's cache folder where None."""
        self.store = store
        self._place = None if in_memory else place or _place_of(store)
        self.base = self._open()

    def close(self) -> None:
        """Closes the database."""
        self.base.close()

    def _open(self) -> sqlite3.Connection:
        if self._place is not None:
            for _ in range(2):
                try:
                    return self._connect(str(self._place))
                except sqlite3.OperationalError:
                    break
                except sqlite3.DatabaseError:
                    # Not a database, or a damaged one: it holds nothing that the files do not.
                    for end in ("", "-wal", "-shm"):
                        self._place.with_name(self._place.name + end).unlink(missing_ok=True)
        self._place = None
        return self._connect(":memory:")

    @staticmethod
    def _connect(name: str) -> sqlite3.Connection:
        base = sqlite3.connect(name, timeout=20.0, isolation_level=None)
        try:
            base.execute("PRAGMA journal_mode = WAL")
            base.execute("PRAGMA synchronous = NORMAL")
            form = base.execute("PRAGMA user_version").fetchone()[0]
            if form not in (0, FORM):
                raise sqlite3.DatabaseError("another form of the index")
            if form == 0:
                base.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {FORM}; COMMIT;")
        except sqlite3.Error:
            base.close()
            raise
        return base

    def refresh(self, *, full: bool = False) -> int:
        """Brings the index up to the files.

        Args:
            full: whether to look at every file, however many there are.

        Returns:
            Number of files that were read.
        """
        try:
            return self._refresh(full=full)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
                return 0  # somebody else brings it up to date right now
            self.base.close()
            # A full disk or a folder that may not be written: it lives in memory. Damage: it is made anew.
            if isinstance(error, sqlite3.OperationalError):
                self._place = None
            elif self._place is not None:
                self._place.unlink(missing_ok=True)
            self.base = self._open()
            return self._refresh(full=True)

    def _refresh(self, *, full: bool) -> int:
        meta = dict(self.base.execute("SELECT key, value FROM meta"))
        large = int(meta.get("files", "0")) > EACH_TIME
        # A clock that was set back makes it look again.
        fresh = 0 <= time.time() - float(meta.get("checked", "0")) < TRUSTED
        ships = edition()
        current = meta.get("shipped") == ships
        if large and not full and fresh and current and self.store.same_folders(json.loads(meta.get("folders", "[]"))):
            return 0
        # Taken before the files are read: what comes meanwhile is seen next time.
        folders = json.dumps(sorted(self.store.folders())) if self.store.folder.is_dir() else "[]"
        with self._changing():
            read = self._files()
            if not current:
                self._ship()
            number = self.base.execute("SELECT count(*) FROM files").fetchone()[0]
            rows = {"folders": folders, "checked": str(time.time()), "files": str(number), "shipped": ships}
            self.base.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows.items())
        return read

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        self.base.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.base.execute("ROLLBACK")
            raise
        self.base.execute("COMMIT")

    def _files(self) -> int:
        known = {
            name: (number, Stamp(*stamp))
            for number, name, *stamp in self.base.execute("SELECT number, name, modified, size, inode FROM files")
        }
        read = 0
        for name, stamp in self.store.files() if self.store.folder.is_dir() else ():
            number, before = known.pop(name, (None, None))
            if before != stamp:
                self._take(name, stamp, number)
                read += 1
        for name, (number, _) in known.items():
            if not name.startswith(SHIPPED):
                self._drop(number)
        return read

    def _take(self, name: str, stamp: Stamp, number: int | None) -> None:
        if number is not None:
            self._drop(number)
        now = time.time_ns()
        if now - stamp.modified < _RACE:
            stamp = stamp._replace(modified=-1)
        wrong, record = "", None
        try:
            record = self.store.read(name)
        except IncidentError as error:
            wrong = f"{error.where}: {error.what}"
        except OSError as error:
            wrong = f"{name}: {error.strerror}"
        added = self.base.execute(
            "INSERT INTO files (name, modified, size, inode, wrong) VALUES (?, ?, ?, ?, ?)", (name, *stamp, wrong)
        )
        if record is not None:
            self._add(int(added.lastrowid or 0), record)

    def _ship(self) -> None:
        for number, _ in list(self.base.execute("SELECT number, name FROM files WHERE name GLOB ?", (f"{SHIPPED}*",))):
            self._drop(number)
        for record in shipped():
            row = (f"{SHIPPED}{record.id}", 0, 0, 0)
            added = self.base.execute("INSERT INTO files (name, modified, size, inode) VALUES (?, ?, ?, ?)", row)
            self._add(int(added.lastrowid or 0), record)

    def _drop(self, number: int) -> None:
        for table, column in (("files", "number"), ("records", "number"), ("facts", "number"), ("said", "rowid")):
            self.base.execute(f"DELETE FROM {table} WHERE {column} = ?", (number,))  # noqa: S608 - our own names

    def _add(self, number: int, record: Record) -> None:
        self.base.execute(
            "INSERT INTO records VALUES (?, ?, ?, ?, ?)",
            (number, record.id, str(record.state), record.one("date"), record.title),
        )
        self.base.executemany(
            "INSERT OR IGNORE INTO facts VALUES (?, ?, ?)", ((k, v, number) for k, v in facts(record))
        )
        self.base.execute(
            "INSERT INTO said (rowid, title, symptom, diagnosis, cause, fix, rest) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (number, *(indexed(text) for text in columns(record))),
        )

    def count(self) -> int:
        """How many records there are, those that ship among them."""
        return int(self.base.execute("SELECT count(*) FROM records").fetchone()[0])

    def unreadable(self) -> list[str]:
        """Files that hold no record that can be read, each with what is wrong, by name."""
        return [told for (told,) in self.base.execute("SELECT wrong FROM files WHERE wrong <> '' ORDER BY name")]

    def records_of(self, numbers: Iterable[int]) -> Iterator[tuple[int, Record]]:
        """The records as their files are now, in the given order; those that are gone are left out."""
        for number in numbers:
            record = self.current(number)
            if record is not None:
                yield number, record

    def current(self, number: int) -> Record | None:
        """The record as its file is now; None where it is gone."""
        row = self.base.execute("SELECT name FROM files WHERE number = ?", (number,)).fetchone()
        if row is None:
            return None
        name = str(row[0])
        if name.startswith(SHIPPED):
            return next((r for r in shipped() if r.id == name.removeprefix(SHIPPED)), None)
        try:
            return self.store.read(name)
        except (IncidentError, OSError):
            return None

    def holding(self, kind: str, value: str, limit: int) -> list[int]:
        """Numbers of the records that hold a value, those that came last first."""
        rows = self.base.execute(
            "SELECT number FROM facts WHERE kind = ? AND value = ? ORDER BY number DESC LIMIT ?", (kind, value, limit)
        )
        return [int(row[0]) for row in rows]

    def own_rules(self) -> list[tuple[str, int]]:
        """What the records of this store are shown by, with their numbers; without those that ship."""
        rows = self.base.execute(
            "SELECT value, facts.number FROM facts JOIN files ON files.number = facts.number"
            " WHERE kind = 'shown_by' AND NOT name GLOB ? ORDER BY facts.number, value",
            (f"{SHIPPED}*",),
        )
        return [(str(rule), int(number)) for rule, number in rows]

    def by_text(self, query: Query, wanted: Wanted, limit: int) -> tuple[list[int], bool]:
        """Numbers of records, best first, and whether they are too many to be ranked."""
        words = fts(wanted)
        if not words:
            return [], False
        match = f"{{{' '.join(query.fields)}}} : ({words})" if query.fields else words
        where, values = _where(query, "said.rowid", each=True)
        many = self.base.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM said WHERE said MATCH ?{where} LIMIT ?)",  # noqa: S608 - our own clauses
            (match, *values, limits.MANY + 1),
        ).fetchone()[0]
        order = "said.rowid DESC" if many > limits.MANY else _WEIGHTS
        rows = self.base.execute(
            f"SELECT said.rowid FROM said WHERE said MATCH ?{where} ORDER BY {order} LIMIT ?",  # noqa: S608 - our own clauses
            (match, *values, limit),
        )
        return [int(row[0]) for row in rows], many > limits.MANY

    def by_facts(self, query: Query, limit: int) -> list[int]:
        """Numbers of records, newest first."""
        # A value that few records hold names them; one that many hold is met soon on the way from the newest to the oldest.
        many = any(self._held(kind, value) > limits.MANY for kind, value in query.facts)
        where, values = _where(query, "records.number", each=many)
        rows = self.base.execute(
            f"SELECT number FROM records WHERE 1{where} ORDER BY date DESC, id LIMIT ?",  # noqa: S608 - our own clauses
            (*values, limit),
        )
        return [int(row[0]) for row in rows]

    def _held(self, kind: str, value: str) -> int:
        """How many records hold a value, counted up to one more than `MANY`."""
        sql = "SELECT count(*) FROM (SELECT 1 FROM facts WHERE kind = ? AND value >= ? AND value <= ? LIMIT ?)"
        return int(self.base.execute(sql, (kind, *span_of(value), limits.MANY + 1)).fetchone()[0])


def _where(query: Query, column: str, *, each: bool) -> tuple[str, list[str]]:
    """Conditions for the facts, and their values.

    each: whether every row is asked for its facts, instead of the facts for their rows.
    """
    parts, values = [], []
    for kind, value in query.facts:
        low, high = span_of(value)
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


def _place_of(store: Store) -> Path | None:
    """The file of the index; None where the user's cache folder cannot be used."""
    place = own_folder()
    if place is None:
        return None
    name = hashlib.sha256(str(store.folder.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:20]
    # Two versions that are in use at once would otherwise make it anew for each other, search by search.
    return place / f"incidents-{name}-{FORM}.sqlite"


def edition() -> str:
    """Tells one set of shipped records from another by what they say, also while somebody works on them.

    Not by the times of their files: each installation has its own, and all of them share an organisation's database.
    """
    said = hashlib.sha256()
    for file in sorted(FOLDER.glob("*.md")):
        said.update(file.read_bytes() + b"\0")
    return f"{__version__} {said.hexdigest()[:20]}"


def facts(record: Record) -> Iterator[tuple[str, str]]:
    """What one may search for by value: kind and value, in small letters."""
    for kind, key in FACTS.items():
        for value in record.all(key):
            yield kind, value.lower()
    # Who was there beside those at fault, and who is named in a quoted line: asked for as often, and counted in no trend.
    for host in (*record.all("hosts_seen"), *_HOST.findall(record.text)):
        yield "host", host.lower()
    # A log is named after its host more often than its lines name it.
    for file in {line.file for line in record.quoted()}:
        yield "host", file.rpartition("/")[2].partition(".")[0].lower()
    for kind in ("state", "category", "layer", "form", "phase", "place", "fingerprint", "evidence_digest"):
        if record.one(kind):
            yield kind, record.one(kind).lower()
    parts = record.one("fingerprint").split(":")
    if len(parts) == 4:
        yield from (
            (kind, f"{parts[0]}:{part}")
            for kind, part in zip(("fp_kind", "fp_message"), parts[1:3], strict=True)
            if part != "-"
        )
    for rule in record.all("shown_by"):
        yield "shown_by", rule


def columns(record: Record) -> tuple[str, ...]:
    """The texts of a record by the columns of the index."""
    names = (record.title, record.one("title_zh"), record.id, *record.all("search_words"))
    said = record.sections
    told = {said.get(s, "") for s in (Section.SYMPTOM, Section.DIAGNOSIS, Section.ROOT_CAUSE, Section.FIX)}
    rest = record.text
    for text in told:
        rest = rest.replace(text, " ") if text else rest
    return (
        "\n".join(names),
        said.get(Section.SYMPTOM, ""),
        said.get(Section.DIAGNOSIS, ""),
        said.get(Section.ROOT_CAUSE, ""),
        said.get(Section.FIX, ""),
        rest,
    )
