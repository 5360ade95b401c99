"""Shares out independent pieces of work between this process and copies of it; knows nothing of the work.

A copy that dies costs no answer: its pieces are done here. The results are the same however many processes there are.
"""

from __future__ import annotations

import signal
import sys
import threading
import warnings
from typing import TYPE_CHECKING, Any, TypeVar

from firstfault.pipelines.transport import BrokenMessageError, Transport

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

T = TypeVar("T")


def shared(work: Callable[[int], T], pieces: int, workers: int, kind: Any) -> list[T]:
    """The results of all pieces, in order.

    Args:
        work: does the piece of a number, counted from 0.
        pieces: number of pieces.
        workers: number of processes, this one included; copies need a system that can fork.
        kind: type of a result; see `firstfault.pipelines.transport`.
    """
    number = min(workers, pieces)
    if number < 2 or sys.platform != "linux" or threading.active_count() > 1:
        return [work(piece) for piece in range(pieces)]
    import multiprocessing

    context = multiprocessing.get_context("fork")
    transport: Transport[T] = Transport(kind)
    others = []
    found: dict[int, T] = {}
    try:
        for first in range(1, number):
            mine, theirs = context.Pipe(duplex=False)
            own = range(first, pieces, number)
            worker = context.Process(target=_serve, args=(theirs, work, own, transport), daemon=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # threads of numpy's libraries are idle here
                worker.start()
            theirs.close()
            others.append((worker, mine))
        readers = [threading.Thread(target=_receive, args=(pipe, found, transport), daemon=True) for _, pipe in others]
        for reader in readers:
            reader.start()
        for piece in range(0, pieces, number):
            found[piece] = work(piece)
        for reader in readers:
            reader.join()
    finally:
        for worker, pipe in others:
            pipe.close()
            worker.terminate()
            worker.join()
    return [found[piece] if piece in found else work(piece) for piece in range(pieces)]


def _receive(pipe: Connection, found: dict[int, Any], transport: Transport[Any]) -> None:
    """Takes each result as it comes, so that a copy need not keep what it has done; until the pipe is closed."""
    try:
        while True:
            piece, result = transport.unpack(pipe.recv_bytes())
            found[piece] = result
    except (EOFError, OSError, BrokenMessageError):
        return


def _serve(pipe: Connection, work: Callable[[int], Any], pieces: range, transport: Transport[Any]) -> None:
    """What a copy does; where a piece fails it sends no more, and the error comes up in the process that asked."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C and ends the copies
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        for piece in pieces:
            pipe.send_bytes(transport.pack(piece, work(piece)))
    except Exception:  # noqa: BLE001 - see above
        return
