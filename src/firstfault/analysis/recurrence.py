"""Which attempts failed in the same way: the same kind of first fault, whoever met it.

Says nothing where the kind is not known, and never takes a likeness for a cause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.suspects import nature_of
from firstfault.model.evidence import GlobalRank
from firstfault.model.words import Category

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene


class Recurring(Struct, frozen=True, kw_only=True):
    """Attempts of one kind of first fault."""

    attempts: tuple[int, ...]
    what: str
    hosts: tuple[str, ...]
    """Named in every one of them."""
    ranks: tuple[GlobalRank, ...]
    """Named in every one of them."""


def recurrences(attempts: Iterable[tuple[Scene, Answer]]) -> tuple[Recurring, ...]:
    """Kinds of first faults that ended more than one attempt, in the order of their first one."""
    kinds: dict[tuple[str, str], list[tuple[Scene, Answer, str]]] = {}
    for scene, answer in attempts:
        kind = _kind(scene, answer)
        if kind is not None:
            key, title = kind
            kinds.setdefault((str(answer.category), key), []).append((scene, answer, title))
    return tuple(_joined(found) for found in kinds.values() if len(found) > 1)


def _joined(found: list[tuple[Scene, Answer, str]]) -> Recurring:
    hosts = set.intersection(*({*a.culprits.hosts, *a.first_failed.hosts} for _, a, _ in found))
    ranks = set.intersection(*({*a.culprits.ranks, *a.first_failed.ranks} for _, a, _ in found))
    return Recurring(
        attempts=tuple(scene.number for scene, _, _ in found),
        what=found[0][2],
        hosts=tuple(sorted(hosts)),
        ranks=tuple(sorted(ranks)),
    )


def _kind(scene: Scene, answer: Answer) -> tuple[str, str] | None:
    """Key and title of a first fault; None where it is not known what it was."""
    if answer.failed is not True or answer.category is Category.UNKNOWN:
        return None
    if answer.question == "hang":
        # Which line of a stall is cited is chance; that ranks stayed away from a collective is the kind.
        if answer.culprits.anybody:
            return "late", "ranks that never entered a collective in which the others waited"
        return "stuck", "a collective that never ended"
    # A line that led up to the fault may be the trigger; of the lines of the proof the root is the one that lies deepest.
    told = [nature_of(scene.case, e) for e in (answer.trigger, *answer.proof[:2]) if e is not None]
    own = [n for n in told if n.category is answer.category] or told
    root = max(own, key=lambda n: n.depth, default=None)
    return None if root is None else (root.key, root.title)
