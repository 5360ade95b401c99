"""The published JSON Schemas of the diagnosis and the views, generated from the model with the descriptions that stand there.

Must not know a field by name: what the model says is what is published.
"""

from __future__ import annotations

import ast
from importlib import resources
from typing import TYPE_CHECKING, Any

import msgspec

from firstfault.model import (
    batch,
    checkpoint,
    checks,
    comparison,
    config,
    dataset,
    diagnosis,
    environment,
    metrics,
    results,
    views,
    words,
)
from firstfault.report.json import neutral_json

if TYPE_CHECKING:
    from types import ModuleType

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DOCUMENTS: dict[str, tuple[type[diagnosis.Published], str]] = {
    "diagnosis": (diagnosis.Diagnosis, diagnosis.SCHEMA),
    "ranks": (views.RankTable, views.RANKS),
    "timeline": (views.Timeline, views.TIMELINE),
    "batch": (batch.JobAnswer, batch.BATCH),
    "stacks": (views.StackTable, views.STACKS),
    "flight-recorder": (views.RecorderView, views.FLIGHT_RECORDER),
    "memory": (views.MemoryTable, views.MEMORY),
    "metrics": (metrics.MetricsView, metrics.METRICS),
    "compare": (metrics.RunComparison, metrics.COMPARE),
    "diff": (comparison.Comparison, comparison.COMPARISON),
    "checkpoint": (checkpoint.Checkpoint, checkpoint.CHECKPOINT),
    "checkpoint-compare": (checkpoint.CheckpointComparison, checkpoint.CHECKPOINT_COMPARISON),
    "check-config": (config.ConfigCheck, config.CONFIG_CHECK),
    "check-data": (dataset.DataCheck, dataset.DATA_CHECK),
    "guard": (results.Results, results.RESULTS),
    "preflight": (checks.Preflight, checks.PREFLIGHT),
    "probe": (environment.Environment, environment.ENVIRONMENT),
    "probe-compare": (environment.EnvironmentComparison, environment.ENVIRONMENT_COMPARISON),
}
"""Command -> what its `--format json` prints, and the name of its schema."""
_COMMANDS = {
    "checkpoint": "checkpoint verify",
    "checkpoint-compare": "checkpoint compare",
    "guard": "guard --show",
    "probe-compare": "probe --compare",
}
"""Commands of two words, whose schemas have shorter names."""


def file_of(name: str = "diagnosis") -> str:
    """Name of the file in the package that holds a schema."""
    return f"{name}.schema.json"


def published(name: str = "diagnosis") -> str:
    """A schema as it lies in the package, ending in a newline."""
    return resources.files("firstfault.report").joinpath(file_of(name)).read_text(encoding="utf-8")


def generate(name: str = "diagnosis") -> str:
    """A schema as the model gives it now; the package's file must equal it."""
    document, title = DOCUMENTS[name]
    (top,), parts = msgspec.json.schema_components([document], ref_template="#/$defs/{name}")
    described: dict[str, dict[str, str]] = {}
    for module in (
        words,
        diagnosis,
        batch,
        views,
        comparison,
        metrics,
        checkpoint,
        config,
        dataset,
        checks,
        environment,
        results,
    ):
        _describe(module, described)
    for part_name, part in parts.items():
        for field, text in described.get(part_name, {}).items():
            if field in part.get("properties", {}):
                part["properties"][field] = _with(part["properties"][field], text)
    whole: dict[str, Any] = {
        "$schema": DIALECT,
        "title": title,
        "description": f"What `firstfault {_COMMANDS.get(name, name)} --format json` prints. Fields may be added in a later version of this "
        "schema; none of these changes its meaning.",
        **top,
        "$defs": {name: _open(parts[name]) for name in sorted(parts)},
    }
    return neutral_json(msgspec.json.encode(whole)) + "\n"


def _open(part: dict[str, Any]) -> dict[str, Any]:
    """Drops defaults, which say what Python fills in and not what a reader may assume."""
    if "properties" in part:
        part["properties"] = {
            name: {k: v for k, v in field.items() if k != "default"} for name, field in part["properties"].items()
        }
        part["required"] = list(part["properties"])
    return part


def _with(field: dict[str, Any], text: str) -> dict[str, Any]:
    return {**field, "description": text}


def _describe(module: ModuleType, found: dict[str, dict[str, str]]) -> None:
    """Adds class -> field -> the string that stands below the field in the source, also in that of a base read before."""
    source = resources.files("firstfault.model").joinpath(f"{module.__name__.rpartition('.')[2]}.py")
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            inherited = (found.get(base.id, {}) for base in node.bases if isinstance(base, ast.Name))
            found[node.name] = {k: v for fields in (*inherited, dict(_fields(node))) for k, v in fields.items()}


def _fields(node: ast.ClassDef) -> list[tuple[str, str]]:
    pairs = []
    for field, text in zip(node.body, node.body[1:], strict=False):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str):
            pairs.append((field.target.id, " ".join(text.value.value.split())))
    return pairs
