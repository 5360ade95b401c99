"""How the logs of a cluster come to the person who asks: folders, archives, stderr of pods, or all of them mixed.

It writes files and tells where marked lines came to stand; what the lines say is not its business.
"""

from __future__ import annotations

import datetime as dt
import gzip
import io
import tarfile
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .daemons import Node
    from .journal import Rendered

ALL = ("folder", "copied", "archives", "archives_error", "renamed", "pods_time", "pods_prefix", "pods_cri", "mixed")
"""`copied` holds the newest files twice, as copies that follow links do; `archives_error` is what is packed where only
errors are asked for: no counters, no hourly marker; `renamed` holds each daemon's current file under a name of no meaning.
"""


class Place(NamedTuple):
    """Where a marked line stands; `file` is relative to the folder of the logs."""

    file: str
    member: str | None
    line: int
    text: str


Places = dict[tuple[str, str], Place]
"""By node id and mark."""


def write(layout: str, nodes: Sequence[Node], root: Path, max_size: int) -> Places:
    """Write the logs of `nodes` below `root`, as far as they are kept."""
    root.mkdir(parents=True, exist_ok=True)
    places: Places = {}
    for number, node in enumerate(nodes):
        if layout == "folder":
            places |= _folder(node, root, "", max_size)
        elif layout == "copied":
            places |= _copied(node, root, max_size)
        elif layout == "renamed":
            places |= _renamed(number, node, root)
        elif layout.startswith("archives"):
            places |= _archive(node, root, max_size, "ERROR" if layout == "archives_error" else "INFO")
        elif layout in ("pods_time", "pods_cri"):
            places |= _pod(node, root, cri=layout == "pods_cri")
        elif layout == "mixed":
            places |= _mixed(number, node, root, max_size)
    if layout == "pods_prefix":
        places |= _together(nodes, root)
    return places


def _mixed(number: int, node: Node, root: Path, max_size: int) -> Places:
    if node.role == "proxy":
        return _folder(node, root, "proxies/", max_size)
    if number % 3 == 0:
        return _archive(node, root, max_size)
    if number % 3 == 1:
        return _folder(node, root, f"nodes/{node.address}/var/log/ais/", max_size, zipped=True)
    return _pod(node, root, cri=False)


def _named(node: Node, rendered: Rendered, file: str, *, member: bool) -> Places:
    """`file` is the prefix of paths, or the archive that holds the files as members."""
    places: Places = {}
    for mark, found in rendered.marks.items():
        if member:
            places[node.id, mark] = Place(file, found.file, found.line, found.text)
        else:
            places[node.id, mark] = Place(file + found.file, None, found.line, found.text)
    return places


def _folder(node: Node, root: Path, below: str, max_size: int, *, zipped: bool = False) -> Places:
    rendered = node.journal.render(max_size, node.kept, ("INFO", "ERROR"))
    for name, content in rendered.files.items():
        file = root / below / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if zipped:
            (file.parent / f"{name}.gz").write_bytes(gzip.compress(content, mtime=0))
        else:
            file.write_bytes(content)
    places = _named(node, rendered, below, member=False)
    return {key: place._replace(file=f"{place.file}.gz") for key, place in places.items()} if zipped else places


def _copied(node: Node, root: Path, max_size: int) -> Places:
    below = f"{node.host}/log/"
    places = _folder(node, root, below, max_size)
    for severity in ("INFO", "ERROR"):
        # The daemon's link to its newest file.
        newest = list(node.journal.render(max_size, node.kept, (severity,)).files.values())[-1]
        (root / below / f"ais{node.role}.{severity}").write_bytes(newest)
    return places


def _renamed(number: int, node: Node, root: Path) -> Places:
    rendered = node.journal.render(1 << 30, node.kept)
    current = list(rendered.files)[-1]
    name = f"download-{number * 7 % 10}.txt"
    (root / name).write_bytes(rendered.files[current])
    return {
        (node.id, mark): Place(name, None, found.line, found.text)
        for mark, found in rendered.marks.items()
        if found.file == current
    }


def _archive(node: Node, root: Path, max_size: int, severity: str = "INFO") -> Places:
    rendered = node.journal.render(max_size, node.kept, (severity,))
    name = f"ais{node.role}-{node.id}.tar.gz"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for member, content in rendered.files.items():
            info = tarfile.TarInfo(member)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    (root / name).write_bytes(gzip.compress(packed.getvalue(), mtime=0))
    return _named(node, rendered, name, member=True)


def _rfc3339(at: float) -> str:
    return dt.datetime.fromtimestamp(at, dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")


def _pod(node: Node, root: Path, *, cri: bool) -> Places:
    """`kubectl logs --timestamps`, or the files that the container runtime keeps."""
    name = f"ais_{node.host}_0d6f4c1e/aisnode/0.log" if cri else f"{node.host}.log"
    places: Places = {}
    texts = []
    number = 1
    for at, line, mark in node.journal.stderr(node.kept):
        if mark and (node.id, mark) not in places:
            places[node.id, mark] = Place(name, None, number, line.rstrip("\n").split(" ", 2)[-1])
        for part in line.rstrip("\n").split("\n"):
            stamp = f"{_rfc3339(at)}118+00:00 stderr F" if cri else f"{_rfc3339(at)}118Z"
            texts.append(f"{stamp} {part}\n")
            number += 1
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(texts))
    return places


def _together(nodes: Sequence[Node], root: Path) -> Places:
    """`kubectl logs --prefix` of all pods: one stream, no time but the daemons' own."""
    places: Places = {}
    texts = []
    number = 1
    entries = sorted(
        (at, node.host, line, mark, node.id) for node in nodes for at, line, mark in node.journal.stderr(node.kept)
    )
    for _, host, line, mark, ident in entries:
        if mark and (ident, mark) not in places:
            places[ident, mark] = Place("ais-pods.log", None, number, line.rstrip("\n").split(" ", 2)[-1])
        for part in line.rstrip("\n").split("\n"):
            texts.append(f"[pod/{host}/aisnode] {part}\n")
            number += 1
    (root / "ais-pods.log").write_text("".join(texts))
    return places
