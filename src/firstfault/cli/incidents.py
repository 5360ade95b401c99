"""`firstfault incidents`: the knowledge base of past incidents, one file per kind of work.

Parses, calls the pipeline, prints and sets exit codes; it knows no rule of a record itself.
"""

from __future__ import annotations

import click

from firstfault.cli.incidents_find import search, show, similar, timeline, trends
from firstfault.cli.incidents_move import export, import_
from firstfault.cli.incidents_write import lint, new, replay, verify


@click.group(name="incidents", short_help="Keep, search and check records of past incidents.")
def command() -> None:
    """Keep, search and check records of past incidents: Markdown files in a folder of your own."""


for _part in (new, search, similar, show, verify, lint, trends, timeline, replay, import_, export):
    command.add_command(_part)
