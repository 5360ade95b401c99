"""Runs over an input that grows: with what was kept of the run before they give what a run without it gives."""

import os
import random

import pytest

import casefolder
from firstfault.model import until
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.kept import Kept
from firstfault.pipelines.options import DiagnoseOptions

CASES = [c for c in casefolder.find((casefolder.CASES, casefolder.GENERATED)) if len(c.files()) > 2][::12]
INLINE = DiagnoseOptions(engine="inline")


def lay(target, content):
    """Writes what changed of some files, each by its way: in place, or as a new file in its place."""
    for name, text in content.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.read_bytes() == text:
            continue
        if path.exists() and text.startswith(path.read_bytes()):
            with path.open("ab") as file:
                file.write(text[path.stat().st_size :])
        else:
            new = path.with_name(path.name + ".new")
            new.write_bytes(text)
            os.replace(new, path)  # noqa: PTH105 - as a rotation does


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_run_gives_what_a_whole_one_gives(case, tmp_path):
    """Files grow by pieces, appear late, are cut and written anew; the first difference of any run is a failure."""
    draw = random.Random(case.name)
    whole = {case.shown(f): f.read_bytes() for f in case.files()}
    there = dict.fromkeys(draw.sample(sorted(whole), max(1, len(whole) // 2)), b"")
    kept = Kept()
    reused = 0
    for _ in range(6):
        for name in draw.sample(sorted(whole), draw.randint(1, len(whole))):
            size = len(whole[name])
            there[name] = whole[name][: draw.randint(0, size) if draw.random() < 0.7 else size]
        lay(tmp_path, there)
        found = diagnose([tmp_path], INLINE, kept=kept)
        reused += kept.reused
        assert found == diagnose([tmp_path], INLINE)
    lay(tmp_path, whole)
    assert diagnose([tmp_path], INLINE, kept=kept) == diagnose([tmp_path], INLINE)
    last = diagnose([tmp_path], INLINE, kept=kept)
    assert kept.reused > 0
    assert last == diagnose([tmp_path], INLINE)


def test_what_did_not_change_is_not_read_again(tmp_path, monkeypatch):
    case = CASES[0]
    paths = case.copy(tmp_path, lambda _, content: content)
    kept = Kept()
    diagnose(paths, INLINE, kept=kept)
    from firstfault.pipelines import abreast

    read = []
    monkeypatch.setattr(
        abreast, "read_source", lambda *asked, ask=abreast.read_source: (read.append(asked[1].path), ask(*asked))[1]
    )
    diagnose(paths, INLINE, kept=kept)
    assert read == []
    grown = next(p for p in tmp_path.rglob("*") if p.is_file() and p.suffix in {".log", ".txt", ".out", ".err"})
    with grown.open("a") as file:
        file.write("one more line\n")
    diagnose(paths, INLINE, kept=kept)
    assert read == [next(p for p in read if p.endswith(grown.name))]


def test_what_there_was_no_time_for_is_said_and_not_kept(tmp_path):
    case = CASES[0]
    paths = case.copy(tmp_path, lambda _, content: content)
    kept = Kept()
    early = diagnose(paths, DiagnoseOptions(engine="inline", deadline=1e-6), kept=kept)
    assert {row.reason for row in early.coverage} == {until.OVER}
    assert diagnose(paths, INLINE, kept=kept) == diagnose(paths, INLINE)
