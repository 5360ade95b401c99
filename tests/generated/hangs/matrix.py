"""Which incidents are simulated: a small matrix for every run of the tests, and large ones for measuring.

A specification says all; nothing here knows what a diagnosis makes of it.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from .incident import Spec
from .kinds import KINDS, OLDEST, least
from .layouts import DAMAGES, LAYOUTS
from .versions import VERSIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SIZES = (2, 4, 8, 16, 32, 64)


def possible(spec: Spec) -> bool:
    """Whether there is such an incident."""
    return spec.world >= least(spec.kind) and VERSIONS[spec.version].number >= OLDEST.get(spec.kind, (0, 0))


def small() -> list[Spec]:
    """Every kind at two versions and sizes, layouts by turns: old and new, so that each kind meets each clock and prefix."""
    layouts = itertools.cycle(LAYOUTS)
    found = []
    for number, kind in enumerate(KINDS):
        old, new = tuple(VERSIONS)[number % 3], tuple(VERSIONS)[3 + number % 3]
        for version, world in ((old, 8), (new, 16), (new, 4 if number % 2 else 64)):
            spec = Spec(kind, version, world, next(layouts))
            if possible(spec):
                found.append(spec)
    return found


def full(
    kinds: Sequence[str] = tuple(KINDS),
    versions: Sequence[str] = tuple(VERSIONS),
    sizes: Sequence[int] = SIZES,
    layouts: Sequence[str] = LAYOUTS,
    damages: Sequence[str] = ("none",),
    seeds: Sequence[int] = (0,),
) -> Iterator[Spec]:
    """Everything of the given choices that is possible."""
    for choice in itertools.product(kinds, versions, sizes, layouts, damages, seeds):
        spec = Spec(*choice)
        if possible(spec):
            yield spec


def damaged(count: int) -> list[Spec]:
    """`count` incidents with damage, spread over all choices."""
    everything = list(full(damages=DAMAGES[1:], sizes=(4, 8, 16, 32)))
    step = max(1, len(everything) // count)
    return everything[::step][:count]
