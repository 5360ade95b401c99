"""Reads the settings of one job and says what is wrong with them.

Result objects only: redacts nothing and prints nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from firstfault.config.check import check
from firstfault.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.model.config import ConfigCheck

MOST_BYTES = 8 << 20
"""Size above which a file is no settings."""


def check_config(
    paths: Sequence[str | os.PathLike[str]], *, world_size: int | None = None, step_s: float | None = None
) -> ConfigCheck:
    """What is wrong with the settings of one job.

    Args:
        paths: files, or command lines: what is no file and holds a blank is taken as one.
        world_size: ranks, where the caller knows.
        step_s: seconds of one step, where the caller knows.

    Raises:
        PipelineError: a file is not there, is too large, or holds no text.
    """
    return check([_read(os.fspath(path)) for path in paths], world_size=world_size, step_s=step_s)


def _read(path: str) -> tuple[str, str]:
    file = Path(path)
    try:
        there = file.is_file()
    except (OSError, ValueError):
        there = False
    if not there:
        if any(c.isspace() for c in path.strip()):
            return "<command>", path
        folder = file.is_dir()
        raise PipelineError(
            "a folder was given" if folder else "there is no such file",
            where=path,
            why="settings are checked file by file" if folder else "",
            fix="Name the files: ds_config.json, the script that starts the job, accelerate's YAML."
            if folder
            else "Give the path of a file, or a command line in quotes.",
        )
    try:
        with file.open("rb") as opened:
            raw = opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise PipelineError("a file cannot be read", where=path, why=error.strerror or "", fix="Check its permissions.") from error  # fmt: skip
    if len(raw) > MOST_BYTES or b"\0" in raw[:4096]:
        raise PipelineError(
            "a file holds no settings",
            where=path,
            why="it is binary" if b"\0" in raw[:4096] else f"it is larger than {MOST_BYTES >> 20} MiB",
            fix="Give text: JSON, YAML, TOML or a script.",
        )
    return path, raw.decode("utf-8", "replace")
