"""`firstfault schema`: prints the published JSON Schema.

Prints the file that lies in the package; it generates nothing.
"""

from __future__ import annotations

import click


@click.command(name="schema", short_help="Print the JSON Schema of `--format json`.")
def command() -> int:
    """Print the JSON Schema that every `--format json` report follows."""
    from firstfault.cli.evidence import write
    from firstfault.report.schema import published

    write(published())
    return 0
