"""`firstfault compare`: what differs between two runs of one job, and what differs first.

Parses, calls the pipeline, prints and sets the exit code.
"""

from __future__ import annotations

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
    spare_evidence,
)

if TYPE_CHECKING:
    from firstfault.pipelines.publish import StackFormat

_CODES = """\b
Exit codes: 0 nothing differs beyond noise, 1 something does, 2 wrong
use or a run that tells nothing."""


@click.command(name="compare", short_help="Show what differs between two runs of one job.", epilog=_CODES)
@click.argument("first", type=click.Path(exists=True), metavar="RUN_A")
@click.argument("second", type=click.Path(exists=True), metavar="RUN_B")
@format_option("text", "json")
@output_option
@lang_option
@share_option
@raw_option
def command(
    first: str, second: str, form: StackFormat, output: str | None, lang: str, *, share: bool, raw: bool
) -> int:
    """Show what differs between two runs: configuration, versions, environment, seeds, topology, pace and curves.

    RUN_A is the run that went well, RUN_B the other; each is a log, a folder or an archive. What was set before the first
    step comes first, then pace and curves by the step at which they part.
    """
    spare_evidence(output, [first, second])
    level = level_of(share=share, raw=raw)
    from firstfault.pipelines.compare import compare_runs
    from firstfault.pipelines.publish import publish_runs

    found = compare_runs(first, second)
    deliver(publish_runs(found, form, level, width=page(output)["width"], language=lang), output)
    return 0 if found.same else 1
