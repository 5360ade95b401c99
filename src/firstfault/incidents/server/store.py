"""The store of records in PostgreSQL: reads, adds and changes them. Must not judge what they say.

Writers do not collide: an id is taken once, and a change is refused where somebody else changed the record meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from firstfault.incidents.errors import IncidentError
from firstfault.incidents.record import LARGEST, Record, parse
from firstfault.incidents.server.schema import records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from firstfault.incidents.server.database import Database

_AT_ONCE = 500
"""Records that are written in one go."""


class ServerStore:
    """Records in one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def where(self) -> str:
        """The address without a password, for messages."""
        return self._database.where

    def close(self) -> None:
        """Closes the connection."""
        self._database.close()

    @staticmethod
    def exists() -> bool:
        """It does: its tables were made when it was opened."""
        return True

    def records(self) -> tuple[list[Record], list[IncidentError]]:
        """Every record of the organisation by its id, and what is wrong with those that are none."""
        found: list[Record] = []
        wrong: list[IncidentError] = []
        with self._database.work() as base:
            rows = base.execute(
                sa.select(records.c.id, records.c.body).where(records.c.edition == "").order_by(records.c.id)
            ).all()
        for name, body in rows:
            try:
                found.append(parse(str(body), place=self.where))
            except IncidentError as error:
                wrong.append(IncidentError(error.what, where=f"{self.where}#{name}", fix=error.fix))
        return found, wrong

    def create(self, record_id: str, text: str, year: str = "") -> str:  # noqa: ARG002 - a folder has one for each year
        """Adds a record and never replaces one; its place as `ADDRESS#ID`.

        Raises:
            IncidentError: there is a record of that name, the text is none, or the database refuses it.
        """
        record = self._checked(text)
        if record.id != record_id:
            raise IncidentError(
                f"it says of itself that its id is {record.id!r}", where=record_id, fix="Make them one."
            )
        if not self.add_all([record]):
            raise IncidentError("there is a record of that name", where=record.where, fix="Run it again.")
        return record.where

    def add_all(self, new: Iterable[Record]) -> list[str]:
        """Adds those records whose ids are not there yet, in few transactions; their ids.

        Raises:
            IncidentError: one cannot be kept, or the database refuses it.
        """
        waiting = [self._checked(record.text) for record in new]
        added: list[str] = []
        for at in range(0, len(waiting), _AT_ONCE):
            with self._database.work() as base:
                added += self._database.add(base, waiting[at : at + _AT_ONCE])
        return added

    def change(self, record: Record, edit: Callable[[str], str]) -> Record:
        """Edits a record; characters that the edit leaves alone stay.

        Raises:
            IncidentError: it is not what was read any more, it would not be a record, or the database refuses it.
        """
        if not record.place:
            raise IncidentError("it ships with firstfault", where=record.id, fix="Copy it into your own store first.")
        new = edit(record.text)
        changed = self._checked(new)
        if new == record.text:
            return record
        if changed.id != record.id:
            raise IncidentError("its id would be another one", where=record.where, fix="Keep the id of a record.")
        with self._database.work() as base:
            same = (records.c.edition == "", records.c.id == record.id, records.c.body == record.text)
            row = base.execute(
                sa.update(records).where(*same).values(body=new).returning(records.c.number)
            ).one_or_none()
            if row is None:
                raise IncidentError("somebody changed it meanwhile", where=record.where, fix="Run it again.")
            self._database.set_words(base, int(row[0]), changed)
        return changed

    def _checked(self, text: str) -> Record:
        record = parse(text, place=self.where)
        if len(text.encode("utf-8", "surrogatepass")) > LARGEST:
            raise IncidentError("it is more than a page", where=record.where, fix="Move logs out of it.")
        if "\0" in text or not _is_text(text):
            raise IncidentError("it holds a character that is no text", where=record.where, fix="Take it out.")
        return record


def _is_text(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
