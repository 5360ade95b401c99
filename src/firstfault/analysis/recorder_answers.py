"""Answers from flight-recorder dumps: who, why, how sure and what to do next; which applies is decided by the question.

Names only ranks that others wait for and that wait for nobody, or the clearly smaller side of a difference. Dumps say
where each rank stood and rarely why: the reason is claimed only as far as the entries show it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.answer import Answer, Classes, Named
from firstfault.analysis.recorder_words import (
    call_text,
    entry_event,
    last_spot,
    once,
    phase_of,
    place_text,
    some_ranks,
    standing_event,
)
from firstfault.analysis.state.nodes import hosts_of
from firstfault.analysis.state.picture import few
from firstfault.analysis.state.recorder.calls import not_begun
from firstfault.analysis.state.recorder.waits import Inside, Wait, Why
from firstfault.analysis.wording import who_text
from firstfault.model.findings import Rival
from firstfault.model.recorder import DEFAULT_DESC
from firstfault.model.words import ActionKind, Category, Domain, Form, Layer, Phase, Scope, Strength

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.recorder.reading import Reading
    from firstfault.model.evidence import Event, GlobalRank

STACKS = "stacks of the named ranks at the time of the hang (`py-spy dump`)"
KERNEL = "the kernel logs of the hosts of the named ranks, from ten minutes before the stuck collective began"
MOST_NAMED = 16
"""Ranks that are named at most: the fault of more is not that of single ranks."""


TOGETHER_NS = 1_000_000_000
"""Nanoseconds within which collectives were issued at one time, as far as the clocks of machines tell."""


def _total(reading: Reading) -> int:
    return len(reading.recorded.expected)


def _main_wait(reading: Reading, named: Sequence[GlobalRank]) -> Wait | None:
    """The wait to tell of, where it began: for as many of the named as possible, the first of them, of the oldest works."""
    wanted, oldest = set(named), reading.waits.oldest
    held = [w for w in reading.waits.waits if wanted & set(w.blockers)]
    begun = {
        id(w): min(times, default=None)
        for w in held
        if (times := [t for s in w.waiting if (t := s.log.created[s.at])]) is not None
    }
    first = min((t for t in begun.values() if t is not None), default=0)

    def front(wait: Wait) -> int:
        return sum(1 for s in wait.waiting if s.dump.rank in oldest and oldest[s.dump.rank] == s.log.record[s.at])

    return min(
        held,
        key=lambda w: (
            -len(wanted & set(w.blockers)),
            w.why is Why.UNPAIRED,
            # Others that wait behind it came to their collectives only later, or have never finished one there.
            w.seq <= 1,
            begun[id(w)] is not None and (begun[id(w)] or 0) - first > TOGETHER_NS,
            -front(w),
            -len(w.waiters),
            begun[id(w)] or 0,
            w.team.name,
            w.seq,
        ),
        default=None,
    )


def origins(scene: Scene, reading: Reading) -> Answer:
    """Ranks that left a dump, are waited for and wait for nobody."""
    recorded, waits, total = reading.recorded, reading.waits, _total(reading)
    sure = tuple(r for r in waits.origins if r in recorded.idle or r in waits.frozen)
    named = sure or tuple(r for r in waits.origins if r not in recorded.overrun)
    wait = _main_wait(reading, named or waits.origins)
    if not named and wait is not None:
        return _overwritten(reading, wait)
    if wait is not None and (2 * len(named) > total or len(named) > max(MOST_NAMED, total // 4)):
        return _most_outside(reading, wait, named)
    if wait is not None and not sure and _unclear(reading, wait, named):
        return _elsewhere(reading, wait, named)
    who = Strength.SUPPORTED if few(len(named), total) else Strength.POSSIBLE
    if len(named) == 1 and len(reading.waits.waiters) == 1:
        who = Strength.POSSIBLE  # one waits for one: which of the two went another way has no third witness
    if recorded.unplaced or (not sure and (wait is None or wait.team.states)):
        who = who.at_most(Strength.POSSIBLE)
    frozen = tuple(r for r in named if r in waits.frozen)
    stalled = None if wait is None or frozen else _stalled(reading, wait, named, who)
    hosts = tuple(sorted(set(hosts_of(scene, named).values())))
    culprits = Named(ranks=named, hosts=hosts, strength=who)
    proof = _standing(reading, wait, named)
    category, sureness, phase, doing = stalled or _halted(reading, frozen, who)
    head = f"{who_text(named, hosts).removeprefix(' on ').capitalize()} {_held_up(reading, wait, named, frozen)}"
    absent = tuple(r for r in named if r not in frozen)
    if frozen and absent:
        # Two things happened, and which came first the entries do not tell.
        category, sureness = Category.UNKNOWN, Strength.UNKNOWN
        head = f"{some_ranks(absent).capitalize()} {_held_up(reading, wait, absent, ())}; {some_ranks(frozen)} stopped completing work"
    return Answer(
        question="flight_recorder",
        failed=True,
        category=category,
        strength=sureness,
        summary=f"{head}. {doing}{_second(reading)} {accounted(reading)}",
        trigger=proof[0] if proof else None,
        proof=proof,
        culprits=culprits,
        first_failed=culprits,
        classes=Classes(
            domain=Domain.COMPUTE if frozen else Domain.DATA if category is Category.DATA_LOADING_STALL else None,
            form=Form.HUNG,
            layer=Layer.HOST if frozen else Layer.RUNTIME,
            phase=phase,
            scope=Scope.RANK if len(named) == 1 else Scope.GROUP,
        ),
        action=ActionKind.COLLECT_MORE,
        steps=steps_for(named, frozen=bool(frozen)),
        collect=(STACKS, KERNEL, *_lacking(reading)),
        rivals=(network_rival(named),),
    )


def _second(reading: Reading) -> str:
    """A sentence on ranks without a dump for which others wait too: what held these up the dumps do not tell; empty for none."""
    ranks = reading.waits.unseen
    waits = [w for w in reading.waits.waits if w.why is Why.UNSEEN and w.waiting and set(w.blockers) <= set(ranks)]
    if not ranks or not waits or not few(len(ranks), _total(reading)):
        return ""
    waiters = sorted({r for w in waits for r in w.waiters})
    return (
        f" {some_ranks(ranks).capitalize()} left no dump, and {_wait(waiters, start=False)} for {'it' if len(ranks) == 1 else 'them'}: "
        "that may be a second fault."
    )


def _held_up(reading: Reading, wait: Wait | None, named: Sequence[GlobalRank], frozen: Sequence[GlobalRank]) -> str:
    """What the named did not do, and who waits for it."""
    if wait is None:
        return "stopped completing work"
    behind = len(reading.waits.waiters - set(wait.waiters))
    them = "it" if len(named) == 1 else "them"
    more = (
        f"; {behind} more rank{'s' if behind > 1 else ''} wait{'s' if behind == 1 else ''} behind {them}"
        if behind
        else ""
    )
    hold = "holds" if len(named) == 1 else "hold"
    verb = "never issued the other half of" if wait.why is Why.UNPAIRED else "never issued"
    if frozen:
        verb = f"stopped completing work and {hold} up"
    return f"{verb} {_where(wait)}, in which {_wait(wait.waiters, start=False)}{more}"


def _halted(reading: Reading, frozen: Sequence[GlobalRank], who: Strength) -> tuple[Category, Strength, Phase, str]:
    """Reason, its strength, phase and what is known of ranks whose completions stopped."""
    peers = sorted({reading.waits.frozen[r][1] for r in frozen})
    them = "it" if len(frozen) == 1 else "them"
    text = (
        f"{some_ranks(peers).capitalize()} completed later collectives together with {them}: the device, or what watches "
        "it in the process, stopped."
    )
    return Category.GPU_CUDA, Strength.POSSIBLE.at_most(who), Phase.UNKNOWN, text


def _wait(ranks: Sequence[GlobalRank], *, start: bool = True) -> str:
    text = f"{some_ranks(ranks)} wait{'s' if len(ranks) == 1 else ''}"
    return text[:1].upper() + text[1:] if start else text


def _where(wait: Wait) -> str:
    return call_text(wait.waiting[0], wait.team) if wait.waiting else f"collective {wait.seq} of {wait.team.title}"


def _stalled(
    reading: Reading, wait: Wait, named: Sequence[GlobalRank], who: Strength
) -> tuple[Category, Strength, Phase, str]:
    """Reason, its strength, phase and what is known of ranks that did not issue a collective."""
    recorded = reading.recorded
    last = last_spot(recorded.dumps[named[0]])
    place = place_text(last)
    at = (
        f" {some_ranks(named[:1]).capitalize()}'s last recorded call was {last.call.op} at {place}."
        if last and place
        else ""
    )
    if wait.team.states and not set(named) <= recorded.idle:
        text = (
            "Their dumps hold unfinished work of their own, and nothing in the dumps says why it does not end."
            if any(recorded.dumps[r].logs for r in named)
            else "No work of theirs is recorded, so that nothing says what held them up."
        )
        text += at
        return Category.UNKNOWN, Strength.UNKNOWN, phase_of(last), _one(text, named)
    first = not _went_before(reading, named) and (wait.seq <= 1 or wait.why is Why.UNPAIRED)
    sure = Strength.POSSIBLE if first else Strength.SUPPORTED
    text = (
        "Their dumps show nothing unfinished: they were busy or stuck outside any collective, on the CPU side as a rule."
        if wait.team.states
        else "They left dumps, so their processes lived: they were busy or stuck outside any collective, on the CPU side as a rule."
    )
    phase = phase_of(last)
    return Category.DATA_LOADING_STALL, sure.at_most(who), phase, _one(text, named) + at


def _went_before(reading: Reading, named: Sequence[GlobalRank]) -> bool:
    """Whether each of the named stayed away from a collective of a group in which it had come to earlier ones."""
    went = {r for w in reading.waits.waits if w.why is Why.ABSENT and w.seq > 1 for r in w.blockers}
    return set(named) <= went


def _one(text: str, ranks: Sequence[GlobalRank]) -> str:
    """A sentence about several ranks, said of one where it is one."""
    if len(ranks) > 1:
        return text
    for many, single in (
        (
            "No work of theirs is recorded, so that nothing says what held them up",
            "No work of its own is recorded, so that nothing says what held it up",
        ),
        ("Their dumps show", "Its dump shows"),
        ("Their dumps hold", "Its dump holds"),
        ("of their own", "of its own"),
        ("They left dumps, so their processes", "It left a dump, so its process"),
        ("they were", "it was"),
    ):
        text = text.replace(many, single)
    return text


def _standing(reading: Reading, wait: Wait | None, named: Sequence[GlobalRank]) -> tuple[Event, ...]:
    """Entries that show where the named stood, then those of ranks that wait for them."""
    events: list[Event] = []
    for rank in named[:4]:
        if rank in reading.waits.frozen:
            events.append(entry_event(reading.waits.frozen[rank][0]))
        elif wait is not None and rank in wait.team.lanes and rank not in reading.recorded.witnessed:
            events.append(standing_event(wait.team.lanes[rank], wait.team))
        elif (dump := reading.recorded.dumps.get(rank)) is not None and (last := last_spot(dump)) is not None:
            events.append(entry_event(last))  # one that lines alone place has no entry to show
    return once((*events, *(entry_event(s) for s in (() if wait is None else wait.waiting[:3]))))


def accounted(reading: Reading) -> str:
    """How many ranks left a dump, and of whom else something is known."""
    recorded = reading.recorded
    total = f"{len(recorded.expected)}" if recorded.told else f"at least {len(recorded.expected)}"
    text = f"{len(recorded.dumps)} of {total} ranks left a dump"
    if recorded.missing:
        text += f"; none is here of {some_ranks(recorded.missing)}"
    if recorded.witnessed:
        placed = sorted(recorded.witnessed)
        text += f"; {some_ranks(placed)} {'is' if len(placed) == 1 else 'are'} placed by {'its' if len(placed) == 1 else 'their'} own lines in the log"
        against = [r for r in placed if r in recorded.idle and r in recorded.dumps]
        if against:
            text += f", against {'its own dump' if len(against) == 1 else 'the own dumps of some'}, which {'has' if len(against) == 1 else 'have'} not come to it"
    if recorded.earlier:
        number = len(recorded.earlier)
        be = "is" if number == 1 else "are"
        if {d.rank for d in recorded.earlier} & set(recorded.dumps):
            text += f"; {number} more {be} of an earlier start of the job and left out"
        else:
            text += f"; {number} more {be} left out, which ended before the others began: of an earlier start, or clocks of machines are apart"
    return text + "."


def _lacking(reading: Reading) -> tuple[str, ...]:
    missing = reading.recorded.missing
    return (f"the flight-recorder dump of {some_ranks(missing)}, or what became of it",) if missing else ()


def steps_for(named: Sequence[GlobalRank], *, frozen: bool) -> tuple[str, ...]:
    """What to do about ranks for which the others wait."""
    who = some_ranks(named)
    if frozen:
        return (
            f"Read the kernel logs of the hosts of {who} for Xid and ECC errors, and check the GPUs before they are used again.",
            "Take native stacks (`py-spy dump --native`) of those processes the next time, before the job is ended.",
        )
    return (
        f"Look at what {who} did while the others waited: its data, its storage mounts, locks, code that only it runs.",
        "Take stacks (`py-spy dump`) of those processes the next time, before the job is ended.",
    )


def network_rival(named: Sequence[GlobalRank]) -> Rival:
    """The network, which speaks against itself where others wait for somebody."""
    return Rival(
        category=Category.NETWORK,
        strength=Strength.UNKNOWN,
        supports=("collectives did not end",),
        against=(f"the others wait for {some_ranks(named)}, whatever the network does",),
        settled_by=("a transport error in the log of one of the ranks",),
    )


def _most_outside(reading: Reading, wait: Wait, outside: Sequence[GlobalRank]) -> Answer:
    """Most ranks never issued what the few wait in: code that only some ranks run; nobody is named."""
    return _open(
        reading,
        f"{_wait(wait.waiters)} in {_where(wait)}, which "
        f"{len(outside)} of {_total(reading)} ranks never issued: a collective in code that only some ranks run, "
        f"uneven numbers of batches, or a fault common to many ranks. {accounted(reading)}",
        category=Category.COLLECTIVE_MISMATCH if not reading.recorded.unplaced else Category.UNKNOWN,
        proof=_standing(reading, wait, outside),
        steps=("Look for a collective that only some ranks call: a branch on the rank, or uneven numbers of batches.",),
    )


def _unclear(reading: Reading, wait: Wait, named: Sequence[GlobalRank]) -> bool:
    """Whether those that did not come may wait for somebody else, where the backend records neither states nor messages."""
    # A group of which a single member left a dump is no team, and its member may wait there all the same.
    several = len({log.group for dump in reading.recorded.dumps.values() for log in dump.logs}) > 1
    return not wait.team.states and several and (len(named) > 1 or bool(reading.recorded.unplaced))


def _elsewhere(reading: Reading, wait: Wait, absent: Sequence[GlobalRank]) -> Answer:
    """Ranks that did not come, of which it is not seen whether they wait in another group or for a message."""
    return _open(
        reading,
        f"{_wait(wait.waiters)} in {_where(wait)}, which {some_ranks(absent)} never issued. This backend records neither how far a "
        f"work has come nor messages, so that they may wait for somebody else in turn. {accounted(reading)}",
        proof=_standing(reading, wait, absent),
        steps=(
            f"Look at the stacks of {some_ranks(absent)}: one of them, or a rank without a dump, waits for nobody.",
        ),
    )


def _overwritten(reading: Reading, wait: Wait) -> Answer:
    """Who is waited for has unfinished works of its own, and what it waits for may have been overwritten."""
    return _open(
        reading,
        f"{_wait(wait.waiters)} for {some_ranks(wait.blockers)} in {_where(wait)}; what those wait for "
        f"may have been overwritten in the recorder. {accounted(reading)}",
        proof=_standing(reading, wait, wait.blockers),
        steps=("Give the recorder a larger ring for the next run (TORCH_FR_BUFFER_SIZE).",),
    )


def unseen(scene: Scene, reading: Reading) -> Answer:
    """All that left a dump wait for ranks that left none."""
    ranks, total = reading.waits.unseen, _total(reading)
    wait = _main_wait(reading, ranks)
    single = few(len(ranks), total) and len(ranks) <= MOST_NAMED
    hosts = tuple(sorted(set(hosts_of(scene, ranks).values()))) if single else ()
    named = Named(ranks=ranks, hosts=hosts, strength=Strength.POSSIBLE) if single else Named()
    where = "a collective" if wait is None else _where(wait)
    return _open(
        reading,
        f"No dump is here of {some_ranks(ranks)}, for which {_wait(sorted(reading.waits.waiters), start=False)} in {where}: "
        f"dead, too stuck to write one, or its file was not collected. {accounted(reading)}",
        culprits=named,
        proof=once(entry_event(s) for s in (() if wait is None else wait.waiting[:4])),
        steps=(f"Find out what became of {some_ranks(ranks)}: its log, its exit, its host.",),
        scope=Scope.RANK if len(ranks) == 1 else Scope.GROUP,
    )


def circle(reading: Reading) -> Answer:
    """Ranks wait for each other in a circle: each issued another group's collective, or another peer's message, first."""
    ranks = reading.waits.circle
    inside = [w for w in reading.waits.waits if set(w.waiters) & set(ranks) and set(w.blockers) & set(ranks)]
    places = list(dict.fromkeys(call_text(w.waiting[0], w.team) for w in inside if w.waiting))[:3]
    return _open(
        reading,
        f"{some_ranks(ranks).capitalize()} wait for each other in a circle: {'; '.join(places)}. Works were issued in "
        f"different orders on different ranks, so nobody's can end. {accounted(reading)}",
        category=Category.UNKNOWN if set(ranks) & reading.recorded.overrun else Category.COLLECTIVE_MISMATCH,
        proof=once(entry_event(w.waiting[0]) for w in inside[:4] if w.waiting),
        steps=("Issue the works of all process groups in the same order on all ranks.",),
    )


def inside(scene: Scene, reading: Reading, places: Sequence[Inside]) -> Answer:
    """Every member is in the same collective and nothing else is found: the collective itself is stuck; or each of several is."""
    place = places[0]
    spots = place.spots
    proof = once(entry_event(s) for at in places for s in (at.spots[:4] if len(places) == 1 else at.spots[:2]))[:6]
    behind = [not_begun(at) for at in places]
    if all(behind):
        return _device_behind(scene, reading, places, tuple(sorted({r for ranks in behind for r in ranks})), proof)
    members = {r for at in places for r in at.team.members}
    lost = reading.recorded.overrun & members
    size = len(place.team.members)
    # Without states a work of another group that never ended looks like one that did.
    seen = place.team.states or len(reading.recorded.teams) == 1
    whole = all(at.team.told or at.team.desc == DEFAULT_DESC for at in places)
    known = whole and seen and not reading.recorded.unplaced and not lost
    if lost:
        text = (
            f"The members of {place.team.title} are inside {call_text(spots[0], place.team)}, but older unfinished works of "
            f"{some_ranks(sorted(lost))} may have been overwritten in the recorder. {accounted(reading)}"
        )
    elif len(places) > 1:
        where = ", ".join(call_text(at.spots[0], at.team) for at in places[:3])
        text = (
            f"{len(places)} collectives do not end though all members of their groups are inside: {where}. No rank is missing "
            f"in any of them, so each of them is stuck itself. No entry says where. {accounted(reading)}"
        )
    else:
        text = (
            f"All {size} members of {place.team.title} ({size} of {size}) are inside {call_text(spots[0], place.team)}, with the "
            f"same sizes: no rank is missing, so the collective itself is stuck. No entry says where. {accounted(reading)}"
        )
    return _open(
        reading,
        text,
        category=Category.NETWORK if known else Category.UNKNOWN,
        proof=proof,
        steps=(
            "Read the kernel logs and fabric counters of all hosts for the minutes before the collective began.",
            "Run nccl-tests on the same hosts; halve the set to find a bad link.",
        ),
        scope=Scope.ALL if len(members) == _total(reading) else Scope.GROUP,
        phase=Phase.START_UP if place.seq <= 1 else Phase.UNKNOWN,
    )


def _device_behind(
    scene: Scene, reading: Reading, places: Sequence[Inside], still: tuple[GlobalRank, ...], proof: tuple[Event, ...]
) -> Answer:
    """Members whose device has not begun a collective that the others' devices have."""
    place = places[0]
    op, owners = place.spots[0].call.op, "its device" if len(still) == 1 else "their devices"
    text = f"All {len(place.team.members)} members of {place.team.title} issued {op} {place.seq}"
    if len(places) > 1:
        text = f"All members of their groups issued {', '.join(call_text(at.spots[0], at.team) for at in places[:3])}"
    text = f"{text}, and the devices of all but {some_ranks(still)} have begun it: what {owners} ran before does not end. {accounted(reading)}"
    hosts = tuple(sorted(set(hosts_of(scene, still).values())))
    named = Named(ranks=still, hosts=hosts, strength=Strength.POSSIBLE)
    return _open(reading, text, culprits=named, proof=proof, steps=steps_for(still, frozen=True))


def _open(
    reading: Reading,
    summary: str,
    *,
    category: Category = Category.UNKNOWN,
    proof: tuple[Event, ...] = (),
    culprits: Named | None = None,
    steps: tuple[str, ...] = (),
    scope: Scope = Scope.GROUP,
    phase: Phase = Phase.UNKNOWN,
) -> Answer:
    """An answer that leaves the reason open, or merely possible."""
    named = culprits if culprits is not None else Named()
    return Answer(
        question="flight_recorder",
        failed=True,
        category=category,
        strength=Strength.UNKNOWN if category is Category.UNKNOWN else Strength.POSSIBLE,
        summary=summary,
        trigger=proof[0] if proof else None,
        proof=proof,
        culprits=named,
        first_failed=named,
        classes=Classes(domain=Domain.COMMUNICATION, form=Form.HUNG, layer=Layer.COLLECTIVE, phase=phase, scope=scope),
        action=ActionKind.COLLECT_MORE,
        steps=steps,
        collect=(STACKS, KERNEL, *_lacking(reading)),
    )
