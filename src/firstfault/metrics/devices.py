"""Tables of GPU counters as a series for each GPU, on the clock of the monitor.

Must not judge a value; what a cell means is known by `firstfault.readers.gpu_course`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firstfault.metrics.cells import Cells, is_plain
from firstfault.readers.gpu_course import HEAD, IDLE_MEMORY, names_gpu, number_of, seconds_of, table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from firstfault.model.evidence import SourceId
    from firstfault.readers.gpu_course import Table
    from firstfault.readers.store import Store

    Series = dict[tuple[str | None, str], NDArray[np.float64]]
    """The rows of each GPU, by host and name."""

MOST = 256 << 20
"""Bytes of a table that are read."""
BLOCK = 1 << 20
"""Bytes whose cells are held as texts at a time."""
_ISO = (19, 23)
"""Characters of a time of whole seconds, and of one with thousandths."""
DEVICE_UNITS = {"utilization": "%", "memory": "MiB", "temperature": "°C", "clock": "MHz"}
DEVICE_COLUMNS = tuple(DEVICE_UNITS)
_CELLS = ("use", "memory", "heat", "pace")
"""What the reader of tables calls them."""
IDLE_ROWS = 3


class DeviceSeries(NamedTuple):
    """The counters of one GPU."""

    source: str
    host: str | None
    gpu: str
    time: NDArray[np.float64]
    """Seconds since the epoch of the clock's own wall time; NaN where a row has none."""
    columns: dict[str, NDArray[np.float64]]
    """Per cent, MiB, °C, MHz."""
    line: NDArray[np.int64]
    idle_from: float | None
    """Time from which on to the end no kernel ran while memory was in use, after one had run; None where that is not so."""


def read_devices(store: Store, source: SourceId, path: str) -> list[DeviceSeries]:
    """The series of each GPU of a table; nothing where it is none."""
    table = table_of(store.head(source, HEAD))
    if table is None:
        return []
    data = store.read(source, 0, MOST)
    found: dict[tuple[str | None, str], list[NDArray[np.float64]]] = {}
    at, line = 0, 1
    while at < len(data):
        end = data.rfind(b"\n", at, at + BLOCK) + 1 or data.find(b"\n", at) + 1 or len(data)
        block = data[at:end]
        told = _at_once(block, line, table)
        for gpu, rows in (_rows(block, line, table) if told is None else told).items():
            found.setdefault(gpu, []).append(rows)
        line += block.count(b"\n")
        at = end
    return [_series(path, host, gpu, np.concatenate(rows, axis=1)) for (host, gpu), rows in found.items()]


def _series(path: str, host: str | None, gpu: str, rows: NDArray[np.float64]) -> DeviceSeries:
    columns = {n: rows[i + 2] for i, n in enumerate(DEVICE_COLUMNS) if np.isfinite(rows[i + 2]).any()}
    return DeviceSeries(path, host, gpu, rows[1], columns, rows[0].astype(np.int64), _idle(rows[1], columns))


def _at_once(block: bytes, first: int, table: Table) -> Series | None:
    """The rows of a block, all its cells of a column at a time; None where it is not surely read as line by line."""
    if not block.endswith(b"\n"):
        block += b"\n"
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    if not is_plain(block):
        return None
    width, named = len(table.columns), table.kind == "dcgm"
    cells = Cells(block, width + named, b"," if table.kind == "csv" else b"")
    if table.kind != "csv":
        cells.only(~cells.begins(0, b"#"))
    if named:
        cells.only(cells.begins(0, b"GPU "))
        if len(cells.rows) < block.count(b"\n"):
            bare = Cells(block, width, b"")
            bare.only(~bare.begins(0, b"#"))
            if any(map(names_gpu, bare.texts(0))):
                return None
    at = {name: n + named for n, name in enumerate(table.columns) if name}
    alike = cells.alike([at[name] for name in ("host", "gpu", "bus") if name in at])
    if alike is None:
        return None
    which, firsts = alike
    parts = {
        name: cells.texts(at[name], firsts) if name in at else [""] * len(firsts) for name in ("gpu", "bus", "host")
    }
    hosts: Sequence[str | None] = parts["host"] if "host" in at else [None] * len(firsts)
    names = [(host, gpu or bus) for host, gpu, bus in zip(hosts, parts["gpu"], parts["bus"], strict=True)]
    known: dict[tuple[str | None, str], int] = {}
    number = np.array([known.setdefault(name, len(known)) if names_gpu(name[1]) else -1 for name in names], np.int64)
    which = number[which]
    cells.only(which >= 0)
    which = which[which >= 0]
    values = [cells.numbers(at[name], _number) if name in at else np.full(len(which), np.nan) for name in _CELLS]
    matrix = np.array([cells.rows + float(first), _times_at_once(cells, at), *values])
    order = np.unique(which, return_index=True)[1]
    told = list(known)
    return {told[n]: matrix[:, which == n] for n in which[np.sort(order)].tolist()}


def _times_at_once(cells: Cells, at: dict[str, int]) -> NDArray[np.float64]:
    if "time" in at and not {"date", "clock"}.intersection(at):
        times = cells.times(at["time"])
        if times is not None:
            return times
    texts: dict[str, list[str]] = {name: cells.texts(at[name]) for name in ("time", "date", "clock") if name in at}
    return _times(texts, [""] * len(cells.rows))


def _rows(block: bytes, first: int, table: Table) -> Series:
    """Line, time and the values of `DEVICE_COLUMNS`, a row of the result for each, by host and GPU; NaN where a cell tells none."""
    kept, columns = _split(block.decode("utf-8", "backslashreplace").split("\n"), table)
    if not kept:
        return {}
    cells = {name: column for name, column in zip(table.columns, columns, strict=True) if name}
    for name in {"gpu", "bus", "host", "time"}.intersection(cells):
        cells[name] = list(map(str.strip, cells[name]))
    nothing = [""] * len(kept)
    gpus = [gpu or bus for gpu, bus in zip(cells.get("gpu", nothing), cells.get("bus", nothing), strict=True)]
    hosts: Sequence[str | None] = cells["host"] if "host" in cells else [None] * len(kept)
    names = list(zip(hosts, gpus, strict=True))
    told = {name: n for n, name in enumerate(dict.fromkeys(names)) if names_gpu(name[1])}
    if not told:
        return {}
    which = np.array([told.get(name, -1) for name in names])
    values = [np.array(list(map(_number, cells.get(name, nothing))), np.float64) for name in _CELLS]
    matrix = np.array([np.array(kept) + float(first), _times(cells, nothing), *values])
    return {name: matrix[:, which == n] for name, n in told.items()}


def _split(lines: Sequence[str], table: Table) -> tuple[Sequence[int], list[list[str]]]:
    """Which lines have as many cells as the header, and their columns."""
    if table.kind == "csv":
        split = [line.split(",") for line in lines]
    else:
        split = [[] if line.lstrip().startswith("#") else line.split() for line in lines]
        if table.kind == "dcgm":
            split = [row[1:] if len(row) > 1 and row[0] == "GPU" else row for row in split]
    kept = [n for n, row in enumerate(split) if len(row) == len(table.columns)]
    return kept, [list(column) for column in zip(*[split[n] for n in kept], strict=True)]


@lru_cache(maxsize=65536)
def _number(text: str) -> float:
    """The number that a cell begins with, NaN where it is none: the same few are told again and again."""
    told = number_of(text.strip())
    return float("nan") if told is None else told


def _times(cells: dict[str, list[str]], nothing: list[str]) -> NDArray[np.float64]:
    """The time of each row; NumPy reads those of one common form at once."""
    texts = cells.get("time", nothing)
    if not {"time", "date", "clock"}.intersection(cells):
        return np.full(len(nothing), np.nan)
    if "date" in cells or "clock" in cells:
        apart = zip(texts, cells.get("date", nothing), cells.get("clock", nothing), strict=True)
        texts = [time or f"{date} {clock}".strip() for time, date, clock in apart]
    lengths = set(map(len, texts))
    if len(lengths) == 1 and lengths <= set(_ISO) and all(text[10] == " " and text[0].isdigit() for text in texts):
        try:
            read = np.array([text.replace("/", "-") for text in texts], dtype="datetime64[ms]")
            return np.asarray(read.astype(np.int64) / 1000, np.float64)
        except ValueError:
            pass
    told = map(seconds_of, texts)
    return np.array([float("nan") if seconds is None else seconds for seconds in told], np.float64)


def _idle(time: NDArray[np.float64], columns: dict[str, NDArray[np.float64]]) -> float | None:
    use = columns.get("utilization")
    if use is None or not (use > 0).any():
        return None
    last = int(np.flatnonzero(use > 0)[-1]) + 1
    rest = use[last:]
    memory = columns.get("memory")
    held = memory is None or bool((memory[last:] >= IDLE_MEMORY).all())
    if len(rest) < IDLE_ROWS or not held or not np.isfinite(time[last]):
        return None
    return float(time[last])
