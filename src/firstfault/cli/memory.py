"""`firstfault memory`: what held the memory of a device, by CUDA memory snapshots.

Parses, calls the pipeline, prints and sets the exit code; it decides nothing about the memory.
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
    name="memory", short_help="Show what held the memory of a device, by CUDA memory snapshots.", epilog=EXIT_CODES
)
@paths_argument
@format_option("text", "json")
@click.option("--all", "every", is_flag=True, help="Show every place, however many there are.")
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
    """Show what held the memory of a device when a request failed: by place in the program, growing, or in pieces.

    Reads what torch.cuda.memory._dump_snapshot wrote (pickle, or the same as JSON), in one pass and without running
    anything of it. The rank is told by the file's name alone: rank3_memory_snapshot.pickle.
    """
    level = level_of(share=share, raw=raw)
    from firstfault.pipelines.memory import memory_table
    from firstfault.pipelines.publish import publish_memory
    from firstfault.report.phrases import exit_code

    table = memory_table(list(paths), options_of(asked))
    code = exit_code(table)
    if code == 2:
        raise nothing_readable(table.coverage, paths)
    deliver(
        publish_memory(table, form, level, width=page(output)["width"], language=asked["lang"], every=every), output
    )
    return 0 if exit_zero else code
