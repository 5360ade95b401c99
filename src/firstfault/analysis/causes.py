"""Which suspect is the first fault: what explains what, what is left, and how sure that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.order import comparable, exact, first, sort_key
from firstfault.analysis.suspects import Suspect, mentioned, stranger
from firstfault.model.words import Blame, Category, Mark, Strength

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.analysis.case import Case
    from firstfault.analysis.hangs import Hang

CLOCK_SLACK = 120.0
"""Seconds by which clocks of different logs may differ before a stated cause is held to be too late."""
NEAR = 200
"""Lines: unstamped events of one source nearer than this are one burst, in which depth decides."""
CLEARLY = 1.0
"""Seconds between two stamped lines from which on their order counts."""


class Choice(Struct, frozen=True, kw_only=True):
    """The chosen root, what follows from it, and what could not be ruled out."""

    root: Suspect
    explained: tuple[tuple[Suspect, str], ...] = ()
    """Suspects that follow from the root, each with the reason."""
    rivals: tuple[Suspect, ...] = ()


def choose(case: Case, suspects: Sequence[Suspect], hang: Hang | None) -> Choice | None:
    """Chooses the first fault among suspects; None where there are none.

    The answer does not depend on the order in which suspects are given.
    """
    ordered = sorted(suspects, key=lambda s: (-s.nature.depth, sort_key(s.first), s.nature.key))
    candidates = [s for s in ordered if not _after_the_hang(s, hang)] or ordered
    if not candidates:
        return None
    reasons: dict[str, str] = {}
    left: list[Suspect] = []
    for suspect in candidates:
        by = next((r for o in candidates if o is not suspect and (r := _explains(case, o, suspect)) is not None), None)
        if by is None:
            left.append(suspect)
        else:
            reasons[suspect.nature.key] = by
    if not left:
        left = candidates[:1]
    root = min(left, key=lambda s: (-s.nature.depth, sort_key(s.first), -s.nature.strength.level, s.nature.key))
    explained = []
    rivals = []
    for suspect in ordered:
        if suspect is root:
            continue
        why = _explains(case, root, suspect)
        if why is not None:
            explained.append((suspect, why))
        elif suspect.nature.key in reasons:
            explained.append((suspect, reasons[suspect.nature.key]))
        elif _after_the_hang(suspect, hang):
            explained.append((suspect, "it was said only after the watchdogs had begun to end the job"))
        else:
            rivals.append(suspect)
    return Choice(root=root, explained=tuple(explained), rivals=tuple(rivals))


def _after_the_hang(suspect: Suspect, hang: Hang | None) -> bool:
    """Whether a suspect spoke only after somebody had already waited too long."""
    if hang is None:
        return False
    event = suspect.first
    if exact(event.when) and hang.detected is not None and comparable(event.when, hang.first.when):
        return (event.when.earliest or 0.0) > hang.detected + CLEARLY
    return first(hang.first, event) is True


def related(a: Suspect, b: Suspect) -> bool:
    """Whether two suspects can have to do with each other: a common rank or host, or a fault that is everywhere."""
    if a.nature.blame in {Blame.NOBODY, Blame.STORE}:
        return True
    if set(a.everyone) & set(b.everyone):
        return True
    if set(a.hosts) & set(b.hosts):
        return True
    return not a.hosts or not b.hosts


def _explains(case: Case, cause: Suspect, effect: Suspect) -> str | None:
    """Why `effect` follows from `cause`; None where it does not, or where that cannot be told."""
    order = precedes(cause, effect)
    if case.library.explains(_plain(cause), _plain(effect)) and related(cause, effect):
        if order is not False or not _much_later(cause, effect):
            return f"{cause.nature.title} is a known reason for it"
        return None
    if case.library.explains(_plain(effect), _plain(cause)) and related(cause, effect):
        return None
    if mentioned(effect.first) and not mentioned(cause.first) and cause.first.exception is not None:
        return "its program only mentioned it and went on; this exception ended it"
    if mentioned(cause.first) and not mentioned(effect.first) and effect.first.exception is not None:
        return None
    if order is True:
        return "the job had already failed before it"
    if order is None and cause.nature.depth > effect.nature.depth:
        same = set(cause.everyone) & set(effect.everyone)
        return "it is nearer to the surface of the same failure" if same or _near(cause, effect) else None
    return None


def precedes(a: Suspect, b: Suspect) -> bool | None:
    """True where the first event of `a` clearly came before that of `b`, False where after, None where not clear."""
    order = first(a.first, b.first)
    if order is None:
        return None
    ea, eb = a.first, b.first
    if exact(ea.when) and exact(eb.when) and comparable(ea.when, eb.when):
        gap = abs((eb.when.earliest or 0.0) - (ea.when.earliest or 0.0))
        return order if gap > CLEARLY else None
    if ea.span.source == eb.span.source and abs(ea.span.line - eb.span.line) <= NEAR:
        return None
    return order


def _near(a: Suspect, b: Suspect) -> bool:
    ea, eb = a.first.span, b.first.span
    return ea.source == eb.source and abs(ea.line - eb.line) <= NEAR


def _much_later(cause: Suspect, effect: Suspect) -> bool:
    a, b = cause.first.when, effect.first.when
    if not comparable(a, b) or a.earliest is None or b.latest is None:
        return first(cause.first, effect.first) is False and not _near(cause, effect)
    return a.earliest > b.latest + CLOCK_SLACK


def _plain(suspect: Suspect) -> str:
    """Signature id without the row of a vendor table or the shape of an exception."""
    return suspect.nature.key.split("#", 1)[0].split(":", 1)[0]


def strength_of(case: Case, choice: Choice, *, fatal: bool) -> Strength:
    """How sure the category of the root is, with rivals weighed in."""
    root = choice.root
    # Errors of one kind of fault in one blow speak for the same category, whichever of them came first.
    others = (*(s for s, _ in choice.explained), *choice.rivals)
    same = [s for s in others if s.nature.category is root.nature.category and precedes(root, s) is None]
    strength = root.nature.strength
    for suspect in same:
        if suspect.nature.strength.level > strength.level:
            strength = suspect.nature.strength.at_most(Strength.SUPPORTED)
    if not fatal:
        strength = strength.at_most(Strength.SUPPORTED)
    different = [r for r in choice.rivals if r.nature.category is not choice.root.nature.category]
    if any(r.nature.strength.level >= Strength.SUPPORTED.level for r in different):
        strength = strength.at_most(Strength.POSSIBLE)
    elif different:
        strength = strength.at_most(Strength.SUPPORTED)
    if choice.root.nature.category in {None, Category.UNKNOWN}:
        return Strength.UNKNOWN
    if case.has(choice.root.first, Mark.RETRY) or stranger(choice.root.first):
        strength = strength.at_most(Strength.POSSIBLE)
    return strength
