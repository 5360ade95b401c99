"""A hang whose lines tell no number of ranks: who speaks at all, and does not wait?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from firstfault.analysis.last_words import out_of_work
from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

if TYPE_CHECKING:
    from pathlib import Path

    from firstfault.model.diagnosis import Diagnosis

GLOO = (
    "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv "
    "operation to complete"
)
HCCL = (
    "EI0002: [PID: 4411] 2026-04-02-08:11:0{r}.101.202 The wait execution of the Notify register times out. Reason: The Notify "
    "register has not received the Notify record from remote rank"
)


def _of(folder: Path, lines: list[str]) -> Diagnosis:
    (folder / "job.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return diagnose([folder])


def test_the_rank_that_prints_and_does_not_wait_is_named(tmp_path: Path) -> None:
    lines = [f"[rank{r}]: built its sampler" for r in range(6)]
    lines += [f"[rank{r}]: {HCCL.format(r=r)}" for r in (0, 1, 2, 4, 5)]
    found = _of(tmp_path, lines).verdict
    assert found.culprits.ranks == [3]
    assert found.culprits.strength is Strength.POSSIBLE


def test_who_speaks_only_afterwards_came_too_late(tmp_path: Path) -> None:
    lines = [f"[1,{r}]<stdout>:model on device" for r in (0, 1, 3, 4)]
    lines += [f"[1,{r}]<stderr>:{GLOO}" for r in (0, 1, 3, 4)]
    lines += ["[1,2]<stdout>:vocabulary ready, 91 s"]
    found = _of(tmp_path, lines).verdict
    assert found.culprits.ranks == [2]
    assert found.category is Category.DATA_LOADING_STALL
    assert found.strength is Strength.POSSIBLE


@pytest.mark.parametrize("said", [(0, 1, 2, 4, 5), (0, 1, 2, 3, 4, 5, 7)])
def test_a_numbering_with_holes_names_nobody(tmp_path: Path, said: tuple[int, ...]) -> None:
    """Ranks of which nothing at all is here may be the ones."""
    lines = [f"[rank{r}]: built its sampler" for r in said]
    lines += [f"[rank{r}]: {HCCL.format(r=r)}" for r in (0, 1, 2, 4)]
    assert _of(tmp_path, lines).verdict.culprits.ranks == []


def test_half_of_the_ranks_are_not_few(tmp_path: Path) -> None:
    lines = [f"[rank{r}]: built its sampler" for r in range(6)]
    lines += [f"[rank{r}]: {HCCL.format(r=r)}" for r in (0, 1, 2)]
    assert _of(tmp_path, lines).verdict.culprits.ranks == []


@pytest.mark.parametrize(
    "last",
    [
        "Worker 1 completed its entire epoch (training).",
        "train loader exhausted after 411 batches",
        "rank 1: no more samples in its shard",
    ],
)
def test_a_file_of_a_process_that_had_nothing_left(tmp_path: Path, last: str) -> None:
    for number in range(3):
        text = f"loss 1.9{number}\n" + (f"{last}\n" if number == 1 else f"loss 1.8{number}\n{GLOO}\n")
        (tmp_path / f"trainer-{number}.log").write_text(text, encoding="utf-8")
    found = diagnose([tmp_path]).verdict
    assert found.culprits.ranks == [1]
    assert found.category is Category.COLLECTIVE_MISMATCH
    assert found.strength is Strength.POSSIBLE


def test_files_of_machines_are_no_ranks(tmp_path: Path) -> None:
    for number in range(3):
        text = "loss 1.9\n" + ("" if number == 1 else f"{GLOO}\n")
        (tmp_path / f"node-{number}.log").write_text(text, encoding="utf-8")
    assert diagnose([tmp_path]).verdict.culprits.ranks == []


@pytest.mark.parametrize(
    "text",
    [
        "no data loader workers, loading in the main process",
        "loss for step 400",
        "epoch 3 finished",
        "waiting for the data loader",
        "no samples found in /data/x",
    ],
)
def test_usual_lines_are_no_end_of_work(text: str) -> None:
    assert not out_of_work(text)


def _gather(rank: int) -> list[str]:
    head = f"[rank{rank}]:[E401 08:11:20.10120230{rank} ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught collective operation timeout: "
    return [
        f"{head}WorkNCCL(SeqNum=7, OpType=_ALLGATHER_BASE, NumelIn=4096, NumelOut=16384, Timeout(ms)=600000) ran for 600017 milliseconds before timing out."
    ]


def _rounds(text: str, ranks: tuple[int, ...], first: int = 0) -> list[str]:
    return [f"[rank{r}] {text.format(n=first + n)}" for n in range(4) for r in ranks]


@pytest.mark.parametrize(
    "text",
    [
        "shard list is empty, starting over (pass {n})",
        "retry {n}: GET /v1/batches answered 204",
        "lock /data/cache/x.lock is held, try {n}",
    ],
)
def test_ranks_that_print_one_line_over_and_over_never_came(tmp_path: Path, text: str) -> None:
    lines = ["[rank0] step 1", *_rounds(text, (1, 2, 3)), *_gather(0), *_rounds(text, (1, 2, 3), 50)]
    found = _of(tmp_path, lines).verdict
    assert found.culprits.ranks == [1, 2, 3]
    assert (found.category, found.strength) == (Category.DATA_LOADING_STALL, Strength.POSSIBLE)


@pytest.mark.parametrize("ranks", [(1, 3), (0, 1, 2, 3), (1, 2, 4)])
def test_rounds_of_some_ranks_only_or_of_who_waits_say_nothing(tmp_path: Path, ranks: tuple[int, ...]) -> None:
    text = "shard list is empty, starting over (pass {n})"
    lines = ["[rank0] step 1", *_rounds(text, ranks), *_gather(0), *_rounds(text, ranks, 50)]
    found = _of(tmp_path, lines).verdict
    assert found.culprits.ranks == []
    assert found.category is Category.UNKNOWN


def test_a_line_that_ended_before_the_wait_is_no_loop(tmp_path: Path) -> None:
    lines = ["[rank0] step 1", *_rounds("warm-up {n}", (1, 2, 3)), *_gather(0)]
    assert _of(tmp_path, lines).verdict.category is Category.UNKNOWN


def _pair(last: str) -> list[str]:
    wait = _gather(0)[0].replace("E401 08:11:20", "E0401 08:31:20")
    return ["[rank0] 2026-04-01 08:20:00 validating", "[rank1] 2026-04-01 08:20:00 validating", last, wait]


def test_of_two_the_one_that_lives_on_outside_is_named(tmp_path: Path) -> None:
    found = _of(tmp_path, _pair("[rank1] 2026-04-01 08:27:10 worker 3: no batch yet")).verdict
    assert found.culprits.ranks == [1]
    assert (found.category, found.strength) == (Category.DATA_LOADING_STALL, Strength.POSSIBLE)


def test_of_two_the_one_that_was_last_heard_before_the_wait_may_be_dead(tmp_path: Path) -> None:
    found = _of(tmp_path, _pair("[rank1] 2026-04-01 08:20:01 first batch")).verdict
    assert found.culprits.ranks == []
    assert found.category is Category.UNKNOWN


def test_of_three_one_that_waits_and_one_that_lives_leave_the_third_open(tmp_path: Path) -> None:
    lines = ["[rank2] 2026-04-01 08:20:00 validating", *_pair("[rank1] 2026-04-01 08:27:10 worker 3: no batch yet")]
    assert _of(tmp_path, lines).verdict.culprits.ranks == []


def test_a_monitor_that_prints_for_all_ranks_is_no_loop(tmp_path: Path) -> None:
    text = "memory 61.{n} GiB, utilisation 99 %"
    lines = ["[rank0] step 1", *_rounds(text, (0, 1, 2, 3)), *_gather(0), *_rounds(text, (1, 2, 3), 50)]
    assert _of(tmp_path, lines).verdict.culprits.ranks == []
