"""Looks at an input again and again while its job still writes: a diagnosis whenever what is there has changed.

Every answer is that of a whole run over what is there at the time (see `firstfault.pipelines.kept`). It ends where the job is
decided and nothing was written for a while; whoever asks may stop it before.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from firstfault.model.until import STOPPED
from firstfault.model.words import Strength
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.errors import PipelineError
from firstfault.pipelines.kept import Kept
from firstfault.readers.discover import STDIN, Found, discover, expand, prefixes
from firstfault.readers.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from firstfault.model.diagnosis import Diagnosis, Verdict
    from firstfault.pipelines.options import DiagnoseOptions

EVERY = 10.0
"""Seconds between two looks."""
QUIET = 60.0
"""Seconds without a change after which a job that is decided is left."""


class Look(NamedTuple):
    """One answer."""

    diagnosis: Diagnosis
    changed: bool
    """Whether it says something else than the one before."""
    at: float
    """Seconds since the epoch."""


class _File(NamedTuple):
    path: str
    size: int
    changed: int


def followed(
    paths: Sequence[str | os.PathLike[str]],
    options: DiagnoseOptions,
    *,
    every: float = EVERY,
    quiet: float = QUIET,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Look]:
    """The diagnosis now, and again after each change of what is there.

    Args:
        paths: files, folders, archives or globs.
        options: as for a diagnosis.
        every: seconds between two looks; they are farther apart where a look takes long, so that half of the time at most goes there.
        quiet: seconds without a change after which a job is left that failed or ended well.
        sleep: waits so many seconds.

    Raises:
        PipelineError: standard input is among the paths.
        SignatureError: a site signature is wrong.
    """
    names = [str(p) for p in paths]
    if STDIN in names:
        raise PipelineError(
            "standard input cannot be followed", where="-", fix="Give the files or folders into which the job writes."
        )
    kept = Kept()
    before: frozenset[_File] | None = None
    last: Diagnosis | None = None
    still = 0.0
    while True:
        there = _there(names)
        took = 0.0
        if there != before:
            began = time.monotonic()
            found = diagnose(names, options, kept=kept)
            took = time.monotonic() - began
            yield Look(found, last is None or claim(found.verdict) != claim(last.verdict), time.time())
            before, last, still = there, found, 0.0
            if any(row.reason == STOPPED for row in found.coverage):
                return  # an interrupt came while it read: that is an order to end
        elif last is not None and is_decided(last.verdict) and still >= quiet:
            return
        wait = max(every, took)
        sleep(wait)
        still += wait


def is_decided(verdict: Verdict) -> bool:
    """Whether a job failed, or came to its end: more lines are not waited for."""
    return verdict.failed is not None


def claim(verdict: Verdict) -> tuple[object, ...]:
    """What a verdict says, without its wording: another claim is a change."""
    who = verdict.culprits
    trigger = None if verdict.trigger is None else (verdict.trigger.file, verdict.trigger.line)
    return (
        verdict.failed,
        verdict.category,
        verdict.strength if verdict.strength is not Strength.UNKNOWN else None,
        tuple(who.ranks),
        tuple(who.hosts),
        tuple(who.storage_nodes),
        tuple(verdict.first_failed.ranks),
        trigger,
    )


def _there(names: Sequence[str]) -> frozenset[_File]:
    """Size and time of the last change of every file."""
    found = []
    given = expand(list(names))
    for path, prefix in zip(given, prefixes(given), strict=True):
        for one in discover(path, prefix, Limits().members):
            if not isinstance(one, Found):
                continue
            try:
                status = os.stat(one.real)  # noqa: PTH116 - names may be no text
            except OSError:
                continue
            found.append(_File(one.real, status.st_size, status.st_mtime_ns))
    return frozenset(found)
