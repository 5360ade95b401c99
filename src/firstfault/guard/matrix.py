"""A matrix of trials on disk: staged one by one, published by one rename when it is whole. A part never takes the place of a result.

Beside the folder RESULTS lie `RESULTS.staging` with the trials that count, and `RESULTS.attempts` with those that run, failed
or do not count. Deletes nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import re
import shlex
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from firstfault.model.trial import MATRIX, Matrix, Provenance, Trial

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,79}")
TRIAL_FILE, MATRIX_FILE, PROFILE_FILE = "trial.json", "matrix.json", "profile.json"
MOST = 1 << 20
"""Bytes of a matrix or a trial."""
MOST_TRIALS = 10_000
_EXCHANGE, _HERE = 2, -100
"""RENAME_EXCHANGE and AT_FDCWD of Linux."""


class MatrixError(Exception):
    """A matrix cannot be read, begun or published: what, where, and what to do."""

    def __init__(self, what: str, where: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what, self.where, self.fix = what, where, fix


class Plan(NamedTuple):
    """What a file says of a matrix."""

    results: str
    """Folder of the results; empty where the file does not say."""
    trials: dict[str, list[str]]
    """Name -> command; an empty one where the file gives names alone."""


def read_plan(path: str) -> Plan:
    """Reads a matrix from TOML or JSON: `results`, and `trials` as names, or as names with commands.

    Raises:
        MatrixError: it is none.
    """
    try:
        raw = Path(path).read_bytes()[:MOST]
        text = raw.decode("utf-8")
        tree: Any = json.loads(text) if text.lstrip().startswith("{") else _toml(text)
    except (OSError, ValueError) as error:
        raise MatrixError("the matrix cannot be read", path, f"It is TOML or JSON: {str(error)[:120]}") from error
    told = tree.get("trials") if isinstance(tree, dict) else None
    trials: dict[str, list[str]] = {}
    if isinstance(told, list) and all(isinstance(t, str) for t in told):
        trials = {t: [] for t in told}
    elif isinstance(told, dict):
        for name, words in told.items():
            trials[str(name)] = shlex.split(words) if isinstance(words, str) else [str(w) for w in words]
    bad = next((n for n in trials if not NAME.fullmatch(n)), None)
    if (
        not trials
        or len(trials) > MOST_TRIALS
        or bad is not None
        or (isinstance(told, list) and len(told) != len(trials))
    ):
        raise MatrixError(
            "the matrix names no trials" if bad is None else f"{bad[:80]!r} is no name of a trial",
            path,
            'Write `[trials]` with lines such as `tp2 = "torchrun train.py --tp 2"`; names are letters, digits and `._+-`, each once.',
        )
    results = tree.get("results", "")
    return Plan(results if isinstance(results, str) else "", trials)


def _toml(text: str) -> object:
    import sys

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text)


class Stage:
    """The folders of one matrix."""

    def __init__(self, results: str, of: int, names: list[str]) -> None:
        self.results = Path(os.path.abspath(results))
        self.staging = self.results.with_name(f"{self.results.name}.staging")
        self.attempts = self.results.with_name(f"{self.results.name}.attempts")
        self.of, self.names = of, names

    def open(self) -> None:
        """Makes the folders, or goes on with what is staged.

        Raises:
            MatrixError: something else lies there, or another matrix is staged.
        """
        self._not_ours(self.results)
        with self.locked():
            self._clear_published()
            self.staging.mkdir(parents=True, exist_ok=True)
            held = read_matrix(self.staging)
            wanted = Matrix(trials=sorted(self.names), of=self.of)
            if held is None:
                write_json(self.staging / MATRIX_FILE, wanted)
            elif (held.of, held.trials) != (wanted.of, wanted.trials):
                raise MatrixError(
                    f"another matrix is staged there: {held.of} trials"
                    + (f" ({', '.join(held.trials[:5])})" if held.trials else ""),
                    str(self.staging),
                    "Finish it, move it away, or give other --results.",
                )

    @staticmethod
    def _not_ours(place: Path) -> None:
        if os.path.lexists(place) and not (
            place.is_dir() and not place.is_symlink() and (not any(place.iterdir()) or read_matrix(place) is not None)
        ):
            raise MatrixError(
                "what lies there is no published matrix, and it would be replaced",
                str(place),
                "Give a folder with --results that is not there yet.",
            )

    def _clear_published(self) -> None:
        """Moves away an older result that a guard had exchanged and not yet moved when it was killed."""
        held = read_matrix(self.staging)
        if held is None or not held.published:
            return
        there = read_matrix(self.results)
        if there is not None and there.published >= held.published:
            self.staging.rename(self._before())
        else:  # it was killed before the exchange
            write_json(self.staging / MATRIX_FILE, Matrix(trials=sorted(self.names), of=self.of))

    def _before(self) -> Path:
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        return self.results.with_name(f"{self.results.name}.before-{stamp}-{os.urandom(3).hex()}")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps two guards of one matrix from moving folders at once."""
        self.attempts.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.attempts / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def done(self) -> dict[str, Trial]:
        """Trials that are staged and count."""
        found = {}
        with contextlib.suppress(OSError):
            for place in sorted(self.staging.iterdir()):
                trial = read_trial(place)
                if trial is not None and trial.state == "valid" and trial.name == place.name:
                    found[trial.name] = trial
        return found

    def begin(self, name: str) -> Path:
        """A new folder for a trial that is about to run."""
        place = self.attempts / f"{name}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.urandom(3).hex()}"
        place.mkdir()
        return place

    def finish(self, place: Path, trial: Trial) -> Path:
        """Writes what is true of a trial, and stages it where it counts.

        Returns:
            Where its folder lies now.

        Raises:
            MatrixError: it cannot be written down or staged; it lies where it ran then.
        """
        lies = f"The trial lies in {place}."
        try:
            write_json(place / TRIAL_FILE, trial)
        except OSError as error:
            raise MatrixError(f"what came of the trial could not be written down: {error.strerror}", str(place), lies) from error  # fmt: skip
        if trial.state != "valid":
            return place
        with self.locked():
            held = read_matrix(self.staging)
            if held is None or held.published or (held.of, held.trials) != (self.of, sorted(self.names)):
                raise MatrixError("its matrix was published or moved away while it ran", str(self.staging), lies)
            target = self.staging / trial.name
            if os.path.lexists(target):
                raise MatrixError("another guard staged a trial of its name while it ran", str(target), lies)
            try:
                place.rename(target)
            except OSError as error:
                raise MatrixError(f"it could not be moved there: {error.strerror}", str(target), lies) from error
            _sync(self.staging)
        return target

    def publish(self, shared: Provenance) -> Path | None:
        """Puts the whole matrix in the place of the results, in one step.

        Args:
            shared: provenance of all trials.

        Returns:
            Where the former results lie now; None where there were none.

        Raises:
            MatrixError: it is not whole, or the file system cannot exchange two folders.
        """
        with self.locked():
            self._not_ours(self.results)
            if len(self.done()) < self.of:
                raise MatrixError("the matrix is not whole", str(self.staging), "Run the trials that are missing.")
            now = datetime.now(timezone.utc).isoformat()
            staged = Matrix(trials=sorted(self.names), of=self.of)
            write_json(
                self.staging / MATRIX_FILE,
                Matrix(trials=sorted(self.done()), of=self.of, published=now, provenance=shared),
            )
            try:
                if not self.results.exists() or not any(self.results.iterdir()):
                    self.staging.rename(self.results)
                    _sync(self.results.parent)
                    return None
                exchange(self.staging, self.results)
            except BaseException:
                write_json(self.staging / MATRIX_FILE, staged)
                raise
            _sync(self.results.parent)
            before = self._before()
            self.staging.rename(before)
            return before


def exchange(first: Path, second: Path) -> None:
    """Exchanges two folders in one step: at no time is there none, or half of one.

    Raises:
        MatrixError: the file system cannot.
    """
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is not None and call(_HERE, os.fsencode(first), _HERE, os.fsencode(second), ctypes.c_uint(_EXCHANGE)) == 0:
        return
    why = os.strerror(ctypes.get_errno()) if call is not None else "the C library has no renameat2"
    raise MatrixError(
        f"the former results were not replaced, for this file system cannot exchange two folders in one step ({why})",
        str(second),
        f"They are untouched, and the new ones lie whole in {first}: move the former away, and give the last command again. It then publishes what is staged, and runs nothing.",
    )


def read_trial(place: Path) -> Trial | None:
    """What is true of a trial; None where it has not ended, or cannot be read."""
    try:
        return msgspec.json.decode((place / TRIAL_FILE).read_bytes()[:MOST], type=Trial)
    except (OSError, msgspec.MsgspecError, ValueError):
        return None


def read_matrix(place: Path) -> Matrix | None:
    """The matrix of a folder; None where it holds none."""
    try:
        found = msgspec.json.decode((place / MATRIX_FILE).read_bytes()[:MOST], type=Matrix)
    except (OSError, msgspec.MsgspecError, ValueError):
        return None
    return found if found.schema.partition("/")[0] == MATRIX.partition("/")[0] else None


def write_json(path: Path, content: object) -> None:
    """Writes a file that is there whole or not at all."""
    new = path.with_name(f".{path.name}.{os.urandom(4).hex()}.new")
    with new.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def _sync(folder: Path) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def differing(trials: dict[str, Trial]) -> list[str]:
    """What of their provenance is not the same for all trials; profiles are compared by whoever reads them."""
    found = []
    for field, told in (
        ("revision", "revision of the source"),
        ("dirty", "state of the source"),
        ("changes", "changes of the source"),
        ("image", "image"),
    ):
        if len({getattr(t.provenance, field) for t in trials.values()}) > 1:
            found.append(told)
    return found
