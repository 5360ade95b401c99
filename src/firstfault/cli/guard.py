"""`firstfault guard`: runs a trial of a measurement under watch, and publishes a matrix of trials when it is whole.

Parses, calls the pipeline, prints and keeps the exit code of the command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from firstfault.cli.evidence import format_option, lang_option
from firstfault.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from firstfault.guard.matrix import Plan
    from firstfault.pipelines.guard import Outcome
    from firstfault.pipelines.publish import StackFormat


@click.command(
    name="guard",
    short_help="Run a trial of a measurement, and publish only a whole matrix of trials that count.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="Exit code: that of the command, 128 and the signal where one ended it; with --require-valid, and for a whole --matrix, 1 where a trial does not count.",
)
@click.option("--trial", metavar="NAME", help="Name of this trial; `only` unless given.")
@click.option("--of", type=click.IntRange(1, 10_000), metavar="N", help="Trials of the matrix; 1 unless given.")
@click.option("--matrix", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="TOML or JSON with the names of the trials, and maybe their commands: without a COMMAND all that are missing are run.")  # fmt: skip
@click.option("--results", metavar="DIR", help="Folder to publish into; `results` unless given here or by the matrix.")
@click.option("--again", is_flag=True, help="Run a trial anew that counts already.")
@click.option("--interval", "every_s", type=click.FloatRange(0.1, 3600), default=5.0, metavar="S", help="Seconds between two looks at the GPUs; 5 unless given.")  # fmt: skip
@click.option("--code", type=click.Path(exists=True, file_okay=False), default=".", metavar="DIR", help="Where the source of the program lies; the working directory unless given.")  # fmt: skip
@click.option("--revision", default="", metavar="TEXT", help="Revision of a source that is no folder of git.")
@click.option("--image", default="", metavar="DIGEST", help="Digest of the container's image, `sha256:…`; else FIRSTFAULT_IMAGE.")  # fmt: skip
@click.option("--profile", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="What `firstfault probe` printed here; this environment is looked at unless given.")  # fmt: skip
@click.option("--require-valid", is_flag=True, help="End with 1 where the command ended well and the trial does not count.")  # fmt: skip
@click.option("--show", type=click.Path(exists=True), metavar="PATH", help="Run nothing: show the results of a folder or file as a table, absent ones as `-`.")  # fmt: skip
@format_option("text", "json", more=", with --show")
@lang_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def command(
    trial: str | None,
    of: int | None,
    matrix: str | None,
    results: str | None,
    *,
    again: bool,
    every_s: float,
    code: str,
    revision: str,
    image: str,
    profile: str | None,
    require_valid: bool,
    show: str | None,
    form: StackFormat,
    lang: str,
    command: tuple[str, ...],
) -> int:
    """Run a trial of a measurement, and publish only a whole matrix of trials that count.

    COMMAND is what you would have typed: `firstfault guard --trial tp2 --of 4 -- torchrun train.py --tp 2`. What it writes into
    the folder that FIRSTFAULT_TRIAL_DIR names is staged. A trial counts where no program of somebody else was on its GPUs before,
    while or after it ran, the command ended well, and revision, image and environment are known. Nobody is killed.
    """
    if show is not None:
        return _show(show, form, lang, alone=not command)
    if form != "text":
        raise click.UsageError("--format is of --show: a trial prints what its COMMAND prints.")
    from firstfault.guard.matrix import NAME, MatrixError, Stage, read_plan
    from firstfault.guard.provenance import DIGEST
    from firstfault.pipelines.guard import GuardOptions, run_matrix, run_trial

    plan: Plan | None = None
    if matrix is not None:
        try:
            plan = read_plan(matrix)
        except MatrixError as error:
            raise PipelineError(error.what, where=error.where, fix=error.fix) from error
        if of is not None:
            raise click.UsageError("--of and --matrix both say how many trials there are: give one of them.")
    if image and not DIGEST.fullmatch(image):
        raise click.UsageError(
            f"--image {image!r} is no digest: a tag may name another image tomorrow. Give `sha256:…`."
        )
    name = trial or "only"
    if not NAME.fullmatch(name):
        raise click.UsageError(f"--trial {name!r} is no name: letters, digits and `._+-`.")
    if plan is not None and trial is not None and trial not in plan.trials:
        raise click.UsageError(f"the matrix has no trial {trial!r}: it has {', '.join(list(plan.trials)[:8])}.")
    names = [] if plan is None else list(plan.trials)
    stage = Stage(results or (plan.results if plan is not None else "") or "results", len(names) or of or 1, names)
    options = GuardOptions(every_s, code, revision, image, profile, again)
    if plan is not None and not command and trial is None:
        empty = next((n for n, words in plan.trials.items() if not words), None)
        if empty is not None:
            raise click.UsageError(f"the matrix gives no command for {empty!r}: give one behind `--`, with --trial.")
        return run_matrix(stage, plan.trials, options, _tell)
    words = list(command) or (plan.trials[name] if plan is not None and name in plan.trials else [])
    if not words:
        raise click.UsageError("Missing argument 'COMMAND...': the command to run, behind `--`.")
    if plan is not None and trial is None:
        raise click.UsageError("Which trial of the matrix is this? Give --trial NAME.")
    done = run_trial(stage, name, words, options)
    _tell(done)
    return done.code or int(require_valid and (done.trial.state != "valid" or not done.staged))


def _tell(done: Outcome) -> None:
    """Says on standard error what came of a trial."""
    from firstfault.cli.messages import tell

    trial = done.trial
    if not done.staged and done.refused is not None:
        tell(
            f"the trial {trial.name} is not staged",
            where=done.refused.where,
            why=done.refused.what,
            fix=done.refused.fix,
        )
        return
    if trial.state == "valid":
        tell(f"the trial {trial.name} counts; staged so far: {done.done}", where=str(done.place))
    else:
        tell(f"the trial {trial.name} does not count ({trial.state})", where=str(done.place), why="; ".join(trial.reasons), fix="Nothing was published, and earlier results are as they were.")  # fmt: skip
    if done.refused is not None:
        tell(done.refused.what, where=done.refused.where, fix=done.refused.fix)
    if done.published is not None:
        former = "" if done.before is None else f"the former results lie in {done.before}"
        tell("the matrix is whole and published", where=str(done.published), why=former)


def _show(path: str, form: StackFormat, language: str, *, alone: bool) -> int:
    if not alone:
        raise click.UsageError("--show runs no COMMAND: give it alone.")
    from firstfault.cli.evidence import page, write
    from firstfault.guard.results import read_results
    from firstfault.pipelines.publish import publish_results

    found = read_results(path)
    if not found.rows:
        raise PipelineError(
            "no results were found there",
            where=path,
            fix="Give a folder of trials, or a file of results: JSON, or JSON lines.",
        )
    write(publish_results(found, form, width=page(None)["width"], language=language))
    return 0
