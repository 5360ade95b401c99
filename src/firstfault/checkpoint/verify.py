"""Whether a checkpoint is whole: what it holds, what is wrong with it, and the digests of its shards.

The judgement of one checkpoint; two are held against one another by `compare`. Prints nothing.
"""

from __future__ import annotations

import hashlib
import re
import struct
from contextlib import nullcontext
from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.checkpoint.choose import Choice, check_markers, choose, step_in
from firstfault.checkpoint.dtypes import SIZES
from firstfault.checkpoint.folder import Folder, natural
from firstfault.checkpoint.nouns import Problem, product
from firstfault.checkpoint.reading import Reading, bytes_of, elements, read_all
from firstfault.checkpoint.unit import Unit, read_unit, save_of
from firstfault.model.checkpoint import Checkpoint, CheckpointProblem, Part, PartRow, Shard, State

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from firstfault.model.checkpoint import Weight

    Progress = Callable[[int], AbstractContextManager[Callable[[int], None] | None]]

PARTS: tuple[Part, ...] = ("weights", "optimizer", "scheduler", "trainer", "rng", "scaler", "data", "settings")
_FILE_RANK = re.compile(
    r"__(\d+)_\d+\.distcp$|zero_pp_rank_(\d+)_|(?<!mp)(?:^|[/._-])(?:rank|rng_state|random_states)[._-]?(\d+)"
)
_UNSURE = frozenset({"mixed_steps", "zeroed_file", "unreadable", "world_size"})
"""Kinds that, even as warnings, leave open whether a checkpoint is whole."""


class Opened(Struct):
    """One checkpoint, read."""

    folder: Folder
    choice: Choice
    unit: Unit
    reading: Reading | None
    """None where the bytes of tensors were not read."""
    problems: list[Problem]
    asked: int | None = None
    """Ranks that should have written it, where the caller said so."""


def open_checkpoint(
    path: Path, *, read: bool = True, world_size: int | None = None, progress: Progress | None = None
) -> Opened:
    """Reads a checkpoint.

    Args:
        path: its folder, a folder of several, or one file.
        read: whether to read the bytes of tensors too.
        world_size: ranks that wrote it, where the caller knows.
        progress: given the bytes in all, makes what is told of bytes as they are read.

    Raises:
        OSError: the path cannot be opened.
    """
    folder = Folder(path)
    choice = choose(folder)
    leave = tuple(n for n in choice.others if not choice.below.startswith(f"{n}/") and n != choice.below)
    unit = read_unit(folder, choice.below, leave)
    reading = None
    if read:
        with nullcontext() if progress is None else progress(bytes_of(unit.content)) as tell:
            reading = read_all(folder, unit.content, tell)
    problems = [*choice.problems, *unit.content.problems, *(reading.problems if reading else [])]
    problems += check_markers(folder, choice.below)
    problems += _steps(folder, unit)
    problems += _optimizer_steps(folder, unit)
    problems += _other_save(folder, unit)
    problems += _world(unit, world_size)
    problems += _parts_missing(folder, unit)
    return Opened(folder, choice, unit, reading, _once(problems), world_size)


def _once(problems: list[Problem]) -> list[Problem]:
    """Each once, damage first, in the order of files."""
    return sorted(dict.fromkeys(problems), key=lambda p: (p.weight != "damage", natural(p.file), p.kind, p.what))


def _steps(folder: Folder, unit: Unit) -> list[Problem]:
    """The step that the trainer states against the one of the folder's name."""
    steps = unit.content.steps
    trainer = {f: s for f, s in steps.items() if f.rpartition("/")[2] == "trainer_state.json"}
    named = step_in(unit.below or folder.root.name)
    problems = []
    for file, step in trainer.items():
        if named is not None and named != step:
            what = f"states step {step}, and its folder is named after step {named}"
            problems.append(Problem("mixed_steps", "damage", file, what))
        for other, its in steps.items():
            tag = step_in(other.rpartition("/")[0])
            if other != file and its != step and tag is not None:
                what = f"is of step {its}, and the trainer's state of step {step}"
                problems.append(Problem("mixed_steps", "damage", other, what))
    return problems


_STEP = re.compile(r"(?:^|[./])state\.(?P<name>.+)\.step$|(?:^|[./])step$")


def optimizer_steps(folder: Folder, unit: Unit) -> dict[str, list[int]]:
    """File -> steps that the optimizer's states in it have made."""
    found: dict[str, list[int]] = {}
    for (part, path), held in unit.content.tensors.items():
        if (
            part != "optimizer"
            or product(held.shape) != 1
            or _STEP.search(path) is None
            or held.dtype not in {"float32", "int64"}
        ):
            continue
        for piece in held.pieces:
            try:
                with folder.path(piece.record.file).open("rb") as file:
                    raw = elements(file, held.dtype, piece).tobytes()
            except OSError:
                continue
            number = struct.unpack("<f" if held.dtype == "float32" else "<q", raw)[0]
            if abs(number) < 1e15:  # a NaN is not
                found.setdefault(piece.record.file, []).append(int(number))
    for (part, path), text in unit.content.values.items():
        if part == "optimizer" and _STEP.search(path) is not None and text.isdigit() and "/" in path:
            found.setdefault(path.partition("/")[0], []).append(int(text))
    return found


def _optimizer_steps(folder: Folder, unit: Unit) -> list[Problem]:
    """Shards whose optimizer states have made another number of steps than those of the others of their save."""
    uniform = {file: steps for file, steps in optimizer_steps(folder, unit).items() if len(set(steps)) == 1}
    saves: dict[str, dict[str, list[int]]] = {}
    for file, steps in uniform.items():
        saves.setdefault(save_of(_file_of(file, unit)), {})[file] = steps
    stated = list(unit.content.steps.values())
    problems = []
    for files in saves.values():
        values = sorted(steps[0] for steps in files.values())
        # Of as many files of one step as of another, those of the checkpoint's own step are right.
        most = max(sorted(set(values)), key=lambda v: (values.count(v), stated.count(v)))
        for file, steps in files.items():
            if steps[0] != most:
                # One parameter of its own may have had no gradient in some steps; several alike are another save.
                weight: Weight = "damage" if len(steps) > 1 or "zero_pp_rank" in file else "warning"
                what = f"holds optimizer states after {steps[0]} steps, and other files after {most}: it is of another save"
                problems.append(Problem("mixed_steps", weight, _file_of(file, unit), what))
    return problems


def _file_of(file: str, unit: Unit) -> str:
    """The file of a prefix; a file's name as it is."""
    if file in unit.content.files:
        return file
    return next((f for f in unit.content.files if file in f and "optim" in f), file)


def _other_save(folder: Folder, unit: Unit) -> list[Problem]:
    """Shards that were written after the metadata, where others were written before: a second save into the same folder."""
    problems = []
    for name in folder.sizes:
        if name.rpartition("/")[2] != ".metadata" or not (name.startswith(f"{unit.below}/") or not unit.below):
            continue
        try:
            written = folder.path(name).stat().st_mtime
            place = name.rpartition("/")[0]
            shards = {f: folder.path(f).stat().st_mtime for f in folder.under(place) if f.endswith(".distcp")}
        except OSError:
            continue
        later = [f for f, when in shards.items() if when > written + 2]
        if later and len(later) < len(shards):
            what = f"was written {max(shards[f] for f in later) - written:.0f} s after the metadata, and other shards before it: "
            what += "a second save into this folder may have begun and not ended"
            problems += [Problem("mixed_steps", "warning", f, what) for f in later]
    return problems


def _world(unit: Unit, world_size: int | None) -> list[Problem]:
    stated = unit.content.stated.get("world_size")
    least = unit.content.stated.get("world_size_at_least")
    if world_size is None:
        return []
    if stated is not None and stated != world_size:
        return [
            Problem(
                "world_size", "damage", unit.below, f"was written by {stated} ranks, and {world_size} were asked for"
            )
        ]
    if stated is None and least is not None and least > world_size:
        return [
            Problem(
                "world_size",
                "damage",
                unit.below,
                f"was written by at least {least} ranks, and {world_size} were asked for",
            )
        ]
    if stated is None and least is not None and least < world_size:
        what = f"has files of {least} ranks, and {world_size} were asked for: the others had nothing of their own to save, or took no part"
        return [Problem("world_size", "warning", unit.below, what)]
    return []


def _parts_missing(folder: Folder, unit: Unit) -> list[Problem]:
    """Parts that others show to have been saved, so that their absence is a save that did not end."""
    content = unit.content
    broken = {p.file for p in content.problems if p.weight == "damage"}
    if broken:
        return []
    held = {part for part, _ in content.tensors}
    found = []
    if "optimizer" in held and "weights" not in held:
        found.append(
            Problem("missing_part", "damage", unit.below, "holds an optimizer and no weights: its save did not end")
        )
    stem = f"{unit.below}/" if unit.below else ""
    if f"{stem}optimizer.pt" in folder.sizes and re.fullmatch(
        r"checkpoint-\d+", (unit.below or folder.root.name).rpartition("/")[2]
    ):
        for base, why in (
            ("trainer_state.json", "it is written last, so the save did not end"),
            ("scheduler.pt", "the Trainer then leaves the optimizer's state unread, without a word"),
        ):
            if stem + base not in folder.sizes:
                what = f"is missing beside optimizer.pt: {why}"
                found.append(Problem("missing_part", "damage", stem + base, what))
    return found


def report(opened: Opened, given: str) -> Checkpoint:
    """What is published of a checkpoint.

    Args:
        opened: as it was read.
        given: the path as it was given.
    """
    content = opened.unit.content
    shards = shards_of(opened)
    problems = opened.problems
    state = _state(opened)
    rows = parts_of(opened)
    step = _step_of(opened)
    return Checkpoint(
        folder=given,
        verified=opened.unit.below,
        layouts=opened.unit.layouts,
        state=state,
        summary=_summary(opened, state, rows, step),
        step=step,
        world_size=content.stated.get("world_size"),
        read=opened.reading is not None,
        parts=rows,
        problems=[
            CheckpointProblem(kind=p.kind, weight=p.weight, file=p.file, what=p.what, fix=p.fix) for p in problems
        ],
        not_checked=_not_checked(opened, rows),
        shards=shards,
        digest=digest_of(shards),
        others=opened.choice.others,
        steps=_advice(opened, state),
    )


def _state(opened: Opened) -> State:
    if any(p.weight == "damage" for p in opened.problems):
        return "damaged"
    if not opened.unit.content.tensors or any(p.kind in _UNSURE for p in opened.problems):
        return "unknown"
    return "complete"


def _step_of(opened: Opened) -> int | None:
    """The step that most files state, else the folder's name; None where files that are each a save of their own differ."""
    stated = opened.unit.content.steps
    trainer = [step for file, step in stated.items() if file.endswith("trainer_state.json")]
    if trainer:
        return trainer[-1]
    if len(set(stated.values())) > 1 and len({save_of(file) for file in stated}) > 1:
        return None
    steps = sorted(stated.values())
    return max(set(steps), key=steps.count) if steps else step_in(opened.unit.below or opened.folder.root.name)


def _summary(opened: Opened, state: State, rows: list[PartRow], step: int | None) -> str:
    at = "" if step is None else f" of step {step}"
    damage = [p for p in opened.problems if p.weight == "damage"]
    if state == "damaged":
        first = damage[0]
        more = f", and {len(damage) - 1} more" if len(damage) > 1 else ""
        where = first.file or opened.unit.below or "the checkpoint"
        return f"The checkpoint{at} cannot be trusted: {where} {first.what}{more}."
    if not opened.unit.content.tensors:
        return "No tensor was found in the files that could be read."
    if state == "unknown":
        first = next(p for p in opened.problems if p.kind in _UNSURE)
        where = first.file or opened.unit.below or "the checkpoint"
        return f"Whether the checkpoint{at} is whole is not certain: {where} {first.what}."
    held = ", ".join(row.part for row in rows if row.part != "settings")
    how = "every tensor was read" if opened.reading is not None else "values of tensors were not read"
    return f"The checkpoint{at} is complete as far as its layout tells; it holds {held}; {how}."


def parts_of(opened: Opened) -> list[PartRow]:
    """What of each part it holds."""
    content = opened.unit.content
    rows = []
    for part in PARTS:
        tensors = [held for (p, _), held in content.tensors.items() if p == part]
        values = sum(1 for p, _ in content.values if p == part)
        files = {piece.record.file for held in tensors for piece in held.pieces}
        files |= {f for f, p in content.files.items() if p == part and part != "weights"}
        if tensors or values:
            size = sum(product(h.shape) * SIZES.get(h.dtype, 0) for h in tensors)
            rows.append(PartRow(part=part, files=len(files), tensors=len(tensors), bytes=size, values=values))
    return rows


def _not_checked(opened: Opened, rows: list[PartRow]) -> list[str]:
    told = []
    if opened.reading is None:
        told.append("values of tensors: --quick leaves them out, so that changed bytes and NaN go unseen")
    held = {row.part for row in rows}
    if "weights" in held:
        absent = [part for part in ("optimizer", "scheduler", "rng") if part not in held]
        told += [f"{part}: the checkpoint holds none, and nothing in it says that it should" for part in absent]
    content = opened.unit.content
    if opened.asked is not None and not {"world_size", "world_size_at_least"} & set(content.stated):
        told.append("the number of ranks: nothing in the checkpoint states how many wrote it")
    without = sorted(
        {p.record.file for h in content.tensors.values() for p in h.pieces if p.record.crc is None and p.record.length},
        key=natural,
    )
    if opened.reading is not None and without:
        told.append(
            f"checksums of {len(without)} files, first {without[0]}: their format has none, so a changed byte goes unseen"
        )
    if content.passed_over:
        first = min(content.passed_over, key=natural)
        told.append(f"{len(content.passed_over)} files that are of no kind that is read, first {first}")
    told += [f"{name}: its content could not be had" for name in sorted(content.unopened, key=natural)]
    return told


def shards_of(opened: Opened) -> list[Shard]:
    """The files that hold tensors, in the order of ranks, else of names, each with its digest."""
    content = opened.unit.content
    by_file: dict[str, list[tuple[str, str]]] = {}
    unread: set[str] = set()
    for key, held in content.tensors.items():
        seen = opened.reading.pieces[key] if opened.reading else [None] * len(held.pieces)
        for piece, its in zip(held.pieces, seen, strict=True):
            lines = by_file.setdefault(piece.record.file, [])
            if its is None:
                unread.add(piece.record.file)
            else:
                where = f"{'.'.join(map(str, piece.at))} {'.'.join(map(str, piece.shape))}"
                lines.append((f"{key[0]} {key[1]}", f"{held.dtype} {where} {its.digest}"))
    shards = []
    for file in sorted(by_file, key=natural):
        match = _FILE_RANK.search(file)
        rank = next((int(g) for g in match.groups() if g is not None), None) if match else None
        text = "\n".join(f"{name} {rest}" for name, rest in sorted(by_file[file]))
        digest = None if file in unread else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        shards.append(
            Shard(file=file, rank=rank, bytes=opened.folder.sizes[file], tensors=len(by_file[file]), digest=digest)
        )
    return shards


def digest_of(shards: list[Shard]) -> str | None:
    """One digest over those of the shards in their order; None where one of them was not read."""
    digests = [s.digest for s in shards if s.digest is not None]
    if not shards or len(digests) < len(shards):
        return None
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def _advice(opened: Opened, state: State) -> list[str]:
    told = list(dict.fromkeys(p.fix for p in opened.problems if p.fix))
    if state == "damaged" and not told:
        kinds = {p.kind for p in opened.problems if p.weight == "damage"}
        if kinds & {"missing_shard", "missing_part"}:
            told.append("Look for the files on the other nodes: each may have written to a disk of its own.")
        told.append("Resume from an earlier checkpoint, and verify that one first.")
    if opened.choice.others and state != "complete":
        told.append(f"Verify the others too: {', '.join(opened.choice.others[-3:])}.")
    return told
