"""`firstfault watch`: a live table of the ranks of a job that records. Parses and draws; what a row says is not decided here."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from firstfault.cli.evidence import told_lang_option
from firstfault.cli.messages import said, words
from firstfault.model.files import put
from firstfault.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from rich.table import Table

    from firstfault.watch.board import Board

MOST_ROWS = 40
_WIDE = 1000
"""Characters of a line where no terminal bounds it."""
_NUMBERS = {"rank", "step", "still", "pace"}
"""Columns of numbers."""
_WHOLE = _NUMBERS | {"state", "others", "data"}
"""Columns whose cells are short: on a narrow terminal the others are broken into several lines."""
_COLUMNS = ("rank", "host", "state", "step", "phase", "still", "pace", "others", "data", "")
"""Names of the columns; that of what is noted of a rank is empty."""
_STYLE = {"dead": "bold red", "stalled": "red", "silent": "magenta", "slow": "yellow", "ended": "dim", "moving": ""}


@click.command(
    name="watch",
    short_help="Show the ranks of a running job that records: who moves, is slow, stands or is gone.",
    epilog="Exit codes: 0 nobody is dead or stalled, 1 somebody is, 2 wrong use.",
)
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--slurm", "job", metavar="JOB", help="The run of this Slurm job; without DIR its working directory is asked for."
)
@click.option("--once", is_flag=True, help="Show the table once and end.")
@click.option("--every", default=2.0, type=click.FloatRange(min=0.2), metavar="SECONDS", help="Seconds between two looks; 2 unless given.")  # fmt: skip
@click.option("--bundle", is_flag=True, help="Ask all nodes for the stacks of all ranks first.")
@click.option("--textfile", type=click.Path(path_type=Path), metavar="FILE", help="Write Prometheus metrics to FILE at each look.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), metavar="N", help="Serve Prometheus metrics on this port of the loopback.")  # fmt: skip
@click.option("--all", "every_rank", is_flag=True, help="Show each rank, however many there are.")
@told_lang_option
def command(
    folder: Path | None,
    *,
    job: str | None,
    once: bool,
    every: float,
    bundle: bool,
    textfile: Path | None,
    port: int | None,
    every_rank: bool,
) -> int:
    """Show the ranks of a running job that records, outliers first.

    DIR is the folder that was given to `firstfault record`, or one run in it.
    """
    from firstfault.watch.board import read_board

    run = _run(folder, job)
    if bundle:
        _ask(run)
    if port is not None:
        from firstfault.watch.prometheus import server

        try:
            page = server(port, lambda: read_board(run))
        except OSError as error:
            raise PipelineError(f"port {port} cannot be used: {error.strerror}", where="--port", fix="Give another one, or 0.") from error  # fmt: skip
        threading.Thread(target=page.serve_forever, daemon=True).start()
        click.echo(f"metrics: http://127.0.0.1:{page.server_address[1]}/metrics", err=True)
    board = read_board(run)
    _export(board, textfile)
    if once:
        _print(board, every_rank=every_rank)
    else:
        board = _live(run, every, textfile, every_rank=every_rank)
    return int(board.count("dead") + board.count("stalled") > 0)


def _run(folder: Path | None, job: str | None) -> Path:
    """The folder of the run that is meant."""
    from firstfault.watch.board import latest_run
    from firstfault.watch.slurm import run_of_job

    if folder is None and job is None:
        raise click.UsageError("Give the folder DIR of a recorder, or --slurm JOB.")
    try:
        if job is not None:
            return run_of_job(job, folder)
        assert folder is not None
        return latest_run(folder)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise PipelineError(
            f"no run of the recorder could be watched: {error}",
            where=str(folder or job),
            fix="Give the folder that `firstfault record --dir` was given, once a rank has started.",
        ) from error


def _ask(run: Path) -> None:
    from firstfault.watch.request import ask_for_bundle

    try:
        ask_for_bundle(run, "asked for by watch")
    except OSError as error:
        raise PipelineError(
            f"the nodes could not be asked for stacks: {error.strerror}",
            where=str(run),
            fix="Run it as the user of the job, who may write there.",
        ) from error


def _live(run: Path, every: float, textfile: Path | None, *, every_rank: bool) -> Board:
    """Draws until it is interrupted, or every rank has ended."""
    from rich.live import Live

    from firstfault.watch.board import read_board

    board = read_board(run)
    with Live(table(board, every_rank=every_rank), auto_refresh=False) as live:
        try:
            while board.count("ended") + board.count("dead") < max(len(board.rows), 1):
                time.sleep(every)
                board = read_board(run)
                _export(board, textfile)
                live.update(table(board, every_rank=every_rank), refresh=True)
        except KeyboardInterrupt:
            return board
    return board


def _export(board: Board, textfile: Path | None) -> None:
    if textfile is not None:
        from firstfault.watch.prometheus import text

        put(textfile, text(board))


def _print(board: Board, *, every_rank: bool) -> None:
    from rich.console import Console

    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDE  # what goes into a file or another program keeps each rank in one line
    console.print(table(board, every_rank=every_rank))


def table(board: Board, *, every_rank: bool) -> Table:
    """The board as a table, outliers first; of those that move only the first few where there are many."""
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.markup import escape
    from rich.table import Table

    from firstfault.report.neutral import neutral

    say = words()
    told = ", ".join(f"{board.count(s)} {say[f'watch.{s}']}" for s in _STYLE if board.count(s))
    number = len(board.rows)
    count = "watch.ranks" if board.world is None else "watch.ranks_of"
    title = say[count].format(run=board.run, n=number, all=board.world, told=told)
    drawn = Table(title=escape(neutral(title)), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    order = list(_STYLE)
    rows = sorted(board.rows, key=lambda r: (order.index(r.state), r.rank))
    shown = rows if every_rank else rows[:MOST_ROWS]
    lines = [
        (
            str(row.rank),
            row.host,
            say[f"watch.{row.state}"],
            "" if row.step is None else str(row.step),
            row.phase or "",
            "" if row.still_s is None else f"{row.still_s:.0f} s",
            "" if row.pace_s is None else f"{row.pace_s:.3f} s",
            _percent(row.waited_share),
            _percent(row.loader_share),
            say.get(f"watch.note.{row.note}") or said(row.note),
        )
        for row in shown
    ]
    # A column in which no rank has anything takes room from those in which some have.
    used = [n for n in range(len(_COLUMNS)) if not lines or any(cells[n] for cells in lines)]
    for n in used:
        name = _COLUMNS[n]
        title = say[f"watch.{name}"] if name else ""
        parts = [*title.split(), *(cells[n] if name in _WHOLE else "" for cells in lines)]
        drawn.add_column(
            title,
            justify="right" if name in _NUMBERS else "left",
            overflow="fold",
            min_width=max(map(cell_len, parts), default=0),
        )
    for row, cells in zip(shown, lines, strict=True):
        drawn.add_row(*(escape(neutral(cells[n])) for n in used), style=_STYLE[row.state])
    if len(shown) < len(rows):
        drawn.caption = say["watch.more"].format(n=len(rows) - len(shown))
    return drawn


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"
