"""What was the first fault, where lines of a known meaning name it? Chooses among suspects and says who and how sure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.answer import Answer, Named
from firstfault.analysis.causes import Choice, choose, strength_of
from firstfault.analysis.classes import classes
from firstfault.analysis.culprits import all_alike, culprits, first_failed
from firstfault.analysis.order import first, sort_key
from firstfault.analysis.wording import sentence, who_text
from firstfault.model.findings import Rival
from firstfault.model.words import ActionKind, Blame, Category, Domain, Phase, Strength

if TYPE_CHECKING:
    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import Event
    from firstfault.analysis.suspects import Suspect

DEEP = 70
"""Depth from which on a line that is not fatal by itself may still be the root: it speaks of hardware, kernel or host."""

STEPS_PER_SIGN = 1.5
"""Steps for each line that shows the fault coming, up to which the run of such lines is unbroken."""


def ask(scene: Scene) -> Answer | None:
    """The answer where a suspect remains; else None."""
    pool = [*scene.suspects, *(w for w in scene.weak if _eligible(scene, w))]
    choice = choose(scene.case, [_placed(scene, s) for s in pool], scene.hang)
    if choice is None:
        return None
    return answer(scene, choice)


def _eligible(scene: Scene, weak: Suspect) -> bool:
    """Whether a suspect that is not fatal by itself may stand beside the fatal ones.

    It must be deep, and either explain one of them by a stated relation, or have nobody fatal beside it.
    """
    explained = any(scene.case.library.explains(weak.nature.key.split("#")[0], s.nature.key) for s in scene.suspects)
    if explained:
        return True
    if weak.nature.depth < DEEP:
        return False
    if scene.suspects:
        return any(
            first(weak.first, s.first) is not False and weak.nature.depth > s.nature.depth + 10 for s in scene.suspects
        )
    return True


def _placed(scene: Scene, suspect: Suspect) -> Suspect:
    """A plain exception judged with its place: in the data path of few ranks after progress, it is the data's."""
    from msgspec.structs import replace

    exception = suspect.first.exception
    if (
        exception is None
        or suspect.nature.category is not Category.SOFTWARE
        or suspect.nature.strength is not Strength.POSSIBLE
    ):
        return suspect
    in_data = (
        exception.in_worker or classes(scene.case, suspect, Named(), scene.complete, scene.hang).phase is Phase.DATA
    )
    moved = bool(scene.case.tracks)
    if in_data and moved and not all_alike(suspect, scene.complete):
        nature = replace(
            suspect.nature,
            category=Category.DATA,
            domain=Domain.DATA,
            blame=Blame.RANK,
            strength=Strength.SUPPORTED if exception.in_worker else Strength.POSSIBLE,
            advice=(
                "Find the sample that was being read (the message or the frame above names it) and read it alone.",
                *suspect.nature.advice,
            ),
        )
        return replace(suspect, nature=nature)
    return suspect


def answer(scene: Scene, choice: Choice) -> Answer:
    """The answer for a chosen root."""
    root = choice.root
    nature = root.nature
    category = nature.category or Category.UNKNOWN
    strength = strength_of(scene.case, choice, fatal=nature.fatal)
    if scene.complete.missing_files and strength is Strength.ESTABLISHED:
        # A log that is not there may hold an earlier fault.
        strength = Strength.SUPPORTED
    named = culprits(scene.case, scene.roster, root, scene.complete)
    if category is Category.UNKNOWN:
        strength = Strength.UNKNOWN
    victims = tuple(s for s, _ in choice.explained)
    failed_first = first_failed(scene.roster, root, victims)
    kind, exclude, steps = _action(root, named)
    trigger = trigger_of(scene, root)
    return Answer(
        question="first_fault",
        failed=True,
        category=category,
        strength=strength,
        summary=sentence(root, named, failed_first, scene),
        trigger=trigger,
        proof=(trigger, root.first, *(s.first for s, _ in choice.explained[:2])),
        culprits=named,
        first_failed=failed_first,
        classes=classes(scene.case, root, named, scene.complete, scene.hang),
        action=kind,
        exclude_hosts=exclude,
        steps=steps,
        collect=nature.collect,
        rivals=tuple(_rival(r, root) for r in choice.rivals),
    )


def trigger_of(scene: Scene, root: Suspect) -> Event:
    """The earliest line that is true evidence of a root: its own, or the first of the lines that led up to it.

    Lines that lead up to it count only as an unbroken run: about one for every step between them and the root.
    """
    spec = scene.case.spec(root.first)
    if spec is None or not spec.precursors:
        return root.first
    before = [e for e in scene.events if e.signature in spec.precursors and first(e, root.first) is True]
    for event in sorted(before, key=sort_key):
        track = scene.case.tracks.get(event.span.source)
        if track is None:
            return event
        start, end = track.before(event.span.offset), track.before(root.first.span.offset)
        steps = 0
        if start is not None and end is not None and start.step is not None and end.step is not None:
            steps = end.step - start.step
        left = event.count - event.ordinal if event.ordinal >= 0 else -event.ordinal
        if steps <= STEPS_PER_SIGN * left + 2:
            return event
    return root.first


def _action(root: Suspect, named: Named) -> tuple[ActionKind, tuple[str, ...], tuple[str, ...]]:
    nature = root.nature
    kind = nature.action
    exclude: tuple[str, ...] = ()
    machine = nature.blame is Blame.HOST or nature.domain is Domain.HARDWARE
    if kind is ActionKind.RESTART_WITHOUT or (machine and kind is ActionKind.RESTART):
        exclude = named.hosts
        kind = ActionKind.RESTART_WITHOUT if exclude else ActionKind.COLLECT_MORE
    return kind, exclude, nature.advice


def _rival(suspect: Suspect, root: Suspect) -> Rival:
    return Rival(
        category=suspect.nature.category or Category.UNKNOWN,
        strength=suspect.nature.strength.at_most(Strength.POSSIBLE),
        supports=(
            f"{suspect.nature.title}{who_text(suspect.ranks, suspect.hosts)}: {suspect.first.text.strip()[:160]}",
        ),
        against=(f"nothing orders it before {root.nature.title}, and it is not nearer to the root",),
        settled_by=suspect.nature.collect or ("time stamps on both lines, or both ranks' complete logs",),
    )
