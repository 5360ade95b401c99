"""Who is there by what ranks print, and does not wait: for hangs whose own lines tell no number of ranks and no group.

The pipeline reads who speaks at all; this says for which hangs that is wanted and what follows, which is a possibility at
most. A rank that prints is there; one that prints and tells of no wait, where all others do, is the one to look at.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.answer import Named
from firstfault.analysis.hang_answers import UNEXPLAINED, stall
from firstfault.analysis.last_words import work_of
from firstfault.analysis.questions.hang import MOST_NAMED, decide
from firstfault.analysis.state.exits import TOLD
from firstfault.analysis.state.picture import Picture, few, picture
from firstfault.analysis.wording import beginning, ranks_text
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
    waiting, there = _present(seen, speakers)
    if len(waiting) < 2 or not there:
        return ()
    rest = there - waiting
    return (
        tuple(sorted(rest))
        if few(len(rest), len(there)) and len(rest) <= MOST_NAMED and not rest & _failed(scene)
        else ()
    )


def other_of_two(seen: Picture, speakers: Collection[GlobalRank]) -> tuple[GlobalRank, ...]:
    """The rank that speaks and tells of no wait, where one of two waits; it is to be shown that it lived meanwhile."""
    waiting, there = _present(seen, speakers)
    rest = there - waiting
    return tuple(rest) if len(waiting) == len(rest) == 1 and not rest & _failed(seen.scene) else ()


def _present(seen: Picture, speakers: Collection[GlobalRank]) -> tuple[set[GlobalRank], set[GlobalRank]]:
    """Ranks that wait, and all that are there; nobody where their numbering has holes or is not that of the job."""
    scene = seen.scene
    waiting = {*(() if scene.hang is None else scene.hang.waiters), *seen.where.waiting}
    there = waiting | set(speakers)
    whole = there == set(range(len(there))) and scene.complete.expected in {None, len(there)}
    return waiting, there if whole else set()


def _failed(scene: Scene) -> set[GlobalRank]:
    """Ranks that failed by themselves or lost a peer."""
    failed = {e.rank for e in scene.exits if e.rank is not None and e.signal not in TOLD}
    failed |= {r for s in scene.suspects for r in s.everyone}
    return failed | {
        r
        for e in scene.marked(Mark.PEER_LOST)
        if id(e) not in scene.got_over and (r := scene.roster.rank(e)) is not None
    }


def circling(seen: Picture, rounds: Mapping[GlobalRank, Event], *, named: bool) -> tuple[GlobalRank, ...]:
    """All ranks but the few that wait, where each of them goes on printing one line over and over; else nobody.

    Args:
        seen: the hang.
        rounds: of each rank that printed a line of one shape again and again, before the wait was told and behind it, the first of these.
        named: whether their numbers are known to be global, and not a machine's own.
    """
    if not named and len(seen.scene.roster.machines) > 1:
        return ()
    waiting, there = _present(seen, rounds)
    if not waiting or waiting & set(rounds) or not there or len(rounds) > MOST_NAMED:
        return ()
    ended = {e.rank for e in seen.scene.exits if e.signal not in TOLD}
    return () if set(rounds) & ended else tuple(sorted(rounds))


def circled(seen: Picture, rounds: Mapping[GlobalRank, Event], *, named: bool) -> Answer:
    """The answer about ranks which never came to the wait, since they went round in a loop of their own.

    Args:
        seen: the hang.
        rounds: the first line of the loop of each.
        named: whether their numbers are known to be global; they are a machine's own else, and nobody is named.
    """
    ranks = tuple(sorted(rounds))
    line = rounds[ranks[0]]
    answer = stall(seen, ranks, Strength.POSSIBLE, (), VERB)
    phase = work_of(line.text)
    said = beginning(line.text, 120)
    if not named:
        answer = replace(answer, culprits=Named(), first_failed=Named())
    return replace(
        answer,
        category=Category.DATA_LOADING_STALL,
        strength=Strength.POSSIBLE,
        summary=f"{answer.summary.replace(UNEXPLAINED, '')} {ranks_text(ranks).capitalize()} printed one line over and over, before the wait "
        f"was told and behind it (“{said}”): a loop outside of the collective.",
        trigger=line,
        proof=(line, *answer.proof),
        classes=replace(answer.classes, domain=Domain.DATA, phase=phase or Phase.UNKNOWN),
        action=ActionKind.FIX_AND_RERUN,
        steps=(
            "Find the loop that prints this line, and what it lacks on these ranks: their share of the data may be empty.",
            *answer.steps,
        ),
    )


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
    said = beginning(line.text, 120)
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
