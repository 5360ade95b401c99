"""Sentences of a verdict, in English."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from firstfault.analysis.answer import Named
    from firstfault.analysis.scene import Scene
    from firstfault.analysis.suspects import Suspect
    from firstfault.model.evidence import Frame

SHOWN = 6
"""Ranks or hosts shown before a list is cut."""
QUOTED = 140
"""Characters of an exception's message shown in a sentence."""


def ranges(numbers: Iterable[int], *, most: int = SHOWN) -> str:
    """Numbers as `0-3, 7`, each once; beyond `most` runs how many more there are."""
    runs: list[list[int]] = []
    for n in sorted(set(numbers)):
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    parts = [str(low) if low == high else f"{low}-{high}" for low, high in runs[:most]]
    hidden = len(runs) - len(parts)
    return ", ".join(parts) + (f" … ({hidden} more runs)" if hidden else "")


def ranks_text(ranks: Sequence[int]) -> str:
    """`rank 3` or `ranks 0-7`; empty for none."""
    if not ranks:
        return ""
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranges(ranks)}"


def hosts_text(hosts: Sequence[str]) -> str:
    """Host names, the first few."""
    return ", ".join(hosts[:SHOWN]) + (f" and {len(hosts) - SHOWN} more" if len(hosts) > SHOWN else "")


def who_text(ranks: Sequence[int], hosts: Sequence[str]) -> str:
    """` on rank 3 (node-a)`, ` on node-a`, or nothing."""
    if ranks and hosts:
        return f" on {ranks_text(ranks)} ({hosts_text(hosts)})"
    if ranks:
        return f" on {ranks_text(ranks)}"
    return f" on {hosts_text(hosts)}" if hosts else ""


def duration(ms: int) -> str:
    """A duration as people say it."""
    seconds = ms // 1000
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def size_text(size: int) -> str:
    """A number of bytes as the allocator prints it."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.2f} {unit}"
    return f"{size} bytes"


def frame_text(frame: Frame) -> str:
    """A frame as `function (file:line)`: no folders, no arguments of C++, and no line or file where none is known."""
    name = frame.file.replace("\\", "/").rsplit("/", 1)[-1]
    function = _without_arguments(frame.function)
    if not name:
        return function
    return f"{function} ({name}:{frame.line})" if frame.line else f"{function} ({name})"


def _without_arguments(function: str) -> str:
    """The name of a function of C++ without the list of its arguments' types."""
    if "::" not in function or not function.endswith((")", ") const")):
        return function
    depth, end = 0, function.rfind(")")
    for at in range(end, -1, -1):
        depth += (function[at] == ")") - (function[at] == "(")
        if depth == 0:
            name = function[:at]
            return function if not name or name.endswith("operator") else name
    return function


def what_text(root: Suspect) -> str:
    """What happened, with the exception's own words where there is one."""
    exception = root.first.exception
    if exception is None:
        return root.nature.title
    head = exception.message.split("\n", 1)[0].strip()
    said = f"{exception.kind}: {head[:QUOTED]}{'…' if len(head) > QUOTED else ''}" if head else exception.kind
    return said if root.nature.key.startswith("python.") else f"{root.nature.title} ({said})"


def sentence(root: Suspect, named: Named, failed: Named, scene: Scene) -> str:
    """The verdict in one or two sentences."""
    ranks = named.ranks or failed.ranks
    hosts = named.hosts or failed.hosts
    text = f"{what_text(root)}{who_text(ranks, hosts)}."
    if len(root.everyone) > 1 and not named.ranks:
        text = text[:-1] + f"; {len(root.everyone)} ranks report it."
    waited = scene.hang
    if waited is not None and waited.waiters:
        blamed = set(ranks)
        others = [r for r in waited.waiters if r not in blamed]
        if others:
            wait = f" for {duration(waited.waited_ms)}" if waited.waited_ms is not None else ""
            text += f" {ranks_text(others).capitalize()} only waited for it{wait}."
    return text
