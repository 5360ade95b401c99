"""Stacks by signals: on demand, at a fatal signal, and at SIGTERM. The program's own handlers go on working.

All three are written from C by `faulthandler`, so also for a process that holds the interpreter's lock. Must not signal anybody.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from firstfault.recorder import format as layout
from firstfault.recorder.files import open_plain

if TYPE_CHECKING:
    from collections.abc import Callable

_DEFAULTS = (signal.SIG_DFL, None)


_original: Callable[..., Any] = signal.signal
"""What the name stood for before we came."""
_active: Signals | None = None
"""Whose registrations give way to handlers of the program; None: nobody's."""


def _signal(signalnum: Any, handler: Any) -> Any:
    """Stands for `signal.signal`: a handler that the program sets comes in the place of ours, or behind it."""
    active = _active
    held = None if active is None else active.give_way(signalnum)
    try:
        return _original(signalnum, handler)
    finally:
        if active is not None and held is not None:
            active.again(int(signalnum), held, handler)


class _Watched(NamedTuple):
    """A signal at which stacks are written, with the descriptor that they go to."""

    descriptor: int
    chain: bool


class Signals:
    """What was registered for this process; `signal.signal` is watched, so that the program may take any signal later."""

    def __init__(self, stem: str, tell: Callable[[int], None], note: Callable[[dict[str, Any]], None]) -> None:
        self._stem = stem
        self._tell = tell
        """Called with the dump signal, 0 for none."""
        self._note = note
        """Called with what changed."""
        self._watched: dict[int, _Watched] = {}
        self._descriptors: list[int] = []
        self.dump = 0
        self.fatal = False
        """Whether fatal signals are ours to write: not where the program has `faulthandler` on."""

    def start(self, wanted: str, *, sigterm: bool = True) -> None:
        """Registers everything that is free.

        Args:
            wanted: name or number of the dump signal; empty: chosen.
            sigterm: whether SIGTERM leaves stacks too.
        """
        if not faulthandler.is_enabled():
            descriptor = self._open(layout.FATAL)
            if descriptor >= 0:
                faulthandler.enable(file=descriptor, all_threads=True)
                self.fatal = True
        self.choose(wanted)
        if sigterm:
            self._register(signal.SIGTERM, layout.SIGTERM, chain=True)
        self._watch()

    def choose(self, wanted: str = "") -> None:
        """Chooses the dump signal among the free ones and registers it."""
        self.dump = 0
        for number in _candidates(wanted):
            if number not in self._watched and _free(number) and self._register(number, layout.STACKS, chain=False):
                self.dump = number
                break
        self._tell(self.dump)

    def leave(self) -> None:
        """The interpreter ends: it takes our registration away before it is gone, and a dump signal must not end the program then.

        What holds from then on is what held when it was registered, so that it is registered anew over being ignored.
        """
        held = self._watched.get(self.dump)
        if held is None:
            return
        with contextlib.suppress(OSError, RuntimeError, ValueError):
            faulthandler.unregister(self.dump)
            _original(self.dump, signal.SIG_IGN)
            faulthandler.register(self.dump, file=held.descriptor, all_threads=False, chain=False)

    def stop(self) -> None:
        """Gives everything back."""
        self.forget()
        if signal.signal is _signal:
            signal.signal = _original
        for descriptor in self._descriptors:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._descriptors.clear()

    def forget(self) -> None:
        """Takes the registrations away; what was there before holds again. Fit for a process that was just forked."""
        global _active  # noqa: PLW0603 - the one name of the one module
        if _active is self:
            _active = None
        for number in list(self._watched):
            with contextlib.suppress(OSError, RuntimeError, ValueError):
                faulthandler.unregister(number)
        self._watched.clear()
        if self.fatal:
            faulthandler.disable()
            self.fatal = False

    def _open(self, end: str) -> int:
        descriptor = open_plain(self._stem + end)
        if descriptor >= 0:
            self._descriptors.append(descriptor)
        return descriptor

    def _register(self, number: int, end: str, *, chain: bool) -> bool:
        if chain and signal.getsignal(number) is signal.SIG_IGN:
            return False  # the program does not want to hear of it
        descriptor = self._open(end)
        if descriptor < 0:
            return False
        try:
            # The main thread alone: to walk another one that runs meanwhile may crash. All of them are the listener's to tell.
            faulthandler.register(number, file=descriptor, all_threads=False, chain=chain)
        except (OSError, RuntimeError, ValueError):
            return False
        self._watched[number] = _Watched(descriptor, chain)
        return True

    def _watch(self) -> None:
        global _active, _original  # noqa: PLW0603 - the one name of the one module
        _active = self
        if signal.signal is not _signal:
            _original = signal.signal
            signal.signal = _signal

    def give_way(self, signalnum: Any) -> _Watched | None:
        """Takes our registration of a signal away before the program's handler comes, else it would be lost with ours."""
        try:
            if threading.current_thread() is not threading.main_thread():
                return None  # where the program may set none either
            held = self._watched.pop(int(signalnum), None)
            if held is not None:
                faulthandler.unregister(int(signalnum))
        except Exception:  # noqa: BLE001 - never into the program
            return None
        return held

    def again(self, number: int, held: _Watched, handler: Any) -> None:
        """Registers anew behind or beside the program's handler, or moves the dump to another signal."""
        try:
            if held.chain:
                if handler is not signal.SIG_IGN:
                    faulthandler.register(number, file=held.descriptor, all_threads=False, chain=True)
                    self._watched[number] = held
            elif handler in _DEFAULTS:
                faulthandler.register(number, file=held.descriptor, all_threads=False, chain=False)
                self._watched[number] = held
            else:
                self.choose()
                self._note({"what": "dump signal", "was": number, "now": self.dump, "why": "the program took it"})
        except Exception:  # noqa: BLE001 - never into the program
            return


def _candidates(wanted: str) -> list[int]:
    """Signals to try, the best first: under Slurm SIGUSR1 and SIGUSR2 are what a job is warned by."""
    found: list[int] = []
    if wanted:
        with contextlib.suppress(ValueError):
            found.append(int(wanted))
        with contextlib.suppress(AttributeError):
            found.append(int(getattr(signal, wanted if wanted.startswith("SIG") else f"SIG{wanted}")))
    real_time = [int(signal.SIGRTMIN) + n for n in (7, 9, 11, 13)]
    plain = [int(signal.SIGUSR1)]
    found += real_time if "SLURM_JOB_ID" in os.environ else plain + real_time
    return found


def _free(number: int) -> bool:
    """Whether nobody handles a signal: neither through Python nor in C."""
    try:
        if signal.getsignal(number) not in _DEFAULTS:
            return False
        with open("/proc/self/status", "rb") as file:
            for line in file:
                if line.startswith((b"SigCgt:", b"SigIgn:")) and int(line.split()[1], 16) >> (number - 1) & 1:
                    return False
    except (OSError, ValueError):
        return False
    return True
