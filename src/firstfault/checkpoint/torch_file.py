"""Files of `torch.save`: the zip of today, the row of pickles of before 1.6, the tar of before 2017; also a stretch of a file that is one.

Gives the value with tensors as places of bytes, and what is wrong with the container. It does not read the bytes of
tensors and does not know which trainer wrote the file.
"""

from __future__ import annotations

import io
import mmap
import struct
import zipfile
from typing import IO, TYPE_CHECKING

from msgspec import Struct, field

from firstfault.checkpoint.dtypes import SIZES
from firstfault.checkpoint.nouns import Piece, Problem, Record, placeholder, product, runs_code
from firstfault.checkpoint.torch_tar import is_tar, read_tar
from firstfault.readers.unpickle import MOST_BYTES, UnreadablePickleError
from firstfault.readers.unpickle_torch import Storage, TensorStub, load_inert, load_next

if TYPE_CHECKING:
    from firstfault.checkpoint.folder import Folder
    from firstfault.readers.unpickle_torch import Unpickled

ZIP = b"PK\x03\x04"
MAGIC = 0x1950A86A20F9469CFC6C
"""First value of a file of before 1.6."""
_END = b"PK\x05\x06"
_TAIL = 70_000
"""Bytes at the end within which a zip has its directory's place."""
_HEAD = struct.Struct("<26xHH")


class Loaded(Struct):
    """What a file of `torch.save` holds."""

    value: object = None
    records: dict[str, Record] = field(default_factory=dict)
    """Storage's key -> its bytes."""
    others: list[Record] = field(default_factory=list)
    """Stretches with checksums beside storages."""
    problems: list[Problem] = field(default_factory=list)
    opened: bool = False
    """Whether the value could be had."""

    def take(self, name: str, unpickled: Unpickled) -> None:
        """Takes in the value of the file's pickle, and tells what that would run.

        Args:
            name: of the file.
            unpickled: as it was read.
        """
        self.value, self.opened = unpickled.value, True
        self.problems += runs_code(name, unpickled.called)


class Window(io.RawIOBase):
    """A stretch of an open file as a file of its own."""

    def __init__(self, file: IO[bytes], start: int, length: int) -> None:
        super().__init__()
        self._file, self._start, self._length, self._at = file, start, length, 0

    def readable(self) -> bool:
        """It is there to be read."""
        return True

    def seekable(self) -> bool:
        """Any place of it can be gone to."""
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """Goes to a place of the stretch."""
        base = (0, self._at, self._length)[whence]
        if base + offset < 0:
            raise ValueError("before the begin")
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        """The place, in bytes from the begin of the stretch."""
        return self._at

    def readinto(self, buffer: object) -> int:
        """Fills a buffer as far as the stretch goes."""
        view = memoryview(buffer)  # type: ignore[arg-type]
        size = max(0, min(len(view), self._length - self._at))
        self._file.seek(self._start + self._at)
        raw = self._file.read(size)
        view[: len(raw)] = raw
        self._at += len(raw)
        return len(raw)


def load_torch(folder: Folder, name: str, start: int = 0, length: int | None = None) -> Loaded:
    """Reads the file without the bytes of its tensors.

    Args:
        folder: where it lies.
        name: path below the folder.
        start: first byte of the stretch that is a file of `torch.save`.
        length: its bytes; None for all.
    """
    size = folder.sizes[name] - start if length is None else length
    loaded = Loaded()
    try:
        with folder.path(name).open("rb") as file:
            file.seek(start)
            head = file.read(min(size, 512))
            if head[:4] == ZIP:
                _read_zip(file, name, start, size, loaded)
            elif head[:2] in {b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"}:
                _read_pickles(file, name, start, size, loaded)
            elif is_tar(head) and start == 0 and length is None:
                read_tar(file, name, loaded)
            else:
                loaded.problems.append(_strange(name, head))
    except OSError as error:
        loaded.problems.append(Problem("unreadable", "damage", name, f"cannot be read: {error.strerror}"))
    return loaded


def _strange(name: str, head: bytes) -> Problem:
    if head.strip(b"\0") == b"":
        return Problem("zeroed_file", "damage", name, "begins with zeros: its blocks were never written")
    return placeholder(name, head) or Problem(
        "unreadable", "damage", name, "is no file of torch.save: it begins with neither a zip nor a pickle"
    )


def _read_zip(file: IO[bytes], name: str, start: int, size: int, loaded: Loaded) -> None:
    window = Window(file, start, size)
    try:
        archive = zipfile.ZipFile(io.BufferedReader(window))
        entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, struct.error, UnicodeDecodeError) as error:
        loaded.problems.append(_why_no_zip(file, name, start, size, error))
        return
    inner: dict[str, Record] = {}
    for entry in entries:
        place = _place_of(file, start, size, entry)
        if place is None:
            loaded.problems.append(
                Problem("truncated", "damage", name, f"its record {entry.filename} lies beyond the file's end")
            )
            continue
        if entry.compress_type != zipfile.ZIP_STORED:
            if entry.filename.partition("/")[2].startswith("code/"):
                continue  # the program of TorchScript, which holds no tensor
            loaded.problems.append(
                Problem(
                    "unreadable", "warning", name, f"its record {entry.filename} is compressed, as torch never does"
                )
            )
            continue
        # Writers that leave checksums out state 0.
        crc = entry.CRC if entry.CRC != 0 else None
        inner[entry.filename.partition("/")[2]] = Record(name, start + place, entry.file_size, crc)
    loaded.records = {k.removeprefix("data/"): r for k, r in inner.items() if k.startswith("data/")}
    loaded.others = [r for k, r in inner.items() if not k.startswith("data/")]
    pickled = inner.get("data.pkl")
    if pickled is None:
        what = "TorchScript, a program and no checkpoint" if "constants.pkl" in inner else "a zip without data.pkl"
        loaded.problems.append(Problem("unreadable", "warning", name, f"is {what}"))
        return
    if pickled.length > MOST_BYTES:
        loaded.problems.append(
            Problem("unreadable", "warning", name, f"its pickle is larger than {MOST_BYTES >> 20} MiB")
        )
        return
    file.seek(pickled.offset)
    try:
        unpickled = load_inert(file.read(pickled.length))
    except UnreadablePickleError as error:
        loaded.problems.append(Problem("unreadable", "damage", name, f"its pickle cannot be read: {error}"))
        return
    loaded.take(name, unpickled)
    _place_inside(file, name, (pickled.offset, pickled.length), unpickled, loaded)


def _place_inside(file: IO[bytes], name: str, where: tuple[int, int], unpickled: Unpickled, loaded: Loaded) -> None:
    """Finds the bytes of storages that `pickle.dump` wrote into the pickle itself.

    Args:
        file: open.
        name: of the file.
        where: first byte of the pickle and its length.
        unpickled: the pickle as it was read.
        loaded: is given the records.
    """
    if not unpickled.inside:
        return
    lacking = 0
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
        at, end = where[0], sum(where)
        for key, (raw, begin) in unpickled.inside.items():
            found = whole.find(raw, at, end)
            if found < 0:
                lacking += 1
                continue
            at = found + len(raw)
            loaded.records[key] = Record(name, found + begin, max(0, len(raw) - begin))
    if lacking:
        what = f"holds {lacking} tensors as text inside of its pickle, as pickles of protocol 2 do: their values were not read"
        loaded.problems.append(Problem("unreadable", "warning", name, what))
        for _, stub in tensors_in(loaded.value):
            if (
                stub.storage is not None
                and stub.storage.key in unpickled.inside
                and stub.storage.key not in loaded.records
            ):
                stub.storage = None


def _place_of(file: IO[bytes], start: int, size: int, entry: zipfile.ZipInfo) -> int | None:
    """First byte of a record's content; None where the file ends before its last."""
    if not 0 <= entry.header_offset < size:
        return None
    file.seek(start + entry.header_offset)
    head = file.read(30)
    if len(head) < 30 or head[:4] != ZIP:
        return None
    name_length, extra_length = _HEAD.unpack(head)
    place = int(entry.header_offset + 30 + name_length + extra_length)
    return place if place + entry.file_size <= size else None


def _why_no_zip(file: IO[bytes], name: str, start: int, size: int, error: Exception) -> Problem:
    file.seek(start + max(0, size - _TAIL))
    tail = file.read(min(size, _TAIL))
    if tail[-4096:].strip(b"\0") == b"":
        return Problem("zeroed_file", "damage", name, "its last blocks are zeros: they were never written")
    if _END not in tail:
        return Problem(
            "truncated",
            "damage",
            name,
            f"is cut off after {size:,} bytes: a zip ends with a directory, and this has none",
        )
    return Problem("unreadable", "damage", name, f"its zip directory cannot be read: {error}")


def _read_pickles(file: IO[bytes], name: str, start: int, size: int, loaded: Loaded) -> None:
    """The row of pickles: magic, protocol, system, value, keys of storages, then each with its length; or one pickle."""
    stream = io.BufferedReader(Window(file, start, size))
    try:
        first = load_next(stream)
        if first.value != MAGIC:
            loaded.take(name, first)
            _place_inside(file, name, (start, stream.tell()), first, loaded)
            return
        load_next(stream)
        load_next(stream)
        unpickled = load_next(stream)
        loaded.take(name, unpickled)
        keys = load_next(stream).value
    except UnreadablePickleError as error:
        kind, what = (
            ("truncated", "is cut off") if "cut off" in str(error) else ("unreadable", f"cannot be read: {error}")
        )
        loaded.problems.append(Problem(kind, "damage", name, what))  # type: ignore[arg-type]
        return
    kinds = {s.storage.key: s.storage for _, s in tensors_in(loaded.value) if s.storage is not None}
    at = stream.tell()
    for key in keys if isinstance(keys, list) else []:
        stream.seek(at)
        head = stream.read(8)
        storage = kinds.get(str(key))
        numel = int.from_bytes(head, "little")
        length = numel * SIZES.get(storage.dtype if storage else "", 1)
        if len(head) < 8 or at + 8 + length > size:
            loaded.problems.append(Problem("truncated", "damage", name, f"is cut off after {size:,} bytes"))
            return
        loaded.records[str(key)] = Record(name, start + at + 8, length)
        at += 8 + length


def tensors_in(value: object) -> list[tuple[tuple[str, ...], TensorStub]]:
    """Tensors of a value with the keys that lead to each."""
    from firstfault.checkpoint.values import walk

    return [(path, leaf) for path, leaf in walk(value) if isinstance(leaf, TensorStub)]


def piece_of(stub: TensorStub, loaded: Loaded, name: str) -> Piece | Problem | None:
    """Where a tensor's bytes lie, None where it has none, or what is wrong with that."""
    storage = stub.storage
    if storage is None:
        return None
    record = loaded.records.get(storage.key)
    if record is None:
        if any(p.kind == "truncated" for p in loaded.problems):
            return None
        return Problem("missing_tensor", "damage", name, f"its storage {storage.key} is not in the file")
    width = SIZES.get(stub.dtype)
    if width is None:
        return Problem("layout", "warning", name, f"holds elements of a type that is not known: {stub.dtype[:40]}")
    first = _first_byte(storage, stub, width)
    span = (
        0 if product(stub.shape) == 0 else 1 + sum((n - 1) * s for n, s in zip(stub.shape, stub.stride, strict=False))
    )
    bad = len(stub.shape) != len(stub.stride) or min((*stub.shape, *stub.stride, stub.offset), default=0) < 0
    if bad or first + span * width > record.length:
        what = f"a tensor of shape {list(stub.shape)} needs more than the {record.length:,} bytes of its storage"
        return Problem("wrong_size", "damage", name, what)
    return Piece(record, first, stub.shape, stub.stride, (0,) * len(stub.shape))


def _first_byte(storage: Storage, stub: TensorStub, width: int) -> int:
    begin = 0 if storage.view is None else storage.view[0] * SIZES.get(storage.dtype, 1)
    return begin + stub.offset * width
