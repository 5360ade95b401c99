"""The records that ship with the program. Must not be changed at run time; a team copies one to go on with it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from firstfault.incidents.record import Record, parse
from firstfault.incidents.table import Row
from firstfault.incidents.words import Section

FOLDER = Path(__file__).with_name("library")


@cache
def shipped() -> tuple[Record, ...]:
    """Every record that ships, by id."""
    return tuple(parse(file.read_text(encoding="utf-8")) for file in sorted(FOLDER.glob("*.md")))


def make_table() -> str:
    """The text of `library.json`, out of the records."""
    rows = [
        Row(
            id=record.id,
            title=record.title,
            state=str(record.state),
            fix=" ".join(record.said(Section.FIX).split()),
            shown_by=record.all("shown_by"),
        )
        for record in shipped()
        if record.all("shown_by")
    ]
    return msgspec.json.format(msgspec.json.encode(rows), indent=1).decode("utf-8") + "\n"
