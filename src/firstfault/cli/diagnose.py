"""`firstfault diagnose`: the diagnosis of one incident.

Parses, calls the pipeline, prints and sets the exit code; it decides nothing about the logs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from firstfault.cli.values import AttemptValue, EngineValue, ExitCodeValue, LanguageValue, ZoneValue
from firstfault.pipelines.errors import PipelineError
from firstfault.pipelines.options import DiagnoseOptions

if TYPE_CHECKING:
    from firstfault.model.diagnosis import Diagnosis
    from firstfault.pipelines.publish import Format
    from firstfault.redact import Level


@click.command(
    name="diagnose",
    short_help="Say what the first fault of a job was.",
    epilog="""\b
Exit codes: 0 no failure found, 1 a failure, 2 wrong use or nothing
readable, 3 not decidable from what was given.""",
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    show_default=True,
    help="How to say it.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write the report to FILE instead of stdout.",
)
@click.option(
    "--storage",
    "storage",
    multiple=True,
    type=click.Path(exists=True),
    metavar="DIR",
    help="Logs of the storage daemons, where they do not lie inside a PATH; may be given more than once.",
)
@click.option(
    "--attempt",
    type=AttemptValue(),
    metavar="N|last|all",
    default="last",
    show_default=True,
    help="Which start of the job: a number from 1, `last` (the last failing one) or `all`.",
)
@click.option(
    "--job-state", metavar="STATE", help="How the scheduler says the job ended, such as TIMEOUT or COMPLETED."
)
@click.option(
    "--exit-code",
    type=ExitCodeValue(),
    metavar="N",
    help="The job's exit code as the scheduler gives it: `1`, `-9`, or `0:9` (status:signal).",
)
@click.option(
    "--assume-zone",
    type=ZoneValue(),
    metavar="ZONE",
    help="Time zone of stamps that state none: `+08:00`, `UTC` or `Europe/Berlin`.",
)
@click.option(
    "--signatures",
    "signatures",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="A folder of your own signatures; may be given more than once.",
)
@click.option(
    "--engine",
    type=EngineValue(),
    metavar="auto|inline|processes",
    default="auto",
    show_default=True,
    help="Where to scan: `inline`, `processes` or `auto`; the answer is the same.",
)
@click.option(
    "--share",
    is_flag=True,
    help="For strangers' eyes: hosts, users, paths, addresses, buckets and e-mails become pseudonyms.",
)
@click.option("--raw", is_flag=True, help="Leave secrets in the quoted lines. Never share such a report.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 where a failure was found or nothing could be decided.")
@click.option(
    "--lang", type=LanguageValue(), metavar="en", default="en", show_default=True, help="Language of the report."
)
def command(
    paths: tuple[str, ...],
    form: Format,
    output: str | None,
    *,
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
    del lang
    if share and raw:
        raise click.UsageError("--share takes identities and secrets out, --raw leaves them in: choose one.")
    from firstfault.pipelines.diagnose import diagnose
    from firstfault.report.phrases import exit_code

    options = DiagnoseOptions(progress=sys.stderr.isatty(), raw=raw, **_tidy(asked))
    diagnosis = diagnose(list(paths), options)
    code = exit_code(diagnosis)
    # A person needs the reasons alone where nothing was read; a program gets its report all the same.
    if code != 2 or form != "text":
        deliver(diagnosis, form, level_of(share=share, raw=raw), output)
    if code == 2:
        raise _nothing_readable(diagnosis, paths)
    return 0 if exit_zero else code


def _tidy(asked: dict[str, Any]) -> dict[str, Any]:
    state = asked.get("job_state")
    return {**asked, "job_state": None if state is None else state.strip().upper() or None}


def level_of(*, share: bool, raw: bool) -> Level:
    """What is taken out of the report."""
    return "none" if raw else "identities" if share else "secrets"


def deliver(diagnosis: Diagnosis, form: Format, level: Level, output: str | None) -> None:
    """Writes the report to stdout or to a file, as UTF-8."""
    from firstfault.cli.terminal import colored, columns
    from firstfault.pipelines.publish import publish

    to_terminal = output is None
    text = publish(diagnosis, form, level, width=columns() if to_terminal else 100, color=to_terminal and colored())
    if output is None:
        write(text)
        return
    Path(output).write_text(text, encoding="utf-8")
    sys.stderr.write(f"firstfault: report written to {output}\n")


def write(text: str) -> None:
    """Writes text to stdout as UTF-8, whatever the locale says, so that the bytes are the same everywhere."""
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:
        sys.stdout.write(text)
        return
    sys.stdout.flush()
    buffer.write(text.encode("utf-8"))
    buffer.flush()


def _nothing_readable(diagnosis: Diagnosis, paths: tuple[str, ...]) -> PipelineError:
    """The error that tells why no input could be read."""
    from difflib import get_close_matches

    from firstfault.cli.main import COMMANDS

    reasons = [f"{row.file}: {row.state}" + (f", {row.reason}" if row.reason else "") for row in diagnosis.coverage]
    near = get_close_matches(paths[0], list(COMMANDS), n=1, cutoff=0.6)
    return PipelineError(
        "nothing there could be read",
        where=", ".join(paths),
        why="; ".join(reasons[:5]) or "no file was found",
        fix=f"Did you mean the command `{near[0]}`?"
        if near
        else "Give the job's log files, their folder, or an archive of it.",
    )
