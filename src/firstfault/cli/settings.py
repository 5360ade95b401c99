"""Settings that stand for options: `firstfault.toml` or `[tool.firstfault]`, then `FIRSTFAULT_*`; flags come after both.

Only a file that somebody named, or that lies in the user's own folder of settings, may change a verdict or what leaves: of a file that
merely lies around where the logs are, no more is taken than how a report looks. Must not know what an option means.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from firstfault.cli.group import FILE, users_file
from firstfault.pipelines.errors import PipelineError
from firstfault.pipelines.options import on_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PREFIX = "FIRSTFAULT_"
NAMED = PREFIX + "CONFIG"
HARMLESS = frozenset({"format", "lang", "share", "engine"})
"""Options that a file which nobody named may set: they change how a report looks, never what it says or who may see it."""
PATHS = frozenset({"signatures", "storage", "incidents"})
"""Options that name places; in a file they are seen from that file."""
FORMATS = frozenset({"text", "markdown", "html", "json", "sarif", "junit", "csv"})
"""What some command gives; one that a command does not give leaves that command with its own default."""
YES, NO = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off", ""})


class Settings(NamedTuple):
    """Values of options and where each stands."""

    common: dict[str, Any]
    """Option without dashes, words joined by `-` -> value, for every command that has it."""
    by_command: dict[str, dict[str, Any]]
    """Command -> the same, for it alone."""
    sources: dict[tuple[str, str], str]
    """(command or empty, option) -> the file or variable that sets it."""
    left_out: list[str]
    """What a file that nobody named may not set, as sentences."""

    def defaults(self, name: str, command: click.Command) -> dict[str, Any]:
        """The defaults of a command by the names of its parameters; those of its own commands as maps."""
        inner = getattr(command, "commands", None)
        if inner:
            return {n: self.defaults(f"{name} {n}", c) for n, c in inner.items()}
        found: dict[str, Any] = {}
        own = self.by_command.get(name, {})
        options = {n: p for p in command.params if isinstance(p, click.Option) and (n := _long(p)) is not None}
        for option in own:
            if option not in options:
                raise PipelineError(
                    f"the command `{name}` has no option `{option}`",
                    where=self.sources[name, option],
                    fix=_nearest(option, options),
                )
        for option, parameter in options.items():
            value = own.get(option)
            if value is None and option in self.common and self._offers(parameter, option):
                value = self.common[option]
            if value is None or parameter.name is None:
                continue
            found[parameter.name] = _shaped(parameter, value, self.source(name, option))
        return found

    def _offers(self, parameter: click.Option, option: str) -> bool:
        """Whether a value for all commands is one that this one has: not every command gives every format."""
        value = self.common[option]
        if option == "format" and isinstance(value, str) and value not in FORMATS:
            raise PipelineError(
                f"there is no format {value!r}", where=self.sources["", option], fix=_nearest(str(value), {*FORMATS})
            )
        return (
            not (isinstance(parameter.type, click.Choice) and isinstance(value, str)) or value in parameter.type.choices
        )

    def source(self, command: str, option: str) -> str:
        """Where the value of a command's option stands; empty where no setting gives it."""
        return self.sources.get((command, option)) or self.sources.get(("", option), "")


def settings(
    environ: Mapping[str, str], folder: Path | None, commands: Mapping[str, object], named: str | None = None
) -> Settings:
    """The settings of this call, later ones over earlier ones: user's file, file of the folder, named file, variables.

    Args:
        environ: the variables of the process.
        folder: where the command runs; it and its parents, up to a repository, are searched; None where it is gone.
        commands: the commands that there are.
        named: the file of `--config`; the variable `FIRSTFAULT_CONFIG` where None.

    Raises:
        PipelineError: a file cannot be read, is not TOML, or sets what is no option.
    """
    from firstfault.cli.evidence import shared_options

    known = shared_options()
    made = Settings({}, {}, {}, [])
    own = users_file(environ)
    if own is not None and os.path.isfile(own):  # noqa: PTH113 - that of a path raises where it may not look
        _add(made, _table(own), str(own), commands, known)
    named = named or environ.get(NAMED) or None
    if named is not None:
        _add(made, _table(Path(named)), named, commands, known)
    elif folder is not None and (found := _nearby(folder)) is not None and found != own:
        _add(made, _table(found), str(found), commands, known, only=HARMLESS)
    for name, value in environ.items():
        option = name.removeprefix(PREFIX).lower().replace("_", "-")
        if name.startswith(PREFIX) and option in known:
            made.common[option] = value
            made.sources["", option] = name
            for values in made.by_command.values():  # a variable comes after every file
                values.pop(option, None)
    return made


def _add(
    made: Settings,
    table: Mapping[str, Any],
    where: str,
    commands: Mapping[str, object],
    known: frozenset[str],
    *,
    only: frozenset[str] | None = None,
) -> None:
    for key, value in table.items():
        name = key.replace("_", "-")
        groups = [name] if name in commands and isinstance(value, dict) else []
        if not groups and name not in known:
            raise PipelineError(
                f"there is no option or command `{key}`", where=where, fix=_nearest(name, {*known, *commands})
            )
        for command, option, chosen in _entries(name, value) if groups else [("", name, value)]:
            if only is not None and (option not in only or not _harmless(option, chosen)):
                made.left_out.append(
                    f"`{option}` of {where} is left out: a file that nobody named may not change a verdict or what leaves. "
                    f"To take it: --config {where}"
                )
                continue
            chosen_there = _beside(Path(where), chosen) if option in PATHS else chosen
            (made.by_command.setdefault(command, {}) if command else made.common)[option] = chosen_there
            made.sources[command, option] = where


def _harmless(option: str, value: Any) -> bool:
    """Whether a value of an option that only changes how a report looks does no more than that."""
    if option == "share":  # turned off it would show names that the user's own settings keep back
        return _says_yes(value)
    return option != "engine" or not on_cluster(str(value).strip().lower())  # the logs would go to that address


def _beside(file: Path, value: Any) -> Any:
    """Paths as seen from the file that names them."""
    if isinstance(value, list):
        return [_beside(file, v) for v in value]
    plain = not isinstance(value, str) or value in {"", "auto"}
    return value if plain else str(file.absolute().parent / Path(value).expanduser())


def _entries(command: str, table: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """(command, option, value) of a table; a table inside it is a command of that command."""
    for key, value in table.items():
        name = key.replace("_", "-")
        if isinstance(value, dict):
            yield from _entries(f"{command} {name}", value)
        else:
            yield command, name, value


def _long(option: click.Option) -> str | None:
    longest = max((o for o in option.opts if o.startswith("--")), key=len, default=None)
    return None if longest is None else longest.removeprefix("--")


def _shaped(option: click.Option, value: Any, where: str) -> Any:
    """A value as click takes defaults: words for what may be given several times, truth for flags."""
    if option.is_flag:
        if isinstance(value, bool):
            return value
        word = str(value).strip().lower()
        if word in YES | NO:
            return word in YES
        raise PipelineError(f"`{_long(option)}` is true or false, not {value!r}", where=where)
    if option.multiple:
        words = value if isinstance(value, list) else str(value).split(os.pathsep)
        return [str(word) for word in words if str(word)]
    if isinstance(value, (list, dict, bool)):
        raise PipelineError(f"`{_long(option)}` takes one value, not {value!r}", where=where)
    return str(value)


def _says_yes(value: Any) -> bool:
    return value is True or str(value).strip().lower() in YES


def _nearest(word: str, words: Mapping[str, object] | set[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, list(words), n=1, cutoff=0.6)
    return f"Did you mean `{near[0]}`?" if near else "Known: " + ", ".join(sorted(words)) + "."


def _nearby(folder: Path) -> Path | None:
    """The nearest file of settings in a folder or above it, no further up than the repository, or than a folder of somebody else's."""
    for place in (folder, *folder.parents):
        own, project = place / FILE, place / "pyproject.toml"
        try:
            if place != folder and place.stat().st_uid != folder.stat().st_uid:
                return None  # /tmp, /home, /scratch: what lies there may be anybody's
            if own.is_file():
                return own
            if project.is_file() and b"[tool.firstfault" in project.read_bytes():
                return project
            if (place / ".git").exists():
                return None
        except OSError:
            continue  # what may not be looked at or read says nothing to us
    return None


def _table(file: Path) -> dict[str, Any]:
    """The settings of a file: all of it, or what stands under `tool.firstfault`."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        whole: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise PipelineError("the settings cannot be read", where=str(file), why=error.strerror or "") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PipelineError("the settings are no TOML", where=str(file), why=str(error)) from error
    if file.name != "pyproject.toml":
        return whole
    tools = whole.get("tool")
    inside = tools.get("firstfault", {}) if isinstance(tools, dict) else {}
    return inside if isinstance(inside, dict) else {}
