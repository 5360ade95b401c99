"""A machine's line held against the job's own map: machines, cards, job number, and whose ranks wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

if TYPE_CHECKING:
    from pathlib import Path

    from firstfault.model.diagnosis import Verdict

EACH = 4
"""Ranks of each of the two machines; rank 6 is the third one of the second."""
CARDS = ("1b", "2b", "3b", "4b")
AT = "Mar 14 11:47:18"
"""Between the last step and the first time-out."""


def job(folder: Path, *, away: int = 6, first: str = "", hosts: tuple[str, str] = ("rig-01", "rig-02")) -> None:
    """Logs of a job of which all ranks but one waited in a collective; the truth is that nothing is told of that rank."""
    for node, host in enumerate(hosts):
        ranks = range(node * EACH, (node + 1) * EACH)
        lines = [f"2026-03-14 11:00:00,000 INFO launch: node_rank={node} nnodes=2 nproc_per_node={EACH} world_size=8"]
        lines += [first] if first else []
        lines += [
            f"{host}:{5100 + r}:{5100 + r} [{r % EACH}] NCCL INFO comm 0x7d{r:02x} rank {r} nranks 8 cudaDev {r % EACH} "
            f"nvmlDev {r % EACH} busId {CARDS[r % EACH]}000 commId 0x51ab - Init COMPLETE"
            for r in ranks
        ]
        lines += [f"2026-03-14 11:{m:02d}:00,000 INFO train: step {m * 20} loss 2.5 lr 1.00e-04" for m in range(10, 47)]
        for r in ranks:
            if r != away:
                head = f"[rank{r}]:[E314 11:57:20.04877712{r} ProcessGroupNCCL.cpp"
                lines.append(
                    f"{head}:629] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4183, OpType=ALLREDUCE, "
                    "NumelIn=8192, NumelOut=8192, Timeout(ms)=600000) ran for 600044 milliseconds before timing out."
                )
                lines.append(
                    f"{head}:2168] [PG ID 0 PG GUID 0(default_pg) Rank {r}]  failure detected by watchdog at work sequence id: 4183 "
                    "PG status: last enqueued work: 4185, last completed work: 4182"
                )
        (folder / f"{host}.log").write_text("\n".join(lines) + "\n", encoding="utf-8")


def verdict(folder: Path, name: str, text: str, **more: object) -> Verdict:
    job(folder, **more)  # type: ignore[arg-type]
    (folder / name).write_text(text + "\n", encoding="utf-8")
    return diagnose([folder]).verdict


def nobody_but_the_absent(found: Verdict, rank: int = 6) -> None:
    assert found.category is Category.UNKNOWN
    assert [int(r) for r in found.culprits.ranks] == [rank]
    assert found.culprits.strength.level <= Strength.POSSIBLE.level


TABLE = "timestamp, index, name, pci.bus_id, utilization.gpu [%], memory.used [MiB]\n" + "".join(
    f"2026/03/14 11:4{m}:20.123, {i}, {'NVIDIA H100' if (m, i) != (7, 2) else '[GPU is lost]'}, 00000000:{c.upper()}:00.0, "
    f"{'97 %, 71234 MiB' if (m, i) != (7, 2) else '[GPU is lost], [GPU is lost]'}\n"
    for m in (5, 6, 7)
    for i, c in enumerate(CARDS)
)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "rig-77.journal",
            f"{AT} rig-77 kernel: NVRM: Xid (PCI:0000:2b:00): 79, pid=5105, name=python, GPU has fallen off the bus.",
        ),
        (
            "rig-77.journal",
            f"{AT} rig-77 kernel: Out of memory: Killed process 5105 (python) total-vm:91234567kB, anon-rss:61234567kB",
        ),
        ("smi-rig-77.csv", TABLE),
    ],
)
def test_a_machine_named_like_the_jobs_and_none_of_them(tmp_path: Path, name: str, text: str) -> None:
    nobody_but_the_absent(verdict(tmp_path, name, text))


@pytest.mark.parametrize("name", ["kern.txt", "node.journal"])
def test_a_machine_of_another_naming_may_be_one_of_the_jobs_under_another_name(tmp_path: Path, name: str) -> None:
    line = f"{AT} b7-u31 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=5106, name=python, GPU has fallen off the bus."
    found = verdict(tmp_path, name, line)
    assert found.category is Category.GPU_CUDA


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: Xid (PCI:0000:9b:00): 79, pid=99999, name=python, GPU has fallen off the bus.",
        "NVRM: GPU 0000:9b:00.0: GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:9b:00): 48, pid='<unknown>', name=<unknown>, An uncorrectable double bit error (DBE) has been detected",
    ],
)
def test_a_card_that_is_none_of_those_on_which_the_ranks_of_its_machine_run(tmp_path: Path, line: str) -> None:
    nobody_but_the_absent(verdict(tmp_path, "rig-02.journal", f"{AT} rig-02 kernel: {line}"))


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: Xid (PCI:0000:3b:00): 79, pid=5106, name=python, GPU has fallen off the bus.",
        "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.",
    ],
)
def test_the_card_of_the_absent_rank_stays_the_cause(tmp_path: Path, line: str) -> None:
    found = verdict(tmp_path, "rig-02.journal", f"{AT} rig-02 kernel: {line}")
    assert (found.category, found.culprits.hosts) == (Category.GPU_CUDA, ["rig-02"])


XID = "[{at}] NVRM: Xid (PCI:0000:{card}:00): 79, pid=777, name=python, GPU has fallen off the bus."
NAMED_BY_LETTERS = ("pluto-x", "pluto-y")


def test_a_card_of_which_all_holders_wait_explains_nothing_whatever_machine_it_is_of(tmp_path: Path) -> None:
    found = verdict(tmp_path, "dmesg.txt", XID.format(at="Sat Mar 14 11:47:18 2026", card=CARDS[1]))
    nobody_but_the_absent(found)
    assert "all ranks that hold a card of that address wait" in found.summary
    assert found.summary.count("does not explain it") == 1


@pytest.mark.parametrize(("card", "explained"), [(CARDS[1], False), (CARDS[2], True)])
def test_a_machine_with_a_name_of_its_own_is_known_by_its_cards(tmp_path: Path, card: str, explained: bool) -> None:
    line = f"{AT} gx kernel: NVRM: Xid (PCI:0000:{card}:00): 79, pid=777, name=python, GPU has fallen off the bus."
    found = verdict(tmp_path, "gx.kern.log", line)
    if explained:
        assert found.category is Category.GPU_CUDA
    else:
        nobody_but_the_absent(found)


def test_a_card_that_no_rank_holds_on_a_machine_that_no_line_names(tmp_path: Path) -> None:
    nobody_but_the_absent(verdict(tmp_path, "dmesg.txt", XID.format(at="Sat Mar 14 11:47:18 2026", card="9d")))


def test_the_card_of_the_absent_rank_on_a_machine_that_no_line_names(tmp_path: Path) -> None:
    found = verdict(tmp_path, "dmesg.txt", XID.format(at="Sat Mar 14 11:47:18 2026", card=CARDS[2]))
    assert found.category is Category.GPU_CUDA


@pytest.mark.parametrize(("host", "explained"), [("pluto-x", False), ("pluto-y", True)])
def test_a_system_log_is_of_the_machine_of_the_job_after_which_it_is_named(
    tmp_path: Path, host: str, explained: bool
) -> None:
    text = XID.format(at="Sat Mar 14 11:47:18 2026", card=CARDS[2])
    found = verdict(tmp_path, f"dmesg-{host}.txt", text, hosts=NAMED_BY_LETTERS)
    if explained:
        assert (found.category, found.culprits.hosts) == (Category.GPU_CUDA, [host])
    else:
        nobody_but_the_absent(found)


def test_a_number_of_a_process_is_that_of_the_machine_after_which_the_log_is_named(tmp_path: Path) -> None:
    killed = "Out of memory: Killed process 5106 (backup) total-vm:901kB, anon-rss:612kB, file-rss:0kB, shmem-rss:0kB"
    text = f"[Sat Mar 14 11:47:18 2026] {killed}"
    nobody_but_the_absent(verdict(tmp_path, "dmesg-pluto-x.txt", text, hosts=NAMED_BY_LETTERS))


def test_a_table_of_a_monitor_is_of_the_machine_after_which_it_is_named(tmp_path: Path) -> None:
    found = verdict(tmp_path, "smi-rig-02.csv", TABLE)
    assert (found.category, [int(r) for r in found.culprits.ranks]) == (Category.GPU_CUDA, [6])
    assert found.culprits.hosts == ["rig-02"]


def test_a_long_table_of_numbers_tells_of_the_lost_card_too(tmp_path: Path) -> None:
    rows = ["timestamp, index, pci.bus_id, utilization.gpu [%], memory.used [MiB], temperature.gpu, power.draw [W]"]
    for tick in range(4 * 60):
        for i, card in enumerate(CARDS):
            when = f"2026/03/14 {11 + tick // 240}:{tick // 4 % 60:02d}:{tick % 4 * 15:02d}.000"
            lost = i == 2 and tick > 4 * 47
            told = ", ".join(["[GPU is lost]"] * 4) if lost else "97 %, 71234 MiB, 55, 480.12 W"
            rows.append(f"{when}, {i}, 00000000:{card.upper()}:00.0, {told}")
    found = verdict(tmp_path, "smi-rig-02.csv", "\n".join(rows))
    assert (found.category, [int(r) for r in found.culprits.ranks]) == (Category.GPU_CUDA, [6])


WAITING = [
    "EXT4-fs error (device nvme0n1p1): ext4_find_entry:1455: inode #2: comm rsyslogd: reading directory lblock 0",
    "pcieport 0000:00:01.1: AER: Uncorrected (Fatal) error message received from 0000:9c:00.0",
    "Memory cgroup out of memory: Killed process 5106 (java) total-vm:91234567kB, anon-rss:61234567kB, file-rss:10240kB",
    "Out of memory: Killed process 8812 (prometheus) total-vm:91234567kB, anon-rss:61234567kB, file-rss:10240kB",
]


@pytest.mark.parametrize("line", WAITING)
def test_a_machine_all_of_whose_ranks_wait_does_not_explain_the_rank_that_stays_away(tmp_path: Path, line: str) -> None:
    found = verdict(tmp_path, "rig-01.journal", f"{AT} rig-01 kernel: {line}")
    nobody_but_the_absent(found)
    assert "does not explain it" in found.summary


@pytest.mark.parametrize("line", WAITING[:2])
def test_the_same_fault_on_the_machine_of_the_absent_rank_stays_a_cause(tmp_path: Path, line: str) -> None:
    found = verdict(tmp_path, "rig-02.journal", f"{AT} rig-02 kernel: {line}")
    assert found.category in {Category.STORAGE_IO, Category.INFRASTRUCTURE}
    assert found.culprits.hosts == ["rig-02"]


@pytest.mark.parametrize(
    ("line", "category"),
    [
        ("mlx5_core 0000:41:00.0 ibp65s0: Link down", Category.NETWORK),
        ("nfs: server 10.7.9.4 not responding, still trying", Category.STORAGE_IO),
    ],
)
def test_what_several_machines_share_is_no_more_than_possible(tmp_path: Path, line: str, category: Category) -> None:
    found = verdict(tmp_path, "rig-01.journal", f"{AT} rig-01 kernel: {line}")
    assert (found.category, found.strength) == (category, Strength.POSSIBLE)
    assert "rank 6" in found.summary


KILL = (
    "{at} rig-02 kernel: oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0-1,"
    "oom_memcg=/slurm/uid_1007/job_{job},task_memcg=/slurm/uid_1007/job_{job}/step_0/task_0,task={name},pid={pid},uid=1007\n"
    "{at} rig-02 kernel: Memory cgroup out of memory: Killed process {pid} ({name}) total-vm:91234567kB, anon-rss:61234567kB, "
    "file-rss:10240kB, shmem-rss:2097152kB, UID:1007"
)


@pytest.mark.parametrize("name", ["python", "java", "pt_main_thread"])
def test_a_process_in_the_cgroup_of_another_job(tmp_path: Path, name: str) -> None:
    text = KILL.format(at=AT, job=799999, name=name, pid=77001)
    nobody_but_the_absent(verdict(tmp_path, "rig-02.journal", text, first="SLURM_JOB_ID=781516"))


def test_a_process_in_the_cgroup_of_the_job_stays_the_cause(tmp_path: Path) -> None:
    text = KILL.format(at=AT, job=781516, name="python", pid=5106)
    found = verdict(tmp_path, "rig-02.journal", text, first="SLURM_JOB_ID=781516")
    assert (found.category, found.strength) == (Category.INFRASTRUCTURE, Strength.ESTABLISHED)
    assert [int(r) for r in found.culprits.ranks] == [6]


@pytest.mark.parametrize(
    ("name", "most"), [("java", Strength.POSSIBLE), ("redis-server", Strength.POSSIBLE), ("python", Strength.SUPPORTED)]
)
def test_a_killed_process_that_is_none_of_the_ranks_proves_less(tmp_path: Path, name: str, most: Strength) -> None:
    found = verdict(tmp_path, "rig-02.journal", KILL.format(at=AT, job=799999, name=name, pid=77001))
    assert found.strength.level <= most.level


DESCRIBED = """Name:         {pod}
Namespace:    platform
Node:         rig-01/10.7.3.3
Status:       Running
Containers:
  main:
    State:          Running
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
"""


@pytest.mark.parametrize("pod", ["redis-0", "metrics-server-6d94bc8694-x2x7k", "grafana-7f9c6d5b8-abcde"])
def test_a_pod_of_somebody_else_on_a_machine_whose_ranks_wait(tmp_path: Path, pod: str) -> None:
    nobody_but_the_absent(verdict(tmp_path, f"describe-{pod}.txt", DESCRIBED.format(pod=pod)))


@pytest.mark.parametrize("pod", ["redis-0", "metrics-server-6d94bc8694-x2x7k"])
def test_a_pod_of_somebody_else_beside_the_absent_rank_is_possible_at_most(tmp_path: Path, pod: str) -> None:
    text = DESCRIBED.format(pod=pod).replace("rig-01", "rig-02")
    found = verdict(tmp_path, f"describe-{pod}.txt", text)
    assert found.strength.level <= Strength.POSSIBLE.level


def test_a_gauge_that_keeps_the_last_code_of_a_waiting_machine(tmp_path: Path) -> None:
    line = 'DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-6f1d",pci_bus_id="00000000:1B:00.0",Hostname="rig-01"} 79'
    nobody_but_the_absent(verdict(tmp_path, "dcgm.prom", line))


def test_the_task_that_the_kernel_says_to_be_blocked_joins_the_server_to_the_rank(tmp_path: Path) -> None:
    text = (
        f"{AT} rig-02 kernel: nfs: server 10.7.9.4 not responding, still trying\n"
        "Mar 14 11:49:30 rig-02 kernel: INFO: task python:5106 blocked for more than 122 seconds."
    )
    found = verdict(tmp_path, "rig-02.journal", text)
    assert found.category is Category.STORAGE_IO
    assert [int(r) for r in found.first_failed.ranks] == [6]
    assert "blocked" in found.summary


RAS = """NCCL version 2.26.2 compiled with CUDA 12.6
Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          4            1          8        8

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         4         8         8   RUNNING  MISMATCH

Errors
======

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process {pid} on node 10.7.9.9 managing GPU 2

#0-0 (c0ffee77) INCOMPLETE
  Missing communicator data from 1 rank
  Rank {rank} -- GPU 2 managed by process {pid} on node 10.7.9.9
"""


def test_a_rank_that_prints_that_it_waits_is_not_the_dead_one_of_a_report(tmp_path: Path) -> None:
    nobody_but_the_absent(verdict(tmp_path, "ras.txt", RAS.format(pid=5555, rank=3)))


def test_the_absent_rank_may_be_the_dead_one_of_a_report(tmp_path: Path) -> None:
    found = verdict(tmp_path, "ras.txt", RAS.format(pid=5555, rank=6))
    assert [int(r) for r in found.culprits.ranks] == [6]
    assert "reported" in found.summary


XID = "[Sat Mar 14 {at} 2026] NVRM: Xid (PCI:0000:{card}:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
LOST = "[Sat Mar 14 {at} 2026] NVRM: GPU 0000:{card}:00.0: GPU has fallen off the bus."
WORDS = ("pluto", "charon")
"""Machines with names of one plain word."""


@pytest.mark.parametrize("name", ["dmesg-charon.txt", "charon-kernel.log", "dmesg_charon_20260314.txt", "Charon.dmesg"])
def test_a_kernels_log_named_after_a_machine_of_one_plain_word(tmp_path: Path, name: str) -> None:
    text = (XID + LOST).format(at="11:47:18", card="3b")
    found = verdict(tmp_path, name, text, hosts=WORDS)
    assert found.category is Category.GPU_CUDA
    assert ([int(r) for r in found.culprits.ranks], found.culprits.hosts) == ([6], ["charon"])


@pytest.mark.parametrize("name", ["dmesg-pluto.txt", "pluto.dmesg.log"])
@pytest.mark.parametrize("card", CARDS)
def test_a_lost_card_of_the_other_machine_of_one_plain_word(tmp_path: Path, name: str, card: str) -> None:
    nobody_but_the_absent(verdict(tmp_path, name, (XID + LOST).format(at="11:47:18", card=card), hosts=WORDS))


def test_a_plain_word_beside_others_is_no_machine(tmp_path: Path) -> None:
    text = (XID + LOST).format(at="11:47:18", card="3b")
    found = verdict(tmp_path, "dmesg-of-train-rack.txt", text, hosts=("train", "eval"))
    assert "train" not in found.culprits.hosts


@pytest.mark.parametrize("away", [6, -1])
def test_a_card_of_nobody_on_a_machine_of_an_unknown_name_is_possible_at_most(tmp_path: Path, away: int) -> None:
    # Below a virtual machine the kernel knows the card by another address: it may be the job's, and nothing says that it is.
    text = "\n".join(
        f"2026-03-14T11:47:18 hyper-x kernel: {line.partition('] ')[2]}" for line in (XID + LOST).split("\n")
    ).format(card="cd")
    found = verdict(tmp_path, "kern.log", text, away=away)
    assert found.strength.level <= Strength.POSSIBLE.level
    assert found.culprits.strength.level <= Strength.POSSIBLE.level
