"""The click group: commands that are imported when called, and a bare path that means `diagnose`.

Must not hold a command.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from firstfault import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from click.shell_completion import CompletionItem

CONFIG = "--config"
FILE = "firstfault.toml"
"""Name of a file of settings."""
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
        if cmd_name not in self._table:
            return None
        command: click.Command = import_module(self._table[cmd_name][0]).command
        self._preset(ctx, cmd_name, command)
        return command

    def _preset(self, ctx: click.Context, name: str, command: click.Command) -> None:
        """Makes what settings say the defaults of a command."""
        named = ctx.params.get("config")
        if ctx.resilient_parsing or not (named or _may_have_settings()):
            return
        from firstfault.cli.settings import settings

        found = settings(os.environ, _folder(), self._table, named)
        ctx.default_map = {name: found.defaults(name, command)}
        ctx.obj = found
        if found.left_out:
            from firstfault.cli.messages import tell

            for sentence in found.left_out:
                tell(sentence)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Commands, without importing any, and files where no command is meant: a bare path is one for `diagnose`."""
        from click.shell_completion import CompletionItem

        names = [name for name in self._table if name.startswith(incomplete)]
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        found = [CompletionItem(name, help=self._table[name][1]) for name in names]
        return found or [CompletionItem(incomplete, type="file")]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list of commands without importing any."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self._table.items()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Puts `diagnose` before anything that is neither a command nor an option of the group."""
        given, rest = _own(args)
        if rest[:1] in (["--help"], ["-h"]):
            # The list of commands is shown whatever follows, such as `--lang zh`.
            rest = rest[:1]
        if rest and rest[0] not in self._table and rest[0] not in {"--help", "-h", "--version", "-V"}:
            self._mistyped(ctx, rest[0])
            rest = ["diagnose", *rest]
        return super().parse_args(ctx, given + rest)

    def _mistyped(self, ctx: click.Context, word: str) -> None:
        """Says so where the first word can only be a command that is not there: no path, and like one of the commands."""
        from difflib import get_close_matches

        if word in {"help", "version"} and not os.path.lexists(word):
            raise click.UsageError(f"There is no command {word!r}. Did you mean `firstfault --{word}`?", ctx)
        if word.startswith("-") or not word.isascii() or not word.replace("-", "").isalpha() or os.path.lexists(word):
            return
        near = get_close_matches(word, list(self._table), n=1, cutoff=0.75)
        if near:
            raise click.UsageError(
                f"There is no file or folder and no command {word!r}. Did you mean the command `{near[0]}`?", ctx
            )

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command; click would drop the exit code that it returns in older versions."""
        return super().invoke(ctx)


def _own(args: list[str]) -> tuple[list[str], list[str]]:
    """The options of the program itself in front of a command or a path, and the rest."""
    if args and args[0] == CONFIG:
        return args[:2], args[2:]
    if args and args[0].startswith(f"{CONFIG}="):
        return args[:1], args[1:]
    return [], args


def _folder() -> Path | None:
    """Where the command runs; None where that folder is gone."""
    try:
        return Path.cwd()
    except OSError:
        return None


def users_file(environ: Mapping[str, str]) -> Path | None:
    """The user's own settings; None where nothing says where they lie: a path from here on could lie among somebody's logs."""
    base = environ.get("XDG_CONFIG_HOME", "")
    if not base.startswith(os.sep):
        # Not `Path.home`, which raises where a process in a container has neither a home nor a name.
        base = os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".config")  # noqa: PTH111, PTH118
    return Path(base) / "firstfault" / FILE if base.startswith(os.sep) else None


def _may_have_settings() -> bool:
    """Whether there is anything to read: without, a start pays for a few looks at folders and no more."""
    if any(name.startswith("FIRSTFAULT_") for name in os.environ):
        return True
    own, folder = users_file(os.environ), _folder()
    if own is not None and os.path.lexists(own):
        return True
    place = str(folder or "/")
    while True:
        if any(os.path.lexists(f"{place}/{name}") for name in (FILE, "pyproject.toml")):
            return True
        above = os.path.dirname(place)  # noqa: PTH120
        if os.path.lexists(f"{place}/.git") or above == place:
            return False
        place = above


def group(table: Mapping[str, tuple[str, str]]) -> click.Group:
    """The command line over a table of commands."""

    def show_help(ctx: click.Context, config: str | None) -> int | None:
        del config
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
    top = click.option(
        CONFIG,
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        help="Settings to use: a firstfault.toml, or a pyproject.toml with [tool.firstfault]. Stands before the command.",
    )(top)
    return click.version_option(__version__, "-V", "--version", message="firstfault %(version)s")(top)
