"""A card that a kernel log without a machine's name says is lost: of which machine nobody knows, and of when, where the wait has no stamps."""

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

LOST = "[Fri Sep 26 {at} 2025] NVRM: Xid (PCI:0000:8b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"


def waited(rank, stamp):
    return (
        f"[rank{rank}]:[{stamp}ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=101, "
        "OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) ran for 600037 milliseconds before timing out.\n"
    )


def machine(node, ranks, stamp, size=16):
    held = "".join(
        f"n{node}:12{r}:12{r} [{r % 8}] NCCL INFO comm 0x1 rank {r} nranks {size} cudaDev {r % 8} nvmlDev {r % 8} busId {0x1B + 0x10 * (r % 8):x}000 - Init COMPLETE\n"
        for r in ranks
    )
    steps = "".join(f"[rank{r}]: 2025-09-26 10:29:59 step 50\n" for r in ranks)
    return held + steps + "".join(waited(r, stamp) for r in ranks)


@pytest.mark.parametrize(
    ("machines", "stamp"), [(2, "E926 10:40:00.123456789 "), (1, "E ")], ids=["of two", "without stamps"]
)
def test_it_is_no_more_than_supported(machines, stamp, tmp_path):
    for node in range(machines):
        (tmp_path / f"n{node}").mkdir()
        (tmp_path / f"n{node}" / "train.log").write_text(machine(node, range(8 * node, 8 * node + 8), stamp))
    (tmp_path / "dmesg.txt").write_text(LOST.format(at="10:29:58"))
    found = diagnose([tmp_path]).verdict
    assert found.category is Category.GPU_CUDA
    assert found.strength.level <= Strength.SUPPORTED.level
    if machines > 1:
        assert not found.culprits.ranks
        assert not found.culprits.hosts


def test_of_a_machine_that_is_named_it_is_established(tmp_path):
    (tmp_path / "n0").mkdir()
    (tmp_path / "n0" / "train.log").write_text(machine(0, range(8), "E926 10:40:00.123456789 ", size=8))
    (tmp_path / "n0" / "kern.log").write_text(
        "Sep 26 10:30:08 n0 kernel: NVRM: Xid (PCI:0000:8b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
    )
    found = diagnose([tmp_path]).verdict
    assert found.strength is Strength.ESTABLISHED
    assert found.culprits.ranks == [7]


@pytest.mark.parametrize("stamp", ["E ", "E926 10:40:00.123456789 "], ids=["without stamps", "an hour behind"])
def test_of_a_card_that_may_have_been_lost_behind_the_wait_it_is_not_established(stamp, tmp_path):
    (tmp_path / "train.log").write_text(machine(0, range(8), stamp, size=8))
    (tmp_path / "kern.log").write_text(
        "Sep 26 11:44:08 n0 kernel: NVRM: Xid (PCI:0000:8b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
    )
    found = diagnose([tmp_path]).verdict
    assert found.strength.level <= Strength.SUPPORTED.level
    assert found.culprits.strength is not Strength.ESTABLISHED


def test_of_a_card_whose_loss_its_process_met_it_is_established_without_stamps_too(tmp_path):
    met = "[rank7]: torch.AcceleratorError: CUDA error: unspecified launch failure"
    trace = f'[rank7]: Traceback (most recent call last):\n[rank7]:   File "/srv/t.py", line 8, in <module>\n[rank7]:     run()\n{met}\n'
    (tmp_path / "train.log").write_text(machine(0, range(8), "E ", size=8) + trace)
    (tmp_path / "kern.log").write_text(
        "Sep 26 10:30:08 n0 kernel: NVRM: Xid (PCI:0000:8b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
    )
    found = diagnose([tmp_path]).verdict
    assert found.strength is Strength.ESTABLISHED
