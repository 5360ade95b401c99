"""Which checkpoint of a folder is meant: the folder itself, the one that a marker names, or the newest below it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct, field

from firstfault.checkpoint import deepspeed, megatron
from firstfault.checkpoint.nouns import Problem
from firstfault.checkpoint.unit import holds_tensors

if TYPE_CHECKING:
    from firstfault.checkpoint.folder import Folder
    from firstfault.model.checkpoint import ProblemKind

NAMED = re.compile(
    r"^(?:checkpoint|ckpt|global_?step|iter|step|epoch|model)s?[-_=]?(?P<n>\d+)(?:[-_.].*|-step=?\d+.*)?$|^epoch=\d+-step=(?P<s>\d+).*$",
    re.IGNORECASE,
)
"""Names of folders that each are one checkpoint, with the step."""
UNFINISHED = re.compile(r"^\.?tmp[-_.]|[._-](?:tmp|incomplete|partial|unfinished)(?:[._-]|$)|^_tmp", re.IGNORECASE)
READY = re.compile(
    r"^(?:\.?(?:ready|done|completed?|committed|success|finished)|_success|commit_success)(?:\.(?:txt|json|flag|marker))?$",
    re.IGNORECASE,
)
"""Names of files that a trainer writes into a checkpoint when its save has ended."""
OPEN = "-unfinished"
"""Behind the name of a checkpoint, the name of a file that NeMo takes away when the save has ended."""
LATEST = "latest"


class Choice(Struct):
    """What is to be looked at."""

    below: str = ""
    others: list[str] = field(default_factory=list)
    """Checkpoints beside it."""
    problems: list[Problem] = field(default_factory=list)
    dangling: bool = False
    """Whether a marker names what is not there, and nothing else can be meant."""


def choose(folder: Folder) -> Choice:
    """The checkpoint that a program would load from a folder."""
    kept = {name: step for name in folder.folders if (step := _step(folder, name)) is not None}
    outermost = {n: s for n, s in kept.items() if not any(n.startswith(f"{o}/") for o in kept)}
    marker = _marker(folder)
    if marker is not None:
        return _by_marker(folder, marker, outermost)
    if any(holds_tensors(name) for name in folder.under("")) or not outermost:
        # What lies beside its own files is a checkpoint apart, but for what a marker inside names.
        return Choice(others=sorted(outermost) if any(holds_tensors(n) for n in folder.under("")) else [])
    whole = {n: s for n, s in outermost.items() if UNFINISHED.search(n.rpartition("/")[2]) is None}
    still = _still_open(folder, outermost)
    ended = {n: s for n, s in whole.items() if n not in still}
    newest = max(ended or whole or outermost, key=lambda n: (outermost[n], n))
    choice = Choice(below=newest, others=[n for n in outermost if n != newest])
    choice.problems = [*_unfinished(outermost), *_told(still, newest)]
    return choice


def _still_open(folder: Folder, kept: dict[str, int]) -> dict[str, str]:
    """Checkpoints whose save has not ended by their markers -> what shows it."""
    found = {n: f"has {n.rpartition('/')[2]}{OPEN} beside it" for n in kept if f"{n}{OPEN}" in folder.sizes}
    marks = {n: mark for n in kept if (mark := _ready(folder, n)) is not None}
    for name in kept:
        if marks and name not in marks and name not in found and UNFINISHED.search(name.rpartition("/")[2]) is None:
            other = max(marks, key=lambda n: (kept[n], n))
            found[name] = f"has no {marks[other]}, as {other} has"
    return found


def _ready(folder: Folder, name: str) -> str | None:
    """The marker of an ended save in a folder."""
    bases = (file.rpartition("/")[2] for file in folder.under(name))
    return next((base for base in bases if READY.match(base)), None)


def _told(still: dict[str, str], chosen: str) -> list[Problem]:
    return [
        Problem("unfinished_save", "damage" if name == chosen else "warning", name, f"{why}: its save did not end")
        for name, why in still.items()
    ]


def _unfinished(kept: dict[str, int]) -> list[Problem]:
    return [
        Problem("unfinished_save", "warning", name, "is a folder of a save that did not end: it can be removed")
        for name in kept
        if UNFINISHED.search(name.rpartition("/")[2]) is not None
    ]


def _step(folder: Folder, name: str) -> int | None:
    """The step of a folder that is a checkpoint by its name and holds something; None where it is none."""
    base = (
        UNFINISHED.sub("", name.rpartition("/")[2])
        if UNFINISHED.search(name.rpartition("/")[2])
        else name.rpartition("/")[2]
    )
    match = NAMED.match(base)
    if match is None or megatron.RANK.search(name) or name.rpartition("/")[2] == LATEST:
        return None
    if not any(f.startswith(f"{name}/") and holds_tensors(f) for f in folder.sizes):
        return None
    return int((match["n"] or match["s"])[:18])


def _marker(folder: Folder) -> str | None:
    for name in (LATEST, megatron.TRACKER):
        if name in folder.sizes:
            return name
    return None


def _by_marker(folder: Folder, marker: str, kept: dict[str, int]) -> Choice:
    try:
        text = folder.read(marker, 0, 4096).decode("utf-8", "replace").strip("\0 \r\n\t")
    except OSError as error:
        text = ""
        problem = Problem("marker_unreadable", "damage", marker, f"cannot be read: {error.strerror}")
    else:
        problem = Problem(
            "marker_unreadable", "damage", marker, "is empty or holds zeros: it was not written to its end"
        )
    own = any(holds_tensors(name) for name in folder.under(""))
    target = _target(folder, marker, text)
    choice = Choice(others=[n for n in kept if n != target])
    if not text:
        choice.problems.append(problem)
    elif target is None:
        what = f"names {text[:200]!r}, and there is no such checkpoint"
        fix = f"Use another checkpoint ({', '.join(list(kept)[-3:])}): write its name into {marker}." if kept else ""
        choice.problems.append(Problem("marker_dangling", "damage", marker, what, fix))
    if target is None:
        # What a person would have to take instead is still worth a look.
        choice.below = "" if own or not kept else max(kept, key=lambda n: (kept[n], n))
        choice.dangling = not own and not kept
        choice.others = [n for n in kept if n != choice.below]
    else:
        # A trainer's own files may lie beside the folder that DeepSpeed's marker names; both are one checkpoint.
        choice.below = "" if own else target
        newer = [n for n, s in kept.items() if n != target and s > kept.get(target, s)]
        choice.problems += [
            Problem(
                "marker_behind", "warning", marker, f"names {text[:200]}, and {n} is newer: its save may not have ended"
            )
            for n in newer
        ]
    choice.problems += [p for p in _unfinished(kept) if p.file != choice.below]
    choice.problems += _told(_still_open(folder, kept), choice.below)
    return choice


def check_markers(folder: Folder, below: str) -> list[Problem]:
    """Markers of DeepSpeed inside a checkpoint, as the Hugging Face Trainer has them, and tags without any."""
    problems = []
    stem = f"{below}/" if below else ""
    for name in folder.under(below):
        base = re.sub(r"(?:-EMA)?\.(?:ckpt|nemo)$", "", name)
        if base != name and f"{base}{OPEN}" in folder.sizes:
            what = f"has {base.rpartition('/')[2]}{OPEN} beside it: its save did not end"
            problems.append(Problem("unfinished_save", "damage", name, what))
    for name in folder.folders:
        above, _, base = name.rpartition("/")
        marker = f"{above}/{LATEST}" if above else LATEST
        inside = not below or name == below or name.startswith(stem)
        ours = deepspeed.TAG.match(base) and deepspeed.is_deepspeed(folder.under(name))
        if inside and ours and marker not in folder.sizes:
            what = "has no file `latest` beside it: a program that is not told the tag does not find it"
            problems.append(Problem("marker_missing", "warning", name, what))
    marker = f"{stem}{LATEST}"
    if below and marker in folder.sizes:
        text = folder.read(marker, 0, 4096).decode("utf-8", "replace").strip("\0 \r\n\t")
        if f"{stem}{text}" not in folder.folders:
            kind: ProblemKind = "marker_dangling" if text else "marker_unreadable"
            what = (
                f"names {text[:200]!r}, and there is no such folder"
                if text
                else "is empty: it was not written to its end"
            )
            problems.append(Problem(kind, "damage", marker, what))
    return problems


def _target(folder: Folder, marker: str, text: str) -> str | None:
    """The folder that a marker's text names; None where it is not there."""
    if not text or "/" in text or text.startswith("."):
        return None
    if marker == LATEST:
        return text if text in folder.folders else None
    if text == "release":
        return "release" if "release" in folder.folders else None
    if not text.isdigit():
        return None
    for name in folder.folders:
        match = megatron.ITERATION.search(name)
        if match is not None and "/" not in name and int(match[1]) == int(text[:18]):
            return name
    return None


def step_in(name: str) -> int | None:
    """The step that a folder's name states."""
    base = name.rstrip("/").rpartition("/")[2]
    for pattern in (deepspeed.TAG, megatron.ITERATION, re.compile(r"^checkpoint-(\d+)$"), re.compile(r"step=(\d+)")):
        match = pattern.search(base)
        if match is not None:
            return int(match[1][:18])
    return None
