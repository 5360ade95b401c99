"""A folder of records: finds, reads, creates and changes files. Must not judge what they say.

Writers do not collide: a new file is created only where none is, and a change replaces the file in one step, after a look
whether somebody else changed it meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING, NamedTuple

from firstfault.incidents.errors import IncidentError
from firstfault.incidents.record import LARGEST, Record, parse, read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_SUFFIX = ".md"
_NO_RECORDS = frozenset({"readme.md", "index.md", "contributing.md", "changelog.md", "all.md"})
_YEAR = re.compile(r"[0-9]{4}")
DEPTH = 3
"""Folders below the top one that are looked into."""


class Stamp(NamedTuple):
    """By what a change of a file shows."""

    modified: int
    """Nanoseconds."""
    size: int
    inode: int


class Store:
    """Records below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def where(self) -> str:
        """The folder, for messages."""
        return str(self.folder)

    def exists(self) -> bool:
        """Whether the folder is there."""
        return self.folder.is_dir()

    def close(self) -> None:
        """Nothing is held open."""

    def files(self) -> Iterator[tuple[str, Stamp]]:
        """Every file that may hold a record, by its path below the folder, with its stamp; links are not followed.

        Raises:
            OSError: the folder cannot be read.
        """
        yield from self._walk(self.folder, "", DEPTH)

    def _walk(self, folder: Path, prefix: str, depth: int) -> Iterator[tuple[str, Stamp]]:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda e: e.name)
        for entry in found:
            if entry.name.startswith("."):
                continue
            if entry.name.endswith(_SUFFIX) and entry.name.lower() not in _NO_RECORDS:
                if entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    yield prefix + entry.name, Stamp(status.st_mtime_ns, status.st_size, status.st_ino)
            elif depth and entry.is_dir(follow_symlinks=False):
                yield from self._walk(folder / entry.name, f"{prefix}{entry.name}/", depth - 1)

    def folders(self) -> Iterator[tuple[str, int]]:
        """The folder and those below it, each with its time of change in nanoseconds; that of one moves when files come or go.

        Raises:
            OSError: a folder cannot be read.
        """
        yield "", self.folder.stat().st_mtime_ns
        todo = [("", DEPTH)]
        while todo:
            prefix, depth = todo.pop()
            with os.scandir(self.folder / prefix) as entries:
                for entry in entries:
                    if entry.name.endswith(_SUFFIX) or entry.name.startswith(".") or not depth:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        name = f"{prefix}{entry.name}/"
                        yield name, entry.stat(follow_symlinks=False).st_mtime_ns
                        todo.append((name, depth - 1))

    def same_folders(self, known: list[tuple[str, int]]) -> bool:
        """Whether no file came or went since `folders` gave what is known."""
        try:
            return bool(known) and all((self.folder / name).stat().st_mtime_ns == time for name, time in known)
        except OSError:
            return False

    def read(self, name: str) -> Record:
        """The record of one file.

        Raises:
            IncidentError: it is none.
            OSError: it cannot be read.
        """
        path = self.folder / name
        with path.open("rb") as file:
            raw = file.read(LARGEST + 1)
        return parse(read_text(raw, str(path)), path)

    def records(self) -> tuple[list[Record], list[IncidentError]]:
        """Every record by its path, and what is wrong with the files that hold none."""
        found: list[Record] = []
        wrong: list[IncidentError] = []
        for name, _ in self.files():
            try:
                found.append(self.read(name))
            except IncidentError as error:
                wrong.append(error)
            except OSError as error:
                wrong.append(
                    IncidentError(
                        f"it cannot be read: {error.strerror}",
                        where=str(self.folder / name),
                        fix="Look at its rights, or take it out of the folder.",
                    )
                )
        return found, wrong

    def create(self, record_id: str, text: str, year: str = "") -> Path:
        """Writes a new file and never over another; its path.

        Args:
            record_id: its name.
            text: the whole file.
            year: folder below the top one, such as 2026; the top one where it is no year, as the head of a copied record may have it.

        Raises:
            IncidentError: there is a file of that name, or the text is too large for a record.
            OSError: it cannot be written.
        """
        folder = self.folder / year if _YEAR.fullmatch(year) else self.folder
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{record_id}{_SUFFIX}"
        data = text.encode("utf-8")
        read_text(data, str(path))
        # Written beside it and linked: nobody ever reads half a record, and an existing one is never replaced.
        temporary = folder / f".{record_id}.{os.urandom(6).hex()}.new"
        try:
            temporary.write_bytes(data)
            _put(temporary, path, data)
        except FileExistsError:
            raise IncidentError("there is a record of that name", where=str(path), fix="Run it again.") from None
        finally:
            temporary.unlink(missing_ok=True)
        return path

    @staticmethod
    def change(record: Record, edit: Callable[[str], str]) -> Record:
        """Edits the file of a record; bytes that the edit leaves alone stay.

        Raises:
            IncidentError: the file is not what was read any more, or would not be a record or be too large for one.
            OSError: it cannot be written.
        """
        if record.path is None:
            raise IncidentError("it ships with firstfault", where=record.id, fix="Copy it into your own folder first.")
        new = edit(record.text)
        changed = parse(new, record.path)
        if new == record.text:
            return record
        data = new.encode("utf-8")
        read_text(data, str(record.path))
        with _one_at_a_time(record.path.parent):
            if record.path.read_bytes() != record.text.encode("utf-8"):
                raise IncidentError("somebody changed it meanwhile", where=str(record.path), fix="Run it again.")
            temporary = record.path.with_name(f".{record.path.name}.{os.urandom(6).hex()}.new")
            try:
                temporary.write_bytes(data)
                temporary.chmod(record.path.stat().st_mode & 0o777)
                temporary.replace(record.path)
            finally:
                temporary.unlink(missing_ok=True)
        return changed


@contextlib.contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Keeps other changes of this folder away between the look at a file and its replacement, where its file system can."""
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _put(temporary: Path, path: Path, data: bytes) -> None:
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:
        # A file system without hard links: whoever reads now may see half a record, but none stays.
        with path.open("xb") as file:
            try:
                file.write(data)
                file.flush()
            except OSError:
                path.unlink()
                raise
