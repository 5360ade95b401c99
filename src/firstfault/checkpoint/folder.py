"""The files of a checkpoint: listed once, read by stretches.

Follows links, as caches of model hubs are made of them; opens for reading only. Knows nothing of formats.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MOST_FILES = 200_000
DEEPEST = 5
"""Folders within folders that are looked into."""
_NUMBER = re.compile(r"\d+")


class Folder:
    """A folder, or one file, with the sizes of what lies in it."""

    def __init__(self, root: Path) -> None:
        self.root = root if root.is_dir() else root.parent
        self.sizes: dict[str, int] = {}
        """Path below the root, with `/` -> bytes, in natural order: 2 before 10."""
        self.folders: list[str] = []
        self.left_out: list[str] = []
        """What could not be listed, with the reason."""
        if root.is_dir():
            self._list("", 0)
        else:
            self.sizes[root.name] = root.stat().st_size
        self.sizes = {name: self.sizes[name] for name in sorted(self.sizes, key=natural)}
        self.folders.sort(key=natural)
        self._under: dict[str, list[str]] = {}
        for name in self.sizes:
            self._under.setdefault(name.rpartition("/")[0], []).append(name)

    def _list(self, below: str, depth: int) -> None:
        try:
            entries = sorted(os.scandir(self.root / below), key=lambda e: e.name)
        except OSError as error:
            self.left_out.append(f"{below or '.'}: {error.strerror}")
            return
        for entry in entries:
            name = f"{below}/{entry.name}" if below else entry.name
            try:
                if entry.is_dir():
                    self.folders.append(name)
                    if depth < DEEPEST:
                        self._list(name, depth + 1)
                    else:
                        self.left_out.append(f"{name}: more than {DEEPEST} folders deep")
                elif entry.is_file():
                    self.sizes[name] = entry.stat().st_size
                else:
                    self.left_out.append(f"{name}: a link that leads nowhere, or no file")
            except OSError as error:
                self.left_out.append(f"{name}: {error.strerror}")
            if len(self.sizes) > MOST_FILES:
                self.left_out.append(f"more than {MOST_FILES:,} files")
                return

    def under(self, below: str) -> list[str]:
        """Files that lie directly in a folder, `` being the root."""
        return list(self._under.get(below, ()))

    def path(self, name: str) -> Path:
        """Where a file lies."""
        return self.root / name

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Bytes of a file; fewer where it ends.

        Raises:
            OSError: it cannot be read.
        """
        with self.path(name).open("rb") as file:
            file.seek(offset)
            return file.read(self.sizes[name] - offset if length is None else length)


def natural(name: str) -> list[tuple[int, int, str]]:
    """Key of an order in which 2 comes before 10."""
    parts: list[tuple[int, int, str]] = []
    at = 0
    for match in _NUMBER.finditer(name):
        if match.start() > at:
            parts.append((1, 0, name[at : match.start()]))
        parts.append((0, int(match[0][:18]), match[0]))
        at = match.end()
    if at < len(name):
        parts.append((1, 0, name[at:]))
    return parts
