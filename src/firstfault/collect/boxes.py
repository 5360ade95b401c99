"""One archive of a recorder's folder and of what a node told, as `diagnose` opens it. Takes regular files of the folder only, never through links.

Names of hosts, users, paths and addresses become pseudonyms, the same in all files, unless they are asked for as they are.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from firstfault.model.evidence import SourceId
from firstfault.privacy.identities import Identities
from firstfault.readers.blackbox import read_box
from firstfault.recorder import format as layout
from firstfault.recorder.identity import short_host

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.collect.node import Found

TEXTS = frozenset({".jsonl", ".json", ".txt"})
LARGEST = 1 << 30
"""Bytes of one file that are taken; a larger one is left out and named."""


class Packed(NamedTuple):
    """What was packed."""

    files: int
    bytes: int
    left_out: tuple[str, ...]
    reasons: tuple[str, ...] = ()
    """Why each of them was."""


LEFT_OUT = "left-out.txt"
"""In the archive: what is not in it, and why."""


def pack(
    folder: Path | None,
    target: Path,
    *,
    raw: bool = False,
    node: Found | None = None,
    key: bytes | None = None,
) -> Packed:
    """Packs a recorder's folder (or one run of it), and what a node told, into a compressed archive.

    Memory snapshots hold paths that cannot be taken out: they come along only where names may stay.

    Args:
        folder: what `record --dir` was given, or one run in it; None for none.
        target: the archive, which must not be there yet.
        raw: leave names as they are.
        node: what this node told.
        key: of the pseudonyms: archives made with the same one call a host by the same name.

    Returns:
        How much was packed, and what was left out.

    Raises:
        FileNotFoundError: there is no file of the recorder.
        FileExistsError: the archive is there already.
        OSError: it cannot be written.
    """
    names = [] if folder is None else sorted(_files(folder))
    if folder is not None and not any(n.name == layout.NODE_FILE or n.suffix == layout.LINES for n in names):
        raise FileNotFoundError(f"{folder} holds nothing of the recorder")
    if target.exists():
        raise FileExistsError(f"{target} is there already")
    people = None if raw else _people(folder, names, node, key)
    left_out: dict[str, str] = {}
    size = count = 0
    # A name of its own: two that collect to one place, as on two nodes, must not take away each other's half archive.
    new = target.with_name(f".{target.name}.{os.urandom(6).hex()}.new")
    try:
        with tarfile.open(new, "x:gz", compresslevel=6) as archive:
            for shown, content in _members(folder, names, node, people, left_out):
                archive.addfile(_entry(_renamed(shown, people), len(content)), io.BytesIO(content))
                size, count = size + len(content), count + 1
            if left_out:
                text = "".join(f"{_renamed(name, people)}: {why}\n" for name, why in left_out.items()).encode()
                archive.addfile(_entry(LEFT_OUT, len(text)), io.BytesIO(text))
        _put(new, target)
    finally:
        new.unlink(missing_ok=True)
    return Packed(count, size, tuple(left_out), tuple(left_out.values()))


def _put(new: Path, target: Path) -> None:
    """Gives a finished archive its name; one that came meanwhile stays."""
    try:
        os.link(new, target)
    except FileExistsError:
        raise FileExistsError(f"{target} is there already") from None
    except OSError:
        new.replace(target)  # a file system without hard links


def begun(folder: Path) -> float | None:
    """When the first of a recorder's files was begun, in seconds since the epoch; None where no line says it."""
    found = []
    for name in _files(folder):
        if name.suffix == layout.LINES:
            with contextlib.suppress(OSError), name.open("rb") as lines:
                first = read_box(lines.readline(1 << 20), SourceId(0), str(name)).records
                found += [r.when.earliest for r in first if r.when.earliest is not None]
    return min(found, default=None)


def _members(
    folder: Path | None, names: list[Path], node: Found | None, people: Identities | None, left_out: dict[str, str]
) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file that goes in; what does not is put into `left_out`."""
    if node is not None:
        place = f"node/{short_host()}"
        for part, raw in node.files.items():
            yield f"{place}/{part}", _clean(raw, people)
        left_out.update({f"{place}/{part}": why for part, why in node.left_out.items()})
    if folder is None:
        return
    for name in names:
        try:
            content = _content(name, people)
        except FileNotFoundError:
            continue  # the job still runs, and files are replaced
        # Below the folder alone: what lies above it names people and projects that no text of the folder does.
        shown = "/".join(name.relative_to(folder.parent).parts)
        if content is None:
            large = name.stat().st_size > LARGEST
            left_out[shown] = "larger than 1 GiB" if large else "names in it cannot be taken out"
        else:
            yield shown, content


def _people(folder: Path | None, names: list[Path], node: Found | None, key: bytes | None) -> Identities:
    """All names of hosts and users that stand in the texts; the folders of the nodes are named by their hosts."""
    people = Identities(key=key)
    if node is not None:
        people.learn_hosts([short_host()])
        for raw in node.files.values():
            people.learn(raw.decode("utf-8", "replace"))
    people.learn_hosts(sorted({n.parent.name for n in names if n.name == layout.NODE_FILE and n.parent != folder}))
    for name in names:
        with contextlib.suppress(FileNotFoundError):  # the job still runs, and files are replaced
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
        return _clean(name.read_bytes(), people)
    return name.read_bytes() if name.suffix == layout.RECORDER else None


def _clean(raw: bytes, people: Identities | None) -> bytes:
    """A text with pseudonyms; as it is where names may stay."""
    if people is None:
        return raw
    lines = raw.decode("utf-8", "replace").split("\n")
    return "\n".join(_line(line, people) for line in lines).encode("utf-8", "backslashreplace")


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
