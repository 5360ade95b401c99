"""Measures what each pattern adds to a scan, and names those above a limit.

    python bench/scan/cost.py TEXT [--limit 0.25] [--signatures DIR]

TEXT is a log of a healthy run, for instance one that `make.py` wrote. Cost is the time of the words of a pattern alone in the
fast engine, less that of a word that stands nowhere, plus what Python takes to refute its proposals; in ns per byte.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import hyperscan

from firstfault.scan.literals import required_literals
from firstfault.signatures.library import load_library

REFUTING = 8_000
"""Nanoseconds that a proposal takes to be refuted."""
SAMPLE = 2 << 20


def cost(words: list[bytes], flag: int, text: bytes) -> float:
    """Nanoseconds per byte: the best of three runs, and the proposals."""
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    numbers = list(range(len(words)))
    database.compile(expressions=words, ids=numbers, elements=len(words), flags=[flag] * len(words), literal=True)
    database.scratch = hyperscan.Scratch(database)
    best = float("inf")
    for _ in range(3):
        found: list[int] = []
        start = time.process_time_ns()
        database.scan(text, lambda word, *_rest, add=found.append: add(word))
        best = min(best, time.process_time_ns() - start + REFUTING * len(found))
    return best / len(text)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("text", type=Path)
    parser.add_argument("--limit", type=float, default=0.25)
    parser.add_argument("--signatures", type=Path, action="append", default=[])
    options = parser.parse_args()
    with options.text.open("rb") as file:
        text = file.read(SAMPLE)
    plan = load_library(options.signatures).plan
    least = cost([b"\x01stands nowhere\x02"], 0, text)
    rows = []
    for pattern, owner in zip(plan.patterns, plan.owners, strict=True):
        literals = required_literals(pattern)
        if literals is None:
            rows.append((float("inf"), plan.ids[owner], pattern))
            continue
        flag = hyperscan.HS_FLAG_CASELESS if literals.any_case else 0
        rows.append((cost(list(literals.words), flag, text) - least, plan.ids[owner], pattern))
    dear = sorted((row for row in rows if row[0] > options.limit), reverse=True)
    for nanoseconds, name, pattern in dear:
        print(f"{nanoseconds:6.2f} ns/byte  {name}  {pattern}")
    print(f"{len(dear)} of {len(rows)} patterns above {options.limit} ns/byte")


if __name__ == "__main__":
    main()
