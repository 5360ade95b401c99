"""Dumps of all ranks side by side: per process group, how far each rank had issued and finished its collectives.

Numbers are compared inside one group only. A rank of which nothing is visible in a group is unknown, not absent: what
it issued may have been overwritten, or left out as completed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from firstfault.analysis.state.recorder.starts import earlier as earlier_of
from firstfault.model.evidence import GlobalRank
from firstfault.model.recorder import DEFAULT_DESC, DEFAULT_NAME, Call, GroupLog, RankDump, Stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class Spot(Struct, frozen=True):
    """One entry of one rank."""

    dump: RankDump
    log: GroupLog
    at: int
    """Index in the log."""

    @property
    def call(self) -> Call:
        """What was called."""
        return self.dump.calls[self.log.call[self.at]]

    @property
    def created(self) -> int:
        """Nanoseconds since the epoch; 0 where not told."""
        return self.log.created[self.at]


class Lane(Struct, frozen=True, kw_only=True):
    """The collectives of one rank in one group."""

    rank: GlobalRank
    dump: RankDump | None
    """None where the lane is known by the rank's own lines in a log only."""
    log: GroupLog | None
    high: int | None
    """Number of the last collective that was issued; None where that is not known."""
    done: int | None
    """Number up to which all are known to be completed; None where none is, or where the backend keeps no states."""
    open: int | None
    """Number of the first collective that is not completed; None where none is known."""
    states: bool
    """Whether the backend keeps states, so that an entry that is not completed is known to be unfinished."""
    gave_up: bool = False
    """Whether the rank's own line says that its last work ran out of time, which a backend without states records as ended."""

    def run(self, seq: int) -> range:
        """Indexes of the entries of a number: one, or all of a coalesced call."""
        if self.log is None:
            return range(0)
        return range(bisect_left(self.log.seq, seq), bisect_right(self.log.seq, seq))

    def spot(self, seq: int) -> Spot | None:
        """The entry of a number (of a coalesced call the last); None where it is not visible."""
        run = self.run(seq)
        return Spot(self.dump, self.log, run[-1]) if run and self.log is not None and self.dump is not None else None

    def last(self) -> Spot | None:
        """The last visible entry."""
        if self.log is None or self.dump is None:
            return None
        return Spot(self.dump, self.log, len(self.log.seq) - 1)

    @property
    def low(self) -> int | None:
        """Number of the first visible entry."""
        return None if self.log is None else self.log.seq[0]

    def waits_in(self, seq: int) -> bool:
        """Whether a collective was issued and is known to be unfinished."""
        if self.high is None or self.high < seq:
            return False
        if self.gave_up and seq == self.open:
            return True
        run = self.run(seq)
        if not run or self.log is None:
            return self.states and self.done is not None and self.done < seq and self.open is not None
        return _stage_of(self.log, run) == Stage.UNFINISHED


class Team(Struct, frozen=True, kw_only=True):
    """One process group with the lanes of its members."""

    name: str
    desc: str
    members: tuple[GlobalRank, ...]
    """All members, where they are told; else those that were seen in it."""
    told: bool
    """Whether the members are told by a dump."""
    lanes: dict[GlobalRank, Lane]
    """Of the members that left a dump or that their own lines place, by rank."""

    @property
    def default(self) -> bool:
        """Whether it is the default group, which holds every rank of the job."""
        return self.desc == DEFAULT_DESC or self.name == DEFAULT_NAME

    @property
    def title(self) -> str:
        """Its name for people."""
        if self.desc == DEFAULT_DESC:
            return "the default group"
        return f"group {self.name}" + (f" ({self.desc})" if self.desc and self.desc != "undefined" else "")

    @property
    def unseen(self) -> tuple[GlobalRank, ...]:
        """Members of which neither a dump nor a line of their own tells where they stand."""
        return tuple(r for r in self.members if r not in self.lanes)

    @property
    def states(self) -> bool:
        """Whether the backend keeps states."""
        seen = [lane for lane in self.lanes.values() if lane.log is not None]
        return any(lane.states for lane in seen or self.lanes.values())


class Recorded(Struct, frozen=True, kw_only=True):
    """All dumps of one attempt, aligned."""

    dumps: dict[GlobalRank, RankDump]
    """By rank, sorted; one each."""
    teams: tuple[Team, ...]
    """In order of their names, numbers first."""
    expected: tuple[GlobalRank, ...]
    """All ranks that some dump or group names."""
    told: bool
    """Whether a dump tells the members of the whole job."""
    left_out: tuple[RankDump, ...]
    """Dumps of an unknown rank, and further ones of a rank."""
    earlier: tuple[RankDump, ...]
    """Dumps that had ended before others of the job began, and are left out: of an earlier start, or of a clock that is off."""
    idle: frozenset[GlobalRank]
    """Ranks of which all visible works are known to be completed."""
    overrun: frozenset[GlobalRank]
    """Ranks whose oldest unfinished work may have been overwritten by later ones."""
    witnessed: frozenset[GlobalRank] = frozenset()
    """Ranks that their own lines in the log place inside a collective, where their dump is missing or too old."""

    def messages(self, rank: GlobalRank, team: Team) -> GroupLog | None:
        """The sends and receives of a rank in a group; None where none are visible."""
        dump = self.dumps.get(rank)
        return None if dump is None else next((g for g in dump.logs if g.p2p and g.group == team.name), None)

    @property
    def missing(self) -> tuple[GlobalRank, ...]:
        """Ranks that should be there and left no dump."""
        return tuple(r for r in self.expected if r not in self.dumps)

    @property
    def unplaced(self) -> tuple[GlobalRank, ...]:
        """Ranks without a dump that no line of their own places either."""
        return tuple(r for r in self.missing if r not in self.witnessed)


def align(dumps: Iterable[RankDump]) -> Recorded:
    """Puts dumps side by side; of several dumps of one rank the newest counts, and of equally new ones the fullest."""
    best: dict[GlobalRank, RankDump] = {}
    given = tuple(dumps)
    earlier = earlier_of(given)
    gone = {id(d) for d in earlier}
    left_out = list(earlier)
    for dump in sorted(
        (d for d in given if id(d) not in gone), key=lambda d: (-d.latest_ns, -d.entries, -len(d.frames), d.source)
    ):
        if dump.rank is None or dump.rank in best:
            left_out.append(dump)
        else:
            best[dump.rank] = dump
    chosen = dict(sorted(best.items()))
    teams = tuple(sorted(_teams(chosen), key=lambda t: (not t.name.isdecimal(), _number(t.name), t.name, t.members)))
    told = [t for t in teams if t.told]
    whole = {r for t in teams for r in t.members} | set(chosen)
    default = any(t.desc == DEFAULT_DESC or t.name == DEFAULT_NAME for t in told)
    return Recorded(
        dumps=chosen,
        teams=teams,
        expected=tuple(sorted(whole)),
        told=default,
        left_out=tuple(left_out),
        earlier=earlier,
        idle=frozenset(r for r, d in chosen.items() if _idle(d)),
        overrun=frozenset(_overrun(chosen)),
    )


def _overrun(dumps: dict[GlobalRank, RankDump]) -> Iterator[GlobalRank]:
    """Ranks of which unfinished work may be missing: by their counters, else where a full ring begins with such work.

    All rings of a job are of one size, so the largest number of entries is that of a full one, if any is full.
    """
    full = max((d.entries for d in dumps.values()), default=0)
    for rank, dump in dumps.items():
        if dump.counters and dump.logs and all(log.stage[-1] != Stage.RETIRED for log in dump.logs):
            if not all(_visible(dump, group) for group in dump.counters):
                yield rank
            continue
        first = min(dump.logs, key=lambda log: log.record[0], default=None)
        if first is None or first.record[0] == 0 or dump.entries < full or first.stage[0] != Stage.UNFINISHED:
            continue
        last = max(log.record[-1] for log in dump.logs)
        if last - first.record[0] < dump.entries:
            yield rank


def _visible(dump: RankDump, group: str) -> bool:
    """Whether the first work of a group that is not completed, by its counters, is among the entries.

    Counters of a group with both collectives and messages mix two numberings and say nothing here.
    """
    row = dump.counters[group]
    logs = [log for log in dump.logs if log.group == group]
    if row.enqueued <= row.completed or len(logs) > 1:
        return True
    return bool(logs) and logs[0].seq[0] <= row.completed + 1


def _number(name: str) -> int:
    return int(name) if name.isdecimal() else 0


def _idle(dump: RankDump) -> bool:
    """Whether nothing is unfinished and the last states are known: by entries, or by counters where only active ones are kept."""
    for log in dump.logs:
        if log.p2p or not log.stage:
            continue
        if log.stage[-1] == Stage.RETIRED:
            return False
    if any(first_open(log) is not None for log in dump.logs):
        return False
    behind = [c for c in dump.counters.values() if c.enqueued > c.completed]
    return not behind and bool(dump.logs or dump.counters)


def _teams(dumps: dict[GlobalRank, RankDump]) -> Iterator[Team]:
    told: dict[str, set[tuple[GlobalRank, ...]]] = {}
    desc: dict[str, str] = {}
    mine: dict[str, dict[tuple[GlobalRank, ...], list[GlobalRank]]] = {}
    with_p2p = {log.group for d in dumps.values() for log in d.logs if log.p2p}
    active_only = all(d.active_only or not d.entries for d in dumps.values())
    for rank, dump in dumps.items():
        known = {g.name: g for g in dump.groups if g.name and (not g.ranks or rank in g.ranks)}
        whole = next((g.ranks for g in dump.groups if not g.name and rank in g.ranks), ())
        names = {log.group: log.desc for log in dump.logs}
        for name in dict.fromkeys((*names, *known)):
            ranks = known[name].ranks if name in known else ()
            if not ranks and whole and DEFAULT_DESC in {name, names.get(name)}:
                ranks = whole  # gloo tells the members of the default group alone, under no name
            if ranks:
                told.setdefault(name, set()).add(ranks)
            desc.setdefault(name, names.get(name) or (known[name].desc if name in known else ""))
            mine.setdefault(name, {}).setdefault(ranks, []).append(rank)
    for name, by_members in mine.items():
        lists = told.get(name, set())
        # One list of members, or none: ranks that do not tell it are in the same group.
        one = {next(iter(lists), ()): sorted({r for rs in by_members.values() for r in rs})}
        for ranks, here in (one if len(lists) <= 1 else by_members).items():
            if len(ranks or here) < 2:
                continue
            lanes = {r: _lane(r, dumps[r], name, use_counters=name not in with_p2p) for r in here}
            if active_only:
                lanes = _placed(lanes)
            members = tuple(sorted({*ranks, *here}))
            if not ranks and DEFAULT_DESC in {desc[name], name} and len(here) == len(dumps):
                # gloo does not tell members; of the default group every rank up to the highest is one.
                members = tuple(GlobalRank(r) for r in range(max(here) + 1)) if max(here) < 4 * len(here) else members
            yield Team(name=name, desc=desc[name], members=members, told=bool(ranks), lanes=lanes)


def _placed(lanes: dict[GlobalRank, Lane]) -> dict[GlobalRank, Lane]:
    """Lanes of dumps without completed entries: who has nothing unfinished in a group has not issued what others wait in."""
    opened = [lane.open for lane in lanes.values() if lane.open is not None and lane.states]
    if not opened:
        return lanes
    before = min(opened) - 1
    return {
        rank: replace(lane, high=before, done=before) if lane.high is None and lane.log is None else lane
        for rank, lane in lanes.items()
    }


def _lane(rank: GlobalRank, dump: RankDump, group: str, *, use_counters: bool) -> Lane:
    log = next((g for g in dump.logs if g.group == group and not g.p2p), None)
    if log is not None and (numbers := log.seq.tolist()) != sorted(numbers):
        log = None  # numbers that go back belong to two groups of one name; nothing can be said of either
        return Lane(rank=rank, dump=dump, log=None, high=None, done=None, open=None, states=False)
    states = log is None or Stage.RETIRED not in log.stage
    backend = dump.calls[log.call[-1]].backend if log is not None else ""
    states = states and backend != "gloo"
    high = None if log is None else log.seq[-1]
    counters = dump.counters.get(group) if use_counters else None
    if counters is not None and counters.enqueued >= 0:
        high = counters.enqueued if high is None else max(high, counters.enqueued)
    if high is None and _whole_history(dump):
        high = 0  # the whole history is there, and nothing of this group is in it
    begin = None if log is None else first_open(log)
    opened = None if begin is None or log is None else log.seq[begin]
    done = None
    if states:
        if opened is not None:
            done = opened - 1
        elif log is not None:
            done = log.seq[-1]
        if counters is not None and opened is None and counters.completed >= 0:
            done = counters.completed if done is None else max(done, counters.completed)
    return Lane(rank=rank, dump=dump, log=log, high=high, done=done, open=opened, states=states)


def _whole_history(dump: RankDump) -> bool:
    """Whether everything that a process ever issued is in its dump: nothing overwritten, left out or reset."""
    if dump.active_only or dump.counters or dump.first_record != 0 or not dump.entries:
        return False
    return all(log.seq[0] <= 1 for log in dump.logs)


def first_open(log: GroupLog) -> int | None:
    """Index of the first unfinished entry; None where there is none."""
    at = log.stage.find(Stage.UNFINISHED)
    return None if at < 0 else at


def _stage_of(log: GroupLog, run: Sequence[int]) -> int:
    return log.stage[run[-1]]
