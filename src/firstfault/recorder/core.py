"""The recorder of one process: opens its files, takes what the program and the hooks tell, and never raises.

Holds no hook into torch (see `hooks/`) and watches nobody (see `monitor.py`).
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from firstfault.recorder import format as layout
from firstfault.recorder.clean import Cleaner
from firstfault.recorder.exceptions import Hooks, by_handler, described, is_an_end
from firstfault.recorder.files import Lines, is_ours, make_folder
from firstfault.recorder.gathering import gather
from firstfault.recorder.header import process_header
from firstfault.recorder.identity import Identity, start_ticks
from firstfault.recorder.listener import stop as stop_listening
from firstfault.recorder.looking import Looker, asked
from firstfault.recorder.ring import LIVE, Ring
from firstfault.recorder.settings import local_folder
from firstfault.recorder.signals import Signals

if TYPE_CHECKING:
    from firstfault.recorder.settings import Settings

LAST = 16
"""Steps and metrics that are written with an exception."""
MOST_REPORTS = 200
"""Exceptions of one process that are written, beside the one that ends it."""
MOST_SAID = 2000
"""Characters of the text with which a program ends."""
_MOST_NAMES = 256
_TRIES = 3
"""Times that an exception is begun to be written, where handlers of signals come between."""
_SHORT = 16
"""Letters of a name from which on it is looked through."""
_TOLD = "__firstfault_told__"
"""On an exception: the process that has written it. Its id would not do, which the next one gets when it is gone."""


class Recorder:
    """One process that records."""

    def __init__(self, settings: Settings, who: Identity, *, worker: tuple[int, int] | None = None) -> None:
        self.settings = settings
        self.who = who
        self.pid = os.getpid()
        self.cleaner = Cleaner(os.environ)
        self.worker = worker
        """Number of a loader's worker and the process id of its rank; None for anything else."""
        number, owner = (None, self.pid) if worker is None else worker
        self.stem = layout.name_of(who.rank, who.attempt, owner, number, self.pid)
        self.spool = settings.spool
        if not make_folder(settings.spool) or not _safe(settings):
            self.spool = settings.node
            make_folder(settings.node)
        self.described: dict[str, Any] = {}
        """What the program told of its run: hash of the configuration, version of the data, seeds."""
        self.metrics: deque[dict[str, Any]] = deque(maxlen=LAST)
        self.broken: list[str] = []
        """Why parts of the recorder do not work, as they were met."""
        self.reports = 0
        self.raised = False
        self._told_end = False
        self._plain: dict[str, str] = {}
        """Names that the program gave -> the same without secrets."""
        self.counted_elsewhere = False
        """Whether a framework or the program itself says when a step is done; then optimizers do not."""
        self.counted_by_program = False
        """Whether it is the program; then frameworks do not either."""
        limit = int(settings.rank_mb * (1 << 20))
        self.lines = Lines(os.path.join(settings.node, self.stem + layout.LINES), limit)
        self.ring = Ring(os.path.join(self.spool, self.stem + layout.RING), self._head())
        self.looker = Looker(self.ring)
        if not self.ring.shared:
            self.broken.append("no file for the heartbeat")
        self.signals = Signals(os.path.join(self.spool, self.stem), self.ring.signal, self._changed)
        self.hooks = Hooks(self.raised_in)
        self.listening: threading.Thread | None = None
        """The thread that answers the monitor; None where there is none."""

    def _head(self) -> layout.Head:
        who, worker = self.who, self.worker

        def known(number: int | None) -> int:
            return -1 if number is None else number

        return layout.Head(
            kind=layout.MAIN if worker is None else layout.WORKER,
            pid=self.pid,
            started=start_ticks(self.pid),
            rank=known(who.rank),
            local_rank=known(who.local_rank),
            world=known(who.world),
            attempt=who.attempt,
            worker=-1 if worker is None else worker[0],
            signal=0,
            ended=layout.RUNNING,
            parent=os.getppid(),
            wall=time.time_ns(),
            host=self.settings.host,
        )

    def start(self) -> None:
        """Writes the header and puts the hooks in."""
        self.signals.start(self.settings.signal, sigterm=self.worker is None)
        if self.worker is None:
            self.hooks.start()
            self.write(layout.HEADER, process_header(self.settings, self.who, self.cleaner, self.signals))

    def adopt(self, rank: int, world: int) -> None:
        """Takes the rank that was found later; the names of the files stay."""
        self.who = self.who._replace(rank=rank, world=world)
        self.ring.rehead(self._head()._replace(signal=self.signals.dump))
        self.write(layout.CHANGE, {"what": "rank", "now": rank, "world": world})

    # What the program tells

    def plain(self, name: str) -> str:
        """A name of the program's own (of a phase, of a thread) without secrets; looked through once, for it comes with each step."""
        known = self._plain.get(name)
        if known is None:
            # A short word is no secret; to look whether it is would take 50 ms, once, of the program's time.
            known = name if name.isalpha() and name.isascii() and len(name) < _SHORT else self.cleaner.text(name)
            if len(self._plain) < _MOST_NAMES:
                self._plain[name] = known
        return known

    def step(self, number: int | None) -> None:
        """A step was done."""
        self.ring.step(number)

    def told_steps(self) -> None:
        """The program counts its steps itself from now on: nobody else does."""
        self.counted_by_program = self.counted_elsewhere = True
        LIVE.owner = None
        self.looker.follow(threading.get_ident())

    def tell(self, **values: Any) -> None:
        """Takes metrics; the last ones are written with an exception."""
        told = {name: _value_now(value) for name, value in values.items()}
        self.metrics.append({"step": self.ring.step_number if self.ring.beats else None, **told})

    def describe(self, values: dict[str, Any]) -> None:
        """Takes facts of the run, which hold no secret any more; one that changes is written as a change."""
        from firstfault.recorder.describing import changes

        told = {str(k): v for k, v in values.items()}
        changed = changes(self.described, told)
        self.described.update(told)
        if changed:
            self.write(layout.CHANGE, {"changed": changed})

    def _changed(self, fields: dict[str, Any]) -> None:
        self.write(layout.CHANGE, fields)

    def write(self, kind: str, fields: dict[str, Any]) -> bool:
        """Appends a record with the fields that all have."""
        return self.lines.write(kind, {**self.place(), **fields})

    def place(self) -> dict[str, Any]:
        """The fields of every record: when, who, and where in the run."""
        who, ring = self.who, self.ring
        if self.worker is None:
            self.looker.look()
        read = layout.read_ring(bytes(ring.map))
        return {
            "time": layout.stamp(time.time()),
            "rank": who.rank,
            "local_rank": who.local_rank,
            "host": self.settings.host,
            "pid": self.pid,
            "attempt": who.attempt,
            "step": ring.step_number if ring.beats else None,
            "phase": (read.phase if read is not None else ring.said) or None,
        }

    # Ends

    def raised_in(self, error: BaseException, thread: str) -> None:
        """An exception that nobody caught."""
        self.report(error, thread=thread, caught=False)

    def report(self, error: BaseException, *, thread: str | None = None, caught: bool = True) -> None:
        """Writes an exception, once (again where it was caught and then ends the program); one that is a way to end is no error."""
        came: list[Exception] = []
        for _ in range(_TRIES):
            before = self.reports
            try:
                self._report(error, thread=thread, caught=caught)
            except Exception as problem:  # noqa: BLE001 - the program's own error is what matters
                if not by_handler(problem):
                    self.fault(problem)
                    break
                # A handler of the program came between, as torch's does when a worker of a loader is killed.
                came.append(problem)
                if self.reports == before:
                    continue
            break
        if caught and came:
            raise came[-1]
        for other in came:
            with contextlib.suppress(Exception):
                self._report(other, thread=thread, caught=False)

    def _report(self, error: BaseException, *, thread: str | None, caught: bool) -> None:
        # A forked child that kept our hook behind one of its own must not write as its parent.
        if os.getpid() != self.pid:
            return
        if is_an_end(error):
            if isinstance(error, KeyboardInterrupt) and not caught and thread == "MainThread" and self.worker is None:
                # Somebody ends it: where it was then is what matters, not the way out.
                self.looker.met(error.__traceback__)
            return
        main = not caught and thread == "MainThread"
        if main:
            self.raised = True
            if self.worker is None:
                self.looker.met(error.__traceback__)
            self.ring.ended(layout.RAISED)
        elif vars(error).get(_TOLD) == self.pid or self.reports >= MOST_REPORTS:
            return
        self.write(
            layout.EXCEPTION,
            {
                **described(error, self.cleaner),
                "caught": caught,
                "thread": self.plain(thread or threading.current_thread().name),
                # Such a thread takes the run with it, though the program may end with code 0.
                **({"trains": True} if not caught and not main and self.looker.trains() else {}),
                "steps": self._last_steps(),
                "metrics": self.cleaner.value(list(self.metrics)),
                "run": self.described,
                "loader": self._loader(),
                **_lost_workers(),
            },
        )
        self.reports += 1
        vars(error)[_TOLD] = self.pid

    def _last_steps(self) -> list[list[float]]:
        """The last steps with the seconds before now."""
        found = layout.read_ring(bytes(self.ring.map))
        if found is None:
            return []
        now, offset = time.monotonic_ns(), (found.step or 0) - found.beats
        return [[n + offset, round((now - t) / 1e9, 3)] for n, t in found.history[-LAST:]]

    def _loader(self) -> dict[str, Any] | None:
        words = self.ring.words
        if not words[layout.GIVEN]:
            return None
        return {"batches": words[layout.BATCHES], "waited_s": round(words[layout.WAITED] / 1e9, 3)}

    def end(self) -> None:
        """The interpreter ends."""
        if os.getpid() != self.pid:
            return
        self.signals.leave()
        for _ in range(_TRIES):
            try:
                self._end()
            except Exception as problem:  # noqa: BLE001 - nothing can be done any more
                if by_handler(problem):
                    continue
            return

    def _end(self) -> None:
        if not self.raised:
            self._missed()
        if not self.raised:
            self.ring.ended(layout.ENDED)
        if self.worker is None:
            if not self._told_end:
                self._told_end = self.write(
                    layout.END,
                    {
                        "how": "raised" if self.raised else "ended",
                        **self._last_words(),
                        **_lost_workers(),
                        "removed": self.cleaner.removed,
                        "not_written": self.lines.dropped,
                        "broken": self.broken,
                    },
                )
            gather(self.spool, self.settings.node, self.settings.host, self.cleaner, only=self.pid)
        self.lines.close()

    def _last_words(self) -> dict[str, Any]:
        """The text of `sys.exit` where that was the end, as far as this process knows."""
        said = None if self.raised else self.hooks.said
        return {} if said is None else {"said": self.cleaner.text(str(said)[:MOST_SAID])}

    def _missed(self) -> None:
        """Writes what ended the program where the program's own hook stood in the place of ours: Python keeps it."""
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        if isinstance(error, BaseException):
            self.raised_in(error, "MainThread")

    def stop(self) -> None:
        """Takes all hooks out; files stay."""
        self.hooks.stop()
        self.signals.stop()
        stop_listening(self)
        self.end()
        LIVE.leave()
        with contextlib.suppress(OSError):
            os.unlink(self.ring.path)

    def fault(self, problem: BaseException) -> None:
        """Something of ours failed: it is noted once a kind, and the program goes on."""
        text = f"{type(problem).__name__}: {problem}"[:300]
        if text in self.broken or len(self.broken) >= 20:
            return
        self.broken.append(text)
        with contextlib.suppress(Exception):
            self.write(layout.NOTE, {"broken": self.cleaner.text(text)})


def _lost_workers() -> dict[str, Any]:
    """Workers of loaders that ended badly, as a field; nothing where none did.

    Who reads from a worker that is being killed sees its connection break, and says only that.
    """
    found: list[dict[str, Any]] = []
    if asked.workers_lost is not None:
        with contextlib.suppress(Exception):
            found = asked.workers_lost()
    return {"lost_workers": found} if found else {}


def _safe(settings: Settings) -> bool:
    """Whether nobody else can put rings, answers and locks into the spool; a local folder that the user named is the user's business."""
    return is_ours(settings.spool) and (settings.local != local_folder() or is_ours(settings.local))


def _value_now(value: Any) -> Any:
    """A metric as a number or text of its own: a tensor that is kept keeps its graph, and one on a device may block whoever reads it."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    device = getattr(value, "device", None)
    if getattr(device, "type", device) not in {None, "cpu"}:
        return f"<{type(value).__name__} on {device}>"
    try:
        return float(value)
    except Exception:  # noqa: BLE001 - no number: then its text, cut where it is long
        return str(value)[:200]


def in_child(recorder: Recorder) -> None:
    """Makes a process that was just forked a stranger to the recorder of its parent."""
    LIVE.leave()
    recorder.signals.forget()
    if sys.excepthook == recorder.hooks._main:  # noqa: SLF001 - of this room
        recorder.hooks.stop()
