"""`firstfault diff`: what differs between two diagnoses of one incident.

Parses, calls the pipeline, prints and sets the exit code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from firstfault.cli.evidence import deliver, format_option, lang_option, output_option, page

if TYPE_CHECKING:
    from firstfault.pipelines.publish import StackFormat

_CODES = """\b
Exit codes: 0 the verdicts are the same, 1 they differ, 2 wrong use or
a file that is no diagnosis."""


@click.command(
    name="diff", short_help="Show what changed between two diagnoses of one incident, and why.", epilog=_CODES
)
@click.argument("before", type=click.Path(exists=True, dir_okay=False), metavar="DIAGNOSIS_A")
@click.argument("after", type=click.Path(exists=True, dir_okay=False), metavar="DIAGNOSIS_B")
@format_option("text", "json")
@output_option
@lang_option
def command(before: str, after: str, form: StackFormat, output: str | None, lang: str) -> int:
    """Show what changed between two diagnoses of one incident, and why: more logs arrived, or a newer version read them.

    DIAGNOSIS_A and DIAGNOSIS_B are files that `firstfault diagnose --format json` wrote, the earlier one first. Nothing
    is read but these two files.
    """
    if output is not None and output in {before, after}:
        raise click.UsageError(f"--output {output} is one of the two diagnoses, and writing there would destroy it.")
    from firstfault.pipelines.diff import compared
    from firstfault.pipelines.publish import publish_comparison

    found = compared(before, after)
    deliver(publish_comparison(found, form, width=page(output)["width"], language=lang), output)
    return 0 if found.same else 1
