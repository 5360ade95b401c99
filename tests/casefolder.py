"""Cases as they lie on disk: finding them, their truth, their input paths, and changed copies of their input.

A folder with `expected.json` is a case (input: `logs/`), one with `truth.json` a simulated incident (input: every
folder beside it). Nothing here knows the verdict.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from judge import Expected, Line, read_expected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

HERE = Path(__file__).parent
CASES = HERE / "cases"
GENERATED = HERE / "generated"


@dataclass(frozen=True)
class Case:
    """One incident with its truth; file names of the truth are as a diagnosis of `paths` shows them."""

    name: str
    folder: Path
    expected: Expected
    roots: tuple[str, ...]
    """Names of the folders that a diagnosis may read."""

    def __repr__(self) -> str:
        return f"Case({self.name})"

    @property
    def paths(self) -> list[Path]:
        """What to hand to the diagnosis."""
        return [self.folder / root for root in self.roots]

    def files(self) -> list[Path]:
        """Every input file, sorted."""
        return sorted(file for path in self.paths for file in path.rglob("*") if file.is_file())

    def copy(self, target: Path, change: Callable[[str, bytes], bytes]) -> list[Path]:
        """Write the input below `target`, each file through `change(shown name, content)`; the paths to diagnose."""
        for file in self.files():
            copied = target / file.relative_to(self.folder)
            copied.parent.mkdir(parents=True, exist_ok=True)
            copied.write_bytes(change(self.shown(file), file.read_bytes()))
        return [target / root for root in self.roots]

    def shown(self, file: Path) -> str:
        """The name under which a diagnosis shows `file`: below its root where that is the only one."""
        base = self.paths[0] if len(self.roots) == 1 else self.folder
        return file.relative_to(base).as_posix()


def load(folder: Path) -> Case:
    """The case in `folder`."""
    if (folder / "expected.json").is_file():
        expected = read_expected(json.loads((folder / "expected.json").read_text(encoding="utf-8")))
        return Case(name=folder.name, folder=folder, expected=expected, roots=("logs",))
    expected = read_expected(json.loads((folder / "truth.json").read_text(encoding="utf-8")))
    roots = tuple(sorted(entry.name for entry in folder.iterdir() if entry.is_dir()))
    if len(roots) == 1:
        expected = dataclasses.replace(expected, trigger=tuple(_below(line, roots[0]) for line in expected.trigger))
    return Case(name=folder.name, folder=folder, expected=expected, roots=roots)


def find(folders: Iterable[Path]) -> list[Case]:
    """Every case in or below the given folders, in the given order, by name within each."""
    found = []
    for folder in folders:
        truths = sorted({*folder.rglob("expected.json"), *folder.rglob("truth.json")})
        found += [load(truth.parent) for truth in truths]
    return found


def _below(line: Line, root: str) -> Line:
    """The truth names files from the folder of the incident; a diagnosis of one path names them from that path."""
    return dataclasses.replace(line, file=line.file.removeprefix(root + "/"))
