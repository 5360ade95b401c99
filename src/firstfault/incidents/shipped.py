"""The records that ship with the program. Must not be changed at run time; a team copies one to go on with it.

A diagnosis looks them up by `library.json`, which holds their rules alone: to read eleven pages costs more than all else
that such a look-up does.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

import msgspec

from firstfault.incidents.record import Record, parse
from firstfault.incidents.words import Section, State

FOLDER = "library"
TABLE = "library.json"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What a diagnosis says of one shipped record, and by which lines it is shown."""

    id: str
    title: str
    state: str
    fix: str
    shown_by: tuple[str, ...]

    @property
    def verified(self) -> bool:
        """Whether its fix is shown to hold."""
        return self.state == str(State.VERIFIED)


@cache
def shipped() -> tuple[Record, ...]:
    """Every record that ships, by id."""
    folder = resources.files(__package__).joinpath(FOLDER)
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".md")), key=lambda f: f.name)
    return tuple(parse(f.read_text(encoding="utf-8")) for f in files)


@cache
def table() -> tuple[Row, ...]:
    """The rows of the records that logs can show."""
    raw = resources.files(__package__).joinpath(TABLE).read_bytes()
    return msgspec.json.decode(raw, type=tuple[Row, ...])


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
