"""An allocator that serves several kinds of devices: what is said names the kind that the line names."""

from __future__ import annotations

import pytest

from firstfault.pipelines.diagnose import diagnose

TRACE = (
    'Traceback (most recent call last):\n  File "/proj/run.py", line 61, in <module>\n    loss.backward()\n{error}\n'
)
MEMORY = "{kind}: {runtime} out of memory. Tried to allocate 2.00 GiB ({unit} 0; 60.97 GiB total capacity; 57.11 GiB already allocated; 1.03 GiB free; 58.90 GiB reserved in total by PyTorch)"


def told(folder, error):
    (folder / "train.log").write_text("step 3 loss 2.1\n" + TRACE.format(error=error))
    return diagnose([folder])


@pytest.mark.parametrize(
    ("runtime", "unit"), [("NPU", "NPU"), ("HIP", "GPU"), ("XPU", "XPU"), ("MUSA", "GPU"), ("MLU", "MLU")]
)
@pytest.mark.parametrize("kind", ["RuntimeError", "torch.OutOfMemoryError"])
def test_a_device_out_of_memory_is_named_by_its_runtime(tmp_path, runtime, unit, kind):
    found = told(tmp_path, MEMORY.format(kind=kind, runtime=runtime, unit=unit))
    assert found.verdict.summary.startswith(f"{runtime} out of memory")
    assert "CUDA" not in found.verdict.summary
    assert all("CUDA" not in link.what for link in found.chain)
    assert all("CUDA" not in entry.what for entry in found.timeline)


def test_metal_and_other_errors_of_rocm_too(tmp_path):
    metal = "RuntimeError: MPS backend out of memory (MPS allocated: 17.90 GiB, other allocations: 1.00 MiB, max allowed: 18.13 GiB). Tried to allocate 256.00 MiB on private pool."
    assert told(tmp_path, metal).verdict.summary.startswith("MPS out of memory")
    assert "CUDA" not in told(tmp_path, "RuntimeError: HIP error: an odd thing happened").verdict.summary


@pytest.mark.parametrize("kind", ["RuntimeError", "torch.cuda.OutOfMemoryError"])
def test_cuda_stays_cuda(tmp_path, kind):
    found = told(tmp_path, MEMORY.format(kind=kind, runtime="CUDA", unit="GPU"))
    assert found.verdict.summary.startswith("CUDA out of memory")
