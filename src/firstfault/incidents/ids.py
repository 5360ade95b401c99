"""Names of records that no two writers choose alike, without a server: the day and 50 random bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import date

RANDOM_BYTES = 7
"""Bytes of chance that a name takes."""
_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32: no letter that is taken for another."""


def new_id(day: date, chance: bytes) -> str:
    """`20260302-k3m9q2x4p7`.

    Args:
        day: on which the record is made.
        chance: at least `RANDOM_BYTES` random bytes.
    """
    number = int.from_bytes(chance[:RANDOM_BYTES], "big")
    letters = []
    for _ in range(10):
        number, rest = divmod(number, 32)
        letters.append(_LETTERS[rest])
    return f"{day:%Y%m%d}-{''.join(letters)}"
