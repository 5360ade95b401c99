"""`firstfault flight-recorder`: where every process group stands by the flight-recorder dumps.

Parses, calls the pipeline, prints and sets the exit code; it decides nothing about the dumps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from firstfault.cli.evidence import (
    EXIT_CODES,
    attempt_option,
    deliver,
    evidence_options,
    format_option,
    level_of,
    nothing_readable,
    options_of,
    page,
    paths_argument,
)

if TYPE_CHECKING:
    from firstfault.pipelines.publish import StackFormat


@click.command(
    name="flight-recorder",
    short_help="Show where every process group stands by the flight-recorder dumps.",
    epilog=EXIT_CODES,
)
@paths_argument
@format_option("text", "json")
@click.option("--all", "every", is_flag=True, help="Show every group, also those with nothing unfinished.")
@attempt_option
@evidence_options
def command(
    paths: tuple[str, ...],
    form: StackFormat,
    output: str | None,
    *,
    every: bool,
    share: bool,
    raw: bool,
    exit_zero: bool,
    **asked: Any,
) -> int:
    """Show where every process group stands by the flight-recorder dumps of a job.

    PATH is a dump, a folder or an archive of dumps, of NCCL or gloo, as pickle or JSON, under any name. Per group: what
    its ranks issued last, the first work that does not end, who is in it and for whom they wait; then the first
    difference between ranks. Logs that lie beside the dumps are weighed in the verdict above the table.
    """
    level = level_of(share=share, raw=raw)
    from firstfault.pipelines.flight_recorder import recorder_view
    from firstfault.pipelines.publish import publish_recorder
    from firstfault.report.phrases import exit_code

    view = recorder_view(list(paths), options_of(asked))
    if not view.dumps:
        raise nothing_readable(
            view.coverage,
            paths,
            wanted="flight-recorder dump",
            fix="Give the dumps or their folder: `/tmp/nccl_trace_rank_*` or `~/.cache/torch/comm_lib_trace_rank_*` of every node.",
        )
    deliver(
        publish_recorder(view, form, level, width=page(output)["width"], language=asked["lang"], every=every), output
    )
    return 0 if exit_zero else exit_code(view)
