"""Two runs of one job side by side. Result objects only; nothing is redacted or printed here."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firstfault.metrics.compare import Differing, curve_parts, pace_differs, settings_differ
from firstfault.metrics.settings import MOST, Setting, settings_of_file, settings_of_log
from firstfault.model.diagnosis import Evidence
from firstfault.model.metrics import RunComparison, RunDifference
from firstfault.model.words import SourceKind
from firstfault.pipelines.errors import PipelineError
from firstfault.pipelines.metrics import opened_tables

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from firstfault.metrics.steps import Steps
    from firstfault.readers.open import Opened

CURVES = ("loss", "grad_norm", "lr", "loss_scale", "val_loss", "memory")
PACE = ("step_time", "throughput", "tflops", "data_time")
SETTINGS = (".yaml", ".yml", ".json", ".toml", ".cfg", ".ini", ".conf", ".env")
_AREAS = {"configuration", "versions", "environment", "seeds", "topology"}


class _Run(NamedTuple):
    tables: list[Steps]
    settings: list[Setting]


def compare_runs(first: str | os.PathLike[str], second: str | os.PathLike[str]) -> RunComparison:
    """What differs between two runs: what was set before the first step, then pace and curves by the step at which they part.

    Args:
        first: files of the run that went well.
        second: files of the other.

    Returns:
        The comparison, not yet redacted.

    Raises:
        PipelineError: one of the two holds neither steps nor settings.
    """
    a, b = _read(first), _read(second)
    found = [_set(d) for d in settings_differ(a.settings, b.settings)]
    courses = [*_pace(a, b), *_curves(a, b)]
    found += sorted(courses, key=lambda d: (d.step is None, d.step or 0.0))
    return RunComparison(same=not found, summary=_summary(found), differences=found, missing=_missing(a, b))


def _set(found: Differing) -> RunDifference:
    told = [s for s in (found.first, found.second) if s is not None]
    return RunDifference(
        area=found.area,
        what=found.name,
        first="" if found.first is None else found.first.value,
        second="" if found.second is None else found.second.value,
        evidence=[Evidence(file=s.file, line=s.line, column=1, text=s.text[:400]) for s in told],
    )


def _read(path: str | os.PathLike[str]) -> _Run:
    with opened_tables([path]) as (opened, tables, _):
        run = _Run(tables, list(_settings(opened)))
    if not run.tables and not run.settings:
        raise PipelineError(
            "neither steps nor settings were found there",
            where=str(path),
            fix="Give the run's logs, tables of metrics or files of settings.",
        )
    return run


def _settings(opened: Opened) -> Iterator[Setting]:
    for source in opened.sources:
        data = opened.store.read(source.id, 0, MOST)
        if source.path.lower().endswith(SETTINGS) and not source.path.lower().endswith(".jsonl"):
            yield from settings_of_file(data.decode("utf-8", "replace"), source.path)
        elif source.kind is SourceKind.LOG:
            yield from settings_of_log(data.decode("utf-8", "replace"), source.path)


def _pace(a: _Run, b: _Run) -> Iterator[RunDifference]:
    for name in PACE:
        pair = pace_differs(a.tables, b.tables, name)
        if pair is not None:
            yield RunDifference(area="pace", what=f"usual {name}", first=f"{pair[0]:.4g}", second=f"{pair[1]:.4g}")


def _curves(a: _Run, b: _Run) -> Iterator[RunDifference]:
    for name in CURVES:
        part = curve_parts(a.tables, b.tables, name)
        if part is not None:
            until = "" if part.same_until is None else f", the same up to step {part.same_until:g}"
            yield RunDifference(
                area="curves",
                what=f"{name} at step {part.step:g}{until}",
                first=f"{part.first:.6g}",
                second=f"{part.second:.6g}",
                step=part.step,
            )


def _summary(found: list[RunDifference]) -> str:
    if not found:
        return "The two runs do not differ in anything that could be compared."
    first = found[0]
    words = f"{first.what}: {first.first or 'not told'} in the first, {first.second or 'not told'} in the second."
    if first.area in _AREAS:
        curve = next((d for d in found if d.step is not None), None)
        later = "" if curve is None else f" The curves part at step {curve.step:g} ({curve.what.split()[0]})."
        count = sum(d.area in _AREAS for d in found)
        return f"{count} settings differ before the first step, the first of them in {first.area}: {words}{later}"
    return f"Nothing that was told before the first step differs; what differs first is in {first.area}: {words}"


def _missing(a: _Run, b: _Run) -> list[str]:
    missing = []
    for name, run in (("first", a), ("second", b)):
        if not run.tables:
            missing.append(f"The {name} run holds no step lines: pace and curves were not compared.")
        if not run.settings:
            missing.append(f"The {name} run tells no settings: configuration, versions and seeds were not compared.")
    told = [{s.area for s in run.settings} for run in (a, b)]
    missing += [
        f"Only the {'first' if area in told[0] else 'second'} run tells its {area}."
        for area in sorted(_AREAS)
        if told[0] and told[1] and (area in told[0]) != (area in told[1])
    ]
    return missing
