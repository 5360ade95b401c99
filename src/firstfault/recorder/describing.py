"""Facts of a run as they are written: a configuration with the hash by which two runs are told apart, and what changes in it.

What is of one process alone (addresses of objects, the order of a set) is in no fact: all ranks of a job write the same hash.
"""

from __future__ import annotations

import hashlib
import json
import re
import types
from typing import TYPE_CHECKING, Any

from firstfault.recorder.clean import DEEPEST, MOST, shown

if TYPE_CHECKING:
    from collections.abc import Callable

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]{4,16}\b")
_MOST_VALUES = 20_000
"""Values of one configuration that are looked at."""


def hashed(facts: dict[str, Any], clean: Callable[[Any, str], Any]) -> dict[str, Any]:
    """The facts without secrets, and for each map or object among them the hash of what is left of it.

    A secret is in no hash: whoever has the rest of a configuration could find a short one by trying.

    Args:
        facts: as the program gives them: values, maps, namespaces, dataclasses.
        clean: takes secrets out of a value with its name.
    """
    found: dict[str, Any] = {}
    for name, value in facts.items():
        plain = clean(_Plain().of(value), str(name))
        found[name] = plain
        if isinstance(plain, (dict, list)):
            text = json.dumps(plain, sort_keys=True, default=str, ensure_ascii=False)
            found[f"{name}_sha256"] = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]
    return found


def changes(was: dict[str, Any], now: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What is another value in `now`, each with both values; of maps only the entries that changed, by their paths (`config.lr`).

    Args:
        was: all facts that were told before.
        now: those that are told now; the others stay as they are.
    """
    found: dict[str, dict[str, Any]] = {}
    for name, value in now.items():
        before = was.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            gone = dict.fromkeys(k for k in before if k not in value)
            found.update({f"{name}.{path}": change for path, change in changes(before, {**gone, **value}).items()})
        elif before != value:
            found[str(name)] = {"was": before, "now": value}
    return found


class _Plain:
    """Makes maps, lists and leaves of what a program gives; for one value."""

    def __init__(self) -> None:
        self._left = _MOST_VALUES

    def of(self, value: Any, depth: int = 0) -> Any:
        """A value as one of those that JSON knows, as far as it has such a form."""
        self._left -= 1
        if isinstance(value, (str, int, float, bool)) or value is None:
            return value
        if depth > DEEPEST or self._left < 0:
            return "…"
        if isinstance(value, (set, frozenset)):
            return sorted((self.of(v, depth + 1) for v in value), key=lambda v: (type(v).__name__, str(v)))[:MOST]
        if isinstance(value, (list, tuple)):
            return [self.of(v, depth + 1) for v in value[:MOST]]
        if isinstance(value, dict):
            return {k: self.of(v, depth + 1) for k, v in list(value.items())[:MOST]}
        fields = _fields(value, outermost=depth == 0)
        if fields:
            return {k: self.of(v, depth + 1) for k, v in list(fields.items())[:MOST]}
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
            return f"{value.__module__}.{value.__qualname__}"
        return _ADDRESS.sub("", shown(value))


def _fields(value: Any, *, outermost: bool) -> dict[Any, Any] | None:
    """What is in a map, a namespace or a dataclass; of other objects only where the program gives one as a fact: it may hold a model."""
    kind = type(value)
    if isinstance(value, type) or hasattr(kind, "close"):
        return None  # an open archive has names too, and to ask for what is under them reads it
    if hasattr(kind, "keys") and hasattr(kind, "__getitem__"):
        try:
            return {k: value[k] for k in value.keys()}  # noqa: SIM118 - not each such class can be gone through itself
        except Exception:  # noqa: BLE001 - a program's own class may do anything
            return None
    plain = outermost or isinstance(value, types.SimpleNamespace) or kind.__name__ == "Namespace"
    fields = getattr(value, "__dict__", None)
    return dict(fields) if (plain or hasattr(kind, "__dataclass_fields__")) and isinstance(fields, dict) else None
