"""What when the logs name no cause and the scheduler's word for the end was given: the word itself is the evidence.

Asked after everything that lines say: a line that tells why a job was ended knows more than its state does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firstfault.analysis.answer import Answer, Classes
from firstfault.analysis.order import sort_key
from firstfault.analysis.outcome import bad_word, state_word
from firstfault.analysis.suspects import nature_of
from firstfault.model.words import ActionKind, Category, Domain, Form, Layer, Mark, Scope, Strength

if TYPE_CHECKING:
    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import Event

STEPS = "the codes of the job's steps: `sacct -j JOBID --format=JobID,JobName,State,ExitCode,DerivedExitCode,NodeList`"
RECORD = "the scheduler's record: `sacct -j JOBID --format=JobID,State,ExitCode,Elapsed,Timelimit,MaxRSS,NodeList`"


RECORDS = ("slurm.", "process.batch_")
"""How the names of signatures of schedulers' records begin; other such words are a wrapper's, an operator's or a platform's."""


class Word(NamedTuple):
    """What one state means."""

    what: str
    domain: Domain | None
    scope: Scope
    action: ActionKind
    step: str
    collect: tuple[str, ...]


_LIMIT = Word(
    "The scheduler ended the job at its time limit",
    Domain.CONFIG,
    Scope.ALL,
    ActionKind.RESTART,
    "Resume from the last checkpoint with a longer limit; look whether steps were still made up to the end.",
    (RECORD,),
)
_MEMORY = Word(
    "The scheduler says that the job ran out of host memory",
    Domain.MEMORY,
    Scope.EXTERNAL,
    ActionKind.FIX_AND_RERUN,
    "Raise the memory limit or lower what the processes use (workers, prefetch, cache).",
    (RECORD, "the kernel log of each host (`dmesg -T | grep -i -E 'oom|killed process'`): it names the process"),
)
_NODE = Word(
    "The scheduler says that a node of the job failed",
    Domain.HARDWARE,
    Scope.NODE,
    ActionKind.RESTART,
    "Find the node (sinfo -R, scontrol show node) and leave it out when the job is started again.",
    (RECORD, "sinfo -R and the scheduler's log: they name the node and the reason"),
)
_PREEMPTED = Word(
    "The scheduler preempted the job",
    None,
    Scope.ALL,
    ActionKind.RESTART,
    "Resume from the last checkpoint.",
    (RECORD,),
)
_EVICTED = Word(
    "The platform evicted the job",
    None,
    Scope.EXTERNAL,
    ActionKind.RESTART,
    "Read the event of the eviction: it names what the node was short of.",
    ("kubectl describe pod and kubectl get events",),
)
WORDS = {
    **dict.fromkeys(("TIMEOUT", "TO", "DEADLINE", "DL"), _LIMIT),
    **dict.fromkeys(("OUT_OF_MEMORY", "OOM", "OOMKILLED"), _MEMORY),
    **dict.fromkeys(("NODE_FAIL", "NF", "BOOT_FAIL", "BF"), _NODE),
    **dict.fromkeys(("PREEMPTED", "PR"), _PREEMPTED),
    "EVICTED": _EVICTED,
}
CANCELLED = frozenset({"CANCELLED", "CA"})


def ask(scene: Scene) -> Answer | None:
    """The answer where the state of the job names a reason; None where it names none, or none is known."""
    state = state_word(scene.case)
    word = WORDS.get(state)
    stop = min((e for e in scene.events if scene.case.has(e, Mark.STOP_SIGNAL)), key=sort_key, default=None)
    if word is None:
        return _cancelled(scene) if state in CANCELLED and stop is None else None
    fatal = [e for e in scene.effects if nature_of(scene.case, e).fatal]
    return Answer(
        question="scheduler",
        failed=True,
        category=Category.INFRASTRUCTURE,
        strength=Strength.POSSIBLE if fatal else Strength.SUPPORTED,
        summary=f"{word.what} (state {state}, {_whence(scene)}); no line of these logs says more.",
        trigger=stop,
        proof=_proof(scene, stop),
        classes=Classes(
            domain=word.domain,
            form=Form.INTERRUPTED,
            layer=Layer.HOST if word in {_MEMORY, _NODE} else Layer.LAUNCHER,
            scope=word.scope,
        ),
        action=word.action,
        steps=(word.step,),
        collect=word.collect,
    )


def ask_failed(scene: Scene) -> Answer | None:
    """The answer where all that tells of a failure is the scheduler's state or the exit code, which name no reason."""
    if not bad_word(scene.case) or any(nature_of(scene.case, e).fatal for e in scene.effects):
        return None
    seen, state = scene.case.seen, state_word(scene.case)
    code = seen.exit_code
    told = [f"state {state}"] if state else []
    if code is not None:
        told.append(f"exit code {code}" if code >= 0 else f"signal {-code}")
    return Answer(
        question="scheduler",
        failed=True,
        category=Category.UNKNOWN,
        strength=Strength.UNKNOWN,
        summary=f"The job failed ({', '.join(told)}, {_whence(scene)}); no line of these logs says why.",
        proof=_proof(scene),
        classes=Classes(form=Form.INTERRUPTED if scene.case.tracks else Form.FAILED_START),
        action=ActionKind.COLLECT_MORE,
        steps=(
            "Find the command that failed: the job script may do more after the training, and its steps have codes of their own.",
        ),
        collect=(
            STEPS if state else RECORD,
            "the output of the job script itself and stderr of every rank, to their last lines",
            "the kernel log of each host around the job's end (`dmesg -T`)",
        ),
    )


def _whence(scene: Scene) -> str:
    recorded = scene.case.seen.recorded
    if recorded is None:
        return "as given"
    return "by the scheduler's record" if recorded.signature.startswith(RECORDS) else "by the word of who ran it"


def _proof(scene: Scene, *lines: Event | None) -> tuple[Event, ...]:
    return tuple(e for e in (*lines, scene.case.seen.recorded) if e is not None)


def _cancelled(scene: Scene) -> Answer:
    return Answer(
        question="scheduler",
        failed=True,
        category=Category.UNKNOWN,
        strength=Strength.UNKNOWN,
        summary=f"The job was cancelled (state CANCELLED, {_whence(scene)}); by whom and why is not in these logs.",
        proof=_proof(scene),
        classes=Classes(form=Form.INTERRUPTED, layer=Layer.LAUNCHER, scope=Scope.ALL),
        action=ActionKind.COLLECT_MORE,
        steps=("Ask who cancelled it, and whether it still made steps at that time.",),
        collect=(RECORD,),
    )
