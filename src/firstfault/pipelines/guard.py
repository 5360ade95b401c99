"""Runs one trial of a measurement under watch, stages it, and publishes the matrix when it is whole.

Result objects only: redacts nothing but the command that it writes down, and prints nothing.
"""

from __future__ import annotations

import os
import socket
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from firstfault.guard.matrix import PROFILE_FILE, MatrixError, Stage, differing, write_json
from firstfault.guard.own import MARK
from firstfault.guard.provenance import provenance
from firstfault.guard.run import run_command
from firstfault.guard.watching import Watch
from firstfault.model.environment import Environment
from firstfault.model.trial import Provenance, Trial
from firstfault.pipelines.errors import PipelineError
from firstfault.preflight.framed import digest_of
from firstfault.preflight.profiles import compare_environments
from firstfault.privacy.secrets import SecretFilter
from firstfault.recorder.clean import Cleaner
from firstfault.recorder.launch import find_program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from firstfault.model.trial import TrialState


class GuardOptions(NamedTuple):
    """How a trial is guarded."""

    every_s: float = 5.0
    code: str = "."
    revision: str = ""
    image: str = ""
    profile: str | None = None
    """File that holds the profile; this environment is looked at unless given."""
    again: bool = False
    """Whether a trial that counts already is run anew."""


class Outcome(NamedTuple):
    """What came of a trial."""

    trial: Trial
    place: Path
    """Where its folder lies."""
    code: int
    done: int
    """Trials of the matrix that count."""
    published: Path | None = None
    before: Path | None = None
    """Where the former results lie now."""
    refused: MatrixError | None = None
    """Why a whole matrix was not published, or the trial not staged."""
    staged: bool = True
    """False where a trial that counts could not be staged."""


def _open(stage: Stage) -> None:
    try:
        stage.open()
    except MatrixError as error:
        raise PipelineError(error.what, where=error.where, fix=error.fix) from error


def run_trial(stage: Stage, name: str, words: Sequence[str], options: GuardOptions) -> Outcome:
    """Runs a trial, and publishes the matrix where it was the last.

    Args:
        stage: the folders of the matrix.
        name: of the trial.
        words: program and arguments.
        options: how.

    Raises:
        PipelineError: nothing was run, and why.
    """
    _open(stage)
    if name in stage.done():
        done = stage.done()
        if not options.again and len(done) >= stage.of:
            return publish_staged(stage, name)
        if not options.again:
            raise PipelineError(f"the trial {name} is staged already, and counts", where=str(stage.staging / name), fix="--again runs it anew; the former one is kept among the attempts.")  # fmt: skip
        (stage.staging / name).rename(stage.begin(name) / "former")
    elif len(stage.done()) >= stage.of:
        raise PipelineError(f"all {stage.of} trials are staged", where=str(stage.staging), fix="Publish them by running one of them with --again, or move the folder away.")  # fmt: skip
    profile = _profile(options.profile)
    place = stage.begin(name)
    write_json(place / PROFILE_FILE, profile)
    known = provenance(options.code, os.environ, revision=options.revision, image=options.image, profile=profile.digest)
    mark = place.name
    watch = Watch(mark, every_s=options.every_s, only=_visible())
    watch.begin()
    begun, since = datetime.now(timezone.utc), time.monotonic()
    env = {**os.environ, MARK: mark, "FIRSTFAULT_TRIAL": name, "FIRSTFAULT_TRIAL_DIR": str(place)}
    try:
        code = run_command([*find_program(words[0]), *words[1:]], env, watch.follow)
    except OSError as error:
        raise PipelineError(f"the command could not be started: {error.strerror}", where=words[0], fix="Give the command as you would type it, behind `--`.") from error  # fmt: skip
    seconds = time.monotonic() - since
    left = len(watch.family.alive())
    watch.end()
    state, reasons = _judged(watch, known, code)
    cleaner = Cleaner()
    trial = Trial(
        name=name, state=state, reasons=reasons, exit_code=code, begun=begun.isoformat(timespec="seconds"), seconds=round(seconds, 3),
        command=[str(w) for w in cleaner.words(list(words))], host=socket.gethostname(), looks=watch.looks, strangers=list(watch.strangers.values()),
        cards=watch.cards(), machine=watch.host(), provenance=known, left_behind=left,
    )  # fmt: skip
    return _staged(stage, place, _clean(trial), code)


def _judged(watch: Watch, known: Provenance, code: int) -> tuple[TrialState, list[str]]:
    if code:
        return "failed", [f"the command left with code {code}", *watch.invalid()]
    if invalid := watch.invalid():
        return "invalid", invalid
    unproven = [*watch.unproven(), *(f"not known: {what}" for what in known.missing)]
    return ("unproven", unproven) if unproven else ("valid", [])


def _clean(trial: Trial) -> Trial:
    """Without secrets: names of programs and the command are others' text."""
    secrets = SecretFilter()
    return replace(
        trial,
        reasons=[secrets.clean(r) for r in trial.reasons],
        strangers=[replace(s, name=secrets.clean(s.name)) for s in trial.strangers],
    )


def _staged(stage: Stage, place: Path, trial: Trial, code: int) -> Outcome:
    try:
        place = stage.finish(place, trial)
    except MatrixError as error:
        return Outcome(trial, place, code, len(stage.done()), refused=error, staged=False)
    done = stage.done()
    if trial.state != "valid" or len(done) < stage.of:
        return Outcome(trial, place, code, len(done))
    return _published(stage, place, trial, code, done)


def publish_staged(stage: Stage, name: str) -> Outcome:
    """Publishes a matrix that is whole and was not published before, as when the file system refused it. Runs nothing.

    Args:
        stage: the folders of the matrix.
        name: of a trial that is staged.

    Returns:
        What came of it; the code is 1 where it is refused again.
    """
    _open(stage)
    done = stage.done()
    told = _published(stage, stage.staging / name, done[name], 0, done)
    return told if told.refused is None else told._replace(code=1)


def _published(stage: Stage, place: Path, trial: Trial, code: int, done: dict[str, Trial]) -> Outcome:
    try:
        _same(stage, done)
        before = stage.publish(trial.provenance)
    except MatrixError as error:
        return Outcome(trial, place, code, len(done), refused=error)
    except OSError as error:
        refused = MatrixError(
            f"the matrix could not be published: {error.strerror}",
            str(stage.results),
            f"It lies whole in {stage.staging}.",
        )
        return Outcome(trial, place, code, len(done), refused=refused)
    return Outcome(trial, stage.results / trial.name, code, len(done), stage.results, before)


def _same(stage: Stage, done: dict[str, Trial]) -> None:
    """Refuses a matrix whose trials ran under different things.

    Raises:
        MatrixError: they did.
    """
    fix = "Run those that are older again, with --again."
    told = differing(done)
    if told:
        raise MatrixError(f"the trials of the matrix differ in: {', '.join(told)}", str(stage.staging), fix)
    first, *others = sorted(done)
    profiles = {name: read_profile(stage.staging / name / PROFILE_FILE) for name in done}
    for name in others:
        held = compare_environments(profiles[first], profiles[name], (first, name))
        if held.verdict == "not_comparable":
            raise MatrixError(
                f"the trials {first} and {name} ran in environments that must not be compared: {held.summary}",
                str(stage.staging),
                fix,
            )


def read_profile(path: str | Path) -> Environment:
    """The profile that a file holds.

    Raises:
        MatrixError: it holds none.
    """
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=Environment)
    except (OSError, msgspec.MsgspecError, ValueError) as error:
        raise MatrixError(
            "a file holds no profile", str(path), "`firstfault probe --format json` writes one."
        ) from error


def _profile(path: str | None) -> Environment:
    from firstfault.pipelines.probe import probe, read_profiles

    found = probe() if path is None else read_profiles(path).found[0]
    return found if found.digest else replace(found, digest=digest_of(msgspec.to_builtins(found)))


def _visible() -> frozenset[str] | None:
    """Numbers of the cards that the trial may use; None for all."""
    told = os.environ.get("CUDA_VISIBLE_DEVICES")
    words = [] if told is None else [w.strip() for w in told.split(",") if w.strip()]
    return frozenset(words) if words and all(w.isdecimal() for w in words) else None


def run_matrix(
    stage: Stage, commands: dict[str, list[str]], options: GuardOptions, tell: Callable[[Outcome], None]
) -> int:
    """Runs all trials that do not count yet, in their order, until one does not count.

    Args:
        stage: the folders of the matrix.
        commands: name -> program and arguments.
        options: how.
        tell: is told each outcome.

    Returns:
        The exit code: of the command that failed, 1 where a trial does not count or nothing was published, 0 where it was.

    Raises:
        PipelineError: nothing was run, and why.
    """
    last: Outcome | None = None
    for name, words in commands.items():
        if name in stage.done() and not options.again:
            continue
        last = run_trial(stage, name, words, options)
        tell(last)
        if last.trial.state != "valid" or not last.staged:
            return last.code or 1
    if last is None:
        last = publish_staged(stage, next(iter(commands)))
        tell(last)
    return 0 if last.published is not None else 1
