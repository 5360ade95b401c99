"""`firstfault diagnose`: the diagnosis of one incident.

Parses, calls the pipeline, prints and sets the exit code; it decides nothing about the logs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from firstfault.cli.evidence import (
    EXIT_CODES,
    attempts_option,
    deliver,
    evidence_options,
    format_option,
    level_of,
    nothing_readable,
    options_of,
    page,
    paths_argument,
)
from firstfault.cli.values import SecondsValue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from firstfault.model.diagnosis import Diagnosis
    from firstfault.pipelines.publish import Format
    from firstfault.redact import Level


@click.command(name="diagnose", short_help="Say what the first fault of a job was.", epilog=EXIT_CODES)
@paths_argument
@format_option("text", "markdown", "html", "json", "sarif", "junit")
@attempts_option(": that one, and the verdict of each other one beside it")
@click.option(
    "--incidents",
    metavar="DIR|here|auto|none",
    default="here",
    show_default=True,
    help="Records of past incidents, of which those are named that are like this one: a folder, `postgresql://…` for those of "
    "an organisation, `here` for the folder `incidents` of the repository in which you are, if there is one, `auto` for that in which PATH lies, "
    "`none` for those alone that ship with firstfault.",
)
@click.option(
    "--follow",
    is_flag=True,
    help="Stay while the job writes: say it again when the answer changes, and end with the report when the job is decided and silent for a minute, or at Ctrl-C.",
)
@click.option(
    "--every",
    type=SecondsValue(),
    metavar="SECONDS",
    default="10",
    show_default=True,
    help="With --follow: how long to wait between two looks.",
)
@evidence_options
def command(
    paths: tuple[str, ...],
    form: Format,
    output: str | None,
    *,
    follow: bool,
    every: float,
    share: bool,
    raw: bool,
    exit_zero: bool,
    lang: str,
    **asked: Any,
) -> int:
    """Say what the FIRST fault of a training job was, on which rank and host.

    PATH is a file, a folder, an archive, or `-` for stdin: everything that one job left behind. Folders are sorted
    by what the files hold, so give all there is.
    """
    if asked["incidents"] == "none":
        asked["incidents"] = None
    level = level_of(share=share, raw=raw)
    from firstfault.report.phrases import exit_code

    if follow:
        from firstfault.cli.following import follow_job

        code = follow_job(paths, form, level, options_of(asked), every, output=output, language=lang)
        return 0 if exit_zero else code
    diagnosis, report = _made(paths, form, level, asked, {**page(output), "language": lang})
    code = exit_code(diagnosis)
    # A person needs the reasons alone where nothing was read; a program gets its report all the same.
    if code != 2 or form != "text":
        deliver(report(), output)
    if code == 2:
        raise nothing_readable(diagnosis.coverage, paths)
    return 0 if exit_zero else code


def _made(
    paths: Sequence[str], form: Format, level: Level, asked: dict[str, Any], shape: dict[str, Any]
) -> tuple[Diagnosis, Callable[[], str]]:
    """The diagnosis, and what gives its report: a page also holds what its pictures are drawn from."""
    if form == "html":
        from firstfault.pipelines.page import page as page_of
        from firstfault.pipelines.publish import publish_page

        made = page_of(list(paths), options_of(asked))
        return made.diagnosis, lambda: publish_page(made, level, language=shape["language"])
    from firstfault.pipelines.diagnose import diagnose
    from firstfault.pipelines.publish import publish

    diagnosis = diagnose(list(paths), options_of(asked))
    return diagnosis, lambda: publish(diagnosis, form, level, **shape)
