"""Plain heartbeats of the black box: lines that differ from one another in their digits alone are read together.

Must not guess: a file in which any line is no sound heartbeat is left to the reader of all records. Needs numpy alone.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import DecodeError, Struct, json

from firstfault.metrics.blocks import Part
from firstfault.metrics.grid import Grid
from firstfault.metrics.layout import NUMBER, Layout, Slot
from firstfault.model.lazy import lazy
from firstfault.readers.blackbox import MOST_NUMBER, START
from firstfault.recorder.format import BEAT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Places = NDArray[np.int64]

PIECE = 2 << 20
"""Bytes whose lines are looked at together."""
FEW = 8
"""Lines of one length up to which each is read by itself."""
MODELS = 64
"""Lines of different words that are models of others."""
LONGEST = 4096
_NUMBER = lazy(NUMBER)
_COUNT = lazy(rb'"(step|rank|worker)":(\d{1,15})[,}]')
_NAMES = (b'"step":', b'"rank":', b'"worker":', b'"time":', b'"kind":')
_TIME = lazy(rb'"time":"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?)(Z|[+-]\d\d:\d\d)"')
_FINER = lazy(rb'"time":"[^"]{0,20}\.\d{7}')
_RUN = lazy(rb"(?<=[:,\[-])\d{2,}")
"""What may not begin with a 0, unless it stands in a text."""


class _Beat(Struct, gc=False):
    """What a heartbeat tells of a step; the rest of the line is passed over."""

    kind: str
    time: datetime | None = None
    rank: int | None = None
    worker: int | None = None
    step: int | None = None

    def is_sound(self) -> bool:
        numbers = [n for n in (self.rank, self.worker, self.step) if n is not None]
        timed = self.time is not None and self.time.tzinfo is not None
        return self.kind == BEAT and timed and all(0 <= n < MOST_NUMBER for n in numbers)

    def names(self) -> tuple[str, ...]:
        """The columns that it fills; none where it is of no step of a rank's own process."""
        if self.step is None or self.worker is not None:
            return ()
        return ("step", "time") if self.rank is None else ("step", "time", "rank")

    def row(self) -> list[float]:
        """Their values."""
        at = None if self.time is None else self.time.timestamp()
        return [float(value) for value in (self.step, at, self.rank) if value is not None]


_DECODER = json.Decoder(_Beat)


class _Model(NamedTuple):
    """A line of which others differ in their digits alone."""

    grid: Grid
    beat: _Beat
    time: tuple[int, int]
    """Where the date and time stand."""
    ahead: float
    """Seconds by which its clock is ahead of UTC."""

    def part(self, table: NDArray[np.uint8], line: Places) -> Part | None:
        """The rows of lines that fit; None where a number or a time is none."""
        columns = self.grid.read(table)
        if any(len(c) and c.max() >= MOST_NUMBER for c in columns.values()):
            return None
        start, stop = self.time
        texts = np.ascontiguousarray(table[:, start:stop]).view(f"S{stop - start}")[:, 0]
        try:
            told = texts.astype("datetime64[us]").astype(np.int64)
        except ValueError:
            return None
        columns["time"] = (told - round(self.ahead * 1_000_000)) / 1_000_000
        return Part(line, {name: columns[name] for name in self.beat.names()})


def read_beats(data: bytes) -> list[Part] | None:
    """The rows of a file of plain heartbeats; None where any line is another, or is damaged."""
    if b'"metrics"' in data or data.startswith(b"\n") or b"\n\n" in data or not data.startswith(START):
        return None
    if not data.endswith(b"\n"):
        data += b"\n"
    if data.count(b"\n" + START) + 1 != data.count(b"\n"):
        return None
    parts: list[Part] = []
    models: dict[int, list[_Model]] = {}
    first = 1
    at = 0
    while at < len(data):
        end = data.rfind(b"\n", at, at + PIECE) + 1 or data.index(b"\n", at) + 1
        piece = data[at:end]
        ends = np.flatnonzero(np.frombuffer(piece, np.uint8) == ord("\n"))
        found = _read_piece(piece, ends, first, models)
        if found is None:
            return None
        parts += found
        first += len(ends)
        at = end
    return parts


def _read_piece(data: bytes, ends: Places, first: int, models: dict[int, list[_Model]]) -> list[Part] | None:
    starts = np.concatenate(([0], ends[:-1] + 1))
    length = ends - starts
    parts: list[Part] = []
    alone: list[Places] = []
    for width in np.unique(length).tolist():
        rows = np.flatnonzero(length == width)
        known = models.setdefault(width, [])
        tried = 0
        while len(rows) >= FEW and width <= LONGEST:
            if tried == len(known):
                model = (
                    _model_of(data[starts[rows[0]] : ends[rows[0]]])
                    if sum(map(len, models.values())) < MODELS
                    else None
                )
                if model is None:
                    break
                known.append(model)
            model = known[tried]
            tried += 1
            table = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, np.uint8), width)[starts[rows]]
            fits = model.grid.fits(table)
            if not fits.any():
                continue
            part = model.part(table if fits.all() else table[fits], rows[fits] + first)
            if part is None:
                return None
            if part.columns:
                parts.append(part)
            rows = rows[~fits]
        alone.append(rows)
    rest = np.sort(np.concatenate(alone))
    if not len(rest):
        return parts
    lines = b"".join(data[a : b + 1] for a, b in zip(starts[rest].tolist(), ends[rest].tolist(), strict=True))
    more = _one_by_one(lines, rest + first)
    return None if more is None else parts + more


def _model_of(line: bytes) -> _Model | None:
    """A line as a model of others; None where it is no sound heartbeat, or one in which a text might be taken for a name."""
    try:
        beat = _DECODER.decode(line)
    except (DecodeError, UnicodeDecodeError):
        return None
    time = _TIME.search(line)
    if not beat.is_sound() or time is None or b"\\" in line or any(line.count(name) > 1 for name in _NAMES):
        return None
    tokens = [token.start() for token in _NUMBER.finditer(line)]
    counts = {found[1].decode(): found for found in _COUNT.finditer(line)}
    told = {name: getattr(beat, name) for name in ("step", "rank", "worker")}
    if {n: int(found[2]) for n, found in counts.items()} != {n: v for n, v in told.items() if v is not None}:
        return None
    slots = {name: Slot(tokens.index(found.start(2))) for name, found in counts.items() if found.start(2) in tokens}
    held = {at: line[at : at + 1] * 2 for at in range(*time.span(2)) if line[at : at + 1].isdigit()}
    held |= {run.start(): b"19" for run in _RUN.finditer(line) if not line.count(b'"', 0, run.start()) % 2}
    held[time.start(1)] = b"19"
    grid = Grid(line, Layout(slots, len(tokens), (), -1), held)
    if len(slots) < len(counts) or grid.places is None or beat.time is None:
        return None
    ahead = beat.time.utcoffset()
    return None if ahead is None else _Model(grid, beat, time.span(1), ahead.total_seconds())


def _one_by_one(lines: bytes, numbers: Places) -> list[Part] | None:
    """The rows of lines each of which is read by itself; None where one is no sound heartbeat, or of a clock finer than a microsecond."""
    if _FINER.search(lines) is not None:
        return None
    try:
        beats = _DECODER.decode_lines(lines)
    except (DecodeError, UnicodeDecodeError):
        return None
    if len(beats) != len(numbers) or not all(beat.is_sound() for beat in beats):
        return None
    parts = []
    for names in (("step", "time", "rank"), ("step", "time")):
        rows = [n for n, beat in enumerate(beats) if beat.names() == names]
        if rows:
            table = np.array([beats[n].row() for n in rows])
            parts.append(Part(numbers[rows], {name: table[:, i].copy() for i, name in enumerate(names)}))
    return parts
