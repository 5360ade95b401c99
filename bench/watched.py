"""Memory of a process and all that it started, for the benchmarks; Linux only. Starts and ends nothing."""

from __future__ import annotations

from pathlib import Path


def tree(root: int) -> list[int]:
    """A process and all that it started."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, left = [], [root]
    while left:
        one = left.pop()
        found.append(one)
        left += children.get(one, [])
    return found


def memory(root: int) -> int:
    """Bytes held by a process and its children, shared pages counted once."""
    total = 0
    for one in tree(root):
        try:
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total
