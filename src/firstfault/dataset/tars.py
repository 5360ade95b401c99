"""Reads the headers of shards of WebDataset: samples by their keys, what a sample lacks, what is cut off or damaged.

Nothing is unpacked, and a header that lies costs nothing: only fixed blocks are read, and the content's begin where it is asked for.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import zlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from firstfault.dataset.content import fault_of
from firstfault.dataset.nouns import Kind, Notes, Seen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BLOCK = 512
MOST_NAME = 1 << 16
"""Bytes of a long name that are read."""
MOST_TYPES = 64
_KEY = re.compile(r"^((?:.*/|)[^./][^.]*)\.([^/]+)$")

MISSING = Kind("shard.missing", "fail", "shards are not there", "The job ends, or waits, where its turn comes.", "Copy them, or give the range that exists.")  # fmt: skip
UNREADABLE = Kind("shard.unreadable", "fail", "shards cannot be read", "The job ends where its turn comes.", "Check their permissions and the file system.")  # fmt: skip
TRUNCATED = Kind("shard.truncated", "fail", "shards are cut off", "Reading ends with `unexpected end of data`, or the last sample is silently short.", "Write or copy them again; compare their sizes.")  # fmt: skip
DAMAGED = Kind("shard.damaged", "fail", "shards hold a header that does not fit its checksum", "tar readers stop there, and samples behind it are lost without an error.", "Write or copy them again.")  # fmt: skip
NO_END = Kind("shard.no_end", "warn", "shards have no end mark", "Whoever wrote them was stopped, or concatenated files: samples may be missing.", "Compare the number of samples with what was to be written.")  # fmt: skip
EMPTY = Kind("shard.empty", "fail", "shards hold no sample", "A worker whose only shard is empty gives nothing, and its rank ends early.", "Leave them out.")  # fmt: skip
TWICE = Kind("sample.file_twice", "fail", "samples hold a file of one name twice", "WebDataset raises `duplicate file name in tar file`.", "Give each sample a key of its own.")  # fmt: skip
SPLIT = Kind("sample.split", "fail", "samples do not stand together in their shard", "Files of one key that others part come as two half samples.", "Sort the files by name before the shard is written.")  # fmt: skip
HALF = Kind("sample.incomplete", "warn", "samples lack a file that nearly all have", "Code that takes it raises KeyError, or the sample is dropped.", "Repair or leave out what is named.")  # fmt: skip
SAME_KEY = Kind("sample.same_key", "warn", "samples have the key of an earlier one", "They may be the same sample, which then counts twice.", "Name samples by shard and number.")  # fmt: skip
NOTHING = Kind(
    "sample.empty_file",
    "warn",
    "files in samples hold no byte",
    "The decoder raises on them.",
    "Repair or leave them out.",
)
BAD = Kind("sample.damaged", "fail", "files in samples are not what their name says, or cut off", "The decoder raises on them.", "Repair or leave them out.")  # fmt: skip


class Entry(NamedTuple):
    """A file in a shard."""

    name: str
    size: int
    start: int
    """Byte at which its content begins."""


class Shard(NamedTuple):
    """What a shard holds."""

    samples: int | None
    bytes: int | None
    types: dict[str, int]
    """Ending -> samples that have it."""


class _Cut(Exception):  # noqa: N818 - no error of a caller
    """The shard ends inside something, or a header is damaged."""

    def __init__(self, kind: Kind, detail: str) -> None:
        super().__init__(detail)
        self.kind, self.detail = kind, detail


def read_shard(path: str, notes: Notes, seen: Seen, *, contents: bool, late: Callable[[], bool]) -> Shard:
    """Reads one shard.

    Args:
        path: a tar file, maybe with gzip.
        notes: where problems go.
        seen: keys of all shards.
        contents: whether the first bytes of known kinds of file are looked at.
        late: whether the time is over.
    """
    try:
        size = Path(path).stat().st_size
        file = Path(path).open("rb")  # noqa: SIM115 - closed below
    except FileNotFoundError:
        notes.note(MISSING, path, path)
        return Shard(None, None, {})
    except OSError as error:
        notes.note(UNREADABLE, path, path, detail=error.strerror or "")
        return Shard(None, None, {})
    with file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        stream: BinaryIO = gzip.GzipFile(fileobj=file) if packed else file  # type: ignore[assignment]
        reader = _Samples(path, notes, seen)
        whole = True
        try:
            for entry in entries(stream, None if packed else size):
                looks = contents and not packed
                fault = fault_of(entry.name, entry.size, partial(_begin, stream, entry)) if looks else ""
                reader.take(entry, fault)
                if late():
                    whole = False
                    notes.skip("Not all shards were looked through: the time was over.")
                    break
        except _Cut as cut:
            whole = whole and cut.kind is NO_END
            notes.note(cut.kind, path, path, detail=cut.detail)
        except (EOFError, zlib.error, OSError) as error:
            notes.note(TRUNCATED, path, path, detail=str(error)[:200])
        reader.end()
    if whole and not reader.samples:
        notes.note(EMPTY, path, path)
    return Shard(reader.samples if whole else None, size, reader.types)


def _begin(stream: BinaryIO, entry: Entry, most: int) -> tuple[bytes, bytes]:
    """The first and last bytes of a file in a shard; the stream stays where it was."""
    at = stream.tell()
    try:
        stream.seek(entry.start)
        head = stream.read(min(most, entry.size))
        stream.seek(entry.start + max(0, entry.size - most))
        return head, stream.read(min(most, entry.size))
    finally:
        stream.seek(at)


def entries(stream: BinaryIO, size: int | None) -> Iterator[Entry]:
    """The files of a tar.

    Args:
        stream: at its begin.
        size: bytes of it; None where that is not known, as of a packed one.

    Raises:
        _Cut: it ends inside something, or a header is damaged.
    """
    at, name, last = 0, "", ""
    while True:
        block = stream.read(BLOCK)
        if size is not None and at > size:
            raise _Cut(TRUNCATED, f"it ends at byte {size}, inside the padding of {last}")
        if not block:
            raise _Cut(NO_END, f"after {at} bytes")
        if len(block) < BLOCK:
            raise _Cut(TRUNCATED, f"it ends inside a header at byte {at}")
        if not any(block):
            return
        if not _fits(block):
            raise _Cut(DAMAGED, f"at byte {at}")
        length, kind = _number(block[124:136]), block[156:157]
        if length < 0:
            raise _Cut(DAMAGED, f"at byte {at}")
        start = at + BLOCK
        end = start + -(-length // BLOCK) * BLOCK
        if size is not None and start + length > size:
            raise _Cut(
                TRUNCATED, f"{_name(block) or name} is to have {length} bytes, and {max(0, size - start)} are there"
            )
        if kind in {b"L", b"x", b"g", b"K"}:
            told = stream.read(min(length, MOST_NAME))
            name = {b"L": _text(told), b"x": _pax(told)}.get(kind, name) or name
            _skip(stream, end - start - len(told), seek=size is not None)
        else:
            if kind in {b"0", b"\0", b"7"}:
                last = name or _name(block)
                yield Entry(last, length, start)
            name = ""
            if size is not None:
                stream.seek(end)
            else:
                _skip(stream, end - start, seek=False)
        at = end


def _skip(stream: BinaryIO, count: int, *, seek: bool) -> None:
    if seek:
        stream.seek(count, os.SEEK_CUR)
        return
    while count > 0:
        got = len(stream.read(min(count, 1 << 20)))
        if not got:
            raise _Cut(TRUNCATED, "it ends inside a file")
        count -= got


def _fits(block: bytes) -> bool:
    """Whether a header has the checksum that it states."""
    try:
        stated = int(block[148:156].strip(b"\0 ") or b"0", 8)
    except ValueError:
        return False
    return stated == sum(block[:148]) + 256 + sum(block[156:])


def _number(field: bytes) -> int:
    if field[0] & 0x80:
        return int.from_bytes(field[1:], "big") if field[0] == 0x80 else -1
    with contextlib.suppress(ValueError):
        return int(field.strip(b"\0 ") or b"0", 8)
    return -1


def _text(raw: bytes) -> str:
    return raw.split(b"\0")[0].decode("utf-8", "replace")


def _name(block: bytes) -> str:
    front = _text(block[345:500]) if block[257:262] == b"ustar" and block[257:265] != b"ustar  \0" else ""
    return f"{front}/{_text(block[:100])}" if front else _text(block[:100])


def _pax(raw: bytes) -> str:
    found = re.search(rb"(?:^|\n)\d+ path=([^\n]*)\n", raw)
    return "" if found is None else found[1].decode("utf-8", "replace")


class _Samples:
    """Puts the files of a shard together to samples, as WebDataset does: neighbours of one key."""

    def __init__(self, path: str, notes: Notes, seen: Seen) -> None:
        self.path, self.notes, self.all = path, notes, seen
        self.own = Seen()
        self.samples = 0
        self.types: dict[str, int] = {}
        self.key = ""
        self.held: set[str] = set()
        self.sets: dict[frozenset[str], tuple[int, str]] = {}

    def take(self, entry: Entry, fault: str) -> None:
        """Takes the next file."""
        found = _KEY.match(entry.name)
        base = entry.name.rpartition("/")[2]
        if found is None or (base.startswith("__") and base.endswith("__")):
            return
        key, ending = found[1], found[2].lower()
        if key != self.key:
            self.end()
            self.key = key
            if self.own.again(key):
                self.notes.note(SPLIT, self.path, key)
            elif self.all.again(key):
                self.notes.note(SAME_KEY, self.path, key)
        elif ending in self.held:
            self.notes.note(TWICE, self.path, entry.name)
        self.held.add(ending)
        if entry.size == 0:
            self.notes.note(NOTHING, self.path, entry.name)
        elif fault:
            self.notes.note(BAD, self.path, entry.name, detail=fault)

    def end(self) -> None:
        """Ends a sample."""
        if self.held:
            self.samples += 1
            for one in self.held:
                if one in self.types or len(self.types) < MOST_TYPES:
                    self.types[one] = self.types.get(one, 0) + 1
            mark = frozenset(self.held)
            count, first = self.sets.get(mark, (0, self.key))
            if mark in self.sets or len(self.sets) < MOST_TYPES:
                self.sets[mark] = count + 1, first
        self.key, self.held = "", set()


def incomplete(shards: list[tuple[str, Shard]], notes: Notes) -> None:
    """Notes samples that lack an ending which nine of ten have."""
    total = sum(s.samples or 0 for _, s in shards)
    counts: dict[str, int] = {}
    for _, shard in shards:
        for ending, count in shard.types.items():
            counts[ending] = counts.get(ending, 0) + count
    for ending, count in counts.items():
        lacking = total - count
        if 0 < lacking <= total // 10:
            for path, shard in shards:
                short = (shard.samples or 0) - shard.types.get(ending, 0)
                for _ in range(short):
                    notes.note(HALF, path, path, detail=f".{ending}")
