"""`firstfault ranks`: the table of all ranks at the end of one attempt.

Parses, calls the pipeline, prints and sets the exit code; it decides nothing about the logs.
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
    hosts_option,
    level_of,
    nothing_readable,
    options_of,
    page,
    paths_argument,
    ranks_option,
    say_what_is_hidden,
)

if TYPE_CHECKING:
    from firstfault.pipelines.publish import ViewFormat


@click.command(name="ranks", short_help="Show where every rank stood at the end.", epilog=EXIT_CODES)
@paths_argument
@format_option("text", "csv", "json", more="; csv has a row for each rank and process group")
@ranks_option("these")
@hosts_option("ranks of")
@click.option(
    "--group",
    "groups",
    multiple=True,
    metavar="NAME",
    help="Only ranks of this process group: its name or description.",
)
@click.option(
    "--part",
    "parts",
    multiple=True,
    type=click.Choice(["initiator", "notified", "died", "terminated", "silent"]),
    help="Only ranks that had this part; may be given more than once.",
)
@click.option(
    "--outliers",
    is_flag=True,
    help="Only ranks that failed, said nothing while most spoke, or stand elsewhere than most.",
)
@click.option("--all", "every", is_flag=True, help="Give each rank a row of its own, however many there are.")
@click.option("--evidence", is_flag=True, help="Quote the lines behind each row; text only, json always has them.")
@attempt_option
@evidence_options
def command(
    paths: tuple[str, ...],
    form: ViewFormat,
    output: str | None,
    *,
    every: bool,
    evidence: bool,
    share: bool,
    raw: bool,
    exit_zero: bool,
    **asked: Any,
) -> int:
    """Show every rank at the end of the last failing attempt, outliers first.

    For each rank: host, how it ended, its part in a hang (initiator, notified, died, terminated, silent), what it had
    enqueued and completed in each stuck process group, its last step, and the line that says so.
    """
    level = level_of(share=share, raw=raw)
    from firstfault.pipelines.publish import publish_ranks
    from firstfault.pipelines.ranks import RankFilters, rank_table
    from firstfault.report.phrases import exit_code

    filters = RankFilters(
        ranks=tuple(span for spans in asked["wanted"] for span in spans),
        hosts=asked["hosts"],
        groups=asked["groups"],
        parts=asked["parts"],
        outliers=asked["outliers"],
    )
    table = rank_table(list(paths), options_of(asked), filters)
    code = exit_code(table)
    if code == 2:
        raise nothing_readable(table.coverage, paths)
    say_what_is_hidden(len(table.ranks), table.left_out, "ranks", asked, paths=paths, form=form)
    text = publish_ranks(
        table, form, level, width=page(output)["width"], language=asked["lang"], every=every, evidence=evidence
    )
    deliver(text, output)
    return 0 if exit_zero else code
