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
    from collections.abc import Callable, Iterable
    from multiprocessing.connection import Connection

T = TypeVar("T")

_PIPE = 1 << 20
"""Bytes that a pipe should hold."""
_SET_PIPE_SIZE = 1031
"""`F_SETPIPE_SZ` of Linux, which Python 3.10 does not name everywhere."""


def can_share(pieces: int, workers: int) -> bool:
    """Whether pieces would be shared out here: copies need a system that can fork, and a process without threads."""
    return min(workers, pieces) > 1 and sys.platform == "linux" and threading.active_count() == 1


def shared(
    work: Callable[[int], T],
    pieces: int,
    workers: int,
    kind: Any,
    *,
    instead: Callable[[int], T] | None = None,
    done: Callable[[T], None] | None = None,
    keep: Callable[[T], T] = lambda result: result,
) -> list[T]:
    """The results of all pieces, in order.

    Args:
        work: does the piece of a number, counted from 0.
        pieces: number of pieces.
        workers: number of processes, this one included; copies need a system that can fork.
        kind: type of a result; see `firstfault.pipelines.transport`.
        instead: what stands for a piece that was not done when an interrupt from the keyboard came; without it the
            interrupt goes on to who called.
        done: called here with each result, some time after it came.
        keep: makes of a result what is kept of it, as soon as it has come; two may come at once.
    """
    found: dict[int, T] = {}
    try:
        _share(work, pieces, min(workers, pieces) if can_share(pieces, workers) else 1, kind, found, done, keep)
        for piece in range(pieces):
            if piece not in found:
                found[piece] = keep(work(piece))
    except KeyboardInterrupt:
        if instead is None:
            raise
        for piece in range(pieces):
            if piece not in found:
                found[piece] = instead(piece)
    return [found[piece] for piece in range(pieces)]


def _share(  # noqa: PLR0917 - as `shared`
    work: Callable[[int], T],
    pieces: int,
    number: int,
    kind: Any,
    found: dict[int, T],
    done: Callable[[T], None] | None,
    keep: Callable[[T], T],
) -> None:
    """Does the pieces in a number of processes; those of a copy that dies are left out."""
    if number < 2:
        _own(work, range(pieces), found, [], done, keep)
        return
    import multiprocessing

    context = multiprocessing.get_context("fork")
    transport: Transport[T] = Transport(kind)
    others: list[tuple[Any, Connection]] = []
    readers: list[threading.Thread] = []
    arrived: list[int] = []  # numbers of the pieces that are done, as they come
    try:
        for first in range(1, number):
            mine, theirs = context.Pipe(duplex=False)
            _widen(theirs)
            own = range(first, pieces, number)
            worker = context.Process(target=_serve, args=(theirs, work, own, transport), daemon=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # threads of numpy's libraries are idle here
                worker.start()
            theirs.close()
            others.append((worker, mine))
        for _, pipe in others:
            reader = threading.Thread(target=_receive, args=(pipe, found, arrived, transport, keep), daemon=True)
            reader.start()
            readers.append(reader)
        _own(work, range(0, pieces, number), found, arrived, done, keep)
        for reader in readers:
            reader.join()
    finally:
        for worker, _ in others:
            worker.terminate()
            worker.join()
        for reader in readers:
            reader.join()  # the pipe of a copy that is gone has an end
        for _, pipe in others:
            pipe.close()


def _own(  # noqa: PLR0917 - as `shared`
    work: Callable[[int], T],
    pieces: Iterable[int],
    found: dict[int, T],
    arrived: list[int],
    done: Callable[[T], None] | None,
    keep: Callable[[T], T],
) -> None:
    """Does the pieces of this process, and tells of all that are done meanwhile."""
    told = 0
    for piece in pieces:
        found[piece] = keep(work(piece))
        arrived.append(piece)
        while done is not None and told < len(arrived):
            done(found[arrived[told]])
            told += 1


def _widen(pipe: Connection) -> None:
    """Lets a copy write its next results while this process is busy with its own pieces."""
    import fcntl

    try:
        fcntl.fcntl(pipe.fileno(), _SET_PIPE_SIZE, _PIPE)
    except OSError:
        return  # more than this user may have: then a copy waits now and then


def _receive(
    pipe: Connection,
    found: dict[int, T],
    arrived: list[int],
    transport: Transport[T],
    keep: Callable[[T], T],
) -> None:
    """Takes each result as it comes, so that a copy need not keep what it has done; until the pipe is closed."""
    try:
        while True:
            piece, result = transport.unpack(pipe.recv_bytes())
            found[piece] = keep(result)
            arrived.append(piece)
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
