"""The options that the commands of `firstfault incidents` share. Must not hold a command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from firstfault.cli.messages import tell

if TYPE_CHECKING:
    from collections.abc import Callable

    from firstfault.incidents.store import Store

F = TypeVar("F", bound="Callable[..., Any]")


def folder_option(command: F) -> F:
    """Adds the folder of records."""
    return click.option(
        "--dir",
        "folder",
        type=click.Path(file_okay=False, path_type=Path),
        default="incidents",
        show_default=True,
        metavar="DIR",
        help="The folder of records.",
    )(command)


def key_option(command: F) -> F:
    """Adds the key of pseudonyms."""
    return click.option(
        "--key",
        "key_file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Key of the pseudonyms of hosts and devices; a team shares one. Without it your own is used.",
    )(command)


def store_of(folder: Path) -> Store:
    """The store of a folder that is there.

    Raises:
        click.UsageError: it is not there.
    """
    from firstfault.incidents.store import Store

    if not folder.is_dir():
        raise click.UsageError(
            f"There is no folder {folder}. Give that of your records by --dir, or start one by `firstfault incidents new`."
        )
    return Store(folder)


def note(text: str) -> None:
    """Says on stderr what was done."""
    tell(text)
