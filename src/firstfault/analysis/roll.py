"""Who is there by what ranks print, and does not wait: for hangs whose own lines tell no number of ranks and no group.

The pipeline reads who speaks at all; this says for which hangs that is wanted and what follows, which is a possibility at
most. A rank that prints is there; one that prints and tells of no wait, where all others do, is the one to look at.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.hang_answers import UNEXPLAINED, stall
from firstfault.analysis.questions.hang import MOST_NAMED, decide
from firstfault.analysis.state.exits import TOLD
from firstfault.analysis.state.picture import Picture, few, picture
from firstfault.analysis.wording import ranks_text
from firstfault.model.evidence import GlobalRank
from firstfault.model.lazy import lazy
from firstfault.model.words import ActionKind, Category, Domain, Mark, Phase, SourceKind, Strength

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import Event, SourceId

VERB = "is not among those that waited in"
_PROCESS_FILE = lazy(
    r"(?:^|[/._-])(?:worker|rank|task|process|proc|trainer)[-_.]?(\d{1,4})(?=\D{0,16}$)", re.IGNORECASE
)
"""A file's name that counts processes; one that counts nodes, hosts or pods is none, since these hold several ranks."""


def unaccounted(scene: Scene, answer: Answer) -> Picture | None:
    """The picture of a hang in which nobody is named and no row of the table decides; None for anything else."""
    if answer.question != "hang" or answer.category is not Category.UNKNOWN or answer.culprits.anybody:
        return None
    seen = picture(scene)
    if scene.hang is None or seen.state.unplaced or decide(seen)[0] != "unaccounted":
        return None
    return seen


def absent(seen: Picture, speakers: Collection[GlobalRank]) -> tuple[GlobalRank, ...]:
    """Few ranks that speak, tell of no wait and did not fail, where all others of a numbering without holes wait; else nobody."""
    scene = seen.scene
    waiting = {*(() if scene.hang is None else scene.hang.waiters), *seen.where.waiting}
    there = waiting | set(speakers)
    world = scene.complete.expected
    if len(waiting) < 2 or there != set(range(len(there))) or world not in {None, len(there)}:
        return ()
    rest = there - waiting
    failed = {e.rank for e in scene.exits if e.signal not in TOLD}
    failed |= {r for s in scene.suspects for r in s.everyone}
    failed |= {
        r
        for e in scene.marked(Mark.PEER_LOST)
        if id(e) not in scene.got_over and (r := scene.roster.rank(e)) is not None
    }
    return tuple(sorted(rest)) if not rest & failed and few(len(rest), len(there)) and len(rest) <= MOST_NAMED else ()


def absent_files(seen: Picture) -> dict[SourceId, GlobalRank]:
    """Files of processes, by the number in their names, without a line about a wait or a failure, where all others of their kind wait.

    Only where no line has a rank, and the numbers of these files go from 0 without a hole.
    """
    scene = seen.scene
    hang = scene.hang
    if hang is None or scene.roster.seen or hang.waiters:
        return {}
    logs = {s: p for s, p in scene.case.paths.items() if scene.case.kind_of.get(s) is SourceKind.LOG}
    numbers = {s: int(found[1]) for s, path in logs.items() if (found := _PROCESS_FILE.search(path)) is not None}
    if len(numbers) < 2 or sorted(numbers.values()) != list(range(len(numbers))):
        return {}
    told = {e.span.source for e in (*hang.events, *scene.deaths, *(x for s in scene.suspects for x in s.events))}
    told |= {e.span.source for e in (*scene.teardown, *scene.effects)}
    rest = {s: GlobalRank(n) for s, n in numbers.items() if s not in told}
    waits = {e.span.source for e in hang.events}
    return rest if waits <= numbers.keys() and few(len(rest), len(numbers)) else {}


def missed(seen: Picture, ranks: tuple[GlobalRank, ...]) -> Answer:
    """The answer that names ranks that are there and do not wait."""
    return stall(seen, ranks, Strength.POSSIBLE, (), VERB)


def arrived(answer: Answer, lines: Mapping[GlobalRank, Event]) -> Answer:
    """The answer where the one absent rank speaks only after all others gave up: it came too late, and lived."""
    if answer.category is not Category.UNKNOWN or len(answer.culprits.ranks) != 1 or len(lines) != 1:
        return answer
    ((rank, line),) = lines.items()
    said = line.text.strip()[:120]
    return replace(
        answer,
        category=Category.DATA_LOADING_STALL,
        strength=Strength.POSSIBLE,
        summary=f"{answer.summary.replace(UNEXPLAINED, '')} {ranks_text([rank]).capitalize()} speaks only after the others had given "
        f"up (“{said}”): it was still on its way when their time was over.",
        trigger=line,
        proof=(line, *answer.proof),
        classes=replace(answer.classes, domain=Domain.DATA, phase=Phase.UNKNOWN),
        action=ActionKind.FIX_AND_RERUN,
    )
