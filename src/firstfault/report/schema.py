"""The published JSON Schema of a diagnosis, generated from the model with the descriptions that stand there.

Must not know a field by name: what the model says is what is published.
"""

from __future__ import annotations

import ast
from importlib import resources
from typing import TYPE_CHECKING, Any

import msgspec

from firstfault.model import diagnosis, words
from firstfault.report.json import neutral_json

if TYPE_CHECKING:
    from types import ModuleType

FILE = "diagnosis.schema.json"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def published() -> str:
    """The schema as it lies in the package, ending in a newline."""
    return resources.files("firstfault.report").joinpath(FILE).read_text(encoding="utf-8")


def generate() -> str:
    """The schema as the model gives it now; the package's file must equal it."""
    (top,), parts = msgspec.json.schema_components([diagnosis.Diagnosis], ref_template="#/$defs/{name}")
    described = {**_descriptions(diagnosis), **_descriptions(words)}
    for name, part in parts.items():
        for field, text in described.get(name, {}).items():
            if field in part.get("properties", {}):
                part["properties"][field] = _with(part["properties"][field], text)
    whole: dict[str, Any] = {
        "$schema": DIALECT,
        "title": diagnosis.SCHEMA,
        "description": "What `firstfault diagnose --format json` prints. Fields may be added in a later version of this "
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


def _descriptions(module: ModuleType) -> dict[str, dict[str, str]]:
    """Class -> field -> the string that stands below the field in the source."""
    source = resources.files("firstfault.model").joinpath(f"{module.__name__.rpartition('.')[2]}.py")
    found: dict[str, dict[str, str]] = {}
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = dict(_fields(node))
    return found


def _fields(node: ast.ClassDef) -> list[tuple[str, str]]:
    pairs = []
    for field, text in zip(node.body, node.body[1:], strict=False):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str):
            pairs.append((field.target.id, " ".join(text.value.value.split())))
    return pairs
