"""Takes off the label that a stream puts before each of its lines, where its time is another one in each. Must not judge what a line says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Callable

_TIME = r"(?:\d{4}[-/]\d\d[-/]\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_STAMP = lazy(_TIME)
LONGEST = 400
"""Characters of a label at most: what is longer is a line of its own."""


def behind(label: str) -> Callable[[str], str | None]:
    """What gives the text of a line behind a label; None for a line that has another one.

    A time in the label may differ, a rank or the name of a pod may not. A line of nothing but its label may have lost the blank at its end.
    """
    if len(label) > LONGEST:
        return lambda _: None
    bare = label.rstrip(" ")
    blanks = label[len(bare) :]
    form = _TIME.join(map(re.escape, _STAMP.split(bare)))
    begin = re.compile(f"{form}(?:{blanks}|$)" if blanks else form)

    def text(line: str) -> str | None:
        found = begin.match(line)
        return None if found is None else line[found.end() :]

    return text
