"""The entry point: finds the command, and turns every way to end into an exit code and one clear message.

Imports click only, so that start-up stays fast; a command's module is imported when it is called.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Sequence

FOUND_NOTHING, FAILURE, WRONG_USE, UNDECIDED = 0, 1, 2, 3
"""Exit codes: no failure found; a failure with a category; wrong use, nothing readable or our own fault; not decidable."""

COMMANDS: dict[str, tuple[str, str]] = {
    "diagnose": ("firstfault.cli.diagnose", "Say what the first fault of a job was, on which rank and host."),
    "batch": ("firstfault.cli.batch", "Diagnose many jobs: a row each, and what several of them share."),
    "record": ("firstfault.cli.record", "Run a training command with the black box switched on."),
    "watch": (
        "firstfault.cli.watch",
        "Show the ranks of a running job that records: who moves, is slow, stands or is gone.",
    ),
    "preflight": ("firstfault.cli.preflight", "Check a machine, or all of a job, for what would stop it at the start."),
    "probe": ("firstfault.cli.probe", "Print what an environment is, read it back, or compare two."),
    "guard": (
        "firstfault.cli.guard",
        "Run a trial of a measurement, and publish only a whole matrix of trials that count.",
    ),
    "collect": ("firstfault.cli.collect", "Pack what a job's recorder left into one archive."),
    "ranks": ("firstfault.cli.ranks", "Show every rank at the end: host, part in a hang, counters, last step, line."),
    "timeline": ("firstfault.cli.timeline", "Show the events of all sources in one order, clock by clock."),
    "stacks": ("firstfault.cli.stacks", "Show where every rank stood when its stack was taken, in one tree."),
    "flight-recorder": (
        "firstfault.cli.flight_recorder",
        "Show where every process group stands by the flight-recorder dumps.",
    ),
    "memory": ("firstfault.cli.memory", "Show what held the memory of a device, by CUDA memory snapshots."),
    "metrics": (
        "firstfault.cli.metrics",
        "Show where training metrics begin to go wrong: loss, gradients, pace, memory.",
    ),
    "compare": ("firstfault.cli.compare", "Show what differs between two runs of one job, and what differs first."),
    "diff": ("firstfault.cli.diff", "Show what changed between two diagnoses of one incident, and why."),
    "checkpoint": (
        "firstfault.cli.checkpoint",
        "Say whether a checkpoint is whole, and whether two hold the same.",
    ),
    "check-config": (
        "firstfault.cli.check_config",
        "Say what is wrong with the settings of a job before it starts.",
    ),
    "check-data": ("firstfault.cli.check_data", "Try the data of a job before it starts: a loader or manifests."),
    "explain": (
        "firstfault.cli.explain",
        "Explain a signature, class, Xid, exit code, signal, CUDA or NCCL error, or word.",
    ),
    "signatures": ("firstfault.cli.signatures", "List the signatures, check a folder of your own, or start a new one."),
    "incidents": ("firstfault.cli.incidents", "Keep, search and check records of past incidents."),
    "feedback": (
        "firstfault.cli.feedback",
        "Make a case without names, with what was really wrong, that becomes a test.",
    ),
    "mcp": ("firstfault.cli.mcp", "Answer an assistant over the Model Context Protocol."),
    "completion": (
        "firstfault.cli.completion",
        "Print what a shell needs to complete commands, options and their words.",
    ),
    "schema": ("firstfault.cli.schema", "Print the JSON Schema of `--format json`."),
}
"""Command -> module that holds `command`, and its line in the help."""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Runs the command line and leaves the process with the exit code of the contract."""
    words = list(sys.argv[1:] if argv is None else argv)
    _open_what_is_closed()
    if words in (["--version"], ["-V"]):
        from firstfault import __version__

        sys.stdout.write(f"firstfault {__version__}\n")
        sys.exit(FOUND_NOTHING)
    # Observations live until the end and form no cycles: looking for some again and again costs a tenth of the time.
    gc.set_threshold(500_000, 20, 50)
    _unwind_when_told_to_stop()
    sys.exit(run(words))


def _open_what_is_closed() -> None:
    """Gives the streams that whoever started us had closed (`>&-`) a place that keeps nothing."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open until the end


def _unwind_when_told_to_stop() -> None:
    """Makes an order to stop end the program from inside, so that its private temporary folder goes with it."""
    own = os.getpid()

    def stop(number: int, frame: object) -> None:
        del frame
        if os.getpid() != own:  # a copy of this process that scans: it owns nothing
            os._exit(128 + number)
        signal.signal(number, signal.SIG_IGN)
        sys.exit(128 + number)

    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, stop)


def run(words: Sequence[str]) -> int:
    """Runs the command line.

    Args:
        words: arguments without the program's name.

    Returns:
        The exit code: 0, 1, 2 or 3.
    """
    import click

    from firstfault.cli.group import group
    from firstfault.cli.helping import asked_language, speak
    from firstfault.cli.messages import describe, show, tell, tell_unexpected

    speak(asked_language(words))
    try:
        code = group(COMMANDS).main(args=list(words), prog_name="firstfault", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        show(error)
        _tell_setting(error)
        return WRONG_USE
    except (click.Abort, KeyboardInterrupt):
        tell("interrupted before anything was known", fix="Run it again, on fewer files if it took too long.")
        return WRONG_USE
    except BrokenPipeError:
        # The reader of our output left (`| head`): nothing to say, and Python must not say it at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return WRONG_USE
    except Exception as error:  # noqa: BLE001 - the last net: a traceback of ours is never what a person gets to read
        if not describe(error):
            tell_unexpected(error)
        return WRONG_USE
    return code if isinstance(code, int) else FOUND_NOTHING


def _tell_setting(error: Exception) -> None:
    """Says where a wrong value stands that nobody typed."""
    import click

    from firstfault.cli.messages import tell

    if (
        not isinstance(error, click.BadParameter)
        or error.ctx is None
        or error.param is None
        or error.param.name is None
    ):
        return
    found = error.ctx.find_root().obj
    if found is None or error.ctx.get_parameter_source(error.param.name) is not click.core.ParameterSource.DEFAULT_MAP:
        return
    option = max(error.param.opts, key=len).removeprefix("--")
    command = " ".join(error.ctx.command_path.split()[1:])
    tell(f"The value stands in {found.source(command, option)}.")


def load(command: str) -> object:
    """The click command of a name in `COMMANDS`."""
    return import_module(COMMANDS[command][0]).command


if __name__ == "__main__":
    main()
