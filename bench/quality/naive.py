"""Two naive readers on the same cases with the same judge: what a quick look would have said.

    python bench/quality/naive.py                       # tests/cases
    python bench/quality/naive.py tests/cases tests/generated --verbose

`first error` takes the first line that looks like an error, in the order of the file names, and guesses the kind by its
words. `launcher` believes the entry that torchrun calls Root Cause. Both claim what they find as `supported`, as a
person in a hurry does. They measure how far one comes without thinking; nothing else may import them.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from typing import TYPE_CHECKING

import score

from firstfault.model.diagnosis import (
    Action,
    Classes,
    Culprits,
    Diagnosis,
    Evidence,
    FirstFailed,
    Verdict,
)
from firstfault.model.words import ActionKind, Category, Strength

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ERROR = re.compile(
    r"\b\w*(?:Error|Exception)\b|\bERROR\b|\berror:|Traceback|\bFATAL\b|\bfailed\b|\btimeout\b|\bKilled\b|Xid"
)
_RANK = re.compile(r"\[(?:default|rank)(\d+)\]|\[Rank (\d+)\]|^\s*(\d+):\s", re.IGNORECASE)
_KINDS = (
    (re.compile(r"out of memory|CUDA|Xid|ECC|cuDNN|GPU", re.IGNORECASE), Category.GPU_CUDA),
    (re.compile(r"NCCL|watchdog|timeout|timed out|connection|socket|ibv|port error", re.IGNORECASE), Category.NETWORK),
    (re.compile(r"No space|stale|Errno|OSError|No such file|storage|bucket", re.IGNORECASE), Category.STORAGE_IO),
    (re.compile(r"Killed|oom|slurm|CANCELLED|TIME LIMIT", re.IGNORECASE), Category.INFRASTRUCTURE),
    (re.compile(r"\bnan\b|overflow|loss scale", re.IGNORECASE), Category.NUMERICAL),
)
_ROOT_CAUSE = "Root Cause (first observed failure):"
_ENTRY_RANK = re.compile(r"\s*rank\s*:\s*(\d+) \(local_rank: \d+\)")
_ENTRY_HOST = re.compile(r"\s*host\s*:\s*(\S+)")
_ENTRY_EXIT = re.compile(r"\s*exitcode\s*:\s*(-?\d+)")
_ENTRY_LINES = 8
"""An entry of torchrun's list is at most this long."""


def first_error(paths: Sequence[Path]) -> Diagnosis:
    """The first line that looks like an error."""
    for name, lines in _texts(paths):
        for number, line in enumerate(lines, start=1):
            if _ERROR.search(line):
                found = _RANK.search(line)
                rank = [] if found is None else [int(next(group for group in found.groups() if group is not None))]
                return _claim(_kind(line), rank, [], _evidence(name, number, line))
    return _nothing_found(Category.NONE)


def launcher(paths: Sequence[Path]) -> Diagnosis:
    """The entry that torchrun calls the root cause; nothing where there is none."""
    for name, lines in _texts(paths):
        for number, line in enumerate(lines, start=1):
            if _ROOT_CAUSE not in line:
                continue
            entry = lines[number : number + _ENTRY_LINES]
            rank = _first(_ENTRY_RANK, entry)
            host = _first(_ENTRY_HOST, entry)
            killed = _first(_ENTRY_EXIT, entry) == "-9"
            return _claim(
                Category.INFRASTRUCTURE if killed else Category.SOFTWARE,
                [] if rank is None else [int(rank)],
                [] if host is None else [host],
                _evidence(name, number, line),
            )
    return _nothing_found(Category.UNKNOWN)


READERS = {"first error line": first_error, "launcher's root cause": launcher}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    score.add_options(parser)
    options = parser.parse_args(arguments)
    score.normalise(options)
    cases = score.select(options.folders, options.only)
    for title, reader in READERS.items():
        print(f"== {title}")
        rows = score.run(cases, reader, options.noise)
        score.print_table(rows, verbose=options.verbose)
        score.print_totals(rows)
        print()
    return 0


def _texts(paths: Sequence[Path]) -> Iterator[tuple[str, list[str]]]:
    """Every file with its lines, named as a diagnosis names it."""
    for path in paths:
        base = path if len(paths) == 1 else path.parent
        for file in sorted(entry for entry in path.rglob("*") if entry.is_file()):
            yield file.relative_to(base).as_posix(), file.read_bytes().decode(errors="replace").split("\n")


def _kind(line: str) -> Category:
    return next((kind for pattern, kind in _KINDS if pattern.search(line)), Category.SOFTWARE)


def _first(pattern: re.Pattern[str], lines: Sequence[str]) -> str | None:
    return next((found.group(1) for line in lines if (found := pattern.search(line))), None)


def _evidence(name: str, number: int, line: str) -> Evidence:
    return Evidence(file=name, line=number, column=1, text=line[:400])


def _claim(category: Category, ranks: list[int], hosts: list[str], trigger: Evidence) -> Diagnosis:
    return _diagnosis(category, Strength.SUPPORTED, ranks, hosts, trigger)


def _nothing_found(category: Category) -> Diagnosis:
    return _diagnosis(category, Strength.UNKNOWN if category is Category.UNKNOWN else Strength.SUPPORTED, [], [], None)


def _diagnosis(
    category: Category, strength: Strength, ranks: list[int], hosts: list[str], trigger: Evidence | None
) -> Diagnosis:
    return Diagnosis(
        verdict=Verdict(
            failed=None if category is Category.UNKNOWN else category is not Category.NONE,
            category=category,
            strength=strength,
            summary="" if trigger is None else trigger.text.strip(),
            culprits=Culprits(ranks=ranks, hosts=hosts, strength=strength),
            first_failed=FirstFailed(ranks=ranks, hosts=hosts),
            trigger=trigger,
            classes=Classes(),
            action=Action(kind=ActionKind.COLLECT_MORE),
        )
    )


if __name__ == "__main__":
    sys.exit(main())
