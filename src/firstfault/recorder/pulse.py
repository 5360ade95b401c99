"""Signs of life between nodes: each monitor writes a number into a small file of its own and watches those of its neighbours.

A node that dies takes its monitor with it, so that nobody there tells of it. No clocks are compared: a neighbour's number must
move within a time that the reader measures itself, and the reader trusts its own measure only while it was awake and the shared
folder answered it at once. The neighbours are the next ones in the order of names that are at work, so that each node costs a fixed
number of small files, however many there are; whose neighbours are lost looks further, since a rack or a switch takes many that
stand side by side. Who was never seen to move since this node began is of an earlier run. Nothing here raises.
"""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from firstfault.recorder import format as layout
from firstfault.recorder.files import read_file

NEIGHBOURS = 2
"""Nodes at work that each one watches; each is watched by as many."""
FURTHER = 2
"""How many more are watched for each that is silent."""
MOST_WATCHED = 64
"""The next nodes by name, of which no more are looked at, however many have ended, are silent or have not begun."""
EVERY_S = 1.0
"""Seconds between two signs of life of a node."""
MOST_A_SECOND = 300
"""Signs of life of all nodes together that the shared folder gets in a second; with more nodes they come less often."""
MISSED = 3
"""Signs that must be missing."""
LOOKS = 4
"""Looks at a number that stands, each of them in time, before anything is said."""
SLOW_S = 0.5
"""Seconds from which on an answer of the shared folder, or a delay of our own, is slow: nothing is measured then."""
LIST_S, SOON_S = 10.0, 2.0
"""Seconds between two looks at which nodes there are, and while not enough of them are known."""
_SIGN = '{"firstfault":"record/1","kind":"pulse","number":"%010d","over":%s}\n'
"""A record of one length, so that it is written over the one before."""


class Lost(NamedTuple):
    """A node whose number stands."""

    host: str
    """Its folder."""
    silent_s: float
    """Seconds since it was seen to move."""
    number: str
    """Its last sign, the same for all who miss it."""


class _Neighbour:
    """What was seen of one neighbour."""

    def __init__(self, raw: bytes, now: float, *, live: bool) -> None:
        self.raw = raw
        self.moved = now
        """When the number was first seen as it is."""
        self.since = now
        """From when on it is measured; later than that where somebody was slow."""
        self.looks = 0
        self.told = False
        self.live = live
        """Whether it was at work since this node began; what an earlier run of that name left stands still from the start."""

    @property
    def watched(self) -> bool:
        """Whether it is to be missed."""
        return self.live and not self.told and b'"over":true' not in self.raw


class Pulse:
    """The sign of life of this node, and what it sees of others."""

    def __init__(self, folder: str, host: str) -> None:
        """See the class.

        Args:
            folder: of the run, in which each node has a folder.
            host: name of this node's folder.
        """
        self.folder = folder
        self.host = host
        self.every = EVERY_S
        self.idle = False
        """Whether no rank runs here: then nobody is to miss this node, whose monitor may be ended with it at any time."""
        self._said_idle = False
        self._number = 0
        self._began: int | None = None
        """When the first sign of this node was written, by the shared folder's clock."""
        self._next_beat = self._next_list = 0.0
        self._last_look: float | None = None
        self._seen: dict[str, _Neighbour] = {}
        self.anew = 0.0
        """When all measuring began anew, since something was slow (monotonic); 0: never."""
        self.returned: list[str] = []
        """Nodes of which it was told that they are silent, and that move again; whoever reads it empties it."""

    def turn(self) -> list[Lost]:
        """Writes a sign of life where it is time, and looks at the neighbours; those that are newly silent."""
        now = time.monotonic()
        late = self._last_look is not None and now - self._last_look > 1.0 + SLOW_S
        self._last_look = now
        if now >= self._next_list:
            self._choose()
            self._next_list = now + (LIST_S if self._enough() else SOON_S)
        answered = True
        if now >= self._next_beat or self.idle is not self._said_idle:
            self._next_beat = now + self.every
            self._number += 1
            answered = self._write(over=self.idle)
            self._said_idle = self.idle
        found = self._look(now)
        slow = time.monotonic() - now > SLOW_S
        if late or slow or not answered:
            for lost in found:
                self._seen[lost.host].told = False  # it is yet to be told, by a look that counts
            self._begin_anew()
            return []
        return found

    def watches(self) -> bool:
        """Whether a neighbour is at work, so that it would be missed."""
        return any(seen.watched for seen in self._seen.values())

    def end(self) -> None:
        """Says that this monitor leaves by itself."""
        self._number += 1
        self._write(over=True)

    def _write(self, *, over: bool = False) -> bool:
        raw = (_SIGN % (self._number, "true " if over else "false")).encode()
        path = os.path.join(self.folder, self.host, layout.PULSE)
        try:
            # Opened and closed each time: on a network file system that is what brings it to the others.
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                os.pwrite(descriptor, raw, 0)
                if self._began is None:
                    self._began = os.fstat(descriptor).st_mtime_ns
            finally:
                os.close(descriptor)
        except OSError:
            return False
        return read_file(path, 256) == raw

    def _choose(self) -> None:
        """The next nodes behind this one in the order of names, and how often all may give signs of life."""
        try:
            names = sorted(n for n in os.listdir(self.folder) if n != self.host)
        except OSError:
            return
        self.every = max(EVERY_S, len(names) / MOST_A_SECOND)
        at = next((i for i, n in enumerate(names) if n > self.host), 0)
        chosen = {n: seen for n, seen in self._seen.items() if seen.told}
        wanted = NEIGHBOURS + FURTHER * len(chosen)
        # Only as many are asked for as it takes: to look at all of thousands from each of them would be millions of questions.
        for name in (names[at:] + names[:at])[:MOST_WATCHED]:
            if wanted <= 0:
                break
            seen = self._seen.get(name) or self._fresh(name)
            if name in chosen or not seen.raw:
                continue
            chosen[name] = seen
            wanted -= seen.watched or self._just_met(seen)
        self._seen = chosen

    def _enough(self) -> bool:
        """Whether as many are watched as are to be."""
        told = sum(seen.told for seen in self._seen.values())
        return sum(seen.watched for seen in self._seen.values()) >= NEIGHBOURS + FURTHER * told

    def _just_met(self, seen: _Neighbour) -> bool:
        """Whether it may still turn out to be at work: it was not looked at for as long as a sign may be missing."""
        return not seen.live and b'"over":true' not in seen.raw and time.monotonic() - seen.since <= MISSED * self.every

    def _fresh(self, name: str) -> _Neighbour:
        # It may fall silent before it is seen to move: with others beside it, or within seconds of its start.
        return _Neighbour(self._read(name), time.monotonic(), live=self._of_this_run(name))

    def _of_this_run(self, name: str) -> bool:
        """Whether the last sign of a node was written since this one gives signs, by the one clock of the shared folder."""
        try:
            written = os.stat(os.path.join(self.folder, name, layout.PULSE)).st_mtime_ns
        except OSError:
            return False
        return self._began is not None and written > self._began

    def _read(self, name: str) -> bytes:
        return read_file(os.path.join(self.folder, name, layout.PULSE), 256)

    def _look(self, now: float) -> list[Lost]:
        found = []
        for name, seen in self._seen.items():
            raw = self._read(name)
            if raw != seen.raw:
                if seen.told:
                    self.returned.append(name)
                # A file that is gone, or is there again as it was, is no sign.
                self._seen[name] = _Neighbour(raw, now, live=bool(raw and seen.raw) or seen.live)
                continue
            if not raw or not seen.watched:
                continue
            seen.looks += 1
            if seen.looks >= LOOKS and now - seen.since > MISSED * self.every:
                seen.told = True
                found.append(Lost(name, now - seen.moved, _digits(raw)))
                self._next_list = now  # who stood beside it may be silent too
        return found

    def _begin_anew(self) -> None:
        """Forgets how long anybody was silent: this node, or the folder, was not itself."""
        now = self.anew = time.monotonic()
        for seen in self._seen.values():
            if not seen.told:
                seen.since, seen.looks = now, 0


def _digits(raw: bytes) -> str:
    return "".join(c for c in raw.decode("ascii", "replace") if c.isdecimal())[-10:]
