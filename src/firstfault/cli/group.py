"""The click group: commands that are imported when called, and a bare path that means `diagnose`.

Must not hold a command.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from firstfault import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

EPILOG = """\b
A bare path means `diagnose`:
  firstfault logs/              the first fault, on one screen
  firstfault logs/ --format markdown --output report.md
  firstfault ranks logs/        where every rank stood at the end
  firstfault timeline logs/     what happened, in order
  firstfault explain xid 79     what a line, code or word means

\b
Exit codes: 0 no failure found, 1 a failure, 2 wrong use or nothing
readable, 3 not decidable from what was given."""


class LazyGroup(click.Group):
    """Commands by name, module and help line; the module is imported when the command is asked for."""

    def __init__(self, table: Mapping[str, tuple[str, str]], **rest: Any) -> None:
        super().__init__(**rest)
        self._table = dict(table)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the table."""
        del ctx
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports and returns a command; None where there is none of that name."""
        del ctx
        if cmd_name not in self._table:
            return None
        command: click.Command = import_module(self._table[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list of commands without importing any."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self._table.items()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Puts `diagnose` before anything that is neither a command nor an option of the group."""
        if args and args[0] not in self._table and args[0] not in {"--help", "-h", "--version", "-V"}:
            self._mistyped(ctx, args[0])
            args = ["diagnose", *args]
        return super().parse_args(ctx, args)

    def _mistyped(self, ctx: click.Context, word: str) -> None:
        """Says so where the first word can only be a command that is not there: no path, and like one of the commands."""
        from difflib import get_close_matches

        if word in {"help", "version"} and not os.path.lexists(word):
            raise click.UsageError(f"There is no command {word!r}. Did you mean `firstfault --{word}`?", ctx)
        if not word.isascii() or not word.replace("-", "").isalpha() or os.path.lexists(word):
            return
        near = get_close_matches(word, list(self._table), n=1, cutoff=0.75)
        if near:
            raise click.UsageError(
                f"There is no file or folder and no command {word!r}. Did you mean the command `{near[0]}`?", ctx
            )

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command; click would drop the exit code that it returns in older versions."""
        return super().invoke(ctx)


def group(table: Mapping[str, tuple[str, str]]) -> click.Group:
    """The command line over a table of commands."""

    def show_help(ctx: click.Context) -> int | None:
        if ctx.invoked_subcommand is not None:
            return None
        click.echo(ctx.get_help())
        return 2

    top = LazyGroup(
        table,
        name="firstfault",
        callback=click.pass_context(show_help),
        invoke_without_command=True,
        help="Reads what a dead, hung or broken training job on many GPUs left behind and says what the FIRST fault was, "
        "on which rank and host, with the raw lines as proof.",
        epilog=EPILOG,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    return click.version_option(__version__, "-V", "--version", message="firstfault %(version)s")(top)
