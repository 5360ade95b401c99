"""Regular expressions that are compiled when they are first used: a run uses a few of the hundreds that readers know.

It knows nothing of what they match.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast

_METHODS = ("search", "match", "fullmatch", "finditer", "findall", "sub", "split", "subn")


class _Lazy:
    """Stands for a pattern; its first use puts the methods of the compiled one in its place."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        compiled: re.Pattern[Any] = re.compile(self._text, self._flags)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def lazy(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """A pattern as of `re.compile`, compiled at its first use; a wrong one therefore raises `re.error` only then."""
    return cast("re.Pattern[AnyStr]", _Lazy(text, flags))
