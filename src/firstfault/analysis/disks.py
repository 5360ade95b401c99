"""Which file system is the full one, and whose: what `df` and `mount` in the logs say of the path that could not be written.

The pipeline finds tables and paths; this says what follows from them. A disk of one machine is that machine's; a file system
that machines share is nobody's; what no table shows is not claimed.
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.answer import Named
from firstfault.model.disks import DiskKind, FileSystem
from firstfault.model.lazy import lazy
from firstfault.model.words import Blame, Strength

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene

FULL = 99
"""Per cent from which on a file system counts as full: root keeps a part for itself, and df rounds up."""
SPACE = frozenset({"storage.no_space", "storage.no_space_local", "checkpoint.write_failed"})
"""Signatures that say that a file system has no room."""
QUOTA = "storage.quota"
_NO_ROOM = lazy(r"[Nn]o space left|ENOSPC|disk full|StorageFull|code: 28\b|unexpected pos")
_UNQUOTABLE = lazy(r"[`'\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")
"""A backtick ends a command in every report, a quote the quotes, and what cannot be seen cannot be judged before it is run."""
_PLACES = (
    (lazy(r"^/dev/shm\b"), "shared memory"),
    (lazy(r"(?i)/\.?cache\b|/\.triton\b|torchinductor|huggingface|/hub/|torch_extensions"), "a cache"),
    (lazy(r"(?i)ckpt|checkpoint|/step[_-]?\d|global_step|epoch"), "a checkpoint folder"),
    (lazy(r"^/(?:var/)?tmp\b|^/run\b|(?i:/tmp\b)"), "temporary files"),
)
_KINDS = {
    DiskKind.LOCAL: "a disk of the machine itself",
    DiskKind.SHARED: "a file system that machines share",
    DiskKind.MEMORY: "in the machine's memory",
    DiskKind.UNKNOWN: "of a kind that its name does not tell",
}


def asks_for_disk(answer: Answer) -> bool:
    """Whether an answer rests on a file system without room."""
    trigger = answer.trigger
    if answer.question != "first_fault" or trigger is None:
        return False
    return trigger.signature == QUOTA or any(
        e.signature in SPACE and _NO_ROOM.search(e.text) for e in (trigger, *answer.proof)
    )


def path_of(answer: Answer) -> str:
    """The path that the error names; empty where it names none."""
    events = [e for e in (answer.trigger, *answer.proof) if e is not None]
    return next((p for e in events if (p := e.fields.get("path", ""))), "")


def place_of(path: str) -> str:
    """What a path is used for, by its words; empty where they do not tell."""
    return next((name for pattern, name in _PLACES if pattern.search(path)), "")


def heed_disks(scene: Scene, answer: Answer, tables: Sequence[FileSystem], written: str) -> Answer:
    """The answer with the file system named that is full, and with the machine where the disk is its own.

    Args:
        scene: of the attempt.
        answer: one that rests on a file system without room.
        tables: what `df` and `mount` show in these logs.
        written: the path that the program last said it writes to, where the error names none; may be empty.
    """
    quota = answer.trigger is not None and answer.trigger.signature == QUOTA
    path = path_of(answer) or written
    rows = _of_host(scene, answer, tables)
    shown = _behind(path, rows) if path else None
    if shown is None and not path_of(answer) and not quota:
        shown = _only_full(rows)
    if shown is None:
        return _with_place(answer, path_of(answer))
    used, inodes = _fill(rows, shown.mount)
    summary = f"{answer.summary} {_quota(shown, used, path) if quota else _said(shown, used, inodes, path)}"
    proof = (*answer.proof, *(r.event for r in rows if r.mount == shown.mount))
    answer = replace(
        answer, summary=summary, proof=proof, steps=_steps(answer, shown.mount, path, inodes=(inodes or 0) >= FULL)
    )
    return answer if quota else _blamed(scene, answer, shown, full=max(used or 0, inodes or 0) >= FULL)


def _of_host(scene: Scene, answer: Answer, tables: Iterable[FileSystem]) -> list[FileSystem]:
    """Tables of the machine that failed: of the same log, or any where the job has one machine only."""
    trigger = answer.trigger
    assert trigger is not None
    one = len({*scene.roster.host_of.values(), *scene.complete.hosts}) <= 1
    return [t for t in tables if t.event.span.source == trigger.span.source or one]


def _behind(path: str, rows: Sequence[FileSystem]) -> FileSystem | None:
    """The file system of a path: the longest mount point above it. The root alone proves nothing of mounts not listed."""
    above = [r for r in rows if r.mount == path or path.startswith(r.mount.rstrip("/") + "/")]
    best = max(above, key=lambda r: (len(r.mount), r.used is not None), default=None)
    if best is not None and best.mount == "/" and len({r.mount for r in rows}) < 3:
        return None
    return best


def _only_full(rows: Sequence[FileSystem]) -> FileSystem | None:
    full = {r.mount: r for r in rows if max(r.used or 0, r.inodes or 0) >= FULL and not r.mount.startswith("/snap/")}
    return next(iter(full.values())) if len(full) == 1 else None


def _fill(rows: Iterable[FileSystem], mount: str) -> tuple[int | None, int | None]:
    own = [r for r in rows if r.mount == mount]
    used = max((r.used for r in own if r.used is not None), default=None)
    return used, max((r.inodes for r in own if r.inodes is not None), default=None)


def _where(shown: FileSystem, path: str) -> str:
    place = place_of(path)
    return f"{shown.mount} ({f'{place}, ' if place else ''}{shown.device}, {_KINDS[shown.kind]})"


def _quota(shown: FileSystem, used: int | None, path: str) -> str:
    room = f" df shows it {used} % used: the file system itself has room." if used is not None and used < FULL else ""
    return f"The quota is one of {_where(shown, path)}.{room}"


def _said(shown: FileSystem, used: int | None, inodes: int | None, path: str) -> str:
    where = _where(shown, path)
    if inodes is not None and inodes >= FULL and (used is None or used < FULL):
        free = "" if used is None else f", though only {used} % of its space"
        return f"What ran out are the inodes of {where}: {inodes} % are used{free}."
    if used is not None and used >= FULL:
        return f"The full file system is {where}: {used} % used."
    if used is not None:
        reason = (
            "one of its storage targets may be full, or a quota"
            if shown.kind is DiskKind.SHARED
            else "a quota or a limit of the container may be"
        )
        return f"The file system is {where}; df shows it {used} % used: {reason}, or room was made since."
    return f"The file system is {where}."


def _steps(answer: Answer, mount: str, path: str, *, inodes: bool) -> tuple[str, ...]:
    named = _word(mount)
    if not named:
        return answer.steps
    first = (
        f"On that host: `df -h {named}; df -i {named}` (the path was {path})."
        if path
        else f"On that host: `df -h {named}; df -i {named}`."
    )
    count = (f"See where the files are: `du --inodes -d 2 {named} | sort -n | tail`.",) if inodes else ()
    return tuple(dict.fromkeys((first, *count, *answer.steps[1:])))


def _word(path: str) -> str:
    """A path as one word of a shell; empty where it holds what no quotes make harmless in a report: whoever wrote the log chose it."""
    return "" if _UNQUOTABLE.search(path) else quote(path)


def _with_place(answer: Answer, path: str) -> Answer:
    """The answer with the path's use, where no table shows what is behind it."""
    folder = _word(path.rsplit("/", 1)[0] or "/") if path else ""
    if not folder:
        return answer
    place = place_of(path)
    first = (
        f"On that host: `df -h {folder}; df -i {folder}` (the path is that of {place})."
        if place
        else f"On that host: `df -h {folder}; df -i {folder}`."
    )
    return replace(answer, steps=tuple(dict.fromkeys((first, *answer.steps[1:]))))


def _blamed(scene: Scene, answer: Answer, shown: FileSystem, *, full: bool) -> Answer:
    """Who it is, by whose the disk is."""
    if shown.kind is DiskKind.SHARED:
        return replace(answer, culprits=Named(), exclude_hosts=())
    hosts = _hosts(scene, answer)
    if shown.kind is DiskKind.UNKNOWN or not full or len(hosts) != 1 or answer.culprits.hosts:
        return answer
    return replace(answer, culprits=Named(hosts=hosts, strength=Strength.SUPPORTED))


def _hosts(scene: Scene, answer: Answer) -> tuple[str, ...]:
    """Machines on which the error was raised."""
    proof = {(e.span, e.signature) for e in (answer.trigger, *answer.proof) if e is not None}
    own = [
        s for s in scene.suspects if (s.first.span, s.first.signature) in proof and s.nature.blame is not Blame.STORE
    ]
    return next((s.hosts for s in own if s.hosts), ())
