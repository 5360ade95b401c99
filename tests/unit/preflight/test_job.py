"""The checks of a whole job: reports are joined, and what only all of them show is told. Pure; real jobs are in `test_meeting`."""

import pytest
from msgspec.structs import replace

from firstfault.model.checks import CheckResult
from firstfault.preflight.families import Report
from firstfault.preflight.job import spans
from firstfault.preflight.job_checks import JOB_CHECKS
from firstfault.preflight.joint import join


def report(number: int, per_node: int = 2, ranks: int = 4, **changed) -> Report:
    node = number // per_node
    leads = number % per_node == 0
    facts = {
        "version.python": "3.11.7", "version.torch": "2.4.0", "version.nvidia-nccl-cu12": "2.20.5", "version.driver": "550.54.15", "gpu.kinds": "NVIDIA H100", "gpu.count": "2",
        "place.python": "/opt/venv/bin/python", "network.interface": "eth0", "network.address": f"10.0.0.{node + 1}", "network.master": "10.0.0.1", "setting.NCCL_DEBUG": "WARN",
        "folder./ckpt": "lustre 10.9.9.9@o2ib:/scratch",
    }  # fmt: skip
    base = Report(
        host=f"node-{node}", pid=1000 + number, task=number, rank=number, local_rank=number % per_node, world=ranks, tasks=ranks, started_by="SLURM", leads_node=leads,
        master="node-0:29500", zone="+0000", at=1e9, facts=facts if leads else {},
    )  # fmt: skip
    if leads and node:
        base = replace(
            base, clock_s=0.01, checks=[CheckResult(id="job.reach", state="ok", seen="node-0:29500 is reached")]
        )
    changed_facts = {k: v for k, v in changed.items() if "." in k}
    plain = {k: v for k, v in changed.items() if "." not in k}
    if changed_facts and leads:
        plain["facts"] = {k: v for k, v in {**facts, **changed_facts}.items() if v is not None}
    return replace(base, **plain)


def job(*changes, ranks=4, **options):
    """A job of two machines, in which some ranks are changed."""
    by_rank = dict(changes)
    reports = [report(r, ranks=ranks, **by_rank.get(r, {})) for r in range(ranks) if by_rank.get(r, {}) is not None]
    return join(reports, reports[0], expected=ranks, **options)


def state(answer, check):
    found = {c.state for c in answer.checks if c.id == check}
    assert all(c.fix for c in answer.checks if c.state in {"warn", "fail"})
    return found


def test_a_healthy_job_is_in_order():
    answer = job()
    assert answer.state == "ok"
    assert {c.state for c in answer.checks} == {"ok"}
    assert {c.id for c in answer.checks} == {c.id for c in JOB_CHECKS}
    assert [n.ranks for n in answer.nodes] == [[0, 1], [2, 3]]
    assert answer.reported == answer.world_size == 4
    assert answer.missing == []


@pytest.mark.parametrize(
    ("changes", "check", "expected", "says"),
    [
        ([(3, None)], "job.reported", "fail", "1 of 4 did not answer in time: 3"),
        ([(3, {"rank": 2})], "job.ranks", "fail", "rank 2 is there 2 times"),
        ([(r, {"rank": 0}) for r in (1, 2, 3)], "job.ranks", "fail", "rank 0 is there 4 times"),
        ([(3, {"rank": 9})], "job.ranks", "fail", "ranks 9 in a world of 4"),
        ([(3, {"local_rank": 0})], "job.devices", "fail", "ranks 2-3 on node-1 would all take GPU 0"),
        ([(2, {"devices": "0"}), (3, {"devices": "0", "local_rank": 0})], "job.devices", "fail", "would all take GPU 0"),
        ([(2, {"devices": "0", "local_rank": 0}), (3, {"devices": "1", "local_rank": 0})], "job.devices", "ok", "no two ranks"),
        ([(2, {"world": 8})], "job.world", "fail", "WORLD_SIZE is not the same everywhere: 4 on node-[0-1]; 8 on node-1"),
        ([(2, {"master": "node-1:29500"}), (3, {"master": "node-1:29500"})], "job.world", "fail", "node-1:29500 on node-1"),
        ([(3, {"master": ""})], "job.world", "fail", "MASTER_ADDR is not set for 1 of 4"),
        ([(2, {"clock_s": 5.0})], "job.clocks", "warn", "the clock of node-1 is 5 s ahead of that of node-0"),
        ([(2, {"clock_s": -400.0})], "job.clocks", "fail", "400 s behind"),
        ([(2, {"clock_s": 40.0, "started_by": "torchrun"})], "job.clocks", "fail", "40 s ahead"),
        ([(2, {"clock_s": None})], "job.clocks", "not_checkable", "could not be compared"),
        ([(2, {"zone": "+0200"}), (3, {"zone": "+0200"})], "job.zones", "warn", "+0000 on node-0; +0200 on node-1"),
        ([(2, {"version.torch": "2.3.1"})], "job.versions", "fail", "torch: 2.3.1 on node-1; 2.4.0 on node-0"),
        ([(2, {"version.nvidia-nccl-cu12": None})], "job.versions", "fail", "none on node-1"),
        ([(2, {"version.driver": "535.54.03"})], "job.versions", "warn", "driver"),
        ([(2, {"gpu.count": "1"})], "job.gpus", "warn", "number of GPUs: 1 on node-1; 2 on node-0"),
        ([(2, {"gpu.kinds": "NVIDIA A100"})], "job.gpus", "warn", "kinds of GPUs"),
        ([(2, {"setting.NCCL_ALGO": "Ring"})], "job.settings", "warn", "NCCL_ALGO: none on node-0; Ring on node-1"),
        ([(0, {"network.address": "172.17.0.1"}), (2, {"network.address": "172.17.0.1"})], "job.addresses", "fail", "node-[0-1] would all give 172.17.0.1"),
        ([(0, {"folder./ckpt": "ext4 /dev/sda1"}), (2, {"folder./ckpt": "ext4 /dev/sda1"})], "job.folders", "warn", "a disk of its own on node-[0-1]"),
        ([(2, {"folder./ckpt": "nfs4 server:/x"})], "job.folders", "warn", "not the same file system"),
        ([(2, {"place.python": "/usr/bin/python3"})], "job.python", "warn", "/usr/bin/python3 on node-1"),
        ([(2, {"checks": []})], "job.reach", "not_checkable", "no meeting place"),
        ([(2, {"checks": [CheckResult(id="job.reach", state="fail", seen="node-0:29500 cannot be reached from node-1: timed out", fix="x")]})], "job.reach", "fail", "timed out"),
    ],
)  # fmt: skip
def test_what_only_all_of_them_show(changes, check, expected, says):
    answer = job(*changes)
    assert state(answer, check) == {expected}
    assert any(says in c.seen for c in answer.checks if c.id == check), [c.seen for c in answer.checks if c.id == check]
    # Nothing else is blamed for it, but what goes with it by nature.
    also = {"job.ranks": {"job.devices"}, "job.devices": set(), "job.world": {"job.ranks"}}.get(check, set())
    others = {c.id for c in answer.checks if c.state in {"warn", "fail"}} - {check} - also
    assert others == set()


def test_the_address_of_rank_0_on_its_own_machine_may_be_a_loopback():
    assert state(job((0, {"network.master": "127.0.1.1"})), "job.addresses") == {"ok"}
    three = [report(r, ranks=6, **({"network.master": "10.0.0.9"} if r == 4 else {})) for r in range(6)]
    assert state(join(three, three[0], expected=6), "job.addresses") == {"warn"}


def test_machines_of_which_nobody_answered_are_named():
    answer = job((2, None), (3, None), nodes=["node-0", "node-1"])
    (told,) = [c for c in answer.checks if c.id == "job.reported"]
    assert told.hosts == ["node-1"]
    assert told.ranks == [2, 3]
    assert answer.missing == [2, 3]
    assert answer.state == "fail"


def test_the_same_result_of_many_machines_is_said_once():
    full = [
        CheckResult(id="host.shm", state="warn", seen=f"/dev/shm: {40 + r} of 64 MB free", fix="more")
        for r in range(64)
    ]
    reports = [report(r, per_node=1, ranks=64, checks=[full[r]]) for r in range(64)]
    (told,) = [c for c in join(reports, reports[0], expected=64).checks if c.id == "host.shm"]
    assert told.seen == "/dev/shm: 40 of 64 MB free (node-0; 64 machines in all)"
    assert len(told.hosts) == 64


def test_ten_thousand_ranks_are_joined_in_time():
    import time

    reports = [report(r, per_node=8, ranks=10_000) for r in range(10_000)]
    begin = time.process_time()
    answer = join(reports, reports[0], expected=10_000)
    assert time.process_time() - begin < 10
    assert answer.state == "ok"


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([3], "3"), ([0, 1, 2, 7], "0-2, 7"), (range(0, 40, 2), "0, 2, 4, 6, 8, 10, 12, 14 and 12 more")],
)
def test_spans(numbers, text):
    assert spans(list(numbers)) == text
