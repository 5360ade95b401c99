"""Runs small programs that record, each in a process of its own, and gives what they left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import firstfault

SOURCES = str(Path(firstfault.__file__).parents[1])
LIMIT = 300


@dataclass
class Left:
    """What a program left behind."""

    code: int
    out: str
    err: str
    box: Path

    def records(self, kind: str | None = None) -> list[dict]:
        """All records, or those of a kind, in the order of files and lines."""
        found = []
        for file in sorted(self.box.rglob("*.jsonl")):
            found += [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        return [r for r in found if kind is None or r["kind"] == kind]

    def texts(self, end: str) -> list[str]:
        """Files whose names end so."""
        return [f.read_text(encoding="utf-8") for f in sorted(self.box.rglob(f"*{end}"))]

    def everything(self) -> bytes:
        """All bytes of all files."""
        return b"\0".join(f.read_bytes() for f in sorted(self.box.rglob("*")) if f.is_file())


def environment(folder: Path, **more: str) -> dict[str, str]:
    """The environment of a program that records into a folder; no monitor unless asked for."""
    kept = {n: os.environ[n] for n in ("PATH", "HOME", "LD_LIBRARY_PATH") if n in os.environ}
    own = {
        "PYTHONPATH": SOURCES,
        "FIRSTFAULT_RECORD_DIR": str(folder / "box"),
        "FIRSTFAULT_RECORD_LOCAL": str(folder / "local"),
        "FIRSTFAULT_RECORD_RUN": "run",
        "FIRSTFAULT_RECORD_MONITOR": "0",
        "RANK": "3",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "8",
    }
    return {**kept, **own, **more}


def program(folder: Path, text: str, *arguments: str) -> list[str]:
    """Writes a program; its command line."""
    file = folder / "program.py"
    file.write_text(textwrap.dedent(text), encoding="utf-8")
    return [sys.executable, str(file), *arguments]


def run(folder: Path, text: str, *arguments: str, **more: str) -> Left:
    """Runs a program to its end."""
    done = subprocess.run(
        program(folder, text, *arguments),
        env=environment(folder, **more),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    return Left(done.returncode, done.stdout, done.stderr, folder / "box")
