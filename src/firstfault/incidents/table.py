"""What a diagnosis says of the shipped records, and by which lines they are shown: `library.json`.

It is made from the records themselves (see `firstfault.incidents.shipped`). Every diagnosis of a failure reads it, so this
module loads nothing else; to read eleven pages would cost more than all else that such a look-up does.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

FILE = Path(__file__).with_name("library.json")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One shipped record."""

    id: str
    title: str
    state: str
    fix: str
    shown_by: tuple[str, ...]


@cache
def table() -> tuple[Row, ...]:
    """The rows of the records that logs can show."""
    return msgspec.json.decode(FILE.read_bytes(), type=tuple[Row, ...])
