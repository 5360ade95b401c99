"""Tells what a manifest is by its content and reads it: shards, Lhotse, lists of files. Runs nothing, unpacks nothing, imports nothing of theirs."""

from __future__ import annotations

import csv
import itertools
import json
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from firstfault.dataset import tars
from firstfault.dataset.files import File, Looked, Looker
from firstfault.dataset.lhotse import Manifest, kind_of
from firstfault.dataset.lines import lines_of
from firstfault.dataset.nouns import Kind, Notes, Seen
from firstfault.dataset.spread import of_shards, uneven
from firstfault.model.dataset import DataFile, DataFinding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from firstfault.model.dataset import DataKind

MOST_PATHS = 100_000
"""Shards into which one range is written out."""
_RANGE = re.compile(r"\{(\d{1,9})\.\.(\d{1,9})\}")
_TAR = re.compile(r"\.(?:tar|tar\.gz|tgz)$", re.IGNORECASE)
_PATHS = ("path", "audio_filepath", "audio_path", "file", "filepath", "file_path", "filename", "file_name", "image", "image_path", "img", "img_path", "wav", "audio", "video", "video_path", "src", "uri", "location")  # fmt: skip
_DIGESTS = ("sha256", "sha256sum", "sha512", "sha1", "md5", "md5sum", "checksum", "digest", "content_hash", "file_hash")  # fmt: skip
_HEX = re.compile(r"(?:md5:|sha1:|sha256:|sha512:)?([0-9a-fA-F]{32}|[0-9a-fA-F]{40}|[0-9a-fA-F]{64}|[0-9a-fA-F]{128})")
_SUM = re.compile(rf"{_HEX.pattern} [ *](\S.*)")
"""A line as md5sum, sha256sum and their like write it."""
_IDS = ("id", "key", "uid", "utt_id", "utt", "__key__")

BROKEN = Kind(
    "manifest.line",
    "fail",
    "lines cannot be read",
    "Reading the manifest raises there.",
    "Repair or leave out the line.",
)
NO_PATH = Kind("item.no_path", "fail", "items have no path", "Code that opens it raises.", "Repair or leave them out; --field names another column.")  # fmt: skip
SAME_ID = Kind(
    "item.same_id",
    "warn",
    "items have the id of an earlier one",
    fix="Give each an id of its own, or see that it is meant.",
)
SAME_PATH = Kind(
    "item.same_path",
    "warn",
    "items name a file that an earlier one names",
    fix="Leave them out, or see that it is meant.",
)
ABSENT = Kind("file.missing", "fail", "files are not there", "The first of them ends the job, at a step that changes with the seed.", "Copy them, or leave the items out; --root says below which folder relative paths lie.")  # fmt: skip
REFUSED = Kind(
    "file.refused",
    "fail",
    "files cannot be opened",
    "The first of them ends the job.",
    "Check their permissions and the file system.",
)
NO_BYTE = Kind("file.empty", "fail", "files hold no byte", "The decoder raises on them.", "Repair or leave them out.")
BAD = Kind("file.damaged", "fail", "files are not what their name says, or cut off", "The decoder raises on them.", "Repair or leave them out.")  # fmt: skip
OTHER_RATE = Kind("file.rate", "fail", "files have another sampling rate than the manifest states", "Cuts begin and end at wrong places.", "Write the manifest anew from the files.")  # fmt: skip
SHORTER = Kind("file.shorter", "fail", "files hold less sound than the manifest states", "Loading the end of them raises, or gives fewer samples than labels.", "Copy them again, or write the manifest anew.")  # fmt: skip
OTHER_BYTES = Kind("file.digest", "fail", "files do not have the digest that the manifest states", "They were changed or cut since it was written, or are others.", "Copy them again, or write the manifest anew.")  # fmt: skip
SAME_BYTES = Kind("file.same_content", "warn", "files hold the same bytes as an earlier one", "The job learns them more often than others.", "Leave them out, or see that it is meant.")  # fmt: skip
NOT_MANIFEST = Kind("manifest.unknown", "warn", "files are no manifest of a kind that is read")


class Given(NamedTuple):
    """How manifests are to be read."""

    world: int = 1
    root: str | None = None
    field: str | None = None
    seconds: float = 120.0
    contents: bool = True
    digests: bool = False
    """Whether files are read whole."""


class Read(NamedTuple):
    """What manifests hold."""

    kind: DataKind
    files: list[DataFile]
    findings: list[DataFinding]
    per_rank: list[int | None]
    not_checked: list[str]


def expanded(paths: Sequence[str]) -> list[str]:
    """Paths with their ranges (`{000..127}`) written out."""
    found: list[str] = []
    todo = list(reversed(paths))
    while todo and len(found) < MOST_PATHS:
        path = todo.pop()
        mark = _RANGE.search(path)
        if mark is None or int(mark[2]) - int(mark[1]) >= MOST_PATHS or Path(path).exists():
            found.append(path)
            continue
        wide = len(mark[1]) if mark[1].startswith("0") else 0
        several = range(int(mark[1]), int(mark[2]) + 1)
        todo += [f"{path[: mark.start()]}{n:0{wide}d}{path[mark.end() :]}" for n in reversed(several)]
    return found


def read_manifests(paths: Sequence[str], given: Given) -> Read:
    """Reads manifests of one kind.

    Args:
        paths: shards, or manifests; a range in braces is written out.
        given: how.
    """
    notes, end = Notes(), time.monotonic() + given.seconds
    several = expanded(paths)
    if several and all(_TAR.search(p) for p in several):
        return _shards(several, given, notes, end)
    looker = Looker(end, contents=given.contents, digests=given.digests)
    files: list[DataFile] = []
    bytes_seen = Seen()
    for path in several:
        files.append(_Reader(path, given, notes, looker, end).read())
        _note_all(looker.take(), notes, bytes_seen)
    _note_all(looker.take(last=True), notes, bytes_seen)
    if looker.left:
        notes.skip(f"{looker.left} files were not looked at: the time was over, or the file system does not answer.")
    kinds = {f.kind for f in files} - {"unknown"}
    return Read(
        kinds.pop() if len(kinds) == 1 else "list" if kinds else "unknown",
        files,
        notes.findings(),
        [],
        notes.not_checked,
    )


def _shards(paths: list[str], given: Given, notes: Notes, end: float) -> Read:
    seen = Seen()
    held: list[tuple[str, tars.Shard]] = []
    for path in paths:
        if time.monotonic() > end:
            notes.skip("Not all shards were looked through: the time was over.")
            held.append((path, tars.Shard(None, None, {})))
            continue
        held.append(
            (path, tars.read_shard(path, notes, seen, contents=given.contents, late=lambda: time.monotonic() > end))
        )
    tars.incomplete(held, notes)
    found = notes.findings()
    counts = of_shards([s.samples for _, s in held], given.world) if given.world > 1 else []
    found += uneven(counts, "samples, where shard i goes to rank i modulo their number", certain=False)
    files = [DataFile(file=p, kind="webdataset", items=s.samples, bytes=s.bytes) for p, s in held]
    return Read("webdataset", files, found, counts, notes.not_checked)


def _note_all(found: list[Looked], notes: Notes, bytes_seen: Seen) -> None:
    for one in found:
        file = one.file
        at = (file.manifest, f"{file.name}: {file.path}" if file.name else file.path)
        if one.refused:
            notes.note(REFUSED, *at, line=file.line, detail=one.refused)
        elif one.size is None:
            notes.note(ABSENT, *at, line=file.line)
        elif one.size == 0:
            notes.note(NO_BYTE, *at, line=file.line)
        elif one.digest and file.digest and one.digest != file.digest:
            notes.note(OTHER_BYTES, *at, line=file.line, detail=f"{one.digest[:16]}…, where {file.digest[:16]}… stands")
        elif one.digest and not one.fault and bytes_seen.again(f"{len(one.digest)} {one.digest}"):
            notes.note(SAME_BYTES, *at, line=file.line)
        elif one.fault:
            notes.note(BAD, *at, line=file.line, detail=one.fault)
        elif one.sound is not None and file.rate is not None and one.sound.rate != file.rate:
            notes.note(OTHER_RATE, *at, line=file.line, detail=f"{one.sound.rate} Hz, where {file.rate} stand")
        elif one.sound is not None and file.samples is not None and one.sound.samples < file.samples:
            notes.note(SHORTER, *at, line=file.line, detail=f"{one.sound.samples} samples, where {file.samples} stand")


class _Reader:
    """One manifest of lines."""

    def __init__(self, path: str, given: Given, notes: Notes, looker: Looker, end: float) -> None:
        self.path, self.given, self.notes, self.looker, self.end = path, given, notes, looker, end
        self.roots = [given.root] if given.root else [str(Path(path).parent), str(Path.cwd())]
        self.ids, self.paths = Seen(), Seen()
        self.items = 0
        self.field = given.field
        self.size = _size(path)

    def read(self) -> DataFile:
        """Reads it to its end, or as long as there is time."""
        lines = self._timely(lines_of(self.path, self.notes))
        first = next(lines, None)
        if first is None:
            if self.size == 0:
                self.notes.note(NOT_MANIFEST, self.path, self.path, detail="it is empty")
            return DataFile(file=self.path, kind="unknown", items=0 if self.size == 0 else None, bytes=self.size)
        if first[1].lstrip().startswith(b"{"):
            return self._records(itertools.chain([first], lines))
        if b"\0" in first[1]:
            self.notes.note(NOT_MANIFEST, self.path, self.path, detail="it is binary")
            return DataFile(file=self.path, kind="unknown", bytes=self.size)
        self._rows(itertools.chain([first], lines), first[1])
        return DataFile(file=self.path, kind="list", items=self.items, bytes=self.size)

    def _timely(self, lines: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """Lines that hold something, as long as there is time."""
        for number, raw in lines:
            if number % 1024 == 0 and time.monotonic() > self.end:
                self.notes.skip("Not all lines were read: the time was over.")
                return
            if raw.strip():
                yield number, raw

    def _records(self, lines: Iterator[tuple[int, bytes]]) -> DataFile:
        """One object of JSON a line."""
        kind: DataKind = "list"
        manifest: Manifest | None = None
        for number, raw in lines:
            record = _json(raw)
            if record is None:
                self.notes.note(
                    BROKEN, self.path, f"line {number}", line=number, detail=raw[:80].decode("utf-8", "replace")
                )
                continue
            if manifest is None and not self.items and (told := kind_of(record)):
                kind, manifest = told, Manifest(self.path, told, self.notes)
            if manifest is None:
                self._item(number, {k: v for k, v in record.items() if isinstance(v, (str, int))})
                continue
            for file in manifest.take(record, number):
                self.looker.ask(self._placed(file, file.path))
        if manifest is None:
            return DataFile(file=self.path, kind=kind, items=self.items, bytes=self.size)
        return DataFile(
            file=self.path, kind=kind, items=manifest.items, bytes=self.size, hours=round(manifest.seconds / 3600, 3)
        )

    def _rows(self, lines: Iterator[tuple[int, bytes]], first: bytes) -> None:
        """Columns below their names, or one path a line."""
        texts = ((number, raw.decode("utf-8-sig", "replace")) for number, raw in lines)
        names = _columns(first, self.path, self.given.field)
        if names is None:
            for number, text in texts:
                summed = _SUM.fullmatch(text.strip())
                self._item(
                    number, {"path": text.strip()} if summed is None else {"path": summed[2], "digest": summed[1]}
                )
            return
        at = [0]

        def told() -> Iterator[str]:
            for number, text in texts:
                at[0] = number
                yield text + "\n"

        rows = csv.reader(told(), delimiter=_gap(self.path))
        while True:
            try:
                cells = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                self.notes.note(BROKEN, self.path, f"line {at[0]}", line=at[0], detail=str(error))
                continue
            if [c.strip() for c in cells] != names:
                self._item(at[0], dict(zip(names, (c.strip() for c in cells), strict=False)))

    def _item(self, number: int, record: dict[str, Any]) -> None:
        self.items += 1
        name = next((str(record[n]) for n in _IDS if n in record), "")
        if name and self.ids.again(name):
            self.notes.note(SAME_ID, self.path, name, line=number)
        if self.field is None:
            self.field = next((n for n in _PATHS if isinstance(record.get(n), str)), None)
        if self.field is None:
            self.notes.skip("No column of a manifest is known to hold paths: --field names it.")
            return
        place = record.get(self.field)
        if not isinstance(place, str) or not place:
            self.notes.note(NO_PATH, self.path, name or f"line {number}", line=number)
            return
        if self.paths.again(place):
            self.notes.note(SAME_PATH, self.path, place, line=number)
        if "://" in place or place.endswith("|"):
            self.notes.skip("Addresses and commands that give an item were not tried.")
            return
        digest = _digest(record)
        if digest and not self.given.digests:
            self.notes.skip(
                "Digests that a manifest states were not held against its files: --digests reads these whole."
            )
        self.looker.ask(self._placed(File(place, name, self.path, number, digest=digest), *_parts(place)))

    def _placed(self, file: File, *places: str) -> File:
        """With the places where it may lie."""
        first, *others = (
            p if os.path.isabs(p) else os.path.join(root, p) for p in (places or (file.path,)) for root in self.roots
        )
        return file._replace(path=os.path.normpath(first), others=tuple(others))


def _digest(record: dict[str, Any]) -> str:
    """The digest of a file that stands beside its path; empty for none."""
    for name in _DIGESTS:
        told = _HEX.fullmatch(str(record.get(name, "")).strip())
        if told is not None:
            return told[1].lower()
    return ""


def _parts(text: str) -> list[str]:
    """A path as it stands, and what of it may be the path where a label or an id stands beside it."""
    cut = [part.strip() for part in re.split(r"[\t,;]|\s{1,8}", text) if part.strip()]
    return [text, *dict.fromkeys([cut[0], cut[-1]])] if len(cut) > 1 else [text]


def _size(path: str) -> int | None:
    try:
        return Path(path).stat().st_size
    except OSError:
        return None


def _gap(path: str) -> str:
    return "\t" if ".tsv" in path.lower() else ","


def _columns(raw: bytes, path: str, field: str | None) -> list[str] | None:
    """Names of the columns, by the first line; None where it is an item itself."""
    text = raw.decode("utf-8-sig", "replace")
    cells = [c.strip() for c in next(csv.reader([text[:65536]], delimiter=_gap(path)), [])]
    if field is not None and field in cells:
        return cells
    if any(c in _PATHS for c in cells):
        return cells
    return None


def _json(raw: bytes) -> dict[str, Any] | None:
    """A line that is an object of JSON; None for anything else."""
    if not raw.lstrip().startswith(b"{") or max(raw.count(b"["), raw.count(b"{")) > 100_000:
        return None
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
