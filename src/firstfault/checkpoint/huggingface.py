"""Weights cut into numbered files, as Hugging Face libraries write them, with or without their index."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firstfault.checkpoint.contents import json_of
from firstfault.checkpoint.dtypes import SIZES
from firstfault.checkpoint.nouns import Problem, product

if TYPE_CHECKING:
    from firstfault.checkpoint.folder import Folder
    from firstfault.checkpoint.nouns import Content

NUMBERED = re.compile(r"(?P<stem>.*?)-(?P<n>\d{2,6})-of-(?P<all>\d{2,6})(?P<end>\.(?:safetensors|bin|pt|pth))$")
INDEX = ".index.json"


def index_files(folder: Folder, below: str) -> list[str]:
    """Indexes that lie in a folder."""
    return [name for name in folder.under(below) if name.endswith(INDEX)]


def missing_numbers(folder: Folder, below: str) -> list[Problem]:
    """Files that the numbers in the names of others show to be missing, and files of another number of pieces."""
    groups: dict[tuple[str, str], dict[int, set[int]]] = {}
    widths: dict[tuple[str, str], int] = {}
    for name in folder.under(below):
        found = NUMBERED.match(name)
        if found is not None:
            key = (found["stem"], found["end"])
            groups.setdefault(key, {}).setdefault(int(found["all"]), set()).add(int(found["n"]))
            widths[key] = len(found["n"])
    problems: list[Problem] = []
    for (stem, end), sets in groups.items():
        width = widths[stem, end]
        for total, there in sets.items():
            start = 0 if 0 in there else 1
            for n in range(start, total + start):
                if n not in there and total <= 100_000:
                    name = f"{stem}-{n:0{width}d}-of-{total:0{width}d}{end}"
                    problems.append(
                        Problem("missing_shard", "damage", name, f"is missing: {len(there)} of {total} are there")
                    )
        if len(sets) > 1:
            totals = " and ".join(map(str, sorted(sets)))
            what = f"files of {totals} pieces lie beside one another: two saves of different sizes"
            problems.append(Problem("extra_shard", "damage", f"{stem}-*{end}", what))
    return problems


def check_index(folder: Folder, name: str, content: Content) -> None:
    """Holds an index against the files that it names."""
    index = json_of(folder, name)
    if isinstance(index, Problem):
        content.problems.append(index)
        content.unopened.add(name)
        return
    places = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(places, dict) or not all(isinstance(v, str) for v in places.values()):
        content.problems.append(Problem("unreadable", "damage", name, "is no index: it has no weight_map"))
        return
    below = name.rpartition("/")[0]
    stem = f"{below}/" if below else ""
    known = {p.file for p in content.problems if p.kind == "missing_shard"}
    for file in sorted(set(places.values())):
        if stem + file not in folder.sizes and stem + file not in known:
            held = sum(1 for v in places.values() if v == file)
            content.problems.append(
                Problem("missing_shard", "damage", stem + file, f"is missing: the index places {held} tensors in it")
            )
    _tensors(folder, name, places, stem, content)
    _total(name, index, {stem + file for file in places.values()}, content)


def _tensors(folder: Folder, name: str, places: dict[str, str], stem: str, content: Content) -> None:
    files = {stem + f for f in places.values()}
    there: dict[str, set[str]] = {file: set() for file in files}
    for (_, tensor), held in content.tensors.items():
        for piece in held.pieces:
            if piece.record.file in there:
                # A name that two files have is told from the other by the file behind it.
                there[piece.record.file].add(tensor.removesuffix(f"@{piece.record.file}"))
    broken = content.unopened | {p.file for p in content.problems if p.kind in {"truncated", "wrong_size", "layout"}}
    for tensor, file in places.items():
        if stem + file in broken or stem + file not in folder.sizes or tensor in there[stem + file]:
            continue
        other = next((f for f, names in there.items() if tensor in names), None)
        if other is None:
            what = f"lacks {tensor[:200]}, which the index places in it"
            content.problems.append(Problem("missing_tensor", "damage", stem + file, what))
        else:
            what = f"places {tensor[:200]} in {file}, and it lies in {other}: index and files are of two saves"
            content.problems.append(Problem("misplaced_tensor", "damage", name, what))
    extra = sorted({t for names in there.values() for t in names} - set(places))
    if extra:
        what = f"says nothing of {len(extra)} tensors that its files hold, first {extra[0][:200]}"
        content.problems.append(Problem("misplaced_tensor", "warning", name, what))


def _total(name: str, index: dict[str, object], files: set[str], content: Content) -> None:
    meta = index.get("metadata")
    stated = meta.get("total_size") if isinstance(meta, dict) else None
    if not isinstance(stated, (int, float)) or any(p.weight == "damage" for p in content.problems):
        return
    total = sum(
        product(held.shape) * SIZES.get(held.dtype, 0)
        for held in content.tensors.values()
        if any(piece.record.file in files for piece in held.pieces)
    )
    # Tied tensors may be counted once or as often as they are named.
    if total != stated and not 0.5 <= stated / max(total, 1) <= 2:
        what = f"states {int(stated):,} bytes in all, and its tensors have {total:,}"
        content.problems.append(Problem("wrong_size", "warning", name, what))
