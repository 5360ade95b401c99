"""Checks of the machine: small mounts, limits and processors are real where they may be had, cgroups and memory are made files."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from made import found, machine, may_unshare, states

from firstfault.preflight.host import clock_state
from firstfault.preflight.machine import Folder

EIGHT = {"RANK": "0", "WORLD_SIZE": "8", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "8"}
PROCESS = [sys.executable, "-c"]
CODE = "import os, sys; from made import found, machine; print(found(sys.argv[1], machine(**dict(a.split('=', 1) for a in sys.argv[2:]))))"


def asked_in_another(check: str, before: str, **env: str) -> list[tuple[str, str]]:
    """What a check finds in a process that a shell prepared."""
    return _under(f"{before}; exec", check, **env)


def _under(prefix: str, check: str, *, code: str = CODE, **env: str) -> list[tuple[str, str]]:
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    words = ["bash", "-c", f'{prefix} "$@"', "bash", *PROCESS, code, check, *(f"{k}={v}" for k, v in env.items())]
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=120, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == 0, done.stderr
    result: list[tuple[str, str]] = ast.literal_eval(done.stdout)
    return result


@pytest.mark.parametrize(
    ("free", "total", "env", "state"),
    [
        (63, 64, {}, "warn"),
        (20, 64, EIGHT, "fail"),
        (20, 64, {}, "warn"),
        (4, 16384, {}, "fail"),
        (16000, 16384, EIGHT, "ok"),
        (None, None, {}, "ok"),
    ],
)
def test_shared_memory_by_its_size(tmp_path, free, total, env, state):
    made = machine(tmp_path, **env)
    made.folder = lambda path, *, write: Folder(
        path, exists=True, is_folder=True, readable=True, writable=True, free_mb=free, total_mb=total
    )
    assert states("host.shm", made) == {state}


def test_a_small_mount_of_shared_memory():
    if may_unshare():
        small = "unshare -rm bash -c 'mount -t tmpfs -o size=64m none /dev/shm && exec \"$@\"' bash"
        (state, text), *_ = _under(small, "host.shm")
        assert state == "warn"
        assert "of 64 MB free" in text
        full = small.replace("/dev/shm && ", "/dev/shm && head -c 50M /dev/zero > /dev/shm/nccl-left && ")
        (state, text), *_ = _under(full, "host.shm", **EIGHT)
        assert state == "fail"
        assert "1 files of earlier or other programs" in text
    missing = machine(Path("/nonexistent"), **EIGHT)
    assert states("host.shm", missing) == {"fail"}


def test_a_low_limit_of_open_files():
    assert asked_in_another("host.open_files", "ulimit -n 128")[0][0] == "fail"
    assert asked_in_another("host.open_files", "ulimit -n 1024")[0][0] == "ok"
    assert asked_in_another("host.open_files", "ulimit -n 1024", **EIGHT)[0][0] == "warn"


def test_what_to_do_about_open_files_is_what_the_hard_limit_allows():
    code = "from made import CHECKS, machine, run_check; print([r.fix for r in run_check(CHECKS['host.open_files'], machine())])"
    (low,) = _under("ulimit -n 200; exec", "", code=code)
    assert "limits.conf" in low
    assert "ulimit -n " not in low
    (free,) = _under("ulimit -Sn 128; exec", "", code=code)
    assert "`ulimit -n " in free


def test_a_limit_of_addresses():
    assert asked_in_another("host.overcommit", "ulimit -v 8388608")[0][0] == "warn"


def test_a_rank_on_one_processor():
    first = min(os.sched_getaffinity(0))
    bound = f"taskset -c {first}"
    several = len(os.sched_getaffinity(0)) > 1
    tasks = {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "2"}
    assert _under(bound, "host.processors", **tasks)[0][0] == ("warn" if several else "ok")
    assert _under(bound, "host.processors")[0][0] == "ok"


def cgroup(files: dict[str, str]) -> dict[str, str]:
    return {"/proc/self/cgroup": "0::/job\n", **{f"/sys/fs/cgroup/job/{n}": t for n, t in files.items()}}


BIG = "MemTotal: 528000000 kB\nMemAvailable: 500000000 kB\n"


@pytest.mark.parametrize(
    ("files", "env", "state"),
    [
        ({"/proc/meminfo": BIG}, EIGHT, "ok"),
        ({"/proc/meminfo": "MemTotal: 8000000 kB\nMemAvailable: 4000000 kB\n"}, {}, "ok"),
        ({"/proc/meminfo": "MemTotal: 8000000 kB\nMemAvailable: 4000000 kB\n"}, EIGHT, "warn"),
        ({"/proc/meminfo": "MemTotal: 8000000 kB\nMemAvailable: 100000 kB\n"}, {}, "fail"),
        ({"/proc/meminfo": BIG, **cgroup({"memory.max": "max", "memory.current": "100"})}, EIGHT, "ok"),
        ({"/proc/meminfo": BIG, **cgroup({"memory.max": str(4 << 30), "memory.current": str(4 << 30)})}, {}, "fail"),
        # What the cgroup holds as a cache of files is free.
        ({"/proc/meminfo": BIG, **cgroup({"memory.max": str(8 << 30), "memory.current": str(8 << 30), "memory.stat": f"anon 1\ninactive_file {7 << 30}\n"})}, {}, "ok"),
        ({"/proc/meminfo": BIG, "/proc/self/cgroup": "9:memory:/job\n", "/sys/fs/cgroup/memory/job/memory.limit_in_bytes": str(2 << 30),
          "/sys/fs/cgroup/memory/job/memory.usage_in_bytes": str((2 << 30) - (64 << 20))}, {}, "fail"),
        # As SLURM makes them: the limit stands above the cgroup of the task.
        ({"/proc/meminfo": BIG, "/proc/self/cgroup": "0::/slurm/job_1/step_0/task_0\n", "/sys/fs/cgroup/slurm/job_1/step_0/task_0/memory.max": "max",
          "/sys/fs/cgroup/slurm/job_1/step_0/task_0/memory.current": "4096", "/sys/fs/cgroup/slurm/job_1/memory.max": str(2 << 30),
          "/sys/fs/cgroup/slurm/job_1/memory.current": str((2 << 30) - (99 << 20))}, {}, "fail"),
        ({}, {}, "not_checkable"),
    ],
)  # fmt: skip
def test_memory(tmp_path, files, env, state):
    assert states("host.memory", machine(tmp_path, files=files, **env)) == {state}


@pytest.mark.parametrize(
    ("most", "now", "env", "state"),
    [
        ("max", "900", {}, "ok"),
        ("1024", "1000", {}, "fail"),
        ("1024", "600", {}, "warn"),
        ("2048", "600", EIGHT, "warn"),
        ("100000", "600", EIGHT, "ok"),
    ],
)
def test_processes_that_a_cgroup_allows(tmp_path, monkeypatch, most, now, env, state):
    made = machine(tmp_path, files=cgroup({"pids.max": most, "pids.current": now}), **env)
    made.limit = lambda name: None
    assert states("host.processes", made) == {state}


def test_processes_that_the_user_may_start(tmp_path, monkeypatch):
    files = {f"/proc/{n}/status": "Name:\tx\nUid:\t1000\t1000\nThreads:\t10\n" for n in range(200, 240)}
    made = machine(tmp_path, files=files)
    monkeypatch.setattr(type(made), "uid", property(lambda self: 1000))
    made.limit = lambda name: 450
    assert found("host.processes", made)[0] == (
        "fail",
        "50 more processes or threads may be started (ulimit -u): one rank with its loaders needs hundreds",
    )


@pytest.mark.parametrize(
    ("check", "files", "state"),
    [
        ("host.overcommit", {"/proc/sys/vm/overcommit_memory": "2\n"}, "warn"),
        ("host.overcommit", {"/proc/sys/vm/overcommit_memory": "0\n"}, "ok"),
        ("host.huge_pages", {"/sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never", "/sys/kernel/mm/transparent_hugepage/defrag": "[always] defer madvise"}, "warn"),
        ("host.huge_pages", {"/sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never", "/sys/kernel/mm/transparent_hugepage/defrag": "always [madvise]"}, "ok"),
        ("host.huge_pages", {}, "ok"),
        ("host.processors", {"/proc/self/cgroup": "0::/job\n", "/sys/fs/cgroup/job/cpu.max": "50000 100000\n"}, "warn"),
        ("host.processors", {"/proc/self/cgroup": "0::/job\n", "/sys/fs/cgroup/job/cpu.max": "max 100000\n"}, "ok"),
    ],
)  # fmt: skip
def test_settings_of_the_kernel(tmp_path, check, files, state):
    made = machine(tmp_path, files=files)
    made.limit = lambda name: None
    assert states(check, made) == {state}


def test_the_clock():
    assert clock_state() in {True, False, None}
    assert states("host.clock", machine(TZ="Europa/Berlin")) >= {"warn"}
    assert states("host.clock", machine(TZ="../../etc/passwd")) >= {"warn"}
    assert states("host.clock", machine(TZ="UTC")) == {"ok"}
    assert states("host.clock", machine()) == {"ok"}


def test_a_clock_of_long_ago(monkeypatch):
    import firstfault.preflight.host as host

    monkeypatch.setattr(host.time, "time", lambda: 86400.0)
    assert states("host.clock", machine()) == {"fail"}


def test_a_clock_that_nobody_keeps_right(monkeypatch):
    import firstfault.preflight.host as host

    monkeypatch.setattr(host, "clock_state", lambda: True)
    assert states("host.clock", machine()) == {"ok"}
    assert states("host.clock", machine(RANK="0", WORLD_SIZE="2", LOCAL_WORLD_SIZE="1")) == {"warn"}
