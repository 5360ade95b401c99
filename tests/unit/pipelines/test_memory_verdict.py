"""A log and the memory snapshots beside it, of a simulated process that ran out: one answer from both."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from allocator import GIB, MIB, Allocator, OutOfMemory, frame, pickled, stack

from firstfault.model.words import CoverageState, Strength
from firstfault.pipelines.diagnose import diagnose

if TYPE_CHECKING:
    from pathlib import Path

KEPT = stack(("/srv/app/metrics.py", 57, "remember"), ("/srv/app/train.py", 93, "step"))
STEP = stack(("/srv/app/model.py", 41, "forward"), ("/srv/app/train.py", 88, "step"))
BACKWARD = [frame("??", 0, "torch::autograd::Engine::evaluate_function(std::shared_ptr&)")]


def leaking() -> Allocator:
    """A process of which one line keeps what it makes, until it has no more."""
    device, rng = Allocator(40 * GIB), random.Random(2)
    try:
        while True:
            now = [device.alloc(rng.randint(20, 90) * MIB, STEP) for _ in range(8)]
            device.alloc(120 * MIB, KEPT)
            now.append(device.alloc(64 * MIB, BACKWARD))
            for address in now:
                device.release(address)
    except OutOfMemory:
        return device


def size(number: int) -> str:
    """As the allocator prints it."""
    return f"{number / GIB:.2f} GiB" if number >= GIB else f"{number / MIB:.2f} MiB"


def write_log(folder: Path, device: Allocator) -> None:
    """The log of rank 1 and of its neighbour."""
    held, reserved = sum(b.size for _, b in device.live.values()), sum(s.size for s in device.segments)
    message = (
        f"CUDA out of memory. Tried to allocate {size(device.trace[-1]['size'])}. GPU 1 has a total capacity of 40.00 GiB of "
        f"which {size(device.free)} is free. Including non-PyTorch memory, this process has {size(reserved + GIB // 2)} memory "
        f"in use. Of the allocated memory {size(held)} is allocated by PyTorch, and {size(reserved - held)} is reserved by "
        "PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF="
    )
    lines = [
        "Traceback (most recent call last):",
        '  File "/srv/app/train.py", line 88, in step',
        "    out = model(batch)",
        f"torch.OutOfMemoryError: {message}",
    ]
    (folder / "rank1.log").write_text("".join(f"[rank1]: {line}\n" for line in lines), encoding="utf-8")
    (folder / "rank0.log").write_text("step 210 loss 2.31\n", encoding="utf-8")


@pytest.fixture
def job(tmp_path: Path) -> Path:
    device = leaking()
    write_log(tmp_path, device)
    (tmp_path / "rank1_memory_snapshot.pickle").write_bytes(pickled(device.snapshot(device=1)))
    (tmp_path / "rank0_memory_snapshot.pickle").write_bytes(pickled(leaking().snapshot()))
    return tmp_path


def test_the_line_that_keeps_the_memory_is_named_in_the_answer(job: Path) -> None:
    found = diagnose([job])
    verdict = found.verdict
    assert verdict.strength is Strength.ESTABLISHED
    assert verdict.culprits.ranks == [1]
    assert "remember (metrics.py:57) keeps growing" in verdict.summary
    assert "rank1_memory_snapshot.pickle" in verdict.summary
    assert "/srv/app/metrics.py:57" in verdict.action.steps[0]
    assert {r.file: r.state for r in found.coverage}["rank0_memory_snapshot.pickle"] is CoverageState.READ


def test_the_snapshot_of_another_rank_explains_nothing(job: Path) -> None:
    (job / "rank1_memory_snapshot.pickle").unlink()
    summary = diagnose([job]).verdict.summary
    assert "snapshot" not in summary
    assert "40.00 GiB" in summary


def test_a_snapshot_that_cannot_be_read_is_said_and_changes_nothing(job: Path) -> None:
    path = job / "rank1_memory_snapshot.pickle"
    path.write_bytes(path.read_bytes()[:5000])
    found = diagnose([job])
    row = {r.file: r for r in found.coverage}[path.name]
    assert row.state is CoverageState.DAMAGED
    assert "cut off" in row.reason
    assert found.verdict.culprits.ranks == [1]


def test_snapshots_alone_name_nobody(job: Path) -> None:
    (job / "rank0.log").unlink()
    (job / "rank1.log").unlink()
    verdict = diagnose([job]).verdict
    assert verdict.failed is None
    assert not verdict.culprits.ranks


def healthy(held: int) -> Allocator:
    """A process that holds so much and did not run out."""
    device = Allocator(40 * GIB)
    for _ in range(held // (100 * MIB)):
        device.alloc(100 * MIB, STEP)
    return device


@pytest.mark.parametrize(
    ("held", "said"),
    [(12, "this rank alone needed more"), (38, "it is like the others")],
)
def test_the_other_ranks_are_compared_with_the_one_that_ran_out(tmp_path: Path, held: int, said: str) -> None:
    device = leaking()
    write_log(tmp_path, device)
    (tmp_path / "rank1_memory_snapshot.pickle").write_bytes(pickled(device.snapshot(device=1)))
    for rank in (0, 2, 3):
        raw = pickled(healthy((held + rank % 2) * GIB).snapshot(device=rank))
        (tmp_path / f"rank{rank}_memory_snapshot.pickle").write_bytes(raw)
    verdict = diagnose([tmp_path]).verdict
    assert verdict.culprits.ranks == [1]
    assert "those of 3 other ranks" in verdict.summary
    assert said in verdict.summary


def test_a_rank_that_holds_less_than_the_others_is_not_blamed_for_its_tensors(tmp_path: Path) -> None:
    device = Allocator(40 * GIB, others=24 * GIB)
    try:
        while True:
            device.alloc(200 * MIB, STEP)
    except OutOfMemory:
        pass
    write_log(tmp_path, device)
    (tmp_path / "rank1_memory_snapshot.pickle").write_bytes(pickled(device.snapshot(device=1)))
    (tmp_path / "rank0_memory_snapshot.pickle").write_bytes(pickled(healthy(30 * GIB).snapshot()))
    verdict = diagnose([tmp_path]).verdict
    assert "not its tensors set it apart, but its device" in verdict.summary
    assert "outside this process's allocator" in verdict.summary
