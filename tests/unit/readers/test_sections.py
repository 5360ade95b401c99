"""Files glued by tail, head and more are taken apart at their headers, whatever the size of the blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from firstfault.readers import sections
from firstfault.readers.open import open_inputs

if TYPE_CHECKING:
    from pathlib import Path


def opened(path: Path) -> dict[str, bytes]:
    with open_inputs([path]) as found:
        return {s.path: found.store.read(s.id, 0, 1 << 20) for s in found.sources}


TAIL = b"==> out/rank0.log <==\nstep 1\nstep 2\n\n==> out/rank1.log <==\nValueError: x\n"


def test_tail_of_several_files(tmp_path: Path) -> None:
    (tmp_path / "all.txt").write_bytes(TAIL)
    assert opened(tmp_path / "all.txt") == {
        "all.txt!out/rank0.log": b"step 1\nstep 2\n",
        "all.txt!out/rank1.log": b"ValueError: x\n",
    }


def test_followed_files_come_back_and_are_joined(tmp_path: Path) -> None:
    (tmp_path / "all.txt").write_bytes(TAIL + b"\n==> out/rank0.log <==\nstep 3\n")
    assert opened(tmp_path / "all.txt")["all.txt!out/rank0.log"] == b"step 1\nstep 2\nstep 3\n"


def test_more_of_several_files(tmp_path: Path) -> None:
    (tmp_path / "all.txt").write_bytes(
        b"::::::::::::::\na.log\n::::::::::::::\none\n::::::::::::::\nb.log\n::::::::::::::\ntwo\n"
    )
    assert opened(tmp_path / "all.txt") == {"all.txt!a.log": b"one\n", "all.txt!b.log": b"two\n"}


@pytest.mark.parametrize("step", [64, 100, 1 << 20])
def test_headers_are_found_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    monkeypatch.setattr(sections, "_STEP", step)
    bodies = {f"r{n}.log": b"".join(b"line %d of %d\n" % (i, n) for i in range(n * 3 + 1)) for n in range(12)}
    (tmp_path / "all.txt").write_bytes(
        b"\n".join(b"==> %s <==\n%s" % (name.encode(), body) for name, body in bodies.items())
    )
    assert opened(tmp_path / "all.txt") == {f"all.txt!{name}": body for name, body in bodies.items()}


@pytest.mark.parametrize("text", [b"==> Training <==\nstep 1\n", b"step 1\n==> a.log <==\nstep 2\n"])
def test_a_programs_own_headings_are_no_sections(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "all.txt").write_bytes(text)
    assert opened(tmp_path / "all.txt") == {"all.txt": text}
