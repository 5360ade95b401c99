"""Whatever becomes of its files, threads and clocks: the program goes on to its own end."""

import os

import pytest
from programs import run

from firstfault.recorder import format as layout

BUSY = """
import os, shutil, sys, threading, time
import firstfault.recorder as r
{before}
r.start()
{after}
for n in range(200):
    r.step(); r.phase("forward"); r.item("x"); r.metrics(loss=1.0); r.describe(n=n)
r.report(ValueError("x"))
print("end")
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "shutil.rmtree(os.environ['FIRSTFAULT_RECORD_DIR'])"),
        ("", "shutil.rmtree(os.environ['FIRSTFAULT_RECORD_LOCAL'])"),
        ("open(os.environ['FIRSTFAULT_RECORD_DIR'], 'w').close()", ""),
        ("open(os.environ['FIRSTFAULT_RECORD_LOCAL'], 'w').close()", ""),
        ("import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)", ""),
        ("import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))", ""),
        ("def no(*a, **k): raise RuntimeError(\"can't start new thread\")\nthreading.Thread.start = no", ""),
        ("", "time.time = lambda: 0.0; time.time_ns = lambda: 0"),
        ("os.posix_fallocate = lambda *a: (_ for _ in ()).throw(OSError(28, 'No space left on device'))", ""),
        ("os.mkfifo = lambda *a: (_ for _ in ()).throw(OSError(1, 'Operation not permitted'))", ""),
        ("os.environ['FIRSTFAULT_RECORD_HANG_S'] = 'soon'; os.environ['FIRSTFAULT_RECORD_MB'] = '-1'", ""),
        ("os.environ['RANK'] = 'three'; os.environ['WORLD_SIZE'] = ''", ""),
        ("sys.modules['torch'] = type(sys)('torch')", ""),
        ("import types\nfor n in ('torch', 'torch.optim', 'torch.optim.optimizer', 'torch.utils.data.dataloader', 'torch.serialization'):\n    m = types.ModuleType(n); m.__spec__ = None; sys.modules[n] = m", ""),
        ("os.chdir('/'); os.getcwd = lambda: (_ for _ in ()).throw(FileNotFoundError())", ""),
        ("", "r.step('seven'); r.step(2 ** 80); r.phase(None); r.metrics(x=object()); r.describe(y={1: {2: object()}})"),
    ],
)  # fmt: skip
def test_the_program_ends_as_it_would_have(tmp_path, before, after):
    left = run(tmp_path, BUSY.format(before=before, after=after))
    assert (left.code, left.out) == (0, "end\n"), left.err
    assert left.err == ""


def test_a_file_of_events_is_bounded_and_says_so(tmp_path):
    left = run(
        tmp_path,
        """
        import firstfault.recorder as r
        r.start()
        for n in range(20000):
            r.describe(note="x" * 100 + str(n))
        """,
        FIRSTFAULT_RECORD_MB="0.1",
    )
    size = sum(f.stat().st_size for f in left.box.rglob("*") if f.is_file())
    assert left.code == 0
    assert size <= 0.1 * (1 << 20)


def test_memory_does_not_grow_with_steps(tmp_path):
    left = run(
        tmp_path,
        """
        import resource
        import firstfault.recorder as r
        def rss():
            return int(open("/proc/self/statm").read().split()[1]) * 4
        before = rss()
        r.start()
        for n in range(1000):
            r.step(); r.phase("data"); r.phase("forward"); r.metrics(loss=n)
        warm = rss()
        for n in range(300_000):
            r.step(); r.phase("data"); r.phase("forward"); r.metrics(loss=n); r.phase(f"p{n}")
        print(warm - before, rss() - warm)
        """,
    )
    started, grown = map(int, left.out.split())
    assert started < 20_000
    assert grown < 1_000


def test_a_program_that_is_no_rank_is_recorded_as_such(tmp_path):
    left = run(tmp_path, "import firstfault.recorder as r; r.start(); r.step()", RANK="", SLURM_PROCID="")
    assert left.records(layout.HEADER)[0]["rank"] is None
    assert next(left.box.rglob("process.*.jsonl"))


def test_files_are_the_owners_alone(tmp_path):
    left = run(tmp_path, "import firstfault.recorder as r; r.start(); r.report(ValueError())")
    for file in left.box.rglob("*"):
        assert os.stat(file).st_mode & 0o077 == 0, file
