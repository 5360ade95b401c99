"""`firstfault schema`: prints a published JSON Schema.

Prints the file that lies in the package; it generates nothing.
"""

from __future__ import annotations

import click


@click.command(name="schema", short_help="Print the JSON Schema of `--format json`.")
@click.argument(
    "name",
    type=click.Choice(
        [
            "diagnosis",
            "ranks",
            "timeline",
            "batch",
            "stacks",
            "flight-recorder",
            "memory",
            "metrics",
            "compare",
            "diff",
            "checkpoint",
            "checkpoint-compare",
            "check-config",
            "check-data",
            "guard",
            "preflight",
            "probe",
            "probe-compare",
        ]
    ),
    default="diagnosis",
    metavar="[COMMAND]",
)
def command(name: str) -> int:
    """Print the JSON Schema that `--format json` of a COMMAND follows.

    COMMAND is diagnosis (the default), ranks, timeline, batch (each of its lines), stacks, flight-recorder, memory,
    metrics, compare, diff, checkpoint (that of `checkpoint verify`), checkpoint-compare,
    check-config, check-data, guard (that of `guard --show`), preflight, probe or probe-compare.
    """
    from firstfault.cli.evidence import write
    from firstfault.report.schema import published

    write(published(name))
    return 0
