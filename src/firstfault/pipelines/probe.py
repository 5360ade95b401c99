"""Makes the profile of this environment, reads profiles out of a job's output, and compares two.

Result objects only: redacts nothing and prints nothing.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from firstfault.model.environment import ENVIRONMENT, Environment
from firstfault.pipelines.errors import PipelineError
from firstfault.preflight.environment import CAPABILITIES, look
from firstfault.preflight.framed import Read, digest_of, read_frames
from firstfault.preflight.machine import Machine
from firstfault.preflight.profiles import compare_environments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.model.environment import EnvironmentComparison

MOST = 256 << 20
"""Bytes of a file in which profiles are looked for."""


def probe(*, require: Sequence[str] = (), imports: bool = True) -> Environment:
    """The profile of this environment.

    Args:
        require: capabilities that the run needs.
        imports: whether packages are imported, in a process of its own with a limit of time.

    Raises:
        PipelineError: a capability of that name is not known.
    """
    strange = [n for n in require if n not in CAPABILITIES]
    if strange:
        raise PipelineError(
            f"there is no capability {strange[0]!r}", where="--require", fix=f"Known are: {', '.join(CAPABILITIES)}."
        )
    return look(Machine(), require=require, imports=imports)


def read_profiles(path: str) -> Read:
    """The profiles in a file: framed ones in any output, or the JSON of one.

    Args:
        path: a file; `-` is standard input.

    Raises:
        PipelineError: it holds no whole profile.
    """
    text = _text(path)
    found = _bare(text) or read_frames(text)
    if found.found:
        return found
    if found.damaged:
        line, why = found.damaged[0]
        raise PipelineError(
            "no profile there is whole",
            where=f"{path}, line {line}",
            why=why,
            fix="Print it again on a line of its own: `firstfault probe`, before the program starts and from one process.",
        )
    raise PipelineError(
        "no profile was found there",
        where=path,
        why="no line holds FIRSTFAULT_ENVIRONMENT_JSON=",
        fix="Let the job print one: `firstfault probe` in its script, before the program.",
    )


def _text(path: str) -> str:
    if path == "-":
        return sys.stdin.buffer.read(MOST).decode("utf-8", "replace")
    file = Path(path)
    if file.is_dir():
        raise PipelineError("that is a folder", where=path, fix="Give the file that holds the output of the job.")
    with file.open("rb") as stream:
        # UTF-16, as some consoles write it, begins with a mark.
        raw = stream.read(MOST)
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return raw.decode("utf-16", "replace")
    return raw.decode("utf-8", "replace")


def _bare(text: str) -> Read | None:
    """A file that is the JSON of one profile itself, as `--format json` and `--read` give it."""
    import msgspec

    if not text.lstrip().startswith("{") or len(text) > 4 << 20:
        return None
    try:
        tree = msgspec.json.decode(text)
        if not isinstance(tree, dict) or tree.get("schema") != ENVIRONMENT:
            return None
        profile = msgspec.convert(tree, type=Environment)
    except msgspec.MsgspecError:
        return None
    if profile.digest and digest_of(tree) != profile.digest:
        return Read([], [], [(1, "its digest does not fit: something was changed")])
    return Read([profile], [1], [])


def compare_profiles(first: str | os.PathLike[str], second: str | os.PathLike[str]) -> EnvironmentComparison:
    """Whether results of two environments may be compared.

    Args:
        first: a file that holds one profile, in whatever output.
        second: the other.

    Raises:
        PipelineError: one of them holds none, or several different ones.
    """
    sides = []
    for path in (os.fspath(first), os.fspath(second)):
        found = read_profiles(path)
        if len(found.found) > 1:
            raise PipelineError(
                f"{len(found.found)} different profiles stand there",
                where=path,
                why="a run of several environments is not comparable with anything as a whole",
                fix="`firstfault probe --read` shows them; keep each in a file of its own and compare these.",
            )
        sides.append(found.found[0])
    return compare_environments(sides[0], sides[1], (os.fspath(first), os.fspath(second)))
