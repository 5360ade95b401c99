"""Hands a diagnosis over to where a team keeps its runs: Weights & Biases, MLflow, TensorBoard, or a collector of OpenTelemetry.

Each function takes the object that the caller has of that library, and imports none. What is handed over leaves the machine, so
names of hosts, users, paths and addresses are pseudonyms unless `share=False` says that the place is yours.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from firstfault.pipelines.publish import publish
from firstfault.redact import redact

if TYPE_CHECKING:
    from firstfault.model.diagnosis import Diagnosis, Time
    from firstfault.redact import Level

    Fact = str | bool

PREFIX = "firstfault."
_MOST_RANKS = 64
"""Ranks that one fact lists; a tag of MLflow takes 5,000 characters."""


def facts(diagnosis: Diagnosis, *, share: bool = True) -> dict[str, Fact]:
    """What a diagnosis says, as a flat map for tags, summaries and attributes.

    Args:
        diagnosis: what `firstfault.diagnose` gave.
        share: turn hosts, users, paths and addresses into pseudonyms.

    Returns:
        `failed`, `category`, `strength`, `summary`, `culprit_ranks`, `culprit_hosts`, `trigger`, `action` and the classes, each behind
        `firstfault.`; what is not known is left out.
    """
    verdict = _safe(diagnosis, share=share).verdict
    trigger = verdict.trigger
    hosts = [*verdict.culprits.hosts, *verdict.culprits.storage_nodes]
    found: dict[str, Fact | None] = {
        "failed": verdict.failed,
        "category": str(verdict.category),
        "strength": str(verdict.strength),
        "summary": verdict.summary,
        "culprit_ranks": ",".join(map(str, verdict.culprits.ranks[:_MOST_RANKS])) or None,
        "culprit_hosts": ",".join(hosts[:_MOST_RANKS]) or None,
        "trigger": None if trigger is None else f"{trigger.file}:{trigger.line}: {trigger.text}",
        "action": str(verdict.action.kind),
        "form": None if verdict.classes.form is None else str(verdict.classes.form),
        "phase": None if verdict.classes.phase is None else str(verdict.classes.phase),
    }
    return {PREFIX + name: value for name, value in found.items() if value is not None}


def to_wandb(run: Any, diagnosis: Diagnosis, *, share: bool = True, language: str = "en") -> None:
    """Puts the facts into the summary of a run of Weights & Biases, and the report into its files.

    Args:
        run: what `wandb.init` gave, online or offline.
        diagnosis: what `firstfault.diagnose` gave.
        share: turn names into pseudonyms.
        language: of the report, `en` or `zh`.
    """
    import tempfile
    from pathlib import Path

    run.summary.update(facts(diagnosis, share=share))
    with tempfile.TemporaryDirectory() as folder:
        for name, text in _files(diagnosis, share=share, language=language).items():
            path = Path(folder, "firstfault", name)
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            run.save(str(path), base_path=folder, policy="now")
        _flush(run)


def _flush(run: Any) -> None:
    """Files of a run are links until it takes them over; they have to be its own before the folder goes."""
    from pathlib import Path

    for link in Path(run.dir, "firstfault").glob("*"):
        if link.is_symlink():
            text = link.read_text(encoding="utf-8")
            link.unlink()
            link.write_text(text, encoding="utf-8")


def to_mlflow(client: Any, run_id: str, diagnosis: Diagnosis, *, share: bool = True, language: str = "en") -> None:
    """Sets the facts as tags of a run of MLflow, and logs the report as its artifacts.

    Args:
        client: an `mlflow.MlflowClient`.
        run_id: of the run, which may have ended.
        diagnosis: what `firstfault.diagnose` gave.
        share: turn names into pseudonyms.
        language: of the report, `en` or `zh`.
    """
    for name, value in facts(diagnosis, share=share).items():
        client.set_tag(run_id, name, str(value).lower() if isinstance(value, bool) else value)
    for name, text in _files(diagnosis, share=share, language=language).items():
        client.log_text(run_id, text, f"firstfault/{name}")


def to_tensorboard(
    writer: Any, diagnosis: Diagnosis, *, step: int | None = None, share: bool = True, language: str = "en"
) -> None:
    """Adds the report as text, and as a scalar whether the run failed.

    Args:
        writer: a `SummaryWriter` of `torch.utils.tensorboard` or of tensorboardX.
        diagnosis: what `firstfault.diagnose` gave.
        step: at which to show it; the writer's own where None.
        share: turn names into pseudonyms.
        language: of the report, `en` or `zh`.
    """
    writer.add_text("firstfault/report", _files(diagnosis, share=share, language=language)["report.md"], step)
    if diagnosis.verdict.failed is not None:
        writer.add_scalar("firstfault/failed", float(diagnosis.verdict.failed), step)


def to_opentelemetry(tracer: Any, diagnosis: Diagnosis, *, share: bool = True) -> None:
    """Records a span `firstfault.diagnosis` with the facts as attributes, and an event for each link of the chain at its time.

    Args:
        tracer: what `opentelemetry.trace.get_tracer("firstfault")` gave.
        diagnosis: what `firstfault.diagnose` gave.
        share: turn names into pseudonyms.
    """
    safe = _safe(diagnosis, share=share)
    with tracer.start_as_current_span("firstfault.diagnosis", attributes=facts(diagnosis, share=share)) as span:
        for link in safe.chain:
            line = next(iter(link.evidence), None)
            told: dict[str, str | int] = {PREFIX + "what": link.what, PREFIX + "why": link.why}
            if line is not None:
                told |= {PREFIX + "file": line.file, PREFIX + "line": line.line, PREFIX + "text": line.text}
            span.add_event("firstfault.link", told, _nanoseconds(None if line is None else line.time))


def _nanoseconds(time: Time | None) -> int | None:
    """Since the epoch; None where no line states a date and a zone."""
    if time is None or time.earliest is None:
        return None
    try:
        moment = dt.datetime.fromisoformat(time.earliest.replace("Z", "+00:00"))
    except ValueError:
        return None
    return None if moment.tzinfo is None else int(moment.timestamp() * 1e9)


def _safe(diagnosis: Diagnosis, *, share: bool) -> Diagnosis:
    return redact(diagnosis, "identities" if share else "secrets").content


def _files(diagnosis: Diagnosis, *, share: bool, language: str) -> dict[str, str]:
    level: Level = "identities" if share else "secrets"
    return {
        "report.md": publish(diagnosis, "markdown", level, language=language),
        "diagnosis.json": publish(diagnosis, "json", level),
    }
