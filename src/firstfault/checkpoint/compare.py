"""Two checkpoints side by side: the same to the last bit, the same but for random states and the like, or different.

Tensors are held against one another whatever formats and cuts they lie in; a piece at a time, so that memory does not grow
with them. It does not judge whether either is whole; that is `verify`'s.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct, field

from firstfault.checkpoint.dtypes import SIZES
from firstfault.checkpoint.folder import natural
from firstfault.checkpoint.nouns import Content, Held, Key, product
from firstfault.checkpoint.reading import BLOCK, Seen, elements
from firstfault.checkpoint.verify import PARTS, Opened, digest_of, shards_of
from firstfault.model.checkpoint import CheckpointComparison, CheckpointDifference, Part, PartComparison, Sameness

if TYPE_CHECKING:
    from collections.abc import Iterator

SHOWN = 20
"""Differences that are told one by one."""
_WRAPPERS = re.compile(r"(?:^|(?<=\.))(?:_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.")
_PREFIXES = ("module.", "model.")
_FLEETING = re.compile(
    r"time|runtime|per_second|path|version|log_history|output_dir|_dir$|date|wandb|run_id|save_id|host|uuid|callbacks",
    re.IGNORECASE,
)
"""Values of the trainer that tell of the run and not of its state."""
_STATE = re.compile(r"^(?P<before>(?:.*/)?)state\.(?P<which>\d+)\.(?P<slot>[^.]+)$")
_PARAMS = re.compile(r"^(?:.*/)?param_groups\.(\d+)\.params$")


class _Side(Struct):
    """One checkpoint with the names under which the other has the same."""

    opened: Opened
    tensors: dict[Key, Held] = field(default_factory=dict)
    values: dict[Key, str] = field(default_factory=dict)
    seen: dict[Key, list[Seen | None]] = field(default_factory=dict)


def compare(first: Opened, second: Opened, names: tuple[str, str]) -> CheckpointComparison:
    """What differs between two checkpoints, and what first.

    Args:
        first: one of them, with its tensors read.
        second: the other, likewise.
        names: how they were given.
    """
    a, b = _side(first), _side(second)
    _align_weights(a, b)
    _align_optimizer(a, b)
    rows: list[PartComparison] = []
    differences: list[CheckpointDifference] = []
    for part in PARTS:
        row, found = _part(part, a, b)
        rows.append(row)
        if part != "settings":
            differences += found
    verdict = _verdict(rows)
    return CheckpointComparison(
        first=names[0],
        second=names[1],
        verdict=verdict,
        summary=_summary(verdict, rows, differences),
        digests=[digest_of(shards_of(o)) for o in (first, second)],
        parts=[row for row in rows if row.result != "absent"],
        first_difference=differences[0] if differences else None,
        differences=differences[:SHOWN],
        problems=[
            f"{name}: {p.file} {p.what}".replace(":  ", ": ")
            for name, o in zip(names, (first, second), strict=True)
            for p in o.problems
            if p.weight == "damage"
        ],
    )


def _side(opened: Opened) -> _Side:
    content = opened.unit.content
    seen = opened.reading.pieces if opened.reading else {}
    return _Side(opened, dict(content.tensors), dict(content.values), dict(seen))


def _align_weights(a: _Side, b: _Side) -> None:
    """Takes off what wrappers put before names, where the two then agree better."""
    for side in (a, b):
        _rename(side, "weights", lambda name: _WRAPPERS.sub("", name))
    for prefix in _PREFIXES:
        ours, theirs = ({n for p, n in side.tensors if p == "weights"} for side in (a, b))
        for side, own, other in ((a, ours, theirs), (b, theirs, ours)):
            bare = {n.removeprefix(prefix) for n in own}
            if own and all(n.startswith(prefix) for n in own) and len(bare & other) > len(own & other):
                _rename(side, "weights", lambda name, prefix=prefix: name.removeprefix(prefix))


def _rename(side: _Side, part: Part, change: Any) -> None:
    for table in (side.tensors, side.values, side.seen):
        renamed = {(p, change(n) if p == part else n): v for (p, n), v in table.items()}
        table.clear()
        table.update(renamed)  # type: ignore[arg-type]


def _align_optimizer(a: _Side, b: _Side) -> None:
    """Gives states that are kept by number the names of their parameters, where the other has them by name."""
    for side, other in ((a, b), (b, a)):
        numbered = any(_STATE.match(n) for p, n in side.tensors if p == "optimizer")
        named = any(n.startswith("state.") and not _STATE.match(n) for p, n in other.tensors if p == "optimizer")
        order = _order(other)
        if not (numbered and named and order):
            continue

        def by_name(name: str, order: list[str] = order) -> str:
            match = _STATE.match(name)
            if match is None or int(match["which"]) >= len(order):
                return name
            return f"{match['before']}state.{order[int(match['which'])]}.{match['slot']}"

        _rename(side, "optimizer", by_name)
        for each in (side, other):
            for key in [k for k in each.values if k[0] == "optimizer" and _PARAMS.match(k[1])]:
                del each.values[key]


def _order(side: _Side) -> list[str]:
    """Names of parameters in the order of the optimizer's groups."""
    groups = []
    for (part, name), text in side.values.items():
        match = _PARAMS.match(name)
        if part == "optimizer" and match is not None and text.startswith("["):
            try:
                groups.append((int(match[1]), ast.literal_eval(text)))
            except (ValueError, SyntaxError):
                return []
    return [str(name) for _, names in sorted(groups) for name in names]


def _part(part: Part, a: _Side, b: _Side) -> tuple[PartComparison, list[CheckpointDifference]]:
    ours, theirs = ({k for k in (*s.tensors, *s.values) if k[0] == part and not _fleeting(k)} for s in (a, b))
    if not ours or not theirs:
        result = "absent" if not ours and not theirs else "only_first" if ours else "only_second"
        found = (
            []
            if result == "absent"
            else [CheckpointDifference(part=part, name="", what=f"only the {'first' if ours else 'second'} has any")]
        )
        row = PartComparison(part=part, result=result, missing=len(ours), added=len(theirs))  # type: ignore[arg-type]
        return row, found
    missing, added = _untied(ours - theirs, a, theirs), _untied(theirs - ours, b, ours)
    differences: list[CheckpointDifference] = []
    both = sorted(ours & theirs, key=lambda k: natural(k[1]))
    differing = 0
    for key in both:
        found_here = _one(key, a, b)
        if found_here is not None:
            differing += 1
            differences.append(found_here)
    for keys, whose in ((missing, "first"), (added, "second")):
        names = sorted((name for _, name in keys), key=natural)[:SHOWN]
        differences += [CheckpointDifference(part=part, name=name, what=f"is only in the {whose}") for name in names]
    equal = not differing and not missing and not added
    row = PartComparison(
        part=part,
        result="equal" if equal else "differs",
        compared=len(both),
        differing=differing,
        missing=len(missing),
        added=len(added),
    )
    return row, differences


def _fleeting(key: Key) -> bool:
    return key[0] == "trainer" and _FLEETING.search(key[1]) is not None


def _untied(only: set[Key], side: _Side, other: set[Key]) -> set[Key]:
    """Without tensors that are another one by a second name, which some formats leave out."""
    if not only or not any(k[0] == "weights" for k in only):
        return only
    shared = {digest for k in other if k in side.tensors and (digest := _digest(side, k)) is not None}
    return {k for k in only if k not in side.tensors or _digest(side, k) not in shared}


def _digest(side: _Side, key: Key) -> tuple[object, ...] | None:
    """What tensors of the same elements that are cut alike have in common; None where one was not read."""
    held, seen = side.tensors[key], side.seen.get(key, [])
    if not seen or any(s is None for s in seen):
        return None
    cut = sorted((p.at, p.shape, s.digest) for p, s in zip(held.pieces, seen, strict=True) if s is not None)
    return (held.dtype, held.shape, *cut)


def _one(key: Key, a: _Side, b: _Side) -> CheckpointDifference | None:
    """How one tensor or value differs; None where it does not."""
    part, name = key
    if (key in a.tensors) != (key in b.tensors):
        return CheckpointDifference(part=part, name=name, what="is a tensor in one and a plain value in the other")
    if key not in a.tensors:
        if a.values[key] == b.values[key]:
            return None
        return CheckpointDifference(
            part=part,
            name=name,
            what=f"is {_short(a.values[key])} in the first and {_short(b.values[key])} in the second",
        )
    ours, theirs = a.tensors[key], b.tensors[key]
    if ours.shape != theirs.shape:
        return CheckpointDifference(
            part=part,
            name=name,
            what=f"has the shape {list(ours.shape)} in the first and {list(theirs.shape)} in the second",
        )
    if ours.dtype != theirs.dtype:
        return CheckpointDifference(
            part=part, name=name, what=f"is {ours.dtype} in the first and {theirs.dtype} in the second"
        )
    digests = _digest(a, key), _digest(b, key)
    if (None not in digests and digests[0] == digests[1]) or product(ours.shape) == 0:
        return None
    if not _covered(ours) or not _covered(theirs):
        which = "first" if not _covered(ours) else "second"
        return CheckpointDifference(part=part, name=name, what=f"could not be read as a whole in the {which}")
    return _elements(key, a, b)


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}…"


def _covered(held: Held) -> bool:
    return sum(p.numel for p in held.pieces) == product(held.shape)


def _elements(key: Key, a: _Side, b: _Side) -> CheckpointDifference | None:
    """The first element that differs, and how many do."""
    ours, theirs = a.tensors[key], b.tensors[key]
    count, first, values = 0, None, ("", "")
    try:
        for row, left, right in _side_by_side(ours, theirs, a.opened, b.opened):
            other = left != right
            number = int(np.count_nonzero(other))
            if number and first is None:
                at = np.unravel_index(int(np.argmax(other)), other.shape) if other.shape else ()
                values = (_value(left[at], ours.dtype), _value(right[at], ours.dtype))
                first = [int(i) for i in at]
                if first:
                    first[0] += row
            count += number
    except OSError as error:
        return CheckpointDifference(part=key[0], name=key[1], what=f"could not be read: {error.strerror or error}")
    if first is None:
        return None
    what = f"differs in {count:,} of {product(ours.shape):,} elements, first at {first}: {values[0]} in the first and {values[1]} in the second"
    return CheckpointDifference(part=key[0], name=key[1], what=what, index=first, elements=count)


def _side_by_side(
    ours: Held, theirs: Held, a: Opened, b: Opened
) -> Iterator[tuple[int, np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    if not ours.shape:
        yield 0, _rows(a, ours, 0, 0), _rows(b, theirs, 0, 0)
        return
    width = SIZES[ours.dtype] * product(ours.shape[1:])
    step = max(1, BLOCK // max(width, 1))
    for row in range(0, ours.shape[0], step):
        end = min(row + step, ours.shape[0])
        yield row, _rows(a, ours, row, end), _rows(b, theirs, row, end)


def _rows(opened: Opened, held: Held, begin: int, end: int) -> np.ndarray[Any, Any]:
    """Rows of a tensor, put together of its pieces."""
    if not held.shape:
        piece = held.pieces[0]
        with opened.folder.path(piece.record.file).open("rb") as file:
            return elements(file, held.dtype, piece)
    width = SIZES[held.dtype]
    letters = {1: "u1", 2: "<u2", 4: "<u4", 8: "<u8"}.get(width, f"V{width}")
    whole = np.zeros((end - begin, *held.shape[1:]), letters)
    for piece in held.pieces:
        low, high = max(begin, piece.at[0]), min(end, piece.at[0] + piece.shape[0])
        if low >= high or piece.numel == 0:
            continue
        with opened.folder.path(piece.record.file).open("rb") as file:
            part = elements(file, held.dtype, piece, (low - piece.at[0], high - piece.at[0]))
        where = (
            slice(low - begin, high - begin),
            *(slice(o, o + n) for o, n in zip(piece.at[1:], piece.shape[1:], strict=True)),
        )
        whole[where] = part
    return whole


def _value(bits: Any, dtype: str) -> str:
    """An element as a number."""
    raw = np.asarray(bits)
    kinds = {
        "float64": "<f8",
        "float32": "<f4",
        "float16": "<f2",
        "int64": "<i8",
        "int32": "<i4",
        "int16": "<i2",
        "int8": "i1",
    }
    if dtype == "bfloat16":
        return f"{(raw.astype('<u4') << 16).view('<f4'):.6g}"
    if dtype in kinds:
        number = raw.view(kinds[dtype])
        return f"{number:.9g}" if dtype.startswith("float") else str(int(number))
    return f"0x{raw.tobytes()[::-1].hex()}"


def _verdict(rows: list[PartComparison]) -> Sameness:
    by_part = {row.part: row.result for row in rows}
    if any(by_part[part] not in {"equal", "absent"} for part in ("weights", "optimizer")):
        return "different"
    whole = all(result in {"equal", "absent"} for part, result in by_part.items() if part != "settings")
    return "exact" if whole else "functional"


def _summary(verdict: Sameness, rows: list[PartComparison], differences: list[CheckpointDifference]) -> str:
    by_part = {row.part: row for row in rows}
    if verdict == "exact":
        held = [row.part for row in rows if row.result == "equal" and row.part != "settings"]
        return f"The two hold the same: {', '.join(held)}, to the last bit."
    first = differences[0]
    where = f"{first.part} {first.name}".strip()
    if verdict == "functional":
        apart = [row.part for row in rows if row.result not in {"equal", "absent"} and row.part != "settings"]
        same = "weights and optimizer" if by_part["optimizer"].result == "equal" else "weights"
        return f"Their {same} are the same to the last bit; {', '.join(apart)} {'is' if len(apart) == 1 else 'are'} not: {where} {first.what}."
    return (
        f"They differ, first in {where}: it {first.what}."
        if first.name
        else f"They differ: of the {first.part}, {first.what}."
    )


def nothing_to_compare(content: Content) -> bool:
    """Whether a checkpoint holds nothing that could be held against another."""
    return not content.tensors and not content.values
