"""From observations to a conclusion about the last failing attempt; wires the questions in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from firstfault.analysis.agreement import with_dumps
from firstfault.analysis.answer import Answer
from firstfault.analysis.case import Case, Observations
from firstfault.analysis.chain import build_chain
from firstfault.analysis.contradiction import contradicted
from firstfault.analysis.culprits import with_whereabouts
from firstfault.analysis.gpu_evidence import with_courses
from firstfault.analysis.naive import Naive, naive_readings
from firstfault.analysis.questions import (
    exit_hang,
    first_fault,
    good_end,
    hang,
    mismatch,
    nan_end,
    scheduler_word,
    silence,
    storage_chain,
    versions,
)
from firstfault.analysis.questions.stacks import with_stacks
from firstfault.analysis.scene import Scene, build_scene
from firstfault.analysis.state.attempts import Attempts
from firstfault.analysis.state.clocks import on_one_clock
from firstfault.analysis.state.storage import StorageState

if TYPE_CHECKING:
    from firstfault.signatures.library import Library


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


def conclude(seen: Observations, library: Library, attempt: int | Literal["last"] = "last") -> Conclusion:
    """The conclusion about one attempt: the last failing one, or the one asked for.

    Args:
        seen: what the readers saw.
        library: signatures and tables.
        attempt: number from 1, or `last`.

    Raises:
        NoAttemptError: there is no such attempt.
    """
    case = Case(on_one_clock(seen), library)
    attempts = Attempts(case)
    scenes = [build_scene(case, attempts, n) for n in range(1, attempts.total + 1)]
    answers = [(scene, ask(scene)) for scene in scenes]
    if attempt == "last":
        # A last attempt that completed is the answer: the job came through.
        chosen = len(answers) - 1
        if answers[chosen][1].failed is None:
            chosen = next((i for i in range(len(answers) - 1, -1, -1) if answers[i][1].failed), chosen)
    else:
        if not 1 <= attempt <= len(answers):
            raise NoAttemptError(f"there is no attempt {attempt}: the logs hold {len(answers)}")
        chosen = attempt - 1
    scene, answer = answers[chosen]
    answer = replace(answer, chain=build_chain(scene, answer))
    return Conclusion(
        answer=answer,
        scene=scene,
        attempts=tuple(answers),
        naive=naive_readings(scene, answer),
    )


def reconsidered(conclusion: Conclusion, answer: Answer) -> Conclusion:
    """The conclusion with another answer about the same attempt."""
    if answer is conclusion.answer:
        return conclusion
    answer = replace(answer, chain=build_chain(conclusion.scene, answer))
    return replace(conclusion, answer=answer, naive=naive_readings(conclusion.scene, answer))


def with_storage(conclusion: Conclusion, state: StorageState | None) -> Conclusion:
    """The conclusion with the storage side weighed, or asked for where none of its logs were given."""
    if state is None:
        return reconsidered(conclusion, storage_chain.without_logs(conclusion.scene, conclusion.answer))
    judged = reconsidered(conclusion, storage_chain.judge(conclusion.scene, conclusion.answer, state))
    return replace(judged, storage=state)


def ask(scene: Scene) -> Answer:
    """Asks the logs, weighs what flight-recorder dumps and stacks say, and says what speaks against it from outside."""
    answer = _ask_logs(scene)
    if not scene.case.seen.box:
        answer = with_stacks(scene, with_dumps(scene, answer))
    else:
        from firstfault.analysis.questions.black_box import died_first, with_box

        if not died_first(scene, answer):
            answer = with_stacks(scene, with_dumps(scene, answer))
        answer = with_box(scene, answer)
    answer = with_courses(scene, with_whereabouts(scene, answer))
    return contradicted(scene, answer) if scene.outcome.against else answer


def _ask_logs(scene: Scene) -> Answer:
    """Asks the questions in order; the first that has an answer wins."""
    for question in (nan_end.ask, good_end.ask, exit_hang.ask, mismatch.ask, first_fault.ask):
        answer = question(scene)
        if answer is not None:
            return answer
    for fallback in (
        versions.ask,
        silence.ask_reported,
        hang.ask,
        scheduler_word.ask,
        silence.ask_exits,
        silence.ask_peers,
        silence.ask_stopped,
        silence.ask_effects,
    ):
        answer = fallback(scene)
        if answer is not None:
            return answer
    return silence.nothing(scene)
