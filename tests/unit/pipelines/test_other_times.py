"""What lies beside the logs of a job and is of another time: a machine's line after the job's end, files of an earlier run."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions

BANNER = (
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n" + "=" * 60 + "\ntrain.py FAILED\n" + "-" * 60 + "\n"
    "Failures:\n  <NO_OTHER_FAILURES>\n" + "-" * 60 + "\nRoot Cause (first observed failure):\n[0]:\n"
    "  time      : 2026-03-04_10:00:20\n  host      : gn7\n  rank      : 0 (local_rank: 0)\n  exitcode  : 1 (pid: 812)\n"
    "  error_file: <N/A>\n  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html\n" + "=" * 60 + "\n"
)  # fmt: skip
RAISED = (
    'Traceback (most recent call last):\n  File "/srv/train.py", line 9, in <module>\n    main()\n'
    "  File \"/srv/train.py\", line 5, in main\n    run()\nImportError: cannot import name 'Rotary' from 'layers'\n"
)
START = "2026-03-04 10:00:00 INFO start\n"
TORCHRUN = START + "".join(f"[rank0]: {x}\n" for x in RAISED.splitlines()) + BANNER
STAMPED = "".join(f"2026-03-04 10:00:{2 * n:02d} gn7 train[812]: {x}\n" for n, x in enumerate(RAISED.splitlines()))
XID = "{at} gn7 kernel: NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
LINK = (
    "{at} gn7 kernel: mlx5_core 0000:0c:00.0: Port module event[error]: module 0, Cable error, Power budget exceeded\n"
)
MACHINE = "{at} gn7 kernel: mce: [Hardware Error]: Machine check events logged\n{at} gn7 kernel: EXT4-fs error (device nvme0n1): ext4_find_entry:1455: inode #2: comm python: reading directory lblock 0\n"


def verdict_of(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return diagnose([str(folder)], DiagnoseOptions(engine="inline")).verdict


@pytest.mark.parametrize("log", [TORCHRUN, STAMPED], ids=["banner", "stamps"])
@pytest.mark.parametrize("line", [XID, LINK, MACHINE], ids=["xid", "link", "disk"])
@pytest.mark.parametrize("at", ["Mar  4 12:22:31", "Mar  4 17:18:02"])
def test_a_machines_line_hours_after_the_end_is_no_fault_of_the_job(tmp_path, log, line, at):
    found = verdict_of(tmp_path, {"train.log": log, "gn7.kern": line.format(at=at)})
    assert (found.category, list(found.culprits.hosts)) == (Category.SOFTWARE, [])


@pytest.mark.parametrize("at", ["Mar  4 10:00:12", "Mar  4 10:00:25", "Mar  4 18:00:13", "Mar  4 15:30:12"])
def test_a_line_of_that_moment_on_some_zones_clock_is_not_ruled_out(tmp_path, at):
    found = verdict_of(tmp_path, {"train.log": TORCHRUN, "gn7.kern": XID.format(at=at)})
    assert list(found.culprits.hosts) == ["gn7"]


def steps(day, prefix, *, first=1, last=9):
    return "".join(prefix.format(day=day, second=n, step=first + n) for n in range(last - first))


FORMATS = [
    "[2026-03-{day:02d} 10:00:{second:02d}] iteration {step:8d}/    5000 | consumed samples: 64 | lm loss: 2.1E+00 |\n",
    "[2026-03-{day:02d} 10:00:{second:02d},120] [INFO] [logging.py:96:log_dist] [Rank 0] step={step}, skipped=0, lr=[0.0001], mom=[(0.9, 0.95)]\n",
    "2026-03-{day:02d} 10:00:{second:02d},120 INFO train: step {step}/5000 loss 2.13 lr 3e-4\n",
]
KEY = "".join(f"[rank0]: {x}\n" for x in RAISED.replace("ImportError: cannot import name 'Rotary' from 'layers'", "KeyError: 'answer'").splitlines())  # fmt: skip
MEMORY = "".join(f"[rank3]: {x}\n" for x in RAISED.replace("ImportError: cannot import name 'Rotary' from 'layers'", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.10 GiB of which 1.02 GiB is free.").splitlines())  # fmt: skip


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("old", ["rank3.log.1", "old/rank3.log", "train.log.bak"])
def test_a_file_of_an_earlier_run_is_an_earlier_start(tmp_path, form, old):
    files = {"rank0.log": steps(12, form) + KEY, old: steps(9, form) + MEMORY}
    found = verdict_of(tmp_path, files)
    assert (found.category, list(found.culprits.ranks)) == (Category.SOFTWARE, [])


@pytest.mark.parametrize("form", FORMATS)
def test_a_log_that_goes_on_in_the_next_file_is_one_start(tmp_path, form):
    files = {"rank0.log": steps(12, form, first=10, last=19) + KEY, "rank0.log.1": steps(9, form)}
    report = diagnose_all(tmp_path, files)
    assert (len(report.attempts), report.verdict.category) == (1, Category.SOFTWARE)


@pytest.mark.parametrize("form", FORMATS)
def test_logs_of_one_time_are_one_start(tmp_path, form):
    files = {"rank0.log": steps(12, form) + KEY, "rank3.log": steps(12, form) + MEMORY}
    assert len(diagnose_all(tmp_path, files).attempts) == 1


def diagnose_all(folder, files):
    for name, text in files.items():
        (folder / name).write_text(text)
    return diagnose([str(folder)], DiagnoseOptions(engine="inline"))
