"""Looks at thousands of files in copies of this process at once, to tell what kind each is; judges none itself.

Where no copy can be made, whoever opens the files looks at each of them then: what is told is the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.model.until import NEVER
from firstfault.pipelines.share import can_share, shared
from firstfault.readers.open import look_at
from firstfault.readers.sniff import Sniffed
from firstfault.scan.executors import processors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.model.until import Until
    from firstfault.readers.discover import Found

FEWEST = 512
"""Files from which on copies are worth their start."""
TOGETHER = 64
"""Files whose kinds travel in one message."""


class _Kinds(Struct):
    """Kinds of files that follow each other; None for those that have to be opened to be told."""

    kinds: list[Sniffed | None]


def looks(files: Sequence[Found], until: Until = NEVER) -> list[Sniffed | None]:
    """What each of some files holds, as `look_at` tells it; nothing where it is not worth copies of this process."""
    pieces = -(-len(files) // TOGETHER)
    if len(files) < FEWEST or not can_share(pieces, processors()):
        return []

    def piece(number: int) -> _Kinds:
        return _Kinds(
            [None if until.over() else look_at(found) for found in files[number * TOGETHER : (number + 1) * TOGETHER]]
        )

    return [kind for told in shared(piece, pieces, processors(), _Kinds) for kind in told.kinds]
