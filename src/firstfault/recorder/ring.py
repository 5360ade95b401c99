"""The heartbeat of a process: writes its ring in memory. A call costs some hundreds of ns and never raises.

Where no file can be had the ring is private memory: the program does not notice, and nobody else sees it.
"""

from __future__ import annotations

import mmap
import os
import time
from typing import TYPE_CHECKING

from firstfault.recorder import format as layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from firstfault.recorder.format import Head

    Pack = Callable[..., None]

# Bound once: these are called many times a step.
_mono, _wall = time.monotonic_ns, time.time_ns
_STEP, _ENTRY, _PHASE = layout.STEP.pack_into, layout.ENTRY.pack_into, layout.PHASE.pack_into
_CALL, _CALLED, _LOADER = layout.CALL.pack_into, layout.CALLED.pack_into, layout.LOADER.pack_into
_MOST_NAMES = 512
"""Names of phases and calls whose bytes are kept."""


class Ring:
    """The ring of this process."""

    __slots__ = (
        "_called_at", "_entry", "_names", "batches", "beats", "calls", "in_calls", "map", "path", "phase_name", "shared",
        "step_number", "turns", "waited",
    )  # fmt: skip

    def __init__(self, path: str, head: Head) -> None:
        self.path = path
        self.shared = True
        self.map = self._mapped(path)
        self.step_number = 0
        self.beats = 0
        self.calls = 0
        self.in_calls = 0
        self._called_at = 0
        self.batches = 0
        self.waited = 0
        self.phase_name = ""
        self.turns = 0
        self._entry = 0
        self._names: dict[str, bytes] = {}
        self.map[0:136] = layout.pack_head(head)
        layout.STEP.pack_into(self.map, layout.STEP_AT, -1, 0, time.time_ns(), time.monotonic_ns())
        layout.LOADER.pack_into(self.map, layout.LOADER_AT, 0, 0, 0, -1, 0)

    def _mapped(self, path: str) -> mmap.mmap:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                # Pages are taken now: on a full file system a store into a hole would be SIGBUS.
                os.posix_fallocate(descriptor, 0, layout.SIZE)
                return mmap.mmap(descriptor, layout.SIZE)
            finally:
                os.close(descriptor)
        except (OSError, ValueError):
            self.shared = False
            return mmap.mmap(-1, layout.SIZE)

    def _bytes(self, name: str, size: int) -> bytes:
        known = self._names.get(name)
        if known is None:
            known = layout.cut(name, size)
            if len(self._names) < _MOST_NAMES:
                self._names[name] = known
        return known

    # Defaults, which lie side by side, for what would be looked up: these are called many times a step, and between two of them
    # the program fills the processor's caches with its own.

    def step(
        self,
        number: int | None,
        _now: Callable[[], int] = _mono,
        _at: int = layout.STEP_AT,
        _entry_at: int = layout.HISTORY_AT,
        _entries: int = layout.ENTRIES,
    ) -> None:
        """A step was done."""
        now = _now()
        self.step_number = done = self.step_number + 1 if number is None else number
        self.beats = beats = self.beats + 1
        entry = self._entry
        _STEP(self.map, _at, done, beats, _wall(), now)
        _ENTRY(self.map, _entry_at + entry * 16, done, now)
        self._entry = (entry + 1) % _entries

    def phase(
        self, name: str, _now: Callable[[], int] = _mono, _pack: Pack = _PHASE, _at: int = layout.PHASE_AT
    ) -> None:
        """The program is now in another phase."""
        self.turns = turns = self.turns + 1
        self.phase_name = name
        _pack(self.map, _at, _now(), turns, self._names.get(name) or self._bytes(name, 32))

    def call(self, name: str, _now: Callable[[], int] = _mono, _pack: Pack = _CALL, _at: int = layout.CALL_AT) -> None:
        """A call of torch.distributed begins."""
        self.calls = calls = self.calls + 1
        self._called_at = now = _now()
        _pack(self.map, _at, now, calls, self.in_calls, 1, self._names.get(name) or self._bytes(name, 32))

    def called(self, _now: Callable[[], int] = _mono, _pack: Pack = _CALLED, _at: int = layout.CALLED_AT) -> None:
        """That call came back."""
        self.in_calls = spent = self.in_calls + _now() - self._called_at
        _pack(self.map, _at, spent, 0)

    def waiting(self, depth: int, workers: int) -> int:
        """The wait for a batch begins; gives the time."""
        now = _mono()
        _LOADER(self.map, layout.LOADER_AT, now, self.waited, self.batches, depth, workers)
        return now

    def arrived(self, since: int, depth: int, workers: int, *, batch: int = 1) -> int:
        """The batch is there (0: there is none any more); gives the ns that were waited."""
        now = _mono()
        self.batches += batch
        self.waited += now - since
        _LOADER(self.map, layout.LOADER_AT, 0, self.waited, self.batches, depth, workers)
        return now - since

    def item(self, text: str, batch: int) -> None:
        """An item is being read; an empty text: none is."""
        since = time.monotonic_ns() if text else 0
        layout.ITEM.pack_into(self.map, layout.ITEM_AT, since, batch, layout.cut(text, 368))

    def signal(self, number: int) -> None:
        """Tells by which signal this process dumps its stacks; 0: none."""
        layout.U32.pack_into(self.map, layout.SIGNAL_AT, number)

    def ended(self, how: int) -> None:
        """Tells that the process ends, and how."""
        layout.I32.pack_into(self.map, layout.ENDED_AT, how)

    def rehead(self, head: Head) -> None:
        """Says anew whose this ring is."""
        self.map[0:136] = layout.pack_head(head)
