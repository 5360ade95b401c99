"""Files of `torch.save` of before 0.1.11 (2017): a tar of `storages`, `tensors`, `pickle` and `sys_info`.

Layout by `legacy_load` of torch/serialization.py, which still reads them. Nothing is unpacked: members are stretches of the file.
"""

from __future__ import annotations

import io
import struct
import tarfile
from typing import IO, TYPE_CHECKING

from firstfault.checkpoint.dtypes import SIZES
from firstfault.checkpoint.nouns import Problem, Record
from firstfault.readers.unpickle import UnreadablePickleError
from firstfault.readers.unpickle_torch import DType, Storage, TensorStub, load_next

if TYPE_CHECKING:
    from firstfault.checkpoint.torch_file import Loaded

MARK = b"ustar"
MARK_AT = 257
_MEMBERS = ("storages", "tensors", "pickle")
_NUMBER = struct.Struct("<q")
MOST = 10_000_000
"""Storages, tensors or dimensions; more are damage."""


def is_tar(head: bytes) -> bool:
    """Whether a file's first 512 bytes are those of a tar."""
    return head[MARK_AT : MARK_AT + 5] == MARK


def read_tar(file: IO[bytes], name: str, loaded: Loaded) -> None:
    """Reads the value, with tensors as places of bytes.

    Args:
        file: open at its begin.
        name: path of the file below the folder of the checkpoint.
        loaded: gets what the file holds and what is wrong with it.
    """
    file.seek(0)
    try:
        with tarfile.open(fileobj=file, mode="r:") as tar:
            members = {m.name.removeprefix("./"): (m.offset_data, m.size) for m in tar.getmembers() if m.isfile()}
    except (tarfile.TarError, ValueError, OSError) as error:
        loaded.problems.append(Problem("truncated", "damage", name, f"is cut off, or no tar: {str(error)[:100]}"))
        return
    lacking = [m for m in _MEMBERS if m not in members]
    if lacking:
        what = f"is a tar without {', '.join(lacking)}: it is cut off, or no file of torch.save"
        loaded.problems.append(Problem("truncated" if len(lacking) < 3 else "unreadable", "damage", name, what))
        return
    size = file.seek(0, io.SEEK_END)
    if any(at + length > size for at, length in members.values()):
        loaded.problems.append(Problem("truncated", "damage", name, f"is cut off after {size:,} bytes"))
        return
    try:
        storages = _storages(_Member(file, *members["storages"]), members["storages"][0], name, loaded)
        tensors = _tensors(_Member(file, *members["tensors"]), storages)
        unpickled = load_next(_Member(file, *members["pickle"]).stream, outside=tensors)
    except (UnreadablePickleError, struct.error, ValueError, KeyError, TypeError) as error:
        cut = "cut off" in str(error)
        what = "is cut off" if cut else f"cannot be read: {str(error)[:100]}"
        loaded.problems.append(Problem("truncated" if cut else "unreadable", "damage", name, what))
        return
    loaded.take(name, unpickled)


class _Member:
    """One member as a file of its own."""

    def __init__(self, file: IO[bytes], start: int, length: int) -> None:
        from firstfault.checkpoint.torch_file import Window

        self.length = length
        self.stream = io.BufferedReader(Window(file, start, length))

    def number(self) -> int:
        value = load_next(self.stream).value
        if type(value) is not int or not 0 <= value <= MOST:
            raise ValueError("a count that cannot be")
        return value

    def triple(self) -> tuple[object, object, object]:
        value = load_next(self.stream).value
        if not isinstance(value, tuple) or len(value) != 3:
            raise ValueError("an entry that cannot be")
        return value[0], value[1], value[2]

    def longs(self, count: int) -> tuple[int, ...]:
        raw = self.stream.read(8 * count)
        if len(raw) < 8 * count:
            raise ValueError("it is cut off")
        return struct.unpack(f"<{count}q", raw)


def _storages(member: _Member, begin: int, name: str, loaded: Loaded) -> dict[str, Storage]:
    """Key -> storage; also those that are a part of another."""
    found: dict[str, Storage] = {}
    for _ in range(member.number()):
        key, _, kind = member.triple()
        dtype = str(kind) if isinstance(kind, DType) else "uint8"
        (numel,) = member.longs(1)
        at, length = member.stream.tell(), numel * SIZES.get(dtype, 1)
        if numel < 0 or at + length > member.length:
            raise ValueError("it is cut off")
        found[str(key)] = Storage(dtype, str(key), numel)
        loaded.records[str(key)] = Record(name, begin + at, length)
        member.stream.seek(at + length)
    views = load_next(member.stream).value
    for view in views if isinstance(views, list) else []:
        if not isinstance(view, tuple) or len(view) != 4:
            raise ValueError("a view that cannot be")
        target, root, offset, numel = view
        base = found[str(root)]
        found[str(target)] = Storage(base.dtype, base.key, base.numel, (int(offset), int(numel)))
    return found


def _tensors(member: _Member, storages: dict[str, Storage]) -> dict[str, object]:
    """Key -> tensor."""
    found: dict[str, object] = {}
    for _ in range(member.number()):
        key, storage, _ = member.triple()
        head = member.stream.read(8)
        # The number of dimensions has four bytes; the four behind them mean nothing.
        (dims,) = struct.unpack("<i", head[:4])
        if not 0 <= dims <= 64:
            raise ValueError("a number of dimensions that cannot be")
        shape, stride = member.longs(dims), member.longs(dims)
        (offset,) = member.longs(1)
        base = storages.get(str(storage))
        found[str(key)] = TensorStub(base, offset, shape, stride, base.dtype if base is not None else "float32")
    for key, base in storages.items():
        found.setdefault(key, base)
    return found
