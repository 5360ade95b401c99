"""What came before an order to stop did not come of it; what a program prints when it obeys one is no end of its own."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions

STEPS = "".join(f"2026-03-04 09:{n}:00 INFO rank=0 step {n} loss 2.1\n" for n in range(30, 40))
ORDERS = {
    "time": "slurmstepd: error: *** JOB 72 ON n0 CANCELLED AT 2026-03-04T12:00:00 DUE TO TIME LIMIT ***\n",
    "preempted": "slurmstepd: error: *** STEP 72.0 ON n0 CANCELLED AT 2026-03-04T12:00:00 DUE TO PREEMPTION ***\n",
}
CRASH = (
    "[rank2]: Traceback (most recent call last):\n"
    '[rank2]:   File "/w/train.py", line 5, in <module>\n[rank2]:     main()\n'
    "[rank2]: TypeError: unsupported operand type(s) for +: 'NoneType' and 'int'\n"
    "E0304 {at}.000000 3900 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 2 (pid: 4802) of binary: /opt/venv/bin/python\n"
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n" + "=" * 60 + "\ntrain.py FAILED\n" + "-" * 60 + "\n"
    "Failures:\n  <NO_OTHER_FAILURES>\n" + "-" * 60 + "\nRoot Cause (first observed failure):\n[0]:\n"
    "  time      : 2026-03-04_{at}\n  host      : n0\n  rank      : 2 (local_rank: 2)\n  exitcode  : 1 (pid: 4802)\n"
    "  error_file: <N/A>\n  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html\n" + "=" * 60 + "\n"
)  # fmt: skip
WATCHDOG = (
    "[rank{r}]:[E304 {at}.100000000 ProcessGroupNCCL.cpp:632] [Rank {r}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=500, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=600000) ran for 600053 "
    "milliseconds before timing out.\n"
)


def hang(at):
    """Seven of eight ranks waited for ten minutes; rank 5 says nothing of it."""
    ready = "".join(f"[rank{r}]: 2026-03-04 09:30:00 world_size=8 rank={r} ready\n" for r in range(8))
    return ready + "".join(WATCHDOG.format(r=r, at=at) for r in range(8) if r != 5)


def verdict_of(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.log").write_text(text)
    return diagnose([str(folder)], DiagnoseOptions(engine="inline")).verdict


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_who_failed_before_the_order_was_not_ended_by_it(tmp_path, order):
    verdict = verdict_of(tmp_path, job=STEPS + CRASH.format(at="11:50:00") + order)
    assert verdict.category == Category.SOFTWARE
    assert verdict.first_failed.ranks == [2]


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_who_waited_too_long_before_the_order_did_not_wait_because_of_it(tmp_path, order):
    verdict = verdict_of(tmp_path, job=hang("10:00:00") + order)
    assert verdict.category != Category.INFRASTRUCTURE
    assert verdict.culprits.ranks == [5]


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_what_breaks_after_the_order_follows_from_it(tmp_path, order):
    late = "2026-03-04 12:00:05 INFO rank=0 saving\n" + CRASH.format(at="12:00:20")
    steps = "".join(f"2026-03-04 11:{n}:00 INFO rank=0 step {n} loss 2.1\n" for n in range(30, 60))
    assert verdict_of(tmp_path, job=steps + order + late).category == Category.INFRASTRUCTURE


OBEYED = (
    "[NeMo I 2026-03-04 12:00:01 preemption:88] Preemption detected, signaling trainer to stop\n",
    "[exiting program after receiving SIGTERM.] datetime: 2026-03-04 12:00:34\n",
)


@pytest.mark.parametrize("line", OBEYED, ids=["nemo", "megatron"])
def test_obeying_an_order_is_no_end_of_the_run(tmp_path, line):
    verdict = verdict_of(tmp_path, job=STEPS + line)
    assert verdict.failed is not False
    assert verdict.category in {Category.INFRASTRUCTURE, Category.UNKNOWN}


@pytest.mark.parametrize("line", OBEYED, ids=["nemo", "megatron"])
def test_a_hang_before_it_is_still_a_hang(tmp_path, line):
    assert verdict_of(tmp_path, job=hang("11:30:00") + line).culprits.ranks == [5]


MACHINE = {
    "card": "Mar  4 {at} n0 kernel: NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n",
    "link": "Mar  4 {at} n0 kernel: mlx5_core 0000:0c:00.0 ib0: Link down\n",
    "store": "Mar  4 {at} n0 kernel: nfs: server filer2 not responding, still trying\n",
}


@pytest.mark.parametrize("line", MACHINE.values(), ids=MACHINE)
@pytest.mark.parametrize(("at", "most"), [("10:03:00", "possible"), ("10:12:00", "possible"), ("10:25:00", "possible")])
def test_a_machine_that_fails_after_the_wait_is_not_sure_to_be_its_reason(tmp_path, line, at, most):
    (tmp_path / "kern.log").write_text(line.format(at=at))
    verdict = verdict_of(tmp_path, job=hang("10:00:00"))
    assert str(verdict.strength) in {"unknown", most}
    assert verdict.culprits.hosts != ["n0"] or str(verdict.culprits.strength) in {"unknown", most}
