"""Makes of a job's logs, and of what somebody knows about its end, a small case that can be given away and becomes a test.

It takes the lines that the diagnosis rests on with those around them, without secrets and names, and diagnoses what is left:
where that says something else than the whole did, it takes more. The truth is what the person says, never what the diagnosis says.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Struct

from firstfault import __version__
from firstfault.model.diagnosis import SCHEMA, Diagnosis
from firstfault.model.lazy import lazy
from firstfault.model.words import Category, SourceKind
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.errors import PipelineError
from firstfault.privacy.lookalikes import Lookalikes
from firstfault.privacy.secrets import SecretFilter
from firstfault.readers.discover import STDIN
from firstfault.readers.open import open_inputs

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from firstfault.model.evidence import Source
    from firstfault.pipelines.options import DiagnoseOptions
    from firstfault.readers.open import Opened
    from firstfault.readers.store import Store

_LEFT_OUT = frozenset({SourceKind.BINARY, SourceKind.EMPTY, SourceKind.FLIGHT_RECORDER, SourceKind.MEMORY_SNAPSHOT})
"""Kinds of which names cannot be taken out."""
WHOLE = 64 << 10
"""Bytes of a source up to which all of it is taken."""
MOST = 64 << 20
"""Bytes of a case beyond which nobody would take it."""
LONGEST = 1 << 20
"""Bytes of one line that are taken."""


_BEHIND = lazy(r"(?<=_)(?:\d{1,3}\.){3}\d{1,3}(?!\.?\d|[A-Za-z_])")
"""An address behind an underscore, as file names have it."""


class Around(NamedTuple):
    """How many lines of a large source are taken."""

    head: int
    tail: int
    beside: int
    """Before and behind each line of evidence."""


LEVELS = (Around(60, 60, 20), Around(1_000, 1_000, 400), Around(50_000, 50_000, 20_000))
"""What is tried, one after the other, until the case is diagnosed as the whole was; the last resort is all."""


class Told(Struct, frozen=True, kw_only=True):
    """What somebody knows about how a job ended."""

    right: Category
    ranks: tuple[int, ...] | None = None
    """Global ranks in which the fault began; empty for nobody, None where it is not said."""
    hosts: tuple[str, ...] | None = None
    triggers: tuple[tuple[str, int], ...] = ()
    """File, as shown in a report, and line of the best evidence; of several any one will do."""
    note: str = ""
    """What happened, in words."""


class MadeCase(Struct, frozen=True, kw_only=True):
    """What was made."""

    folder: str
    files: int
    lines: int
    whole_lines: int
    """Of the files before they were cut."""
    said: Category
    """What the whole was diagnosed as."""
    says: Category
    """What the case is diagnosed as."""
    same: bool
    """Whether the case is diagnosed as the whole was: category and ranks."""
    left_out: tuple[str, ...] = ()
    """Files of which names cannot be taken out."""
    removed: int = 0
    """Names and secrets that were taken out."""


def feedback(
    paths: Sequence[str | os.PathLike[str]], told: Told, output: str | os.PathLike[str], options: DiagnoseOptions
) -> MadeCase:
    """Makes a case of what a job left behind.

    Args:
        paths: as for `diagnose`; a diagnosis that was kept as JSON may be among them, and is held against the logs beside it.
        told: what is known.
        output: the folder of the case, which must be empty or not be there.
        options: of the diagnosis.

    Raises:
        PipelineError: the output is taken, only a diagnosis was given, or the trigger is no line of the logs.
    """
    folder = Path(output)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise PipelineError(
            "this is there already", where=str(output), fix="Give --output a folder that is empty or new."
        )
    if STDIN in map(str, paths):
        raise PipelineError(
            "a case is made of files: they are read more than once",
            where=STDIN,
            fix="Write what the pipe gives into a file.",
        )
    logs = [path for path in paths if not _is_diagnosis(path)]
    if not logs:
        raise PipelineError(
            "a diagnosis alone makes no case",
            where=", ".join(map(str, paths)),
            why="it holds a few lines of the logs, and a case needs those around them",
            fix="Give the logs that it was made from too, as PATHs.",
        )
    found = diagnose(logs, options)
    with open_inputs(logs) as opened:
        return _made(opened, found, told, folder, options)


def _is_diagnosis(path: str | os.PathLike[str]) -> bool:
    try:
        with Path(path).open("rb") as file:
            head = file.read(4096)
    except OSError:
        return False
    return head.lstrip()[:1] == b"{" and SCHEMA.encode() in head


def _made(opened: Opened, found: Diagnosis, told: Told, folder: Path, options: DiagnoseOptions) -> MadeCase:
    texts = [s for s in opened.sources if s.kind not in _LEFT_OUT]
    for trigger in told.triggers:
        _check_trigger(opened, texts, trigger)
    cited: dict[str, set[int]] = {}
    for line in _evidence(msgspec.to_builtins(found)):
        cited.setdefault(line[0], set()).add(line[1])
    for file, number in told.triggers:
        cited.setdefault(file, set()).add(number)
    redactor = _Redactor(opened.store, texts, found)
    last: MadeCase | None = None
    for level in (*LEVELS, None):
        chosen = {s.path: _chosen(opened.store, s, cited.get(s.path, set()), level) for s in texts}
        made = _written(opened.store, texts, chosen, redactor, found, told, folder, options)
        if made is None:
            break
        last = made
        if made.same:
            break
    if last is None:
        raise PipelineError(
            "these logs are too large for a case",
            where=str(folder),
            fix="Give the few files alone that show the fault.",
        )
    left_out = tuple(s.path for s in opened.sources if s.kind in _LEFT_OUT)
    return msgspec.structs.replace(last, left_out=left_out)


def _check_trigger(opened: Opened, texts: Sequence[Source], trigger: tuple[str, int]) -> None:
    source = next((s for s in texts if s.path == trigger[0]), None)
    if source is None:
        some = ", ".join(f"`{s.path}`" for s in texts[:5])
        raise PipelineError(
            f"no file is called {trigger[0]!r}", where="--trigger", fix=f"Name it as a report does. There are {some}."
        )
    last = sum(1 for _ in _lines(opened.store, source))
    if not 1 <= trigger[1] <= last:
        raise PipelineError(f"{trigger[0]} has {last} lines", where="--trigger", fix="Lines count from 1.")


def _evidence(value: object) -> Iterator[tuple[str, int]]:
    """File and line of every line that a diagnosis shows."""
    if isinstance(value, dict):
        file, line = value.get("file"), value.get("line")
        if isinstance(file, str) and isinstance(line, int) and line > 0:
            yield file, line
        for inner in value.values():
            yield from _evidence(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _evidence(inner)


def _lines(store: Store, source: Source) -> Iterator[bytes]:
    """The lines of a source without their ends; of one that is very long the beginning."""
    rest = b""
    size = 0
    for block in store.blocks(source.id):
        parts = block.split(b"\n")
        parts[0] = rest + parts[0] if len(rest) < LONGEST else rest
        for part in parts[:-1]:
            yield part[:LONGEST]
        rest = parts[-1][:LONGEST] if len(parts) > 1 else parts[0][:LONGEST]
        size += len(block)
    if rest:
        yield rest


def _chosen(store: Store, source: Source, cited: set[int], level: Around | None) -> set[int] | None:
    """Numbers of the lines to take; None for all."""
    if level is None or store.size(source.id) <= WHOLE:
        return None
    last = sum(1 for _ in _lines(store, source))
    wanted = set(range(1, min(level.head, last) + 1)) | set(range(max(1, last - level.tail + 1), last + 1))
    for number in cited:
        wanted |= set(range(max(1, number - level.beside), min(last, number + level.beside) + 1))
    return wanted


class _Redactor:
    """Takes secrets and names out of lines; the same name becomes the same pseudonym in all files."""

    def __init__(self, store: Store, sources: Sequence[Source], found: Diagnosis) -> None:
        self.people = Lookalikes()
        self.secrets = SecretFilter()
        self._files: dict[str, str] = {}
        culprits = found.verdict.culprits
        self.people.learn_hosts([*culprits.hosts, *culprits.storage_nodes, *found.verdict.first_failed.hosts])
        self.people.learn_paths(s.path for s in sources)
        for source in sources:
            self.people.learn(source.path)
            for line in _lines(store, source):
                text = _text(line)
                self.secrets.learn(text)
                self.people.learn(text)

    def clean(self, line: bytes) -> bytes:
        """One line."""
        return self.say(_text(line)).encode("utf-8", "surrogateescape")

    def say(self, text: str) -> str:
        """Words."""
        return self.people.clean(self.secrets.clean(text))

    def file(self, shown: str) -> str:
        """Name of a file in the case; members of archives lie in folders."""
        if shown not in self._files:
            parts = [self._name(part) for part in shown.replace("!", "/").split("/")]
            name = "/".join(part.replace("/", "_") for part in parts if part not in {"", ".", ".."}) or "log"
            name = name.replace("<stdin>", "stdin.log")
            self._files[shown] = self._free(name)
        return self._files[shown]

    def _name(self, part: str) -> str:
        """One part of a file's name; there an underscore parts words, and a folder is known by the paths in the texts."""
        clean = self.people.folder(self.say(part))
        return _BEHIND.sub(lambda m: self.people.pseudonym("addr", m.group()), clean)

    def _free(self, name: str) -> str:
        """A name that no file has, that is no folder of others, and of whose folders none is a file."""
        taken = set(self._files.values())
        folders = {"/".join(other.split("/")[:n]) for other in taken for n in range(1, other.count("/") + 1)}
        parts = name.split("/")
        for depth in range(1, len(parts) + 1):
            stem, dot, ending = parts[depth - 1].rpartition(".")
            number = 2
            while (there := "/".join(parts[:depth])) in taken or (depth == len(parts) and there in folders):
                parts[depth - 1] = f"{stem}-{number}{dot}{ending}" if stem else f"{ending}-{number}"
                number += 1
        return "/".join(parts)

    @property
    def removed(self) -> int:
        """How many were taken out so far."""
        return sum(self.people.removed.values()) + sum(self.secrets.removed.values())


def _text(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape")


def _written(  # noqa: PLR0917 - what a case is made of
    store: Store,
    sources: Sequence[Source],
    chosen: Mapping[str, set[int] | None],
    redactor: _Redactor,
    found: Diagnosis,
    told: Told,
    folder: Path,
    options: DiagnoseOptions,
) -> MadeCase | None:
    """The case with the chosen lines, as it lies there now; None where it would be too large."""
    logs = folder / "logs"
    places: dict[tuple[str, int], tuple[int, bytes]] = {}
    whole = kept = size = 0
    texts: dict[str, bytes] = {}  # by shown name: the texts tell which folders are somebody's
    before = redactor.removed
    for source in sources:
        wanted = chosen[source.path]
        lines: list[bytes] = []
        for number, line in enumerate(_lines(store, source), start=1):
            whole += 1
            if wanted is None or number in wanted:
                clean = redactor.clean(line)
                lines.append(clean)
                size += len(clean) + 1
                if (source.path, number) in told.triggers:
                    places[source.path, number] = (len(lines), clean)
                if size > MOST:
                    return None
        kept += len(lines)
        ended = store.tail(source.id, 1) == b"\n"
        texts[source.path] = b"\n".join(lines) + (b"\n" if ended and lines else b"")
    removed = redactor.removed - before
    for shown, text in texts.items():
        path = logs / redactor.file(shown)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    expected = _expected(told, found, redactor, places)
    (folder / "expected.json").write_text(json.dumps(expected, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    again = diagnose([logs], options)
    same = (found.verdict.category, found.verdict.failed, sorted(found.verdict.culprits.ranks)) == (
        again.verdict.category,
        again.verdict.failed,
        sorted(again.verdict.culprits.ranks),
    )
    return MadeCase(
        folder=str(folder),
        files=len(texts),
        lines=kept,
        whole_lines=whole,
        said=found.verdict.category,
        says=again.verdict.category,
        same=same,
        removed=removed,
    )


def _expected(
    told: Told, found: Diagnosis, redactor: _Redactor, places: Mapping[tuple[str, int], tuple[int, bytes]]
) -> dict[str, object]:
    """The truth, as the tests read it; what nobody said is not judged."""
    trigger = []
    for (file, _), (line, text) in places.items():
        shown = redactor.file(file)
        trigger.append({"file": shown, "line": line, "must_contain": _readable(text)})
    hosts = None if told.hosts is None else [redactor.people.pseudonym("host", _short(host)) for host in told.hosts]
    return {
        "category": str(told.right),
        "acceptable": [str(told.right)],
        "strength_at_most": "unknown" if told.right is Category.UNKNOWN else None,
        "root_cause": redactor.say(told.note).encode("utf-8", "replace").decode(),
        "culprit_ranks": None if told.ranks is None else sorted(told.ranks),
        "culprit_hosts": hosts,
        "first_failed_ranks": None,
        "trigger": trigger,
        "must_not_say": [],
        "must_not": {},
        "why_it_is_hard": [],
        "provenance": f"made by `firstfault feedback` {__version__}, which had said {found.verdict.category} ({found.verdict.strength}) of the whole",
    }


def _readable(line: bytes) -> str:
    """The beginning of a line; of one with bytes that are no text the longest stretch without them."""
    return max(line.decode("utf-8", "replace").split("\ufffd"), key=len)[:200].strip()


def _short(host: str) -> str:
    return host.split(".", maxsplit=1)[0]


__all__ = ["MadeCase", "Told", "feedback"]
