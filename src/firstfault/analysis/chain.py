"""The chain from the first fault to the last exit: each link with its reason and lines."""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING

from firstfault.analysis.floods import cut
from firstfault.analysis.gpu_evidence import QUESTION as GPU_COURSE
from firstfault.analysis.hang_words import others_text
from firstfault.analysis.last_words import MISSED
from firstfault.analysis.order import Place, came_first, comparable, exact, first, place_of, sort_key
from firstfault.analysis.state.exits import integer, signal_name
from firstfault.analysis.state.groups import hang_state
from firstfault.analysis.state.parts import Part
from firstfault.analysis.suspects import nature_of, stranger
from firstfault.analysis.window_links import window_links
from firstfault.analysis.wording import duration, ranks_text, who_text
from firstfault.model.evidence import GlobalRank
from firstfault.model.findings import Link
from firstfault.model.words import Category, Mark, Role

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeGuard

    from firstfault.analysis.answer import Answer
    from firstfault.analysis.hangs import Hang
    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.exits import Exit
    from firstfault.model.evidence import Event

LINES = 3
"""Lines shown for one link."""
APART = 60.0
"""Seconds between two ends of processes from which on they are two steps."""
HANGS = frozenset({"flight_recorder", "hang", "mismatch", "nan_end", "stacks", GPU_COURSE, MISSED})
"""Questions whose trigger is a sign of a state, not the line of a fault."""
_UNTOLD = {"nan_end": "The first value that is not a number"}
"""What a trigger is that no signature knows, by the question that chose it."""


def build_chain(scene: Scene, answer: Answer) -> tuple[Link, ...]:
    """The root, then what followed: by time where times can be compared, else in the order in which a failure spreads."""
    if answer.failed is not True:
        return ()
    used: set[tuple[int, int]] = set(scene.aside)
    head = list(answer.upstream)
    used.update((e.span.source, e.span.line) for link in head for e in link.events)
    if answer.trigger is not None and not head:
        head += _root(scene, answer, answer.trigger, used)
    head += [link for link in answer.course if not any((s.source, s.line) in used for s in link.samples)]
    follows = answer.follows
    if follows is None:
        follows = tuple((s.first, "what ties it to the first fault is not told") for s in scene.suspects)
    others = [(e, why) for e, why in follows if not _used(e, used) and not _reports(scene, e)]
    links: list[Link] = []
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
    named = {*answer.culprits.ranks, *answer.first_failed.ranks}
    early, late = _ends(scene, used)
    if early and late:
        # What failed ended long before those who waited for it did.
        links.insert(0, _link(_ends_text(scene, early), _ENDS, early, used))
    for title, why, wanted in _STAGES:
        found = [e for e in _all(scene, wanted) if not _used(e, used) and id(e) not in scene.got_over]
        if wanted is _other_effects:
            found = [e for e in found if scene.roster.rank(e) not in named]
        if wanted is _waits:
            # Who says that it no longer gets on itself is told as one that waited only where nobody else is.
            found = [e for e in found if not scene.case.has(e, Mark.FROZEN)] or found
        if wanted is _other_effects and (unsigned := [e for e in found if scene.roster.rank(e) is None]):
            links.append(_link(*_REPORTED, unsigned, used))
            found = [e for e in found if scene.roster.rank(e) is not None]
        if found:
            reason = why if wanted is not _waits else why + _away(scene, answer)
            links.append(_link(_describe(scene, title, found), reason, found, used))
    for why, wanted in _REPORTS:
        rest = [e for e in late or early if wanted(scene, e) and not _used(e, used)]
        if rest:
            reason = _BY_SIGNAL if wanted is _stops and any(_from_outside(scene, e) for e in rest) else why
            links.append(_link(_ends_text(scene, rest), reason, rest, used))
    return (*head, *_in_order(links))


def _root(scene: Scene, answer: Answer, trigger: Event, used: set[tuple[int, int]]) -> list[Link]:
    """The first links: what the trigger is a line of, and the fault itself where the trigger only leads up to it."""
    ranks = answer.culprits.ranks or answer.first_failed.ranks
    if answer.question in HANGS and answer.culprits.ranks:
        what = f"{ranks_text(answer.culprits.ranks).capitalize()} held up the others"
        why = "it shows where the rank stood for which the others waited"
        teller = scene.roster.rank(trigger)
        if scene.hang is not None and teller in scene.hang.waiters and teller not in answer.culprits.ranks:
            # The line is one of those that waited: who is not among them may have come, and its log is not here.
            what = f"Nothing shows {ranks_text(answer.culprits.ranks)} among those that waited"
            why = "it is the line of a rank that waited"
        return [_link(what, why, [trigger], used)]
    known = trigger.exception is not None or scene.case.spec(trigger) is not None
    what = nature_of(scene.case, trigger).title if known else _UNTOLD.get(answer.question, "The first sign of it")
    fault = answer.fault
    if answer.question not in HANGS and known and _is_apart(fault, trigger):
        teller = scene.roster.rank(trigger)
        sign = what + who_text(() if teller is None else (teller,), ())
        links = [_link(sign, "it is the earliest sign of the fault", [trigger], used)]
        if not _used(fault, used):
            told = nature_of(scene.case, fault).title + who_text(ranks, answer.culprits.hosts)
            links.append(_link(told, answer.why, [fault], used))
        return links
    hosts = answer.culprits.hosts
    if answer.question in HANGS:
        # Who is named may be who said nothing: the sign was seen where its line was printed.
        teller = scene.roster.rank(trigger)
        ranks = () if teller is None else (teller,)
        seen_there = scene.hang is None or (teller is None and trigger.who.host in hosts)
        hosts = hosts if seen_there else ()
    what, why = what + who_text(ranks, hosts), answer.why
    if answer.question in HANGS:
        what, why = f"First sign of the hang: {what}" if known else what, "no earlier line shows it"
    elif answer.category is Category.UNKNOWN:
        why = "no line names the root cause; this is the earliest that tells of the failure"
    return [_link(what, why, [trigger], used)]


def _is_apart(fault: Event | None, trigger: Event) -> TypeGuard[Event]:
    """Whether the trigger is only an earlier sign of the fault, of another kind and on another line."""
    if fault is None or fault.signature == trigger.signature:
        return False
    return (fault.span.source, fault.span.line) != (trigger.span.source, trigger.span.line)


def _in_order(links: Sequence[Link]) -> list[Link]:
    """Links in order of time as far as it is known; where it is not, they stay as they are."""
    placed: list[Link] = []
    for link in links:
        before = [_comes_first(link, other) for other in placed]
        at = len(placed)
        if True in before and False not in before[before.index(True) :]:
            at = before.index(True)
        placed.insert(at, link)
    return placed


def _comes_first(a: Link, b: Link) -> bool | None:
    one, other = _place(a), _place(b)
    if one is None or other is None:
        return None
    came = came_first(one, other)
    if came is None and comparable(one.when, other.when):
        # A line without a stamp, behind the last stamped one of its file, lies in an interval that is open on one side.
        came = True if one.when.before(other.when) else False if other.when.before(one.when) else None
    return came


def _place(link: Link) -> Place | None:
    """Where and when the first line of a link stands; of a link about progress, that of its first sample."""
    if link.events:
        return place_of(link.events[0])
    sample = next(iter(link.samples), None)
    return None if sample is None else Place(sample.source, sample.offset, sample.when)


def _ends(scene: Scene, used: set[tuple[int, int]]) -> tuple[list[Event], list[Event]]:
    """Lines about processes that ended: those near the first one, and those of times or files long after it."""
    ends = scene.case.signatures_with(Mark.STOP_SIGNAL, Mark.DEATH)
    asked = {s for s in scene.case.signatures if s in ends or s.startswith("launcher.")}
    ordered = sorted((e for e in scene.case.of(asked) if _ended(scene, e) and not _used(e, used)), key=sort_key)
    timed = [e for e in ordered if exact(e.when)]
    if not timed:
        return ordered, []
    opening = timed[0]
    late = {id(e) for e in timed if comparable(e.when, opening.when) and _at(e) - _at(opening) > APART}
    near = {e.span.source for e in timed if id(e) not in late}
    late |= {id(e) for e in ordered if not exact(e.when) and e.span.source not in near}
    return [e for e in ordered if id(e) not in late], [e for e in ordered if id(e) in late]


def _ends_text(scene: Scene, events: Sequence[Event]) -> str:
    """Which of the two the lines tell, orders to stop or exits, and of whom."""
    told = any(scene.case.has(e, Mark.STOP_SIGNAL) for e in events)
    ranks = sorted({r for e in events if scene.case.has(e, Mark.DEATH) and (r := scene.roster.rank(e)) is not None})
    # Of a long list the first and the last lines are kept; the list itself is read as a whole.
    listed = {e.span.source for e in events if scene.case.has(e, Mark.DEATH) and e.signature.startswith("launcher.")}
    whole = {f.who.rank for f in scene.failures if f.span.source in listed and f.who.rank is not None}
    if scene.roster.tasks_are_ranks:
        told_of = {e.span.source for e in events if scene.case.has(e, Mark.DEATH) and e.signature.startswith("slurm.")}
        tasks = (n for n in scene.case.seen.named if n.tasks and n.source in told_of)
        whole |= {GlobalRank(task) for n in tasks for task in n.ranks}
    ranks = sorted({*ranks, *whole}) if ranks else ranks
    ended = any(not scene.case.has(e, Mark.STOP_SIGNAL) for e in events)
    exits = f"the end of {ranks_text(ranks)} was reported" if ranks else "ends of processes were reported"
    if len(ranks) > 1 and not whole and any(cut(e) for e in events if scene.case.has(e, Mark.DEATH)):
        exits = f"the end of {ranks_text(ranks)} and of others was reported"
    if told and ended:
        return f"Processes were told to stop, {exits}"
    return "Processes were told to stop" if told else exits[0].upper() + exits[1:]


def _at(event: Event) -> float:
    return event.when.earliest or 0.0


def _away(scene: Scene, answer: Answer) -> str:
    """Who did not take part, where those that failed first are none of those that waited."""
    hang = scene.hang
    ranks = tuple(
        r for r in answer.culprits.ranks or answer.first_failed.ranks if hang is None or r not in hang.waiters
    )
    if not ranks:
        return ""
    spoke = {scene.roster.rank(e) for e in scene.events} | {who.rank for who in scene.case.seen.place.values()}
    silent = not any(r in spoke for r in ranks)
    return (
        f", and nothing shows {ranks_text(ranks)} in it" if silent else f", and {ranks_text(ranks)} did not come to it"
    )


def _all(scene: Scene, wanted: Callable[[Scene, Event], bool]) -> list[Event]:
    """The events of a stage; what is asked depends on the signature and the row of its table, so it is asked once for each."""
    known: dict[tuple[str, str | None], bool] = {}
    found = []
    case = scene.case
    sure = {s for s in case.uniform if wanted(scene, case.one_of(s))}
    for event in case.of({s for s in case.signatures if s in sure or s not in case.uniform}):
        if event.signature in sure:
            found.append(event)
            continue
        spec = case.spec(event)
        if spec is None or event.exception is not None:
            if wanted(scene, event):
                found.append(event)
            continue
        key = (event.signature, event.fields.get(spec.table) if spec.table else None)
        if key not in known:
            known[key] = wanted(scene, event)
        if known[key]:
            found.append(event)
    return found


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
    # A line that says what it is about stands for the rest: a bare class name tells nothing.
    shown = nsmallest(LINES, events, key=lambda e: (_is_bare(e), sort_key(e)))
    used.update((e.span.source, e.span.line) for e in events)
    return Link(what=what, why=why, events=tuple(shown), spans=tuple(e.span for e in shown))


def _is_bare(event: Event) -> bool:
    """Whether a line names the class of an exception and nothing else."""
    return event.exception is not None and not event.exception.message.strip()


def _describe(scene: Scene, title: str, events: Sequence[Event]) -> str:
    ranks = sorted({r for e in events if (r := scene.roster.rank(e)) is not None})
    waits = set() if scene.hang is None else {id(e) for e in scene.hang.events}
    if scene.hang is None or not any(id(e) in waits for e in events):
        return f"{title}: {ranks_text(ranks)}" if ranks else title
    # The wait of a rank whose line is the root of the chain is told here with the others', but for one that only says that it
    # does not get on itself.
    own = [e for e in scene.hang.events if id(e) not in scene.got_over and not scene.case.has(e, Mark.FROZEN)]
    told = {scene.roster.rank(e) for e in own}
    waiters = [r for r in scene.hang.waiters if r in told] or list(ranks)
    if not waiters:
        waiters = [r for r, part in hang_state(scene).parts.items() if part is Part.INITIATOR]
    text = f"{title}: {ranks_text(waiters)}" if waiters else title
    text += _waited_in(scene, scene.hang)
    if scene.hang.waited_ms is not None:
        text += f", for {duration(scene.hang.waited_ms)}"
    rest = others_text(hang_state(scene), {*waiters, *scene.hang.waiters})
    return f"{text} ({rest})" if rest else text


def _waited_in(scene: Scene, hang: Hang) -> str:
    """In what the ranks of a hang waited, as far as each first told the same; nothing where they differ or no line tells."""
    if hang.op is None or hang.seq is None:
        return ""
    first: dict[GlobalRank | None, tuple[str, str | None]] = {}
    for event in hang.events:
        if "op" in event.fields:
            first.setdefault(scene.roster.rank(event), (event.fields["op"], event.fields.get("seq")))
    return f", in {hang.op} {hang.seq}" if len(set(first.values())) == 1 else ""


def _marked(mark: Mark, *roles: Role) -> Callable[[Scene, Event], bool]:
    def wanted(scene: Scene, event: Event) -> bool:
        return scene.case.has(event, mark) and (not roles or nature_of(scene.case, event).role in roles)

    return wanted


def _reports(scene: Scene, event: Event) -> bool:
    """Whether a line is a launcher's report of processes that ended: it says nothing of why."""
    return event.signature.startswith("launcher.") and nature_of(scene.case, event).role is Role.EFFECT


def _ended(scene: Scene, event: Event) -> bool:
    marks = (Mark.STOP_SIGNAL, Mark.DEATH)
    return not stranger(event) and (any(scene.case.has(event, m) for m in marks) or _reports(scene, event))


def _other_effects(scene: Scene, event: Event) -> bool:
    return _effect(scene, event) and not _of_nccl(scene, event) and not _ended(scene, event)


def _effect(scene: Scene, event: Event) -> bool:
    marks = (Mark.PEER_LOST, Mark.HANG, Mark.ABORT, Mark.STATE, Mark.STOP_SIGNAL, Mark.DEATH)
    return nature_of(scene.case, event).role is Role.EFFECT and not any(scene.case.has(event, m) for m in marks)


def _waits(scene: Scene, event: Event) -> bool:
    return scene.case.has(event, Mark.HANG)


def _of_nccl(scene: Scene, event: Event) -> bool:
    """Whether a line tells of an error of the collective library's own that follows from another."""
    return event.signature.startswith("nccl.") and _effect(scene, event)


def _of_scheduler(event: Event) -> bool:
    return event.signature.split(".", 1)[0] in _SCHEDULERS


def _scheduler_exit(scene: Scene, event: Event) -> bool:
    return scene.case.has(event, Mark.DEATH) and _of_scheduler(event)


def _stops(scene: Scene, event: Event) -> bool:
    return scene.case.has(event, Mark.STOP_SIGNAL)


def _from_outside(scene: Scene, event: Event) -> bool:
    """Whether a line says that its own speaker was told to stop, by nobody of the job."""
    return scene.case.has(event, Mark.OUTSIDE) or event.signature == _INTERRUPT


def _launcher_exit(scene: Scene, event: Event) -> bool:
    return not scene.case.has(event, Mark.STOP_SIGNAL) and not _scheduler_exit(scene, event)


_SCHEDULERS = frozenset({"slurm", "kubernetes", "container"})
"""First words of the signatures of those that run the job, not its processes."""
_STAGES: tuple[tuple[str, str, Callable[[Scene, Event], bool]], ...] = (
    ("Peers lost their connections", "a process that ends closes its sockets", _marked(Mark.PEER_LOST, Role.EFFECT)),
    ("Ranks waited too long", "a collective ends only when every member takes part", _waits),
    (
        "Calls of the collective library failed",
        "an error of its transport, or of a peer, comes back out of its calls",
        _of_nccl,
    ),
    ("Processes aborted themselves", "a runtime or its watchdog ends a process that cannot go on", _marked(Mark.ABORT)),
    ("Other processes failed with it", "a rank that fails takes others with it", _other_effects),
)
"""What follows from a failure, in the order in which it spreads where no times tell; the ends of processes come last."""
_REPORTED = ("Others reported it", "whoever starts or calls what failed tells that it did")
"""What lines without a rank say that follow from a fault."""
_REPORTS: tuple[tuple[str, Callable[[Scene, Event], bool]], ...] = (
    ("the launcher or scheduler ends the rest", _stops),
    ("the launcher watches its processes and lists how they ended", _launcher_exit),
    ("the scheduler sees tasks and containers, not what went on inside", _scheduler_exit),
)
_INTERRUPT = "process.keyboard_interrupt"
_BY_SIGNAL = "a signal came from outside its processes: by hand, or from a scheduler"
_ENDS = "its launcher reports the end and stops its neighbours"
