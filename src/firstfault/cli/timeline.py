"""`firstfault timeline`: the events of all sources in one order.

Parses, calls the pipeline, prints and sets the exit code; it decides nothing about the logs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from firstfault.cli.evidence import (
    EXIT_CODES,
    attempts_option,
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
from firstfault.cli.values import TimeValue

if TYPE_CHECKING:
    from firstfault.pipelines.publish import ViewFormat


@click.command(name="timeline", short_help="Show what happened, in one order.", epilog=EXIT_CODES)
@paths_argument
@format_option("text", "csv", "json")
@click.option(
    "--since",
    type=TimeValue(),
    metavar="TIME",
    help="Only what may have happened at or after `14:05` or `2026-03-02T14:05`.",
)
@click.option("--until", type=TimeValue(), metavar="TIME", help="Only what may have happened at or before TIME.")
@ranks_option("events of these")
@hosts_option("events of")
@click.option(
    "--role",
    "roles",
    multiple=True,
    type=click.Choice(["cause", "effect", "teardown", "context", "noise"]),
    help="Only events of this role; may be given more than once. Without it all but noise.",
)
@click.option("--all", "every", is_flag=True, help="Give each event an entry of its own, however many there are.")
@attempts_option()
@evidence_options
def command(
    paths: tuple[str, ...],
    form: ViewFormat,
    output: str | None,
    *,
    every: bool,
    share: bool,
    raw: bool,
    exit_zero: bool,
    **asked: Any,
) -> int:
    """Show what happened in the last failing attempt: the events of all sources in one order.

    Each event has its interval: a plain time is the line's own stamp; `~`, a range, `from` or `until` is what the
    stamps around it allow. Events that no line puts on one clock are shown clock by clock, never ordered by guess.
    Equal events of one burst share an entry.
    """
    level = level_of(share=share, raw=raw)
    from firstfault.model.words import Role
    from firstfault.pipelines.publish import publish_timeline
    from firstfault.pipelines.timeline import EventFilters, timeline
    from firstfault.report.phrases import exit_code

    filters = EventFilters(
        since=asked["since"],
        until=asked["until"],
        ranks=tuple(span for spans in asked["wanted"] for span in spans),
        hosts=asked["hosts"],
        roles=tuple(map(Role, asked["roles"])),
    )
    found = timeline(list(paths), options_of(asked), filters, folded=not every)
    code = exit_code(found)
    if code == 2:
        raise nothing_readable(found.coverage, paths)
    say_what_is_hidden(len(found.events), found.left_out, "events", asked, paths=paths, form=form)
    deliver(
        publish_timeline(found, form, level, width=page(output)["width"], language=asked["lang"], every=every), output
    )
    return 0 if exit_zero else code
