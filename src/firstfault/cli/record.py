"""`firstfault record`: runs a command with the black box in every Python process below it.

Parses, and leaves the rest to `firstfault.recorder.launch`; it reads nothing of what is recorded.
"""

from __future__ import annotations

import click

from firstfault.pipelines.errors import PipelineError


@click.command(
    name="record",
    short_help="Run a training command with the black box switched on.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="Exit code: that of the command; 128 and the signal where one ended it. With --check 1 where something is missing.",
)
@click.option(
    "--dir",
    "folder",
    default=None,
    metavar="DIR",
    help="Shared folder that all nodes see; firstfault-record unless given.",
)
@click.option(
    "--run", default=None, metavar="NAME", help="Name of this run; found from launcher or scheduler unless given."
)
@click.option("--hang", default=None, type=click.FloatRange(min=0), metavar="SECONDS", help="Seconds without a sign of life after which stacks are taken; 300 unless given, 0 for never.")  # fmt: skip
@click.option("--stop", is_flag=True, help="End all ranks when one has died, instead of letting them wait for it.")
@click.option("--check", is_flag=True, help="Record nothing: try whether this machine lets a job record and leave stacks, and say what it lacks.")  # fmt: skip
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def command(
    folder: str | None, run: str | None, hang: float | None, *, stop: bool, check: bool, command: tuple[str, ...]
) -> int:
    """Run a training command with the black box switched on, without a change to the script.

    COMMAND is what you would have typed: `firstfault record --dir /shared/box -- torchrun --nproc-per-node 8 train.py`.
    What it leaves is read by `firstfault diagnose`, alone or beside the logs.
    """
    from firstfault.recorder import launch
    from firstfault.recorder.settings import from_environment

    if check:
        if command:
            raise click.UsageError("--check runs no COMMAND; give it alone, on the machine and as the user of the job.")
        return _check(folder)
    if not command:
        raise click.UsageError("Missing argument 'COMMAND...': the command to run, behind `--`.")
    told = {"STOP": "1"} if stop else {}
    if run is not None:
        told["RUN"] = run
    if hang is not None:
        told["HANG_S"] = str(hang)
    words, shared = list(command), from_environment(folder).folder
    _warn(shared)
    try:
        return launch.run([*launch.find_program(words[0]), *words[1:]], shared, told)
    except OSError as error:
        raise PipelineError(
            f"the command could not be started: {error.strerror}",
            where=words[0],
            fix="Give the command as you would type it, behind `--`.",
        ) from error


def _warn(folder: str) -> None:
    """Says at once what would otherwise be found out after the failure: that the folder keeps nothing. The command runs all the same."""
    from firstfault.recorder.checks import shared_folder
    from firstfault.report.neutral import neutral

    found = shared_folder(folder)
    if not found.met:
        click.echo(f"firstfault record: {neutral(found.detail)}; the command runs all the same", err=True)


def _check(folder: str | None) -> int:
    """Shows each need of the recorder and whether this machine meets it."""
    from firstfault.cli.messages import said, words
    from firstfault.recorder.checks import run_checks
    from firstfault.report.neutral import neutral
    from firstfault.report.text import columns

    found = run_checks(folder)
    say, names = words(), [said(c.name) for c in found]
    state = {True: say["record.met"], False: say["record.missing"]}
    wide, first = max(map(columns, names)), max(map(columns, state.values()))
    for name, one in zip(names, found, strict=True):
        met = state[one.met]
        click.echo(
            f"{met}{' ' * (first - columns(met))} {name}{' ' * (wide - columns(name))}  {neutral(said(one.detail))}"
        )
    return int(not all(c.met for c in found))
