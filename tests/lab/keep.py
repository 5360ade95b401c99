"""Performs scenarios and keeps their logs, with the paths of this machine replaced by invented ones.

python tests/lab/keep.py TARGET [NAME...]
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent / "src")]

from register import ALL  # noqa: E402
from scenarios import runnable  # noqa: E402 - fills the list
from stage import JOBS, Stage  # noqa: E402


def scrub(content: bytes, folder: Path) -> bytes:
    """The same bytes with invented paths."""
    base = Path(sys.base_prefix)
    for private, invented in (
        (JOBS, "/home/user/train"),
        (folder / "work", "/scratch/user/run7"),
        (folder / "logs", "/scratch/user/run7/logs"),
        (sys.prefix, "/opt/venv"),
        (base, "/usr/local"),
    ):
        content = content.replace(str(private).encode(), invented.encode())
    return re.sub(rb"/tmp/tmp\w+", b"/tmp/tmp0", content)


def main(target: Path, names: list[str]) -> None:
    for wanted in ALL:
        if (names and wanted.name not in names) or not runnable(wanted):
            continue
        with tempfile.TemporaryDirectory() as name, Stage(Path(name)) as stage:
            begin = time.monotonic()
            try:
                wanted.perform(stage)
            except AssertionError:
                sys.stdout.write(stage.text())
                raise
            sys.stdout.write(f"{wanted.name}: {time.monotonic() - begin:.1f} s\n")
            sys.stdout.flush()
            for file in sorted(file for file in stage.logs.rglob("*") if file.is_file()):
                kept = target / wanted.name / "logs" / file.relative_to(stage.logs)
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_bytes(scrub(file.read_bytes(), Path(name)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
