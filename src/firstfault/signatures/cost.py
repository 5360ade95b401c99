"""What a pattern costs a scan, as far as its text tells: the part of the lint that gives the same answer everywhere.

How long patterns take on a machine is measured by `bench/scan/cost.py`.
"""

from __future__ import annotations

from firstfault.scan.literals import required_literals
from firstfault.signatures.match import engine_pattern

SHORTEST = 5
"""A word of fewer bytes stands in too many lines."""


def costs_of(pattern: str) -> list[str]:
    """What makes a pattern dear, one sentence each; empty where nothing does.

    Raises:
        re.error: the pattern is none.
    """
    body = engine_pattern(pattern)
    found = []
    literals = required_literals(body)
    if literals is None:
        found.append("no word stands in all its matches: it is tried everywhere by Python, a hundred times slower")
    else:
        if literals.shortest < SHORTEST:
            word = min(literals.words, key=len).decode("utf-8", "backslashreplace")
            found.append(f"its rarest word is {word!r}, shorter than {SHORTEST} bytes")
        if literals.ordinary:
            found.append("its rarest words stand in lines that healthy jobs print by the million")
    return found
