"""Faults of different devices of one machine: neither brings the other's about, and what the program died of tells them apart."""

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

ADAPTER = "[{at}.120000] mlx5_core 0000:5e:00.0: mlx5_error_sw_reset\n"
SWITCH = "[1234600.000000] nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n"
GPU = (
    "[1234600.100000] NVRM: Xid (PCI:0000:1b:00): 74, pid=9911, name=python3, NVLink: fatal error detected on link 3\n"
)
CUDA = "[rank1]: torch.AcceleratorError: CUDA error: an illegal instruction was encountered\n"
IB = "[rank1]: torch.distributed.DistBackendError: NCCL error: NET/IB : Got completion from peer 10.1.2.2<33021> with status=12 opcode=0 len=0 vendor err 129 (Recv)\n"


def judged(folder, kernel, said):
    (folder / "dmesg").write_text(kernel)
    (folder / "run.out").write_text("[rank0]: step 10 loss 2.0\n[rank1]: step 10 loss 2.0\n" + said)
    return diagnose([folder]).verdict


@pytest.mark.parametrize("at", [1234567, 1234599, 1234633])
def test_a_gpu_error_is_not_the_adapters(tmp_path, at):
    lines = sorted([ADAPTER.format(at=at), SWITCH, GPU])
    found = judged(tmp_path, "".join(lines), CUDA)
    assert found.category is Category.GPU_CUDA


def test_of_the_adapter_alone_nothing_is_sure(tmp_path):
    found = judged(tmp_path, ADAPTER.format(at=1234567), CUDA)
    assert found.category is not Category.NETWORK or found.strength.level <= Strength.POSSIBLE.level


def test_a_lost_peer_is_not_the_switchs(tmp_path):
    found = judged(tmp_path, ADAPTER.format(at=1234567) + SWITCH, IB)
    assert found.category is Category.NETWORK
