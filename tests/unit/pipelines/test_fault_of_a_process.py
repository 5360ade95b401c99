"""A kernel's line about one process, without its rank or machine: it is of the one rank that raised what it brings about."""

import pytest

from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose

XID = (
    "[Fri Sep 26 10:20:01 2025] NVRM: Xid (PCI:0000:86:00): 31, pid={pid}, name=python, Ch 00000008, intr 00000000. MMU Fault: ENGINE "
    "GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f5e_2a000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ\n"
)
RAISED = """[rank{r}]: Traceback (most recent call last):
[rank{r}]:   File "/w/k.py", line 20, in fwd
[rank{r}]:     torch.cuda.synchronize()
[rank{r}]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered
"""
LOST = "[rank{r}]: torch.distributed.DistBackendError: NCCL error in: x.cpp:3356, remote process exited or there was a network error, NCCL version 2.26.2\n"


def judged(folder, raised, pids=(41207,), host=""):
    steps = "".join(f"[rank{r}]: 2025-09-26 10:19:5{r} step 40 loss 2.1\n" for r in range(4))
    rest = "".join((RAISED if r in raised else LOST).format(r=r) for r in range(4))
    (folder / "run.log").write_text("world_size=4\n" + steps + rest)
    (folder / "dmesg.txt").write_text("".join(XID.format(pid=pid) for pid in pids))
    return diagnose([folder]).verdict


@pytest.mark.parametrize("rank", range(4))
def test_it_is_given_to_that_rank(tmp_path, rank):
    found = judged(tmp_path, {rank})
    assert found.category is Category.GPU_CUDA
    assert found.culprits.ranks == [rank]
    assert found.first_failed.ranks == [rank]


@pytest.mark.parametrize(
    ("raised", "pids"), [({1, 3}, (41207,)), ({3}, (41207, 41210))], ids=["two ranks", "two processes"]
)
def test_of_several_nobody_is_chosen(tmp_path, raised, pids):
    assert judged(tmp_path, raised, pids).culprits.ranks == []
