"""`firstfault preflight`: what would stop a job at its start, on this machine or on all of a job.

Parses, calls the pipeline, prints and sets the exit code.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from firstfault.cli.evidence import (
    deliver,
    format_option,
    lang_option,
    level_of,
    output_option,
    page,
    raw_option,
    share_option,
)

if TYPE_CHECKING:
    from firstfault.pipelines.publish import CheckFormat

_CODES = """\b
Exit codes: 0 nothing that would stop the job (warnings do not count
without --strict), 1 something would, 2 wrong use or our own fault. With
--job only the process that joins the answers ends with 1, so that no
launcher stops the others before they have answered."""


@click.command(
    name="preflight", short_help="Check a machine, or all of a job, for what would stop it at the start.", epilog=_CODES
)
@click.option("--job", is_flag=True, help="One of many processes: started on all ranks or machines of a job, they join into one answer.")  # fmt: skip
@click.option("--dir", "folder", metavar="DIR", help="Shared folder through which the processes of a job join; their own MASTER_ADDR and MASTER_PORT unless given.")  # fmt: skip
@click.option("--wait", type=click.FloatRange(1, 3600), default=60.0, show_default=True, metavar="SECONDS", help="With --job: how long rank 0 waits for the others.")  # fmt: skip
@click.option("--expect", type=click.IntRange(1), metavar="N", help="With --job: processes that should answer, where the launcher does not say.")  # fmt: skip
@click.option("--read", "reads", multiple=True, metavar="PATH", help="A path that the job reads; may be given more than once.")  # fmt: skip
@click.option("--write", "writes", multiple=True, metavar="DIR", help="A folder that the job writes into; may be given more than once.")  # fmt: skip
@click.option("--recorder", metavar="DIR", help="Folder that `firstfault record --dir` will get.")
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings too.")
@click.option("--all", "every", is_flag=True, help="Show every check, also those in order, and what each is good for.")
@format_option("text", "json", "junit")
@output_option
@share_option
@raw_option
@lang_option
def command(
    form: CheckFormat,
    output: str | None,
    *,
    lang: str,
    job: bool,
    folder: str | None,
    wait: float,
    expect: int | None,
    reads: tuple[str, ...],
    writes: tuple[str, ...],
    recorder: str | None,
    strict: bool,
    every: bool,
    share: bool,
    raw: bool,
) -> int:
    """Check a machine, or all of a job, for what would stop it at the start, before it does.

    Launcher, network, settings, limits, GPUs, image, folders, recorder: each check says what it saw, what to do, and which
    failure it prevents. It needs no root and no network but the job's own meeting place, and changes nothing.
    In a batch script: `srun firstfault preflight --job --write "$CKPT" || exit 1`.
    """
    level = level_of(share=share, raw=raw)
    from firstfault.pipelines.preflight import JobOptions, check_job, check_machine
    from firstfault.pipelines.publish import publish_preflight
    from firstfault.preflight.machine import Asked

    if not job and (folder is not None or expect is not None):
        raise click.UsageError("--dir and --expect go with --job.")
    asked = Asked(read=reads, write=writes, recorder=recorder, job=job)
    found = (
        check_job(asked, JobOptions(folder=folder, wait_s=wait, expected=expect), _say)
        if job
        else check_machine(asked, _say)
    )
    _say("")
    if found is None:
        return 0
    deliver(publish_preflight(found, form, level, width=page(output)["width"], every=every, language=lang), output)
    return int(found.state == "fail" or (strict and found.state == "warn"))


def _say(what: str) -> None:
    """Shows on a terminal what is looked at."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{f'looking at: {what}' if what else ''}")
        sys.stderr.flush()
