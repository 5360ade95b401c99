"""Which incidents are simulated: a small matrix for every run of the tests, and large ones for measuring.

A specification says all; nothing here knows what a diagnosis makes of it.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

from .incident import Spec
from .kinds import KINDS, NEEDS, OLDEST, least
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
    for number, kind in enumerate(
        ("stall_loader", "stall_two", "fabric", "mismatch_op", "mismatch_size", "crash_memory")
    ):
        found.append(Spec(kind, ("2.3", "2.4", "2.6", "2.8")[number % 4], 16, next(layouts), split=True))
    found += [Spec("stall_loader", version, 16, "rank", "culprit") for version in ("1.13", "2.4", "2.8")]
    return found


def full(
    kinds: Sequence[str] = tuple(KINDS),
    versions: Sequence[str] = tuple(VERSIONS),
    sizes: Sequence[int] = SIZES,
    layouts: Sequence[str] = LAYOUTS,
    damages: Sequence[str] = ("none",),
    seeds: Sequence[int] = (0,),
) -> Iterator[Spec]:
    """Everything of the given choices that is possible, at every second size also with groups in the job."""
    for choice in itertools.product(kinds, versions, sizes, layouts, damages, seeds):
        spec = Spec(*choice)
        if not possible(spec):
            continue
        yield spec
        if spec.kind not in NEEDS and spec.world in SIZES[3::2]:
            yield replace(spec, split=True)


def damaged(count: int) -> list[Spec]:
    """`count` incidents with damage, spread over all choices."""
    everything = list(full(damages=DAMAGES[1:], sizes=(4, 8, 16, 32)))
    step = max(1, len(everything) // count)
    return everything[::step][:count]
