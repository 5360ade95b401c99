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
    from collections.abc import Callable

FORM = 1
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
    sa.Column("said", TSVECTOR, nullable=False),
    # One for each part of a record, so that a search in one part finds no word of another.
    *(sa.Column(name, TSVECTOR, nullable=False) for name in FIELDS),
    sa.UniqueConstraint("edition", "id", name="firstfault_records_id"),
)
sa.Index("firstfault_records_date", records.c.date.desc(), records.c.id)
sa.Index("firstfault_records_said", records.c.said, postgresql_using="gin")
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


def _first(base: sa.Connection) -> None:
    base.execute(sa.text(f"CREATE TEXT SEARCH DICTIONARY {STEMS} (TEMPLATE = snowball, Language = porter)"))
    TABLES.create_all(base, checkfirst=False)


STEPS: tuple[Callable[[sa.Connection], None], ...] = (_first,)
"""What brings a database of form n to n + 1, in order; a step that was released is never changed."""
