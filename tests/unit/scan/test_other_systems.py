"""What another system has not: modules and calls of POSIX, Hyperscan and its like. Logs are read all the same, with the same answer."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).parents[2] / "cases"
JOBS = [
    "xid45-after-nvlink-fault",
    "yolov8x-two-gpus-first-validation",
    "fsdp-reduce-vs-allgather",
    "nanotron-rank0-tokenizing",
]
WITHOUT_POSIX = """
import importlib.abc, os, sys
import asyncio, concurrent.futures, ctypes, multiprocessing.connection, selectors, shutil, socket, subprocess, tempfile  # they know their system
import click, jinja2, msgspec, numpy, rich.console, zstandard
MODULES = {"fcntl", "grp", "pwd", "resource", "termios", "tty", "pty", "syslog"}
for name in MODULES:
    sys.modules.pop(name, None)
class Gone(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Gone())
for name in ("pread", "preadv", "pwrite", "pwritev", "O_CLOEXEC", "O_NONBLOCK", "O_NOFOLLOW", "fork", "forkpty", "geteuid", "getuid", "getgid",
             "sched_getaffinity", "uname", "register_at_fork", "posix_fadvise", "mkfifo", "getloadavg", "sysconf", "killpg", "getpgid", "setsid"):
    if hasattr(os, name):
        delattr(os, name)
"""
WITHOUT_ENGINES = """
import importlib.abc, sys
class Gone(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"hyperscan", "re2", "isal"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Gone())
"""
RUN = """
import sys
from firstfault.cli.main import run
sys.exit(run(sys.argv[1:]))
"""


def said(before, *words):
    done = subprocess.run([sys.executable, "-c", before + RUN, *words], capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1, 3}, done.stderr
    assert not done.stderr
    return done.stdout


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize(
    "before", [WITHOUT_POSIX, WITHOUT_ENGINES, WITHOUT_POSIX + WITHOUT_ENGINES], ids=["posix", "engines", "both"]
)
def test_logs_are_read_with_the_same_answer(name, before):
    words = ["diagnose", str(CASES / name / "logs"), "--format", "json"]
    assert json.loads(said(before, *words)) == json.loads(said("", *words))


@pytest.mark.parametrize(
    "words", [["ranks"], ["timeline"], ["diagnose", "--format", "markdown"], ["explain", "Xid 79"]]
)
def test_the_other_commands_on_logs_too(words):
    logs = [] if words[0] == "explain" else [str(CASES / JOBS[2] / "logs")]
    assert said(WITHOUT_POSIX + WITHOUT_ENGINES, *words, *logs) == said("", *words, *logs)


def test_archives_and_pipes_too(tmp_path):
    import shutil

    packed = shutil.make_archive(str(tmp_path / "job"), "gztar", CASES / JOBS[0] / "logs")
    words = ["diagnose", packed, "--format", "json"]
    assert json.loads(said(WITHOUT_POSIX, *words)) == json.loads(said("", *words))


def test_what_takes_the_place_of_pread_reads_the_same(tmp_path, monkeypatch):
    from firstfault.model import files

    path = tmp_path / "a"
    path.write_bytes(bytes(range(256)) * 50)
    descriptor = os.open(path, files.READ)
    whole = [files.read_at(descriptor, n, o) for n, o in [(10, 0), (300, 200), (5, 12_799), (5, 20_000)]]
    monkeypatch.delattr(os, "pread")
    monkeypatch.delattr(os, "preadv")
    assert [files.read_at(descriptor, n, o) for n, o in [(10, 0), (300, 200), (5, 12_799), (5, 20_000)]] == whole
    buffer = memoryview(bytearray(300))
    assert files.read_into(descriptor, buffer, 12_700) == 100
    assert bytes(buffer[:100]) == path.read_bytes()[12_700:]
    os.close(descriptor)
