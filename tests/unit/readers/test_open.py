"""Opening: shown paths, kinds of input, and what is not read, with its reason."""

from __future__ import annotations

import io
import os
import pickle
import socket
from pathlib import Path

import pytest

from firstfault.model.words import CoverageState, SourceKind
from firstfault.readers.open import Limits, open_inputs

LOG = b"step 1 loss 2.5\nstep 2 loss 2.4\n"


def shown(opened):
    return [s.path for s in opened.sources]


def coverage(opened):
    return {c.file: (c.state, c.reason) for c in opened.coverage}


def write(path: Path, data: bytes = LOG) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_one_file_is_shown_by_its_name(tmp_path):
    with open_inputs([write(tmp_path / "runs" / "a.log")]) as opened:
        assert shown(opened) == ["a.log"]
        assert opened.store.read(opened.sources[0].id, 0, 100) == LOG


def test_a_folder_is_shown_relative_to_itself_and_sorted(tmp_path):
    for name in ("b/2.log", "b/10.log", "a.log", "b.log"):
        write(tmp_path / name)
    with open_inputs([tmp_path]) as opened:
        assert shown(opened) == ["a.log", "b.log", "b/10.log", "b/2.log"]
        assert [s.id for s in opened.sources] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["x/logs", "y/logs"], ["x/logs/1.log", "y/logs/1.log"]),
        (["x/logs", "z"], ["logs/1.log", "z/2.log"]),
        (["x/logs/1.log", "y/logs/1.log"], ["x/logs/1.log", "y/logs/1.log"]),
        (["x/logs/1.log", "z/2.log"], ["1.log", "2.log"]),
        (["x/logs", "x/logs/"], ["1.log"]),
    ],
)
def test_several_paths_are_told_apart_by_their_shortest_tail(tmp_path, paths, expected):
    for name in ("x/logs/1.log", "y/logs/1.log", "z/2.log"):
        write(tmp_path / name)
    with open_inputs([f"{tmp_path}/{p}" for p in paths]) as opened:
        assert shown(opened) == expected


def test_a_glob_that_no_shell_expanded(tmp_path):
    for name in ("error-1-0.out", "error-1-1.out", "other.txt"):
        write(tmp_path / name)
    with open_inputs([f"{tmp_path}/error-*.out"]) as opened:
        assert shown(opened) == ["error-1-0.out", "error-1-1.out"]


def test_a_file_whose_name_looks_like_a_glob(tmp_path):
    with open_inputs([write(tmp_path / "log[1].out"), write(tmp_path / "log1.out")]) as opened:
        assert shown(opened) == ["log1.out", "log[1].out"]


def test_what_is_not_there_is_missing(tmp_path):
    with open_inputs([tmp_path / "none.log"]) as opened:
        assert coverage(opened) == {"none.log": (CoverageState.MISSING, "no such file or folder")}


def test_standard_input_is_kept_and_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with open_inputs(["-"], stdin=io.BytesIO(LOG)) as opened:
        assert shown(opened) == ["<stdin>"]
        assert opened.store.tail(opened.sources[0].id, 5) == b" 2.4\n"
        assert len(list(tmp_path.iterdir())) == 1
        assert next(tmp_path.iterdir()).stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []


def test_empty_standard_input():
    with open_inputs(["-"], stdin=io.BytesIO(b"")) as opened:
        assert coverage(opened) == {"<stdin>": (CoverageState.SKIPPED, "empty")}


def test_special_files_are_skipped_and_never_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "sock"))
        write(tmp_path / "a.log")
        with open_inputs([tmp_path]) as opened:
            assert shown(opened) == ["a.log"]
            assert coverage(opened)["pipe"] == (CoverageState.SKIPPED, "a named pipe")
            assert coverage(opened)["sock"] == (CoverageState.SKIPPED, "a socket")


def test_links(tmp_path):
    folder = tmp_path / "logs"
    write(folder / "run" / "a.log")
    write(tmp_path / "secret.log")
    (folder / "latest.log").symlink_to(folder / "run" / "a.log")
    (folder / "loop").symlink_to(folder)
    (folder / "out.log").symlink_to(tmp_path / "secret.log")
    (folder / "dead.log").symlink_to(folder / "gone")
    (folder / "self").symlink_to(folder / "self")
    with open_inputs([folder]) as opened:
        assert shown(opened) == ["latest.log", "run/a.log"]
        said = coverage(opened)
        assert said["loop"][1].startswith("a link to a folder")
        assert said["out.log"] == (CoverageState.SKIPPED, "a link out of the folder")
        assert "nowhere" in said["dead.log"][1]
        assert "nowhere" in said["self"][1]


def test_a_path_that_is_itself_a_link_is_followed(tmp_path):
    write(tmp_path / "real" / "a.log")
    (tmp_path / "latest").symlink_to(tmp_path / "real")
    with open_inputs([tmp_path / "latest"]) as opened:
        assert shown(opened) == ["a.log"]


NOBODY = 65534


def test_no_permission(tmp_path):
    write(tmp_path / "a.log").chmod(0)
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        mode = folder.stat().st_mode & 0o7777
        if os.geteuid() == 0 and not mode & 0o001:  # what is open to all stays as it is: one of them may be /tmp
            folder.chmod(mode | 0o055)
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)  # root may read everything
    try:
        with open_inputs([tmp_path]) as opened:
            assert coverage(opened)["a.log"] == (CoverageState.SKIPPED, "no permission to read")
    finally:
        if root:
            os.seteuid(0)


def test_a_file_that_cannot_be_opened_is_named(tmp_path, monkeypatch):
    write(tmp_path / "a.log")
    write(tmp_path / "b.log")
    real = os.open

    def refuse(path, *args, **kwargs):
        if str(path).endswith("a.log"):
            raise PermissionError(13, "Permission denied")
        if str(path).endswith("b.log"):
            raise FileNotFoundError(2, "No such file or directory")
        return real(path, *args, **kwargs)

    monkeypatch.setattr("firstfault.readers.open.os.open", refuse)
    with open_inputs([tmp_path]) as opened:
        assert opened.sources == ()
        assert coverage(opened)["a.log"] == (CoverageState.SKIPPED, "no permission to read")
        assert coverage(opened)["b.log"][0] is CoverageState.MISSING


def test_empty_binary_and_wide_text(tmp_path):
    write(tmp_path / "empty.log", b"")
    write(tmp_path / "core", b"\x7fELF" + bytes(range(256)) * 40)
    write(tmp_path / "noise", bytes((i * 7919 + i * i) % 256 for i in range(20000)))
    write(tmp_path / "wide.log", "\ufeffRuntimeError: größer\r\n".encode("utf-16-le"))
    with open_inputs([tmp_path]) as opened:
        assert shown(opened) == ["wide.log"]
        assert opened.store.head(opened.sources[0].id, 100) == "RuntimeError: größer\r\n".encode()
        said = coverage(opened)
        assert said["empty.log"] == (CoverageState.SKIPPED, "empty")
        assert said["core"][1].startswith("an ELF")
        assert said["noise"] == (CoverageState.SKIPPED, "not text")
        assert said["wide.log"] == (CoverageState.READ, "UTF-16-LE text, read as UTF-8")


def test_a_log_with_holes_is_a_log(tmp_path):
    write(tmp_path / "hole.log", bytes(300_000) + LOG * 500)
    write(tmp_path / "end.log", LOG * 500 + bytes(300_000))
    with open_inputs([tmp_path]) as opened:
        assert shown(opened) == ["end.log", "hole.log"]


def test_names_that_are_no_text(tmp_path):
    write(Path(os.fsdecode(os.fsencode(str(tmp_path)) + b"/caf\xe9.log")))
    with open_inputs([tmp_path]) as opened:
        assert shown(opened) == ["caf\\xe9.log"]
        assert opened.store.head(opened.sources[0].id, 4) == b"step"


def test_fifty_names_of_one_file(tmp_path):
    first = write(tmp_path / "0.log")
    for i in range(1, 50):
        os.link(first, tmp_path / f"{i}.log")
    with open_inputs([tmp_path]) as opened:
        assert len(opened.sources) == 50


def test_more_files_than_allowed(tmp_path):
    for i in range(5):
        write(tmp_path / f"{i}.log")
    with open_inputs([tmp_path], limits=Limits(members=3)) as opened:
        assert len(opened.sources) == 3
        assert any("more than 3 files" in c.reason for c in opened.coverage)


def test_a_store_goes_to_another_process_and_survives_a_file_that_shrinks(tmp_path):
    path = write(tmp_path / "a.log")
    with open_inputs([path]) as opened:
        store = pickle.loads(pickle.dumps(opened.store))
        assert store.read(opened.sources[0].id, 5, 5) == b"1 los"
        os.truncate(path, 3)
        assert store.read(opened.sources[0].id, 0, 100) == b"ste"
        store.close()


def test_source_code_and_settings_are_no_logs(tmp_path):
    write(tmp_path / "train.py", b"import torch\nraise RuntimeError('CUDA out of memory. Tried to allocate ')\n")
    write(tmp_path / "ds_config.json", b'{\n  "train_batch_size": 8\n}\n')
    write(tmp_path / "run.sh", b"#!/bin/bash\nsrun python train.py\n")
    with open_inputs([tmp_path]) as opened:
        assert {s.kind for s in opened.sources} == {SourceKind.CONFIG}


OUTPUT = b"[2024-01-22 13:33:34,193] torch.distributed.elastic: [ERROR] failed (exitcode: 1) local_rank: 2 (pid: 312)\n"
SCRIPT = b"#!/bin/bash\n#SBATCH --nodes=2\nmodule load cuda/12.4\nsrun python train.py\n"


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("sft.log", SCRIPT + OUTPUT, SourceKind.LOG),
        ("slurm-4117.out", SCRIPT + b"starting\nlost\n", SourceKind.LOG),
        ("4117.2", SCRIPT, SourceKind.LOG),
        ("output", SCRIPT + OUTPUT, SourceKind.LOG),
        ("output", SCRIPT + b"x\n" * 90_000 + b"[rank3]: Traceback (most recent call last):\n", SourceKind.LOG),
        (
            "output",
            b'#!/usr/bin/env python\nTraceback (most recent call last):\n  File "a.py", line 1\n',
            SourceKind.LOG,
        ),
        ("output", SCRIPT + b"slurmstepd: error: *** JOB 7 CANCELLED ***\n", SourceKind.LOG),
        ("train", SCRIPT, SourceKind.CONFIG),
        (
            "train",
            b"#!/usr/bin/env python\nimport torch\nraise RuntimeError('CUDA out of memory')\n",
            SourceKind.CONFIG,
        ),
        ("job.sh", SCRIPT + b"# [2024-01-22 13:33:34,193] as it was\n", SourceKind.CONFIG),
    ],
)
def test_a_log_may_begin_with_the_script_that_ran(tmp_path, name, text, kind):
    write(tmp_path / name, text)
    with open_inputs([tmp_path]) as opened:
        assert [s.kind for s in opened.sources] == [kind]
