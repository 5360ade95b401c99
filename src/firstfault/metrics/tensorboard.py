"""TensorBoard event files: scalars of each step, read without TensorFlow or protobuf.

A record is a length, a checksum of it, the bytes and their checksum; an event holds wall time (1), step (2) and a
summary (5) of values with a tag (1), a plain float (2) or a tensor (8). Damaged or unknown parts are passed over; checksums
are not compared, since a wrong length is found by where the next record begins. Must not judge a value.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from firstfault.metrics.blocks import Part
from firstfault.metrics.columns import ALIASES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.model.evidence import SourceId
    from firstfault.readers.store import Store

MOST = 1 << 30
"""Bytes of a file that are read."""
LONGEST = 64 << 20
"""Bytes of a record from which on its length is damage."""


def read_events(store: Store, source: SourceId) -> list[Part]:
    """The scalars of an event file, one part for each tag that is known; the line is the number of the record."""
    found: dict[str, list[tuple[int, float, float, float]]] = {}
    for number, record in enumerate(_records(store.read(source, 0, MOST)), 1):
        try:
            wall, step, values = _event(record)
        except (ValueError, struct.error):
            continue
        for tag, value in values:
            column = column_of(tag)
            if column is not None:
                found.setdefault(tag, []).append((number, float(step), wall, value * column[1]))
    taken: dict[str, str] = {}
    parts = []
    for tag, rows in found.items():
        column = column_of(tag)
        if column is None or taken.setdefault(column[0], tag) != tag:
            continue
        table = np.array(rows, dtype=np.float64)
        columns = {"step": table[:, 1].copy(), "time": table[:, 2].copy(), column[0]: table[:, 3].copy()}
        parts.append(Part(table[:, 0].astype(np.int64), columns))
    return parts


def column_of(tag: str) -> tuple[str, float] | None:
    """The column of a tag, by its whole name or its last part; None where it is unknown or counts something else (`… vs samples`)."""
    name = tag.lower().strip()
    if " vs " in name or (name.startswith(("val", "eval", "test")) and not name.replace("/", "_").endswith("loss")):
        return None
    known = ALIASES.get(name) or ALIASES.get(name.replace("-", "_"))
    if known is None and name.startswith(("val/", "valid/", "eval/", "test/")):
        known = ("val_loss", 1.0)
    return known or ALIASES.get(name.rsplit("/", 1)[-1]) or ALIASES.get(name.rsplit("/", 1)[-1].replace("-", "_"))


def _records(data: bytes) -> Iterator[bytes]:
    at = 0
    while at + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        if length > LONGEST or at + 16 + length > len(data):
            return
        yield data[at + 12 : at + 12 + length]
        at += 16 + length


def _event(record: bytes) -> tuple[float, int, list[tuple[str, float]]]:
    wall, step = 0.0, 0
    values: list[tuple[str, float]] = []
    for field, value in _fields(record):
        if field == 1 and isinstance(value, bytes) and len(value) == 8:
            (wall,) = struct.unpack("<d", value)
        elif field == 2 and isinstance(value, int):
            step = value
        elif field == 5 and isinstance(value, bytes):
            for inner, one in _fields(value):
                if inner == 1 and isinstance(one, bytes):
                    told = _value(one)
                    if told is not None:
                        values.append(told)
    return wall, step, values


def _value(data: bytes) -> tuple[str, float] | None:
    tag, number = "", None
    for field, value in _fields(data):
        if not isinstance(value, bytes):
            continue
        if field == 1:
            tag = value.decode("utf-8", "replace")
        elif field == 2 and len(value) == 4:
            (number,) = struct.unpack("<f", value)
        elif field == 8:
            number = _tensor(value)
    return (tag, number) if tag and number is not None else None


def _tensor(data: bytes) -> float | None:
    """A tensor of one float: type 1 (float) or 2 (double), as bytes (4) or as a list (5, 6)."""
    kind = 0
    for field, value in _fields(data):
        if field == 1 and isinstance(value, int):
            kind = value
        elif field in {4, 5, 6} and isinstance(value, bytes):
            size, form = (4, "<f") if kind == 1 else (8, "<d")
            if kind in {1, 2} and len(value) == size:
                return float(struct.unpack(form, value)[0])
    return None


def _fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Fields of a protobuf message: number, and an integer or bytes.

    Raises:
        ValueError: the message is damaged.
    """
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if kind == 2:
            length, at = _varint(data, at)
        elif kind in {1, 5}:
            length = 8 if kind == 1 else 4
        else:
            raise ValueError("unknown kind of field")
        if at + length > len(data):
            raise ValueError("a field is cut")
        yield key >> 3, data[at : at + length]
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
