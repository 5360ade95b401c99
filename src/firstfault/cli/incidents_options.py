"""The options that the commands of `firstfault incidents` share. Must not hold a command."""

from __future__ import annotations

import re
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from firstfault.cli.messages import tell
from firstfault.cli.values import ParamType
from firstfault.incidents.days import is_to_come
from firstfault.incidents.places import is_address, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from firstfault.incidents.places import Records

F = TypeVar("F", bound="Callable[..., Any]")


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
DAY = click.DateTime(formats=["%Y-%m-%d"])
"""A day, as 2026-03-02."""


def today() -> date:
    """The day on this machine's clock."""
    return datetime.now().astimezone().date()


class PastDay(ParamType):
    """A day on which something was, as a date: none that is still to come anywhere on earth."""

    name = "day"

    def convert(self, value: str | date, param: click.Parameter | None, ctx: click.Context | None) -> date:
        """The day as it was given."""
        if isinstance(value, date):
            return value
        day: date = DAY.convert(value, param, ctx).date()
        if is_to_come(day, today()):
            self.fail(f"{day.isoformat()} is still to come: today is {today().isoformat()}.", param, ctx)
        return day


class Place(ParamType):
    """A folder, or the address of a database as it was given."""

    name = "place"

    def convert(self, value: str | Path, param: click.Parameter | None, ctx: click.Context | None) -> str | Path:
        """The address as text, anything else as a path."""
        if is_address(str(value)):
            return str(value)
        if _SCHEME.match(str(value)):
            self.fail(
                f"{shown(str(value))!r} is no address of records: they are in a folder or at `postgresql://…`.",
                param,
                ctx,
            )
        path: Path = click.Path(file_okay=False, path_type=Path).convert(value, param, ctx)
        return path


def folder_option(command: F) -> F:
    """Adds the folder of records."""
    return click.option(
        "--dir",
        "folder",
        type=Place(),
        default="incidents",
        show_default=True,
        metavar="DIR",
        callback=_of_repository,
        help="The folder of records, or `postgresql://…` for those of an organisation; also found from below, in a repository.",
    )(command)


def _of_repository(context: click.Context, param: click.Parameter, value: Path | str) -> Path | str:
    """The folder `incidents` of the repository around us where none was named and none is here."""
    if context.get_parameter_source(str(param.name)) is not ParameterSource.DEFAULT or Path(value).is_dir():
        return value
    from firstfault.pipelines.seen_before import folder_around

    return folder_around() or value


def key_option(command: F) -> F:
    """Adds the key of pseudonyms."""
    return click.option(
        "--key",
        "key_file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Key of the pseudonyms of hosts and devices; a team shares one. Without it your own is used.",
    )(command)


def opened(place: Path | str) -> Records:
    """The store of a place, whether it is there or not; it is closed when the command ends."""
    from firstfault.incidents.places import store_at

    store = store_at(place)
    click.get_current_context().call_on_close(store.close)
    return store


def store_of(place: Path | str) -> Records:
    """The store of a place that is there.

    Raises:
        click.UsageError: it is not there.
    """
    store = opened(place)
    if not store.exists():
        raise _no_folder(place)
    return store


def there(place: Path | str) -> Path | str:
    """The place as it is; without one that was named the records that ship are all, but a name that is wrong is told.

    Raises:
        click.UsageError: it was named and is not there.
    """
    named = click.get_current_context().get_parameter_source("folder") is ParameterSource.COMMANDLINE
    if named and not is_address(str(place)) and not Path(place).exists():
        raise _no_folder(place)
    return place


def _no_folder(place: Path | str) -> click.UsageError:
    return click.UsageError(
        f"There is no folder {place}. Give that of your records by --dir, or start one by `firstfault incidents new`."
    )


def note(text: str) -> None:
    """Says on stderr what was done."""
    tell(text)
