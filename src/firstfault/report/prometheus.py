"""What many jobs died of, as Prometheus metrics in the text format. It counts and judges nothing."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.model.batch import Batch, JobAnswer
    from firstfault.redact import Redacted


def batch_as_prometheus(safe: Redacted[Batch]) -> str:
    """The metrics of the jobs of one batch; names and labels stand in `docs/how-to/diagnose-many-jobs.md`."""
    jobs = safe.content.jobs
    verdicts = Counter((str(j.category), str(j.strength)) for j in jobs if j.state in {"diagnosed", "cut_short"})
    lines = [
        *_metric("firstfault_jobs", "Jobs by how far each was looked at.", _by("state", (j.state for j in jobs))),
        *_metric(
            "firstfault_jobs_diagnosed",
            "Jobs by category of the first fault and strength of the verdict.",
            ((f'category="{c}",strength="{s}"', n) for (c, s), n in sorted(verdicts.items())),
        ),
        *_metric(
            "firstfault_culprit_jobs",
            "Jobs in which a host or storage node was named as the culprit.",
            _by("host", (host for job in jobs for host in _named(job))),
        ),
        *_metric("firstfault_diagnosis_seconds", "Seconds that all jobs together took.", [("", _seconds(jobs))]),
    ]
    return "\n".join(lines) + "\n"


def _named(job: JobAnswer) -> list[str]:
    return sorted({*job.culprits.hosts, *job.culprits.storage_nodes})


def _seconds(jobs: Iterable[JobAnswer]) -> float:
    return round(sum(job.seconds for job in jobs), 3)


def _by(label: str, values: Iterable[str]) -> list[tuple[str, float]]:
    return [(f'{label}="{_safe(value)}"', number) for value, number in sorted(Counter(values).items())]


def _metric(name: str, meaning: str, rows: Iterable[tuple[str, float]]) -> list[str]:
    head = [f"# HELP {name} {meaning}", f"# TYPE {name} gauge"]
    return [*head, *(f"{name}{{{labels}}} {number}" if labels else f"{name} {number}" for labels, number in rows)]


def _safe(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
