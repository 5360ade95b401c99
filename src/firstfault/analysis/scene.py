"""One attempt with everything that was folded from its events; the input of every question."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from firstfault.analysis.aside import no_part, over, somebody_elses
from firstfault.analysis.case import Case
from firstfault.analysis.hangs import Hang, find_hang
from firstfault.analysis.job_map import JobMap, own_number
from firstfault.analysis.order import first
from firstfault.analysis.outcome import (
    Outcome,
    Traces,
    bad_word,
    broke_off,
    last_word,
    outcome,
    raised_from_error,
    said_good,
    uncaught,
)
from firstfault.analysis.passed import came_up, may_be_quoted, quoted, stepped_past
from firstfault.analysis.promises import broken_promises, uncaught_after_all
from firstfault.analysis.state.by_hand import without_joins
from firstfault.analysis.state.completeness import Completeness, completeness, machines, ranks_per_node, world_size
from firstfault.analysis.state.exits import Exit, exits, turns
from firstfault.analysis.state.facts import JobFact, job_facts
from firstfault.analysis.state.joins import Pods, joined
from firstfault.analysis.state.ranks import Roster
from firstfault.analysis.state.record import of_this_job, record
from firstfault.analysis.storage_pods import without_store_pods
from firstfault.analysis.suspects import (
    NO_TURN,
    Suspect,
    another_program,
    group,
    harmless,
    lived_on,
    nature_of,
    of_roles,
    of_the_store,
    quiet,
    recovered_retry,
    stranger,
    went_on,
)
from firstfault.model.evidence import Event, Failure, GlobalRank
from firstfault.model.words import Mark, Role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from firstfault.analysis.state.attempts import Attempts


_OF_CONTAINERS = frozenset({"container", "pod"})
"""Fields of lines about the end of a whole container, in which several ranks may have run: it is no rank's own exit."""


class Scene(Struct, frozen=True, kw_only=True, dict=True):
    """One attempt."""

    case: Case
    number: int
    events: tuple[Event, ...]
    failures: tuple[Failure, ...]
    facts: dict[str, JobFact]
    roster: Roster
    chart: JobMap
    """What a machine's line is held against."""
    complete: Completeness
    suspects: tuple[Suspect, ...]
    """Fatal, and not acquitted by progress, by a good end, or by their own text."""
    weak: tuple[Suspect, ...]
    """Not fatal by themselves; neither followed by progress nor by a good end."""
    acquitted: tuple[Suspect, ...]
    effects: tuple[Event, ...]
    teardown: tuple[Event, ...]
    deaths: tuple[Event, ...]
    exits: tuple[Exit, ...]
    hang: Hang | None
    nan_from: tuple[Event, ...]
    """First line of a run of NaN that lasts to the end, for each source that has one."""
    outcome: Outcome
    aside: frozenset[tuple[int, int]] = frozenset()
    """Source and line of what is no part of the attempt."""

    def marked(self, *marks: Mark) -> tuple[Event, ...]:
        """Events of this attempt whose signature carries one of the marks."""
        return self.case.marked(*marks)

    @cached_property
    def got_over(self) -> frozenset[int]:
        """Lines (by identity) about lost connections that are no part of this failure: the job got over them."""
        kept = {id(e) for e in self.effects}
        lost = self.case.of(self.case.signatures_with(Mark.PEER_LOST))
        return frozenset(id(e) for e in lost if id(e) not in kept and nature_of(self.case, e).role is Role.EFFECT)


def build_scene(seen: Case, attempts: Attempts, number: int) -> Scene:
    """Folds the events of one attempt."""
    talk = may_be_quoted(seen)
    only = attempts.only
    events = tuple(
        e if e.attempt == number else replace(e, attempt=number)
        for e in seen.events
        if (only or attempts.of(e) == number) and not (e.signature in talk and quoted(seen, e))
    )
    failures = tuple(f for f in seen.seen.failures if attempts.at(f.span.source, f.span.offset, f.when) == number)
    progress = tuple(p for p in seen.seen.progress if attempts.at(p.source, p.offset, p.when) == number)
    named = tuple(attempts.of_named(n, number) for n in seen.seen.named)
    pods = Pods(events)
    here = {e.span.source for e in events} | {p.source for p in progress}
    events = of_this_job(events, {s: p for s, p in seen.paths.items() if s in here})
    events = joined(events, seen.seen.place, pods, caught=seen.signatures_with(Mark.CAUGHT))
    events = without_joins(without_store_pods(events, seen.seen.sources))
    asked = seen.seen.job_state is not None or seen.seen.exit_code is not None
    told = None if asked else record(seen, events)
    last = number == attempts.total
    case = Case(
        replace(
            seen.seen,
            events=events,
            failures=failures,
            progress=progress,
            named=named,
            stacks=seen.seen.stacks if last else (),
            dumps=seen.seen.dumps if last else (),
            snapshots=seen.seen.snapshots if last else (),
            courses=seen.seen.courses if last else (),
            job_state=seen.seen.job_state if told is None else told.state,
            exit_code=seen.seen.exit_code if told is None else told.exit_code,
            recorded=None if told is None else told.event,
            box=seen.seen.box if last else (),
        ),
        seen.library,
    )
    facts = job_facts(case, events)
    world = world_size(facts)
    roster = Roster(
        case, events, failures, world, nodes=machines(facts), per_node=ranks_per_node(facts, world), pods=pods
    )
    end_words = _end_words(case)
    ends = tuple(
        e for e in case.of(end_words) if not (went_on(case, e) or _raised_behind(case, e) or raised_from_error(e))
    )
    chart = JobMap(case, roster, world=world, nodes=machines(facts), job=own_number(case, facts))
    foreign, failures = no_part(case, roster, chart, events, ends)
    guilty, weak, innocent, effects, teardown = _sort(case, roster, foreign)
    dying, waiting = case.signatures_with(Mark.DEATH), case.signatures_with(Mark.HANG)
    deaths = tuple(
        e
        for e in case.of(dying)
        if not (id(e) in foreign or _good_exit(e) or _ended_nothing(e) or went_on(case, e) or stranger(e))
    )
    broken = broken_promises(roster, innocent, guilty, deaths)
    if broken:
        return build_scene(uncaught_after_all(seen, broken), attempts, number)
    hang = find_hang(case, roster, (e for e in case.of(waiting) if not went_on(case, e)))
    if hang is None and not (deaths or failures or effects or teardown) and _only_talk(case, guilty):
        innocent, guilty = (*innocent, *guilty), []
    gone = over(case, chart, hang, guilty, weak)
    innocent = (*innocent, *(e for e in (*weak, *guilty) if id(e) in gone))
    guilty, weak = [e for e in guilty if id(e) not in gone], [e for e in weak if id(e) not in gone]
    deaths = tuple(e for e in deaths if id(e) not in gone)
    told_bad = bool(failures) or hang is not None or bad_word(case)
    if (ends or said_good(case)) and not told_bad and somebody_elses(case, roster, (*guilty, *deaths)):
        # Somebody else's process was killed on a machine of a job that ended well.
        innocent, guilty, deaths = (*innocent, *guilty), [], ()
    suspects = group(case, roster, guilty)
    traces = Traces(
        suspects=tuple(suspects),
        deaths=deaths,
        hangs=() if hang is None else hang.events,
        failures=failures,
        ends=ends,
        lost=tuple(e for e in effects if uncaught(e)),
    )
    ended = outcome(case, traces, events)
    if ended.ended in {"completed", "stopped"}:
        innocent, guilty, weak = (*innocent, *guilty, *weak), [], []
    elif ended.ended == "failed" and ends:
        before_end = {
            id(e)
            for e in guilty
            if any(first(e, end) is True for end in ends)
            and not (_own_last_word(e, deaths) or broke_off(case, e, ends))
        }
        innocent = (*innocent, *(e for e in guilty if id(e) in before_end))
        guilty = [e for e in guilty if id(e) not in before_end]
    ended_so = exits(roster, (e for e in deaths if not _OF_CONTAINERS & e.fields.keys()), failures)
    order = turns(ended_so, case.marked(Mark.STOP_SIGNAL))
    return Scene(
        case=case,
        number=number,
        events=events,
        failures=failures,
        facts=facts,
        roster=roster,
        chart=chart,
        complete=completeness(case, roster, facts),
        suspects=_in_turn(group(case, roster, guilty), order),
        weak=_in_turn(group(case, roster, weak), order),
        acquitted=tuple(group(case, roster, innocent)),
        effects=effects,
        teardown=teardown,
        deaths=deaths,
        exits=ended_so,
        hang=hang,
        nan_from=tuple(e for e in seen.seen.nan_from if attempts.of(e) == number),
        outcome=ended,
        aside=frozenset((e.span.source, e.span.line) for e in events if id(e) in foreign),
    )


def _in_turn(suspects: Sequence[Suspect], turns: Mapping[GlobalRank, int]) -> tuple[Suspect, ...]:
    """The suspects with the turn in which their ranks exited, where exits are reported one by one."""
    if not turns:
        return tuple(suspects)
    return tuple(replace(s, turn=min(turns.get(r, NO_TURN) for r in s.everyone)) if s.everyone else s for s in suspects)


def _end_words(case: Case) -> frozenset[str]:
    """Signatures of lines that say that the run ended: those of an evaluation's end too, where nothing is trained."""
    words = case.signatures_with(Mark.END, Mark.PLANNED_STOP, Mark.STUDY_END)
    trains = bool(case.tracks) or bool(case.marked(Mark.START))
    return words if trains else words | case.signatures_with(Mark.EVALUATION_END)


def _raised_behind(case: Case, end: Event) -> bool:
    """Whether an error was raised behind the end of a study: what a script does with the result is a part of the run."""
    if not case.has(end, Mark.STUDY_END):
        return False
    return any(
        e.exception is not None and e.span.source == end.span.source and e.span.offset > end.span.offset
        for e in case.events
        if not harmless(e)
    )


def _sort(
    case: Case, roster: Roster, foreign: frozenset[int]
) -> tuple[list[Event], list[Event], tuple[Event, ...], tuple[Event, ...], tuple[Event, ...]]:
    """Events by what they can be: fatal causes, weak causes, acquitted causes, effects, teardown.

    Those of `foreign` (by identity) are about what is no part of the job. An error behind which its own rank lived on is no
    more than what may have led to its end.
    """
    guilty: list[Event] = []
    weak: list[Event] = []
    lived: list[Event] = []
    innocent: list[Event] = []
    effects: list[Event] = []
    teardown: list[Event] = []
    for event in of_roles(case, {Role.CAUSE, Role.EFFECT, Role.TEARDOWN}):
        nature = nature_of(case, event)
        if id(event) in foreign:
            if nature.role is Role.CAUSE:
                innocent.append(event)
        elif nature.role is Role.EFFECT:
            excused = harmless(event) or recovered_retry(case, event)
            if not (excused or went_on(case, event) or another_program(event)):
                effects.append(event)
        elif nature.role is Role.TEARDOWN:
            teardown.append(event)
        elif nature.role is Role.CAUSE:
            if (
                harmless(event)
                or of_the_store(event)
                or quiet(case, event)
                or recovered_retry(case, event)
                or came_up(case, event)
                or went_on(case, event)
            ):
                innocent.append(event)
            elif not nature.fatal or stranger(event) or another_program(event):
                weak.append(event)
            elif lived_on(event) and roster.rank(event) is not None:
                lived.append(event)
            else:
                guilty.append(event)
    # Beside nothing but an order to stop it may be why the order came.
    (guilty if guilty and all(case.has(e, Mark.STOP_SIGNAL) for e in guilty) else weak).extend(lived)
    if not guilty:
        # What a library often prints and survives ended the program where nobody caught it.
        ended = {nature_of(case, e).key for e in weak if last_word(e) and not another_program(e)}
        guilty = [e for e in weak if nature_of(case, e).key in ended]
        weak = [e for e in weak if nature_of(case, e).key not in ended]
    return guilty, weak, tuple(innocent), tuple(effects), tuple(teardown)


def _own_last_word(event: Event, deaths: tuple[Event, ...]) -> bool:
    """Whether an error ended its process for certain while one is known to have died: the end that is told behind it is another's."""
    return bool(deaths) and uncaught(event) and not another_program(event)


def _only_talk(case: Case, guilty: list[Event]) -> bool:
    """Whether all that speaks of a failure are plain lines that the job stepped past, and nobody says that it failed."""
    return not bad_word(case) and all(stepped_past(case, e) for e in guilty)


def _ended_nothing(event: Event) -> bool:
    """Whether a line about a command that ended badly belongs to an exception that nobody was harmed by."""
    return event.exception is not None and event.exception.ignored


def _good_exit(event: Event) -> bool:
    return event.fields.get("exit_code") in {"0", "0:0"}
