"""One archive of a recorder's folder, as `diagnose` opens it. Takes regular files of the folder only, never through links.

Names of hosts, users, paths and addresses become pseudonyms, the same in all files, unless they are asked for as they are.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path
from typing import NamedTuple

from firstfault.privacy.identities import Identities
from firstfault.recorder import format as layout

TEXTS = frozenset({".jsonl", ".json", ".txt"})
LARGEST = 1 << 30
"""Bytes of one file that are taken; a larger one is left out and named."""


class Packed(NamedTuple):
    """What was packed."""

    files: int
    bytes: int
    left_out: tuple[str, ...]


def pack(folder: Path, target: Path, *, raw: bool = False) -> Packed:
    """Packs a recorder's folder (or one run of it) into a compressed archive.

    Memory snapshots hold paths that cannot be taken out: they come along only where names may stay.

    Args:
        raw: leave names as they are.
        folder: what `record --dir` was given, or one run in it.
        target: the archive, which must not be there yet.

    Returns:
        How much was packed, and what was left out.

    Raises:
        FileNotFoundError: there is no file of the recorder.
        FileExistsError: the archive is there already.
        OSError: it cannot be written.
    """
    names = sorted(_files(folder))
    if not any(name.name == layout.NODE_FILE or name.suffix == layout.LINES for name in names):
        raise FileNotFoundError(f"{folder} holds nothing of the recorder")
    if target.exists():
        raise FileExistsError(f"{target} is there already")
    people = None if raw else _people(folder, names)
    left_out: list[str] = []
    size = count = 0
    new = target.with_name(f".{target.name}.new")
    try:
        with tarfile.open(new, "x:gz", compresslevel=6) as archive:
            for name in names:
                try:
                    content = _content(name, people)
                except FileNotFoundError:
                    continue  # the job still runs, and files are replaced
                if content is None:
                    left_out.append(str(name))
                    continue
                shown = "/".join(name.relative_to(folder.parent).parts)
                archive.addfile(_entry(_renamed(shown, people), len(content)), io.BytesIO(content))
                size, count = size + len(content), count + 1
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)
    return Packed(count, size, tuple(left_out))


def _people(folder: Path, names: list[Path]) -> Identities:
    """All names of hosts and users that stand in the texts; the folders of the nodes are named by their hosts."""
    people = Identities()
    people.learn_hosts(sorted({n.parent.name for n in names if n.name == layout.NODE_FILE and n.parent != folder}))
    for name in names:
        if name.suffix in TEXTS and name.stat().st_size <= LARGEST:
            people.learn(name.read_text(encoding="utf-8", errors="replace"))
    return people


def _content(name: Path, people: Identities | None) -> bytes | None:
    """What goes into the archive of a file; None where it is left out."""
    if name.stat().st_size > LARGEST:
        return None
    if people is None:
        return name.read_bytes()
    if name.suffix in TEXTS:
        lines = name.read_text(encoding="utf-8", errors="replace").split("\n")
        return "\n".join(_line(line, people) for line in lines).encode("utf-8", "backslashreplace")
    return name.read_bytes() if name.suffix == layout.RECORDER else None


def _line(line: str, people: Identities) -> str:
    """One line with pseudonyms; of a record each text by itself, so that it stays a record."""
    if not line.startswith("{"):
        return people.clean(line)
    try:
        record = json.loads(line)
    except ValueError:
        return people.clean(line)
    return json.dumps(_walk(record, people), ensure_ascii=False, separators=(",", ":"))


def _walk(value: object, people: Identities) -> object:
    if isinstance(value, str):
        return people.clean(value)
    if isinstance(value, list):
        return [_walk(v, people) for v in value]
    return {k: _walk(v, people) for k, v in value.items()} if isinstance(value, dict) else value


def _renamed(shown: str, people: Identities | None) -> str:
    """The name in the archive: the host in a folder's or file's name is its pseudonym."""
    if people is None:
        return shown
    return "/".join(people.clean(part) for part in shown.split("/"))


def _entry(name: str, size: int) -> tarfile.TarInfo:
    """A file of the archive; without the names of users, which tell nothing of the fault."""
    info = tarfile.TarInfo(name)
    info.size = size
    return info


def _files(folder: Path) -> list[Path]:
    found = []
    for base, folders, names in os.walk(folder):
        folders.sort()
        found += [Path(base) / n for n in names if not n.endswith(".new") and not (Path(base) / n).is_symlink()]
    return [f for f in found if f.is_file()]
