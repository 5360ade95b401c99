"""Only machines of the job can be left out of its restart: not a storage machine, whose fault the job merely met."""

from __future__ import annotations

import pytest

from firstfault.pipelines.diagnose import diagnose

DOWN = "May  4 10:05:30 {host} kernel: mlx5_core 0000:17:00.0 ens1f0np0: Link down\n"
WAIT = (
    "[rank{r}]:[E504 10:20:00.000000001 ProcessGroupNCCL.cpp:629] [Rank {r}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=88, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) ran for 600048 milliseconds before timing out.\n"
)
HEADS = [
    "Hostname: {host}, rank {r} of 4, local rank {l}",
    "host={host} rank={r}/4",
    "Torch distributed initialized. Hostname {host}, pid {pid}, rank {r} / size 4, local rank {l} / local size 2.",
    "I0504 10:00:01.000000  100 train.py:50] process {r} of 4 started on host {host}",
]


def left_out(folder, head, down, where="kern.log", hosts=("cn-1", "cn-2")):
    for r in range(4):
        said = head.format(host=hosts[r // 2], r=r, l=r % 2, pid=50 + r)
        (folder / f"rank{r}.log").write_text(f"{said}\n2026-05-04 10:01:00 step 3 loss 2.1\n{WAIT.format(r=r)}")
    (folder / where).parent.mkdir(exist_ok=True)
    (folder / where).write_text(DOWN.format(host=down))
    return diagnose([folder]).verdict.action


@pytest.mark.parametrize("head", HEADS)
def test_a_machine_on_which_no_rank_of_the_job_ran_is_not_left_out(tmp_path, head):
    assert left_out(tmp_path, head, "stor-4").exclude_hosts == []


@pytest.mark.parametrize("head", HEADS)
def test_a_machine_of_the_job_is(tmp_path, head):
    assert left_out(tmp_path, head, "cn-2").exclude_hosts == ["cn-2"]


def test_where_ranks_run_on_pods_the_machines_are_not_known(tmp_path):
    pods = ("fit-worker-0", "fit-worker-1")
    assert left_out(tmp_path, HEADS[0], "gx-7", hosts=pods).exclude_hosts == ["gx-7"]


def test_where_no_line_places_a_rank_the_machines_are_not_known(tmp_path):
    assert left_out(tmp_path, "rank {r} of 4, starting on cuda:{l}", "cn-9").exclude_hosts == ["cn-9"]
