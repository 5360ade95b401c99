"""Where records lie: a folder of files, or a database for a whole organisation. Opens the store and the index of either.

What the rest of the program may ask of them stands here, so that nothing else knows which of the two it is. Must not load
a driver of databases where a folder was named.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from firstfault.incidents.errors import IncidentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from firstfault.incidents.record import Record
    from firstfault.incidents.search import Query
    from firstfault.incidents.tokens import Wanted

SCHEMES = ("postgresql://", "postgres://", "postgresql+psycopg://")
"""How the address of a database begins."""
_PASSWORD = re.compile(r"(://[^/:\s]*):\S*@")
"""Up to the last `@`: a password in which nothing is escaped is taken with its slashes and signs."""
_PARAMETER = re.compile(r"(?i)([?&](?:ssl)?password=)[^&]*")


class Records(Protocol):
    """The store: records as texts."""

    @property
    def where(self) -> str:
        """What it is, for messages; without a password."""

    def close(self) -> None:
        """Lets go of what it holds."""

    def exists(self) -> bool:
        """Whether there is anything to read."""

    def records(self) -> tuple[list[Record], list[IncidentError]]:
        """Every record in a stable order, and what is wrong with those that are none."""

    def create(self, record_id: str, text: str, year: str = "") -> str | Path:
        """Adds a record and never replaces one; where it is now."""

    def change(self, record: Record, edit: Callable[[str], str]) -> Record:
        """Edits a record; characters that the edit leaves alone stay."""


class Lookup(Protocol):
    """The index of a store: numbers of records by what they hold."""

    def close(self) -> None:
        """Lets go of what it holds."""

    def refresh(self, *, full: bool = False) -> int:
        """Brings it up to the store; the number of records that were read."""

    def by_text(self, query: Query, wanted: Wanted, limit: int) -> tuple[list[int], bool]:
        """Numbers of records, best first, and whether they are too many to be ranked."""

    def by_facts(self, query: Query, limit: int) -> list[int]:
        """Numbers of records, newest first."""

    def holding(self, kind: str, value: str, limit: int) -> list[int]:
        """Numbers of the records that hold a value, those that came last first."""

    def own_rules(self) -> list[tuple[str, int]]:
        """What the records of this store are shown by, with their numbers; without those that ship."""

    def count(self) -> int:
        """How many records there are, those that ship among them."""

    def unreadable(self) -> list[str]:
        """Files that hold no record that can be read, each with what is wrong, by name."""

    def records_of(self, numbers: Iterable[int]) -> Iterator[tuple[int, Record]]:
        """The records as they are now, in the given order; those that are gone are left out."""


def is_address(place: str) -> bool:
    """Whether this names a database."""
    return place.startswith(SCHEMES)


def store_at(place: str | Path) -> Records:
    """The store of a folder or of a database.

    Raises:
        IncidentError: the database cannot be used.
    """
    if is_address(str(place)):
        _needs_extra(str(place))
        from firstfault.incidents.server.database import database_at
        from firstfault.incidents.server.store import ServerStore

        return ServerStore(database_at(str(place)))
    from firstfault.incidents.store import Store

    return Store(Path(place))


def index_at(place: str | Path) -> Lookup:
    """The index of a folder or of a database; close it after use.

    Raises:
        IncidentError: the database cannot be used.
    """
    if is_address(str(place)):
        _needs_extra(str(place))
        from firstfault.incidents.server.database import database_at
        from firstfault.incidents.server.index import ServerIndex

        return ServerIndex(database_at(str(place)))
    from firstfault.incidents.index import Index
    from firstfault.incidents.store import Store

    return Index(Store(Path(place)))


def _needs_extra(place: str) -> None:
    missing = [name for name in ("sqlalchemy", "psycopg") if find_spec(name) is None]
    if missing:
        raise IncidentError(
            f"records in a database need {' and '.join(missing)}, and that is not installed",
            where=shown(place),
            fix="In the clone, run `pip install '.[incidents-server]'`.",
        )


def shown(place: str) -> str:
    """An address without its password, for messages."""
    return _PASSWORD.sub(r"\1:***@", _PARAMETER.sub(r"\1***", place))
