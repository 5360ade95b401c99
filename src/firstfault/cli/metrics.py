"""`firstfault metrics`: the training metrics of an input, and where they begin to go wrong.

Parses, calls the pipeline, prints and sets the exit code; it decides nothing about the metrics.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from firstfault.cli.evidence import (
    deliver,
    format_option,
    lang_option,
    level_of,
    nothing_readable,
    output_option,
    page,
    paths_argument,
    raw_option,
    share_option,
    spare_evidence,
)

if TYPE_CHECKING:
    from firstfault.pipelines.publish import StackFormat

_CODES = """\b
Exit codes: 0 nothing abnormal, 1 something is, 2 wrong use or no
metrics, whatever else was read."""


@click.command(name="metrics", short_help="Show where training metrics begin to go wrong.", epilog=_CODES)
@paths_argument
@format_option("text", "json")
@click.option("--all", "every", is_flag=True, help="Show every abnormal point and every curve.")
@click.option(
    "--export",
    "table",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Also write the step tables: FILE ends in .parquet, .csv, .json or .jsonl.",
)
@click.option(
    "--plot", type=click.Path(dir_okay=False), metavar="FILE", help="Also draw the curves: FILE ends in .svg or .png."
)
@output_option
@lang_option
@share_option
@raw_option
@click.option("--exit-zero", is_flag=True, help="Exit with 0 where something is abnormal.")
def command(
    paths: tuple[str, ...],
    form: StackFormat,
    output: str | None,
    lang: str,
    *,
    every: bool,
    table: str | None,
    plot: str | None,
    share: bool,
    raw: bool,
    exit_zero: bool,
) -> int:
    """Show the training metrics of a run and the first step at which each begins to go wrong.

    Reads step lines of Megatron-LM, NeMo, Lightning, DeepSpeed, the Hugging Face Trainer, torchtitan, FunASR, fairseq and
    bars, JSON lines, CSV, TensorBoard event files, the black box, and tables of GPU counters (nvidia-smi, DCGM).
    """
    for target in (output, table, plot):
        spare_evidence(target, paths)
    level = level_of(share=share, raw=raw)
    from firstfault.pipelines.metrics import draw, export, metrics_of
    from firstfault.pipelines.publish import publish_metrics, safe_metrics

    measured = metrics_of(list(paths))
    view = measured.view
    if not view.tables and not measured.devices:
        raise nothing_readable(
            view.coverage,
            paths,
            wanted="training metrics",
            fix="Give logs with step lines, JSON lines, CSV or TensorBoard files; `firstfault PATH` says what else the input tells.",
        )
    safe = safe_metrics(view, level)
    # First the report: a missing library of a table or a picture must not take the answer with it.
    deliver(publish_metrics(safe, form, width=page(output)["width"], language=lang, every=every), output)
    if table is not None:
        export(measured, [t.file for t in safe.content.tables], Path(table))
    if plot is not None:
        draw(safe, Path(plot))
    return 0 if exit_zero or not view.is_abnormal else 1
