"""All words that the literal engines look for, cut to their rare part, with the signatures that each proposes; packable.

Reading a thousand patterns takes a second, so that the table is kept in the cache beside the compiled database.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from firstfault.scan.cut import cut

if TYPE_CHECKING:
    from firstfault.scan.plan import Plan


class Words(Struct, frozen=True):
    """Words and their signatures."""

    exact: tuple[bytes, ...]
    any_case: tuple[bytes, ...]
    """Lower case."""
    owners: tuple[tuple[int, ...], ...]
    """Signatures by word, first those of `exact`, then those of `any_case`."""
    bare: tuple[tuple[str, int], ...]
    """Patterns without a word, with their signatures."""

    @property
    def all(self) -> tuple[bytes, ...]:
        """Every word, in the order of `owners`."""
        return self.exact + self.any_case

    def packed(self) -> bytes:
        """The table as bytes."""
        return msgspec.msgpack.encode(self)


def words_of(plan: Plan) -> Words:
    """The words of a plan.

    Raises:
        re.error: a pattern is none.
    """
    from firstfault.scan.literals import required_literals

    exact: dict[bytes, set[int]] = {}
    any_case: dict[bytes, set[int]] = {}
    bare: list[tuple[str, int]] = []
    for pattern, owner in zip(plan.patterns, plan.owners, strict=True):
        literals = required_literals(pattern)
        if literals is None:
            bare.append((pattern, owner))
            continue
        table = any_case if literals.any_case else exact
        for word in literals.words:
            table.setdefault(cut(word), set()).add(owner)
    names = (tuple(sorted(exact)), tuple(sorted(any_case)))
    owners = [tuple(sorted(exact[w])) for w in names[0]] + [tuple(sorted(any_case[w])) for w in names[1]]
    return Words(names[0], names[1], tuple(owners), tuple(bare))


def unpacked(data: bytes) -> Words | None:
    """The table from bytes; None where they are none."""
    try:
        return msgspec.msgpack.decode(data, type=Words)
    except msgspec.MsgspecError:
        return None


def bare_patterns(words: Words) -> list[tuple[re.Pattern[bytes], int]]:
    """The patterns without a word, compiled."""
    return [(re.compile(pattern.encode("utf-8")), owner) for pattern, owner in words.bare]
