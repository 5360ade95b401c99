"""Where the program is, seen by a look at the frames of the thread that trains: phase, call of torch.distributed, the loader.

Once a second by the thread of `listener.py`, and when somebody asks or something happens: a step of the program pays nothing for
it. It reads frames only while it holds the interpreter's lock, keeps none, and runs no code of the program.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from firstfault.recorder import format as layout
from firstfault.recorder.ring import LIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import CodeType, FrameType, TracebackType

    from firstfault.recorder.ring import Ring

MOST_FRAMES = 500
"""Frames of a thread that are looked at, from the innermost one."""
_TURN_S = 1.0
"""Seconds for which the last word waits for a look that is under way."""


class _Known(NamedTuple):
    name: str
    call: bool
    """Whether it is a call of torch.distributed, else a phase."""


class Place(NamedTuple):
    """Where a thread is."""

    phase: str | None
    """None: in nothing that is known."""
    call: str


_known: dict[CodeType, _Known] = {}


class Asked:
    """Whom a look asks for what frames do not tell; the hooks into torch put their own here."""

    calls_begun: Callable[[], int] | None = None
    """How many calls of torch.distributed were begun; -1: unknown."""
    waits_seen: Callable[[], int] | None = None
    """Whether its groups wait where a look sees it, as `format` tells it."""
    loaders_seen: Callable[[int, bool], tuple[int, int, int]] | None = None
    """Batches given in all, batches that lie ready (-1: unknown), workers; from when it looks, and whether the program is in a loader."""
    workers_lost: Callable[[], list[dict[str, Any]]] | None = None
    """Workers of loaders that ended badly: number, process id, and `signal` or `exit_code`."""


asked = Asked()


def know(function: Any, name: str, *, call: bool = False) -> None:
    """Takes a function of a library for a phase, or for a call of torch.distributed, whenever a look finds the program in it.

    Args:
        function: of Python; what wraps it is looked through. Anything else is passed over.
        name: of the phase or call.
        call: which of the two.
    """
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = getattr(function, "__code__", None)
    if code is not None:
        _known[code] = _Known(name, call)


def mark(frame: FrameType) -> int:
    """What tells a frame from others, without keeping it."""
    return id(frame) ^ id(frame.f_code)


def place_of(frames: Iterable[FrameType], said: str = "", said_in: int = 0) -> Place:
    """Where a thread is, by its frames: what was entered last counts, and of calls within calls the outermost.

    Args:
        frames: innermost first.
        said: the phase that the program says.
        said_in: the mark of the frame that said so.
    """
    call = ""
    for frame in frames:
        if said and mark(frame) == said_in:
            return Place(said, call)
        known = _known.get(frame.f_code)
        if known is None:
            continue
        if not known.call:
            return Place(known.name, call)
        call = known.name
    return Place(None, call)


def outwards(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame and those that called it, innermost first, as many as are looked at."""
    for _ in range(MOST_FRAMES):
        if frame is None:
            return
        yield frame
        frame = frame.f_back


class Looker:
    """Looks at one process and writes into its ring what it sees."""

    def __init__(self, ring: Ring) -> None:
        self.ring = ring
        self.closed = False
        """Whether the last word is written: the main thread has raised, and goes through code that no longer matters."""
        self._thread = threading.main_thread().ident or 0
        self._sure = False
        """Whether a step has told which thread trains."""
        self._native = 0
        """That thread as the system knows it; 0: unknown."""
        self._lock = threading.Lock()
        self._last = time.monotonic_ns()
        self._here: tuple[str, str, int] = ("", "", -1)
        self._looked = False
        self._changed = 0
        self._since = 0
        self._call, self._call_since, self._called = "", 0, 0
        self._blocking = layout.UNASKED
        self._stepping = 0
        """When the first step was seen to be done; 0: none was."""

    def follow(self, thread: int) -> None:
        """Takes another thread than the main one for that which trains: some frameworks run the program in one of their own."""
        self._thread, self._sure = thread, True
        self._native = threading.get_native_id() if thread == threading.get_ident() else 0

    def follows(self) -> bool:
        """Whether the calling thread may be the one that trains: what another does, such as to save in the background, is no phase."""
        return not self._sure or threading.get_ident() == self._thread

    @property
    def thread(self) -> int:
        """The thread that is taken for the one that trains, by its ident."""
        return self._thread

    def trains(self) -> bool:
        """Whether the calling thread is known to be the one that trains: it has made steps."""
        # The ident of a thread that is gone is soon another one's.
        return self._sure and threading.get_native_id() == self._native

    def look(self) -> None:
        """Looks where the program is now."""
        if self.closed:
            return
        self.ring.gone_on()
        frame = sys._current_frames().get(self._thread)  # noqa: SLF001 - as the standard library itself does it
        if frame is not None:
            self._note(place_of(outwards(frame), self.ring.said, self.ring.said_in))

    def met(self, trace: TracebackType | None) -> None:
        """Takes the place at which an exception was met; what the program does after it is looked at no more."""
        frames: list[FrameType] = []
        while trace is not None and len(frames) < MOST_FRAMES:
            frames.append(trace.tb_frame)
            trace = trace.tb_next
        place = place_of(reversed(frames), self.ring.said, self.ring.said_in)
        self._note(place, last=True)

    def _note(self, place: Place, *, last: bool = False) -> None:
        # Two threads may look at once: one that writes a record, and the one that looks by itself. The last word waits for
        # the other one's turn, and a look that began before it no longer counts.
        if not self._lock.acquire(timeout=_TURN_S if last else 0.0):
            self.closed = self.closed or last
            return
        try:
            if not self.closed:
                self.closed = last
                self._write(time.monotonic_ns(), place)
        finally:
            self._lock.release()

    def _first(self, stepped: int) -> int:
        """When it was first seen to have done a step: what was before is its start."""
        if not self._stepping:
            self._stepping = stepped
        return self._stepping

    def _waits(self) -> int:
        """Whether its groups wait where a look sees it: asked each time, since groups come and go."""
        if asked.waits_seen is not None:
            with contextlib.suppress(Exception):
                self._blocking = asked.waits_seen()
        return self._blocking

    def _write(self, now: int, place: Place) -> None:
        ring, words = self.ring, self.ring.words
        stepped = LIVE.stepped
        said_since = words[layout.SAID_AT // 8]
        wanted, given = words[layout.ASKED], words[layout.GIVEN]
        sure, sure_since = layout.sure_phase(ring.said, said_since, stepped, wanted, given)
        phase, number = sure if place.phase is None else place.phase, -1
        if asked.calls_begun is not None:
            with contextlib.suppress(Exception):
                number = asked.calls_begun()
        # What the ring says by itself has its own time there.
        here = ("" if phase == sure else phase, place.call, number)
        event = max(stepped, wanted, given, said_since)
        # The first look finds it somewhere: that is no sign that it moves.
        if here != self._here and self._looked:
            self._changed = now
        self._looked = True
        if phase == sure:
            self._since = sure_since
        elif phase != self._here[0] or event > self._last:
            self._since = now
        if place.call:
            if here[1:] != self._here[1:] or event > self._last:
                self._call, self._call_since = place.call, now
            self._called += now - self._last
        if stepped:
            # Only what it does between steps tells it from others; one look stands for a few seconds at most.
            passed = min(now - max(self._last, self._first(stepped)), layout.OLD_LOOK_NS)
            ring.spent("call" if place.call else phase, max(0, passed), self._waits())
        self._here, self._last = here, now
        ring.seen(now, self._changed, self._since, phase)
        ring.seen_call(self._call_since, number, self._called, inside=bool(place.call), name=self._call)
        if asked.loaders_seen is not None:
            with contextlib.suppress(Exception):
                words[layout.BATCHES], depth, workers = asked.loaders_seen(now, place.phase == "data")
                ring.seen_loader(depth, workers)
