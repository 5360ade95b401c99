"""TensorBoard event files: scalars of each step, read without TensorFlow or protobuf.

A record is a length, a checksum of it, the bytes and their checksum; an event holds wall time (1), step (2) and a
summary (5) of values with a tag (1), a plain float (2) or a tensor (8). Damaged or unknown parts are passed over; checksums
are not compared, since a wrong length is found by where the next record begins. Records of one length that differ in nothing but
time, step and number are read together. Must not judge a value.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firstfault.metrics.blocks import Part
from firstfault.metrics.columns import ALIASES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from firstfault.model.evidence import SourceId
    from firstfault.readers.store import Store

    Scalars = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]
    """Numbers of records, their steps, times and values."""

MOST = 1 << 30
"""Bytes of a file that are read."""
LONGEST = 64 << 20
"""Bytes of a record from which on its length is damage."""


FEW = 16
"""Records of one length up to which each is read by itself."""
MOST_MODELS = 64
"""Records of one length that are tried as a model for the others."""


class _Model(NamedTuple):
    """A record with one scalar, and where its time, step and value stand."""

    record: bytes
    tag: str
    wall: int
    step: tuple[int, int]
    value: int
    form: str


def read_events(store: Store, source: SourceId) -> list[Part]:
    """The scalars of an event file, one part for each tag that is known; the line is the number of the record."""
    data = store.read(source, 0, MOST)
    starts, lengths = _records(data)
    raw = np.frombuffer(data, np.uint8)
    found: dict[str, list[Scalars]] = {}
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        for _ in range(MOST_MODELS):
            if len(rows) < FEW:
                break
            at = int(starts[rows[0]])
            model = _model(data[at : at + length])
            if model is None:
                break
            table = np.lib.stride_tricks.sliding_window_view(raw, length)[starts[rows]]
            fits = _alike(model, table)
            if column_of(model.tag) is not None:
                found.setdefault(model.tag, []).append(_scalars(model, table[fits], rows[fits] + 1))
            rows = rows[~fits]
        for row in rows.tolist():
            for tag, scalar in _by_itself(data[starts[row] : starts[row] + length], row + 1):
                found.setdefault(tag, []).append(scalar)
    return _parts(found)


def _parts(found: dict[str, list[Scalars]]) -> list[Part]:
    """The scalars of each tag in the order of the file; of the tags of one column the first that was written counts."""
    taken: set[str] = set()
    parts = []
    for tag, pieces in sorted(found.items(), key=lambda item: min(int(p[0][0]) for p in item[1])):
        column = column_of(tag)
        if column is None or column[0] in taken:
            continue
        taken.add(column[0])
        number, step, wall, value = (np.concatenate(c) for c in zip(*pieces, strict=True))
        order = np.argsort(number, kind="stable")
        parts.append(
            Part(number[order], {"step": step[order], "time": wall[order], column[0]: value[order] * column[1]})
        )
    return parts


def _by_itself(record: bytes, number: int) -> Iterator[tuple[str, Scalars]]:
    try:
        wall, step, values = _event(record)
    except (ValueError, struct.error):
        return
    for tag, value in values:
        if column_of(tag) is not None:
            yield tag, (np.array([number]), np.array([float(step)]), np.array([wall]), np.array([value]))


def _alike(model: _Model, table: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Rows that differ from a model in its time, step and value alone; the bytes of a step tell whether one more follows."""
    same = np.full(len(model.record), 0xFF, np.uint8)
    same[model.wall : model.wall + 8] = 0
    same[slice(*model.step)] = 0x80
    same[model.value : model.value + struct.calcsize(model.form)] = 0
    wanted = np.frombuffer(model.record, np.uint8) & same
    alike: NDArray[np.bool_] = ((table & same) == wanted).all(axis=1)
    return alike


def _scalars(model: _Model, table: NDArray[np.uint8], numbers: NDArray[np.int64]) -> Scalars:
    step = np.zeros(len(table), np.uint64)
    for place in range(model.step[1] - 1, model.step[0] - 1, -1):
        step = (step << np.uint64(7)) | (table[:, place] & np.uint8(127)).astype(np.uint64)
    wall = np.ascontiguousarray(table[:, model.wall : model.wall + 8]).view("<f8")[:, 0]
    size = struct.calcsize(model.form)
    value = np.ascontiguousarray(table[:, model.value : model.value + size]).view(f"<f{size}")[:, 0]
    return numbers, step.astype(np.float64), wall.astype(np.float64), value.astype(np.float64)


def _model(record: bytes) -> _Model | None:
    """A record as a model for others; None where it is not one scalar with a time and a step."""
    try:
        wall = step = held = None
        for field, value, at in _fields(record):
            if field == 1 and isinstance(value, bytes) and len(value) == 8:
                wall = at
            elif field == 2 and isinstance(value, int):
                step = (at, _varint(record, at)[1])
            elif field == 5 and isinstance(value, bytes):
                if held is not None:
                    return None
                inner = [(one, start + at) for number, one, start in _fields(value) if number == 1]
                if len(inner) != 1 or not isinstance(inner[0][0], bytes):
                    return None
                told = _value(inner[0][0])
                held = None if told is None else (told, inner[0][1])
    except (ValueError, struct.error):
        return None
    if wall is None or step is None or held is None:
        return None
    (tag, _, place, form), start = held
    return _Model(record, tag, wall, step, start + place, form)


def column_of(tag: str) -> tuple[str, float] | None:
    """The column of a tag, by its whole name or its last part; None where it is unknown or counts something else (`… vs samples`)."""
    name = tag.lower().strip()
    if " vs " in name or (name.startswith(("val", "eval", "test")) and not name.replace("/", "_").endswith("loss")):
        return None
    known = ALIASES.get(name) or ALIASES.get(name.replace("-", "_"))
    if known is None and name.startswith(("val/", "valid/", "eval/", "test/")):
        known = ("val_loss", 1.0)
    return known or ALIASES.get(name.rsplit("/", 1)[-1]) or ALIASES.get(name.rsplit("/", 1)[-1].replace("-", "_"))


def _records(data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the bytes of each record begin, and how many they are, up to the first damaged length."""
    starts, lengths = [], []
    at, size, read = 0, len(data), struct.Struct("<Q").unpack_from
    while at + 12 <= size:
        (length,) = read(data, at)
        if length > LONGEST or at + 16 + length > size:
            break
        starts.append(at + 12)
        lengths.append(length)
        at += 16 + length
    return np.array(starts, np.int64), np.array(lengths, np.int64)


def _event(record: bytes) -> tuple[float, int, list[tuple[str, float]]]:
    wall, step = 0.0, 0
    values: list[tuple[str, float]] = []
    for field, value, _ in _fields(record):
        if field == 1 and isinstance(value, bytes) and len(value) == 8:
            (wall,) = struct.unpack("<d", value)
        elif field == 2 and isinstance(value, int):
            step = value
        elif field == 5 and isinstance(value, bytes):
            for inner, one, _ in _fields(value):
                if inner == 1 and isinstance(one, bytes):
                    told = _value(one)
                    if told is not None:
                        values.append(told[:2])
    return wall, step, values


def _value(data: bytes) -> tuple[str, float, int, str] | None:
    """Tag and number of a value, where the number stands in it and in which form."""
    tag, number = "", None
    for field, value, at in _fields(data):
        if not isinstance(value, bytes):
            continue
        if field == 1:
            tag = value.decode("utf-8", "replace")
        elif field == 2 and len(value) == 4:
            number = (float(struct.unpack("<f", value)[0]), at, "<f")
        elif field == 8:
            told = _tensor(value)
            number = None if told is None else (told[0], told[1] + at, told[2])
    return (tag, *number) if tag and number is not None else None


def _tensor(data: bytes) -> tuple[float, int, str] | None:
    """A tensor of one float: type 1 (float) or 2 (double), as bytes (4) or as a list (5, 6)."""
    kind = 0
    for field, value, at in _fields(data):
        if field == 1 and isinstance(value, int):
            kind = value
        elif field in {4, 5, 6} and isinstance(value, bytes):
            size, form = (4, "<f") if kind == 1 else (8, "<d")
            if kind in {1, 2} and len(value) == size:
                return float(struct.unpack(form, value)[0]), at, form
    return None


def _fields(data: bytes) -> Iterator[tuple[int, bytes | int, int]]:
    """Fields of a protobuf message: number, an integer or bytes, and where that begins.

    Raises:
        ValueError: the message is damaged.
    """
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            begin = at
            value, at = _varint(data, at)
            yield key >> 3, value, begin
            continue
        if kind == 2:
            length, at = _varint(data, at)
        elif kind in {1, 5}:
            length = 8 if kind == 1 else 4
        else:
            raise ValueError("unknown kind of field")
        if at + length > len(data):
            raise ValueError("a field is cut")
        yield key >> 3, data[at : at + length], at
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise ValueError("a number is cut")
