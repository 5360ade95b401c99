"""One file of a checkpoint as tensors and values: torch, safetensors and JSON, told apart by their bytes.

Knows no layout of folders: what a file is to the checkpoint is said by the caller.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from firstfault.checkpoint.dtypes import SAFETENSORS, SIZES
from firstfault.checkpoint.nouns import Content, Held, Piece, Problem, Record, placeholder, product, row_major
from firstfault.checkpoint.parts import part_of, part_of_file
from firstfault.checkpoint.torch_file import load_torch, piece_of
from firstfault.checkpoint.values import TooManyValuesError, canonical, walk
from firstfault.readers.unpickle_torch import ArrayStub, TensorStub

if TYPE_CHECKING:
    from firstfault.checkpoint.folder import Folder
    from firstfault.model.checkpoint import Part

LONGEST_HEADER = 100 << 20
"""Bytes of a header of safetensors; its own reader takes no more."""
MOST_JSON = 64 << 20
STEPS = ("global_step", "global_steps", "iteration", "step", "current_step", "trainer.step", "iter")
"""Keys under which trainers keep the step, the surest first."""


def read_file(folder: Folder, name: str, *, prefix: str = "", part: Part | None = None) -> Content:
    """What one file holds.

    Args:
        folder: where it lies.
        name: path below the folder.
        prefix: stands before the names of what each rank writes for itself.
        part: what the file belongs to; None where it may hold several parts, which its keys then tell.
    """
    size = folder.sizes[name]
    if size == 0:
        return Content(problems=[Problem("empty_file", "damage", name, "is empty")], unopened={name})
    if name.endswith(".safetensors"):
        return read_safetensors(folder, name, prefix=prefix, part=part)
    if name.endswith(".json"):
        return read_json(folder, name)
    return read_torch(folder, name, prefix=prefix, part=part)


def read_torch(folder: Folder, name: str, *, prefix: str = "", part: Part | None = None) -> Content:
    """What a file of `torch.save`, or a plain pickle, holds."""
    loaded = load_torch(folder, name)
    content = Content(problems=list(loaded.problems), records=list(loaded.others))
    content.files[name] = part or "weights"
    if not loaded.opened:
        content.unopened.add(name)
        return content
    value = loaded.value
    flat = isinstance(value, dict) and bool(value) and all(isinstance(v, TensorStub) for v in value.values())
    try:
        for path, leaf in walk(value):
            if not path and isinstance(leaf, dict):
                continue
            tensor = isinstance(leaf, TensorStub)
            where, below = (part, path) if part else ("weights", path) if flat else part_of(path, tensor=tensor)
            key = (where, prefix + ".".join(below))
            if isinstance(leaf, TensorStub):
                hold(content, key, leaf, piece_of(leaf, loaded, name))
            else:
                content.values.setdefault(key, canonical(leaf, whole=key[1].endswith(".params")))
    except TooManyValuesError as error:
        content.problems.append(Problem("unreadable", "warning", name, f"was read in part: it holds {error}"))
    step = None if part in {"rng", "optimizer", "scheduler"} else step_of(value)
    if step is not None:
        content.steps[name] = step
    return content


def hold(content: Content, key: tuple[Part, str], stub: TensorStub, piece: Piece | Problem | None) -> None:
    """Adds a tensor, or what is wrong with where it lies."""
    if isinstance(piece, Problem):
        content.problems.append(piece)
        return
    held = Held(key[0], key[1], stub.dtype, stub.shape, [] if piece is None else [piece])
    content.tensors.setdefault(key, held)


def step_of(value: object) -> int | None:
    """The step that a map states at its top; None where it states none."""
    if not isinstance(value, dict):
        return None
    for key in STEPS:
        held = value.get(key)
        if isinstance(held, int) and not isinstance(held, bool) and held >= 0:
            return held
        if isinstance(held, ArrayStub) and isinstance(held.raw, bytes) and held.dtype in {"i8", "i4"}:
            return int.from_bytes(held.raw, "little")
    return None


def read_json(folder: Folder, name: str) -> Content:
    """What a JSON file of a trainer's state holds."""
    content = Content()
    base = name.rpartition("/")[2]
    part = part_of_file(base) or "settings"
    value = json_of(folder, name)
    if isinstance(value, Problem):
        content.problems.append(value)
        content.unopened.add(name)
        return content
    content.files[name] = part
    for path, leaf in walk(value):
        content.values[part, ".".join((base.removesuffix(".json"), *path))] = canonical(leaf)
    step = step_of(value) if part == "trainer" else None
    if step is not None:
        content.steps[name] = step
    return content


def json_of(folder: Folder, name: str) -> Any:
    """The value of a JSON file, or what is wrong with it."""
    if folder.sizes[name] == 0:
        return Problem("empty_file", "damage", name, "is empty")
    if folder.sizes[name] > MOST_JSON:
        return Problem("unreadable", "warning", name, f"is larger than {MOST_JSON >> 20} MiB and was not read")
    try:
        raw = folder.read(name)
        return json.loads(raw)
    except OSError as error:
        return Problem("unreadable", "damage", name, f"cannot be read: {error.strerror}")
    except (ValueError, RecursionError) as error:
        if raw.strip(b"\0") == b"":
            return Problem("zeroed_file", "damage", name, "holds zeros alone: its blocks were never written")
        kind = "truncated" if not raw.rstrip().endswith((b"}", b"]")) else "unreadable"
        return Problem(kind, "damage", name, f"is no JSON: {error}")  # type: ignore[arg-type]


def read_safetensors(
    folder: Folder, name: str, *, prefix: str = "", part: Part | None = None, start: int = 0, length: int | None = None
) -> Content:
    """What a file of safetensors, or a stretch of a file that is one, holds."""
    size = folder.sizes[name] - start if length is None else length
    content = Content()
    content.files[name] = where = part or "weights"
    header = _header(folder, name, start, size)
    if isinstance(header, Problem):
        content.problems.append(header)
        content.unopened.add(name)
        return content
    entries, begin = header
    last = begin
    spans: list[tuple[int, int, str]] = []
    for tensor, entry in entries.items():
        if tensor == "__metadata__":
            continue
        span = _span(entry)
        if span is not None:
            spans.append((*span, tensor))
            last = max(last, begin + span[1])
        piece = _piece(name, tensor, entry, start + begin)
        if isinstance(piece, Problem):
            content.problems.append(piece)
            continue
        if piece[1].record.offset - start + piece[1].record.length > size:
            continue
        key = (where, prefix + tensor)
        content.tensors[key] = Held(where, key[1], piece[0], piece[1].shape, [piece[1]])
    if last > size:
        what = f"is cut off after {size:,} bytes: its header describes {last:,}"
        content.problems.append(Problem("truncated", "damage", name, what))
    elif last < size and length is None:
        what = f"has {size - last:,} bytes behind its last tensor, which no header describes"
        content.problems.append(Problem("wrong_size", "damage", name, what))
    if len(spans) == len(entries) - ("__metadata__" in entries):
        content.problems += _apart(name, spans)
    return content


def _span(entry: Any) -> tuple[int, int] | None:
    """First byte and end of a tensor in the data, whatever its type; None where its header does not say them."""
    try:
        first, last = entry["data_offsets"]
    except (KeyError, TypeError, ValueError):
        return None
    return (first, last) if type(first) is int and type(last) is int and 0 <= first <= last else None


def _apart(name: str, spans: list[tuple[int, int, str]]) -> list[Problem]:
    """Tensors that do not follow one another without a gap: safetensors refuses the whole file then."""
    at = 0
    for first, last, tensor in sorted(spans):
        if first != at:
            what = f"{tensor[:200]} begins at byte {first:,} of the data, and what stands before it ends at {at:,}: safetensors refuses a file with gaps or overlaps"
            return [Problem("layout", "damage", name, what)]
        at = last
    return []


def _header(folder: Folder, name: str, start: int, size: int) -> tuple[dict[str, Any], int] | Problem:
    try:
        head = folder.read(name, start, 8)
        length = int.from_bytes(head, "little")
        if len(head) < 8 or size < 8:
            return Problem("truncated", "damage", name, f"is cut off after {size} bytes")
        if length > LONGEST_HEADER or length == 0:
            instead = placeholder(name, folder.read(name, start, min(size, 512)))
            if instead is not None:
                return instead
            zeros = length == 0 and not folder.read(name, start, min(size, 64)).strip(b"\0")
            what = "begins with zeros: its blocks were never written" if zeros else "is no file of safetensors"
            return Problem("zeroed_file" if zeros else "unreadable", "damage", name, what)
        if 8 + length > size:
            return Problem("truncated", "damage", name, f"is cut off after {size:,} bytes, inside its header")
        entries = json.loads(folder.read(name, start + 8, length))
    except OSError as error:
        return Problem("unreadable", "damage", name, f"cannot be read: {error.strerror}")
    except (ValueError, RecursionError) as error:
        return Problem("unreadable", "damage", name, f"its header is no JSON: {error}")
    if not isinstance(entries, dict):
        return Problem("unreadable", "damage", name, "its header is no map of tensors")
    return entries, 8 + length


def _piece(name: str, tensor: str, entry: Any, begin: int) -> tuple[str, Piece] | Problem:
    try:
        dtype, shape = SAFETENSORS.get(entry["dtype"]), tuple(entry["shape"])
        first, last = entry["data_offsets"]
        known = all(type(n) is int and n >= 0 for n in (*shape, first, last))
    except (KeyError, TypeError, ValueError):
        known = False
    if not known:
        return Problem("layout", "damage", name, f"its header does not say where {tensor[:200]} lies")
    if dtype is None:
        kind = str(entry["dtype"])[:40]
        return Problem("layout", "warning", name, f"{tensor[:200]} is of a type that is not known: {kind}")
    need = product(shape) * SIZES[dtype]
    if last - first != need:
        what = f"{tensor[:200]} of shape {list(shape)} needs {need:,} bytes, and its header gives it {last - first:,}"
        return Problem("wrong_size", "damage", name, what)
    record = Record(name, begin + first, need)
    return dtype, Piece(record, 0, shape, row_major(shape), (0,) * len(shape))
