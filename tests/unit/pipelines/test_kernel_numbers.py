"""The kernel's number of a process is no rank's where other lines show it: the card, or that the rank went on speaking."""

from __future__ import annotations

import pytest

from firstfault.pipelines.diagnose import diagnose

CARDS = ("1b000", "9b000", "9c000", "bb000")
STUCK = (
    "[rank{rank}]:[E115 {at}.000000000 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=512, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) ran for 600012 milliseconds "
    "before timing out.\n"
)
KILL = (
    "Jan 15 {at} lab-2 kernel: Memory cgroup out of memory: Killed process {pid} (python) total-vm:9123456kB, "
    "anon-rss:6123456kB, file-rss:1024kB, shmem-rss:2048kB, UID:1000 pgtables:13107kB oom_score_adj:0\n"
)
MMU = (
    "Jan 15 {at} lab-2 kernel: NVRM: Xid (PCI:0000:{card}:00): 31, pid={pid}, name=python, channel 0x0000000b, intr 00000000. "
    "MMU Fault: ENGINE GRAPHICS GPC4 GPCCLIENT_T1_3 faulted @ 0x7f2c_00000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ\n"
)
ILLEGAL = (
    "[rank{rank}]: Traceback (most recent call last):\n"
    '[rank{rank}]:   File "/app/train.py", line 140, in main\n'
    "[rank{rank}]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"
)


def own(rank, last):
    host = "lab-1" if rank < 4 else "lab-2"
    pid = 48107 + rank
    joins = (
        f"{host}:{pid}:{pid} [{rank % 4}] NCCL INFO ncclCommInitRankConfig comm 0x55d0c0 rank {rank} nranks 8 "
        f"cudaDev {rank % 4} nvmlDev {rank % 4} busId {CARDS[rank % 4]} commId 0xfa93daea854b060b - Init COMPLETE\n"
    )
    steps = "".join(
        f"[2026-01-15 14:{20 + n}:00,000][rank{rank}][INFO] step {100 + n} loss 2.{n}13\n" for n in range(4)
    )
    return joins + steps + last


def verdict(folder, kernel, ends):
    for rank in range(8):
        last = ends.get(rank, STUCK.format(rank=rank, at="14:33:30"))
        (folder / f"rank{rank}.log").write_text(own(rank, last))
    (folder / "lab-2.kern.log").write_text(kernel)
    return diagnose([folder]).verdict


def test_who_speaks_long_after_a_kill_is_not_who_was_killed(tmp_path):
    # Rank 6 has that number in its container; its own line of 14:33 is ten minutes behind the kill.
    found = verdict(tmp_path, KILL.format(at="14:23:10", pid=48113), {5: ""})
    assert 6 not in (*found.culprits.ranks, *found.first_failed.ranks)
    assert set(found.culprits.ranks) <= {5}


def test_who_was_killed_and_fell_silent_is_named_by_its_number(tmp_path):
    found = verdict(tmp_path, KILL.format(at="14:23:10", pid=48113), {6: ""})
    assert (found.culprits.ranks, found.culprits.hosts) == ([6], ["lab-2"])


def test_a_kernel_in_another_zone_refutes_nothing(tmp_path):
    # Five hours west; by the job's clock the kill was at 14:24:10, within a minute of what the rank wrote last.
    last = "[2026-01-15 14:24:05,000][rank6][INFO] step 104 loss 2.413\n"
    found = verdict(tmp_path, KILL.format(at="09:24:10", pid=48113), {6: last})
    assert set(found.culprits.ranks) <= {6}
    assert found.culprits.hosts in ([], ["lab-2"])
    assert str(found.category) in {"infrastructure", "unknown", "data_loading_stall"}


@pytest.mark.parametrize("card", ["9b"])
def test_the_card_of_a_line_counts_more_than_its_number(tmp_path, card):
    end = "[2026-01-15 14:23:31,000][rank5][ERROR] training failed\n" + ILLEGAL.format(rank=5)
    found = verdict(tmp_path, MMU.format(at="14:23:30", card=card, pid=48113), {5: end})
    assert found.culprits.ranks == [5]
    assert found.first_failed.ranks == [5]
