"""One hang with all that the decision needs: groups, standing, late ranks with their hosts, and what they were doing."""

from __future__ import annotations

from msgspec import Struct

from firstfault.analysis.scene import Scene
from firstfault.analysis.state.calls import last_calls
from firstfault.analysis.state.groups import Group, HangState, hang_state
from firstfault.analysis.state.nodes import Gone, gone_nodes, hosts_of
from firstfault.analysis.state.standing import Standing, everybody_inside, laggards, nearest_group, standing
from firstfault.analysis.state.window import Doing, Seen, activity, edges
from firstfault.model.evidence import Event, GlobalRank
from firstfault.model.lazy import lazy
from firstfault.model.words import Mark

_NUMBERS = lazy(r"\d+")
_RAN_OUT = lazy(r"(?i)wait timeout|timed out|Socket Timeout")
"""Why an id of a communicator never came: the store answered, and the key was not there. A broken link tells of a death."""
BARRIER = "gloo.monitored_barrier_failed"
BARRIER_VICTIM = "gloo.monitored_barrier_victim"
"""A member that waited for the first rank of its group in a monitored barrier."""
DESYNC = "nccl.desync_laggards"
HOROVOD = "framework.horovod_stall"
UNIQUE_ID = "nccl.unique_id_not_received"
HCCL = "nccl.hccl_timeout"
REPORTS = {BARRIER: "peer", BARRIER_VICTIM: "peer", DESYNC: "ranks", HOROVOD: "peer", UNIQUE_ID: "peer"}
"""Signatures of reports that list late ranks, with the field that lists them."""
GROUP = "framework.group_ranks"
"""A line by which a program lists the ranks of a group."""
AGREE = 2
"""Ranks that must have waited for the same one."""
_SIZE = lazy(r"\brankSize\[(\d+)\]")
"""How many members the group of an HCCL report has: only in that of the whole job are its numbers global."""


class Picture(Struct, frozen=True, kw_only=True):
    """A hang as the rows of the decision see it."""

    scene: Scene
    state: HangState
    where: Standing
    named: tuple[GlobalRank, ...]
    """Ranks that a barrier or a desync report names as the late ones, where they are global."""
    named_event: Event | None
    frozen: tuple[GlobalRank, ...]
    """Ranks whose own watchdog or interpreter was stuck."""
    frozen_events: tuple[Event, ...]
    behind: tuple[GlobalRank, ...]
    """Ranks that stand at a lower number than the rest, in flight."""
    gone: Gone | None
    """Whole machines of which nothing was heard."""
    inside: bool
    """Whether every rank of the job is inside the same collective of its groups."""
    nearest: Group | None

    def late(self) -> tuple[GlobalRank, ...]:
        """Ranks that may have held the job up."""
        return self.where.outside or self.where.missing

    def seen(self, ranks: tuple[GlobalRank, ...]) -> tuple[Seen, ...]:
        """What some ranks were seen doing in the window."""
        hang = self.scene.hang
        lines = [e for es in self.state.own.values() for e in es] + list(() if hang is None else hang.events)
        hosts = set(hosts_of(self.scene, ranks).values())
        only = self.scene.roster.only_host()
        if not hosts and only is not None:
            hosts = {only}
        return activity(self.scene, ranks, hosts, edges(lines))


def picture(scene: Scene) -> Picture:
    """Puts the picture of a hang together, once for a scene."""
    held = vars(scene)  # no table beside it: what holds its own key would never be let go
    found: Picture | None = held.get("picture")
    if found is None:
        found = held["picture"] = _picture(scene)
    return found


def _picture(scene: Scene) -> Picture:
    state = hang_state(scene)
    where = standing(state)
    named, event = _named(scene, state, where)
    frozen = [e for e in state.other if scene.case.has(e, Mark.FROZEN) and scene.roster.rank(e) is not None]
    behind = {c.rank for g in state.stuck for c in laggards(g)}
    return Picture(
        scene=scene,
        state=state,
        where=where,
        named=named,
        named_event=event,
        frozen=tuple(sorted({r for e in frozen if (r := scene.roster.rank(e)) is not None})),
        frozen_events=tuple(frozen),
        behind=tuple(sorted(behind)),
        gone=gone_nodes(scene, where.missing or where.outside),
        inside=everybody_inside(state, where),
        nearest=nearest_group(state, named or where.outside or where.missing),
    )


def few(number: int, total: int) -> bool:
    """Whether so many of a total are one or few: one, or at most a quarter; never all."""
    return 0 < number < total and (number == 1 or 4 * number <= total)


def _named(scene: Scene, state: HangState, where: Standing) -> tuple[tuple[GlobalRank, ...], Event | None]:
    """Ranks that a report names as late.

    A report counts in its group. They are global where the reporter's own number in it equals its global rank, no
    sub-group is known, and none of the numbers is beyond the job or of a rank that reports a wait itself.
    """
    waited = {scene.roster.rank(e) for e in state.other if e.signature in {BARRIER, UNIQUE_ID}}
    best: tuple[tuple[GlobalRank, ...], Event | None] = ((), None)
    # The first rank of a monitored barrier knows who did not come; where it came itself, those who wait for it say nothing.
    it_came = any(e.signature == BARRIER for e in state.other)
    for event in state.other:
        if event.signature not in REPORTS or (event.signature == UNIQUE_ID and not _RAN_OUT.search(event.text)):
            continue
        if event.signature == BARRIER_VICTIM and (it_came or not _ran_out(state)):
            continue
        ranks = tuple(r for r in _listed(scene, state, event) if r not in in_a_part(scene, state))
        if event.signature == BARRIER_VICTIM and scene.hang is not None and set(ranks) & set(scene.hang.waiters):
            continue  # it stands in a wait of its own: the ranks are in different calls
        if event.signature == BARRIER_VICTIM and _in_another_call(scene, set(ranks)):
            continue
        if event.signature == HOROVOD and best[1] is not None:
            ranks = tuple(sorted({*best[0], *ranks}))  # one line names one rank
        if len(ranks) > len(best[0]) and not {*where.waiting, *waited} & set(ranks):
            best = (ranks, best[1] if event.signature == HOROVOD and best[1] is not None else event)
    return best if best[1] is not None else _waited_for(scene, state, where)


def in_a_part(scene: Scene, state: HangState) -> frozenset[GlobalRank]:
    """Ranks that waited in the barrier of a smaller group, by a number in it that is not their own: they wait for others."""
    told = (
        (scene.roster.rank(e), e.fields.get("group_rank", "")) for e in state.other if e.signature == BARRIER_VICTIM
    )
    return frozenset(r for r, inner in told if r is not None and inner.isdecimal() and int(inner) != r)


def _in_another_call(scene: Scene, ranks: set[GlobalRank]) -> bool:
    """Whether ranks that are told not to have come stood in a collective of another kind than who waited, by their own tracebacks.

    Who stands in the barrier gave up first, and its end is what broke the call of the others. A rank that is only late ends
    in the same call.
    """
    calls = last_calls(scene)
    theirs = {c.op for c in calls if c.rank in ranks}
    waiting = {c.op for c in calls if c.rank not in ranks and c.timed_out}
    return bool(theirs) and bool(waiting) and not theirs & waiting


def _waited_for(scene: Scene, state: HangState, where: Standing) -> tuple[tuple[GlobalRank, ...], Event | None]:
    """The one rank for whose signal several ranks waited and that reports no wait itself, with the first such report.

    A report names the neighbour of its rank alone: in a ring each names another, and all of them wait. One report of a
    rank of which nothing is known tells nothing, since that rank may wait for its own neighbour.
    """
    world = scene.complete.expected
    asked: dict[int, list[Event]] = {}
    waiting = set(where.waiting)
    for event in state.other:
        if event.signature != HCCL:
            continue
        speaker = scene.roster.rank(event)
        if speaker is not None:
            waiting.add(speaker)
        size = _SIZE.search(event.text)
        peer = event.fields.get("peer", "")
        if peer.isdecimal() and (size is None or int(size[1]) == world):
            asked.setdefault(int(peer), []).append(event)
    late = {r: es for r, es in asked.items() if r not in waiting and (world is None or r < world)}
    if len(late) != 1 or any(not g.default for g in state.groups):
        return (), None
    ((rank, events),) = late.items()
    if len({scene.roster.rank(e) for e in events} - {None}) < AGREE:
        return (), None
    return (GlobalRank(rank),), events[0]


def _ran_out(state: HangState) -> bool:
    """Whether the time of a wait of gloo ran out: a first rank that died or left breaks the connection instead."""
    return any(e.signature == "gloo.operation_timeout" for e in state.other)


def _listed(scene: Scene, state: HangState, event: Event) -> tuple[GlobalRank, ...]:
    """The ranks that one report names, where they can be taken for global; else none."""
    listed = event.fields.get(REPORTS[event.signature], "")
    numbers = sorted({int(n) for n in _NUMBERS.findall(listed)})
    own = scene.roster.rank(event)
    inner = event.fields.get("group_rank", "")
    if not numbers or any(not g.default for g in state.groups):
        return ()
    team = _team(scene, own, inner)
    if team is not None:
        known = {n: team[n] for n in numbers if n < len(team)}
        late = set(known.values()) - {own}
        return tuple(sorted(late)) if len(late) == len(numbers) and 2 * len(late) <= len(team) else ()
    if own is not None and ((inner.isdecimal() and int(inner) != own) or own in numbers):
        return ()
    world = scene.complete.expected
    if world is not None and (numbers[-1] >= world or 2 * len(numbers) > world):
        return ()
    return tuple(GlobalRank(n) for n in numbers)


def _team(scene: Scene, own: GlobalRank | None, inner: str) -> tuple[GlobalRank, ...] | None:
    """The one group that a program lists in which a rank has a number that is not its own; None where none or several do."""
    if own is None or not inner.isdecimal() or int(inner) == own:
        return None
    place = int(inner)
    lists = {
        tuple(GlobalRank(int(n)) for n in _NUMBERS.findall(e.fields["members"]))
        for e in scene.events
        if e.signature == GROUP and "members" in e.fields
    }
    fits = [team for team in lists if place < len(team) and team[place] == own]
    return fits[0] if len(fits) == 1 else None


def narrowed(
    ranks: tuple[GlobalRank, ...], seen: tuple[Seen, ...], scene: Scene
) -> tuple[tuple[GlobalRank, ...], bool]:
    """The late ranks that were seen at work, and whether a line states it of them.

    Preparation of data without a rank on its lines is that of rank 0 by the habit of all frameworks: one process
    prepares, the others wait.
    """
    direct = {r for s in seen if s.direct for e in s.events if (r := scene.roster.rank(e)) is not None}
    if direct & set(ranks):
        return tuple(sorted(direct & set(ranks))), True
    if 0 in ranks and any(s.doing is Doing.PREPARING for s in seen):
        return (GlobalRank(0),), False
    return ranks, False
