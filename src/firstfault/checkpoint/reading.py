"""Reads the bytes of all tensors once: checksums, digests, and elements that are no finite number.

Memory does not grow with the checkpoint: blocks of 8 MiB, but for tensors whose elements do not follow one another. Knows
no format.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct, field

from firstfault.checkpoint.dtypes import SIZES, Count, count_nonfinite
from firstfault.checkpoint.folder import natural
from firstfault.checkpoint.nouns import Key, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from firstfault.checkpoint.folder import Folder
    from firstfault.checkpoint.nouns import Content, Held, Piece, Record

BLOCK = 8 << 20
_TAIL = 4096
"""Bytes of zeros at the end of a file from which on they are told."""


class Seen(Struct):
    """One piece as it was read."""

    digest: str
    """SHA-256 of its elements in the order of a C array."""
    count: Count
    zeros: bool
    """Whether it holds zero bytes alone."""


class Reading(Struct):
    """All pieces as they were read."""

    pieces: dict[Key, list[Seen | None]] = field(default_factory=dict)
    """In the order of the tensor's pieces; None where one could not be read."""
    problems: list[Problem] = field(default_factory=list)


class _Files:
    """Keeps the file open that was read last."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._name = ""
        self._file: IO[bytes] | None = None

    def get(self, name: str) -> IO[bytes]:
        if self._file is None or name != self._name:
            self.close()
            self._file, self._name = self._folder.path(name).open("rb"), name
        return self._file

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None


def bytes_of(content: Content) -> int:
    """Bytes that `read_all` will read, about."""
    return sum(p.record.length for held in content.tensors.values() for p in held.pieces)


def read_all(folder: Folder, content: Content, progress: Callable[[int], None] | None = None) -> Reading:
    """Reads every tensor.

    Args:
        folder: where the checkpoint lies.
        content: what it holds; tensors with type and shape that fit their bytes.
        progress: is told bytes as they are read.
    """
    reading = Reading({key: [None] * len(held.pieces) for key, held in content.tensors.items()})
    files = _Files(folder)
    wrong: dict[str, list[Record]] = {}
    right: dict[str, int] = {}
    checked: set[Record] = set()
    try:
        for key, held, number, piece in _in_order(content):
            try:
                seen, crc = _read(files.get(piece.record.file), held.dtype, piece, progress)
                if piece.record.crc is not None and piece.record not in checked:
                    checked.add(piece.record)
                    if crc is None:
                        crc = _crc(files.get(piece.record.file), piece.record)
                    _judge(crc, piece.record, wrong, right)
            except OSError as error:
                what = f"cannot be read at byte {piece.record.offset:,}: {error.strerror or error}"
                reading.problems.append(Problem("unreadable", "damage", piece.record.file, what))
                continue
            reading.pieces[key][number] = seen
        for record in content.records:
            if record.crc is not None:
                _judge(_crc(files.get(record.file), record), record, wrong, right)
    finally:
        files.close()
    reading.problems += [_mismatch(file, records) for file, records in wrong.items()]
    reading.problems += [*_nonfinite(content, reading), *_zeros_at_the_end(content, reading)]
    return reading


def _in_order(content: Content) -> Iterator[tuple[Key, Held, int, Piece]]:
    every = [(key, held, i, p) for key, held in content.tensors.items() for i, p in enumerate(held.pieces)]
    order = {file: natural(file) for file in {p.record.file for *_, p in every}}
    yield from sorted(every, key=lambda e: (order[e[3].record.file], e[3].record.offset, e[3].start))


def _read(file: IO[bytes], dtype: str, piece: Piece, progress: Callable[[int], None] | None) -> tuple[Seen, int | None]:
    """The piece, and the checksum of its record where it is all of that."""
    digest, count, zeros = hashlib.sha256(), Count(), True
    if not piece.contiguous:
        raw = np.ascontiguousarray(elements(file, dtype, piece)).view(np.uint8).reshape(-1)
        digest.update(raw.data)
        count_nonfinite(raw, dtype, count)
        return Seen(digest.hexdigest(), count, not raw.any()), None
    length = piece.numel * SIZES[dtype]
    whole = piece.start == 0 and length == piece.record.length
    crc = 0
    file.seek(piece.record.offset + piece.start)
    for block in _blocks(file, length):
        digest.update(block)
        if whole and piece.record.crc is not None:
            crc = zlib.crc32(block, crc)
        raw = np.frombuffer(block, np.uint8)
        count_nonfinite(raw, dtype, count)
        zeros = zeros and not raw.any()
        if progress is not None:
            progress(len(block))
    return Seen(digest.hexdigest(), count, zeros), crc if whole else None


def _blocks(file: IO[bytes], length: int) -> Iterator[bytes]:
    while length > 0:
        block = file.read(min(BLOCK, length))
        if not block or (len(block) < length and len(block) < BLOCK):
            raise OSError(0, "it became shorter while it was read")
        length -= len(block)
        yield block


def _crc(file: IO[bytes], record: Record) -> int:
    file.seek(record.offset)
    crc = 0
    for block in _blocks(file, record.length):
        crc = zlib.crc32(block, crc)
    return crc


def _judge(crc: int, record: Record, wrong: dict[str, list[Record]], right: dict[str, int]) -> None:
    if crc == record.crc:
        right[record.file] = right.get(record.file, 0) + 1
    else:
        wrong.setdefault(record.file, []).append(record)


def elements(file: IO[bytes], dtype: str, piece: Piece, rows: tuple[int, int] | None = None) -> np.ndarray[Any, Any]:
    """Elements of a piece as unsigned numbers, or bytes, of their width, in its shape.

    Args:
        file: the open file.
        dtype: type of the elements.
        piece: where they lie.
        rows: first and end along the first dimension; None for all.

    Raises:
        OSError: they cannot be read.
    """
    width = SIZES[dtype]
    letters = {1: "u1", 2: "<u2", 4: "<u4", 8: "<u8"}.get(width, f"V{width}")
    shape, first = piece.shape, piece.start
    if rows is not None and shape:
        shape = (rows[1] - rows[0], *shape[1:])
        first += rows[0] * piece.stride[0] * width
    if 0 in shape:
        return np.empty(shape, letters)
    span = 1 + sum((n - 1) * s for n, s in zip(shape, piece.stride, strict=True))
    file.seek(piece.record.offset + first)
    raw = file.read(span * width)
    if len(raw) < span * width:
        raise OSError(0, "it became shorter while it was read")
    flat = np.frombuffer(raw, letters)
    return np.lib.stride_tricks.as_strided(flat, shape, tuple(s * width for s in piece.stride), writeable=False)


def _mismatch(file: str, records: list[Record]) -> Problem:
    n = len(records)
    what = (
        f"{n} of its records do not have the checksum that the file states for them, the first at byte "
        f"{records[0].offset:,}: bytes were changed after they were written"
        if n > 1
        else f"the record at byte {records[0].offset:,} ({records[0].length:,} bytes) does not have the checksum that the "
        "file states for it: bytes were changed after they were written"
    )
    return Problem("checksum", "damage", file, what)


_MAY_BE_INFINITE = ("mask", "min_val", "max_val", "running_min", "running_max", "alibi", "best")


def _nonfinite(content: Content, reading: Reading) -> Iterator[Problem]:
    nan: dict[tuple[str, str], list[tuple[str, int]]] = {}
    inf: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for key, pieces in reading.pieces.items():
        if key[0] not in {"weights", "optimizer"}:
            continue
        held = content.tensors[key]
        for piece, seen in zip(held.pieces, pieces, strict=True):
            if seen is None:
                continue
            where = (piece.record.file, key[0])
            if seen.count.nan:
                nan.setdefault(where, []).append((key[1], seen.count.nan))
            if seen.count.inf and not any(word in key[1].lower() for word in _MAY_BE_INFINITE):
                inf.setdefault(where, []).append((key[1], seen.count.inf))
    for kind, word, found in (("nan", "NaN", nan), ("infinite", "infinite", inf)):
        for (file, part), tensors in found.items():
            total = sum(n for _, n in tensors)
            what = f"{total:,} elements of its {part} are {word}, in {len(tensors)} tensors, first in {tensors[0][0][:200]}"
            fix = "The run had gone wrong before this was saved: go back to an earlier checkpoint."
            yield Problem(kind, "damage", file, what, fix)  # type: ignore[arg-type]


def _zeros_at_the_end(content: Content, reading: Reading) -> Iterator[Problem]:
    """Where a file without checksums was enlarged and never written to its end."""
    files: dict[str, list[tuple[int, int, bool]]] = {}
    for key, pieces in reading.pieces.items():
        for piece, seen in zip(content.tensors[key].pieces, pieces, strict=True):
            if seen is not None and piece.record.crc is None:
                files.setdefault(piece.record.file, []).append((piece.record.offset, piece.record.length, seen.zeros))
    for file, stretches in files.items():
        stretches.sort()
        tail = []
        while stretches and stretches[-1][2]:
            tail.append(stretches.pop())
        length = sum(n for _, n, _ in tail)
        if stretches and len(tail) > 1 and length >= _TAIL:
            what = f"its last {len(tail)} tensors, {length:,} bytes, hold zeros alone: they may never have been written"
            yield Problem("zeroed_file", "warning", file, what)
