"""The chain from the first fault to the last exit: each link with its reason and lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.gpu_evidence import QUESTION as GPU_COURSE
from firstfault.analysis.hang_words import parts_text
from firstfault.analysis.last_words import MISSED
from firstfault.analysis.order import first, sort_key
from firstfault.analysis.state.exits import integer, signal_name
from firstfault.analysis.state.groups import hang_state
from firstfault.analysis.suspects import nature_of
from firstfault.analysis.window_links import window_links
from firstfault.analysis.wording import duration, ranks_text, who_text
from firstfault.model.findings import Link
from firstfault.model.words import Mark, Role

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.exits import Exit
    from firstfault.model.evidence import Event

LINES = 3
"""Lines shown for one link."""


def build_chain(scene: Scene, answer: Answer) -> tuple[Link, ...]:
    """Links in the order in which a failure spreads: root, other faults, lost peers, waits, aborts, stops, exits."""
    if answer.failed is not True:
        return ()
    links: list[Link] = []
    used: set[tuple[int, int]] = set()
    for link in answer.upstream:
        links.append(link)
        used.update((e.span.source, e.span.line) for e in link.events)
    if answer.trigger is not None and not answer.upstream:
        what = (
            answer.summary
            if answer.question in {"flight_recorder", "hang", "nan_end", "stacks", GPU_COURSE, MISSED}
            else nature_of(scene.case, answer.trigger).title
            + who_text(answer.culprits.ranks or answer.first_failed.ranks, answer.culprits.hosts)
        )
        why = answer.why
        if answer.question in {"hang", "stacks"} and answer.culprits.ranks:
            why = "it shows where the rank stood for which the others waited"
        links.append(_link(what, why, [answer.trigger], used))
    follows = answer.follows
    if follows is None:
        follows = tuple((s.first, "what ties it to the first fault is not told") for s in scene.suspects)
    others = [(e, why) for e, why in follows if not _used(e, used)]
    for event, reason in sorted(others, key=lambda pair: sort_key(pair[0]))[:4]:
        nature = nature_of(scene.case, event)
        rank = scene.roster.rank(event)
        subject = who_text((rank,) if rank is not None else (), ())
        links.append(_link(f"{nature.title}{subject}", reason, [event], used))
    gone = _left(scene, answer, used)
    if gone is not None:
        links.append(gone)
    for link in window_links(scene, answer):
        if not any(_used(e, used) for e in link.events):
            links.append(link)
            used.update((e.span.source, e.span.line) for e in link.events)
    named = set(answer.culprits.ranks)
    for title, why, wanted in _STAGES:
        found = [e for e in scene.events if wanted(scene, e) and not _used(e, used)]
        if wanted is _other_effects or wanted is _watchdog:
            found = [e for e in found if scene.roster.rank(e) not in named]
        if found:
            reason = why if wanted is not _waits else why + _away(scene, answer)
            links.append(_link(_describe(scene, title, found), reason, found, used))
    return tuple(links)


def _away(scene: Scene, answer: Answer) -> str:
    """Who did not take part, where those that failed first are none of those that waited."""
    hang = scene.hang
    ranks = tuple(
        r for r in answer.culprits.ranks or answer.first_failed.ranks if hang is None or r not in hang.waiters
    )
    return f", and {ranks_text(ranks)} did not come to it" if ranks else ""


def _left(scene: Scene, answer: Answer, used: set[tuple[int, int]]) -> Link | None:
    """How the ranks that failed by an error of their own left the loop in which the others then waited."""
    if scene.hang is None or answer.question in {"hang", "mismatch"}:
        return None
    ranks = set(answer.culprits.ranks or answer.first_failed.ranks) - set(scene.hang.waiters)
    start = scene.hang.first
    ended = [
        e
        for e in scene.exits
        if e.rank in ranks and e.event is not None and not _used(e.event, used) and first(e.event, start) is True
    ]
    if not ended:
        return None  # what is reported only at the end stands with the other exits
    who = sorted({int(e.rank) for e in ended if e.rank is not None})
    how = sorted({_how(e) for e in ended})
    lines = [e.event for e in ended if e.event is not None]
    return _link(
        f"{ranks_text(who).capitalize()} ended ({', '.join(how)}) and came to no further collective",
        "an error that nobody catches, or a kill, takes the process out of the loop",
        lines,
        used,
    )


def _how(end: Exit) -> str:
    if end.signal is not None:
        return signal_name(end.signal)
    code = integer(None if end.event is None else end.event.fields.get("exit_code"))
    return "by itself" if code is None else f"exit code {code}"


def _used(event: Event, used: set[tuple[int, int]]) -> bool:
    return (event.span.source, event.span.line) in used


def _link(what: str, why: str, events: Sequence[Event], used: set[tuple[int, int]]) -> Link:
    shown = sorted(events, key=sort_key)[:LINES]
    used.update((e.span.source, e.span.line) for e in events)
    return Link(what=what, why=why, events=tuple(shown), spans=tuple(e.span for e in shown))


def _describe(scene: Scene, title: str, events: Sequence[Event]) -> str:
    ranks = sorted({r for e in events if (r := scene.roster.rank(e)) is not None})
    text = f"{title}: {ranks_text(ranks)}" if ranks else title
    waits = set() if scene.hang is None else {(e.span, e.signature) for e in scene.hang.events}
    if scene.hang is not None and any((e.span, e.signature) in waits for e in events):
        if scene.hang.op is not None and scene.hang.seq is not None:
            text += f", in {scene.hang.op} {scene.hang.seq}"
        if scene.hang.waited_ms is not None:
            text += f", for {duration(scene.hang.waited_ms)}"
        text += f" ({parts_text(hang_state(scene))})"
    return text


def _marked(mark: Mark, *roles: Role) -> Callable[[Scene, Event], bool]:
    def wanted(scene: Scene, event: Event) -> bool:
        return scene.case.has(event, mark) and (not roles or nature_of(scene.case, event).role in roles)

    return wanted


def _other_effects(scene: Scene, event: Event) -> bool:
    return _effect(scene, event) and not _watchdog(scene, event) and not event.signature.startswith(_LAUNCHER)


def _effect(scene: Scene, event: Event) -> bool:
    marks = (Mark.PEER_LOST, Mark.HANG, Mark.ABORT, Mark.STOP_SIGNAL, Mark.DEATH)
    return nature_of(scene.case, event).role is Role.EFFECT and not any(scene.case.has(event, m) for m in marks)


def _waits(scene: Scene, event: Event) -> bool:
    return scene.case.has(event, Mark.HANG)


def _watchdog(scene: Scene, event: Event) -> bool:
    """Whether a line is what a watchdog says when it gives a wait up."""
    return scene.hang is not None and event.signature.startswith("nccl.") and _effect(scene, event)


def _of_scheduler(event: Event) -> bool:
    return event.signature.split(".", 1)[0] in _SCHEDULERS


def _launcher_exit(scene: Scene, event: Event) -> bool:
    told = scene.case.has(event, Mark.DEATH) and not _of_scheduler(event)
    return told or (event.signature.startswith(_LAUNCHER) and _effect(scene, event))


def _scheduler_exit(scene: Scene, event: Event) -> bool:
    return scene.case.has(event, Mark.DEATH) and _of_scheduler(event)


_LAUNCHER = "launcher."
_SCHEDULERS = frozenset({"slurm", "kubernetes", "container"})
"""First words of the signatures of those that run the job, not its processes."""
_STAGES: tuple[tuple[str, str, Callable[[Scene, Event], bool]], ...] = (
    ("Consequences in other processes", "a rank that fails takes others with it", _other_effects),
    ("Peers lost their connections", "a process that ends closes its sockets", _marked(Mark.PEER_LOST, Role.EFFECT)),
    ("Ranks waited", "a collective ends only when every member takes part", _waits),
    ("Watchdogs gave the wait up", "each process has a time limit for its collectives", _watchdog),
    ("Processes aborted themselves", "the watchdog ends a process whose collective failed", _marked(Mark.ABORT)),
    ("Processes were told to stop", "the launcher or scheduler ends the rest", _marked(Mark.STOP_SIGNAL)),
    ("The launcher reported the exits", "it watches its processes and lists how they ended", _launcher_exit),
    ("The scheduler reported the end", "it sees tasks and containers, not what went on inside", _scheduler_exit),
)
