"""The monitor of a node: sees deaths, tells them to the other nodes, notices who stands still, takes bundles, gathers.

A process of its own, started by `monitoring.ensure`; it must not import the program's code, and leaves when its ranks have ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from datetime import datetime
from typing import Any

from firstfault.recorder import format as layout
from firstfault.recorder.bundle import Watched, take
from firstfault.recorder.clean import Cleaner
from firstfault.recorder.files import Lines, make_folder, read_file, replace_file
from firstfault.recorder.gathering import Seen, beat, gather, pace, rings, write_heartbeats
from firstfault.recorder.header import node_header
from firstfault.recorder.identity import start_ticks
from firstfault.recorder.joining import sign_off
from firstfault.recorder.listing import Listing
from firstfault.recorder.monitoring import LOCK
from firstfault.recorder.nodes import Nodes
from firstfault.recorder.processes import exit_status, lives, signal_name
from firstfault.recorder.settings import Settings
from firstfault.recorder.sweeping import clear, sweep

LOOK_S = 1.0
"""Seconds between two looks at the folders."""
NODE_MB = 32
LAST_S = 1.0
"""Seconds for which it stays when it was told that nobody comes any more."""
OLD_S = 30.0
"""Seconds before the start of this node's processes from which on what another node told is none of this run: clocks may differ."""
MOST_HEARD = 64
"""Words of other nodes that are read at one look, and deaths of one attempt that are read in all."""
_HANG = "hang"
PARTS = 3
"""Parts of a bundle about a hang; one about a death has one."""


class Monitor:
    """The monitor of one node in one run."""

    def __init__(self, settings: Settings, process: dict[str, Any]) -> None:
        self.settings = settings
        self.process = process
        self.cleaner = Cleaner()
        self.lines = Lines(os.path.join(settings.node, layout.NODE_FILE), NODE_MB << 20)
        self.living: dict[str, Watched] = {}
        self.dead: set[str] = set()
        self.told: set[str] = set()
        """Faults and requests that were seen."""
        self.heard_of: dict[int, int] = {}
        """Attempt -> deaths in it that were heard."""
        self.copied: Seen = {}
        self.bundles = 0
        self.due: list[tuple[float, int, int, str]] = []
        """Parts of bundles that are yet to be taken: when (monotonic), bundle, part, why."""
        self.end_after = False
        """Whether the ranks are to be ended when the bundle is taken, since one is dead."""
        self.end_if_still = False
        """The same, but only if the rank that hung still does."""
        self.hanging: dict[str, int] = {}
        """Ring -> its last sign of life, for which a hang was told."""
        self.bundled: set[int] = set()
        """Attempts for whose first death a bundle was taken."""
        self.bundled_lost: set[int] = set()
        """Attempts for whose first silent node one was; that node may be back, and a rank may die yet."""
        self.faults = os.path.join(settings.folder, settings.run, layout.FAULTS)
        self.requests = os.path.join(settings.folder, settings.run, layout.REQUESTS)
        self.listings = {folder: Listing(folder) for folder in (self.faults, self.requests)}
        self.early: set[str] = set()
        """Faults and requests that were there before this monitor."""
        self.ended = -1
        """The last attempt whose ranks it told to stop: their deaths are then no news."""
        self.stopping = False
        self.nodes = Nodes(self)

    def run(self, ready: int) -> None:
        """Watches until all processes have ended and none came for a while.

        Args:
            ready: a descriptor that is closed when the processes that are there are watched.
        """
        make_folder(self.settings.node)
        make_folder(self.faults)
        self.find()
        self.look_back()
        os.close(ready)
        self.write(layout.NODE, node_header(self.settings, self.cleaner, self.process))
        alone_since = time.monotonic()
        next_look = next_gather = 0.0
        while True:
            self.wait(LOOK_S / 2)
            self.nodes.turn()
            now = time.monotonic()
            if now >= next_look:
                next_look = now + LOOK_S
                self.find()
                self.hear()
                self.look_for_hangs()
            self.take_due()
            if now >= next_gather:
                next_gather = now + self.settings.gather_s
                self.collect()
            if self.has_ranks():
                alone_since = now  # a worker that is stuck may outlive its rank for ever
            elif now - alone_since > (min(LAST_S, self.settings.grace_s) if self.stopping else self.settings.grace_s):
                if self.nodes.stays():
                    continue
                self.collect()
                if self.leaves():
                    break
                alone_since = now
        self.collect()
        self.nodes.leave()
        self.lines.close()
        sign_off(self.settings)
        clear(self.settings.spool, self.dead)
        sweep(self.settings.local, self.settings.host)

    def write(self, kind: str, fields: dict[str, Any]) -> None:
        """Appends a record of this node."""
        self.lines.write(kind, {"time": layout.stamp(time.time()), "host": self.settings.host, **fields})

    # Processes

    def find(self) -> None:
        """Looks for processes that began to record, and reads the rings of all."""
        for name, ring in rings(self.settings.spool):
            if name in self.dead:
                continue
            known = self.living.get(name)
            if known is not None:
                known.ring = ring
                if known.pidfd < 0 and not lives(ring.head.pid, ring.head.started):
                    del self.living[name]
                    self.found_dead(name, ring)
                continue
            pidfd = _descriptor(ring.head.pid)
            if pidfd < 0 and not lives(ring.head.pid, ring.head.started):
                self.found_dead(name, ring)
                continue
            if pidfd >= 0 and start_ticks(ring.head.pid) != ring.head.started:
                os.close(pidfd)
                self.found_dead(name, ring)
                continue
            self.living[name] = Watched(name, ring, pidfd)

    def found_dead(self, name: str, ring: layout.Ring) -> None:
        """A process whose end nobody saw: how it ended is known while nobody has waited for it."""
        self.dead.add(name)
        same = start_ticks(ring.head.pid) == ring.head.started
        self.gone(name, ring, exit_status(ring.head.pid, -1) if same else None)

    def told_status(self, name: str) -> int | None:
        """How a process ended by word of the command that has started it."""
        stem = os.path.join(self.settings.spool, name.removesuffix(layout.RING))
        try:
            return int(read_file(stem + layout.STATUS, 16))
        except ValueError:
            return None

    def wait(self, seconds: float) -> None:
        """Sleeps until a process ends, or for a while."""
        if not self.living:
            time.sleep(seconds)
            return
        poll = select.poll()
        by_descriptor = {p.pidfd: p for p in self.living.values() if p.pidfd >= 0}
        for descriptor in by_descriptor:
            poll.register(descriptor, select.POLLIN)
        for descriptor, _ in poll.poll(seconds * 1000):
            process = by_descriptor[descriptor]
            status = exit_status(process.ring.head.pid, descriptor)
            del self.living[process.name]
            self.dead.add(process.name)
            os.close(descriptor)
            raw = read_file(os.path.join(self.settings.spool, process.name), layout.SIZE)
            self.gone(process.name, layout.read_ring(raw) or process.ring, status)

    def gone(self, name: str, ring: layout.Ring, status: int | None) -> None:
        """A process has ended: its last state, how it ended where that is known, and word to the others where it was a fault."""
        head = ring.head
        status = self.told_status(name) if status is None else status
        said = {layout.ENDED: "ended", layout.RAISED: "raised"}.get(head.ended)
        # What tells most stands first: a report shows the beginning of a line.
        state: dict[str, Any] = {"time": "", "rank": None, "host": head.host, "how": _how(status, said)}
        if status is not None:
            state["exit_code" if status >= 0 else "signal"] = status if status >= 0 else signal_name(-status)
        state.update(beat(ring, time.time(), time.monotonic_ns()))
        clean = status == 0 or (status is None and said == "ended")
        self.write(layout.END if clean else layout.DEATH, state)
        if head.kind == layout.MAIN and not clean:
            if (status is None or status > 0) and not self.stopping:
                self.nodes.failed(head.attempt)
            gather(self.settings.spool, self.settings.node, self.settings.host, self.cleaner, only=head.pid)
            if head.rank >= 0:
                fault = {**state, "run": self.settings.run}
                file = f"{self.settings.host}.{head.pid}.{head.attempt}.json"
                make_folder(self.faults)
                replace_file(os.path.join(self.faults, file), layout.line(layout.DEATH, fault))
                self.hear()
        self.forget(name)

    def forget(self, name: str) -> None:
        """Removes what a dead process left in memory; stacks of workers that ended well are worth nothing."""
        stem = name.removesuffix(layout.RING)
        for end in (layout.RING, layout.ASK, layout.ANSWER, layout.STATUS):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self.settings.spool, stem + end))

    # Others

    def look_back(self) -> None:
        """Notes what an earlier run of that name has left for all, and takes away what this node told in it.

        Clocks of nodes differ, so that the time alone does not tell such a fault from one of this run.
        """
        for folder in (self.faults, self.requests):
            with contextlib.suppress(OSError):
                self.early.update(folder + name for name in os.listdir(folder))
        for key in sorted(self.early):
            name = key.removeprefix(self.faults)
            if key.startswith(self.faults) and name.startswith(f"{self.settings.host}.") and self.is_old(name):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self.faults, name))

    def is_old(self, name: str) -> bool:
        """Whether a fault that this node told is of before its present processes."""
        record = self.word(self.faults, name)
        return record is not None and self.stale(record, early=True)

    def hear(self) -> None:
        """Looks what other nodes tell and ask for; of deaths that are heard at once the first one is what all others follow."""
        for folder in (self.faults, self.requests):
            new = sorted(
                n for n in self.listings[folder].names() if n.endswith(".json") and (folder + n) not in self.told
            )
            words = [(n, word) for n in self.worth_reading(folder, new) if (word := self.word(folder, n)) is not None]
            for name, word in sorted(words, key=lambda w: str(w[1].get("time"))):
                self.heard(folder, name, word)

    def worth_reading(self, folder: str, new: list[str]) -> list[str]:
        """Words that are to be read now: thousands of nodes say the same at once, and each of them would read all.

        Args:
            folder: of faults or of wishes.
            new: names that were not seen; those of monitors tell what the word is about.
        """
        read: list[str] = []
        for name in new:
            about = name.split(".")[-2]
            known = (
                self.heard_of.get(int(about), 0) >= MOST_HEARD if about.isdecimal() and folder == self.faults else False
            )
            if not known and not (about == _HANG and self.due):
                if len(read) >= MOST_HEARD:
                    self.listings[folder].again()
                    continue  # at the next look, if it is then worth it
                read.append(name)
            self.told.add(folder + name)
        return read

    def word(self, folder: str, name: str) -> dict[str, Any] | None:
        """What a node has left in a file; None where it cannot be read."""
        try:
            record = json.loads(read_file(os.path.join(folder, name)))
        except ValueError:
            return None
        return record if isinstance(record, dict) else None

    def heard(self, folder: str, name: str, record: dict[str, Any]) -> None:
        """One word from a node: a fault, or the wish for a bundle."""
        if self.stale(record, early=(folder + name) in self.early):
            return
        if folder == self.requests:
            if record.get("stop") is True:
                self.told_to_stop(record.get("attempt"))
                return
            self.plan(f"asked for: {record.get('why', 'by hand')}", PARTS)
            return
        attempt = record.get("attempt")
        attempt = attempt if isinstance(attempt, int) else 0
        self.heard_of[attempt] = self.heard_of.get(attempt, 0) + 1
        if record.get("host") != self.settings.host:
            kept = {k: record.get(k) for k in ("rank", "how", "signal", "exit_code", "step", "phase")}
            self.write(layout.TOLD, {"from": record.get("host"), "at": record.get("time"), **kept, "attempt": attempt})
        lost = record.get("kind") == layout.LOST
        known = self.bundled_lost if lost else self.bundled
        if attempt not in known and attempt > self.ended:
            known.add(attempt)
            whose = "node" if lost else f"rank {record.get('rank')} on"
            self.plan(f"{whose} {record.get('host')} {record.get('how')}", 1)
            if not lost:
                self.end_soon()

    def told_to_stop(self, attempt: object) -> None:
        """The node of a rank that hangs has ended its ranks, and so do the others."""
        if isinstance(attempt, int) and attempt > self.ended:
            self.end_soon()

    def end_soon(self) -> None:
        """Ends the ranks, where that was asked for; when the bundle that is under way is taken."""
        if self.settings.stop and self.due:
            self.end_after = True
        elif self.settings.stop:
            self.end_ranks()

    def stale(self, record: dict[str, Any], *, early: bool = False) -> bool:
        """Whether a fault or a wish is of an earlier run that had the same name.

        Args:
            record: the fault or wish.
            early: it was there before this monitor; then the clocks must not differ in its favour.
        """
        begun = min((p.ring.head.wall / 1e9 for p in self.living.values()), default=None)
        try:
            at = datetime.fromisoformat(str(record.get("time"))).timestamp()
        except ValueError:
            return False
        same = early or record.get("host") == self.settings.host
        return begun is not None and at < begun - (0.0 if same else OLD_S)

    def end_ranks(self, *, tell: bool = False) -> None:
        """Tells the ranks of this node to stop, since one is dead or hangs; they leave their stacks on the way.

        One that is stopped takes no signal until it goes on, and would hold up its launcher's own end of the job.

        Args:
            tell: the other nodes too: a rank that hangs in the kernel may not end, and so be no death that they hear of.
        """
        self.ended = self.attempt() if self.living else self.ended
        self.write(layout.NOTE, {"did": "SIGTERM to the ranks of this node"})
        if tell:
            self.ask({"why": "a rank hangs", "stop": True, "attempt": self.ended})
        for process in self.living.values():
            if process.ring.head.kind == layout.MAIN:
                for number in (signal.SIGTERM, signal.SIGCONT):
                    process.send(number)

    def ask(self, wish: dict[str, Any]) -> None:
        """Leaves a wish for the monitors of the other nodes."""
        make_folder(self.requests)
        about = _HANG if wish.get("hang") else "stop"
        name = f"{self.settings.host}.{os.getpid()}.{len(self.told)}.{about}.json"
        self.told.add(self.requests + name)
        asked = {**wish, "host": self.settings.host, "time": layout.stamp(time.time())}
        replace_file(os.path.join(self.requests, name), layout.line(layout.NOTE, asked))

    def attempt(self) -> int:
        """The attempt that runs here."""
        return max((p.ring.head.attempt for p in self.living.values()), default=0)

    def has_ranks(self) -> bool:
        """Whether a rank of this node lives."""
        return any(p.ring.head.kind == layout.MAIN for p in self.living.values())

    # Hangs and bundles

    def look_for_hangs(self) -> None:
        """Tells of processes that gave no sign of life for too long, once a standstill, and plans a bundle."""
        if self.settings.hang_s <= 0:
            return
        now, fresh = time.monotonic_ns(), []
        for name, process in self.living.items():
            ring = process.ring.at(now)
            if ring.head.kind != layout.MAIN or not (ring.beats or ring.phase) or ring.head.ended:
                continue
            if ring.head.attempt <= self.ended:
                continue
            limit = layout.still_after(self.settings.hang_s, self.settings.start_s, ring.beats, pace(ring))
            if (now - ring.last) / 1e9 > limit and self.hanging.get(name) != ring.last:
                self.hanging[name] = ring.last
                fresh.append(ring)
        if not fresh:
            return
        for ring in fresh:
            self.write(layout.HANG, {**beat(ring, time.time(), now), "after_s": self.settings.hang_s})
        first = min(fresh, key=lambda r: r.last)
        whose = f"rank {first.head.rank}" if first.head.rank >= 0 else f"process {first.head.pid}"
        why = f"{whose} stands still in {first.phase or 'no phase'} since step {first.step}"
        self.end_if_still = self.settings.stop
        if self.due:
            return  # another node has told of it, and all take the same stacks already
        self.plan(why, PARTS)
        self.ask({"why": why, "hang": True})

    def plan(self, why: str, parts: int) -> None:
        """Plans a bundle, where none is under way and the bound is not reached."""
        if self.due or self.bundles >= self.settings.bundles or not self.living:
            return
        self.bundles += 1
        now = time.monotonic()
        self.due = [(now + n * self.settings.gap_s, self.bundles, n + 1, why) for n in range(parts)]

    def take_due(self) -> None:
        """Takes the parts of bundles whose time has come; behind the last one the ranks are ended, where that was asked for."""
        while self.due and self.due[0][0] <= time.monotonic():
            _, number, part, why = self.due.pop(0)
            self.find()
            living = list(self.living.values())
            folder = os.path.basename(take(self.settings, number, part, living, self.cleaner, why))
            about = {"bundle": number, "part": part, "why": why, "folder": folder, "processes": len(living)}
            self.write(layout.BUNDLE, about)
        if not self.due and (self.end_after or self.end_if_still):
            hangs = self.end_if_still and self.still_hangs()
            dead = self.end_after
            self.end_after = self.end_if_still = False
            if dead or hangs:
                self.end_ranks(tell=hangs)

    def still_hangs(self) -> bool:
        """Whether a process of which a hang was told has not moved since; one that goes on, or comes to its end, is let do so."""
        rings = ((self.living[name].ring, last) for name, last in self.hanging.items() if name in self.living)
        return any(ring.last == last and not ring.head.ended for ring, last in rings)

    def collect(self) -> None:
        """Brings everything to the shared folder."""
        self.find()
        gather(self.settings.spool, self.settings.node, self.settings.host, self.cleaner, seen=self.copied)
        write_heartbeats(self.settings.node, [p.ring for p in self.living.values()])

    def leaves(self) -> bool:
        """Gives the lock away, and looks once more: who came before that is still this monitor's to watch.

        Who comes later finds no lock, and starts a monitor of its own, which takes over whatever lies in the spool.
        """
        lock = os.path.join(self.settings.spool, LOCK)
        aside = f"{lock}.{os.getpid()}"
        with contextlib.suppress(OSError):
            os.rename(lock, aside)
        self.find()
        if not self.has_ranks():
            with contextlib.suppress(OSError):
                os.unlink(aside)
            return True
        try:
            os.link(aside, lock)
        except OSError:
            return True  # another one watches by now
        with contextlib.suppress(OSError):
            os.unlink(aside)
        return False


def _descriptor(pid: int) -> int:
    """A descriptor that stands for a process; -1 where there is none of that number, or the kernel or Python knows no such thing."""
    try:
        return os.pidfd_open(pid)
    except (OSError, AttributeError):
        return -1


def _how(status: int | None, said: str | None) -> str:
    if status is None:
        return f"is gone ({said})" if said else "is gone without a word"
    if status < 0:
        return f"was ended by {signal_name(-status)}"
    return f"exited with code {status}"


def main(told: str, ready: int) -> None:
    """Runs the monitor of a node.

    Args:
        told: settings and facts of the process that started it, as JSON.
        ready: a descriptor that is closed when it watches.
    """
    given = json.loads(told)
    settings = Settings(**given["settings"])
    monitor = Monitor(settings, given["process"])
    # Who holds the lock stands in it.
    with contextlib.suppress(OSError):
        held = {name: given[name] for name in ("launch", "settings", "process")}
        os.ftruncate(given["lock"], 0)
        os.pwrite(given["lock"], json.dumps({"pid": os.getpid(), **held}).encode() + b"\n", 0)

    def stop(number: int, frame: object) -> None:
        del number, frame
        monitor.stopping = True

    # At the end of a job everybody is told to stop: what the ranks leave then is still to be gathered.
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # Behind the program where both want the processor.
    with contextlib.suppress(OSError):
        os.nice(5)
    try:
        monitor.run(ready)
    except Exception as problem:
        monitor.nodes.leave()
        monitor.write(layout.NOTE, {"broken": monitor.cleaner.text(f"{type(problem).__name__}: {problem}")[:500]})
        raise SystemExit(1) from problem
    sys.exit(0)
