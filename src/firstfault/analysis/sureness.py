"""How sure the category of a chosen fault is: by its own lines, by what speaks for the same, by what stands beside it.

A claim rests on lines, and no line that is added to it may make it less sure: what caps one fault (who said it, when, at
which level) caps what its own lines prove, and nothing of what other lines prove for the same category. Chooses nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.beside_waits import order_alone
from firstfault.analysis.causes import (
    by_exits_alone,
    explains,
    of_its_own,
    precedes,
    related,
    same_fault,
)
from firstfault.analysis.devices import from_outside, other_device
from firstfault.analysis.suspects import mentioned, stranger
from firstfault.model.words import Category, Mark, Strength

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.analysis.case import Case
    from firstfault.analysis.causes import Choice
    from firstfault.analysis.suspects import Suspect

DEEPER = 25
"""Depth by which a root must lie below a fault that nothing orders, for its category to be more than a possibility: that
far apart are the machine (80 to 90) and an exception of a program (50), which a failing machine brings about as a rule."""


def doubts(case: Case, choice: Choice) -> tuple[Suspect, ...]:
    """Rivals that keep the answer from being more than a possibility, nearest to the root first."""
    return tuple(r for r in choice.rivals if _doubts(case, choice.root, r))


def _doubts(case: Case, root: Suspect, rival: Suspect) -> bool:
    """Whether a rival is too near to the root, or too sure itself, for the root to be more than a possibility."""
    if rival.nature.depth >= root.nature.depth:
        return True
    if order_alone(root) and not rival.ordered and rival.nature.fatal and precedes(root, rival) is None:
        return True  # an order to stop comes to jobs that have failed, too
    if rival.nature.category is root.nature.category:
        return False
    if rival.nature.fatal and other_device(root, rival):
        return True  # the one device does not account for the other's error
    if of_its_own(case, rival) and from_outside(root) and precedes(root, rival) is None:
        return True  # no machine and no order brings such an error about
    return rival.nature.strength.level >= Strength.SUPPORTED.level or root.nature.depth < rival.nature.depth + DEEPER


def strength_of(
    case: Case, choice: Choice, *, fatal: bool, own: Strength = Strength.ESTABLISHED, beside: Sequence[Suspect] = ()
) -> Strength:
    """How sure the category of the root is, with rivals weighed in.

    A category is as sure as the surest of the faults that speak for it: what follows from the root, and what is not as near
    to the root as it is, would make the same claim if the root's own lines were not there. So no line that is added to a claim
    makes it less sure. Of two faults of one category that are equally deep it is as sure as the weaker; beside one of another
    category, only a root that lies far deeper is more than a possibility.

    Args:
        case: of the attempt.
        choice: the root with what stands beside it.
        fatal: whether the root's kind ends a program.
        own: the most that the root's lines can prove, by who said them.
        beside: faults that end no program, and would be the answer if the root's lines were not there.
    """
    root = choice.root
    strength = by_itself(case, root, fatal=fatal).at_most(own).at_most(by_clocks(choice, root))
    for suspect in beside:
        # It would make the same claim: of nothing that stands with the root is it known that it came before.
        if (
            suspect.nature.category is root.nature.category
            and related(root, suspect)
            and precedes(root, suspect) is not False
        ):
            strength = strength.at_least(by_itself(case, suspect))
    for suspect in (s for s, _ in choice.explained):
        if suspect.nature.category is not root.nature.category:
            continue
        most = by_clocks(choice, suspect)
        if not (explains(case, root, suspect) is not None or same_fault(root, suspect)):
            most = most.at_most(Strength.SUPPORTED)
        strength = strength.at_least(by_itself(case, suspect).at_most(most))
    for rival in choice.rivals:
        if rival.nature.category is root.nature.category and rival.nature.depth < root.nature.depth:
            strength = strength.at_least(by_itself(case, rival).at_most(by_clocks(choice, rival)))
    for rival in choice.rivals:
        if rival.nature.category is root.nature.category:
            if rival.nature.depth >= root.nature.depth:
                strength = strength.at_most(rival.nature.strength)
        else:
            strength = strength.at_most(Strength.POSSIBLE if _doubts(case, root, rival) else Strength.SUPPORTED)
    if by_exits(choice):
        strength = strength.at_most(Strength.SUPPORTED)
    if choice.root.nature.category in {None, Category.UNKNOWN}:
        return Strength.UNKNOWN
    return strength


def by_exits(choice: Choice) -> bool:
    """Whether a fault of another category is held to be the later one by the order of exits alone.

    A process that met its error first may take longer to end.
    """
    root = choice.root
    return any(by_exits_alone(root, s) and s.nature.category is not root.nature.category for s, _ in choice.explained)


def by_clocks(choice: Choice, suspect: Suspect) -> Strength:
    """The most that a fault's lines can prove, by when they were said: one that came behind the wait may be no reason for it."""
    return Strength.POSSIBLE if choice.is_behind(suspect) else Strength.ESTABLISHED


def by_itself(case: Case, suspect: Suspect, *, fatal: bool | None = None) -> Strength:
    """How sure the category of a fault is by its own lines, whatever stands beside them.

    Args:
        case: of the attempt.
        suspect: the fault.
        fatal: whether its kind ends a program, where that is judged otherwise than by its nature.
    """
    strength = suspect.nature.strength
    if not (suspect.nature.fatal if fatal is None else fatal) or all(mentioned(case, e) for e in suspect.events):
        # A line that a program's logger wrote would yield to the exception that ended it; of that, none may be left.
        strength = strength.at_most(Strength.SUPPORTED)
    if case.has(suspect.first, Mark.RETRY) or stranger(suspect.first):
        strength = strength.at_most(Strength.POSSIBLE)
    return strength
