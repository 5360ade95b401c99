"""Holds what a program asks for against what there is: types, places, words, zones. Errors tell what to write instead.

Must not open an input.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec.structs import replace

from firstfault.pipelines.errors import PipelineError
from firstfault.pipelines.options import ENGINES, DiagnoseOptions, on_cluster

if TYPE_CHECKING:
    from collections.abc import Sequence

S = TypeVar("S", bound=msgspec.Struct)
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?([0-5]\d))?", re.IGNORECASE)
ZONES = "Give `+08:00`, `UTC` or a name such as `Europe/Berlin`."
STATES = "Give the scheduler's word, such as `TIMEOUT`, `NODE_FAIL` or `COMPLETED`, or leave it out."


def zone_of(text: str) -> str | None:
    """A zone as the pipeline takes it, `Z`, `+HH:MM` or an IANA name that this machine knows; None for what is none."""
    text = text.strip()
    if text.upper() in {"Z", "UTC", "GMT"}:
        return "Z"
    offset = _OFFSET.fullmatch(text)
    if offset is not None and int(offset[2]) <= 14:
        return f"{offset[1]}{int(offset[2]):02d}:{offset[3] or '00'}"
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(text)
    except (ValueError, OSError, KeyError):
        return None
    return text


def checked(options: DiagnoseOptions | None) -> DiagnoseOptions:
    """The options of a program, folders given as text made paths, zone and state in their one form.

    Raises:
        PipelineError: a value is of no use, or a place that it names is not there.
    """
    given = typed(options if options is not None else DiagnoseOptions(), "options")
    if isinstance(given.attempt, int) and given.attempt < 1:
        raise PipelineError(
            f"{given.attempt} is no attempt", where="options.attempt", fix="Count from 1, or give `last` or `all`."
        )
    if given.engine not in ENGINES and not on_cluster(given.engine):
        raise PipelineError(
            f"{given.engine!r} is no engine",
            where="options.engine",
            fix="Give `auto`, `inline`, `processes`, `dask`, or `dask:` with the address of a scheduler.",
        )
    _there("options.storage", given.storage, "Give files or folders that hold the logs of the storage daemons.")
    _there("options.signatures", given.signatures, "Give folders of your own signatures.", folders=True)
    if given.deadline is not None and not 0 < given.deadline < float("inf"):
        raise PipelineError(
            f"{given.deadline} is no time to answer in", where="options.deadline", fix="Give seconds, more than 0."
        )
    zone = None if given.assume_zone is None else zone_of(given.assume_zone)
    if given.assume_zone is not None and zone is None:
        raise PipelineError(f"{given.assume_zone!r} is not a time zone", where="options.assume_zone", fix=ZONES)
    return replace(given, assume_zone=zone, job_state=_state(given.job_state))


def typed(given: S, where: str) -> S:
    """A struct of options whose every value is of its type.

    Raises:
        PipelineError: one is not, such as one text where several are asked for.
    """
    try:
        plain = msgspec.to_builtins(given, enc_hook=str)
        return msgspec.convert(plain, type(given), dec_hook=_path)
    except (msgspec.ValidationError, TypeError) as error:
        said, _, at = str(error).partition(" - at ")
        named = f"{where}{at.strip('`').removeprefix('$')}"
        raise PipelineError(
            f"{named} is of another kind than it has to be",
            where=named,
            why=said,
            fix='Several values are given as a tuple: `("a", "b")`.',
        ) from error


def _path(kind: type[Any], value: object) -> object:
    if issubclass(kind, Path) and isinstance(value, str):
        return Path(value)
    raise TypeError(f"Expected {kind.__name__}, got {type(value).__name__}")


def _there(where: str, places: Sequence[str | Path], fix: str, *, folders: bool = False) -> None:
    for place in places:
        if not (Path(place).is_dir() if folders else Path(place).exists()):
            raise PipelineError(
                f"there is no such {'folder' if folders else 'file or folder'}: {place}", where=where, fix=fix
            )


def _state(word: str | None) -> str | None:
    if word is None:
        return None
    from firstfault.analysis.job_state import known_state

    if known_state(word) is None:
        raise PipelineError(f"{word!r} is no state of a scheduler", where="options.job_state", fix=STATES)
    return word.strip().upper()
