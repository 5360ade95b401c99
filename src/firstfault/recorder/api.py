"""What a program calls. Each function catches everything of ours: the recorder is never the reason why a run ends.

What a handler of a signal raises meanwhile is the program's own, and is passed on.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import logging
    from types import TracebackType

    from firstfault.recorder.checks import Check
    from firstfault.recorder.core import Recorder
    from firstfault.recorder.identity import Identity

_now: Recorder | None = None
"""The recorder of this process; None: off."""
_prepared = False
OWNER = "FIRSTFAULT_RECORD_OWNER"
"""Set in the environment of whatever a recording rank starts: such a child inherits its rank and is not it.

Its process id and its `RANK`: a child that has another one was given it by a launcher below us."""


def start(folder: str | None = None, *, rank: int | None = None, world: int | None = None) -> bool:
    """Starts recording; a second call changes nothing.

    Args:
        folder: the shared folder of the job; `$FIRSTFAULT_RECORD_DIR`, else `firstfault-record`, where None.
        rank: global rank, where no launcher says it.
        world: number of ranks, likewise.

    Returns:
        Whether it records now.
    """
    global _now  # noqa: PLW0603 - one recorder a process, by design
    if _now is not None:
        return True
    try:
        from firstfault.recorder.core import Recorder
        from firstfault.recorder.identity import identify
        from firstfault.recorder.joining import join, tell
        from firstfault.recorder.settings import from_environment

        who = identify()
        who = who._replace(rank=who.rank if rank is None else rank, world=who.world if world is None else world)
        recorder = Recorder(join(from_environment(folder), who), who)
        _now = recorder
        recorder.start()
        _prepare_process()
        tell(recorder.settings, recorder.pid)
        if who.rank is not None:
            os.environ[OWNER] = f"{recorder.pid}:{os.environ.get('RANK', '')}"
        _join(recorder)
    except Exception:  # noqa: BLE001 - never into the program
        return _now is not None
    return True


def _prepare_process() -> None:
    """What is done once a process: the end, forks."""
    global _prepared  # noqa: PLW0603 - once a process
    if not _prepared:
        _prepared = True
        atexit.register(_at_exit)
        os.register_at_fork(after_in_child=_forked)


def _join(recorder: Recorder) -> None:
    """Everything around the process: its listener, the hooks into torch, the monitor of the node."""
    from firstfault.recorder import listener, monitoring
    from firstfault.recorder.hooks import install

    for part in (listener.start, install, monitoring.ensure):
        try:
            part(recorder)
        except Exception as problem:  # noqa: BLE001 - each part alone may fail
            recorder.fault(problem)


def started() -> bool:
    """Whether this process records."""
    return _now is not None


def stop() -> None:
    """Takes all hooks out and closes the files of this process."""
    global _now
    recorder, _now = _now, None
    if recorder is not None:
        with contextlib.suppress(Exception):
            recorder.stop()


def _failed(recorder: Recorder, problem: Exception) -> None:
    """Something of ours failed, and the program goes on; what a handler of its own raised in our code goes on to it."""
    from firstfault.recorder.exceptions import by_handler

    if by_handler(problem):
        raise problem
    recorder.fault(problem)


def step(number: int | None = None) -> None:
    """Says that a training step was done.

    Args:
        number: of the step; one more than the last where None. A torch optimizer says it by itself, until the program calls this.
    """
    recorder = _now
    if recorder is None:
        return
    try:
        if not recorder.counted_by_program:
            recorder.told_steps()
        recorder.step(number)
    except Exception as problem:  # noqa: BLE001 - never into the program
        _failed(recorder, problem)


class phase:  # noqa: N801 - it reads like a function, and is one
    """Says in which phase the program is now: `phase("checkpoint")`, or `with phase("checkpoint"):` for a stretch of it.

    Args:
        name: `data`, `forward`, `backward`, `optimizer`, `checkpoint`, `evaluation`, or a word of the program's own.
    """

    __slots__ = ("_before", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._before = "", 0
        recorder = _now
        if recorder is not None:
            try:
                from firstfault.recorder.looking import mark

                self._before = recorder.ring.begin(recorder.plain(name), mark(sys._getframe(1)))  # noqa: SLF001 - who says it
            except Exception as problem:  # noqa: BLE001 - never into the program
                _failed(recorder, problem)

    def __enter__(self) -> phase:  # noqa: PYI034 - a class that reads like a function
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        recorder = _now
        if recorder is not None:
            try:
                recorder.ring.leave(self._before, failed=error is not None)
            except Exception as problem:  # noqa: BLE001 - never into the program
                _failed(recorder, problem)


def item(what: object, number: int = -1) -> None:
    """Says what is being read now: the path or key of a sample; `None` when it is done.

    Args:
        what: path or key; secrets in it are taken out.
        number: of its batch.
    """
    recorder = _now
    if recorder is None or recorder.settings.items == "none":
        return
    try:
        from firstfault.recorder.clean import plain_item

        recorder.ring.item("" if what is None else plain_item(str(what)), number)
    except Exception as problem:  # noqa: BLE001 - never into the program
        _failed(recorder, problem)


def metrics(**values: Any) -> None:
    """Takes the latest metrics (`loss=…`); the last ones are written where an exception ends the program."""
    recorder = _now
    if recorder is None:
        return
    try:
        recorder.tell(**values)
    except Exception as problem:  # noqa: BLE001 - never into the program
        _failed(recorder, problem)


def describe(**facts: Any) -> None:
    """Says what this run is: `config=…` (written as its hash and its cleaned values), `data="v3"`, `seeds={…}`; changes are kept."""
    recorder = _now
    if recorder is None:
        return
    try:
        from firstfault.recorder.describing import hashed

        recorder.describe(hashed(facts, recorder.cleaner.value))
    except Exception as problem:  # noqa: BLE001 - never into the program
        _failed(recorder, problem)


def report(error: BaseException) -> None:
    """Writes an exception that the program caught and lives with."""
    recorder = _now
    if recorder is not None:
        recorder.report(error)


def handler(level: int = 20) -> logging.Handler:
    """A handler for `logging` that writes into this process's events and folds lines that repeat.

    Args:
        level: the lowest that is written; that of `logging.INFO` unless given.
    """
    from firstfault.recorder.logs import RecordHandler

    def write(fields: dict[str, Any]) -> None:
        recorder = _now
        if recorder is not None:
            from firstfault.recorder.exceptions import described
            from firstfault.recorder.format import LOG, NOTE

            error = fields.pop("error", None)
            clean = {k: recorder.cleaner.text(v) if isinstance(v, str) else v for k, v in fields.items()}
            if error is not None:
                clean["exception"] = described(error, recorder.cleaner)
            recorder.write(NOTE if "folded" in clean else LOG, clean)

    return RecordHandler(write, level)


def check(folder: str | None = None) -> list[Check]:
    """Tries what the recorder needs of this machine by doing it: folders, signals, stacks, pidfd, /proc of another process.

    Args:
        folder: as for `start`.

    Returns:
        One entry a need: its name, whether it is met, and what it means where not.
    """
    from firstfault.recorder.checks import run_checks

    return run_checks(folder)


def current() -> Recorder | None:
    """The recorder of this process, for hooks of this room."""
    return _now


def restart(who: Identity, worker: tuple[int, int] | None = None) -> Recorder | None:
    """Opens a recorder for a process that was forked or spawned from one that records; for hooks of this room.

    Args:
        who: of its rank.
        worker: number of the loader's worker, and the process id of its rank.
    """
    global _now  # noqa: PLW0603 - one recorder a process
    try:
        from firstfault.recorder.core import Recorder
        from firstfault.recorder.joining import inherited
        from firstfault.recorder.settings import from_environment

        settings, above = from_environment(), inherited()
        if above is not None:
            settings = settings._replace(run=above[0], folder=above[1])
        recorder = Recorder(settings, who, worker=worker)
        _now = recorder
        recorder.start()
        _prepare_process()
    except Exception:  # noqa: BLE001 - never into the program
        return None
    return recorder


def _at_exit() -> None:
    recorder = _now
    if recorder is not None:
        recorder.end()


def _forked() -> None:
    """A child process is not its parent: it lets go of everything, and starts anew only where a hook says who it is."""
    global _now
    recorder, _now = _now, None
    if recorder is not None:
        try:
            from firstfault.recorder.core import in_child

            in_child(recorder)
        except Exception:  # noqa: BLE001 - in a child that was just forked nothing may be raised
            return
