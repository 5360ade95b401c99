"""`firstfault flight-recorder`: where every process group stands by the flight-recorder dumps alone.

Parses, calls the pipeline, prints and sets the exit code; it decides nothing about the dumps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from firstfault.cli.evidence import (
    deliver,
    format_option,
    level_of,
)
from firstfault.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from firstfault.model.flight_recorder import RecorderView


@click.command(
    name="flight-recorder",
    short_help="Show where every process group stands by the flight-recorder dumps.",
    epilog="""\b
Exit codes: 0 no failure found, 1 a failure, 2 wrong use or no dump
readable, 3 not decidable from the dumps alone.""",
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@format_option("text", "json")
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False), metavar="FILE", help="Write to FILE instead of stdout."
)
@click.option(
    "--share",
    is_flag=True,
    help="For strangers' eyes: hosts, users, paths, addresses, buckets and e-mails become pseudonyms.",
)
@click.option("--raw", is_flag=True, help="Leave secrets in what is quoted. Never share such a report.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 where a failure was found or nothing could be decided.")
def command(
    paths: tuple[str, ...],
    form: Literal["text", "json"],
    output: str | None,
    *,
    share: bool,
    raw: bool,
    exit_zero: bool,
) -> int:
    """Show where every process group stands by the flight-recorder dumps of a job.

    PATH is a dump, a folder or an archive of dumps, of NCCL or gloo, as pickle or JSON, under any name. Per group: what
    its ranks issued last, the first work that does not end, who is in it and for whom they wait; then the first
    difference between ranks. Logs are not read; `diagnose` weighs both together.
    """
    level = level_of(share=share, raw=raw)
    from firstfault.cli.terminal import columns
    from firstfault.pipelines.flight_recorder import publish_recorder, recorder_view

    view = recorder_view(list(paths))
    if not view.dumps:
        raise _no_dump(view, paths)
    width = 100 if output is not None else columns()
    text = publish_recorder(view, form, level, width=width)
    deliver(text, output)
    if exit_zero:
        return 0
    if view.verdict.failed is None or str(view.verdict.category) == "unknown":
        return 3
    return 1 if view.verdict.failed else 0


def _no_dump(view: RecorderView, paths: tuple[str, ...]) -> PipelineError:
    """The error that tells why no dump could be used."""
    reasons = [f"{row.file}: {row.reason}" for row in view.coverage if row.reason]
    return PipelineError(
        "no flight-recorder dump there could be used",
        where=", ".join(paths),
        why="; ".join(reasons[:5]) or "no file was found",
        fix="Give the dumps or their folder: /tmp/nccl_trace_rank_* or ~/.cache/torch/comm_lib_trace_rank_* of every node.",
    )
