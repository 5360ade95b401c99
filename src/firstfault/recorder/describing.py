"""Facts of a run as they are written: a configuration with the hash by which two runs are told apart."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def hashed(facts: dict[str, Any], clean: Callable[[Any, str], Any]) -> dict[str, Any]:
    """The facts without secrets, and for each map or object among them the hash of what is left of it.

    A secret is in no hash: whoever has the rest of a configuration could find a short one by trying.

    Args:
        facts: as the program gives them: values, maps, namespaces, dataclasses.
        clean: takes secrets out of a value with its name.
    """
    found: dict[str, Any] = {}
    for name, value in facts.items():
        plain = clean(_plain(value), str(name))
        found[name] = plain
        if isinstance(plain, (dict, list)):
            text = json.dumps(plain, sort_keys=True, default=str, ensure_ascii=False)
            found[f"{name}_sha256"] = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, (str, int, float, bool, dict, list)) or value is None:
        return value
    if isinstance(value, (tuple, set, frozenset)):
        return list(value)
    fields = getattr(value, "__dict__", None)
    return dict(fields) if isinstance(fields, dict) and fields else value
