"""What is true of each storage daemon around the failure: files in order, restarts, holes, health, counters; blames nobody.

A pure fold of what was read: the same for any order of sources. Times are on the store's clock (see `storage_clock`).
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from firstfault.analysis.state.storage_clock import ClockJoin, JobTimes, on_store_clock, store_zone
from firstfault.model.evidence import Event, When, Who
from firstfault.model.storage import Beginning, Daemon, DaemonRole, DiskLine, LogPiece, Opening, StatsLine
from firstfault.model.zones import zone_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from firstfault.model.storage import StorageLogs

HOLE = 15.0
"""Seconds between the last line of a process and the first of the next from which on it is a hole worth saying."""
FLAGS = {
    8: "rebalancing", 16: "rebalance interrupted", 32: "resilvering", 64: "resilver interrupted", 128: "restarted",
    256: "out of space", 512: "out of memory", 1024: "in maintenance", 2048: "low capacity", 4096: "low memory",
    8192: "disk fault", 16384: "many goroutines", 32768: "very many goroutines", 65536: "certificate expires soon",
    131072: "certificate expired", 262144: "certificate invalid", 524288: "keep-alive errors", 1048576: "out of CPU",
    2097152: "low CPU", 4194304: "a disk out of space", 8388608: "a disk low on space",
}  # fmt: skip
"""Bits of `state.flags` beyond a vote under way and the two of a healthy node."""
HEALTHY = 2 | 4
"""Cluster started, node started."""
GAUGES = (".ns", ".bps", ".util", ".rsize", ".wsize")
"""Endings of averages over the last tick and of sizes: their differences mean nothing. `.ns.total` counts up."""
CUMULATIVE = frozenset({"getbatch.rxwait.ns", "getbatch.throttle.ns"})


class Moment(NamedTuple):
    """One line of a daemon at its time on the store's clock."""

    at: float
    event: Event


class Restart(NamedTuple):
    """A process of a daemon that began after an earlier one had been seen."""

    at: float
    event: Event
    last_seen: float | None
    """The last line of the process before."""
    told: bool
    """Whether that one said that it stops."""


class Hole(NamedTuple):
    """A time of which a daemon's logs tell nothing."""

    begins: float
    ends: float
    why: str


class Change(NamedTuple):
    """What one counter did between two lines."""

    name: str
    first: Moment
    last: Moment
    before: int
    after: int
    delta: int
    reset: bool
    """Whether it began again at zero in between."""

    @property
    def per_second(self) -> float:
        """Moves in a second."""
        return self.delta / max(self.last.at - self.first.at, 1e-9)


class DaemonState(Struct, frozen=True, kw_only=True):
    """One daemon."""

    daemon: Daemon
    version: str = ""
    zone: int | None = None
    sources: int = 0
    begins: float | None = None
    ends: float | None = None
    lines: tuple[Moment, ...] = ()
    stats: tuple[tuple[float, StatsLine], ...] = ()
    disks: tuple[tuple[float, DiskLine], ...] = ()
    restarts: tuple[Restart, ...] = ()
    holes: tuple[Hole, ...] = ()
    covers: bool = False
    """Whether its logs reach over the failure."""

    def of(self, *signatures: str) -> list[Moment]:
        """Lines of some kinds, in order of time."""
        return [m for m in self.lines if m.event.signature in signatures]


class StorageState(Struct, frozen=True, kw_only=True):
    """The store around the failure."""

    daemons: tuple[DaemonState, ...]
    clock: ClockJoin
    job: JobTimes
    window: tuple[float, float] | None
    """First and last moment that was looked at, on the store's clock; None where the clocks could not be joined."""
    stop: float | None
    """When the job stood still, on the store's clock."""
    targets: int | None = None

    @property
    def target_count(self) -> int:
        """Targets of which logs were given."""
        return sum(1 for d in self.daemons if d.daemon.role is not DaemonRole.PROXY)

    def named(self, node: str) -> DaemonState | None:
        """The daemon of a node id or name; None where none of its logs are here."""
        return next((d for d in self.daemons if node in {d.daemon.node, d.daemon.name} and node), None)

    def job_time(self, at: float) -> When:
        """A moment of the store's clock on the job's clock."""
        if self.clock.offset is None:
            return When()
        moment = at + self.clock.offset
        return When(moment, moment + 1e-6, self.job.zone if self.job.utc else None)


def fold(logs: StorageLogs, clock: ClockJoin, job: JobTimes, window: tuple[float, float] | None) -> StorageState:
    """The state of every daemon.

    Args:
        logs: what was read.
        clock: how the store's clock lies to the job's.
        job: when the job ran.
        window: the time that was read, on the store's clock.
    """
    common = store_zone(logs.pieces)
    stop = None if clock.offset is None or job.stop is None else job.stop - clock.offset
    daemons = [_daemon(pieces, common, stop) for pieces in _by_daemon(logs.pieces)]
    daemons.sort(key=lambda d: (d.daemon.role is DaemonRole.PROXY, d.daemon.name, d.daemon.node))
    return StorageState(daemons=tuple(daemons), clock=clock, job=job, window=window, stop=stop, targets=logs.targets)


def _by_daemon(pieces: Iterable[LogPiece]) -> list[list[LogPiece]]:
    """Pieces of one daemon together: those of one node id, and those without one that carry its only name."""
    listed = sorted(pieces, key=lambda p: (p.source, p.daemon))
    node_of: dict[str, set[str]] = {}
    for piece in listed:
        if piece.daemon.node and piece.daemon.name:
            node_of.setdefault(piece.daemon.name, set()).add(piece.daemon.node)
    groups: dict[str, list[LogPiece]] = {}
    for piece in listed:
        known = node_of.get(piece.daemon.name, set())
        key = piece.daemon.node or (next(iter(known)) if len(known) == 1 else "")
        groups.setdefault(key or piece.daemon.name or f"source {piece.source}", []).append(piece)
    return [groups[k] for k in sorted(groups)]


def _identity(pieces: Sequence[LogPiece]) -> Daemon:
    role = next((p.daemon.role for p in pieces if p.daemon.role is not DaemonRole.UNKNOWN), DaemonRole.UNKNOWN)
    node = next((p.daemon.node for p in pieces if p.daemon.node), "")
    names = sorted({p.daemon.name for p in pieces if p.daemon.name}, key=lambda n: (-len(n), n))
    return Daemon(role, node, names[0] if names else "")


def _daemon(pieces: Sequence[LogPiece], common: int | None, stop: float | None) -> DaemonState:
    daemon = _identity(pieces)
    lines: dict[tuple[float, str, str], Moment] = {}
    stats: dict[tuple[float, int], tuple[float, StatsLine]] = {}
    disks: dict[tuple[float, str], tuple[float, DiskLine]] = {}
    # The file of warnings and errors repeats lines of the other: the first that is seen is kept.
    for piece in sorted(pieces, key=lambda p: (p.errors_only, p.source)):
        for line in piece.lines:
            at = on_store_clock(piece, line.at, common)
            lines.setdefault((at, line.event.signature, line.event.text), Moment(at, line.event))
        for count in piece.stats:
            at = on_store_clock(piece, count.at, common)
            stats.setdefault((at, len(count.counters)), (at, count))
        for disk in piece.disks:
            at = on_store_clock(piece, disk.at, common)
            disks.setdefault((at, disk.disk), (at, disk))
    begins = [on_store_clock(p, p.begins, common) for p in pieces if p.begins is not None]
    ends = [on_store_clock(p, p.ends, common) for p in pieces if p.ends is not None]
    restarts, holes = _restarts(daemon, pieces, common)
    return DaemonState(
        daemon=daemon,
        version=max((p.version for p in pieces), default=""),
        zone=next((p.zone for p in pieces if p.zone is not None), common),
        sources=len(pieces),
        begins=min(begins, default=None),
        ends=max(ends, default=None),
        lines=tuple(sorted(lines.values(), key=_order)),
        stats=tuple(stats[k] for k in sorted(stats)),
        disks=tuple(disks[k] for k in sorted(disks)),
        restarts=restarts,
        holes=holes,
        covers=stop is not None and any(a <= stop + 60 for a in begins) and max(ends, default=0.0) >= stop - 60,
    )


def _order(moment: Moment) -> tuple[float, int, int, str]:
    return (moment.at, moment.event.span.source, moment.event.span.offset, moment.event.signature)


class _Start(NamedTuple):
    at: float
    beginning: Beginning
    piece: LogPiece


def _restarts(
    daemon: Daemon, pieces: Sequence[LogPiece], common: int | None
) -> tuple[tuple[Restart, ...], tuple[Hole, ...]]:
    """Restarts, by the first lines of files, each with the hole before it; a rotated file is none."""
    starts: dict[float, _Start] = {}
    for piece in sorted(pieces, key=lambda p: (p.errors_only, p.source)):
        for beginning in piece.beginnings:
            at = on_store_clock(piece, beginning.at, common)
            if beginning.opening is Opening.STARTED:
                starts.setdefault(at, _Start(at, beginning, piece))
    restarts, holes = [], []
    for at, start in sorted(starts.items()):
        before = [
            (end, p)
            for p in pieces
            if p.ends is not None and p is not start.piece and (end := on_store_clock(p, p.ends, common)) <= at + 1
        ]
        last, told = max(((end, p.stopped) for end, p in before), key=lambda pair: pair[0], default=(None, False))
        restarts.append(Restart(at, _first_line(daemon, start), last, told=told))
        if last is not None and at - last > HOLE:
            silent = "the process ended without a word; up to a minute of its last lines was never written"
            holes.append(Hole(last, at, "it stopped as told" if told else silent))
    return tuple(restarts), tuple(holes)


def _first_line(daemon: Daemon, start: _Start) -> Event:
    when = When(start.beginning.at, start.beginning.at + 1.0, None)
    zone = start.piece.zone
    if zone is not None:
        when = When(start.at, start.at + 1.0, zone_name(zone))
    return Event(
        signature="aistore.started",
        span=start.beginning.span,
        text=start.beginning.text,
        who=Who(host=daemon.name or None, label=daemon.full),
        when=when,
    )


def stats_event(state: DaemonState, at: float, line: StatsLine, counter: str = "") -> Event:
    """A line of counters as evidence, from one of its counters on where that is asked for."""
    found = 0
    if counter:
        found = max(line.text.find(f"{{{counter}:"), line.text.find(f",{counter}:")) + 1
    return Event(
        signature="aistore.counters",
        span=replace(line.span, offset=line.span.offset + found, column=line.span.column + found,
                     length=max(1, min(len(line.text) - found, line.span.length))),
        text=line.text[found:],
        who=Who(host=state.daemon.name or None, label=state.daemon.full),
        when=_when(state, line.at, at),
    )  # fmt: skip


def disk_event(state: DaemonState, at: float, line: DiskLine) -> Event:
    """A line of a busy disk as evidence."""
    return Event(
        signature="aistore.disk_busy",
        span=line.span,
        text=line.text,
        fields={"disk": line.disk},
        who=Who(host=state.daemon.name or None, label=state.daemon.full),
        when=_when(state, line.at, at),
    )


def _when(state: DaemonState, local: float, at: float) -> When:
    """A moment as the daemon has it: on the clock of UTC where its zone is known."""
    if state.zone is None:
        return When(local, local + 1e-6, None)
    return When(at, at + 1e-6, zone_name(state.zone))


def counts_up(name: str) -> bool:
    """Whether the difference of a counter between two lines means anything."""
    if name in CUMULATIVE or name.endswith(".ns.total"):
        return True
    return name != "state.flags" and not name.startswith("disk.") and not name.endswith(GAUGES)


def changes(state: DaemonState, begins: float, ends: float) -> list[Change]:
    """What the counters of a daemon did over a time: from the last line before it to the last line in it.

    A counter that is not printed is zero; one that falls began again at zero.
    """
    before = [pair for pair in state.stats if pair[0] <= begins][-1:]
    lines = [*before, *(pair for pair in state.stats if begins < pair[0] <= ends)]
    if len(lines) < 2:
        return []
    first, last = lines[0], lines[-1]
    names = sorted({n for _, line in lines for n in line.counters if counts_up(n)})
    found = []
    for name in names:
        values = [line.counters.get(name, 0) for _, line in lines]
        moved, reset = 0, False
        for a, b in pairwise(values):
            reset = reset or b < a
            moved += b - a if b >= a else b
        if moved:
            ends_at = [Moment(at, stats_event(state, at, line, name)) for at, line in (first, last)]
            found.append(Change(name, ends_at[0], ends_at[1], values[0], values[-1], moved, reset))
    return found


def health(state: DaemonState, begins: float, ends: float) -> list[tuple[float, StatsLine, tuple[str, ...]]]:
    """The lines of a time at which the node's alerts were others than before, with their names."""
    found: list[tuple[float, StatsLine, tuple[str, ...]]] = []
    last: tuple[str, ...] = ()
    for at, line in state.stats:
        if "state.flags" not in line.counters:
            continue
        names = flags(line.counters["state.flags"])
        if begins <= at <= ends and names != last:
            found.append((at, line, names))
        last = names
    return found


def flags(value: int) -> tuple[str, ...]:
    """The alerts in `state.flags`; none for a healthy node."""
    return tuple(name for bit, name in FLAGS.items() if value & bit)
