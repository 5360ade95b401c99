"""Who held the job up, where ranks waited too long? A table of rows; the first that applies answers.

The rows and their exceptions are described in `docs/explanation/hang-decision-table.md`. Who and why are judged apart:
a rank can be certain to have stayed away while its reason is unknown. A time-out alone is never a network fault.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from firstfault.analysis.answer import Answer, Named
from firstfault.analysis.hang_answers import COLLECT, UNEXPLAINED, from_hang, stall, stuck, undecided
from firstfault.analysis.hang_words import accounted, collective, first_collective, waited, waiting_there
from firstfault.analysis.order import comparable, exact, first, sort_key
from firstfault.analysis.questions import circle, ways
from firstfault.analysis.questions.open_save import open_save, saving
from firstfault.analysis.questions.plain_wait import (
    apart,
    apart_applies,
    pairs,
    quiet,
    quiet_ranks,
    unbatched,
)
from firstfault.analysis.state.difference import difference
from firstfault.analysis.state.elsewhere import elsewhere
from firstfault.analysis.state.exits import TOLD, signal_of
from firstfault.analysis.state.fabric import pattern
from firstfault.analysis.state.nodes import hosts_of
from firstfault.analysis.state.picture import Picture, few, in_a_part, narrowed, picture
from firstfault.analysis.state.scopes import scope_of
from firstfault.analysis.state.standing import (
    absent_cells,
    bundled,
    first_line,
    fits_every_hole,
    passed_without,
    together,
)
from firstfault.analysis.state.waits import End
from firstfault.analysis.wording import hosts_text, ranks_text
from firstfault.model.words import ActionKind, Category, Domain, Form, Layer, Mark, Phase, Scope, Strength

if TYPE_CHECKING:
    from firstfault.analysis.hangs import Hang
    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.groups import Group
    from firstfault.model.evidence import Event, GlobalRank, When


MOST_NAMED = 8
"""More silent ranks than this are a gap in the logs, or a fault of more than single ranks; none of them is named."""


class Row(Struct, frozen=True):
    """One row of the decision table."""

    name: str
    applies: Callable[[Picture], bool]
    answer: Callable[[Picture], Answer]


def ask(scene: Scene) -> Answer | None:
    """The answer where ranks waited too long and nothing else is known; else None."""
    if scene.hang is None or _somebody_died(scene, scene.hang):
        return None
    seen = picture(scene)
    answer = decide(seen)[1]
    return (
        _never_started(scene, answer) if answer.category is Category.UNKNOWN and not answer.culprits.ranks else answer
    )


def _with_first_sign(seen: Picture, answer: Answer) -> Answer:
    """The answer with the earliest line of state of the group that waited, where it is open who kept it waiting.

    Where all are known to be inside, a line of one that waited is no evidence of what holds them.
    """
    hang = seen.scene.hang
    open_who = answer.category in {Category.UNKNOWN, Category.COLLECTIVE_MISMATCH} and not answer.culprits.anybody
    if answer.trigger is not None or not open_who:
        return answer
    own = None if seen.nearest is None else first_line(seen.nearest)
    return replace(answer, trigger=own if own is not None or hang is None else hang.first)


def _never_started(scene: Scene, answer: Answer) -> Answer:
    """The answer where all that timed out were processes that waited for the others to join: no collective was begun."""
    hang = scene.hang
    specs = [] if hang is None else [scene.case.spec(e) for e in hang.events]
    if hang is None or any(s is None or s.phase is not Phase.START_UP for s in specs) or scene.case.tracks:
        return answer
    counted = next((e.fields for e in hang.events if {"value", "world_size"} <= e.fields.keys()), None)
    came = "" if counted is None else f" ({counted['value']} of {counted['world_size']} came)"
    return replace(
        answer,
        summary=f"The job never started: processes waited for the others to join{came}, until their time was over. "
        "Who did not come, and why, no line says.",
        classes=replace(answer.classes, form=Form.FAILED_START, phase=Phase.START_UP),
    )


def _somebody_died(scene: Scene, hang: Hang) -> bool:
    """Whether a process is reported to have ended by itself before anybody timed out: then the wait is its effect."""
    ended = [e for e in scene.deaths if signal_of(e) not in {*TOLD, signal.SIGABRT}]
    if any(first(e, hang.first) is True for e in ended):
        return True
    # Without a time on the watchdog's lines, its aborts as the launcher reports them tell when it was.
    aborts = [e for e in scene.deaths if signal_of(e) == signal.SIGABRT and _timed(e)]
    waiters = set(hang.waiters)
    crashed = [e for e in ended if signal_of(e) is not None and _timed(e) and scene.roster.rank(e) not in waiters]
    if aborts and any(all(first(e, a) is True for a in aborts) for e in crashed):
        return True
    return _listed_before(scene, hang) or _ended_before_the_report(scene)


def _ended_before_the_report(scene: Scene) -> bool:
    """Whether the ranks that a report names as late are those whose own end the launcher saw, and it ended all others itself.

    A barrier fails at once where a process is gone, and names it in the words for one that is late. Who only was late lives
    when the others fail, and these exit by themselves.
    """
    late = set(picture(scene).named)
    ends = {e.rank: e for e in scene.exits if e.rank is not None}
    told = {scene.roster.rank(e) for e in scene.marked(Mark.STOP_SIGNAL)}
    if not late or late & told or any(r not in ends or ends[r].signal in {*TOLD, signal.SIGABRT} for r in late):
        return False
    return all(e.signal in TOLD for r, e in ends.items() if r not in late)


def _listed_before(scene: Scene, hang: Hang) -> bool:
    """Whether a launcher's list dates the end of a process by a signal before all aborts that it dates, or before the time-outs."""
    by: dict[bool, list[When]] = {True: [], False: []}
    waiters = set(hang.waiters)
    for failure in scene.failures:
        code = failure.exit_code
        if code is None or code == 0 or -code in TOLD or not exact(failure.when):
            continue
        waited = scene.roster.rank_of(failure.who, failure.span.source, {}) in waiters
        aborted = -code == signal.SIGABRT or (code > 0 and (waited or not waiters))
        if aborted or (code < 0 and not waited):
            by[aborted].append(failure.when)
    marks = [*by[True], *([hang.first.when] if exact(hang.first.when) else [])]
    return bool(marks) and any(all(comparable(w, m) and w.before(m) for m in marks) for w in by[False])


def _timed(event: Event) -> bool:
    return exact(event.when)


def decide(seen: Picture) -> tuple[str, Answer]:
    """The row that applies, and its answer."""
    for row in ROWS:
        if row.applies(seen):
            return row.name, _with_first_sign(seen, row.answer(seen))
    return "unaccounted", _with_first_sign(seen, _unaccounted(seen))


def _named(seen: Picture) -> Answer:
    """A barrier, the desync report or Horovod's stall check names the ranks that did not come."""
    event = seen.named_event
    lines = () if event is None else (event,)
    # Horovod only warns, and goes on waiting: where nothing ended after it, the ranks may have come a moment later.
    warned = event is not None and seen.scene.case.has(event, Mark.ONLY_WARNS)
    ended = seen.scene.exits or seen.scene.deaths or seen.scene.teardown
    # Who waited in a smaller group is not named; for which of the others, its line does not say.
    parts = bool(in_a_part(seen.scene, seen.state))
    strength = Strength.POSSIBLE if parts or (warned and not ended) else Strength.SUPPORTED
    return stall(seen, seen.named, strength, lines, "did not come")


def _outside(seen: Picture) -> Answer:
    """One or few ranks state that they never entered the collective in which the rest is stuck."""
    where = seen.where
    complete = where.witnessed and where.accounted == where.total and not seen.state.assumed
    strength = Strength.ESTABLISHED if complete else Strength.SUPPORTED
    if len(where.missing) > len(where.outside):
        # More ranks are not accounted for than are stated to be outside: the origin may be among them.
        strength = Strength.POSSIBLE
    answer = stall(seen, where.outside, strength, _absent_lines(seen), "never entered")
    return _in_another(seen, answer, where.outside, where.outside_of)


def _in_another(seen: Picture, answer: Answer, ranks: tuple[GlobalRank, ...], groups: Iterable[Group]) -> Answer:
    """The answer, or a mismatch where its ranks were inside another collective by their own tracebacks.

    Ranks that wait for each other in two calls are named only where they are the smaller side.
    """
    cells = [c for g in groups for c in g.pending]
    other = elsewhere(seen.scene, ranks, {c.work.op for c in cells if c.work is not None and c.work.op is not None})
    if not other or seen.seen(ranks):
        return answer
    calls = ", ".join(sorted({o.call for o in other}))
    shown = [int(o.rank) for o in other]
    named = answer.culprits if len(ranks) < len({c.rank for c in cells}) else Named()
    return replace(
        answer,
        culprits=named,
        first_failed=named,
        category=Category.COLLECTIVE_MISMATCH,
        strength=Strength.SUPPORTED if len(other) == len(ranks) else Strength.POSSIBLE,
        summary=f"{answer.summary.replace(UNEXPLAINED, '')} {ranks_text(shown).capitalize()} {'were' if len(shown) > 1 else 'was'} inside another "
        f"collective ({calls}) at that time, by the traceback: the ranks did not call the same collectives.",
        proof=(*answer.proof, *(o.event for o in other[:2])),
        classes=replace(answer.classes, domain=Domain.COMMUNICATION, layer=Layer.COLLECTIVE, phase=Phase.UNKNOWN),
        action=ActionKind.FIX_AND_RERUN,
        steps=(
            "Find the branch in which these ranks call another collective, or a different number of them, and let all decide alike.",
            *answer.steps,
        ),
    )


def _outside_many(seen: Picture) -> Answer:
    """Many, but not most, ranks are outside: their machines where these are whole, else the ranks at `possible`."""
    if seen.gone is not None and seen.gone.hosts:
        return _machines(seen, Strength.SUPPORTED)
    return stall(seen, seen.where.outside, Strength.POSSIBLE, _absent_lines(seen), "never entered")


def _silent(seen: Picture) -> Answer:
    """Few ranks say nothing of a collective, and all others wait."""
    missing = seen.where.missing
    ranks, stated = narrowed(missing, seen.seen(missing), seen.scene)
    strength = Strength.SUPPORTED if few(len(ranks), seen.where.total) else Strength.POSSIBLE
    if not (_log_goes_on(seen, ranks) or stated):
        strength = strength.at_most(Strength.POSSIBLE)
    if not seen.state.coordinated and not stated:
        # Before dumps were coordinated a launcher could end ranks before their own watchdogs fired.
        strength = strength.at_most(Strength.POSSIBLE)
    if len(ranks) > MOST_NAMED:
        return _unaccounted(seen)
    if not any(g.comparable for g in seen.state.stuck):
        strength = strength.at_most(Strength.POSSIBLE)
    if _sub_groups(seen) and not fits_every_hole(seen.state, ranks):
        strength = strength.at_most(Strength.POSSIBLE)
    answer = stall(seen, ranks, strength, (), "is not among those that waited in")
    return _in_another(seen, answer, ranks, seen.state.stuck)


def _behind(seen: Picture) -> Answer:
    """Few ranks are in flight at a lower number than the others, and the collective does not explain it."""
    ranks: tuple[GlobalRank, ...] = seen.behind if len(seen.behind) == 1 else ()
    hosts = tuple(sorted(set(hosts_of(seen.scene, ranks).values())))
    lines = [e for g in seen.state.stuck for c in g.pending if c.rank in seen.behind for e in c.events]
    passed = any(passed_without(g, rank) for rank in ranks for g in seen.state.stuck)
    why = (
        "the others have finished that number, which they cannot without it: what it waits in is another collective than theirs."
        if passed
        else "why is not in these logs."
    )
    answer = undecided(
        seen,
        f"The job hung: {ranks_text(seen.behind)} stands at a lower collective than the others of its group"
        f"{waited(seen.scene)}; {why}",
        trigger=min(lines, key=sort_key, default=None),
        culprits=Named(ranks=ranks, hosts=hosts, strength=Strength.POSSIBLE) if ranks else Named(),
        scope=Scope.RANK if ranks else Scope.GROUP,
        proof=tuple(lines[:2]),
    )
    return replace(answer, category=Category.COLLECTIVE_MISMATCH, strength=Strength.POSSIBLE) if passed else answer


def _frozen(seen: Picture) -> Answer:
    """Few ranks report that their own watchdog or interpreter was stuck, while others timed out normally."""
    hosts = tuple(sorted(set(hosts_of(seen.scene, seen.frozen).values())))
    line = min(seen.frozen_events, key=sort_key)
    return undecided(
        seen,
        f"The job hung: the watchdog of {ranks_text(seen.frozen)} was itself stuck (a driver call, NCCL, or Python's lock) "
        f"while others waited in {collective(seen.nearest)}{waited(seen.scene)}.",
        trigger=line,
        culprits=Named(ranks=seen.frozen, hosts=hosts, strength=Strength.POSSIBLE),
        scope=Scope.RANK if len(seen.frozen) == 1 else Scope.GROUP,
        proof=(line,),
        steps=("Read the kernel log of that host (Xid, GSP, hung tasks) and take native stacks of the process.",),
    )


def _gone(seen: Picture) -> Answer:
    """Nothing was heard of all ranks of one or more machines, while all others wait."""
    absent = seen.gone is None or seen.gone.absent or not _log_goes_on(seen, seen.late())
    return _machines(seen, Strength.POSSIBLE if absent else Strength.SUPPORTED)


def _machines(seen: Picture, strength: Strength) -> Answer:
    gone = seen.gone
    assert gone is not None
    late = seen.late()
    names = hosts_text(gone.hosts) if gone.hosts else f"{gone.count} machine{'s' if gone.count > 1 else ''}"
    log = "its log is missing" if gone.absent else "its ranks are in no collective"
    trigger = None if seen.nearest is None else first_line(seen.nearest)
    return undecided(
        seen,
        f"Nothing was heard of {names} ({ranks_text(late)}; {log}) while {waiting_there(seen)} waited in "
        f"{collective(seen.nearest)}{waited(seen.scene)}. Why is not in these logs.",
        trigger=trigger,
        culprits=Named(hosts=gone.hosts, strength=strength) if gone.hosts else Named(),
        scope=Scope.NODE,
        steps=(f"Get the log and the kernel log of {names}, and ask the scheduler whether it was lost.",),
        collect=(f"the log of {names}", *COLLECT),
        proof=() if trigger is None else (trigger,),
    )


def _most_outside(seen: Picture) -> Answer:
    """Most ranks are stated to be outside: the few inside entered a collective that the rest never issued."""
    lines = _absent_lines(seen)
    inside = tuple(r for r in seen.where.waiting)
    answer = undecided(
        seen,
        f"{ranks_text(inside).capitalize()} waited in {collective(seen.nearest)}{waited(seen.scene)}, which "
        f"{len(seen.where.outside)} of {seen.where.total} ranks never issued: a collective in code that only some ranks "
        "run, or uneven numbers of batches.",
        trigger=None if seen.nearest is None else first_line(seen.nearest),
        scope=Scope.GROUP,
        proof=lines[:2],
        steps=("Look for a collective that only some ranks call: a branch on the rank, or uneven numbers of batches.",),
    )
    return replace(answer, category=Category.COLLECTIVE_MISMATCH, strength=Strength.POSSIBLE)


def _inside(seen: Picture) -> Answer:
    """Every rank of the job is inside a collective of its groups, and nothing else is found: the collective itself is stuck."""
    total = seen.where.total
    groups = [g for g in seen.state.stuck if not g.p2p]
    where, long = collective(seen.nearest), waited(seen.scene)
    if len(groups) == 1:
        what = (
            f"All {total} ranks ({total} of {total}) were inside {where}{long}: no rank is missing, so the collective itself was "
            "stuck."
        )
    else:
        what = (
            f"All {total} ranks ({total} of {total}) were inside collectives of {len(groups)} groups{long}, one of them {where}: "
            "no rank is missing, so a collective itself was stuck."
        )
    return stuck(seen, what, Scope.ALL)


def _inside_group(seen: Picture) -> Answer:
    """All members of one or few groups are inside, and all others wait for them: these collectives are stuck."""
    groups = [g for o in seen.where.graph.of(End.INSIDE) for g in o.groups]
    ranks = seen.where.graph.ranks(End.INSIDE)
    shared = pattern(seen.scene, groups, seen.state.world)
    where = collective(groups[0]) if len(groups) == 1 else f"the collectives of {len(groups)} groups"
    others = len(seen.where.waiting) - len(ranks)
    rest = f" The other {others} ranks that waited wait for these." if others > 0 else ""
    detail = "" if shared is None else f" {shared.text[0].upper()}{shared.text[1:]}."
    return stuck(
        replace(seen, nearest=groups[0]),
        f"All members of {where} ({ranks_text(ranks)}) were inside{waited(seen.scene)}: the collective itself was stuck.{rest}{detail}",
        shared.scope if shared is not None else (scope_of(seen.scene, ranks, seen.state.world) or Scope.GROUP),
        shared,
    )


def _inside_group_applies(seen: Picture) -> bool:
    """Whether waiting ends only at collectives that every member entered with the same op and sizes."""
    graph = seen.where.graph
    if not graph.origins or any(o.end is not End.INSIDE for o in graph.origins) or seen.state.unplaced:
        return False
    groups = [g for o in graph.origins for g in o.groups]
    return not any(g.p2p or bundled(g) or difference(g) is not None or not together(g) for g in groups)


def _unaccounted(seen: Picture) -> Answer:
    """Nothing decides: members are not accounted for, or no line states where the ranks stood."""
    hang = seen.scene.hang
    stuck = collective(seen.nearest) if seen.nearest is not None else from_hang(seen.scene)
    detail = "; no line names the reason"
    if seen.state.groups:
        detail = f"; {accounted(seen)}, and no line names the reason"
        if not seen.where.missing and not seen.where.witnessed:
            detail = "; of those that are seen nobody is missing, but no line says how many ranks the job has"
    opening = " It is the first collective of its group." if first_collective(seen.nearest) else ""
    steps = [_whom_to_look_for(seen)]
    if seen.where.missing and seen.state.groups:
        steps.insert(
            0, f"Get what {ranks_text(seen.where.missing)} printed last: nothing places them in the collective."
        )
    return undecided(
        seen,
        f"The job hung: {waiting_there(seen)} waited in {stuck}{waited(seen.scene)}{detail}. A time-out alone does not mean a "
        f"network fault.{opening}",
        trigger=min(seen.frozen_events, key=sort_key, default=None),
        scope=Scope.GROUP,
        proof=() if hang is None else hang.events[:3],
        steps=tuple(steps),
    )


def _whom_to_look_for(seen: Picture) -> str:
    """The first step where nothing decides: which rank to look for, as far as one can be missing at all."""
    if not seen.state.groups or seen.where.accounted < seen.where.total:
        return (
            "Find the rank that did not wait: the one whose log is silent, or whose last enqueued number is the lowest."
        )
    if seen.where.witnessed:
        return "Compare the last enqueued numbers of the ranks: all of them are accounted for."
    return "Make sure that these are all ranks of the job: all that are known waited, and no line tells how many there are."


def _silent_applies(seen: Picture) -> bool:
    """Few ranks are missing and the rest is stuck at one number; or few of the missing were seen at other work."""
    missing = seen.where.missing
    if not missing or not _rest_waits(seen):
        return False
    compared = [g for g in seen.state.stuck if g.comparable and not g.p2p]
    if not seen.where.witnessed and not compared:
        return False
    if compared and not any(together(g) for g in compared):
        return False
    if few(len(missing), seen.where.total) and _enough_wait(seen, len(missing)):
        return True
    ranks, _ = narrowed(missing, seen.seen(missing), seen.scene)
    return ranks != missing and few(len(ranks), seen.where.total)


def _frozen_applies(seen: Picture) -> bool:
    """Few ranks report themselves stuck, and none of them waits like the others."""
    total = max(seen.where.total, len(seen.state.own))
    return few(len(seen.frozen), total) and not set(seen.frozen) & set(seen.where.waiting) and not seen.where.outside


def _enough_wait(seen: Picture, missing: int) -> bool:
    """Whether the size of the job is witnessed, or those that wait are so many that the log is more than a piece of one."""
    waiting = len(seen.where.waiting)
    return seen.where.witnessed or (waiting >= 2 and waiting >= 2 * missing)


def _rest_waits(seen: Picture) -> bool:
    return bool(seen.where.waiting) and not seen.where.outside and not seen.state.unplaced


def _log_goes_on(seen: Picture, ranks: Iterable[GlobalRank]) -> bool:
    """Whether the files of some ranks go on behind the time-outs, so that a silent rank there had its chance to speak.

    A file that is cut, or that ends with its machine, does not; then its silence says little.
    """
    scene = seen.scene
    ends = {e.span.source for e in (*scene.teardown, *scene.deaths, *scene.marked(Mark.ABORT, Mark.STOP_SIGNAL))}
    ends |= {f.span.source for f in scene.failures}
    late = set(ranks)
    places = {
        e.span.source for e in scene.events if (scene.roster.rank(e) if e.who.rank is None else e.who.rank) in late
    }
    if not places:
        places = {e.span.source for lines in seen.state.own.values() for e in lines}
    return bool(places) and places <= ends


def _sub_groups(seen: Picture) -> bool:
    return any(not g.default and g.comparable for g in seen.state.stuck)


def _absent_lines(seen: Picture) -> tuple[Event, ...]:
    """State lines of the ranks outside, in order."""
    cells = [c for g in seen.where.outside_of for c in absent_cells(g) if c.rank in set(seen.where.outside)]
    return tuple(sorted((c.state for c in cells if c.state is not None), key=sort_key))


ROWS: tuple[Row, ...] = (
    Row("named", lambda p: bool(p.named), _named),
    Row("outside", lambda p: few(len(p.where.outside), p.where.total), _outside),
    Row("outside_many", lambda p: 0 < 2 * len(p.where.outside) <= p.where.total, _outside_many),
    Row("most_outside", lambda p: bool(p.where.outside) and bool(p.where.waiting), _most_outside),
    Row("frozen", _frozen_applies, _frozen),
    Row("gone", lambda p: p.gone is not None and _rest_waits(p), _gone),
    Row("silent", _silent_applies, _silent),
    Row("behind", lambda p: bool(p.behind), _behind),
    Row("ways", ways.applies, ways.answer),
    Row("inside", lambda p: p.inside, _inside),
    Row("inside_group", _inside_group_applies, _inside_group),
    Row("pairs", lambda p: bool(unbatched(p)), pairs),
    Row("apart", apart_applies, apart),
    Row("quiet", lambda p: bool(quiet_ranks(p)), quiet),
    Row("saving", lambda p: bool(open_save(p.scene)) and not p.where.outside, saving),
    Row("circle", circle.applies, circle.answer),
)
"""The rows in the order in which they are tried; what none of them covers is not decided."""
