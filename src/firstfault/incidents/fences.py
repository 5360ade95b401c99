"""Which lines of a Markdown text are code between fences: what looks like a heading or a table there is none. Reads no file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_FENCE = re.compile(r"[ \t]{0,3}(`{3,}|~{3,})")


def with_code(lines: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it is code or a fence of it."""
    fence = ""
    for line in lines:
        mark = _FENCE.match(line)
        if mark is not None and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        yield line, bool(fence) or mark is not None
