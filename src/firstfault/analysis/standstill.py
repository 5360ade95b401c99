"""Who stands earlier than the others where a job stood still without an error until somebody stopped it, by last lines alone.

The pipeline gives the last lines of each rank's own file; this compares them. It claims a possibility at most, and only
where all others end with one and the same line and went past the line with which the few end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from firstfault.analysis.answer import Named
from firstfault.analysis.last_words import work_of
from firstfault.analysis.state.nodes import hosts_of
from firstfault.analysis.state.picture import few
from firstfault.analysis.wording import beginning, duration, ranks_text
from firstfault.model.evidence import Event
from firstfault.model.lazy import lazy
from firstfault.model.words import ActionKind, Category, Domain, Form, Layer, Mark, Phase, Scope, Strength

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import GlobalRank

FEWEST = 3
"""Ranks whose files must be there: of two it cannot be told which one is early."""
_MEASURED = lazy(r"\d+\.\d+(?:e[+-]?\d+)?")
"""Numbers that ranks measure for themselves (a loss, a time); whole numbers are steps and must be equal."""


class Tail(Struct, frozen=True, kw_only=True):
    """The end of one rank's file."""

    said: tuple[str, ...]
    """The last lines without prefixes, oldest first."""
    last: Event


class Still(Struct, frozen=True):
    """A job was stopped when it had made no step for long."""

    seconds: float | None
    """How long; None where a supervisor says so and no clock tells."""


def stood_still(scene: Scene, answer: Answer) -> Still | None:
    """Whether a job that was stopped from outside had stood still before, by its steps' times or a supervisor's word."""
    if answer.question != "stopped" or answer.trigger is None or len(scene.case.tracks) < FEWEST:
        return None
    seconds = scene.case.stood_still(answer.trigger)
    return Still(seconds) if seconds is not None or scene.marked(Mark.STALLED) else None


def behind(scene: Scene, answer: Answer, tails: Mapping[GlobalRank, Tail], still: Still) -> Answer:
    """The answer, or one that names the few ranks which stand at a line that all others went past."""
    if len(tails) < FEWEST:
        return answer
    ends = {rank: _plain(tail.said[-1]) for rank, tail in tails.items()}
    common = max(ends.values(), key=lambda text: (sum(1 for e in ends.values() if e == text), text))
    ahead = [r for r, end in ends.items() if end == common]
    early = tuple(sorted(r for r, end in ends.items() if end != common))
    if not few(len(early), len(tails)) or not all(_passed(tails[a], ends[r], common) for r in early for a in ahead):
        return answer
    if any(common in map(_plain, tails[r].said) for r in early):
        return answer
    return _answer(scene, answer, tails, (early, tuple(sorted(ahead))), still)


def _plain(text: str) -> str:
    return _MEASURED.sub("#", text.strip())


def _passed(tail: Tail, early: str, common: str) -> bool:
    """Whether a file holds the line with which another ends, before the one with which it ends itself."""
    said = [_plain(text) for text in tail.said]
    return early in said[: len(said) - 1] and said[-1] == common


def _answer(
    scene: Scene,
    answer: Answer,
    tails: Mapping[GlobalRank, Tail],
    sides: tuple[tuple[GlobalRank, ...], Sequence[GlobalRank]],
    still: Still,
) -> Answer:
    early, ahead = sides
    long = "" if still.seconds is None else f" for {duration(round(still.seconds * 1000))}"
    line, other = tails[early[0]].last, tails[ahead[0]].last
    phase = work_of(tails[early[0]].said[-1])
    named = Named(ranks=early, hosts=tuple(sorted(set(hosts_of(scene, early).values()))), strength=Strength.POSSIBLE)
    return replace(
        answer,
        question="standstill",
        category=Category.UNKNOWN if phase is None else Category.DATA_LOADING_STALL,
        strength=Strength.UNKNOWN if phase is None else Strength.POSSIBLE,
        summary=f"The job made no step{long} until it was stopped from outside: {ranks_text(ahead)} "
        f"{_end(ahead)} at “{beginning(tails[ahead[0]].said[-1], 120)}”, {ranks_text(early)} {_end(early)} earlier, at "
        f"“{beginning(tails[early[0]].said[-1], 120)}”. Why is not in these logs.",
        trigger=line,
        proof=(line, other, *answer.proof),
        culprits=named,
        classes=replace(
            answer.classes,
            domain=None if phase is None else Domain.DATA,
            form=Form.HUNG,
            layer=Layer.RUNTIME,
            phase=phase or Phase.UNKNOWN,
            scope=Scope.RANK if len(early) == 1 else Scope.GROUP,
        ),
        action=ActionKind.COLLECT_MORE,
        steps=(
            f"Find out what {ranks_text(early)} did at that time: its data shard, storage mounts and the kernel log of its host.",
            f"Take stacks (`py-spy dump`) of {ranks_text(early)} and of one other the next time before the job is stopped.",
        ),
        collect=(
            "stacks of all ranks during such a standstill (`py-spy dump`)",
            "kernel logs of all hosts for that time",
        ),
    )


def _end(ranks: Sequence[GlobalRank]) -> str:
    return "ends" if len(ranks) == 1 else "end"


def stops(scene: Scene) -> tuple[Event, ...]:
    """Lines that tell of the stop: what stands behind them in a file is no last word."""
    return scene.marked(Mark.STOP_SIGNAL)
