"""A folder of torch.distributed.checkpoint: `.metadata` says which tensors there are, `__N_M.distcp` hold their pieces.

Megatron's `torch_dist` and the sharded states of FSDP are of this kind too. The metadata's pickle is read by husks; the
classes are those of torch.distributed.checkpoint.metadata and .filesystem, by the names of their fields.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct, field

from firstfault.checkpoint.contents import read_safetensors
from firstfault.checkpoint.nouns import Content, Held, Piece, Problem, product
from firstfault.checkpoint.parts import part_of
from firstfault.checkpoint.torch_file import load_torch, piece_of, tensors_in
from firstfault.checkpoint.values import canonical, walk
from firstfault.readers.unpickle import UnreadablePickleError
from firstfault.readers.unpickle_torch import Husk, TensorStub, load_inert

if TYPE_CHECKING:
    from firstfault.checkpoint.folder import Folder
    from firstfault.model.checkpoint import Part

METADATA = ".metadata"
SHARD = re.compile(r"__(\d+)_(\d+)\.distcp$")
Box = tuple[tuple[int, ...], tuple[int, ...]]
"""Where a rectangle begins, and its sizes."""


class _Index(Struct):
    """What `.metadata` says."""

    tensors: dict[str, tuple[str, tuple[int, ...], list[Box]]] = field(default_factory=dict)
    """Name -> type, shape, pieces."""
    values: list[str] = field(default_factory=list)
    paths: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Name -> the keys from which it was made."""
    places: dict[tuple[str, tuple[int, ...] | None], tuple[str, int, int]] = field(default_factory=dict)
    """Name and where the piece begins -> file, first byte, bytes."""


def is_dcp(files: list[str]) -> bool:
    """Whether files that lie in one folder are of this kind."""
    return any(SHARD.search(f) or f.rpartition("/")[2] == METADATA for f in files)


def read_dcp(folder: Folder, below: str) -> Content:
    """What a folder of this kind holds, and what is wrong with it."""
    files = folder.under(below)
    shards = [f for f in files if SHARD.search(f)]
    content = Content()
    stem = f"{below}/" if below else ""
    _unfinished(files, stem, shards, content)
    if stem + METADATA not in folder.sizes:
        what = f"is missing: {len(shards)} files of shards are there, and what they hold is written last"
        content.problems.append(
            Problem("missing_metadata", "damage", stem + METADATA, what, "The save did not end: use an earlier checkpoint.")
        )
        content.unopened |= set(shards)
        return content
    index = _index(folder, stem + METADATA, content)
    if index is None:
        content.unopened |= {stem + METADATA, *shards}
        return content
    content.files.update(dict.fromkeys(shards, "weights"))
    usable = _files(folder, stem, shards, index, content)
    for name, (dtype, shape, boxes) in index.tensors.items():
        _tensor(folder, stem, name, dtype, shape, boxes, index, usable, content)
    for name in index.values:
        _value(folder, stem, name, index, usable, content)
    return content


def _unfinished(files: list[str], stem: str, shards: list[str], content: Content) -> None:
    for file in files:
        base = file.removeprefix(stem)
        if base in {".metadata.tmp", ".metadata_tmp"} or (base.endswith(".tmp") and base.startswith((".metadata", "__"))):
            weight = "warning" if stem + METADATA in files and shards else "damage"
            content.problems.append(
                Problem("unfinished_save", weight, file, "was left by a save that did not end")  # type: ignore[arg-type]
            )


def _index(folder: Folder, name: str, content: Content) -> _Index | None:
    try:
        raw = folder.read(name)
        if not raw:
            content.problems.append(Problem("empty_file", "damage", name, "is empty"))
            return None
        if not raw.strip(b"\0"):
            content.problems.append(Problem("zeroed_file", "damage", name, "holds zeros alone"))
            return None
        whole = load_inert(raw).value
    except OSError as error:
        content.problems.append(Problem("unreadable", "damage", name, f"cannot be read: {error.strerror}"))
        return None
    except UnreadablePickleError as error:
        cut = "cut off" in str(error)
        what = "is cut off" if cut else f"cannot be read: {error}"
        content.problems.append(Problem("truncated" if cut else "unreadable", "damage", name, what))
        return None
    states = whole.field("state_dict_metadata") if isinstance(whole, Husk) else None
    if not isinstance(whole, Husk) or not isinstance(states, dict):
        content.problems.append(Problem("unreadable", "damage", name, "is no metadata of torch.distributed.checkpoint"))
        return None
    index = _Index()
    for key, held in states.items():
        if not isinstance(held, Husk):
            continue
        shape, properties = held.field("size"), held.field("properties")
        if shape is None:
            index.values.append(str(key))
            continue
        state = properties.state if isinstance(properties, Husk) else None
        dtype = state[0] if isinstance(state, tuple) and state else (state or {}).get("dtype", "")
        index.tensors[str(key)] = (str(dtype), tuple(shape), _boxes(held.field("chunks")))
    planned = whole.field("planner_data")
    if isinstance(planned, dict):
        index.paths = {str(k): tuple(map(str, v)) for k, v in planned.items() if isinstance(v, (tuple, list))}
    stored = whole.field("storage_data")
    for where, info in stored.items() if isinstance(stored, dict) else ():
        if isinstance(where, Husk) and isinstance(info, Husk):
            at = where.field("offset")
            place = (str(info.field("relative_path")), info.field("offset"), info.field("length"))
            if isinstance(place[1], int) and isinstance(place[2], int):
                index.places[str(where.field("fqn")), None if at is None else tuple(at)] = place
    return index


def _boxes(chunks: object) -> list[Box]:
    found = []
    for chunk in chunks if isinstance(chunks, list) else []:
        at, sizes = (chunk.field("offsets"), chunk.field("sizes")) if isinstance(chunk, Husk) else (None, None)
        if isinstance(at, tuple) and isinstance(sizes, tuple):
            found.append((at, sizes))
    return found


def _files(folder: Folder, stem: str, shards: list[str], index: _Index, content: Content) -> set[str]:
    """Checks files against the metadata; gives those whose bytes are all there."""
    need: dict[str, int] = {}
    for file, offset, length in index.places.values():
        need[stem + file] = max(need.get(stem + file, 0), offset + length)
    for file in need:
        size = folder.sizes.get(file)
        if size is None:
            held = sum(1 for place in index.places.values() if stem + place[0] == file)
            what = f"is missing: the metadata places {held} tensors and values in it"
            content.problems.append(Problem("missing_shard", "damage", file, what))
        elif size == 0:
            content.problems.append(Problem("empty_file", "damage", file, "is empty"))
        elif size < need[file]:
            what = f"is cut off: it has {size:,} bytes, and the metadata places content up to {need[file]:,}"
            content.problems.append(Problem("truncated", "damage", file, what))
        elif size > need[file]:
            what = f"has {size:,} bytes, and the metadata knows {need[file]:,}: it is of another save"
            content.problems.append(Problem("wrong_size", "damage", file, what))
    for file in shards:
        if file not in need and folder.sizes[file] > 0:
            what = "is not known to the metadata: it was left by another save, perhaps of more ranks"
            content.problems.append(Problem("extra_shard", "warning", file, what))
    ranks = {int(m[1]) for file in need if (m := SHARD.search(file)) is not None}
    if ranks:
        content.stated["world_size_at_least"] = max(ranks) + 1
    return {file for file in need if folder.sizes.get(file, 0) > 0}


def _tensor(
    folder: Folder,
    stem: str,
    name: str,
    dtype: str,
    shape: tuple[int, ...],
    boxes: list[Box],
    index: _Index,
    usable: set[str],
    content: Content,
) -> None:
    path = index.paths.get(name) or tuple(name.split("."))
    part, below = part_of(path, tensor=True)
    held = Held(part, ".".join(below), dtype, shape)
    content.tensors[part, held.name] = held
    if sum(product(sizes) for _, sizes in boxes) != product(shape):
        content.problems.append(
            Problem("uncovered", "damage", stem + METADATA, f"the pieces of {name[:200]} do not add up to its shape {list(shape)}")
        )
    for at, sizes in boxes:
        place = index.places.get((name, at))
        if place is None:
            what = f"says nothing of where the piece of {name[:200]} at {list(at)} lies"
            content.problems.append(Problem("uncovered", "damage", stem + METADATA, what))
            continue
        file, offset, length = place
        if stem + file not in usable or offset + length > folder.sizes[stem + file]:
            continue
        piece = _piece(folder, stem + file, offset, length, name, dtype, sizes, content)
        if piece is not None:
            held.pieces.append(Piece(piece.record, piece.start, piece.shape, piece.stride, at))
            content.files[stem + file] = "weights"


def _piece(
    folder: Folder, file: str, offset: int, length: int, name: str, dtype: str, sizes: tuple[int, ...], content: Content
) -> Piece | None:
    problems: list[Problem] = []
    if folder.read(file, offset, 4) == b"PK\x03\x04" or folder.read(file, offset + 8, 1) != b"{":
        loaded = load_torch(folder, file, offset, length)
        problems += loaded.problems
        found = tensors_in(loaded.value) if loaded.opened else []
        made = piece_of(found[0][1], loaded, file) if found else None
        kind = found[0][1].dtype if found else ""
    else:
        inner = read_safetensors(folder, file, start=offset, length=length)
        problems += inner.problems
        held = next(iter(inner.tensors.values()), None)
        made, kind = (held.pieces[0], held.dtype) if held is not None else (None, "")
    if isinstance(made, Problem):
        problems.append(made)
        made = None
    if made is None:
        what = f"{name[:200]}, in its bytes from {offset:,} on: "
        content.problems += [Problem(p.kind, p.weight, file, what + p.what) for p in problems[:1]]
        if not problems:
            content.problems.append(Problem("missing_tensor", "damage", file, what + "there is no tensor"))
        return None
    if (made.shape, kind) != (sizes, dtype):
        what = f"{name[:200]} is {kind} {list(made.shape)} there, and {dtype} {list(sizes)} by the metadata"
        content.problems.append(Problem("wrong_size", "damage", file, what))
        return None
    return made


def _value(folder: Folder, stem: str, name: str, index: _Index, usable: set[str], content: Content) -> None:
    place = index.places.get((name, None)) or index.places.get((name, ()))
    path = index.paths.get(name) or tuple(name.split("."))
    part, below = part_of(path, tensor=False)
    if place is None:
        what = f"says nothing of where {name[:200]} lies"
        content.problems.append(Problem("uncovered", "damage", stem + METADATA, what))
        return
    file, offset, length = place
    if stem + file not in usable or offset + length > folder.sizes[stem + file]:
        return
    loaded = load_torch(folder, stem + file, offset, length)
    content.problems += [Problem(p.kind, p.weight, p.file, f"{name[:200]}: {p.what}") for p in loaded.problems]
    content.records += loaded.others
    if not loaded.opened:
        return
    if part == "trainer" and path[-1] in {"step", "global_step", "iteration", "global_steps"} and type(loaded.value) is int:
        content.steps[stem + METADATA] = loaded.value
    for inside, leaf in walk(loaded.value):
        key = (part, ".".join((*below, *inside)))
        if isinstance(leaf, TensorStub):
            _loose(content, key, leaf, piece_of(leaf, loaded, stem + file))
        elif not (isinstance(leaf, dict) and not inside):
            content.values[key] = canonical(leaf, whole=key[1].endswith(".params"))


def _loose(content: Content, key: tuple[Part, str], stub: TensorStub, piece: Piece | Problem | None) -> None:
    if isinstance(piece, Problem):
        content.problems.append(piece)
    else:
        content.tensors[key] = Held(key[0], key[1], stub.dtype, stub.shape, [] if piece is None else [piece])
