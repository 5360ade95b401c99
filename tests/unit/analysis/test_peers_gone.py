"""An error that names a silent peer, and the end of that peer's processes in another file: which of them came first?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

if TYPE_CHECKING:
    from pathlib import Path

    from firstfault.model.diagnosis import Diagnosis

STUCK = (
    "[rank2]:[E801 {stuck}.118002771 ProcessGroupNCCL.cpp:1794] [PG ID 0 PG GUID 0(default_pg) Rank 2] ProcessGroupNCCL's "
    "watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives."
)
ENDED = (
    "[rank2]:[F801 {ended}.119118222 ProcessGroupNCCL.cpp:1557] [PG ID 0 PG GUID 0(default_pg) Rank 2] [PG ID 0 PG GUID "
    "0(default_pg) Rank 2] Terminating the process after attempting to dump debug info, due to ProcessGroupNCCL watchdog hang."
)
SILENT = (
    "node-b:3110:4980 [0] transport/net_ib.cc:2298 NCCL WARN NET/IB: Got completion from peer 10.9.7.19<44110> with "
    "status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) reqSize=0 vendorErr=129 req_type=Send hca mlx5_0"
)
REMOTE = (
    "[rank8]:[E801 {told}.770218210 ProcessGroupNCCL.cpp:2057] [PG ID 0 PG GUID 0(default_pg) Rank 8] Process group watchdog "
    "thread terminated with exception: NCCL error: remote process exited or there was a network error, NCCL version 2.28.9"
)


def _of(folder: Path, first: list[str], second: list[str]) -> Diagnosis:
    for name, ip, lines in (("a.log", "10.9.7.19", first), ("b.log", "10.9.7.21", second)):
        text = "".join(f"(Policy pid=22, ip={ip}) {line}\n" for line in lines)
        (folder / name).write_text(text, encoding="utf-8")
    return diagnose([folder])


def test_a_peer_that_had_ended_is_no_network_fault(tmp_path: Path) -> None:
    found = _of(
        tmp_path,
        [STUCK.format(stuck="04:11:02"), ENDED.format(ended="04:19:02")],
        [SILENT, REMOTE.format(told="04:19:31")],
    )
    assert found.verdict.category is not Category.NETWORK
    assert 8 not in found.verdict.culprits.ranks


def test_a_peer_that_ended_long_after_is_one_that_waited(tmp_path: Path) -> None:
    """The same lines, the error half an hour before the watchdog stood still: the link is where it began."""
    found = _of(
        tmp_path,
        [STUCK.format(stuck="04:41:02"), ENDED.format(ended="04:49:02")],
        [SILENT, REMOTE.format(told="04:19:31")],
    )
    assert found.verdict.category is Category.NETWORK


@pytest.mark.parametrize("peer", ["10.9.7.20", "10.9.8.19"])
def test_the_end_of_another_machine_excuses_nothing(tmp_path: Path, peer: str) -> None:
    found = _of(
        tmp_path,
        [STUCK.format(stuck="04:11:02"), ENDED.format(ended="04:19:02")],
        [SILENT.replace("10.9.7.19", peer), REMOTE.format(told="04:19:31")],
    )
    assert found.verdict.category is Category.NETWORK


EVICTED = (
    "LAST SEEN   TYPE      REASON    OBJECT             MESSAGE\n2m          Warning   Evicted   pod/{pod}   {why}\n"
)


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (
            "{'train_runtime': 402.1, 'train_loss': 1.6, 'epoch': 1.0}\nSaving model checkpoint to /out/final\n",
            'Usage of EmptyDir volume "out" exceeds the limit "20Gi".',
        ),
        (
            "`Trainer.fit` stopped: `max_epochs=4` reached.\nwriting test predictions\n",
            "The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 9Gi.",
        ),
    ],
)
def test_who_is_evicted_had_not_come_to_the_end(tmp_path: Path, log: str, why: str) -> None:
    (tmp_path / "pod-a.log").write_text(log, encoding="utf-8")
    (tmp_path / "events.txt").write_text(EVICTED.format(pod="pod-a", why=why), encoding="utf-8")
    found = diagnose([tmp_path])
    assert found.verdict.category is Category.INFRASTRUCTURE
    assert found.verdict.strength is not Strength.UNKNOWN


@pytest.mark.parametrize(
    ("name", "after"),
    [("pod-b.log", ""), ("log.txt", "1m          Normal    Started   pod/pod-b   Started container trainer\n")],
)
def test_another_pod_may_come_to_the_end(tmp_path: Path, name: str, after: str) -> None:
    (tmp_path / name).write_text("{'train_runtime': 402.1, 'train_loss': 1.6, 'epoch': 1.0}\n", encoding="utf-8")
    events = EVICTED.format(pod="pod-a", why='Container trainer exceeded its local ephemeral storage limit "80Gi".')
    (tmp_path / "events.txt").write_text(events + after, encoding="utf-8")
    assert diagnose([tmp_path]).verdict.category is Category.NONE


UNLABELLED = (
    "RuntimeError: Detected mismatch between collectives on ranks. Rank {one} is running collective: "
    "CollectiveFingerPrint(SequenceNumber=9, OpType={op}), but Rank {two} is running collective: "
    "CollectiveFingerPrint(SequenceNumber=9, OpType={other})."
)


@pytest.mark.parametrize(("ops", "odd"), [("BBAB", 2), ("GSGG", 1)])
def test_a_check_without_labels_is_counted_too(tmp_path: Path, ops: str, odd: int) -> None:
    names = {"B": "BARRIER", "A": "ALLREDUCE", "G": "ALLGATHER", "S": "REDUCE_SCATTER"}
    lines = []
    for rank, op in enumerate(ops):
        other = next(r for r, o in enumerate(ops) if o != op)
        lines += ["Traceback (most recent call last):", '  File "fit.py", line 8, in <module>', "    fit()"]
        lines.append(UNLABELLED.format(one=rank, op=names[op], two=other, other=names[ops[other]]))
    (tmp_path / "fit.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = diagnose([tmp_path])
    assert found.verdict.category is Category.COLLECTIVE_MISMATCH
    assert found.verdict.culprits.ranks == [odd]
    assert found.verdict.culprits.strength is Strength.POSSIBLE
