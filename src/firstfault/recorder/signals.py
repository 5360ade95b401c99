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
        self._original: Callable[..., Any] | None = None
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

    def stop(self) -> None:
        """Gives everything back."""
        self.forget()
        for descriptor in self._descriptors:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._descriptors.clear()

    def forget(self) -> None:
        """Takes the registrations away; what was there before holds again. Fit for a process that was just forked."""
        if self._original is not None and signal.signal is self._patched:
            signal.signal = self._original
        self._original = None
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
            faulthandler.register(number, file=descriptor, all_threads=True, chain=chain)
        except (OSError, RuntimeError, ValueError):
            return False
        self._watched[number] = _Watched(descriptor, chain)
        return True

    def _watch(self) -> None:
        """Watches `signal.signal`: a handler that the program sets comes in the place of ours, or behind it."""
        self._original = signal.signal
        signal.signal = self._patched

    def _patched(self, signalnum: int, handler: Any) -> Any:
        original = self._original
        assert original is not None
        held = self._watched.get(int(signalnum)) if threading.current_thread() is threading.main_thread() else None
        if held is None:
            return original(signalnum, handler)
        number = int(signalnum)
        # Ours goes first, else Python would keep it as what was there before.
        faulthandler.unregister(number)
        del self._watched[number]
        try:
            return original(signalnum, handler)
        finally:
            self._again(number, held, handler)

    def _again(self, number: int, held: _Watched, handler: Any) -> None:
        try:
            if held.chain:
                if handler is not signal.SIG_IGN:
                    faulthandler.register(number, file=held.descriptor, all_threads=True, chain=True)
                    self._watched[number] = held
            elif handler in _DEFAULTS:
                faulthandler.register(number, file=held.descriptor, all_threads=True, chain=False)
                self._watched[number] = held
            else:
                self.choose()
                self._note({"what": "dump signal", "was": number, "now": self.dump, "why": "the program took it"})
        except (OSError, RuntimeError, ValueError):
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
