"""Where lines end up, and what is lost: one log, a file a machine, a folder a rank, or `srun --label`; and damage.

The result is files of lines, each line with what a reader of that file may know of who said it. Nothing here changes a fact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

    from .lines import Line, Voice

LAYOUTS = ("one", "node", "rank", "label")
DAMAGES = ("none", "lines", "file", "glued", "culprit")
"""`lines`: one in twenty is lost; `file`: one file is; `glued`: ends of lines are; `culprit`: the files of the culprits."""


@dataclass
class Written:
    """One line as it stands in a file; `known`: whether its rank is plain from a prefix, a label or the file."""

    text: str
    lines: tuple[Line, ...]
    known: bool
    folder: tuple[str, int] | None = None
    """Host and local rank, where the file is in a folder of torchrun's: whose it is, other lines may tell."""


Files = dict[str, list[Written]]


def arrange(voice: Voice, lines: list[Line], layout: str, job: str) -> Files:
    """The files of a layout, by name."""
    shape = voice.job.shape
    files: Files = {}
    for line in lines:
        folder = None
        if layout == "one":
            name, text, known = f"slurm-{job}.out", line.text, line.named
        elif layout == "label":
            name = f"slurm-{job}.out"
            text, known = _labelled(voice, line)
        elif layout == "node":
            name = f"slurm-{job}.out" if line.node is None else f"log-{job}-{shape.hosts[line.node]}.out"
            text, known = line.text, line.named
        else:
            name, known, folder = _folder(voice, line, job)
            text = line.text
        files.setdefault(name, []).append(Written(text, (line,), known, folder))
    return files


def _labelled(voice: Voice, line: Line) -> tuple[str, bool]:
    """`srun --label`: the task's number in front; a task is a rank, or the launcher of a node."""
    if line.node is None:
        return line.text, line.named
    shape = voice.job.shape
    task = line.node if voice.agents else line.rank
    assert task is not None
    width = len(str((shape.nodes if voice.agents else shape.world) - 1))
    return f"{task:{width}d}: {line.text}", line.named or not voice.agents


def _folder(voice: Voice, line: Line, job: str) -> tuple[str, bool, tuple[str, int] | None]:
    """torchrun's folders with `--redirects 3`, and the console of each node; without torchrun, a file a rank."""
    shape = voice.job.shape
    if line.node is None:
        return f"slurm-{job}.out", line.named, None
    host = shape.hosts[line.node]
    if line.rank is None:
        return f"{host}/console.log", line.named, None
    if not voice.agents:
        return f"rank_{line.rank}.log", True, None
    stream = "stdout.log" if line.stream == "out" else "stderr.log"
    local = shape.local(line.rank)
    return f"{host}/none_k3x9/attempt_0/{local}/{stream}", line.named, (host, local)


def delayed(lines: list[Line], rng: random.Random) -> list[Line]:
    """The lines in the order in which they arrive: each stream of each process has a delay of its own."""
    delays: dict[tuple[int | None, int | None, str], float] = {}
    keyed = []
    for place, line in enumerate(lines):
        source = (line.node, line.rank, line.stream)
        if source not in delays:
            delays[source] = rng.uniform(0, 0.25)
        keyed.append((line.time + delays[source], place, line))
    keyed.sort(key=lambda entry: entry[:2])
    return [line for _, _, line in keyed]


def damage(files: Files, how: str, rng: random.Random, culprits: frozenset[int]) -> Files:
    """What is left of the files."""
    if how == "lines":
        return {name: [entry for entry in entries if rng.random() >= 0.05] for name, entries in files.items()}
    if how == "file":
        lost = rng.choice(sorted(files)) if len(files) > 1 else None
        return {name: entries for name, entries in files.items() if name != lost}
    if how == "culprit":
        return {name: entries for name, entries in files.items() if not _all_of(entries, culprits)}
    if how == "glued":
        return {name: _glue(entries, rng) for name, entries in files.items()}
    return files


def _all_of(entries: list[Written], ranks: frozenset[int]) -> bool:
    return all(line.rank in ranks for entry in entries for line in entry.lines)


def _glue(entries: list[Written], rng: random.Random) -> list[Written]:
    """Two processes write at once: one line in twenty loses its end of line, or is cut into by the next one."""
    found: list[Written] = []
    entries = list(entries)
    while entries:
        first = entries.pop(0)
        if not entries or rng.random() >= 0.05 or not first.text:
            found.append(first)
            continue
        second = entries.pop(0)
        if rng.random() < 0.5:
            # What stands behind the seam is no longer at the start of a line; it can still be read.
            both = first.known and second.known
            found.append(Written(first.text + second.text, first.lines + second.lines, both, first.folder))
            continue
        cut = rng.randrange(1, len(first.text)) if len(first.text) > 1 else 1
        # A reader may or may not be able to put the halves together; nothing is taken for granted.
        broken = replace(first.lines[0], facts=(), doubtful=first.lines[0].facts)
        found.append(Written(first.text[:cut] + second.text, (broken, *second.lines), second.known, second.folder))
        found.append(Written(first.text[cut:], (broken,), known=False, folder=None))
    return found
