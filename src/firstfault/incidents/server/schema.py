"""The tables of the records in PostgreSQL, and the steps that bring an older database up to them.

The text of a record is the truth, byte for byte as in a file; its words and facts stand beside it and are made anew where
a later version cuts them otherwise. Must not read or judge a record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import TSVECTOR

from firstfault.incidents.search import FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FORM = 2
"""Number of the last step of `STEPS`; a database of a later one is left alone."""
WORDS = 1
"""How words and facts are cut; those of a database with a lower number are made anew."""
LOCK = 0x6669727374
"""Number of the advisory lock under which one client at a time changes tables."""
STEMS = "firstfault_porter"
"""The dictionary that cuts the ends of English words as FTS5's `porter` does."""

TABLES = sa.MetaData()
# Compared by bytes: values are looked for by their begin, and sorted as the embedded index sorts them.
_BYTES = sa.Text(collation="C")

meta = sa.Table(
    "firstfault_meta",
    TABLES,
    sa.Column("key", _BYTES, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
records = sa.Table(
    "firstfault_records",
    TABLES,
    sa.Column("number", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("id", _BYTES, nullable=False),
    # Empty for a record of the organisation; the edition of the program for one that ships with it.
    sa.Column("edition", _BYTES, nullable=False, server_default=""),
    sa.Column("date", _BYTES, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    # One for each part of a record, so that a search in one part finds no word of another.
    *(sa.Column(name, TSVECTOR, nullable=False) for name in FIELDS),
    sa.UniqueConstraint("edition", "id", name="firstfault_records_id"),
)
sa.Index("firstfault_records_date", records.c.date.desc(), records.c.id)
said = sa.Table(
    "firstfault_said",
    TABLES,
    sa.Column(
        "number",
        sa.BigInteger,
        sa.ForeignKey(records.c.number, ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    ),
    sa.Column("edition", _BYTES, nullable=False),
    sa.Column("said", TSVECTOR, nullable=False),
)
"""The words of the whole record beside its number alone: a search reads hundreds of them, and of a wide row each lies apart."""
sa.Index("firstfault_said_words", said.c.said, postgresql_using="gin")
facts = sa.Table(
    "firstfault_facts",
    TABLES,
    sa.Column("kind", _BYTES, primary_key=True),
    sa.Column("value", _BYTES, primary_key=True),
    sa.Column(
        "number",
        sa.BigInteger,
        sa.ForeignKey(records.c.number, ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    ),
)
sa.Index("firstfault_facts_record", facts.c.number)


_WHOLE_ROW = ", ".join(
    f"{name} tsvector NOT NULL" for name in ("title", "symptom", "diagnosis", "cause", "fix", "rest")
)
_FIRST = (
    f"CREATE TEXT SEARCH DICTIONARY {STEMS} (TEMPLATE = snowball, Language = porter)",
    'CREATE TABLE firstfault_meta (key text COLLATE "C" PRIMARY KEY, value text NOT NULL)',
    (
        'CREATE TABLE firstfault_records (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text COLLATE "C" NOT NULL, '
        'edition text COLLATE "C" NOT NULL DEFAULT \'\', date text COLLATE "C" NOT NULL, body text NOT NULL, '
        f"said tsvector NOT NULL, {_WHOLE_ROW}, CONSTRAINT firstfault_records_id UNIQUE (edition, id))"
    ),
    "CREATE INDEX firstfault_records_date ON firstfault_records (date DESC, id)",
    "CREATE INDEX firstfault_records_said ON firstfault_records USING gin (said)",
    (
        'CREATE TABLE firstfault_facts (kind text COLLATE "C", value text COLLATE "C", '
        "number bigint REFERENCES firstfault_records (number) ON DELETE CASCADE, PRIMARY KEY (kind, value, number))"
    ),
    "CREATE INDEX firstfault_facts_record ON firstfault_facts (number)",
)
_SECOND = (
    (
        "CREATE TABLE firstfault_said (number bigint PRIMARY KEY REFERENCES firstfault_records (number) ON DELETE CASCADE, "
        'edition text COLLATE "C" NOT NULL, said tsvector NOT NULL)'
    ),
    # In its row as long as that fits into a page, else beside it.
    "ALTER TABLE firstfault_said ALTER said SET STORAGE MAIN",
    "INSERT INTO firstfault_said SELECT number, edition, said FROM firstfault_records ORDER BY number",
    "CREATE INDEX firstfault_said_words ON firstfault_said USING gin (said)",
    "ALTER TABLE firstfault_records DROP COLUMN said",
    "ANALYZE firstfault_said",
)
# Who may only read the records may read their words; who may write the ones may write the others.
_RIGHTS = sa.text(
    "SELECT format('GRANT %s ON firstfault_said TO %s', string_agg(privilege_type, ', '), "
    "CASE WHEN grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END) "
    "FROM pg_class, aclexplode(relacl) WHERE oid = 'firstfault_records'::regclass AND grantee <> relowner GROUP BY grantee"
)


def _first(base: sa.Connection) -> None:
    _run(base, _FIRST)


def _second(base: sa.Connection) -> None:
    _run(base, _SECOND)
    _run(base, [str(row[0]) for row in base.execute(_RIGHTS).all()])


def _run(base: sa.Connection, statements: Iterable[str]) -> None:
    for statement in statements:
        base.execute(sa.text(statement.replace(":", "\\:")))


STEPS: tuple[Callable[[sa.Connection], None], ...] = (_first, _second)
"""What brings a database of form n to n + 1, in order; a step that was released is never changed."""
