"""What lies beside the logs of a job and is of another time: a machine's line after the job's end, files of an earlier run."""

from __future__ import annotations

import json

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


def dump(rank, created, world=4, last=20):
    """A flight-recorder dump whose newest collective is unfinished on all ranks but the last."""
    entries = [
        {
            "record_id": n, "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": n + 1, "p2p_seq_id": 0,
            "op_id": n + 1, "is_p2p": False, "profiling_name": "nccl:all_reduce", "input_sizes": [[4096]],
            "output_sizes": [[4096]], "input_dtypes": ["Float"], "output_dtypes": ["Float"], "timeout_ms": 600000,
            "time_created_ns": int(created * 1e9) + n, "state": "completed" if n + 1 < last else "scheduled",
            "retired": n + 1 < last,
        }
        for n in range(last if rank != world - 1 else last - 1)
    ]  # fmt: skip
    return json.dumps(
        {
            "version": "2.4",
            "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(world)))}},
            "pg_status": {},
            "entries": entries,
        }
    )


DAY = 86400
FAILED_AT = 1772618420  # 2026-03-04 10:00:20 UTC
STEPS = "".join(f"2026-03-04 09:5{n}:00 INFO step {n} loss 2.1\n" for n in range(10))
OF_RANK_1 = (
    STEPS + "".join(f"[rank1]: {x}\n" for x in RAISED.replace("ImportError", "ValueError").splitlines()) + BANNER
)


@pytest.mark.parametrize("days", [-400, -21, -3, 5])
def test_dumps_of_another_run_say_nothing_and_are_accounted_for(tmp_path, days):
    dumps = {f"fr/nccl_trace_rank_{r}.json": dump(r, FAILED_AT + days * DAY) for r in range(4)}
    alone = verdict_of(tmp_path / "alone", {"job.log": OF_RANK_1})
    with_them = verdict_of(tmp_path / "both", {"job.log": OF_RANK_1, **dumps})
    assert (with_them.category, with_them.strength, with_them.summary) == (
        alone.category,
        alone.strength,
        alone.summary,
    )
    told = diagnose([str(tmp_path / "both")], DiagnoseOptions(engine="inline"))
    rows = {c.file: c for c in told.coverage if c.file.startswith("fr/")}
    assert len(rows) == 4
    assert all(row.state == "skipped" and "another run" in row.reason for row in rows.values())


@pytest.mark.parametrize("hours", [-14, -1, 0, 8])
def test_dumps_of_about_that_time_are_heard(tmp_path, hours):
    """Logs state no zone: what differs by one, or by a year that was only inferred, may be of the same minute."""
    dumps = {f"fr/nccl_trace_rank_{r}.json": dump(r, FAILED_AT + hours * 3600) for r in range(4)}
    heard = verdict_of(tmp_path, {"job.log": STEPS, **dumps})
    assert heard.culprits.ranks == [3]


ORDERS = {
    "slurm": "slurmstepd: error: *** STEP 9913.0 ON node017 CANCELLED AT 2026-03-04T10:00:00 DUE TO PREEMPTION ***\n",
    "time": "slurmstepd: error: *** JOB 9913 ON node017 CANCELLED AT 2026-03-04T10:00:00 DUE TO TIME LIMIT ***\n",
}
OBEYED = "[NeMo I 2026-03-04 10:00:01 preemption:88] Preemption detected, signaling trainer to stop\n"


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_a_program_that_obeys_an_order_to_stop_did_not_end_as_planned(tmp_path, order):
    verdict = verdict_of(tmp_path, {"job.err": STEPS + order + OBEYED})
    assert verdict.failed
    assert verdict.category == Category.INFRASTRUCTURE
    assert verdict.culprits.ranks == []


ECC = (
    "[rank4]: Traceback (most recent call last):\n"
    '[rank4]:   File "/w/train.py", line 20, in <module>\n[rank4]:     main()\n'
    "[rank4]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
)


def test_a_kernel_log_without_a_host_takes_no_rank_away(tmp_path):
    """The Xid explains the error of one rank; that no line names its machine does not acquit the rank."""
    steps = "".join(f"[rank{r}]: 2026-03-04 09:5{n}:00 step {n} loss 2.1\n" for n in range(3) for r in range(8))
    xid = "[Wed Mar  4 09:55:56 2026] NVRM: Xid (PCI:0000:1b:00): 48, pid=9012, name=python, An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at partition 0, subpartition 1.\n"
    alone = verdict_of(tmp_path / "alone", {"job.log": steps + ECC})
    both = verdict_of(tmp_path / "both", {"job.log": steps + ECC, "dmesg.txt": xid})
    assert alone.culprits.ranks == both.culprits.ranks == [4]
    assert both.category == Category.GPU_CUDA
