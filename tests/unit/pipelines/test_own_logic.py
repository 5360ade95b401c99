"""An error of a program's own logic is brought about by no order to stop below it and by no machine that nothing orders before it."""

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

STEPS = [f"step {n} loss 2.{n}" for n in range(9)]
ERRORS = {
    "key": ("KeyError: 'labels'", Category.SOFTWARE),
    "memory": (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.11 GiB.",
        Category.GPU_CUDA,
    ),
    "shape": ("ValueError: expected sequence of length 4096 at dim 1 (got 4095)", None),
}
ORDERS = {
    "pbs": "=>> PBS: job killed: walltime 86437 exceeded limit 86400",
    "slurm": "slurmstepd: error: *** JOB 77 ON gn1 CANCELLED AT 2026-05-07T12:00:00 DUE TO TIME LIMIT ***",
    "preempted": "slurmstepd: error: *** JOB 77 ON gn1 CANCELLED AT 2026-05-07T12:00:00 DUE TO PREEMPTION ***",
    "lsf": "TERM_RUNLIMIT: job killed after reaching LSF run time limit.",
}


def raised(error, rank=3):
    told = ["Traceback (most recent call last):", '  File "/w/train.py", line 9, in main', "    step(batch)", error]
    return [f"[rank{rank}]: {line}" for line in told]


def verdict(folder, lines, **others):
    (folder / "job.out").write_text("\n".join(lines) + "\n")
    for name, text in others.items():
        (folder / f"{name}.log").write_text(text + "\n")
    return diagnose([folder]).verdict


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("error", ERRORS)
def test_above_an_order_to_stop_the_error_came_first(tmp_path, error, order):
    text, category = ERRORS[error]
    found = verdict(tmp_path, [*STEPS, *raised(text), ORDERS[order]])
    assert found.first_failed.ranks == [3]
    assert found.category is not Category.INFRASTRUCTURE
    assert category is None or found.category is category


@pytest.mark.parametrize("order", ORDERS)
def test_what_an_order_brings_about_stays_its_effect(tmp_path, order):
    gone = "torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error"
    assert verdict(tmp_path, [*STEPS, ORDERS[order], *raised(gone)]).category is Category.INFRASTRUCTURE


@pytest.mark.parametrize("order", ORDERS)
def test_without_an_error_the_order_is_the_reason(tmp_path, order):
    found = verdict(tmp_path, [*STEPS, ORDERS[order]])
    assert (found.category, found.strength) == (Category.INFRASTRUCTURE, Strength.ESTABLISHED)


@pytest.mark.parametrize(
    "machine",
    [
        "May  7 06:08:41 gn2 kernel: NVRM: Xid (PCI:0000:9b:00): 79, pid=9811, name=python, GPU has fallen off the bus.",
        "May  7 06:08:41 gn2 kernel: mlx5_core 0000:41:00.0 ibp65s0: Link down",
        "slurmctld: error: Nodes gn2 not responding, setting DOWN",
    ],
)
@pytest.mark.parametrize("error", ["KeyError: 'labels'", "AssertionError: micro batch 3 does not divide 8"])
def test_a_machine_that_nothing_orders_before_it_is_no_more_than_possible(tmp_path, error, machine):
    found = verdict(tmp_path, [*STEPS, *raised(error)], kern=machine)
    assert found.strength is Strength.POSSIBLE
    assert error.split(":")[0] in found.summary
