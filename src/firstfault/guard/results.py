"""Reads result files of any age: what a trial measured, by the names that it gave. What is absent stays absent; it is never 0.

Known are files of the guard (`trial.json`), and results as one object of JSON or one a line: values at the top, or below `metrics`,
`results` or `result`, as older and newer writers have it. Nothing of a file is trusted.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

from firstfault.model.results import ResultRow, Results

MOST = 4 << 20
MOST_ROWS = 10_000
MOST_COLUMNS = 200
RESULT_FILES = ("result.json", "results.json", "metrics.json", "result.jsonl", "results.jsonl")
CORE = ("steps", "seconds", "step_time_s", "samples_per_s", "tokens_per_s", "loss", "peak_memory_mb")
"""Columns that stand first where anybody has them."""
_INSIDE = ("metrics", "results", "result", "summary")
_NAMES = ("trial", "name", "run", "case", "config")
_STATES = ("state", "status")
_NOT_MEASURED = frozenset({"schema", "schema_version", "version", "reasons", "command", "begun", "host", "looks", "strangers", "cards", "machine", "provenance", "left_behind", *_NAMES, *_STATES})  # fmt: skip


def read_results(path: str) -> Results:
    """The results of a folder of trials, or of files.

    Args:
        path: a folder or a file.
    """
    place = Path(path)
    rows: list[ResultRow] = []
    if place.is_dir():
        rows += _trial(place)
        for inner in sorted(os.listdir(place))[:MOST_ROWS]:
            below = place / inner
            if below.is_dir() and not below.is_symlink():
                rows += _trial(below)
            elif below.suffix in {".json", ".jsonl"} and inner not in {
                "matrix.json",
                "trial.json",
                "profile.json",
                *RESULT_FILES,
            }:
                rows += _file(below)
    else:
        rows = _file(place)
    named = list(dict.fromkeys(n for row in rows for n in row.values))[:MOST_COLUMNS]
    columns = [n for n in CORE if n in named] + sorted(n for n in named if n not in CORE)
    return Results(rows=rows[:MOST_ROWS], columns=columns)


def _trial(place: Path) -> list[ResultRow]:
    """The trial of a folder, with what its command wrote; nothing where the folder is none."""
    told = _objects(place / "trial.json")
    rows = [row for name in RESULT_FILES if (place / name).is_file() for row in _file(place / name, place.name)]
    if not told:
        return rows
    head = _row(told[0], place.name, str(place / "trial.json"))
    values = {k: v for k, v in head.values.items() if k in {"exit_code", "seconds"}}
    if not rows:
        return [ResultRow(name=head.name, state=head.state, file=head.file, values=values)]
    return [
        ResultRow(
            name=head.name if len(rows) == 1 else r.name,
            state=head.state,
            file=r.file,
            note=r.note,
            values={**values, **r.values},
        )
        for r in rows
    ]


def _file(path: Path, name: str = "") -> list[ResultRow]:
    try:
        found = _objects(path)
    except OSError as error:
        return [ResultRow(name=name or path.name, file=str(path), note=error.strerror or "it cannot be read")]
    if found is None:
        return [ResultRow(name=name or path.name, file=str(path), note="it is no JSON")]
    return [_row(one, name or path.stem, str(path)) for one in found]


def _objects(path: Path) -> list[dict[str, Any]] | None:
    """The objects of a file; empty where there is no file, None where it holds something else."""
    try:
        with path.open("rb") as file:
            text = file.read(MOST).decode("utf-8", "replace")
    except FileNotFoundError:
        return []
    for several in ([text], [line for line in text.split("\n") if line.strip()][:MOST_ROWS]):
        try:
            trees = [json.loads(one) for one in several]
        except (ValueError, RecursionError):
            continue
        flat = [row for tree in trees for row in (tree if isinstance(tree, list) else [tree])]
        held = [row for row in flat if isinstance(row, dict)]
        return held or None
    return None


def _row(tree: dict[str, Any], name: str, file: str) -> ResultRow:
    """One result, whatever its schema."""
    inside: dict[str, Any] = next((tree[n] for n in _INSIDE if isinstance(tree.get(n), dict)), {})
    values: dict[str, float | int | str | None] = {}
    for source in (tree, inside):
        for key, value in source.items():
            _take(values, str(key), value, deep=2)
    told = next((str(tree[n]) for n in _NAMES if isinstance(tree.get(n), str)), name)
    state = next((str(tree[n]) for n in _STATES if isinstance(tree.get(n), str)), None)
    return ResultRow(name=told[:120], state=None if state is None else state[:40], file=file, values=values)


def _take(values: dict[str, float | int | str | None], key: str, value: object, *, deep: int) -> None:
    """Takes what was measured; null is named and absent, and what is neither number nor short text is no result."""
    if key.rpartition(".")[2] in _NOT_MEASURED or key in _INSIDE or len(values) >= MOST_COLUMNS:
        return
    if value is None:
        values.setdefault(key[:80], None)
    elif isinstance(value, bool):
        values[key] = "yes" if value else "no"
    elif isinstance(value, float) and not math.isfinite(value):
        # JSON has no such numbers: as text they stay apart from what has no value.
        values[key[:80]] = str(value)
    elif isinstance(value, (int, float)) or (isinstance(value, str) and 0 < len(value) <= 40):
        values[key[:80]] = value
    elif isinstance(value, dict) and deep:
        for inner, held in value.items():
            _take(values, f"{key}.{inner}", held, deep=deep - 1)
