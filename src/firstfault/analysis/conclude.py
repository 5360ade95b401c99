"""From observations to a conclusion about the last failing attempt; wires the questions in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from firstfault.analysis.answer import Answer
from firstfault.analysis.bystanders import with_blocked, with_bystanders
from firstfault.analysis.case import Case, Observations
from firstfault.analysis.chain import build_chain
from firstfault.analysis.contradiction import contradicted
from firstfault.analysis.culprits import with_victims, with_whereabouts
from firstfault.analysis.in_part import in_part
from firstfault.analysis.naive import Naive, naive_readings
from firstfault.analysis.questions import (
    exit_hang,
    first_fault,
    good_end,
    hang,
    left_early,
    mismatch,
    nan_end,
    scheduler_word,
    silence,
    twice,
    versions,
)
from firstfault.analysis.scene import Scene, build_scene
from firstfault.analysis.state.attempts import Attempts
from firstfault.analysis.state.clocks import on_one_clock
from firstfault.analysis.state.local_labels import without_local_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from firstfault.analysis.state.neighbours import Neighbours
    from firstfault.analysis.state.storage import StorageState  # noqa: TC004 - the type of a field that nothing resolves
    from firstfault.signatures.library import Library


CLIENT = "aistore."
"""Prefix of the signatures of lines of the store and its clients."""


SHOWN = 5
"""Jobs beside the one that is told of that are named."""


class NoAttemptError(ValueError):
    """There is no attempt of the number that was asked for."""


class Conclusion(Struct, frozen=True, kw_only=True):
    """What the analysis says, before its lines are re-read."""

    answer: Answer
    scene: Scene
    attempts: tuple[tuple[Scene, Answer], ...]
    """All attempts in order, with their answers."""
    naive: tuple[Naive, ...]
    storage: StorageState | None = None
    """What the storage daemons' logs tell; None where none were given."""


def conclude(
    seen: Observations,
    library: Library,
    attempt: int | Literal["last"] = "last",
    heed: Callable[[Scene, Answer], Answer] | None = None,
    begun: Callable[[Scene], None] | None = None,
) -> Conclusion:
    """The conclusion about one attempt: the last failing one, or the one asked for.

    Args:
        seen: what the readers saw.
        library: signatures and tables.
        attempt: number from 1, or `last`.
        heed: what else is to be weighed in the answer about that attempt, before its chain is built.
        begun: told of the attempt before anything is asked of it, where there is only one.

    Raises:
        NoAttemptError: there is no such attempt.
    """
    case = Case(on_one_clock(without_local_labels(seen)), library)
    if seen.dumps:
        from firstfault.analysis.other_run import without_dumps_of_others

        case = without_dumps_of_others(case)
    attempts = Attempts(case)
    scenes = [build_scene(case, attempts, n) for n in range(1, attempts.total + 1)]
    if begun is not None and len(scenes) == 1:
        begun(scenes[0])
    answers = [(scene, ask(scene)) for scene in scenes]
    if attempt == "last":
        # A last attempt that completed is the answer: the job came through.
        chosen = len(answers) - 1
        if attempts.abreast and not answers[chosen][1].failed:
            # None of them is the successor of another: one that ended well says nothing of one that did not.
            chosen = _worst([answer.failed for _, answer in answers])
        elif answers[chosen][1].failed is None:
            chosen = next((i for i in range(len(answers) - 1, -1, -1) if answers[i][1].failed), chosen)
    else:
        if not 1 <= attempt <= len(answers):
            raise NoAttemptError(f"there is no attempt {attempt}: the logs hold {len(answers)}")
        chosen = attempt - 1
    scene, answer = answers[chosen]
    if heed is not None:
        answer = heed(scene, answer)
    if attempts.abreast:
        answer = replace(
            answer, summary=f"{answer.summary} {_beside(attempts.neighbours, chosen, [a for _, a in answers])}"
        )
    answer = replace(answer, chain=build_chain(scene, answer))
    return Conclusion(
        answer=answer,
        scene=scene,
        attempts=tuple(answers),
        naive=naive_readings(scene, answer),
    )


def _worst(failed: Sequence[bool | None]) -> int:
    """Place of the last job that failed, else of the last whose end is not told, else of the last."""
    places = range(len(failed) - 1, -1, -1)
    return next((i for i in places if failed[i]), next((i for i in places if failed[i] is None), len(failed) - 1))


def _beside(jobs: Neighbours, chosen: int, answers: Sequence[Answer]) -> str:
    """What is said of jobs that ran beside the one that is told of."""
    what = "element" if jobs.array else "job"
    ends = {True: "failed", False: "ended well", None: "is not told"}
    parts = []
    for failed, word in ends.items():
        names = [jobs.names[i] for i, a in enumerate(answers) if a.failed is failed and i != chosen]
        if names:
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            one = (
                f"the end of {', '.join(names[:SHOWN])}{more}"
                if failed is None
                else f"{', '.join(names[:SHOWN])}{more}"
            )
            parts.append(f"{one} {word}")
    kind = "an element of an array" if jobs.array else "one of several jobs here"
    return f"This is {what} {jobs.names[chosen]}, {kind}: {'; '.join(parts)}."


def reconsidered(conclusion: Conclusion, answer: Answer) -> Conclusion:
    """The conclusion with another answer about the same attempt."""
    if answer is conclusion.answer:
        return conclusion
    answer = replace(answer, chain=build_chain(conclusion.scene, answer))
    return replace(conclusion, answer=answer, naive=naive_readings(conclusion.scene, answer))


def with_storage(conclusion: Conclusion, state: StorageState | None) -> Conclusion:
    """The conclusion with the storage side weighed, or asked for where none of its logs were given."""
    if state is None and not any(s.startswith(CLIENT) for s in conclusion.scene.case.signatures):
        return conclusion
    from firstfault.analysis.questions import storage_chain

    if state is None:
        return reconsidered(conclusion, storage_chain.without_logs(conclusion.scene, conclusion.answer))
    judged = reconsidered(conclusion, storage_chain.judge(conclusion.scene, conclusion.answer, state))
    return replace(judged, storage=state)


def ask(scene: Scene) -> Answer:
    """Asks the logs, weighs what flight-recorder dumps and stacks say, and says what speaks against it from outside."""
    seen = scene.case.seen
    answer = silence.with_reported(scene, _ask_logs(scene))
    # What few jobs leave is loaded only where it was left.
    if answer.question == "peers" and scene.hang is not None:
        from firstfault.analysis.agreement import with_wait

        answer = with_wait(scene, answer, hang.ask)
    died = False
    if seen.box:
        from firstfault.analysis.questions.black_box import died_first, with_box

        died = died_first(scene, answer)
    if seen.dumps and not died:
        from firstfault.analysis.agreement import with_dumps

        answer = with_dumps(scene, answer)
    if seen.stacks and not died:
        from firstfault.analysis.stacks_agreement import with_stacks

        answer = with_stacks(scene, answer)
    if seen.box:
        answer = with_box(scene, answer)
    answer = with_victims(scene, with_whereabouts(scene, answer))
    answer = with_bystanders(scene, with_blocked(scene, answer))
    if seen.courses:
        from firstfault.analysis.gpu_evidence import with_courses

        answer = with_courses(scene, answer)
    answer = contradicted(scene, answer) if scene.outcome.against else answer
    return in_part(seen, answer)


def _ask_logs(scene: Scene) -> Answer:
    """Asks the questions in order; the first that has an answer wins."""
    for question in (nan_end.ask, good_end.ask, exit_hang.ask, mismatch.ask, left_early.ask, first_fault.ask):
        answer = question(scene)
        if answer is not None:
            return answer
    for fallback in (
        versions.ask,
        twice.ask,
        silence.ask_reported,
        hang.ask,
        scheduler_word.ask,
        silence.ask_told_first,
        silence.ask_exits,
        silence.ask_peers,
        silence.ask_stopped,
        scheduler_word.ask_failed,
        silence.ask_effects,
    ):
        answer = fallback(scene)
        if answer is not None:
            return answer
    return silence.nothing(scene)
