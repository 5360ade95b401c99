"""Brings the files of a node from where they are written to the shared folder; stacks get a heading that says whose they are.

Used by the monitor, by a process that is about to die, and by `firstfault record` at the end. Must not raise.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any

from firstfault.recorder import format as layout
from firstfault.recorder.files import make_folder, read_file, replace_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.recorder.clean import Cleaner
    from firstfault.recorder.format import Name, Ring

MOST_STACKS = 4 << 20
"""Bytes of one file of stacks that are taken."""
MOST_DUMP = 64 << 20
"""Bytes of one flight recorder or memory snapshot that are taken."""


def heading(name: Name, host: str, why: str) -> bytes:
    """The line above stacks, from which a reader knows whose they are."""
    whose = "process" if name.rank is None else f"rank {name.rank}"
    worker = "" if name.worker is None else f", loader worker {name.worker}"
    return f"{layout.STACKS_OF}{whose}{worker}, pid {name.own}, attempt {name.attempt}, host {host}; {why}\n".encode()


_ALONE = b"Stack (most recent call first):"
_CURRENT = b"Current thread 0x0000000000000000 (most recent call first):"
_OWN = b"firstfault/recorder/listener.py"
_WHY = {layout.STACKS: "asked for", layout.FATAL: "fatal signal", layout.SIGTERM: "SIGTERM"}


Seen = dict[str, tuple[int, int, int]]
"""File -> inode, size and time of change of what was copied of it last."""


def gather(
    spool: str, node: str, host: str, cleaner: Cleaner, *, only: int | None = None, seen: Seen | None = None
) -> None:
    """Copies what is new or changed from the spool to the shared folder of the node.

    Args:
        spool: where the processes of the node write.
        node: the folder of the node in the shared folder.
        host: its name.
        cleaner: takes secrets out of texts on the way.
        only: a process id; then only its files.
        seen: what was copied by earlier calls, and is now; None: everything is copied.
    """
    seen = {} if seen is None else seen
    try:
        names = os.listdir(spool)
    except OSError:
        return
    if not make_folder(node):
        return
    for file in sorted(names):
        name = layout.read_name(file)
        if name is None or (only is not None and only not in {name.pid, name.own}):
            continue
        end = next((e for e in layout.DUMPS if file.endswith(e)), None)
        source, target = os.path.join(spool, file), os.path.join(node, file)
        now = _version(source)
        if now is None or seen.get(source) == now:
            continue
        done = True
        if end is not None:
            done = _stacks(source, target, heading(name, host, _WHY[end]), cleaner)
            if now[1] > MOST_STACKS:
                # Somebody asks again and again: what is told already makes room in the memory of the node.
                with contextlib.suppress(OSError):
                    os.truncate(source, 0)
        elif file.endswith((layout.RECORDER, layout.MEMORY)):
            done = _whole(source, target, now[1])
        if done:
            seen[source] = now


def _stacks(source: str, target: str, head: bytes, cleaner: Cleaner) -> bool:
    """Copies stacks; whether nothing is left to do. One that was emptied since keeps what it had."""
    text = cleaner_text(tidy(read_file(source, MOST_STACKS)), cleaner)
    return replace_file(target, head + text) if text.strip() else True


def tidy(raw: bytes) -> bytes:
    """Stacks without our own thread, and with the head that a dump of all threads has also where one thread wrote its own."""
    blocks = raw.replace(_ALONE, _CURRENT).split(b"\n\n")
    return b"\n\n".join(b for b in blocks if _OWN not in b)


def cleaner_text(raw: bytes, cleaner: Cleaner) -> bytes:
    """A text of many lines without secrets, line by line where it is long."""
    lines = raw.decode("utf-8", "backslashreplace").split("\n")
    known: dict[str, str] = {}
    for line in lines:
        if line not in known:
            known[line] = cleaner.text(line)
    return "\n".join(known[line] for line in lines).encode("utf-8", "backslashreplace")


def _whole(source: str, target: str, size: int) -> bool:
    return replace_file(target, read_file(source, MOST_DUMP)) if 0 < size <= MOST_DUMP else True


def _version(path: str) -> tuple[int, int, int] | None:
    """What changes when a file does, though it may be as long as before."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def rings(spool: str) -> list[tuple[str, Ring]]:
    """All rings of a node with their file names, in the order of the names."""
    found = []
    try:
        names = sorted(os.listdir(spool))
    except OSError:
        return []
    for name in names:
        if name.endswith(layout.RING):
            ring = layout.read_ring(read_file(os.path.join(spool, name), layout.SIZE))
            if ring is not None:
                found.append((name, ring))
    return found


def beat(ring: Ring, now_wall: float, now_mono: int) -> dict[str, Any]:
    """The state of a process as the fields of a record; what it does not know is left out.

    Args:
        ring: its ring.
        now_wall: the time in seconds.
        now_mono: the same moment on the monotonic clock, in ns.
    """
    ring = ring.at(now_mono)
    head = ring.head

    def ago(mono: int) -> float:
        return round(max(0, now_mono - mono) / 1e9, 3)

    last = ring.last or _begun(ring, now_wall, now_mono)
    fields: dict[str, Any] = {
        "time": layout.stamp(now_wall),
        "rank": _known(head.rank),
        "local_rank": _known(head.local_rank),
        "world": _known(head.world),
        "host": head.host,
        "pid": head.pid,
        "attempt": head.attempt,
        "worker": _known(head.worker),
        "parent": head.parent if head.kind == layout.WORKER else None,
        "step": ring.step,
        "phase": ring.phase or None,
        "still_s": None if last is None else ago(last),
        "last": None if last is None else layout.stamp(now_wall - ago(last)),
        "since": layout.stamp(head.wall / 1e9) if head.wall else None,
    }
    if ring.beats:
        fields["step_s_ago"] = ago(ring.mono)
        fields["pace_s"] = pace(ring)
        fields["steps"] = ring.beats
        if ring.looks:
            fields["spent"] = _spent(ring)
    if ring.phase:
        fields["phase_for_s"] = ago(ring.phase_since)
    if ring.call:
        fields["call"] = {
            "name": ring.call,
            "number": ring.call_number,
            "inside": ring.in_call,
            "s_ago": ago(ring.call_since),
            "in_all_s": round(ring.called / 1e9, 3),
        }
    elif ring.call_number:
        # It was never seen in one: it waits where no frame of Python tells, in `Work.wait`, or for its device.
        fields["call"] = {"number": ring.call_number, "inside": False}
    if ring.given or ring.waiting_since or ring.workers:
        fields["loader"] = {
            "batches": ring.batches,
            "waited_s": round(ring.waited / 1e9, 3),
            "waiting_s": ago(ring.waiting_since) if ring.waiting_since else None,
            "depth": ring.depth,
            "workers": ring.workers,
        }
    if ring.item:
        fields["item"] = {"what": ring.item, "for_s": ago(ring.item_since), "batch": ring.batch}
    if head.ended:
        fields["ended"] = {layout.ENDED: "ended", layout.RAISED: "raised"}.get(head.ended, "ended")
    return {k: v for k, v in fields.items() if v is not None}


def _spent(ring: Ring) -> dict[str, Any]:
    """Seconds that looks found it in each place lately, their number, and whether it is seen where it waits for others."""
    told: dict[str, Any] = {"looks": ring.looks}
    if ring.blocking != layout.UNASKED:
        told["waits_seen"] = ring.blocking == layout.WAITS_SEEN
    told.update((name, round(ns / 1e9, 3)) for name, ns in zip(layout.PLACES, ring.spent, strict=True) if ns)
    return told


def _begun(ring: Ring, now_wall: float, now_mono: int) -> int | None:
    """Monotonic time in ns at which a ring was made, a process's first sign of life; None where it does not say.

    A ring in which nothing has happened yet holds 0, which on the monotonic clock is the start of the machine.
    """
    return now_mono - int(max(0.0, now_wall * 1e9 - ring.head.wall)) if ring.head.wall else None


def pace(ring: Ring) -> float | None:
    """The usual time of a step in seconds, by the last ones; None where there are too few."""
    times = [t for _, t in ring.history]
    gaps = sorted(b - a for a, b in zip(times, times[1:], strict=False))
    return round(gaps[len(gaps) // 2] / 1e9, 6) if len(gaps) >= 3 else None


def _known(number: int) -> int | None:
    return None if number < 0 else number


def write_heartbeats(node: str, found: Iterable[Ring]) -> bool:
    """Writes the last states of all processes of the node as one file."""
    wall, mono = time.time(), time.monotonic_ns()
    lines = [layout.line(layout.BEAT, beat(ring, wall, mono)) for ring in found]
    return bool(lines) and replace_file(os.path.join(node, layout.HEARTBEAT_FILE), b"".join(lines))
