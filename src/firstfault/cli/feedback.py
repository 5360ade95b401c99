"""`firstfault feedback`: a case for the tests out of a job's logs and what its owner knows.

Parses, calls the pipeline, prints and sets the exit code.
"""

from __future__ import annotations

from pathlib import Path

import click

from firstfault.cli.evidence import paths_argument
from firstfault.cli.messages import said
from firstfault.model.words import Category

_CODES = """\b
Exit codes: 0 the case is diagnosed as the whole was, 1 it is diagnosed
otherwise (it is written all the same), 2 wrong use."""


@click.command(
    name="feedback",
    short_help="Make a case without names, with what was really wrong, that becomes a test.",
    epilog=_CODES,
)
@paths_argument
@click.option("--right", required=True, type=click.Choice([str(c) for c in Category]), metavar="CATEGORY", help="What it really was: a category, `none` for a healthy run.")  # fmt: skip
@click.option("--culprit", "ranks", multiple=True, type=click.IntRange(0), metavar="RANK", help="A global rank in which the fault began; may be given more than once.")  # fmt: skip
@click.option("--culprit-host", "hosts", multiple=True, metavar="HOST", help="A machine in which the fault began; may be given more than once.")  # fmt: skip
@click.option(
    "--nobody", is_flag=True, help="No rank and no machine was at fault: a setting, a store, code that all ran."
)
@click.option(
    "--trigger",
    "triggers",
    multiple=True,
    metavar="FILE:LINE",
    help="The best evidence, as a report names lines; of several any one will do.",
)
@click.option("--note", default="", metavar="TEXT", help="What happened, in a sentence; names in it are taken out too.")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), metavar="DIR", help="The folder of the case: new or empty.")  # fmt: skip
def command(
    paths: tuple[str, ...],
    *,
    right: str,
    ranks: tuple[int, ...],
    hosts: tuple[str, ...],
    nobody: bool,
    triggers: tuple[str, ...],
    note: str,
    output: Path,
) -> int:
    """Make a small case of a job's logs that can be given away: without secrets and names, with the truth that you tell.

    PATHs are the logs, as for `diagnose`. The case holds the lines that the diagnosis rests on and those around them, in
    `logs/`, and what you say in `expected.json`; put below tests/cases it is a test. Read it before you give it away.
    """
    from firstfault.pipelines.feedback import Told, feedback
    from firstfault.pipelines.options import DiagnoseOptions

    if nobody and (ranks or hosts):
        raise click.UsageError("--nobody says that no --culprit and no --culprit-host was at fault.")
    told = Told(
        right=Category(right),
        ranks=ranks if nobody or ranks else None,
        hosts=hosts if nobody or hosts else None,
        triggers=tuple(map(_place, triggers)),
        note=note,
    )
    made = feedback(list(paths), told, output, DiagnoseOptions())
    click.echo(
        said(
            f"{made.folder}: {made.files} files, {made.lines} of {made.whole_lines} lines, {made.removed} names and secrets taken out"
        )
    )
    if made.same:
        click.echo(said(f"it is diagnosed as the whole was: {made.says}"))
    else:
        click.echo(
            said(
                f"it is diagnosed as {made.says}, the whole as {made.said}: something that was taken out or left out matters"
            )
        )
    for name in made.left_out:
        click.echo(said(f"left out: {name}: names in it cannot be taken out"), err=True)
    click.echo(said("Names of forms that nobody knows may have stayed: read the files before you give them away."))
    return 0 if made.same else 1


def _place(text: str) -> tuple[str, int]:
    file, colon, line = text.rpartition(":")
    if not colon or not line.isdigit():
        raise click.BadParameter(
            f"{text!r} is no line: give FILE:LINE, such as `rank3.log:120`.", param_hint="--trigger"
        )
    return file, int(line)
