"""The heartbeat of a process: writes its ring in memory. Never raises.

What is written within a step is one store a fact, through `LIVE.words`; everything dearer is seen from outside of the step (see
`looking.py`). Where no file can be had the ring is private memory: the program does not notice, and nobody else sees it.
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

_mono = time.monotonic_ns
MOST_SPENT_NS = 256_000_000_000
"""Seconds that were seen lately: some minutes, so that shares of them are of what a rank does now, and steady enough."""
_PLACE = {name: number for number, name in enumerate(layout.PLACES)}
_OTHER = _PLACE["other"]


class Live:
    """What hooks within a step write to, the same object for the life of the process; its words lead nowhere while nobody records.

    Hooks take it, and whatever else they need, as defaults of their arguments: between two of their calls the program fills the
    processor's caches with its own, and each thing that lies elsewhere is fetched from memory again.
    """

    __slots__ = ("beats", "entry", "owner", "waited", "words")

    words: memoryview
    """The ring as numbers of 8 bytes; a store into it is the cheapest that another process sees."""
    beats: int
    entry: int
    """Place of the entry of the next step."""
    owner: object
    """What the optimizer whose steps are counted has for itself alone; None where there is none."""
    waited: int

    def __init__(self) -> None:
        self.leave()

    def leave(self) -> None:
        """Leads nowhere from now on."""
        self.words = memoryview(bytearray(layout.SIZE)).cast("q")
        self.beats = self.waited = 0
        self.owner = None
        self.entry = layout.HISTORY

    @property
    def stepped(self) -> int:
        """When the last step was done, in monotonic ns; 0: none was."""
        entry = self.entry
        return self.words[(entry - 2 if entry > layout.HISTORY else layout.LAST_ENTRY) + 1]


LIVE = Live()


class Ring:
    """The ring of this process."""

    __slots__ = ("_left", "_left_item", "_turns", "map", "path", "said", "said_in", "shared", "words")

    def __init__(self, path: str, head: Head) -> None:
        self.path = path
        self.shared = True
        self.map = self._mapped(path)
        self.words = memoryview(self.map).cast("q")
        self.said = ""
        """The phase that the program, or a hook outside of the step, says."""
        self.said_in = 0
        """The frame in which it was said, by its mark."""
        self._left: tuple[str, int] | None = None
        """The phase, and its frame, before the one said, where an exception has left that; None where none has."""
        self._left_item = 0
        """Since when the item was being read that belongs to it; 0: none."""
        self._turns = 0
        self.map[0:136] = layout.pack_head(head)
        layout.CALL.pack_into(self.map, layout.CALL_AT, 0, -1, 0, 0, b"")
        layout.LOADER.pack_into(self.map, layout.LOADER_AT, -1, 0)
        LIVE.leave()
        LIVE.words = self.words

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

    @property
    def beats(self) -> int:
        """Steps that were done."""
        return LIVE.beats

    @property
    def step_number(self) -> int:
        """Number of the last step, as the program counts."""
        return LIVE.beats + self.words[layout.OFFSET]

    def step(
        self,
        number: int | None,
        _live: Live = LIVE,
        _now: Callable[[], int] = _mono,
        _first: int = layout.HISTORY,
        _last: int = layout.LAST_ENTRY,
    ) -> None:
        """A step was done."""
        _live.beats = beats = _live.beats + 1
        words, entry = _live.words, _live.entry
        words[entry] = beats
        words[entry + 1] = _now()
        _live.entry = entry + 2 if entry < _last else _first
        if number is not None:
            words[layout.OFFSET] = number - beats

    def phase(self, name: str, frame: int = 0) -> None:
        """The program is now in another phase.

        Args:
            name: of it; empty: in none that it says.
            frame: the mark (see `looking.mark`) of the frame that says so; 0: of none.
        """
        self._turns += 1
        self.said, self.said_in, self._left = name, frame, None
        layout.SAID.pack_into(self.map, layout.SAID_AT, _mono(), self._turns, layout.cut(name, 32))

    def begin(self, name: str, frame: int) -> tuple[str, int]:
        """The program is in a phase until `leave`; what it was in before, to be handed there."""
        before = (self.said, self.said_in) if self._left is None else self._left
        self.phase(name, frame)
        return before

    def leave(self, before: tuple[str, int], *, failed: bool, item: bool = False) -> None:
        """Goes back to the phase before; where an exception ends it, only once the program has gone on in spite of it.

        Args:
            before: what `begin` gave.
            failed: whether an exception ends the phase: one that ends the program too is told as one of this phase.
            item: whether the item that is being read belongs to the phase.
        """
        if not failed:
            self.phase(*before)
            return
        self._left, self._left_item = before, self.words[layout.ITEM_AT // 8] if item else 0

    def gone_on(self) -> None:
        """Drops a phase that an exception had left, with its item, once a step was done or a batch given since it was said."""
        before, words = self._left, self.words
        if before is None or max(LIVE.stepped, words[layout.GIVEN]) <= words[layout.SAID_AT // 8]:
            return
        item = self._left_item
        self.phase(*before)
        if item and words[layout.ITEM_AT // 8] == item:
            self.item("", -1)

    def seen(self, now: int, changed: int, since: int, phase: str) -> None:
        """A look at the main thread found it in this phase (times in monotonic ns)."""
        layout.SEEN.pack_into(self.map, layout.SEEN_AT, now, changed, since, layout.cut(phase, 32))

    def seen_call(self, since: int, number: int, called: int, *, inside: bool, name: str) -> None:
        """What a look found of the calls of torch.distributed."""
        layout.CALL.pack_into(self.map, layout.CALL_AT, since, number, called, inside, layout.cut(name, 64))

    def spent(self, place: str, passed: int, blocking: int) -> None:
        """A look found the program at a place, and what has passed since the one before is taken to be of it.

        What was seen long ago counts less: sums are halved where they come to `MOST_SPENT_NS`.

        Args:
            place: one of `PLACES`; any other is `other`.
            passed: ns.
            blocking: what is known of its groups.
        """
        words = self.words
        words[layout.SPENT + _PLACE.get(place, _OTHER)] += passed
        words[layout.LOOKS] += 1
        words[layout.BLOCKING] = blocking
        if sum(words[layout.SPENT : layout.LOOKS]) > MOST_SPENT_NS:
            for n in range(layout.SPENT, layout.LOOKS + 1):
                words[n] //= 2

    def seen_loader(self, depth: int, workers: int) -> None:
        """What a look found of the loader."""
        layout.LOADER.pack_into(self.map, layout.LOADER_AT, depth, workers)

    def item(self, text: str, batch: int) -> None:
        """An item is being read; an empty text: none is."""
        since = _mono() if text else 0
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
