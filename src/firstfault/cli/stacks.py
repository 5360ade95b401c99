"""`firstfault stacks`: where every rank stood when its stack was taken.

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


@click.command(name="stacks", short_help="Show where every rank stood when its stack was taken.", epilog=EXIT_CODES)
@paths_argument
@format_option("text", "json")
@click.option("--all", "every", is_flag=True, help="Show every frame of the tree, also where nobody leaves the way.")
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
    """Show where every rank stood when its stack was taken, the odd ones first, and one tree of all main threads.

    Reads dumps of py-spy (text, --native, --locals, --json), faulthandler, pystack, gdb (`thread apply all bt`, `py-bt`),
    pstack, eu-stack, the debug server of torch.distributed (its pages and files) and PyTorch's own on a fatal signal, alone
    in files or, but for the last four, inside logs. A stack is one moment: take two of each rank, a minute apart.
    """
    level = level_of(share=share, raw=raw)
    from firstfault.pipelines.publish import publish_stacks
    from firstfault.pipelines.stacks import stack_table
    from firstfault.report.phrases import exit_code

    table = stack_table(list(paths), options_of(asked))
    code = exit_code(table)
    if code == 2:
        raise nothing_readable(table.coverage, paths)
    deliver(
        publish_stacks(table, form, level, width=page(output)["width"], language=asked["lang"], every=every), output
    )
    return 0 if exit_zero else code
