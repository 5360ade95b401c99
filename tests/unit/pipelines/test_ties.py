"""A machine's or a container's line counts for the job by what ties it to it, and where its time can be a reason."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

STARTED = "".join(
    f"gpu{r // 4}:{700 + r}:{700 + r} [{r % 4}] NCCL INFO Bootstrap: Using eth0:10.3.0.{r // 4}<0>\n"
    f"[rank{r}]: gpu{r // 4} pid {700 + r} local_rank {r % 4} started\n"
    for r in range(8)
)
STEPS = "".join(f"2026-05-04 10:0{n}:00,000 INFO step {n}0 loss 2.{n}\n" for n in range(1, 7))
OWN = (
    "[rank5]: Traceback (most recent call last):\n"
    '[rank5]:   File "/app/tune.py", line 77, in batch\n'
    "[rank5]:     x = row['mask']\n"
    "[rank5]: KeyError: 'mask'\n"
)
ENDED = (
    "srun: error: gpu1: task 5: Exited with exit code 1\n"
    "slurmstepd: error: *** STEP 812.0 ON gpu0 CANCELLED AT 2026-05-04T10:06:20 ***\n"
)
EVENTS = "LAST SEEN   TYPE      REASON    OBJECT          MESSAGE\n"


def verdict_of(folder, files):
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return diagnose([folder]).verdict


def beside_own(folder, name, text, *, end=ENDED):
    return verdict_of(folder, {"train.log": STARTED + STEPS + OWN, "slurm.out": end, name: text})


@pytest.mark.parametrize(
    "row",
    [
        "4m  Warning  Evicted   pod/grafana-7f9  The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 2Gi.\n",
        "4m  Normal   Preempted pod/notebook-17  Preempted by pod 77 on node cpu07\n",
        "4m  Warning  OOMKilling node/cpu44      Memory cgroup out of memory: Killed process 901 (java)\n",
    ],
)
def test_what_befell_other_pods_of_the_cluster_stands_back_behind_a_rank_s_own_error(tmp_path, row):
    found = beside_own(tmp_path, "events.txt", EVENTS + row)
    assert (found.category, found.first_failed.ranks) == (Category.SOFTWARE, [5])
    assert "nothing orders" not in found.summary


XID = "[Mon May  4 10:{at} 2026] NVRM: Xid (PCI:0000:9b:00): {code}, pid={pid}, name={name}, {words}\n"


def test_an_xid_after_the_scheduler_s_end_is_no_rival_of_the_error_that_ended_the_job(tmp_path):
    text = XID.format(at="06:50", code=79, pid=9, name="python", words="GPU has fallen off the bus.")
    found = beside_own(tmp_path, "dmesg-gpu1.txt", text)
    assert (found.category, found.first_failed.ranks) == (Category.SOFTWARE, [5])


def test_an_xid_before_that_end_stays_one(tmp_path):
    text = XID.format(at="06:05", code=79, pid=9, name="python", words="GPU has fallen off the bus.")
    found = beside_own(tmp_path, "dmesg-gpu1.txt", text)
    assert found.strength is Strength.POSSIBLE
    assert found.category is Category.GPU_CUDA


@pytest.mark.parametrize(("name", "category"), [("jupyter-lab", Category.SOFTWARE), ("python", Category.GPU_CUDA)])
def test_a_contained_memory_error_ends_the_program_that_it_names_and_no_other(tmp_path, name, category):
    text = XID.format(at="06:05", code=94, pid=99001, name=name, words="Contained: CE User Channel (0x9).")
    assert beside_own(tmp_path, "dmesg-gpu1.txt", text).category is category


WAIT = "".join(
    f"[rank{r}]:[E504 10:20:00.10000{r}000 ProcessGroupNCCL.cpp:632] [Rank {r}] Watchdog caught collective operation timeout: "
    f"WorkNCCL(SeqNum=31, OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)=600000) ran for 600015 milliseconds before timing out.\n"
    f"[rank{r}]:[E504 10:20:00.10000{r}000 ProcessGroupNCCL.cpp:2268] [PG ID 0 PG GUID 0(default_pg) Rank {r}] failure detected by "
    f"watchdog at work sequence id: 31 PG status: last enqueued work: 32, last completed work: 30\n"
    for r in range(8)
    if r != 5
)
PLAIN = "".join(f"[rank{r}]: Initializing distributed: GLOBAL_RANK: {r}, MEMBER: {r + 1}/8\n" for r in range(8))
KILLED = """Name:         {pod}
Namespace:    ml
Node:         {node}/10.9.0.2
Status:       Failed
Containers:
  main:
    State:          Terminated
      Reason:       OOMKilled
      Exit Code:    137
      Started:      Mon, 04 May 2026 09:50:00 +0000
      Finished:     Mon, 04 May 2026 {at} +0000
    Ready:          False
    Restart Count:  0
"""


def beside_wait(folder, name, text, start=PLAIN):
    return verdict_of(folder, {"job.log": start + STEPS + WAIT, name: text})


@pytest.mark.parametrize("pod", ["fluent-1", "grafana-0", "web-6b7f5d9c8-x2x9k"])
def test_a_container_killed_late_that_nothing_ties_to_the_silent_rank_is_not_its(tmp_path, pod):
    found = beside_wait(tmp_path, "describe.txt", KILLED.format(pod=pod, node="node77", at="10:20:01"))
    assert found.category is not Category.INFRASTRUCTURE
    assert (found.culprits.ranks, found.culprits.hosts) == ([5], [])


def test_one_killed_before_the_wait_that_nothing_ties_is_a_possibility_and_the_silent_rank_stays_named(tmp_path):
    found = beside_wait(tmp_path, "describe.txt", KILLED.format(pod="fluent-1", node="node77", at="10:09:50"))
    assert (found.strength, found.culprits.ranks, found.culprits.hosts) == (Strength.POSSIBLE, [5], [])


def test_the_pod_of_the_silent_rank_is_its_container(tmp_path):
    found = beside_wait(tmp_path, "describe.txt", KILLED.format(pod="tune-worker-5", node="node77", at="10:09:50"))
    assert (found.category, found.culprits.ranks) == (Category.INFRASTRUCTURE, [5])
    assert found.strength.level >= Strength.SUPPORTED.level


LINK = "[Mon May  4 10:09:50 2026] mlx5_core 0000:8a:00.0 ib2: Link down\n"


def test_a_link_of_a_machine_that_nothing_ties_to_the_job_leaves_the_absent_rank_named(tmp_path):
    found = beside_wait(tmp_path, "dmesg-node05.txt", LINK)
    assert (found.strength, found.culprits.ranks, found.culprits.hosts) == (Strength.POSSIBLE, [5], [])
    assert "no line tells" in found.summary


def test_a_link_of_the_absent_rank_s_own_machine_is_that_machine_s(tmp_path):
    found = beside_wait(tmp_path, "dmesg-gpu1.txt", LINK, start=STARTED)
    assert found.category is Category.NETWORK
    assert found.culprits.hosts == ["gpu1"]
