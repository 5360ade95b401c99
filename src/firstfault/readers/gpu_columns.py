"""Tells the columns of `nvidia-smi --query-gpu … --format=csv,noheader` from what stands in them; where it cannot, says so.

A column is told by its unit, its form, or by how its numbers go together; by nothing else, since the order of a query is
its author's. Without units only a few columns can be told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

MOST_ROWS = 400
FEWEST_ROWS = 2
_FIRST = lazy(
    rb"[^\n]{0,200}?(?:\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}|[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d) *[,\r\n]"
)
_TIME = lazy(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}")
_BUS = lazy(r"[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d")
_NAME = lazy(r"(?:NVIDIA|Tesla|Quadro|GeForce)\b.{0,60}")
_PERCENT = lazy(r"\d{1,3} %")
_MEMORY = lazy(r"\d{1,7} MiB")
_BITS = lazy(r"0x[0-9a-fA-F]{16}")
_WHOLE = lazy(r"\d{1,3}")
_ABSENT = lazy(r"\[[A-Za-z/ ]{3,30}\]|ERR!|N/A")
_DMON = lazy(rb"\s*GPU \d{1,2}(?: {2,}(?:[-\d.]+|N/A)){1,30}\s*")
HEAT = range(15, 111)
"""Degrees that a GPU in use may have."""
UNTOLD = "GPU counters without a header line, of which the columns cannot be told: print them with the header and units"


def told_columns(head: bytes) -> tuple[str, ...] | None:
    """Meaning of each column of a table without header, empty for those that cannot be told.

    Args:
        head: first bytes of the file; a cut last row is left out.

    Returns:
        None where the bytes are no such table. The meanings are those of `firstfault.readers.gpu_course`.
    """
    rows = _rows(head) if _FIRST.match(head) is not None else []
    if len(rows) < FEWEST_ROWS:
        return None
    columns = list(zip(*rows, strict=True))
    names = [""] * len(columns)
    for name, form in (("time", _TIME), ("bus", _BUS), ("bits", _BITS), ("name", _NAME)):
        fitting = [i for i, column in enumerate(columns) if _all(column, form)]
        if fitting:
            names[fitting[0]] = name
    if "time" not in names and "bus" not in names:
        return None
    percent = [i for i, column in enumerate(columns) if _all(column, _PERCENT)]
    memory = [i for i, column in enumerate(columns) if _all(column, _MEMORY)]
    if not percent and not memory and not {"bus", "name"} & set(names):
        return None
    if len(percent) == 1:
        names[percent[0]] = "use"
    used = _used([columns[i] for i in memory])
    if used is not None:
        names[memory[used]] = "memory"
    _whole_numbers(columns, names)
    return tuple("" if name == "name" else name for name in names)


def is_untold(head: bytes) -> bool:
    """Whether a file is a table of GPU counters of which too little can be told to make use of it."""
    columns = told_columns(head)
    if columns is not None:
        return not usable(columns)
    lines = head.split(b"\n", 12)[:-1]
    return len(lines) > 3 and all(_DMON.fullmatch(line.rstrip(b"\r")) for line in lines[:10])


def usable(columns: Sequence[str]) -> bool:
    """Whether columns tell which GPU a row is of, and something of it."""
    return bool({"gpu", "bus"} & set(columns) and {"use", "memory", "heat", "bits"} & set(columns))


def _rows(head: bytes) -> list[list[str]]:
    """Cells of all rows that are as wide as the first; none where others are there too."""
    lines = [line.strip() for line in head.decode("utf-8", "replace").split("\n")[:-1][:MOST_ROWS] if line.strip()]
    rows = [[cell.strip() for cell in line.split(",")] for line in lines]
    width = len(rows[0]) if rows else 0
    if width < 3:
        return []
    whole = [row for row in rows if len(row) == width]
    return whole if len(whole) > 0.8 * len(rows) else []


def _all(column: Sequence[str], form: re.Pattern[str]) -> bool:
    """Whether a column holds values of one form alone, but for what stands for no value."""
    there = [cell for cell in column if not _ABSENT.fullmatch(cell)]
    return bool(there) and all(form.fullmatch(cell) for cell in there)


def _numbers(column: Sequence[str]) -> list[int]:
    return [int(cell.split()[0]) for cell in column if cell[:1].isdigit()]


def _used(columns: Sequence[Sequence[str]]) -> int | None:
    """Which of the columns in MiB is the memory in use: it varies, and the one beside it is its constant total."""
    constant = [len(set(c)) == 1 for c in columns]
    if len(columns) == 1 and not constant[0]:
        return 0
    if len(columns) == 2 and constant.count(True) == 1:
        used, total = constant.index(False), constant.index(True)
        return used if max(_numbers(columns[used])) <= min(_numbers(columns[total])) else None
    return None


def _whole_numbers(columns: Sequence[Sequence[str]], names: list[str]) -> None:
    """Tells the index of the GPU, which counts from 0 within each moment, and the temperature."""
    plain = [i for i, column in enumerate(columns) if not names[i] and _all(column, _WHOLE)]
    for i in plain:
        values = [int(cell) for cell in columns[i] if cell.isdecimal()]
        count = max(values) + 1
        cycles = len(values) == len(columns[i]) and all(v == n % count for n, v in enumerate(values))
        if count > 1 and cycles and len(values) >= 2 * count and "gpu" not in names:
            names[i] = "gpu"
    warm = [i for i in plain if not names[i] and all(v in HEAT for v in _numbers(columns[i]))]
    if len(warm) == 1:
        names[warm[0]] = "heat"
