r"""Files that were glued into one by `tail -n 200 *.log`, `head` or `more`, taken apart at the headers between them.

Only a text that begins with such a header is looked at: `==> out/rank3.log <==`, or a name between two lines of fourteen
colons. A section that comes back (`tail -f` of several files) goes on where it stopped. Knows nothing of what lines mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.readers.containers import Container, Member
from firstfault.readers.sniff import SECTION_HEADER
from firstfault.readers.spool import SpoolFullError

if TYPE_CHECKING:
    from collections.abc import Iterator

_STEP = 4 << 20
_REACH = 1024
"""No header is longer."""


def section_members(container: Container) -> Iterator[Member]:
    """Every file that was glued in, in the order in which they begin; parts of one are joined.

    Raises:
        OSError: the file can no longer be read.
    """
    headers = list(_headers(container))
    stretches: dict[str, list[tuple[int, int]]] = {}
    for number, (_, end, name) in enumerate(headers):
        stop = headers[number + 1][0] if number + 1 < len(headers) else container.extent.size
        stretches.setdefault(name, []).append((end, stop))
    for name, parts in stretches.items():
        whole = [(start, stop) for start, stop in parts if stop > start]
        if len(whole) <= 1:
            start, stop = whole[0] if whole else parts[0]
            yield Member(name, container.part(start, stop - start))
        else:
            yield _joined(container, name, whole)


def _headers(container: Container) -> Iterator[tuple[int, int, str]]:
    """Start, end and name of each header; the blank line that `tail` puts before one belongs to it."""
    at, size = 0, container.extent.size
    while at < size:
        block = container.read(at, _STEP + _REACH)
        last = at + len(block) >= size
        if not block:
            return
        for found in SECTION_HEADER.finditer(block):
            if found.start() >= _STEP and not last:
                break
            tail = found["tail"]
            begin = at + found.start()
            if tail is not None and container.read(max(0, begin - 2), min(2, begin)) in {b"\n\n", b"\n"}:
                begin -= 1
            name = tail if tail is not None else found["more"]
            yield begin, at + found.end(), name.decode("utf-8", "backslashreplace")
        if last:
            return
        # The next block begins with a line, so that `^` means what it says.
        cut = block.rfind(b"\n", 0, _STEP) + 1
        at += cut if cut > 1 else _STEP


def _joined(container: Container, name: str, parts: list[tuple[int, int]]) -> Member:
    start = container.spool.end
    reason = ""
    try:
        for begin, stop in parts:
            for at in range(begin, stop, _STEP):
                container.spool.write(container.read(at, min(_STEP, stop - at)))
    except SpoolFullError as error:
        reason = str(error)
    return Member(name, container.spool.since(start), reason)
