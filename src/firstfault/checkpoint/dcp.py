"""A folder of torch.distributed.checkpoint: `.metadata` says which tensors there are, `__N_M.distcp` hold their pieces.

Megatron's `torch_dist` and the sharded states of FSDP are of this kind too. The metadata's pickle is read by husks; the
classes are those of torch.distributed.checkpoint.metadata and .filesystem, by the names of their fields.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct, field

from firstfault.checkpoint.contents import STEPS, hold, read_safetensors
from firstfault.checkpoint.nouns import Content, Held, Piece, Problem, product, runs_code
from firstfault.checkpoint.parts import part_of
from firstfault.checkpoint.torch_file import load_torch, piece_of, tensors_in
from firstfault.checkpoint.values import canonical, walk
from firstfault.readers.husks import Husk
from firstfault.readers.unpickle import UnreadablePickleError
from firstfault.readers.unpickle_torch import TensorStub, load_inert

if TYPE_CHECKING:
    from firstfault.checkpoint.folder import Folder
    from firstfault.model.checkpoint import ProblemKind

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
        fix = "The save did not end: use an earlier checkpoint."
        content.problems.append(Problem("missing_metadata", "damage", stem + METADATA, what, fix))
        content.unopened |= set(shards)
        return content
    index = _index(folder, stem + METADATA, content)
    if index is None:
        content.unopened |= {stem + METADATA, *shards}
        return content
    content.files.update(dict.fromkeys(shards, "weights"))
    _Shards(folder, stem, index, content).read(shards)
    return content


def _unfinished(files: list[str], stem: str, shards: list[str], content: Content) -> None:
    for file in files:
        base = file.removeprefix(stem)
        if base in {".metadata.tmp", ".metadata_tmp"} or (
            base.endswith(".tmp") and base.startswith((".metadata", "__"))
        ):
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
        unpickled = load_inert(raw)
    except OSError as error:
        content.problems.append(Problem("unreadable", "damage", name, f"cannot be read: {error.strerror}"))
        return None
    except UnreadablePickleError as error:
        cut = "cut off" in str(error)
        what = "is cut off" if cut else f"cannot be read: {error}"
        content.problems.append(Problem("truncated" if cut else "unreadable", "damage", name, what))
        return None
    content.problems += runs_code(name, unpickled.called)
    whole = unpickled.value
    states = whole.field("state_dict_metadata") if isinstance(whole, Husk) else None
    if not isinstance(whole, Husk) or not isinstance(states, dict):
        content.problems.append(Problem("unreadable", "damage", name, "is no metadata of torch.distributed.checkpoint"))
        return None
    index = _Index()
    for key, held in states.items():
        if not isinstance(held, Husk):
            continue
        shape, properties = _dims(held.field("size")), held.field("properties")
        if shape is None:
            index.values.append(str(key))
            continue
        state = properties.state if isinstance(properties, Husk) else None
        dtype = (
            state[0]
            if isinstance(state, tuple) and state
            else properties.field("dtype")
            if isinstance(properties, Husk)
            else ""
        )
        index.tensors[str(key)] = (str(dtype), shape, _boxes(held.field("chunks")))
    planned = whole.field("planner_data")
    if isinstance(planned, dict):
        index.paths = {str(k): tuple(map(str, v)) for k, v in planned.items() if isinstance(v, (tuple, list))}
    stored = whole.field("storage_data")
    for where, info in stored.items() if isinstance(stored, dict) else ():
        if isinstance(where, Husk) and isinstance(info, Husk):
            at = where.field("offset")
            place = (str(info.field("relative_path")), info.field("offset"), info.field("length"))
            if _dims(place[1:]) is not None:
                index.places[str(where.field("fqn")), _dims(at)] = place
    return index


def _dims(value: object) -> tuple[int, ...] | None:
    """A tuple of numbers from 0; None where it is none."""
    if not isinstance(value, tuple) or not all(isinstance(n, int) and n >= 0 for n in value):
        return None
    return value


def _boxes(chunks: object) -> list[Box]:
    found = []
    for chunk in chunks if isinstance(chunks, list) else []:
        at, sizes = (chunk.field("offsets"), chunk.field("sizes")) if isinstance(chunk, Husk) else (None, None)
        where, extent = _dims(at), _dims(sizes)
        if where is not None and extent is not None:
            found.append((where, extent))
    return found


class _Shards:
    """Reads what the metadata places in shards."""

    def __init__(self, folder: Folder, stem: str, index: _Index, content: Content) -> None:
        self._folder = folder
        self._stem = stem
        self._index = index
        self._content = content
        self._usable: set[str] = set()

    def read(self, shards: list[str]) -> None:
        """All tensors and values.

        Args:
            shards: the files that are there.
        """
        self._files(shards)
        for name, (dtype, shape, boxes) in self._index.tensors.items():
            self._tensor(name, dtype, shape, boxes)
        for name in self._index.values:
            self._value(name)

    def _tell(self, kind: ProblemKind, file: str, what: str) -> None:
        self._content.problems.append(Problem(kind, "damage", file, what))

    def _files(self, shards: list[str]) -> None:
        """Checks files against the metadata, and notes those that have bytes."""
        need: dict[str, int] = {}
        held: dict[str, int] = {}
        for base, offset, length in self._index.places.values():
            file = self._stem + base
            need[file] = max(need.get(file, 0), offset + length)
            held[file] = held.get(file, 0) + 1
        for file, end in need.items():
            size = self._folder.sizes.get(file)
            if size is None:
                self._tell(
                    "missing_shard", file, f"is missing: the metadata places {held[file]} tensors and values in it"
                )
            elif size == 0:
                self._tell("empty_file", file, "is empty")
            elif size < end:
                self._tell(
                    "truncated",
                    file,
                    f"is cut off: it has {size:,} bytes, and the metadata places content up to {end:,}",
                )
            elif size > end:
                self._tell(
                    "wrong_size", file, f"has {size:,} bytes, and the metadata knows {end:,}: it is of another save"
                )
        for file in shards:
            if file not in need and self._folder.sizes[file] > 0:
                what = "is not known to the metadata: it was left by another save, perhaps of more ranks"
                self._content.problems.append(Problem("extra_shard", "warning", file, what))
        ranks = {int(m[1]) for file in need if (m := SHARD.search(file)) is not None}
        if ranks:
            self._content.stated["world_size_at_least"] = max(ranks) + 1
        self._usable = {file for file in need if self._folder.sizes.get(file, 0) > 0}

    def _keys(self, name: str) -> tuple[str, ...]:
        return self._index.paths.get(name) or tuple(name.split("."))

    def _stretch(self, place: tuple[str, int, int]) -> tuple[str, int, int] | None:
        """File, first byte and bytes of a place; None where the file does not reach so far, which is told already."""
        file, offset, length = self._stem + place[0], place[1], place[2]
        if file not in self._usable or offset + length > self._folder.sizes[file]:
            return None
        return file, offset, length

    def _tensor(self, name: str, dtype: str, shape: tuple[int, ...], boxes: list[Box]) -> None:
        part, below = part_of(self._keys(name), tensor=True)
        held = Held(part, ".".join(below), dtype, shape)
        self._content.tensors[part, held.name] = held
        metadata = self._stem + METADATA
        if sum(product(sizes) for _, sizes in boxes) != product(shape):
            self._tell("uncovered", metadata, f"the pieces of {name[:200]} do not add up to its shape {list(shape)}")
        for at, sizes in boxes:
            place = self._index.places.get((name, at))
            if place is None:
                self._tell("uncovered", metadata, f"says nothing of where the piece of {name[:200]} at {list(at)} lies")
                continue
            stretch = self._stretch(place)
            piece = None if stretch is None else self._piece(stretch, name, dtype, sizes)
            if piece is not None:
                held.pieces.append(Piece(piece.record, piece.start, piece.shape, piece.stride, at))

    def _piece(self, stretch: tuple[str, int, int], name: str, dtype: str, sizes: tuple[int, ...]) -> Piece | None:
        file, offset, length = stretch
        problems: list[Problem] = []
        made: Piece | Problem | None = None
        kind = ""
        if self._folder.read(file, offset + 8, 1) == b"{":
            inner = read_safetensors(self._folder, file, start=offset, length=length)
            problems += inner.problems
            for held in inner.tensors.values():
                made, kind = held.pieces[0], held.dtype
        else:
            loaded = load_torch(self._folder, file, offset, length)
            problems += loaded.problems
            for _, stub in tensors_in(loaded.value)[:1] if loaded.opened else ():
                made, kind = piece_of(stub, loaded, file), stub.dtype
        if isinstance(made, Problem):
            problems.append(made)
        if not isinstance(made, Piece):
            what = f"{name[:200]}, in its bytes from {offset:,} on: "
            first = problems[0] if problems else Problem("missing_tensor", "damage", file, "there is no tensor")
            self._tell(first.kind, file, what + first.what)
            return None
        if (made.shape, kind) != (sizes, dtype):
            what = f"{name[:200]} is {kind} {list(made.shape)} there, and {dtype} {list(sizes)} by the metadata"
            self._tell("wrong_size", file, what)
            return None
        return made

    def _value(self, name: str) -> None:
        place = self._index.places.get((name, None)) or self._index.places.get((name, ()))
        path = self._keys(name)
        part, below = part_of(path, tensor=False)
        if place is None:
            self._tell("uncovered", self._stem + METADATA, f"says nothing of where {name[:200]} lies")
            return
        stretch = self._stretch(place)
        if stretch is None:
            return
        content = self._content
        loaded = load_torch(self._folder, *stretch)
        content.problems += [Problem(p.kind, p.weight, p.file, f"{name[:200]}: {p.what}") for p in loaded.problems]
        content.records += loaded.others
        if not loaded.opened:
            return
        if part == "trainer" and path[-1] in STEPS and type(loaded.value) is int:
            content.steps[self._stem + METADATA] = loaded.value
        for inside, leaf in walk(loaded.value):
            key = (part, ".".join((*below, *inside)))
            if isinstance(leaf, TensorStub):
                hold(content, key, leaf, piece_of(leaf, loaded, stretch[0]))
            elif inside or not isinstance(leaf, dict):
                content.values[key] = canonical(leaf, whole=key[1].endswith(".params"))
