"""Values that do not stand right behind their names: cells of drawn tables, the events of MLPerf, bars that a logger writes, a count between words.

Must not decide whether a line is a step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firstfault.metrics.columns import ALIASES, RECIPROCAL
from firstfault.model.lazy import lazy
from firstfault.readers.step_forms import COUNTED, LOGGED_BAR, SAMPLES_COUNT, SIZES

if TYPE_CHECKING:
    from collections.abc import Iterator


class Told(NamedTuple):
    """A value and where it stands."""

    column: str
    start: int
    """Byte of the line at which its number begins."""
    value: bytes
    factor: float


_VALUE = rb"(?P<value>[-+]?(?:\d[\d,]{0,20}(?:\.\d{0,20})?(?:e[-+]?\d{1,4})?|nan|inf(?:inity)?))"
_EVENT = lazy(rb'"key": ?"(?P<key>\w{1,60})", ?"value": ?"?' + _VALUE + rb'"?[,}]')
"""`:::MLLOG {…, "key": "train_loss", "value": 11.846, "metadata": {"samples_count": 512}}`."""
_TIME = lazy(rb'"time_ms": ?(\d{12,15})\b')
_COLUMN_OF = {"步": "step", "次迭代": "step"}
_EDGE = rb"(?:\||\xe2\x94[\x82\x83])"
_CELL = lazy(
    rb"^\s{0,20}" + _EDGE + rb"\s{0,12}(?P<key>[a-z][\w/]{0,39}(?: [\w/]{1,20}){0,3})\s{0,60}" + _EDGE + rb"\s{0,60}" + _VALUE + rb"\s{0,40}" + _EDGE + rb"\s*$"
)  # fmt: skip
"""A row of a table of two columns: `|    loss     | 2.345    |`."""
_LONGEST_ROW = 240
_COUNTS = frozenset({"step", "global_step", "global step", "iteration", "iter", "train_step", "total_timesteps"})
"""Names of a row that count the steps; `steps` and `max_steps` are settings."""


def is_table_row(low: bytes) -> bool:
    """Whether a line, in lower case, is a row of a table of two columns with a metric or the step in it."""
    return any(True for _ in _table(low))


def told_apart(low: bytes) -> Iterator[Told]:
    """The values of a line, given in lower case, of which the names stand elsewhere."""
    if b":::mllog" in low:
        yield from _event(low)
    elif b"progress on:train" in low:
        bar = LOGGED_BAR.search(low)
        if bar is not None:
            yield Told("step", bar.start("value"), bar["value"], SIZES[bar["size"]])
            if bar["rate"] is not None:
                # Smoothed over many steps: a pace, and no time of a step.
                yield Told("throughput", bar.start("rate"), bar["rate"], RECIPROCAL if bar["unit"] == b"s/it" else 1.0)
    elif not low.isascii():
        for counted in COUNTED.finditer(low):
            yield Told(_COLUMN_OF.get(counted["of"].decode(), "epoch"), counted.start("value"), counted["value"], 1.0)
    yield from _table(low)


def _event(low: bytes) -> Iterator[Told]:
    told, samples, time = _EVENT.search(low), SAMPLES_COUNT.search(low), _TIME.search(low)
    if told is not None and (known := ALIASES.get(told["key"].decode())) is not None:
        yield Told(known[0], told.start("value"), told["value"], known[1])
    if samples is not None:
        yield Told("step", samples.start(1), samples[1], 1.0)
    if time is not None:
        yield Told("time", time.start(1), time[1], 0.001)


def _table(low: bytes) -> Iterator[Told]:
    if len(low) > _LONGEST_ROW or not low.lstrip().startswith((b"|", b"\xe2\x94\x82", b"\xe2\x94\x83")):
        return
    cell = _CELL.match(low)
    if cell is None:
        return
    name = cell["key"].decode()
    known = ("step", 1.0) if name in _COUNTS else ALIASES.get(name) or ALIASES.get(name.replace("_", " "))
    if known is not None and (known[0] != "step" or name in _COUNTS):
        yield Told(known[0], cell.start("value"), cell["value"], known[1])
