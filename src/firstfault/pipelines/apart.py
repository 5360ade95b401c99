"""Does pieces of work in copies of this process that may hang, grow or die: such a piece is lost, and nothing else.

For input that may be made to harm; knows nothing of the work. Where no copies can be made it says so, and the caller has
to do the work in a safer, slower way.
"""

from __future__ import annotations

import gc
import signal
import sys
import threading
import warnings
from multiprocessing import connection
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from firstfault.pipelines.transport import BrokenMessageError, Transport

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkProcess

T = TypeVar("T")

SECONDS = 60.0
"""Longest time that one piece may take."""
MEMORY = 4 << 30
"""Bytes by which a copy may grow."""


def possible() -> bool:
    """Whether copies can be made: on Linux, in a process without threads of Python's."""
    return sys.platform == "linux" and threading.active_count() == 1


class _Copy(Generic[T]):
    """One copy with the pieces that it still has to do, in order."""

    def __init__(
        self, work: Callable[[int], T], pieces: Sequence[int], seconds: float, transport: Transport[T]
    ) -> None:
        import multiprocessing

        context = multiprocessing.get_context("fork")
        self.left = list(pieces)
        self.until = monotonic() + seconds
        self.pipe, theirs = context.Pipe(duplex=False)
        self.process: ForkProcess = context.Process(
            target=_serve, args=(theirs, work, tuple(pieces), transport), daemon=True
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads of numpy's libraries are idle here
            self.process.start()
        theirs.close()

    def end(self) -> None:
        """Ends the copy, whatever it does."""
        self.pipe.close()
        self.process.kill()
        self.process.join()


def apart(
    work: Callable[[int], T],
    pieces: int,
    workers: int,
    kind: Any,
    *,
    seconds: float = SECONDS,
    keep: Callable[[T], T] = lambda result: result,
) -> list[T | None]:
    """The results of all pieces, in order; None for a piece whose copy died or took too long.

    Args:
        work: does the piece of a number, counted from 0.
        pieces: number of pieces.
        workers: number of copies at a time.
        kind: type of a result; see `firstfault.pipelines.transport`.
        seconds: longest time that one piece may take.
        keep: makes of a result what is kept of it, as soon as it has come; parts that results share come one by one.
    """
    found: dict[int, T] = {}
    number = max(1, min(workers, pieces))
    transport: Transport[T] = Transport(kind)
    each = [range(first, pieces, number) for first in range(number)] if pieces else []
    copies = [_Copy(work, own, seconds, transport) for own in each]
    try:
        while copies:
            ready = connection.wait(
                [c.pipe for c in copies], timeout=max(0.0, min(c.until for c in copies) - monotonic())
            )
            for copy in list(copies):
                if copy.pipe in ready and _took(copy, found, transport, keep):
                    copy.until = monotonic() + seconds
                    if copy.left:
                        continue
                elif copy.pipe not in ready and monotonic() < copy.until:
                    continue
                copies.remove(copy)
                copy.end()
                if len(copy.left) > 1:  # the piece at which it died is lost, the rest is not
                    copies.append(_Copy(work, copy.left[1:], seconds, transport))
    finally:
        for copy in copies:
            copy.end()
    return [found.get(piece) for piece in range(pieces)]


def _took(copy: _Copy[T], found: dict[int, T], transport: Transport[T], keep: Callable[[T], T]) -> bool:
    try:
        piece, result = transport.unpack(copy.pipe.recv_bytes())
    except (EOFError, OSError, BrokenMessageError):
        return False
    if piece != copy.left[0]:
        return False
    found[piece] = keep(result)
    copy.left.remove(piece)
    return True


def _serve(pipe: Connection, work: Callable[[int], Any], pieces: Sequence[int], transport: Transport[Any]) -> None:
    """What a copy does; where a piece fails it ends there, and the piece counts as lost."""
    import resource

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C and ends the copies
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    own, hard = _address_space() + MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (own if hard == resource.RLIM_INFINITY else min(own, hard), hard))
    gc.disable()  # what is read forms no cycles, and looking for some doubles the time
    for piece in pieces:
        try:
            pipe.send_bytes(transport.pack(piece, work(piece)))
        except Exception:  # noqa: BLE001 - the parent counts the piece as lost
            return


def _address_space() -> int:
    """Bytes of address space in use; none known where the system does not tell."""
    import resource

    try:
        told = Path("/proc/self/statm").read_text(encoding="ascii")
        return int(told.split()[0]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return 0
