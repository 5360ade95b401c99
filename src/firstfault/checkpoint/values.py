"""The plain values and tensors inside what a checkpoint's pickle or JSON holds, each with the keys that lead to it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from firstfault.readers.husks import Husk
from firstfault.readers.unpickle_torch import ArrayStub, DType, NumpyType, TensorStub

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_VALUES = 5_000_000
"""Values that are walked over in one file."""
DEEPEST = 100
"""Containers within containers."""
LONGEST = 120
"""Characters of a value's text; of a longer one the digest stands in its place."""
_PLAIN = (int, float, bool, str, bytes, type(None), complex, DType, NumpyType)


class TooManyValuesError(ValueError):
    """A file holds more values than are looked at."""


def walk(value: object) -> Iterator[tuple[tuple[str, ...], object]]:
    """Tensors, arrays and plain values in the order in which they stand; what is met again through a loop is left out.

    Raises:
        TooManyValuesError: there are more than `MOST_VALUES`.
    """
    todo: list[tuple[tuple[str, ...], object]] = [((), value)]
    seen: set[int] = set()
    count = 0
    while todo:
        path, held = todo.pop()
        count += 1
        if count > MOST_VALUES:
            raise TooManyValuesError(f"more than {MOST_VALUES:,} values")
        if len(path) > DEEPEST:
            raise TooManyValuesError(f"values more than {DEEPEST} deep")
        inside = None if isinstance(held, (TensorStub, ArrayStub, *_PLAIN)) else _inside(held)
        if inside is None:
            if isinstance(held, (list, tuple)):
                # One list may stand in another many times over; told as one text that would have no end.
                count += sum(len(v) if isinstance(v, (list, tuple)) else 1 for v in held)
                if count > MOST_VALUES:
                    raise TooManyValuesError(f"more than {MOST_VALUES:,} values")
            yield path, held
            continue
        if id(held) in seen:
            continue
        seen.add(id(held))
        todo += [((*path, key), item) for key, item in reversed(inside)]


def _inside(held: object) -> list[tuple[str, object]] | None:
    """What a container holds; None where it is told as one value."""
    if isinstance(held, dict):
        return [(_key(k), v) for k, v in held.items()] if held else None
    if isinstance(held, (list, tuple)):
        if all(isinstance(v, _PLAIN) or _flat(v) for v in held):
            return None
        return [(str(i), v) for i, v in enumerate(held)]
    if isinstance(held, Husk):
        state = held.state
        if isinstance(state, tuple) and len(state) == 2 and all(s is None or isinstance(s, dict) for s in state):
            state = {**(state[0] or {}), **(state[1] or {})}
        found: list[tuple[str, object]] = []
        if isinstance(state, dict):
            found += [(_key(k), v) for k, v in state.items()]
        elif state is not None:
            found.append(("state", state))
        found += [(str(i), v) for i, v in enumerate(held.args)]
        found += [(str(i), v) for i, v in enumerate(held.items)]
        plain = all(isinstance(v, _PLAIN) for _, v in found)
        return None if plain and not isinstance(state, dict) else found
    return None


def _flat(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(v, _PLAIN) for v in value)


def _key(key: object) -> str:
    return key if isinstance(key, str) else canonical(key)


def canonical(value: object, *, whole: bool = False) -> str:
    """One text for one value, whatever file it came from; long ones as their digest unless the whole is asked for."""
    text = _text(value)
    if whole or len(text) <= LONGEST:
        return text
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _text(value: Any) -> str:
    if isinstance(value, DType):
        return str(value)
    if isinstance(value, (bool, type(None), int, str, complex)):
        return repr(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, bytes):
        return f"bytes {len(value)} {hashlib.sha256(value).hexdigest()}"
    if isinstance(value, NumpyType):
        return value.name
    if isinstance(value, ArrayStub):
        raw = value.raw if isinstance(value.raw, bytes) else _text(value.raw).encode("utf-8", "surrogatepass")
        return f"array {value.dtype} {list(value.shape)} {hashlib.sha256(raw).hexdigest()}"
    if isinstance(value, (list, tuple)):
        # A list and a tuple of the same numbers mean the same, and formats turn one into the other.
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, dict):
        return "{}" if not value else "{…}"
    if isinstance(value, Husk):
        return f"{value.__firstfault_name__}({', '.join(map(_text, (*value.args, *value.items)))})"
    if isinstance(value, type) and issubclass(value, Husk):
        return value.__firstfault_name__
    return type(value).__name__
