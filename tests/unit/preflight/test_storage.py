"""Checks of folders: missing, refused, full, slow and dead ones, made for real where the machine allows."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from made import CHECKS, found, machine, may_unshare, package, run_check, states

from firstfault.preflight import machine as machines
from firstfault.preflight.machine import Asked, Folder

CODE = "import sys; from made import found, machine; from firstfault.preflight.machine import Asked; print(found('storage.write', machine(asked=Asked(write=(sys.argv[1],)))))"


def reads(*paths):
    return machine(asked=Asked(read=tuple(map(str, paths))))


def writes(*paths, **env):
    return machine(asked=Asked(write=tuple(map(str, paths))), **env)


def given(**facts):
    """A machine all of whose folders have these facts."""
    made = writes("/data", **facts.pop("env", {}))
    made.folder = lambda path, *, write: Folder(
        path, **{"exists": True, "is_folder": True, "readable": True, "writable": True, "kind": "ext4", **facts}
    )
    return made


def test_nothing_was_named():
    assert states("storage.read", machine()) == {"not_checkable"}
    assert states("storage.write", machine()) == {"not_checkable"}


def test_paths_that_are_read(tmp_path):
    assert states("storage.read", reads(tmp_path)) == {"ok"}
    assert found("storage.read", reads(tmp_path / "none")) == [("fail", f"{tmp_path}/none: No such file or directory")]
    assert states("storage.read", _asked_to_read(readable=False)) == {"fail"}


def _asked_to_read(**facts):
    made = given(**facts)
    made.asked = Asked(read=("/data",))
    return made


def test_folders_that_are_written(tmp_path):
    assert states("storage.write", writes(tmp_path)) == {"ok"}
    assert list(tmp_path.iterdir()) == []  # nothing is left
    assert states("storage.write", writes(tmp_path / "none")) == {"fail"}
    (tmp_path / "file").write_text("x")
    assert states("storage.write", writes(tmp_path / "file")) == {"fail"}
    # Nobody, not even an administrator, makes a file there.
    assert states("storage.write", writes("/proc/self")) == {"fail"}


def test_what_to_do_about_a_folder_that_refuses_is_not_what_helps_a_full_one(tmp_path):
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", "/proc/self"):
        (result,) = run_check(CHECKS["storage.write"], writes(path))
        assert "not needed" not in result.fix


def test_a_full_file_system():
    if may_unshare():
        script = 'm=$(mktemp -d) && mount -t tmpfs -o size=2m,nr_inodes=1k none "$m" && head -c 2097152 /dev/zero > "$m/x"; exec "$0" -c "$1" "$m"'
        words = ["unshare", "-rm", "bash", "-c", script, sys.executable, CODE]
        path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
        done = subprocess.run(
            words, capture_output=True, text=True, check=True, timeout=300, env={**os.environ, "PYTHONPATH": path}
        )
        (state, text), *_ = ast.literal_eval(done.stdout)
        assert state == "fail"
        assert "No space left on device" in text
    assert states("storage.write", given(free_mb=3)) == {"fail"}
    assert states("storage.write", given(free_mb=900)) == {"warn"}
    assert states("storage.write", given(free_mb=90000, free_inodes=0)) == {"fail"}
    assert states("storage.write", given(free_mb=90000, free_inodes=100000)) == {"ok"}


def test_a_slow_file_system():
    assert states("storage.write", given(write_ms=4000.0)) == {"warn"}


def test_a_file_system_that_does_not_answer(tmp_path, monkeypatch):
    sleeper = tmp_path / "sleeps.py"
    sleeper.write_text("import time; time.sleep(60)")
    monkeypatch.setattr(machines, "_FOLDER", sleeper)
    monkeypatch.setattr(machines, "FOLDER_S", 0.3)
    for check, made in (("storage.write", writes(tmp_path)), ("storage.read", reads(tmp_path))):
        (state, text), *_ = found(check, made)
        assert state == "fail"
        assert "the file system does not answer" in text


def test_temporary_files(tmp_path):
    assert states("storage.temporary", machine(TMPDIR=str(tmp_path / "none"))) == {"fail"}
    assert states("storage.temporary", machine(TMPDIR="/proc/self")) == {"fail"}
    assert states("storage.temporary", given(env={"TMPDIR": "/short"}, free_mb=50000)) == {"ok"}
    assert states("storage.temporary", given(env={"TMPDIR": "/" + "long/" * 20}, free_mb=50000)) == {"warn"}
    two = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "TMPDIR": "/shared/tmp"}
    assert states("storage.temporary", given(env=two, free_mb=50000, kind="nfs4")) == {"warn"}


def test_a_working_directory_that_is_gone(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert states("storage.working", machine()) == {"fail"}
    monkeypatch.chdir(tmp_path)
    assert states("storage.working", machine()) == {"ok"}


@pytest.mark.parametrize(
    ("env", "facts", "state"),
    [
        ({}, {}, "ok"),
        ({"HF_HOME": "/c"}, {"free_mb": 5000}, "ok"),
        ({"HF_HOME": "/c"}, {"free_mb": 3}, "warn"),
        ({"HF_HOME": "/c"}, {"writable": False}, "warn"),
        ({"HF_HOME": "/c"}, {"trouble": "no answer in 10 s"}, "warn"),
        (
            {"TRITON_CACHE_DIR": "/c", "WORLD_SIZE": "2", "RANK": "0", "LOCAL_WORLD_SIZE": "1"},
            {"kind": "lustre"},
            "warn",
        ),
        ({"TRITON_CACHE_DIR": "/c"}, {"kind": "lustre"}, "ok"),
        ({"HF_HOME": "/c", "WORLD_SIZE": "2", "RANK": "0", "LOCAL_WORLD_SIZE": "1"}, {"kind": "lustre"}, "ok"),
        ({"HOME": "/home/u"}, {"free_mb": 2}, "warn"),
        ({"HOME": "/home/u"}, {"free_mb": 2, "writable": False}, "ok"),
    ],
)
def test_caches(env, facts, state):
    assert states("storage.caches", given(env=env, **facts)) == {state}


def test_the_kind_of_a_file_system_is_that_of_its_mount():
    shm = machine().folder("/dev/shm", write=False)
    if shm.exists and Path("/dev/shm").stat().st_dev != Path("/dev").stat().st_dev:
        assert shm.kind == "tmpfs"
    assert machine().folder("/proc", write=False).kind == "proc"


def test_the_recorders_needs(tmp_path):
    assert states("recorder.box", machine()) == {"not_checkable"}
    refused = machine(asked=Asked(recorder="/proc/self/none"))
    answers = found("recorder.box", refused)
    assert any(state == "warn" and "shared folder" in text for state, text in answers)
    good = machine(asked=Asked(recorder=str(tmp_path / "box")))
    assert not any("shared folder" in text for state, text in found("recorder.box", good) if state == "warn")


TWO = {"RANK": "0", "WORLD_SIZE": "2"}


@pytest.mark.parametrize(
    ("version", "env", "state"),
    [
        ("2.4.0+cu124", {}, "ok"),
        ("2.4.0+cu124", TWO, "warn"),
        ("2.4.0+cu124", {**TWO, "TORCH_NCCL_TRACE_BUFFER_SIZE": "0"}, "warn"),
        ("2.4.0+cu124", {**TWO, "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000"}, "warn"),
        ("2.4.0+cu124", {**TWO, "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000", "TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}, "ok"),
        ("2.8.0+cu128", {**TWO, "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000"}, "ok"),
        ("2.8.0+cu128", {**TWO, "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000", "TORCH_NCCL_DUMP_ON_TIMEOUT": "0"}, "warn"),
        ("2.11.0+cu130", TWO, "ok"),
        ("2.4.0+cu124", {**TWO, "TORCH_NCCL_TRACE_BUFFER_SIZE": "9", "TORCH_NCCL_DUMP_ON_TIMEOUT": "1", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/none/here/rank_"}, "warn"),
        ("2.4.0+cu124", {**TWO, "TORCH_NCCL_TRACE_BUFFER_SIZE": "9", "TORCH_NCCL_DUMP_ON_TIMEOUT": "1", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/tmp/rank_"}, "ok"),
        ("2.4.0+cu124", {**TWO, "TORCH_NCCL_TRACE_BUFFER_SIZE": "9", "TORCH_NCCL_DUMP_ON_TIMEOUT": "1", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/tmp/rank_",
                         "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}, "warn"),
    ],
)  # fmt: skip
def test_the_flight_recorder(tmp_path, monkeypatch, version, env, state):
    cuda = f"{version[-3:-1]}.{version[-1]}"
    package(
        tmp_path,
        "torch",
        version,
        {"torch/__init__.py": "", "torch/version.py": f"__version__ = '{version}'\ncuda = '{cuda}'\n"},
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert states("recorder.flight", machine(**env)) == {state}


def test_without_pytorch_there_is_no_flight_recorder():
    made = machine(**TWO)
    made.__dict__["torch"] = {}
    assert states("recorder.flight", made) == {"not_checkable"}


def test_core_files(tmp_path):
    made = machine(tmp_path, files={"/proc/sys/kernel/core_pattern": "core"})
    for limit, says in ((0, "no core file"), (None, "working directory"), (1 << 30, "up to 1024 MB")):
        made.limit = lambda name, limit=limit: limit
        answers = found("recorder.core", made)
        assert answers[0][0] == "ok"
        assert says in answers[0][1]
