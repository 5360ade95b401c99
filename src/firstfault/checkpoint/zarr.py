"""A tensor as a folder of zarr (version 2), as Megatron's `zarr` format keeps each of its tensors: `.zarray` and a file a chunk.

Names and layout by megatron/core/dist_checkpointing/strategies/zarr.py (written until 2025) and the specification of zarr 2. Chunks
that are compressed are not read: that format writes none.
"""

from __future__ import annotations

from itertools import product as grid
from typing import TYPE_CHECKING, Any

from firstfault.checkpoint.contents import json_of
from firstfault.checkpoint.dtypes import SIZES
from firstfault.checkpoint.nouns import Content, Held, Piece, Problem, Record, product, row_major
from firstfault.checkpoint.parts import part_of

if TYPE_CHECKING:
    from firstfault.checkpoint.folder import Folder

ARRAY = ".zarray"
MOST_CHUNKS = 1_000_000
_TYPES = {
    "<f8": "float64",
    "<f4": "float32",
    "<f2": "float16",
    "bfloat16": "bfloat16",
    "<V2": "bfloat16",
    "<i8": "int64",
    "<i4": "int32",
    "<i2": "int16",
    "|i1": "int8",
    "|u1": "uint8",
    "|b1": "bool",
}


def is_zarr(folder: Folder, place: str) -> bool:
    """Whether a folder is one tensor of this kind."""
    return f"{place}/{ARRAY}" in folder.sizes


def read_zarr(folder: Folder, place: str) -> Content:
    """The tensor that a folder holds, and what is wrong with its chunks."""
    content = Content()
    head = f"{place}/{ARRAY}"
    key = place.rpartition("/")[2]
    part, below = part_of(tuple(key.split(".")), tensor=True)
    content.files[head] = part
    value = json_of(folder, head)
    layout = value if isinstance(value, Problem) else _layout(value, head)
    if isinstance(layout, Problem):
        content.problems.append(layout)
        content.unopened.add(head)
        return content
    dtype, shape, chunks, separator = layout
    held = Held(part, ".".join(below), dtype, shape)
    content.tensors[part, held.name] = held
    counts = [-(-size // chunk) for size, chunk in zip(shape, chunks, strict=True)]
    size = product(chunks) * SIZES[dtype]
    known = {head, f"{place}/.zattrs"}
    fills = value.get("fill_value") is not None
    for index in grid(*map(range, counts)):
        name = f"{place}/{separator.join(map(str, index)) or '0'}"
        known.add(name)
        at = tuple(i * chunk for i, chunk in zip(index, chunks, strict=True))
        extent = tuple(min(chunk, whole - begin) for chunk, whole, begin in zip(chunks, shape, at, strict=True))
        problem = _chunk(folder, name, size, fills=fills)
        if problem is not None:
            content.problems.append(problem)
        elif name in folder.sizes:
            content.files[name] = part
            held.pieces.append(Piece(Record(name, 0, size), 0, extent, row_major(chunks), at))
    for name in folder.sizes:
        if name.startswith(f"{place}/") and name not in known:
            what = "is no chunk of a tensor of this shape: another save left it"
            content.problems.append(Problem("extra_shard", "warning", name, what))
    return content


def _layout(value: Any, head: str) -> tuple[str, tuple[int, ...], tuple[int, ...], str] | Problem:
    """Type, shape, sizes of a chunk, and what stands between the numbers of a chunk's name."""
    try:
        shape, chunks = tuple(value["shape"]), tuple(value["chunks"])
        kind, order = str(value["dtype"]), str(value.get("order", "C"))
        separator = str(value.get("dimension_separator") or ".")
        whole = all(type(n) is int and n >= 0 for n in shape) and all(type(n) is int and n > 0 for n in chunks)
        compressed = value.get("compressor") is not None or bool(value.get("filters"))
    except (KeyError, TypeError, AttributeError):
        return Problem("layout", "damage", head, "does not say shape, chunks and type of its tensor")
    if not whole or len(shape) != len(chunks) or separator not in {".", "/"}:
        return Problem("layout", "damage", head, "describes its tensor in a way that cannot be")
    if kind not in _TYPES:
        return Problem("layout", "warning", head, f"is of a type that is not known: {kind[:40]}")
    if compressed or order != "C":
        return Problem("layout", "warning", head, "has compressed or transposed chunks, which are not read")
    if product(tuple(-(-s // c) for s, c in zip(shape, chunks, strict=True))) > MOST_CHUNKS:
        return Problem("layout", "damage", head, f"describes more than {MOST_CHUNKS:,} chunks")
    return _TYPES[kind], shape, chunks, separator


def _chunk(folder: Folder, name: str, size: int, *, fills: bool) -> Problem | None:
    """What is wrong with the file of one chunk."""
    has = folder.sizes.get(name)
    if has is None:
        if fills:
            return None  # a chunk that holds nothing but the value that fills is not written
        return Problem("missing_shard", "damage", name, "is missing: its tensor is cut into more chunks than are there")
    if has == 0:
        return Problem("empty_file", "damage", name, "is empty")
    if has < size:
        return Problem("truncated", "damage", name, f"is cut off: it has {has:,} bytes, and a chunk has {size:,}")
    if has > size:
        return Problem("wrong_size", "damage", name, f"has {has:,} bytes, and a chunk has {size:,}")
    return None
