"""Simulated hangs: which rank stands where, and the lines that each torch version prints for that; with the truth.

Every line follows from the state of its rank. Lines go through the real signatures and the real identity reader.
"""

from __future__ import annotations

import calendar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from firstfault.analysis.case import Case, Observations
from firstfault.analysis.scene import build_scene
from firstfault.analysis.state.attempts import Attempts
from firstfault.model.evidence import Event, ProgressSample, Source, SourceId, Span, When
from firstfault.model.words import SourceKind
from firstfault.readers.identity import body_starts, locate, profile_source
from firstfault.signatures.library import load_library
from firstfault.signatures.match import Matcher

if TYPE_CHECKING:
    import random

LIBRARY = load_library()
WANTED = (
    "nccl.",
    "framework.horovod",
    "framework.group_members",
    "torch.",
    "gloo.",
    "launcher.",
    "lightning.",
    "storage.retry",
    "data.preparing",
)
MATCHERS = {
    s.id: Matcher(s.spec, s.words)
    for s in LIBRARY.signatures
    if s.id.startswith(WANTED) or {"world_size", "node_list"} & set(s.spec.facts)
}
ABOUT_COLLECTIVES = (
    "nccl.collective_timeout", "nccl.watchdog_state", "nccl.dump_signal_own", "nccl.dump_signal_other",
    "nccl.watchdog_terminated", "nccl.takes_process_down", "nccl.heartbeat_lost", "nccl.gil_not_acquired",
    "nccl.first_to_signal",
)  # fmt: skip
"""What lines of ProcessGroupNCCL can be; the others are not asked, for speed."""
VERSIONS = ("1.13", "2.1", "2.3", "2.4", "2.6", "2.8")
COORDINATED = ("2.4", "2.6", "2.8")
"""Versions in which a process tells the others of a time-out, and all state their counters."""


@dataclass
class Member:
    """One rank in one group: enqueued, completed, and the stuck work (None where it is not inside)."""

    enqueued: int
    completed: int
    op: str | None = None
    numel_in: int = 26214400
    numel_out: int | None = None
    seq: int | None = None


@dataclass
class GroupSim:
    """One process group with its members, in the order of their rank inside the group."""

    guid: str
    desc: str
    ranks: list[int]
    members: dict[int, Member] = field(default_factory=dict)


@dataclass
class Job:
    """A job at the moment of the time-out."""

    world: int
    version: str
    groups: list[GroupSim]
    per_node: int = 8
    timeout_ms: int = 1800000
    quiet: set[int] = field(default_factory=set)
    """Ranks that print nothing of the hang: frozen or dead processes."""
    lost_nodes: set[int] = field(default_factory=set)
    """Nodes whose files are not there."""
    extra: list[tuple[int, str]] = field(default_factory=list)
    """Lines of a rank (or of its node) just before the time-out."""
    says_world: bool = True

    def lines(self, rng: random.Random) -> dict[int, list[str]]:
        """Lines of each node's file."""
        files: dict[int, list[str]] = {}
        for node in range((self.world + self.per_node - 1) // self.per_node):
            if node not in self.lost_nodes:
                files[node] = self._head(node)
        for rank, text in self.extra:
            if rank // self.per_node in files:
                files[rank // self.per_node].append(text)
        order = [r for r in range(self.world) if r not in self.quiet and r // self.per_node in files]
        rng.shuffle(order)
        for rank in order:
            files[rank // self.per_node].extend(self._detects(rank))
        if self.version in COORDINATED:
            rng.shuffle(order)
            signaller = next((r for r in order if self._stuck(r)), 0)
            for rank in order:
                files[rank // self.per_node].extend(self._dumps(rank, signaller))
        for rank in order:
            files[rank // self.per_node].extend(self._ends(rank))
        return files

    def _head(self, node: int) -> list[str]:
        ranks = range(node * self.per_node, min(self.world, (node + 1) * self.per_node))
        lines = []
        if self.says_world:
            nodes = (self.world + self.per_node - 1) // self.per_node
            listed = f"node-[0000-{nodes - 1:04d}]" if nodes > 1 else "node-0000"
            lines.append(
                f"[2026-04-15 07:25:53] node-{node:04d}: SLURM_JOB_ID=77 SLURM_NODEID={node} SLURM_JOB_NUM_NODES={nodes} SLURM_JOB_NODELIST={listed}"
            )
            lines += [f"Initializing distributed: GLOBAL_RANK: {r}, MEMBER: {r + 1}/{self.world}" for r in ranks]
        pid = 40000
        lines += [
            f"node-{node:04d}:{pid + r}:{pid + 900 + r} [{r % self.per_node}] NCCL INFO Bootstrap : Using eth0:10.0.0.3<0>"
            for r in ranks
        ]
        lines += [
            f"node-{node:04d}:{pid + r}:{pid + 900 + r} [{r % self.per_node}] NCCL INFO ncclCommInitRank comm 0x55d0000{r:05x} rank {r} nranks "
            f"{self.world} cudaDev {r % self.per_node} nvmlDev {r % self.per_node} busId 1b000 commId 0x1923cc37bce11271 - Init COMPLETE"
            for r in ranks
        ]
        return lines

    def _stuck(self, rank: int) -> list[tuple[GroupSim, Member]]:
        return [(g, m) for g in self.groups if (m := g.members.get(rank)) is not None and m.op is not None]

    def _prefix(self, rank: int, line: int) -> str:
        if self.version in {"1.13", "2.1"}:
            return f"[E ProcessGroupNCCL.cpp:{line}] "
        if self.version == "2.3":
            return f"[rank{rank}]:[E ProcessGroupNCCL.cpp:{line}] "
        return f"[rank{rank}]:[E415 10:29:16.{840000000 + rank:09d} ProcessGroupNCCL.cpp:{line}] "

    def _pg(self, group: GroupSim, rank: int) -> str:
        inner = group.ranks.index(rank)
        if self.version == "2.3":
            return f"[PG {group.guid} Rank {inner}]"
        desc = f"({group.desc})" if group.desc else ""
        if self.version == "2.4":
            return f"[PG {group.guid} {desc + ' ' if desc else ''}Rank {inner}]"
        return f"[PG ID {self.groups.index(group)} PG GUID {group.guid}{desc} Rank {inner}]"

    def _work(self, group: GroupSim, rank: int, member: Member) -> str:
        out = member.numel_in if member.numel_out is None else member.numel_out
        size = (
            f"TensorShape=[{member.numel_in}]"
            if self.version == "1.13"
            else f"NumelIn={member.numel_in}, NumelOut={out}"
        )
        seq = member.completed + 1 if member.seq is None else member.seq
        return (
            f"[Rank {group.ranks.index(rank)}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, "
            f"OpType={member.op}, {size}, Timeout(ms)={self.timeout_ms}) ran for {self.timeout_ms + 7 + rank % 90} milliseconds before timing out."
        )

    def _detects(self, rank: int) -> list[str]:
        lines = []
        for group, member in self._stuck(rank):
            lines.append(self._prefix(rank, 629) + self._work(group, rank, member))
            seq = member.completed + 1 if member.seq is None else member.seq
            counters = f"last enqueued NCCL work: {member.enqueued}, last completed NCCL work: {member.completed}."
            if self.version == "2.3":
                lines.append(
                    self._prefix(rank, 1537) + f"{self._pg(group, rank)} Timeout at NCCL work: {seq}, {counters}"
                )
            elif self.version == "2.4":
                lines.append(
                    self._prefix(rank, 1664)
                    + f"{self._pg(group, rank)} Exception (either an error or timeout) detected by watchdog at work: {seq}, {counters}"
                )
            elif self.version in {"2.6", "2.8"}:
                lines.append(
                    self._prefix(rank, 2168)
                    + f"{self._pg(group, rank)}  failure detected by watchdog at work sequence id: {seq} PG status: last enqueued work: "
                    f"{member.enqueued}, last completed work: {member.completed}"
                )
        return lines

    def _dumps(self, rank: int, signaller: int) -> list[str]:
        group = self.groups[0]
        member = group.members[rank]
        own = bool(self._stuck(rank))
        who = "this local rank" if own else f" rank {signaller}"
        lines = (
            []
            if own
            else [
                self._prefix(rank, 1589)
                + f"{self._pg(group, rank)} Observed flight recorder dump signal from another rank via TCPStore."
            ]
        )
        lines.append(
            self._prefix(rank, 1650)
            + f"{self._pg(group, rank)} Received a dump signal due to a collective timeout from {who} and we will try our best to dump the debug "
            f"info. Last enqueued NCCL work: {member.enqueued}, last completed NCCL work: {member.completed}.This is most likely caused by incorrect usages of collectives"
        )
        return lines

    def _ends(self, rank: int) -> list[str]:
        stuck = self._stuck(rank)
        if not stuck:
            return []
        group, member = stuck[0]
        down = "To avoid data inconsistency, we are taking the entire process down."
        what = f"Process group watchdog thread terminated with exception: {self._work(group, rank, member)}"
        pg = (
            self._pg(group, rank) + " "
            if self.version not in {"1.13", "2.1"}
            else f"[Rank {group.ranks.index(rank)}] NCCL "
        )
        return [self._prefix(rank, 695) + down, self._prefix(rank, 1895) + pg + what]


def default_group(world: int) -> GroupSim:
    """The default group with nobody in it yet."""
    return GroupSim("0", "default_pg", list(range(world)))


def stalled(world: int, version: str, late: set[int], *, at: int = 7727, op: str = "ALLREDUCE", **more) -> Job:
    """All but the late ranks wait in one collective of the default group."""
    group = default_group(world)
    for rank in range(world):
        group.members[rank] = Member(at - 1, at - 1) if rank in late else Member(at + 1, at - 1, op)
    return Job(world, version, [group], **more)


def parse(files: dict[int, list[str]], *, step: int | None = None):
    """The scene of one attempt from the lines of each file."""
    sources, events, progress = [], [], []
    for number, node in enumerate(sorted(files)):
        path = f"error-77-{node}.out"
        data = ("\n".join(files[node]) + "\n").encode()
        sources.append(Source(id=SourceId(number), path=path, kind=SourceKind.LOG, size=len(data)))
        profile = profile_source(data[:262144], path)
        offset = 0
        for line, text in enumerate(files[node], 1):
            raw = text.encode()
            events += _events(SourceId(number), raw, text, offset, line, profile)
            offset += len(raw) + 1
        if step is not None:
            progress.append(ProgressSample(source=SourceId(number), line=1, offset=1, step=step))
    seen = Observations(sources=tuple(sources), events=tuple(events), progress=tuple(progress))
    case = Case(seen, LIBRARY)
    return build_scene(case, Attempts(case), 1)


_DIGITS = str.maketrans("123456789", "0" * 9)
_SHAPES: dict[str, list[str]] = {}
"""Lines with all digits as 0 -> signatures that are asked about each line of that shape: ranks say the same with other numbers."""


def _asked(text, raw, starts):
    """The signatures that may be those of a line: of a shape that was seen, only those that the numbers may decide."""
    shape = text.translate(_DIGITS)
    known = _SHAPES.get(shape)
    if known is None:
        names = ABOUT_COLLECTIVES if "ProcessGroupNCCL.cpp" in text and "got stuck" not in text else MATCHERS
        looks = {name: MATCHERS[name].look(raw, starts) for name in names}
        known = _SHAPES[shape] = [name for name, (matches, lasting) in looks.items() if matches or not lasting]
    return known


def _events(source, raw, text, offset, line, profile):
    starts = body_starts(raw, profile)
    found = {name: ms for name in _asked(text, raw, starts) if (ms := MATCHERS[name].find(raw, starts))}
    dropped = {g for name in found for g in LIBRARY.by_id[name].refines}
    if any(not LIBRARY.by_id[n].generic for n in found):
        dropped |= {n for n in found if LIBRARY.by_id[n].generic}
    events = []
    for name, matches in found.items():
        if name in dropped:
            continue
        place = locate(raw, matches[0].start, profile)
        when = When()
        if place.stamp is not None and place.stamp.month is not None:
            stamp = place.stamp
            at = (
                calendar.timegm((2026, stamp.month, stamp.day, stamp.hour, stamp.minute, int(stamp.second)))
                + stamp.second % 1
            )
            when = When(earliest=at, latest=at, yeared=False)
        events.append(
            Event(
                signature=name, span=Span(source, offset, len(raw), line, 1), text=text, who=place.who, when=when,
                fields=matches[0].fields,
            )
        )  # fmt: skip
    return events
