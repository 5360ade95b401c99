"""Tables of GPU counters (nvidia-smi query as CSV, nvidia-smi dmon, dcgmi dmon) as one course a GPU. Draws no conclusions.

Only tables with a header are read: without it nothing tells which number is which.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, NamedTuple

from firstfault.model.evidence import Span, When
from firstfault.model.gpu_course import GpuCourse, GpuSample
from firstfault.model.lazy import lazy
from firstfault.readers.gpu_columns import told_columns, usable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from firstfault.model.evidence import SourceId

HEAD = 4096
"""Bytes in which the header stands."""
MOST_GPUS = 4096
MOST_TEXT = 400
IDLE_MEMORY = 1024.0
"""MiB in use from which on a process is taken to hold the GPU."""
FEWEST = 3
"""Rows at the end that must agree before a GPU counts as idle or busy to the end."""
BUSY = 95.0
HW_REASONS = ((0x40, "heat"), (0x08, "the hardware"), (0x80, "the power brake"), (0x20, "heat (driver)"))
"""Bits of `clocks_event_reasons.active` by which the GPU protects itself; the caps on power and clocks are ordinary."""

_CSV_HEAD = lazy(rb"(?m)^[^\n]*\b(?:utilization\.gpu|memory\.used|pci\.bus_id|temperature\.gpu)\b[^\n]*,[^\n]*$")
_CSV_WORDS = (b"utilization.gpu", b"memory.used", b"pci.bus_id", b"temperature.gpu")
_SMI_HEAD = lazy(rb"(?m)^#(?:Date +)?(?:Time +)?\s*gpu +[a-z][^\n]*$")
_DCGM_HEAD = lazy(rb"(?m)^#\s?Entity +[A-Z][^\n]*$")
_UNIT = lazy(r"\s*\[[^\]]*\]$")
_NUMBER = lazy(r"[-+]?\d+(?:\.\d+)?")
_LOST = lazy(r"(?i)GPU is lost|\[Unknown Error\]|^ERR!$")
_COMMON = lazy(r"\d{4}([/-])\d\d\1\d\d \d\d:\d\d:\d\d(?:\.\d{3}(?:\d{3})?)?", re.ASCII)
"""The form of most tables, for which the general way takes ten times as long."""
_DATES = ("%Y/%m/%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d %H:%M:%S", "%Y%m%d %H:%M:%S")
_ALIASES = {
    "gpu": "gpu", "index": "gpu", "entity": "gpu", "pci.bus_id": "bus", "gpu_bus_id": "bus", "pci.bus": "bus",
    "timestamp": "time", "utilization.gpu": "use", "sm": "use", "gputl": "use", "memory.used": "memory", "fb": "memory",
    "fbusd": "memory", "temperature.gpu": "heat", "gtemp": "heat", "temp": "heat", "tmptr": "heat",
    "ecc.errors.uncorrected.volatile.total": "ecc", "ecc.errors.uncorrected.aggregate.total": "ecc", "edvdv": "ecc",
    "clocks_throttle_reasons.active": "bits", "clocks_event_reasons.active": "bits",
    "clocks_throttle_reasons.hw_slowdown": "hw", "clocks_event_reasons.hw_slowdown": "hw",
    "clocks_throttle_reasons.hw_thermal_slowdown": "hot", "clocks_event_reasons.hw_thermal_slowdown": "hot",
    "clocks_throttle_reasons.sw_thermal_slowdown": "warm", "clocks_event_reasons.sw_thermal_slowdown": "warm",
    "clocks_throttle_reasons.hw_power_brake_slowdown": "brake", "clocks_event_reasons.hw_power_brake_slowdown": "brake",
    "clocks.sm": "pace", "clocks.current.sm": "pace", "clocks.gr": "pace", "clocks.current.graphics": "pace", "pclk": "pace", "smclk": "pace",
    "date": "date", "time": "clock", "hostname": "host", "host": "host",
}  # fmt: skip
_WORDS = {"hw": "the hardware", "hot": "heat", "warm": "heat (driver)", "brake": "the power brake"}


class Table(NamedTuple):
    """Where the header of a table of GPU counters stands, and what its columns are."""

    kind: str
    """`csv`, `smi` or `dcgm`."""
    columns: tuple[str, ...]
    """Meaning of each column; empty for those that are not used."""


def table_of(head: bytes) -> Table | None:
    """The header of a table of GPU counters in the first bytes of a file; None where it holds none."""
    head = head[:HEAD]
    found = _CSV_HEAD.search(head) if any(word in head for word in _CSV_WORDS) else None
    if found is not None:
        names = [_UNIT.sub("", c.strip().lower()) for c in found.group().decode("utf-8", "replace").split(",")]
        columns = tuple(_ALIASES.get(n, "") for n in names)
        told = {"gpu", "bus"} & set(columns) and {"use", "memory", "heat", "ecc"} & set(columns)
        return Table("csv", columns) if told else None
    for kind, pattern in (("smi", _SMI_HEAD), ("dcgm", _DCGM_HEAD)) if b"#" in head else ():
        found = pattern.search(head)
        if found is not None:
            names = found.group().decode("utf-8", "replace").lstrip("#").lower().split()
            columns = tuple(_ALIASES.get(n, "") for n in names)
            if set(columns) - {"", "gpu", "date", "clock"}:
                return Table(kind, columns)
    bare = told_columns(head)
    return Table("csv", bare) if bare is not None and usable(bare) else None


def read_courses(
    data: bytes, source: SourceId, table: Table, *, host: str | None, offset: int = 0, line: int = 1
) -> tuple[GpuCourse, ...]:
    """The course of each GPU of a table, in the order in which they first appear.

    Args:
        data: whole rows; a cut last one is left out.
        source: where they come from.
        table: what its header says.
        host: machine that the name of the file tells.
        offset: of the first byte in the source.
        line: number of the first line.
    """
    folds: dict[tuple[str | None, int | None, str | None], _Fold] = {}
    for cells, sample in read_samples(data, source, table, offset, line):
        gpu, bus = _index(cells.get("gpu", "")), cells.get("bus") or None
        if gpu is None and bus is None:
            continue
        key = (cells.get("host") or host, gpu, bus)
        if key not in folds and len(folds) >= MOST_GPUS:
            continue
        folds.setdefault(key, _Fold()).take(sample)
    return tuple(f.course(*key) for key, f in folds.items())


def read_samples(
    data: bytes, source: SourceId, table: Table, offset: int = 0, line: int = 1
) -> Iterator[tuple[dict[str, str], GpuSample]]:
    """Every row of a table with its cells by meaning (`gpu`, `bus`, `host` …).

    Args:
        data: whole rows; one that does not fit the header is left out.
        source: where they come from.
        table: what its header says.
        offset: of the first byte in the source.
        line: number of the first line.
    """
    at, number = 0, line
    for raw in data.split(b"\n"):
        text = raw.rstrip(b"\r").decode("utf-8", "backslashreplace")
        cells = _cells(text, table)
        if cells is not None:
            span = Span(source, offset + at, max(len(raw), 1), number, 1)
            yield cells, _sample(cells, span, text)
        at += len(raw) + 1
        number += 1


def _cells(text: str, table: Table) -> dict[str, str] | None:
    """Cells by meaning; None for headers, units, and rows that do not fit the header."""
    if table.kind == "csv":
        parts = [p.strip() for p in text.split(",")]
        if len(parts) != len(table.columns):
            return None
    else:
        parts = text.split()
        if table.kind == "dcgm" and len(parts) > 1 and parts[0] == "GPU":
            parts = parts[1:]
        if not parts or text.lstrip().startswith("#") or len(parts) != len(table.columns):
            return None
    cells = {name: part for name, part in zip(table.columns, parts, strict=True) if name}
    return cells if names_gpu(cells.get("gpu") or cells.get("bus") or "") else None


def names_gpu(cell: str) -> bool:
    """Whether a cell of the column of GPUs names one: those of headers and units do not."""
    return any(c.isdigit() for c in cell) and "." not in cell.split(":", maxsplit=1)[0]


def _sample(cells: dict[str, str], span: Span, text: str) -> GpuSample:
    lost = any(_LOST.search(c) for c in cells.values())
    errors = number_of(cells.get("ecc", ""))
    return GpuSample(
        span=span,
        text=text[:MOST_TEXT],
        when=_when(cells),
        utilization=number_of(cells.get("use", "")),
        memory=number_of(cells.get("memory", "")),
        temperature=number_of(cells.get("heat", "")),
        clock=number_of(cells.get("pace", "")),
        uncorrected=None if errors is None else int(errors),
        slowed=_slowed(cells),
        lost=lost,
    )


def _slowed(cells: dict[str, str]) -> str:
    for name, words in _WORDS.items():
        if cells.get(name, "") == "Active":
            return words
    bits = cells.get("bits", "")
    if bits.startswith("0x") and len(bits) <= 18:
        try:
            value = int(bits, 16)
        except ValueError:
            return ""
        return next((words for bit, words in HW_REASONS if value & bit), "")
    return ""


def number_of(text: str) -> float | None:
    """The number that a cell begins with; None where it is none (`N/A`)."""
    found = _NUMBER.match(text) if len(text) <= 40 else None
    return None if found is None else float(found.group())


def _index(text: str) -> int | None:
    text = text.removeprefix("GPU").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else None


def _when(cells: dict[str, str]) -> When:
    text = cells.get("time") or f"{cells.get('date', '')} {cells.get('clock', '')}".strip()
    seconds = seconds_of(text)
    return When() if seconds is None else When(seconds, seconds + (0.001 if "." in text else 1.0))


def seconds_of(text: str) -> float | None:
    """Seconds since the epoch of the clock's own wall time; None where a cell tells none."""
    if not text[:1].isdigit():
        return None
    if _COMMON.fullmatch(text) is not None:
        try:
            return dt.datetime.fromisoformat(text.replace("/", "-")).replace(tzinfo=dt.timezone.utc).timestamp()
        except (ValueError, OverflowError):
            return None
    for form in _DATES:
        try:
            return dt.datetime.strptime(text, form).replace(tzinfo=dt.timezone.utc).timestamp()
        except (ValueError, OverflowError):
            continue
    return None


class _Fold:
    """What is kept of the rows of one GPU while they are read."""

    def __init__(self) -> None:
        self.count = 0
        self.first: GpuSample | None = None
        self.last: GpuSample | None = None
        self.lost: GpuSample | None = None
        self.errors: GpuSample | None = None
        self.slowed: GpuSample | None = None
        self.slowed_count = 0
        self._base: int | None = None
        self._worked = False
        self._idle: list[GpuSample] = []
        self._busy: list[GpuSample] = []

    def take(self, sample: GpuSample) -> None:
        """Adds one row, in the order of the table."""
        self.count += 1
        self.first = self.first or sample
        self.last = sample
        if sample.lost and self.lost is None:
            self.lost = sample
        if sample.uncorrected is not None:
            self._base = sample.uncorrected if self._base is None else self._base
            if sample.uncorrected > self._base and self.errors is None:
                self.errors = sample
        if sample.slowed:
            self.slowed_count += 1
            self.slowed = self.slowed or sample
        self._use(sample)

    def _use(self, sample: GpuSample) -> None:
        use = sample.utilization
        if use is None:
            return
        held = sample.memory is None or sample.memory >= IDLE_MEMORY
        self._idle = _run(self._idle, sample, goes_on=use == 0 and held and self._worked)
        self._busy = _run(self._busy, sample, goes_on=use >= BUSY)
        self._worked = self._worked or use > 0

    def course(self, host: str | None, gpu: int | None, bus: str | None) -> GpuCourse:
        """The whole course."""
        assert self.first is not None
        assert self.last is not None
        return GpuCourse(
            gpu=gpu,
            bus=bus,
            host=host,
            count=self.count,
            first=self.first,
            last=self.last,
            lost=self.lost,
            errors=self.errors,
            slowed=self.slowed,
            slowed_count=self.slowed_count,
            idle=_start(self._idle),
            busy=_start(self._busy),
        )


def _run(run: list[GpuSample], sample: GpuSample, *, goes_on: bool) -> list[GpuSample]:
    """A run of like rows with one more: its first rows are enough to know where it began and that it is long enough."""
    if not goes_on:
        return []
    return run if len(run) >= FEWEST else [*run, sample]


def _start(run: Sequence[GpuSample]) -> GpuSample | None:
    return run[0] if len(run) >= FEWEST else None
