"""What stops a script before its first command: its first line, its line ends, and blanks that no shell takes for one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firstfault.config.nouns import Problem, problem

if TYPE_CHECKING:
    from collections.abc import Iterator

_HARD = re.compile("[\u00a0\u1680\u2000-\u200d\u202f\u205f\u2060\u3000\ufeff]")
"""Blanks of text processors and web pages, and marks without a width."""
_DIRECTIVE = re.compile(r"#SBATCH(?:\s|-)")
_CONTINUED = re.compile(r"\s--?[A-Za-z]")


def script_problems(name: str, text: str, *, batch: bool) -> Iterator[Problem]:
    """What is wrong with the form of one script.

    Args:
        name: of the script, as it is shown.
        text: of the script.
        batch: whether it is given to sbatch.
    """
    if "\r\n" in text:
        said = "sbatch: error: Batch script contains DOS line breaks (\\r\\n)\nsbatch: error: instead of expected UNIX line breaks (\\n)." if batch else "$'\\r': command not found"  # fmt: skip
        yield problem("script.line_ends", "fail", name, text.count("\n", 0, text.index("\r\n")) + 1, "lines end as on Windows, with a carriage return", why="sbatch refuses such a script" if batch else "the shell takes the carriage return for a part of the last word of each line", message=said, fix="Write it with the line ends of Unix: `sed -i 's/\\r$//' FILE`.")  # fmt: skip
    if batch and not text.startswith("#!"):
        yield problem("slurm.interpreter", "fail", name, 1, "the first line names no interpreter", why="sbatch wants #! as the first two characters of a script, before any blank line, remark or byte order mark", message="sbatch: error: This does not look like a batch script.  The first\nsbatch: error: line must start with #! followed by the path to an interpreter.", fix="Begin it with #!/bin/bash.")  # fmt: skip
    for number, line in enumerate(text.split("\n"), 1):
        found = _HARD.search(_outside_quotes(line))
        directive = _DIRECTIVE.match(line)
        if found is None or (line.lstrip().startswith("#") and directive is None):
            continue
        if directive is None and not _CONTINUED.search(line):
            # Text that is printed or assigned may hold what it likes.
            continue
        what = f"holds a character that looks like a blank and is none (U+{ord(found.group()):04X})"
        said = "sbatch: error: Invalid directive found in batch script" if directive else ""
        yield problem("script.hard_blank", "fail", name, number, what, why="it came with text copied from a page or a document: it becomes a part of the word beside it", message=said, fix="Write a plain blank in its place; `cat -A` shows such characters.")  # fmt: skip


def _outside_quotes(line: str) -> str:
    """A line without what stands in quotes or behind a remark's sign."""
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", "", line)
    return re.sub(r"\s#.*", "", bare)
