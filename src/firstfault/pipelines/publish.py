"""Takes a diagnosis or a view through the one door and into a format.

Must not change what it says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from firstfault.redact import redact

if TYPE_CHECKING:
    from firstfault.model.checkpoint import Checkpoint, CheckpointComparison
    from firstfault.model.checks import Preflight
    from firstfault.model.comparison import Comparison
    from firstfault.model.config import ConfigCheck
    from firstfault.model.dataset import DataCheck
    from firstfault.model.diagnosis import Diagnosis
    from firstfault.model.environment import Environment, EnvironmentComparison
    from firstfault.model.metrics import MetricsView, RunComparison
    from firstfault.model.page import Page
    from firstfault.model.results import Results
    from firstfault.model.views import MemoryTable, Proof, RankTable, RecorderView, StackTable, Timeline
    from firstfault.redact import Level, Redacted

Format = Literal["text", "markdown", "html", "json", "sarif", "junit"]
ViewFormat = Literal["text", "csv", "json"]
StackFormat = Literal["text", "json"]
CheckFormat = Literal["text", "json", "junit"]
FORMATS: tuple[Format, ...] = ("text", "markdown", "html", "json", "sarif", "junit")


def publish(
    diagnosis: Diagnosis,
    form: Format,
    level: Level,
    *,
    width: int = 100,
    height: int | None = None,
    color: bool = False,
    language: str = "en",
) -> str:
    """Redacts and renders a diagnosis.

    Args:
        diagnosis: what was found.
        form: the format to give; for `html` see `publish_page`, which also has what a page draws.
        level: what is taken out first; see `firstfault.redact.redact`.
        width: columns of the terminal; only the text format heeds it.
        height: rows of the terminal, into which the text format fits itself; None where there is none.
        color: whether the text format may use terminal colours.
        language: of the sentences and fixed words, `en` or `zh`.

    Returns:
        The whole report, ending in a newline.
    """
    if form == "html":
        from firstfault.model.page import Page

        return publish_page(Page(diagnosis=diagnosis), level, language=language)
    safe = redact(diagnosis, level)
    match form:
        case "sarif":
            from firstfault.report.sarif import render_sarif

            return render_sarif(safe, language=language)
        case "junit":
            from firstfault.report.junit import render_junit

            return render_junit(safe, language=language)
        case "json":
            return _as_json(safe, language)
        case "markdown":
            from firstfault.report.markdown import render_markdown

            return render_markdown(safe, language=language)
        case "text":
            from firstfault.report.text import render_text

            return render_text(safe, width=width, height=height, color=color, language=language)


def publish_page(page: Page, level: Level, *, language: str = "en") -> str:
    """Redacts a page and renders it as one HTML file.

    Args:
        page: the diagnosis with what its pictures are drawn from.
        level: what is taken out first; see `firstfault.redact.redact`.
        language: of the sentences and fixed words.

    Returns:
        The whole document, ending in a newline.
    """
    from firstfault.report.html import render_html

    return render_html(redact(page, level), language=language)


def _unquoted(table: RankTable) -> RankTable:
    """The table with the places of its lines alone: to look through text that is not shown costs most of a large one."""

    def bare(proof: Proof) -> Proof:
        return replace(proof, evidence=replace(proof.evidence, text=""))

    return replace(table, ranks=[replace(r, proof=[bare(p) for p in r.proof[:1]]) for r in table.ranks])


def publish_ranks(
    table: RankTable,
    form: ViewFormat,
    level: Level,
    *,
    width: int = 100,
    every: bool = False,
    evidence: bool = False,
    language: str = "en",
) -> str:
    """Redacts and renders the table of ranks.

    Args:
        table: what is true of each rank.
        form: the format to give.
        level: what is taken out first; see `firstfault.redact.redact`.
        width: columns of the terminal; only the text format heeds it.
        language: of the sentences and fixed words.
        every: whether each rank has a row of its own in the text format.
        evidence: whether the text format quotes the lines behind each row.

    Returns:
        The whole view, ending in a newline.
    """
    quoted = form == "json" or (form == "text" and evidence)
    safe = redact(table if quoted else _unquoted(table), level)
    if form == "json":
        return _as_json(safe, language)
    from firstfault.report.ranks import render_ranks, render_ranks_csv

    if form == "csv":
        return render_ranks_csv(safe)
    return render_ranks(safe, width=width, every=every, evidence=evidence, language=language)


def publish_timeline(
    timeline: Timeline, form: ViewFormat, level: Level, *, width: int = 100, every: bool = False, language: str = "en"
) -> str:
    """Redacts and renders the timeline.

    Args:
        timeline: what happened.
        form: the format to give.
        level: what is taken out first; see `firstfault.redact.redact`.
        width: columns of the terminal; only the text format heeds it.
        language: of the sentences and fixed words.
        every: whether the text format shows every entry, however many there are.

    Returns:
        The whole view, ending in a newline.
    """
    safe = redact(timeline, level)
    if form == "json":
        return _as_json(safe, language)
    from firstfault.report.timeline import render_timeline, render_timeline_csv

    return (
        render_timeline_csv(safe)
        if form == "csv"
        else render_timeline(safe, width=width, every=every, language=language)
    )


def publish_stacks(
    table: StackTable, form: StackFormat, level: Level, *, width: int = 100, every: bool = False, language: str = "en"
) -> str:
    """Redacts and renders the stacks.

    Args:
        table: where every process stood.
        form: the format to give.
        level: what is taken out first; see `firstfault.redact.redact`.
        width: columns of the terminal; only the text format heeds it.
        language: of the sentences and fixed words.
        every: whether the text format shows frames of Python and of libraries in the tree too.

    Returns:
        The whole view, ending in a newline.
    """
    safe = redact(table, level)
    if form == "json":
        return _as_json(safe, language)
    from firstfault.report.stacks import render_stacks

    return render_stacks(safe, width=width, every=every, language=language)


def publish_memory(
    table: MemoryTable, form: StackFormat, level: Level, *, width: int = 100, every: bool = False, language: str = "en"
) -> str:
    """Redacts and renders the memory of devices.

    Args:
        table: what held the memory.
        form: the format to give.
        level: what is taken out first; see `firstfault.redact.redact`.
        width: columns of the terminal; only the text format heeds it.
        language: of the sentences and fixed words.
        every: whether the text format shows every place, however many there are.

    Returns:
        The whole view, ending in a newline.
    """
    safe = redact(table, level)
    if form == "json":
        return _as_json(safe, language)
    from firstfault.report.memory import render_memory

    return render_memory(safe, width=width, every=every, language=language)


def publish_recorder(
    view: RecorderView, form: StackFormat, level: Level, *, width: int = 100, every: bool = False, language: str = "en"
) -> str:
    """Redacts and renders the view of flight-recorder dumps.

    Args:
        view: where every process group stands.
        form: the format to give.
        level: what is taken out first; see `firstfault.redact.redact`.
        width: columns of the terminal; only the text format heeds it.
        language: of the sentences and fixed words.
        every: whether the text format shows every group, also those with nothing unfinished.

    Returns:
        The whole view, ending in a newline.
    """
    safe = redact(view, level)
    if form == "json":
        return _as_json(safe, language)
    from firstfault.report.flight_recorder import render_recorder

    return render_recorder(safe, width=width, every=every, language=language)


def publish_comparison(found: Comparison, form: StackFormat, *, width: int = 100, language: str = "en") -> str:
    """Redacts and renders the comparison of two diagnoses; what was taken out of these stays out.

    Args:
        found: what differs.
        form: the format to give.
        width: columns of the terminal; only the text format heeds it.
        language: of the sentences and fixed words.

    Returns:
        The whole report, ending in a newline.
    """
    safe = redact(found, "secrets")
    if form == "json":
        return _as_json(safe, language)
    from firstfault.report.comparison import render_comparison

    return render_comparison(safe, width=width, language=language)


def safe_metrics(view: MetricsView, level: Level) -> Redacted[MetricsView]:
    """The metrics without what must not leave; tables and pictures take the names of their sources from it."""
    return redact(view, level)


def publish_metrics(
    safe: Redacted[MetricsView], form: StackFormat, *, width: int = 100, every: bool = False, language: str = "en"
) -> str:
    """Renders the training metrics.

    Args:
        safe: what `safe_metrics` gave.
        form: the format to give.
        width: columns of the terminal; only the text format heeds it.
        language: of the sentences and fixed words.
        every: whether the text format shows every point and curve.

    Returns:
        The whole view, ending in a newline.
    """
    if form == "json":
        return _as_json(safe, language)
    from firstfault.report.metrics import render_metrics

    return render_metrics(safe, width=width, every=every, language=language)


def publish_runs(
    found: RunComparison, form: StackFormat, level: Level, *, width: int = 100, language: str = "en"
) -> str:
    """Redacts and renders the comparison of two runs.

    Args:
        found: what differs.
        form: the format to give.
        level: what is taken out first; see `firstfault.redact.redact`.
        width: columns of the terminal; only the text format heeds it.
        language: of the sentences and fixed words.

    Returns:
        The whole report, ending in a newline.
    """
    safe = redact(found, level)
    if form == "json":
        return _as_json(safe, language)
    from firstfault.report.metrics import render_run_comparison

    return render_run_comparison(safe, width=width, language=language)


def publish_checkpoint(
    found: Checkpoint | CheckpointComparison,
    form: StackFormat,
    level: Level,
    *,
    width: int = 100,
    every: bool = False,
    language: str = "en",
) -> str:
    """Redacts and renders what is true of a checkpoint, or of two.

    Args:
        found: the checkpoint, or the comparison.
        form: the format to give.
        level: what is taken out first; see `firstfault.redact.redact`.
        width: columns of the terminal; only the text format heeds it.
        every: whether the text format shows every problem and shard, or difference.
        language: of the sentences and fixed words.

    Returns:
        The whole report, ending in a newline.
    """
    if form == "json":
        return _as_json(redact(found, level), language)
    from firstfault.model.checkpoint import Checkpoint
    from firstfault.report.checkpoint import render_checkpoint, render_checkpoints

    if isinstance(found, Checkpoint):
        return render_checkpoint(redact(found, level), width=width, every=every, language=language)
    return render_checkpoints(redact(found, level), width=width, language=language)


def publish_config_check(
    found: ConfigCheck, form: CheckFormat, level: Level, *, width: int = 100, every: bool = False, language: str = "en"
) -> str:
    """Redacts and renders what is wrong with the settings of a job.

    Args:
        found: the check.
        form: the format to give.
        level: what is taken out first; see `firstfault.redact.redact`.
        width: columns of the terminal; only the text format heeds it.
        every: whether the text format shows also what is right and what could not be checked.
        language: of the sentences and fixed words.

    Returns:
        The whole report, ending in a newline.
    """
    if form == "json":
        return _as_json(redact(found, level), language)
    from firstfault.report.config_check import render_config_check, render_config_check_junit

    if form == "junit":
        return render_config_check_junit(redact(found, level), language=language)
    return render_config_check(redact(found, level), width=width, every=every, language=language)


def publish_data_check(
    found: DataCheck, form: StackFormat, level: Level, *, width: int = 100, language: str = "en"
) -> str:
    """Redacts and renders what is wrong with the data of a job.

    Args:
        found: the trial.
        form: the format to give.
        level: what is taken out first; see `firstfault.redact.redact`.
        width: columns of the terminal; only the text format heeds it.
        language: of the sentences and fixed words.

    Returns:
        The whole report, ending in a newline.
    """
    if form == "json":
        return _as_json(redact(found, level), language)
    from firstfault.report.data_check import render_data_check

    return render_data_check(redact(found, level), width=width, language=language)


def publish_results(found: Results, form: StackFormat = "text", *, width: int = 100, language: str = "en") -> str:
    """Redacts and renders results of trials.

    Args:
        found: the results.
        form: the format to give.
        width: columns of the terminal; only the text format heeds it.
        language: of the sentences and fixed words.

    Returns:
        The whole table or document, ending in a newline.
    """
    safe = redact(found, "secrets")
    if form == "json":
        return _as_json(safe, language)
    from firstfault.report.results import render_results

    return render_results(safe, width=width, language=language)


def publish_preflight(
    found: Preflight, form: CheckFormat, level: Level, *, width: int = 100, every: bool = False, language: str = "en"
) -> str:
    """Redacts and renders the checks before a run.

    Args:
        found: the answer.
        form: the format to give.
        level: what is taken out first; see `firstfault.redact.redact`.
        width: columns of the terminal; only the text format heeds it.
        every: whether the text format shows checks that are in order, and why each is made.
        language: of the sentences and fixed words; junit is English.

    Returns:
        The whole report, ending in a newline.
    """
    safe = redact(found, level)
    if form == "json":
        return _as_json(safe, language)
    from firstfault.report.preflight import render_preflight, render_preflight_junit

    if form == "junit":
        return render_preflight_junit(safe)
    return render_preflight(safe, width=width, every=every, language=language)


def publish_environment(found: Environment, *, framed: bool) -> str:
    """Redacts a profile and gives it as JSON, or as one framed line.

    Args:
        found: the profile.
        framed: whether as a line that `firstfault probe --read` finds in any output.

    Returns:
        The text, ending in a newline.
    """
    safe = redact(found, "secrets")
    if not framed:
        return _as_json(safe, "en")
    from firstfault.preflight.framed import frame

    return frame(safe.content)


def publish_environments(
    found: EnvironmentComparison, form: StackFormat, *, width: int = 100, language: str = "en"
) -> str:
    """Redacts and renders the comparison of two profiles.

    Args:
        found: what differs.
        form: the format to give.
        width: columns of the terminal; only the text format heeds it.
        language: of the sentences and fixed words.

    Returns:
        The whole report, ending in a newline.
    """
    safe = redact(found, "secrets")
    if form == "json":
        return _as_json(safe, language)
    from firstfault.report.environment import render_environments

    return render_environments(safe, width=width, language=language)


def _as_json(safe: Redacted[Any], language: str) -> str:
    from firstfault.report.json import render_json
    from firstfault.report.localise import localised

    return render_json(localised(safe, language))
