"""What when nothing names a cause: exits without a reason, lost peers, a stop from outside, or a log that just stops.

These answers say what is known and what to collect; they claim a category only as far as the bare fact carries it.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.answer import Answer, Classes, Named
from firstfault.analysis.case import TRACEBACK_START
from firstfault.analysis.joins import MOST_LOST, Lost, named_lost, speaks_for_itself
from firstfault.analysis.last_words import MISSED
from firstfault.analysis.order import first as precedes
from firstfault.analysis.order import sort_key
from firstfault.analysis.outcome import save_open, unkept
from firstfault.analysis.questions.no_logs import NEED_ALL, answer_without_logs, only_others
from firstfault.analysis.state.exits import OWN_CRASH, TOLD, earliest
from firstfault.analysis.state.joins import RAS_APART, RAS_DEAD
from firstfault.analysis.suspects import another_program, group, nature_of
from firstfault.analysis.wording import ranks_text, who_text
from firstfault.model.evidence import GlobalRank
from firstfault.model.lazy import lazy
from firstfault.model.words import ActionKind, Category, Domain, Form, Layer, Mark, Phase, Scope, Strength

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.exits import Exit
    from firstfault.analysis.suspects import Suspect
    from firstfault.model.evidence import Event

ENFORCED = "launcher.torchrun_forced_kill"
"""Signature of the agent's own SIGKILL to a survivor that ignored SIGTERM."""
BY_HAND = frozenset({"2", "SIGINT"})
"""What a keyboard sends."""


def ask_exits(scene: Scene) -> Answer | None:
    """The answer where processes are reported dead and nothing says why."""
    own = [e for e in scene.exits if e.signal is None or e.signal not in TOLD]
    if not own:
        return None
    if any(e.signal not in {None, signal.SIGABRT} for e in own):
        # The watchdog of a rank that waits for a dead one aborts its process: that exit is an effect.
        own = [e for e in own if e.signal != signal.SIGABRT]
    victims = {scene.roster.rank(e) for e in _with(scene, scene.effects, Mark.PEER_LOST) if speaks_for_itself(scene, e)}
    if all(e.signal is None and e.rank is not None and e.rank in victims for e in own):
        return None  # each of them says itself that it lost a peer: that is why it ended
    told_of = [e for e in own if e.signal is None and e.rank is not None and e.rank in victims]
    # Who says that a peer is gone is none of those that went first, in whatever order the exits were seen.
    own = _without_ended(earliest([e for e in own if e not in told_of]))
    signals = {e.signal for e in own if e.signal is not None}
    ranks = sorted({e.rank for e in own if e.rank is not None and (e.signal is not None or not signals)})
    trigger = min((e.event for e in own if e.event is not None), key=sort_key, default=None)
    hosts = tuple(sorted({h for r in ranks if (h := scene.roster.host_of_rank(r)) is not None}))
    category, what, collect = _by_signal(scene, signals)
    named = Named()
    world = scene.complete.expected or scene.complete.at_least
    few = 0 < len(ranks) <= max(1, world // 4)
    # A signal that nobody of the job sends strikes first whom it strikes; whose fault that is, is another matter.
    struck = few or (bool(signals - {signal.SIGABRT}) and 2 * len(ranks) <= world)
    if few and (category in {Category.INFRASTRUCTURE, Category.SOFTWARE} or told_of):
        named = Named(ranks=tuple(ranks), hosts=hosts, strength=Strength.POSSIBLE)
    return Answer(
        question="exits",
        failed=True,
        category=category,
        strength=Strength.UNKNOWN if category is Category.UNKNOWN else Strength.POSSIBLE,
        summary=f"{what}{who_text(ranks, hosts)}; no line says why.",
        trigger=trigger,
        proof=() if trigger is None else (trigger,),
        culprits=named,
        first_failed=Named(
            ranks=tuple(ranks) if struck else (), hosts=hosts if struck else (), strength=Strength.POSSIBLE
        ),
        classes=Classes(form=_form(scene), layer=Layer.RUNTIME, scope=Scope.RANK if few and len(ranks) == 1 else None),
        action=ActionKind.COLLECT_MORE,
        steps=("Get what the failed process itself printed last; its launcher only reports the exit.",),
        collect=collect,
    )


def _without_ended(exits: Sequence[Exit]) -> list[Exit]:
    """Exits without the kills that one launcher tells of behind a crash of another process: it ends the rest so."""
    crashed = [e.event for e in exits if e.signal in OWN_CRASH and e.event is not None]
    return [
        e
        for e in exits
        if e.signal != signal.SIGKILL
        or e.event is None
        or not any(c.signature == e.event.signature and precedes(c, e.event) is True for c in crashed)
    ]


def _by_signal(scene: Scene, signals: set[int]) -> tuple[Category, str, tuple[str, ...]]:
    forced = any(e.signature == ENFORCED for e in scene.events)
    if 9 in signals and not forced:
        return (
            Category.INFRASTRUCTURE,
            "A process was killed from outside (SIGKILL)",
            ("the kernel log of that host around that time (`dmesg -T | grep -i -E 'oom|killed process'`)",
             "the scheduler's record: `sacct -j JOBID --format=JobID,State,ExitCode,MaxRSS,NodeList`"),
        )  # fmt: skip
    if 7 in signals:
        return (
            Category.INFRASTRUCTURE,
            "A process died of a bus error (SIGBUS)",
            ("df -h /dev/shm and the container's --shm-size", "the kernel log of that host"),
        )
    if signals & {11, 4, 8}:
        return (
            Category.SOFTWARE,
            "A process crashed in native code",
            (
                "PYTHONFAULTHANDLER=1 on the next run, or a core dump with its stack",
                "the kernel log's segfault line: it names the library",
            ),
        )
    if 6 in signals:
        return (
            Category.UNKNOWN,
            "A process aborted itself (SIGABRT)",
            ("what that rank printed before the abort", *NEED_ALL),
        )
    return (Category.UNKNOWN, "A process ended with an error", NEED_ALL)


def _form(scene: Scene) -> Form:
    return Form.INTERRUPTED if scene.case.tracks else Form.FAILED_START


def ask_reported(scene: Scene) -> Answer | None:
    """The answer where NCCL itself reports processes of the job as dead and lines tell their ranks; who waits is no matter."""
    for signature in (RAS_DEAD, RAS_APART):
        told = [e for e in scene.effects if e.signature == signature and "lost" in e.fields]
        gone = named_lost(scene, sorted(told, key=sort_key))
        if gone is not None:
            return _gone(scene, gone)
    return None


def with_reported(scene: Scene, answer: Answer) -> Answer:
    """The answer to a hang of which nobody is named, with the processes that NCCL itself reports as dead and gives no rank."""
    if answer.question != "hang" or answer.category is not Category.UNKNOWN or answer.culprits.anybody:
        return answer
    told = [e for e in scene.effects if e.signature == RAS_DEAD and "lost" in e.fields]
    processes = {e.fields["lost"] for e in told}
    if len(processes) != 1:
        return answer
    pairs = [p.rpartition("/") for p in processes.pop().split(",")]
    if len(pairs) > MOST_LOST:
        return answer
    named = " and ".join(f"process {pid} on {host}" for host, _, pid in pairs)
    verb = "is" if len(pairs) == 1 else "are"
    return replace(
        answer,
        summary=f"{answer.summary} NCCL itself reports that {named} {verb} dead or cannot be reached.",
        trigger=told[0],
        proof=(told[0], *answer.proof),
        culprits=Named(hosts=tuple(sorted({host for host, _, _ in pairs})), strength=Strength.POSSIBLE),
        steps=(f"Find out what became of {named}: its last output, and the kernel log of that machine.", *answer.steps),
    )


def ask_peers(scene: Scene) -> Answer | None:
    """The answer where ranks lost a peer and nothing says what became of it."""
    lost = _with(scene, scene.effects, Mark.PEER_LOST)
    if not lost:
        return None
    first = min(lost, key=sort_key)
    gone = named_lost(scene, sorted(lost, key=sort_key))
    if gone is not None:
        return _gone(scene, gone)
    # A supervisor's report of a death is evidence of the fault itself; a victim's lost connection is the first sign of it.
    report = next((e for e in sorted(lost, key=sort_key) if not speaks_for_itself(scene, e)), None)
    victims = tuple(
        sorted({r for e in lost if speaks_for_itself(scene, e) and (r := scene.roster.rank(e)) is not None})
    )
    if _store_holder_gone(scene, lost, victims):
        return _store_gone(scene, first, victims)
    return Answer(
        question="peers",
        failed=True,
        category=Category.UNKNOWN,
        strength=Strength.UNKNOWN,
        summary=f"{ranks_text(victims).capitalize() or 'A process'} lost the connection to a peer; what became of the peer is not in these logs.",
        trigger=report or first,
        proof=(first,),
        classes=Classes(domain=Domain.COMMUNICATION, form=_form(scene), layer=Layer.COLLECTIVE),
        action=ActionKind.COLLECT_MORE,
        steps=("Find the process at the other end: the address in the line names it; read that rank's own log.",),
        collect=("the log of the peer that the line names", *NEED_ALL),
    )


def _gone(scene: Scene, gone: Lost) -> Answer:
    """The answer where a supervisor names who is gone or late; why is not known."""
    named = Named(ranks=gone.ranks, hosts=gone.hosts, strength=Strength.POSSIBLE)
    whom = who_text(gone.ranks, gone.hosts).removeprefix(" on ")
    what = "did not come to a barrier" if gone.late else "is reported to have died or to have fallen silent"
    return Answer(
        question=MISSED if gone.late else "peers",
        failed=True,
        category=Category.UNKNOWN,
        strength=Strength.UNKNOWN,
        summary=f"{whom[:1].upper()}{whom[1:]} {what}. Why is not in these logs.",
        trigger=gone.event,
        proof=(gone.event,),
        culprits=named,
        first_failed=Named() if gone.late else named,
        classes=Classes(form=Form.HUNG if gone.late else _form(scene), layer=Layer.RUNTIME, scope=Scope.RANK),
        action=ActionKind.COLLECT_MORE,
        steps=("Read what that process printed last; the others only report that it is missing.",),
        collect=("the log of that process to its last line", "the kernel log of its host around that time", *NEED_ALL),
    )


CANCELLED = "slurm.cancelled"
"""Signature of the scheduler's word that it cancelled a job or step."""
_REASON = lazy(r"CANCELLED AT \S+ (?i:due to) ")
STORE_LOST = "torch.store_connection_lost"
"""Signature of a client of the store whose server went away."""
_STORE_OWNERS = ("launcher.torchrun", "launcher.rendezvous", "ray.")
"""Beginnings of signatures of those that hold the store themselves, so that its end is not that of rank 0."""


def _store_holder_gone(scene: Scene, lost: Iterable[Event], victims: tuple[GlobalRank, ...]) -> bool:
    """Whether all that is told is the end of the store that rank 0 holds, where no launcher holds one, and rank 0 says nothing."""
    if not victims or 0 in victims or any(e.signature != STORE_LOST for e in lost):
        return False
    if any(e.signature.startswith(_STORE_OWNERS) for e in scene.events) or scene.failures:
        return False
    files = {place.rank for place in scene.case.seen.place.values()}
    return 0 in scene.complete.seen or 0 in files


def _store_gone(scene: Scene, first: Event, victims: tuple[GlobalRank, ...]) -> Answer:
    host = scene.roster.host_of_rank(GlobalRank(0))
    named = Named(ranks=(GlobalRank(0),), hosts=() if host is None else (host,), strength=Strength.POSSIBLE)
    return Answer(
        question="peers",
        failed=True,
        category=Category.UNKNOWN,
        strength=Strength.UNKNOWN,
        summary=f"{ranks_text(victims).capitalize()} lost the connection to the store, which rank 0 holds where no launcher does; "
        "the log of rank 0 ends without a word. It was killed or ended; why is not in these logs.",
        trigger=first,
        proof=(first,),
        culprits=named,
        first_failed=named,
        classes=Classes(domain=Domain.COMMUNICATION, form=_form(scene), layer=Layer.RUNTIME, scope=Scope.RANK),
        action=ActionKind.COLLECT_MORE,
        steps=(
            "Find out how the process of rank 0 ended: its exit code, and the kernel log of its host (out of memory, signals).",
        ),
        collect=(
            "the exit code of the process of rank 0",
            "the kernel log of its host at that time (`dmesg -T`)",
            *NEED_ALL,
        ),
    )


def ask_stopped(scene: Scene) -> Answer | None:
    """The answer where the job was told to stop and nothing failed before."""
    told = [e for e in scene.events if scene.case.has(e, Mark.STOP_SIGNAL)]
    if not told:
        return None
    first = min(told, key=sort_key)
    if _by_hand(first):
        return Answer(
            question="stopped",
            failed=True,
            category=Category.UNKNOWN,
            strength=Strength.UNKNOWN,
            summary="Somebody interrupted the program (Ctrl-C); why it was worth interrupting is not in these logs.",
            proof=(first,),
            classes=Classes(form=Form.INTERRUPTED),
            action=ActionKind.COLLECT_MORE,
            steps=("Read the traceback of the interrupt: it shows where the program stood at that moment.",),
            collect=("stacks of all ranks before the next interrupt (`py-spy dump`)", *NEED_ALL),
        )
    return Answer(
        question="stopped",
        failed=True,
        category=Category.INFRASTRUCTURE,
        strength=Strength.POSSIBLE,
        summary="The job was told to stop by a signal from outside; by whom and why is not in these logs.",
        trigger=first,
        proof=(first,),
        classes=Classes(form=Form.INTERRUPTED, layer=Layer.LAUNCHER, scope=Scope.ALL),
        action=ActionKind.COLLECT_MORE,
        steps=("Ask the scheduler: time limit, preemption, scancel and node failure all look like this from inside.",),
        collect=(
            "`sacct -j JOBID --format=JobID,State,ExitCode,Elapsed,Timelimit,NodeList`",
            "the launcher's log of the other nodes",
        ),
    )


def ask_told_first(scene: Scene) -> Answer | None:
    """The answer where one launcher was told to stop from outside, and elsewhere processes ended since they lost a peer.

    An agent may report an exit later than it was: only where the processes that it reports had lost a peer, the order came first.
    """
    if _cancelled_first(scene):
        return ask_stopped(scene)
    orders = [e for e in scene.teardown if scene.case.has(e, Mark.STOP_SIGNAL) and scene.case.has(e, Mark.OUTSIDE)]
    order = min(orders, key=sort_key, default=None)
    if order is None or order.fields.get("signal") in BY_HAND:
        return None
    told = {e.span.source for e in orders}
    ends = [e for e in scene.deaths if e.span.source not in told]
    lost = {e.span.source for e in _with(scene, scene.effects, Mark.PEER_LOST) if speaks_for_itself(scene, e)}
    before = [e for e in scene.deaths if e.span.source in told and precedes(order, e) is not True]
    if not ends or before or not {e.span.source for e in ends} <= lost:
        return None
    return ask_stopped(scene) if all(precedes(order, e) is True for e in ends) else None


def _cancelled_first(scene: Scene) -> bool:
    """Whether the scheduler says that it cancelled the step before anything else went wrong: the rest is the way it ends."""
    order = min((e for e in scene.teardown if e.signature == CANCELLED), key=sort_key, default=None)
    # Newer versions of SLURM add why it was cancelled, and a failure of a task is one of the reasons.
    if order is None or _REASON.search(order.text) is not None or scene.failures or scene.hang is not None:
        return False
    wrong = [e for e in (*scene.effects, *scene.deaths) if e is not order]
    return bool(wrong) and all(precedes(order, e) is True for e in wrong)


def _by_hand(event: Event) -> bool:
    """Whether a stop is a keyboard interrupt of the program itself."""
    return event.signature == "process.keyboard_interrupt" or event.fields.get("signal") in BY_HAND


def ask_effects(scene: Scene) -> Answer | None:
    """The answer where only consequences of a failure are there (an exit report, an abort, a wrapped error)."""
    fatal = [e for e in scene.effects if nature_of(scene.case, e).fatal]
    if not fatal and scene.outcome.ended != "failed":
        return None
    suspects = group(scene.case, scene.roster, fatal)
    first = suspects[0] if suspects else None
    survivable = next((s for s in scene.weak if not another_program(s.first)), None)
    if first is None and survivable is not None:
        return _one_that_is_survived(scene, survivable)
    return Answer(
        question="effects",
        failed=True,
        category=Category.UNKNOWN,
        strength=Strength.UNKNOWN,
        summary=_only_consequences(scene, first),
        trigger=None,
        proof=() if first is None else (first.first,),
        classes=Classes(form=_form(scene)),
        action=ActionKind.COLLECT_MORE,
        steps=("Get the logs of the ranks and nodes that are missing here.",),
        collect=NEED_ALL if first is None else (*first.nature.collect, *NEED_ALL),
    )


def _only_consequences(scene: Scene, effect: Suspect | None) -> str:
    """What is said where the logs hold an effect at most, or nothing but a plain line that a program may have outlived."""
    if effect is not None:
        return f"The job failed; what these logs hold is only a consequence ({effect.nature.title})."
    if scene.suspects:
        title = scene.suspects[0].nature.title
        return f"A line that a program logged speaks of a fault ({title}); nothing shows that the job ended by it."
    return "The job failed; these logs hold only consequences, not the first fault."


def _one_that_is_survived(scene: Scene, weak: Suspect) -> Answer:
    """The answer about a job that failed, where the only lines of a cause are of a kind that programs often survive."""
    return Answer(
        question="effects",
        failed=True,
        category=Category.UNKNOWN,
        strength=Strength.UNKNOWN,
        summary=f"The job failed. These logs hold one kind of error that may be why, and that programs often survive "
        f"({weak.nature.title}); no line ties the end to it.",
        trigger=None,
        proof=(weak.first,),
        classes=Classes(form=_form(scene)),
        action=ActionKind.COLLECT_MORE,
        steps=(
            "Get the end of the log of the process that ended, and the logs of the ranks and nodes that are missing here.",
        ),
        collect=(*weak.nature.collect, *NEED_ALL),
    )


def nothing(scene: Scene) -> Answer:
    """The answer where the log merely stops: neither an error nor an end marker."""
    if only_others(scene):
        return answer_without_logs(scene)
    moved = bool(scene.case.tracks)
    what = (
        "The log stops in the middle of training" if moved else "The log shows neither progress nor an error nor an end"
    )
    if save_open(scene.case):
        what = "The log breaks off in the save that it began behind its last step"
    error = _told_error(scene)
    if error is not None and not moved:
        what = "The log shows neither progress nor an end"
    told = "no error" if error is None else f"no error but one that programs often survive ({error})"
    cut = _cut_traceback(scene)
    if cut is not None and error is None:
        told = f"a traceback{who_text(*cut)} breaks off before the line that names its error"
    return Answer(
        question="nothing",
        failed=None,
        category=Category.UNKNOWN,
        strength=Strength.UNKNOWN,
        summary=f"{what}: {told}, no end marker. It may still run, have been killed, or hang.",
        classes=Classes(phase=Phase.UNKNOWN),
        action=ActionKind.COLLECT_MORE,
        steps=("Find out whether the job still runs, and what the scheduler says of it.",),
        collect=(
            "the scheduler's record of the job (state, exit code, end time)",
            "the kernel log of each host at the time of the last line",
            *NEED_ALL,
        ),
    )


def _cut_traceback(scene: Scene) -> tuple[list[GlobalRank], list[str]] | None:
    """Ranks and hosts of the tracebacks with which logs break off, without a last line; None where none does."""
    cut = [
        e
        for e in scene.case.of({TRACEBACK_START})
        if e.exception is not None and not e.exception.kind and e.exception.frames and not e.exception.ignored
    ]
    if not cut:
        return None
    ranks = {r for e in cut if (r := scene.roster.rank(e)) is not None}
    return sorted(ranks), sorted({h for e in cut if (h := scene.roster.host(e)) is not None})


def _told_error(scene: Scene) -> str | None:
    """Title of the last traceback that nothing acquits but a promise to go on; None where there is none."""
    raised = [
        e
        for s in (*scene.weak, *scene.acquitted)
        for e in s.events
        if unkept(e, ()) or (s in scene.weak and e.exception is not None and not e.exception.ignored)
    ]
    raised = [e for e in raised if e.exception is not None and e.exception.frames and not another_program(e)]
    last = max(raised, key=sort_key, default=None)
    return None if last is None else nature_of(scene.case, last).title


def _with(scene: Scene, events: Iterable[Event], mark: Mark) -> list[Event]:
    return [e for e in events if scene.case.has(e, mark)]
