"""Troubles of the storage daemons as runs of lines: what each daemon suffered, from when to when, and how lines name others.

It sorts lines by what they can be (a fault, load, a failed batch, an echo of one) and draws no conclusion about the job.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from firstfault.analysis.state.storage import Moment, disk_event, flags, health, stats_event
from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Sequence

    from firstfault.analysis.state.storage import DaemonState, StorageState
    from firstfault.model.storage import DiskLine


class Kind(Enum):
    """What a trouble can be in a chain."""

    FAULT = "fault"
    """A process, disk, file system or membership failed."""
    LOAD = "load"
    """A resource is at its limit."""
    BATCH = "batch"
    """A batch failed or was refused here."""
    ECHO = "echo"
    """It follows from a failed batch, or from a client that went away."""


KINDS: dict[str, Kind] = {
    "aistore.panic": Kind.FAULT,
    "aistore.daemon_fatal": Kind.FAULT,
    "aistore.started": Kind.FAULT,
    "aistore.stopping": Kind.FAULT,
    "aistore.member_removed": Kind.FAULT,
    "aistore.membership": Kind.FAULT,
    "aistore.disk_fault": Kind.FAULT,
    "aistore.out_of_space": Kind.FAULT,
    "aistore.memory_critical": Kind.LOAD,
    "aistore.disk_critical": Kind.LOAD,
    "aistore.cpu_critical": Kind.LOAD,
    "aistore.out_of_bounds": Kind.BATCH,
    "aistore.batch_aborted": Kind.BATCH,
    "aistore.batch_entry_missing": Kind.BATCH,
    "aistore.batch_failed": Kind.BATCH,
    "aistore.rejected": Kind.BATCH,
    "aistore.stream_ended": Kind.ECHO,
    "aistore.not_found": Kind.ECHO,
    "aistore.client_gone": Kind.ECHO,
}
GAP = 1800.0
"""Seconds without a line after which a trouble that goes on is a new one."""
BUSY = "aistore.disk_busy"
SATURATED, SUSTAINED, PAUSE = 95, 6, 120.0
"""Per cent, number of lines and seconds between them from which on a busy disk is one at its limit."""
ONCE = frozenset(
    {
        "aistore.panic",
        "aistore.daemon_fatal",
        "aistore.started",
        "aistore.stopping",
        "aistore.member_removed",
        "aistore.membership",
    }
)
"""Troubles of one moment."""
MISSED = ("aistore.keepalive_failed", "aistore.keepalive_retry", "aistore.member_removed")
"""What the others say of a daemon that does not answer."""
JOINS = 300.0
"""Seconds from the start of a new member within which it joins, and its rebalance begins."""
DEATHS = ("aistore.panic", "aistore.daemon_fatal")
"""Last words of a process."""
REBALANCE = lazy(r"(?:starting|reason:) x-(?:rebalance|resilver)\b")
_FLAG_FAULTS = {
    "disk fault": "aistore.disk_fault", "out of space": "aistore.out_of_space",
    "a disk out of space": "aistore.out_of_space", "out of memory": "aistore.memory_critical",
}  # fmt: skip
MEMBERS = ("aistore.started", "aistore.membership")
"""A process that begins, or comes into the cluster map."""
_REACHED = lazy(r"\bt\[(\w+)\][^\n]{0,80}?dial tcp (\d{1,3}(?:\.\d{1,3}){3}):")
CHECK = 600.0
"""Seconds within which the check of a disk that met errors gives its word on it."""
_MOUNTPATH = lazy(r"mp\[(/[^,\n]+),")
_OUT_OF_SERVICE = lazy(r"(?i)disabl|FAULTED|DEGRADED|exceeded I/O error limit|OOS|detach|removed")
_RELAYED = lazy(r"remote target abort[^\n]{0,120}?\[t\[(\w+)\]: ")


class Trouble(NamedTuple):
    """One run of lines of one kind at one daemon."""

    daemon: DaemonState | None
    """The daemon that has the trouble; None where none of its logs are here."""
    node: str
    """Its node id or name."""
    signature: str
    kind: Kind
    moments: tuple[Moment, ...]

    @property
    def first(self) -> Moment:
        """The earliest line; one that speaks of the trouble itself before one of a busy disk."""
        return next((m for m in self.moments if m.event.signature != BUSY), self.moments[0])

    @property
    def last(self) -> Moment:
        """The latest line."""
        return self.moments[-1]

    @property
    def shown(self) -> str:
        """The daemon's name, else its node id."""
        return self.node if self.daemon is None else self.daemon.daemon.shown

    @property
    def full(self) -> str:
        """Name and node id."""
        return f"t[{self.node}]" if self.daemon is None else self.daemon.daemon.full

    def until(self, moment: float) -> Trouble | None:
        """The part of a run up to a moment; None where it begins later."""
        kept = tuple(m for m in self.moments if m.at <= moment)
        return self._replace(moments=kept) if kept else None


def troubles(state: StorageState) -> list[Trouble]:
    """All troubles in the time that was read, by their first line."""
    found: list[Trouble] = []
    for daemon in state.daemons:
        runs: dict[str, list[Moment]] = {}
        for moment in daemon.lines:
            signature = moment.event.signature
            if signature == "aistore.member_removed":
                found.append(_removed(state, daemon, moment))
            elif signature in KINDS and signature not in {"aistore.started", "aistore.membership"}:
                runs.setdefault(signature, []).append(moment)
        for moment, signature in _flagged(state, daemon):
            runs.setdefault(signature, []).append(moment)
        busy = _saturated(daemon)
        if busy:
            runs.setdefault("aistore.disk_critical", []).extend(busy)
        if "aistore.disk_fault" in runs:
            runs["aistore.disk_fault"] = _without_healthy(daemon, runs["aistore.disk_fault"])
        for signature, moments in runs.items():
            found.extend(_runs(daemon, signature, sorted(moments, key=lambda m: m.at)))
        found.extend(_restarted(state, daemon))
    found.extend(_joined_unseen(state))
    return sorted(found, key=lambda t: (t.first.at, t.signature, t.node))


def relayed_from(moment: Moment) -> str | None:
    """The target at which an abort began that a line relays; None where it relays none."""
    found = _RELAYED.search(moment.event.text)
    return None if found is None else found[1]


def _without_healthy(daemon: DaemonState, moments: list[Moment]) -> list[Moment]:
    """Lines of disk errors without those after which the check found the disk healthy, where none had taken it out of service."""
    ordered = sorted(moments, key=lambda m: m.at)
    for well in (m for m in daemon.of("aistore.harmless") if "appears to be healthy" in m.event.text):
        disk = _MOUNTPATH.search(well.event.text)
        before = [m for m in ordered if well.at - CHECK <= m.at <= well.at and _same_disk(m, disk)]
        if not any(_OUT_OF_SERVICE.search(m.event.text) for m in before):
            ordered = [m for m in ordered if m not in before]
    return ordered


def _same_disk(moment: Moment, disk: re.Match[str] | None) -> bool:
    own = _MOUNTPATH.search(moment.event.text)
    return own is None or disk is None or own[1] == disk[1]


def _runs(daemon: DaemonState, signature: str, moments: Sequence[Moment]) -> Iterable[Trouble]:
    run: list[Moment] = []
    for moment in moments:
        if run and moment.at - run[-1].at > GAP:
            yield _trouble(daemon, signature, run)
            run = []
        run.append(moment)
    if run:
        yield _trouble(daemon, signature, run)


def _trouble(daemon: DaemonState, signature: str, moments: Iterable[Moment]) -> Trouble:
    return Trouble(daemon, name_of(daemon), signature, KINDS[signature], tuple(moments))


def name_of(daemon: DaemonState) -> str:
    """Node id of a daemon, else its name."""
    return daemon.daemon.node or daemon.daemon.name


def _removed(state: StorageState, by: DaemonState, moment: Moment) -> Trouble:
    """A node that was taken out of the map: the trouble is its own, whoever says it."""
    node = moment.event.fields.get("name", "")
    of = state.named(node) if node else by
    return Trouble(of, node or name_of(by), "aistore.member_removed", Kind.FAULT, (moment,))


def _saturated(daemon: DaemonState) -> list[Moment]:
    """First and last lines of the times in which a disk was at its limit without a break."""
    by_disk: dict[str, list[list[tuple[float, DiskLine]]]] = {}
    for at, disk in daemon.disks:
        if disk.util < SATURATED:
            continue
        runs = by_disk.setdefault(disk.disk, [])
        if not runs or at - runs[-1][-1][0] > PAUSE:
            runs.append([])
        runs[-1].append((at, disk))
    ends = [pair for runs in by_disk.values() for run in runs if len(run) >= SUSTAINED for pair in (run[0], run[-1])]
    return [Moment(at, disk_event(daemon, at, disk)) for at, disk in sorted(ends, key=lambda pair: pair[0])]


def still(trouble: Trouble, moment: float) -> bool:
    """Whether nothing between the last line of a load and a moment says that it had ended."""
    if trouble.daemon is None:
        return False
    return not any(
        trouble.last.at < m.at <= moment and "hk: [" in m.event.text for m in trouble.daemon.of("aistore.pressure")
    )


def _restarted(state: StorageState, daemon: DaemonState) -> Iterable[Trouble]:
    """Starts of a process in the time that was read: of one that had run before, or of a new member that set off a rebalance."""
    if state.window is None:
        return
    low, high = state.window
    starts = [(r.at, r.event, r.last_seen) for r in daemon.restarts]
    # Where no file begins with it, as in a pod's output, the start-up lines tell.
    starts += [(m.at, m.event, None) for m in daemon.lines if m.event.signature == "aistore.started"]
    seen: list[float] = []
    for at, event, last in sorted(starts, key=lambda s: (s[0], s[1].span)):
        if not low <= at <= high or any(abs(at - other) < 60 for other in seen):
            continue
        seen.append(at)
        if not _ran_before(state, daemon, at, last):
            yield from _joined(state, daemon, Moment(at, event))
            continue
        # It was gone from its last word on; the new process only shows it. Idle daemons speak rarely, and others miss
        # one that died within seconds.
        gone = min(last, at) if last is not None and at - last < GAP else at
        if any(at - GAP <= m.at <= at for m in daemon.of(*DEATHS)):
            gone = at  # its log holds the end itself, which is a trouble of its own
        missed = next((m for m in of_others(state, daemon, *MISSED) if gone <= m.at < at), None)
        moments = (Moment(gone, event),) if missed is None else (missed, Moment(at, event))
        yield Trouble(daemon, name_of(daemon), "aistore.started", Kind.FAULT, moments)


def of_others(state: StorageState, daemon: DaemonState, *signatures: str) -> list[Moment]:
    """Lines of other daemons about this one, in order of time."""
    named = (f"t[{daemon.daemon.node}]", f"p[{daemon.daemon.node}]")
    found = [
        m for d in state.daemons if d is not daemon for m in d.of(*signatures) if any(n in m.event.text for n in named)
    ]
    return sorted(found, key=lambda m: m.at)


def _ran_before(state: StorageState, daemon: DaemonState, at: float, last: float | None) -> bool:
    """Whether a daemon had run before a start: by its own earlier lines, its flags since, or what others said of it."""
    if last is not None or any(m.at < at - 1 for m in daemon.lines) or any(s < at - 1 for s, _ in daemon.stats):
        return True
    flagged = (n for t, line in daemon.stats if t >= at for n in flags(line.counters.get("state.flags", 0)))
    if "restarted" in flagged:
        return True
    return any(m.at < at for m in of_others(state, daemon, *MISSED))


def _joined(state: StorageState, daemon: DaemonState, start: Moment) -> Iterable[Trouble]:
    """A new member, where the rebalance that it sets off ended batches."""
    maps = [m for d in state.daemons if d is not daemon for m in d.of("aistore.membership") if "Smap v" in m.event.text]
    told = [
        m for m in (*of_others(state, daemon, "aistore.membership"), *maps) if start.at - 60 <= m.at <= start.at + JOINS
    ]
    begun = [m.at for d in state.daemons for m in d.of("aistore.batch_aborted") if REBALANCE.search(m.event.text)]
    if told and any(told[0].at - 1 <= at <= told[0].at + JOINS for at in begun):
        yield Trouble(daemon, name_of(daemon), "aistore.membership", Kind.FAULT, (start,))


def _joined_unseen(state: StorageState) -> Iterable[Trouble]:
    """Members without logs that joined shortly before batches were ended for a rebalance."""
    begun = [m.at for d in state.daemons for m in d.of("aistore.batch_aborted") if REBALANCE.search(m.event.text)]
    seen: set[str] = set()
    for daemon in state.daemons:
        for moment in daemon.of("aistore.membership"):
            node = moment.event.fields.get("name", "")
            if (
                not node
                or node in seen
                or state.named(node) is not None
                or f" joined t[{node}]" not in moment.event.text
            ):
                continue
            if any(moment.at - 1 <= at <= moment.at + JOINS for at in begun):
                seen.add(node)
                yield Trouble(None, node, "aistore.membership", Kind.FAULT, (moment,))


def _flagged(state: StorageState, daemon: DaemonState) -> Iterable[tuple[Moment, str]]:
    """Alerts that only the node's state flags show."""
    if state.window is None:
        return
    for at, line, names in health(daemon, *state.window):
        for name in names:
            signature = _FLAG_FAULTS.get(name)
            if signature is not None:
                event = replace(
                    stats_event(daemon, at, line, "state.flags"), signature=signature, fields={"reason": name}
                )
                yield Moment(at, event), signature


def node_at(state: StorageState, address: str) -> str | None:
    """Node id of the one target that lines of daemons reach at an address; None where none or several are."""
    found = {
        m[1] for d in state.daemons for line in d.lines for m in _REACHED.finditer(line.event.text) if m[2] == address
    }
    return found.pop() if len(found) == 1 else None
