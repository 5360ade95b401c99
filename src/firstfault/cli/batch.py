"""`firstfault batch`: the first faults of many jobs, each read within limits of time and memory.

Parses, calls the pipeline, prints and sets the exit code; it decides nothing about the logs.
"""

from __future__ import annotations

import secrets
import sys
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from firstfault.cli.evidence import (
    EXIT_CODES,
    deliver,
    format_option,
    lang_option,
    level_of,
    output_option,
    page,
    raw_option,
    share_option,
    spare_evidence,
    write,
)
from firstfault.cli.values import ZoneValue
from firstfault.model.files import put

if TYPE_CHECKING:
    from collections.abc import Callable

    from firstfault.model.batch import JobAnswer
    from firstfault.pipelines.batch import BatchFormat


@click.command(name="batch", short_help="Diagnose many jobs: a row each, and what several of them share.", epilog=EXIT_CODES)  # fmt: skip
@click.argument("folders", nargs=-1, metavar="DIR...")
@click.option("--sacct", "listed", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="What `sacct --parsable2 --format=JobID,State,ExitCode` printed: only its failed jobs are looked at, with what it says of their end.")  # fmt: skip
@click.option("--all", "every", is_flag=True, help="With --sacct: also jobs that ended well or still run.")
@click.option("--queue", type=click.Path(file_okay=False), metavar="DIR", help="Drain a folder in which a scheduler's epilog leaves notes of failed jobs, oldest first; answers lie below it in `out`.")  # fmt: skip
@click.option("--logs", "patterns", multiple=True, metavar="PATTERN", help="With --queue: where logs of a job lie besides the scheduler's output files, such as `/logs/%j/*`; `%j`, `%A`, `%a`, `%u`, `%x` as in sbatch.")  # fmt: skip
@click.option("--again", "again_s", type=click.FloatRange(0.1), metavar="S", help="With --queue: look again after S seconds, until Ctrl-C.")  # fmt: skip
@format_option("text", "json", "csv", more="; json has a line for each job, as soon as it is known")
@click.option("--time-limit", "seconds", type=click.FloatRange(0, min_open=True), default=600.0, show_default=True, metavar="S", help="Seconds for one job; what is known by then is told.")  # fmt: skip
@click.option("--memory-limit", "memory_mb", type=click.IntRange(100), default=4000, show_default=True, metavar="MB", help="Memory for one job; heeded on Linux.")  # fmt: skip
@click.option("--deadline", type=click.FloatRange(0, min_open=True), metavar="S", help="Seconds for all jobs together; jobs that were not begun by then are said to be so.")  # fmt: skip
@click.option("--jobs", "at_once", type=click.IntRange(1, 256), metavar="N", help="Jobs to look at at one time; as many as there are processors unless given.")  # fmt: skip
@click.option("--textfile", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write Prometheus metrics of the answers to FILE; with --queue after each job.")  # fmt: skip
@click.option("--assume-zone", type=ZoneValue(), metavar="ZONE", help="Time zone of stamps that state none: `+08:00`, `UTC` or `Europe/Berlin`.")  # fmt: skip
@click.option("--signatures", multiple=True, type=click.Path(exists=True, file_okay=False), metavar="DIR", help="A folder of your own signatures; may be given more than once.")  # fmt: skip
@output_option
@share_option
@raw_option
@click.option("--exit-zero", is_flag=True, help="Exit with 0 where a failure was found or nothing could be decided.")
@lang_option
def command(
    folders: tuple[str, ...],
    *,
    listed: str | None,
    queue: str | None,
    patterns: tuple[str, ...],
    again_s: float | None,
    form: BatchFormat,
    output: str | None,
    every: bool,
    share: bool,
    raw: bool,
    exit_zero: bool,
    lang: str,
    signatures: tuple[str, ...],
    assume_zone: str | None,
    textfile: Path | None,
    **limits: Any,
) -> int:
    """Say what the first fault of each of many jobs was, and which hosts are named in more than one.

    Each folder, archive or file in a DIR is what one job left behind; files with one job number in their names are one job
    together. A job that takes too long or too much memory costs its own answer alone.
    """
    if every and listed is None:
        raise click.UsageError("--all goes with --sacct: without a list every job in the folders is looked at.")
    if queue is None and (patterns or again_s):
        raise click.UsageError("--logs and --again go with --queue.")
    if bool(folders) == bool(queue) or (queue and listed):
        raise click.UsageError("Give either folders whose entries are jobs, or --queue.")
    level = level_of(share=share, raw=raw)
    for written in (output, None if textfile is None else str(textfile)):
        spare_evidence(written, (*folders, *([] if listed is None else [listed]), *([] if queue is None else [queue])))
    from firstfault.pipelines.batch import (
        Limits,
        batch,
        exit_code_of,
        jobs_of,
        publish_batch,
        publish_counts,
        publish_line,
        summed,
    )
    from firstfault.pipelines.options import DiagnoseOptions

    options = DiagnoseOptions(assume_zone=assume_zone, signatures=tuple(map(Path, signatures)))
    limits["at_once"] = limits["at_once"] or 0
    key = secrets.token_bytes(16)

    def count(answers: list[JobAnswer]) -> None:
        if textfile is not None:
            put(textfile, publish_counts(summed(answers), level, key=key))

    if queue is not None:
        from firstfault.pipelines.queue import KEPT, drain

        streams = form == "json" and output is None

        so_far: deque[JobAnswer] = deque(maxlen=KEPT)

        def line(answer: JobAnswer) -> str:
            so_far.append(answer)
            count(list(so_far))
            text = publish_line(answer, level, key=key, language=lang)
            if streams:
                write(text)
            return text

        answers = drain(queue, options, Limits(**limits), line, patterns=patterns, again_s=again_s)
        found = summed(answers)
        if not streams:
            deliver(publish_batch(found, form, level, key=key, width=page(output)["width"], language=lang), output)
        return 0 if exit_zero or not answers else exit_code_of(found)
    asked = jobs_of(folders, listed, every=every)
    streams = form == "json" and output is None
    tell = _counter(len(asked))

    def told(answer: JobAnswer) -> None:
        if streams:
            write(publish_line(answer, level, key=key, language=lang))
        tell()

    found = batch(asked, options, Limits(**limits), told)
    count(found.jobs)
    if not streams:
        deliver(publish_batch(found, form, level, key=key, width=page(output)["width"], language=lang), output)
    code = exit_code_of(found)
    return 0 if exit_zero and code != 2 else code


def _counter(jobs: int) -> Callable[[], None]:
    """Counts jobs on a terminal; does nothing where standard error is none."""
    if not sys.stderr.isatty():
        return lambda: None
    done = 0

    def tell() -> None:
        nonlocal done
        done += 1
        sys.stderr.write(f"\r{done}/{jobs}" if done < jobs else "\r\033[K")
        sys.stderr.flush()

    return tell
