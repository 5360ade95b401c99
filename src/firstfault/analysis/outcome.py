"""How one attempt ended: failed, completed, stopped as planned, or not told. `none` is earned, never assumed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from firstfault.analysis.job_state import COMPLETED_STATES, FAILED_STATES, known_state
from firstfault.analysis.order import first, sort_key
from firstfault.analysis.suspects import Suspect
from firstfault.model.evidence import Event, Failure
from firstfault.model.words import Mark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.analysis.case import Case

TOP = frozenset({"<module>", "_run_module_as_main"})
"""Functions of the outermost frame of a traceback that nobody caught."""
_STARTS_POD = frozenset({"kubernetes.container_started", "kubernetes.pod_assigned"})
_PLATFORM = "kubernetes."
"""Room of signatures of a platform that acts on pods which run, and on no others."""
NO_ERRORS = frozenset({"StopIteration", "StopAsyncIteration", "KeyboardInterrupt"})
"""What a program turns into a stop of its own without anything being wrong: the data are at their end, a person asked."""


class Outcome(Struct, frozen=True, kw_only=True):
    """How the attempt ended, and by which line."""

    ended: Literal["failed", "completed", "stopped", "unknown"]
    event: Event | None = None
    why: str = ""
    against: tuple[Event, ...] = ()
    """What the logs hold against the scheduler's word or the exit code: errors that nothing else excuses against a good
    one, the run's own end marker against a bad one."""


class Traces(Struct, frozen=True, kw_only=True):
    """What speaks for and against a good end in one attempt."""

    suspects: tuple[Suspect, ...]
    """Fatal suspects that nothing acquits."""
    deaths: tuple[Event, ...]
    hangs: tuple[Event, ...]
    failures: tuple[Failure, ...]
    ends: tuple[Event, ...]
    """Lines that say that the run ended as planned."""
    lost: tuple[Event, ...] = ()
    """Errors that follow from another's end and that nobody caught: they ended their own process all the same."""


def ends_it(event: Event, end: Event) -> bool:
    """Whether an end marker can acquit an event: not an exception of another source, unless its process is known to have lived on.

    That is known where nobody says that it was uncaught, its speaker said more, and the clocks put the end behind it; of a
    thread's exception, whose process goes on, where they do not put it before.
    """
    exception = event.exception
    if exception is None or event.span.source == end.span.source:
        return True
    if last_word(event):
        return False
    came = first(event, end)
    return came is True or (exception.in_thread and came is None)


def outcome(case: Case, traces: Traces, events: Sequence[Event]) -> Outcome:
    """How the attempt ended.

    Errors after the last end marker count most; then the end marker; then the scheduler's word; then progress to the
    planned number of steps. A good word of the scheduler is that of its script, which may go on after a failed command or
    hide its status in a pipe: where a process is shown to have died, it is outvoted, and the contradiction is kept.
    """
    told = bad_word(case)
    bad = [s.first for s in traces.suspects] + list(traces.deaths) + list(traces.hangs)
    # In a file of several ranks that tells no steps none is missed: that its speaker went on is for others to tell.
    raised = (e for e in events if e.exception is not None)
    broken = any(_tells_of_itself(case, e) and unkept(e, traces.ends) for e in raised)
    broken = broken or any(broke_off(case, s.first, traces.ends) for s in traces.suspects)
    end = None if broken else _good_end(case, traces, bad)
    bad += traces.lost if traces.ends and end is None else ()
    planned = end is not None and case.has(end, Mark.PLANNED_STOP) and not case.has(end, Mark.END)
    if planned and any(case.has(s.first, Mark.STOP_SIGNAL) for s in traces.suspects):
        end = None  # the program obeyed an order, whose reason a line states: that was nobody's plan
    if end is not None and not told:
        return Outcome(ended="stopped" if planned else "completed", event=end, why="the run says so")
    good = said_good(case) or (case.seen.exit_code == 0 and not told)
    against = tuple(sorted(bad, key=sort_key)) if good else () if end is None else (end,)
    lasting = traces.deaths if case.seen.recorded is None else (*traces.deaths, *traces.hangs)
    if (
        said_good(case)
        and not traces.failures
        and not any(e in lasting or uncaught(e) or _cut_short(case, e) for e in bad)
    ):
        return Outcome(ended="completed", why="the scheduler says so", against=against)
    if bad or traces.failures or told:
        return Outcome(ended="failed", event=min(bad, key=sort_key, default=None), against=against)
    if _reached(case) and not (_stopped(case, events) or save_open(case) or any(unkept(e, ()) for e in events)):
        return Outcome(ended="completed", why="progress reached the planned number of steps")
    return Outcome(ended="unknown")


def state_word(case: Case) -> str:
    """The state that was given for the job, or that a record in the evidence states; empty where there is none."""
    given = case.seen.job_state
    return "" if given is None else known_state(given) or given.upper()


def said_good(case: Case) -> bool:
    """Whether the scheduler's word is that the job completed, and no exit code is against it."""
    return state_word(case) in COMPLETED_STATES and case.seen.exit_code in {None, 0}


def bad_word(case: Case) -> bool:
    """Whether the scheduler's word or the exit code says that the job failed."""
    return state_word(case) in FAILED_STATES or case.seen.exit_code not in {None, 0}


def uncaught(event: Event) -> bool:
    """Whether an exception reached the top of its program: it ended that process, whatever its script made of it."""
    exception = event.exception
    if exception is None or not exception.frames or exception.ignored:
        return False
    return exception.hooked or exception.frames[0].function in TOP


def broke_off(case: Case, event: Event, ends: Sequence[Event]) -> bool:
    """Whether a log stops short of its planned steps at a fault, while only other logs say that the run ended.

    These are other ranks' words, or another element's of an array: whatever the clocks, the one that stopped did not come
    to that end.
    """
    track = case.tracks.get(event.span.source)
    if track is None or track.planned is None or track.complete or event.span.offset < track.last.offset:
        return False
    return bool(ends) and all(end.span.source != event.span.source for end in ends)


def _cut_short(case: Case, event: Event) -> bool:
    """Whether an exception came out of a run that stopped short of the steps that it had planned: no step is behind it.

    A trainer that catches it, says so and leaves ends its script with status 0 all the same.
    """
    exception = event.exception
    if exception is None or not exception.frames or exception.ignored:
        return False
    planned = [t for t in case.tracks.values() if t.planned is not None]
    return bool(planned) and not any(t.complete for t in planned)


def last_word(event: Event) -> bool:
    """Whether an exception ended its program by its form, or is the last that it said: then its kind does not excuse it."""
    exception = event.exception
    return uncaught(event) or (exception is not None and exception.last_word and not exception.ignored)


def _tells_of_itself(case: Case, event: Event) -> bool:
    """Whether the file of a line is one rank's own, or tells steps: then what comes last in it is how far its speaker came."""
    place = case.seen.place.get(event.span.source)
    return event.span.source in case.tracks or (place is not None and place.rank is not None)


def unkept(event: Event, ends: Sequence[Event]) -> bool:
    """Whether a speaker's last words are an exception that it had promised to survive, and nothing shows that it did."""
    exception = event.exception
    if exception is None or not (exception.ignored and exception.last_word):
        return False
    return not any(end.span.source == event.span.source or first(event, end) is True for end in ends)


def breaks_off(case: Case, event: Event) -> bool:
    """Whether a line is the last of its source and has no end, nor one by its own text: what more it said is not known."""
    return case.seen.cut.get(event.span.source) == event.span.line and not event.text.rstrip().endswith(CLOSING)


CLOSING = (".", "!", "。", "！", "}")
"""What closes a sentence or a record: behind it a line has said what it had to say."""


def raised_from_error(end: Event) -> bool:
    """Whether a stop was raised out of an error: then that error ended the run and not the program's plan."""
    chain = () if end.exception is None else end.exception.chained_from
    return any(error.partition(":")[0].rpartition(".")[2] not in NO_ERRORS for error in chain)


def _good_end(case: Case, traces: Traces, bad: Sequence[Event]) -> Event | None:
    """The last end marker, where everything bad came before an end marker; None where there is none or not everything did.

    Times of several clocks are not mixed: an error counts as excused by any end marker that lines or clocks put behind it.
    """
    if not traces.ends:
        return None
    for event in bad:
        order = [first(event, end) for end in traces.ends]
        if False in order and True not in order:
            return None
        if True not in order and (
            event in traces.deaths or event in traces.hangs or _removes(case, event, traces.ends)
        ):
            return None
    own = (*(e for s in traces.suspects for e in s.events if e is s.first or last_word(e)), *traces.lost)
    if any(not any(ends_it(e, end) for end in traces.ends) for e in own):
        return None
    return max(traces.ends, key=lambda end: (not breaks_off(case, end), sort_key(end)))


def _removes(case: Case, event: Event, ends: Sequence[Event]) -> bool:
    """Whether a line tells that a platform took away what was running there: nobody evicts a pod that has come to its end.

    Not where another pod took its place: one that the same list starts behind it, or one of its controller that said the end.
    """
    if (
        not case.has(event, Mark.STOP_SIGNAL)
        or not event.signature.startswith(_PLATFORM)
        or event.exception is not None
    ):
        return False
    pod = event.fields.get("pod", "")
    others = [end for end in ends if _of_another_pod(case, end, pod)]
    started = (e for e in case.of(_STARTS_POD) if e.span.source == event.span.source)
    return not others and not any(e.span.offset > event.span.offset for e in started)


def _of_another_pod(case: Case, end: Event, pod: str) -> bool:
    """Whether the label or the file of a line names a pod of the same controller, and another one."""
    owner, _, own = pod.rpartition("-")
    if not owner:
        return False
    text = f"{end.who.label or ''} {case.paths.get(end.span.source, '')}"
    found = re.search(rf"(?<![\w-]){re.escape(owner)}-(\w+)", text)
    return found is not None and found[1] != own


def _reached(case: Case) -> bool:
    """Whether progress reached the planned number of steps, and no other source stopped on the way to the same number."""
    planned = {t.planned for t in case.tracks.values() if t.complete}
    return bool(planned) and all(t.complete for t in case.tracks.values() if t.planned in planned)


def save_open(case: Case) -> bool:
    """Whether a log breaks off in the save behind its last step: it says that one began, and not that it ended.

    Where earlier saves have no end either, the program tells of none.
    """
    begun, ended = case.marked(Mark.CHECKPOINT_BEGIN), case.marked(Mark.CHECKPOINT_END)
    left = [e for e in begun if not any(first(e, end) is True for end in ended)]
    steps = {s: t.last.offset for s, t in case.tracks.items()}
    behind = [e for e in left if e.span.source in steps and e.span.offset > steps[e.span.source]]
    return bool(behind) and (bool(ended) or len(begun) == len(behind))


def _stopped(case: Case, events: Sequence[Event]) -> bool:
    return any(case.has(e, Mark.STOP_SIGNAL) for e in events)
