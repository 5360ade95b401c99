"""Tables of GPU counters as a series for each GPU, on the clock of the monitor.

Must not judge a value; rows are read by `firstfault.readers.gpu_course`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firstfault.readers.gpu_course import HEAD, IDLE_MEMORY, read_samples, table_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from firstfault.model.evidence import SourceId
    from firstfault.readers.store import Store

MOST = 256 << 20
"""Bytes of a table that are read."""
DEVICE_UNITS = {"utilization": "%", "memory": "MiB", "temperature": "°C", "clock": "MHz"}
DEVICE_COLUMNS = tuple(DEVICE_UNITS)
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
    rows: dict[tuple[str | None, str], list[tuple[int, float, tuple[float, ...]]]] = {}
    for cells, sample in read_samples(store.read(source, 0, MOST), source, table):
        gpu = cells.get("gpu") or cells.get("bus") or ""
        values = tuple(
            float("nan") if v is None else v
            for v in (sample.utilization, sample.memory, sample.temperature, sample.clock)
        )
        when = float("nan") if sample.when.earliest is None else sample.when.earliest
        rows.setdefault((cells.get("host"), gpu), []).append((sample.span.line, when, values))
    found = []
    for (host, gpu), samples in rows.items():
        matrix = np.array([v for _, _, v in samples], dtype=np.float64)
        columns = {n: matrix[:, i] for i, n in enumerate(DEVICE_COLUMNS) if np.isfinite(matrix[:, i]).any()}
        time = np.array([t for _, t, _ in samples], dtype=np.float64)
        line = np.array([n for n, _, _ in samples], dtype=np.int64)
        found.append(DeviceSeries(path, host, gpu, time, columns, line, _idle(time, columns)))
    return found


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
