"""Says in words what a line of the black box holds, beside the line itself, which is the proof.

Reads only the text that a report quotes, which may be cut; what is not in it is not said. It infers nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firstfault.recorder.format import DEATH, EXCEPTION, HANG, OOM, START

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIELD = re.compile(r'"(kind|rank|type|original|message|phase|step|how|device)":("(?:[^"\\]|\\.)*"?|-?\d+)')
_CLOSED = re.compile(r'"(?:[^"\\]|\\.)*"')
_ESCAPE = re.compile(r'\\(["\\/])')
_WHOLE = {EXCEPTION: ("type",), DEATH: ("how",), HANG: (), OOM: ()}
"""Kinds that are put into words, each with what must be known for it."""


def _bare(value: str) -> str:
    """A value without its quotation marks; one that was cut has but the first."""
    if not value.startswith('"'):
        return value
    return value[1:-1] if _CLOSED.fullmatch(value) else value[1:]


def in_words(text: str, say: Mapping[str, str]) -> str:
    """What a quoted line of the black box says; empty where it is none, or says nothing that has words.

    Args:
        text: the line as it is quoted, from its first character on.
        say: the messages of a language.
    """
    if not text.startswith(START):
        return ""
    found: dict[str, str] = {}
    for name, value in _FIELD.findall(text):
        # The first of a name is the record's own: those of its parts come behind it.
        found.setdefault(name, _ESCAPE.sub(r"\1", _bare(value)).split("\\n", 1)[0])
    kind = found.get("kind", "")
    needed = _WHOLE.get(kind)
    if needed is None or any(name not in found for name in needed):
        return ""
    if "original" in found and "message" in found:
        found["message"] = f"{found['message'].rstrip('.')}: {found['original']}"
    who = say["box.rank"].format(rank=found["rank"]) if "rank" in found else say["box.process"]
    said = say[f"box.{kind}"].format(who=who, **{n: found.get(n, "") for n in ("type", "message", "how")})
    where = [say[f"box.{name}"].format(**{name: found[name]}) for name in ("phase", "step") if name in found]
    return said.removesuffix(": ") + ("" if not where else f" ({', '.join(where)})")
