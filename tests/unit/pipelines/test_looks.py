"""Kinds of thousands of files, told by copies of the process."""

from __future__ import annotations

import gzip
import sys
from typing import TYPE_CHECKING

import pytest

from firstfault.model.words import SourceKind
from firstfault.pipelines import looks as room
from firstfault.readers.open import open_inputs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from firstfault.readers.discover import Found
    from firstfault.readers.sniff import Sniffed

KINDS = (
    ("log", b"[rank1]: RuntimeError: no\n", SourceKind.LOG),
    ("empty.log", b"", None),
    ("picture.png", b"\x89PNG\r\n\x1a\n" + bytes(200), None),
    ("table.csv", b"step,loss\n" + b"".join(b"%d,2.5\n" % n for n in range(9)), SourceKind.METRICS),
    ("wide.log", "RuntimeError: no, and again no\n".encode("utf-16"), SourceKind.LOG),
    ("packed.log.gz", gzip.compress(b"RuntimeError: no\n"), SourceKind.LOG),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(3 * room.TOGETHER):
        name, data, _ = KINDS[number % len(KINDS)]
        (tmp_path / f"{number:04}-{name}").write_bytes(data)
    return tmp_path


@pytest.mark.skipif(sys.platform != "linux", reason="copies of this process need a system that can fork")
@pytest.mark.usefixtures("alone")
def test_files_are_the_same_whoever_looked_at_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "FEWEST", 2)
    monkeypatch.setattr(room, "processors", lambda: 2)
    told: list[Sniffed | None] = []

    def watched(files: Sequence[Found]) -> list[Sniffed | None]:
        told.extend(room.looks(files))
        return told

    with open_inputs([str(folder)], looks=watched) as shared, open_inputs([str(folder)]) as alone:
        assert len(told) == 3 * room.TOGETHER
        assert [(s.path, s.kind, s.size, s.member) for s in shared.sources] == [
            (s.path, s.kind, s.size, s.member) for s in alone.sources
        ]
        assert shared.coverage == alone.coverage
        assert {s.kind for s in shared.sources} == {k for _, _, k in KINDS if k is not None}


def test_few_files_are_looked_at_when_they_are_opened(folder: Path) -> None:
    asked: list[int] = []

    def watched(files: Sequence[Found]) -> list[Sniffed | None]:
        asked.append(len(files))
        return room.looks(files)

    with open_inputs([str(folder)], looks=watched) as opened:
        assert asked == [3 * room.TOGETHER]
        assert len(opened.sources) == 2 * room.TOGETHER
