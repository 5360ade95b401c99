"""Sentences that say no more than their lines do: who was inside a collective, what never started, whose driver it is."""

import pytest

from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose

TIMED_OUT = (
    "[rank{r}]:[E1112 08:18:21.009718819 ProcessGroupNCCL.cpp:629] [Rank {r}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=99, OpType={op}, NumelIn={numel}, NumelOut={numel}, Timeout(ms)=600000) ran for 600012 milliseconds before timing out."
)
STANDS = (
    "[rank{r}]:[E1112 08:18:21.009718898 ProcessGroupNCCL.cpp:2168] [PG ID 0 PG GUID 0(default_pg) Rank {r}]  failure detected by "
    "watchdog at work sequence id: 99 PG status: last enqueued work: 99, last completed work: 98"
)
LATE = (TIMED_OUT, STANDS)


def told(folder, files):
    folder.mkdir(exist_ok=True)
    for name, lines in files.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return diagnose([folder]).verdict


def waits(op, rank):
    return ["world_size=4", *(line.format(r=rank, op=op, numel=2048) for line in LATE)]


def test_a_bundle_of_calls_under_the_same_number_is_not_that_collective(tmp_path):
    alike = told(tmp_path / "a", {f"rank{r}.log": waits("ALLREDUCE", r) for r in range(4)})
    assert "4 of 4" in alike.summary
    assert alike.category is Category.NETWORK
    ops = ["ALLREDUCE", "ALLREDUCE", "ALLREDUCE", "COALESCED"]
    other = told(tmp_path / "b", {f"rank{r}.log": waits(op, r) for r, op in enumerate(ops)})
    assert "were inside" not in other.summary
    assert other.category is not Category.NETWORK


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 1/2 clients joined.", "1 of 2"),
        ("torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. 15/16 clients joined.", "15 of 16"),
    ],
)  # fmt: skip
def test_who_waited_for_others_to_join_waited_in_no_collective(tmp_path, line, count):
    verdict = told(tmp_path, {"node0.log": [line]})
    assert (verdict.failed, verdict.category) == (True, Category.UNKNOWN)
    assert "never started" in verdict.summary
    assert count in verdict.summary


def test_an_old_driver_is_the_hosts_and_not_the_build(tmp_path):
    head = [
        "[rank4]: Traceback (most recent call last):",
        '[rank4]:   File "/app/fit.py", line 3, in step',
        "[rank4]:     g()",
    ]
    line = "[rank4]: RuntimeError: The NVIDIA driver on your system is too old (found version 12020). Please update your GPU driver"
    assert "driver" in told(tmp_path / "a", {"rank4.log": [*head, line]}).summary
    built = told(
        tmp_path / "b", {"rank4.log": [*head, "[rank4]: AssertionError: Torch not compiled with CUDA enabled"]}
    )
    assert "without CUDA" in built.summary


@pytest.mark.parametrize(
    ("error", "category"),
    [
        ("PermissionError: [Errno 1] Operation not permitted: '/dev/nvidia3'", Category.INFRASTRUCTURE),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/dev/infiniband/uverbs0'", Category.INFRASTRUCTURE),
        ("PermissionError: [Errno 13] Permission denied: '/data/cache/lock'", Category.SOFTWARE),
    ],
)
def test_a_device_that_is_refused_is_no_file(tmp_path, error, category):
    lines = [
        "[rank0]: Traceback (most recent call last):",
        '[rank0]:   File "/app/fit.py", line 3, in step',
        "[rank0]:     g()",
    ]
    assert told(tmp_path, {"rank0.log": [*lines, f"[rank0]: {error}"]}).category is category


def test_the_advice_about_an_exception_names_the_frame(tmp_path):
    lines = [
        "Traceback (most recent call last):",
        '  File "/app/fit.py", line 44, in <module>',
        "    main()",
        '  File "/app/fit.py", line 31, in step',
        "    loss(d)",
        '  File "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/loss.py", line 3, in forward',
        "    d['t']",
        "KeyError: 't'",
    ]
    steps = told(tmp_path, {"a.log": lines}).action.steps
    assert any("/app/fit.py:31 (step)" in step for step in steps)


@pytest.mark.parametrize("name", ["java", "node", "mysqld", "chrome"])
def test_a_killed_service_of_the_machine_is_no_reason_for_an_error_of_a_program(tmp_path, name):
    own = ["2026-11-12 08:04:50 step 100", "2026-11-12 08:05:00 ERROR in step"]
    error = [
        "[rank2]: Traceback (most recent call last):",
        '[rank2]:   File "/app/fit.py", line 3, in step',
        "[rank2]: KeyError: 'txt'",
    ]
    kill = f"Nov 12 08:20:02 cn1 kernel: Out of memory: Killed process 5003 ({name}) total-vm:8kB, anon-rss:9kB, file-rss:0kB"
    files = {"rank2.log": ["2026-11-12 08:00:00 host=cn1 rank=2 pid=5002", *own, *error], "kern.log": [kill]}
    verdict = told(tmp_path, files)
    assert verdict.category is not Category.INFRASTRUCTURE
    assert "cn1" not in verdict.culprits.hosts


def test_a_killed_process_of_the_job_may_be_the_reason(tmp_path):
    own = ["2026-11-12 08:00:00 host=cn1 rank=2 pid=5002", "2026-11-12 08:04:50 step 100"]
    kill = "Nov 12 08:05:02 cn1 kernel: Out of memory: Killed process 5002 (python) total-vm:8kB, anon-rss:9kB, file-rss:0kB"
    assert told(tmp_path, {"rank2.log": own, "kern.log": [kill]}).category is Category.INFRASTRUCTURE
