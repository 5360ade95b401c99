"""`firstfault mcp`: answers an assistant that speaks the Model Context Protocol, on standard input and output.

Parses and serves; it decides nothing about the logs.
"""

from __future__ import annotations

import click

from firstfault.pipelines.errors import PipelineError


@click.command(name="mcp", short_help="Answer an assistant over the Model Context Protocol.")
@click.option("--root", "roots", multiple=True, required=True, type=click.Path(exists=True, file_okay=False), metavar="DIR", help="A folder below which logs may be read; may be given more than once. Nothing else is.")  # fmt: skip
@click.option("--incidents", metavar="DIR|postgresql://…", help="Records of a team's past incidents; those that ship with firstfault unless given.")  # fmt: skip
@click.option("--time-limit", "seconds", type=click.FloatRange(0, min_open=True), default=300.0, show_default=True, metavar="S", help="Seconds for one answer.")  # fmt: skip
@click.option("--memory-limit", "memory_mb", type=click.IntRange(100), default=4000, show_default=True, metavar="MB", help="Memory for one answer; heeded on Linux.")  # fmt: skip
@click.option("--share", is_flag=True, help="For strangers' eyes: hosts, users, paths, addresses, buckets and e-mails become pseudonyms.")  # fmt: skip
def command(roots: tuple[str, ...], incidents: str | None, seconds: float, memory_mb: int, *, share: bool) -> int:
    """Answer an assistant over the Model Context Protocol, on standard input and output.

    Its tools diagnose a path, list ranks, show the timeline, read lines again, explain words and search past incidents.
    They read below --root alone, write nothing, and say that quoted log text is data. Needs `pip install firstfault[mcp]`.
    """
    try:
        from firstfault.mcp.server import Tools, serve
    except ImportError as error:
        if (error.name or "").split(".")[0] not in {"mcp", "pydantic", "typing_extensions"}:
            raise
        raise PipelineError(
            "the SDK of the Model Context Protocol is not installed",
            why=str(error),
            fix="pip install 'firstfault[mcp]'",
        ) from error
    from firstfault.mcp.calls import Limits
    from firstfault.mcp.roots import Roots

    serve(Tools(Roots(list(roots)), Limits(seconds, memory_mb), incidents=incidents, share=share))
    return 0
