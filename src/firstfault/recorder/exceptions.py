"""What ends a program from inside: exceptions of the main thread and of others, each as one record, then the hook before ours."""

from __future__ import annotations

import builtins
import contextlib
import functools
import signal
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any, NoReturn

from firstfault.recorder import format as layout

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from firstfault.recorder.clean import Cleaner

MOST_FRAMES = 60
MOST_LINKS = 8
"""Exceptions of one chain that are written."""
_GROUP: tuple[type[BaseException], ...] = tuple(filter(None, [getattr(builtins, "BaseExceptionGroup", None)]))
"""From Python 3.11 on."""
_ENDS = (SystemExit, KeyboardInterrupt, GeneratorExit)


class Hooks:
    """The hooks that we put before those of the program."""

    def __init__(self, record: Callable[[BaseException, str], None]) -> None:
        self._record = record
        """Called with the exception and the name of the thread; it does not raise."""
        self._before: Any = None
        self._before_thread: Any = None
        self._exit: Any = None
        self._ours: Any = None
        self.said: object = None
        """The text of the last `sys.exit` of the main thread; whether it ended the program its exit code tells."""

    def start(self) -> None:
        """Puts them in."""
        self._put_exit()
        self._before, sys.excepthook = sys.excepthook, self._main
        self._before_thread, threading.excepthook = threading.excepthook, self._thread

    def _put_exit(self) -> None:
        """Takes the text with which a program ends: no hook is called for it, and only the log has it."""
        before = self._exit = sys.exit

        def leave(status: Any = None, /) -> NoReturn:
            main = threading.current_thread() is threading.main_thread()
            self.said = status if main and _is_said(status) else None
            before(status)
            raise SystemExit(status)

        functools.update_wrapper(leave, before)
        self._ours = leave
        sys.exit = leave

    def stop(self) -> None:
        """Takes them out, where nobody stands before them now."""
        if sys.exit is self._ours:
            sys.exit = self._exit
        if sys.excepthook == self._main:
            sys.excepthook = self._before
        if threading.excepthook == self._thread:
            threading.excepthook = self._before_thread

    def _main(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        self._record(error, "MainThread")
        self._before(kind, error, trace)

    def _thread(self, args: Any) -> None:
        if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
            self._record(args.exc_value, "thread" if args.thread is None else args.thread.name)
        self._before_thread(args)


def described(error: BaseException, cleaner: Cleaner) -> dict[str, Any]:
    """An exception with its chain, oldest first, without secrets.

    Returns:
        `type`, `message`, `traceback` (frames of the last one, outermost first) and `chain` (those before it).
    """
    chain = _chain(error)
    last = single(chain[-1], cleaner)
    members = [{**single(e, cleaner), "member": True} for e in _members(error)]
    return {**last, "chain": [*members, *(single(e, cleaner) for e in chain[:-1])]}


def _members(error: BaseException) -> list[BaseException]:
    """The exceptions that a group holds, in groups within it too; none where it is none."""
    found: list[BaseException] = []
    open_ = [error]
    while open_ and len(found) < MOST_LINKS:
        now = open_.pop(0)
        inner = getattr(now, "exceptions", None)
        if isinstance(now, _GROUP) and isinstance(inner, tuple):
            open_ = [*inner, *open_]
        elif now is not error:
            found.append(now)
    return found


def _chain(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    now: BaseException | None = error
    while now is not None and len(found) < MOST_LINKS and now not in found:
        found.append(now)
        now = now.__cause__ if now.__cause__ is not None or now.__suppress_context__ else now.__context__
    return found[::-1]


def single(error: BaseException, cleaner: Cleaner) -> dict[str, Any]:
    """One exception of a chain, without secrets: `type`, `message` and `traceback`, outermost frame first."""
    kind = type(error)
    name = (
        kind.__qualname__ if kind.__module__ in {"builtins", "__main__"} else f"{kind.__module__}.{kind.__qualname__}"
    )
    try:
        message = str(error)
    except Exception as problem:
        if by_handler(problem):
            raise
        message = "<no text>"  # a program's own class may do anything
    frames = []
    # Without the text of the lines: it may hold what nobody may see, and the file tells it.
    for frame, line in list(traceback.walk_tb(error.__traceback__))[-MOST_FRAMES:]:
        code = frame.f_code
        frames.append({"file": cleaner.text(code.co_filename), "line": line, "function": code.co_name})
    told = cleaner.text(message)
    inner = layout.original(told)
    # Before the message, whose many lines a report cuts.
    return {"type": name, **({"original": inner} if inner else {}), "message": told, "traceback": frames}


def by_handler(error: BaseException) -> bool:
    """Whether a handler that the program has for a signal raised it.

    Such a handler runs between any two instructions of the main thread, also in code of ours, and what it raises is the
    program's: torch tells so of a killed worker of a loader.
    """
    handlers = set()
    for number in signal.valid_signals():
        with contextlib.suppress(ValueError, OSError):
            handler = signal.getsignal(number)
            handler = getattr(handler, "func", handler)  # what `functools.partial` wraps
            handlers.add(getattr(handler, "__code__", None))
    handlers.discard(None)
    return any(frame.f_code in handlers for frame, _ in traceback.walk_tb(error.__traceback__))


def is_an_end(error: BaseException) -> bool:
    """Whether an exception is a way to end a program and no error."""
    return isinstance(error, _ENDS)


def _is_said(code: object) -> bool:
    """Whether a status of `sys.exit` is a message and no number."""
    return code is not None and not isinstance(code, int)
