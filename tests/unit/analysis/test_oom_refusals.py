"""Messages of every wording: arithmetic where their numbers allow it, nothing where they do not."""

from __future__ import annotations

import pytest

from firstfault.analysis.oom_message import Kind, account, figures
from firstfault.analysis.oom_refusals import refusal


def explained(text: str) -> tuple[Kind, str] | None:
    """What either reader makes of a message."""
    known = figures(text)
    told = refusal(text) if known is None else account(known)
    return None if told is None else (told.kind, told.sentence)


# The figures that must be in the sentence follow from the numbers of the line by hand.
TOLD = [
    (
        (
            "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 MiB. GPU 7 has a total capacity of 287.98 GiB of which "
            "203.49 GiB is free. Of the allocated memory 68.63 GiB is allocated by PyTorch, and 14.93 GiB is reserved by PyTorch but "
            "unallocated."
        ),
        Kind.ROOM,
        "203.49 GiB",
    ),
    (
        (
            "HIP out of memory. Tried to allocate 432.00 MiB. GPU 0 has a total capacity of 15.92 GiB of which 7.12 GiB is free. Of "
            "the allocated memory 8.08 GiB is allocated by PyTorch, and 321.96 MiB is reserved by PyTorch but unallocated."
        ),
        Kind.ROOM,
        "7.12 GiB",
    ),
    (
        (
            "RuntimeError: CUDA out of memory. Tried to allocate 2.26 GiB (GPU 0; 6.00 GiB total capacity; 781.59 MiB already allocated; "
            "3.03 GiB free; 1.24 GiB reserved in total by PyTorch)"
        ),
        Kind.ROOM,
        "3.03 GiB",
    ),
    (
        (
            "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 32.00 GiB. GPU 0 has a total capacity of 11.59 GiB of which "
            "9.01 GiB is free. Of the allocated memory 0 bytes is allocated by PyTorch, and 0 bytes is reserved by PyTorch but "
            "unallocated. Please use empty_cache to release all unoccupied cached memory."
        ),
        Kind.IMPOSSIBLE,
        "11.59 GiB",
    ),
    (
        (
            "RuntimeError: NPU out of memory. Tried to allocate 22.00 MiB (NPU 0; 60.97 GiB total capacity; 10.24 GiB already allocated; "
            "10.24 GiB current active; 19.52 MiB free; 10.65 GiB reserved in total by PyTorch) If reserved memory is >> allocated"
        ),
        Kind.BESIDE,
        "50.30 GiB",
    ),
    (
        (
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.70 GiB. GPU 0 has a total capacty of 6.00 GiB of which "
            "0 bytes is free. Of the allocated memory 2.93 GiB is allocated by PyTorch, and 2.30 GiB is reserved by PyTorch but "
            "unallocated."
        ),
        Kind.FRAGMENTED,
        "2.30 GiB",
    ),
    (
        (
            "RuntimeError: MPS backend out of memory (MPS allocated: 17.90 GiB, other allocations: 1.00 MiB, max allowed: 18.13 GiB). "
            "Tried to allocate 256.00 MiB on private pool."
        ),
        Kind.OWN,
        "17.90 GiB",
    ),
    (
        (
            "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 18.54G of 15.48G hbm. "
            "Exceeded hbm capacity by 3.06G."
        ),
        Kind.IMPOSSIBLE,
        "18.54 GiB of the 15.48 GiB hbm",
    ),
    (
        (
            "RESOURCE_EXHAUSTED: Attempting to reserve 3.78G at the bottom of memory. That was not possible. There are 2.64G free, 0B "
            "reserved, and 2.64G reservable."
        ),
        Kind.MIXED,
        "2.64 GiB free",
    ),
    (
        "RESOURCE_EXHAUSTED: Attempting to allocate 7.45G. That was not possible. There are 5.93G free.; (0x0x0_HBM0)",
        Kind.MIXED,
        "5.93 GiB free",
    ),
    (
        "ValueError: Free memory on device (19.62/79.11 GiB) on startup is less than desired GPU memory utilization (0.9, 71.2 GiB).",
        Kind.OTHERS,
        "59.49 GiB (75 % of 79.11 GiB)",
    ),
    (
        (
            "ValueError: Free memory on device cuda:1 (19.62/79.11 GiB) on startup is less than desired GPU memory utilization (0.90, 71.2 "
            "GiB)."
        ),
        Kind.OTHERS,
        "71.20 GiB",
    ),
    (
        (
            "ValueError: To serve at least one request with the model's max seq len (100000), (4.26 GiB KV cache is needed, which is larger "
            "than the available KV cache memory (4.25 GiB). Based on the available memory, the estimated maximum model length is 99712."
        ),
        Kind.OWN,
        "99712 tokens",
    ),
    (
        "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in KV cache (7344).",
        Kind.OWN,
        "room for 7344",
    ),
]


@pytest.mark.parametrize(("text", "kind", "figure"), TOLD)
def test_the_numbers_of_a_message_explain_it(text: str, kind: Kind, figure: str) -> None:
    told = explained(text)
    assert told is not None
    assert told[0] is kind
    assert figure in told[1]


@pytest.mark.parametrize(
    "text",
    [
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4770354232 bytes.",
        "RESOURCE_EXHAUSTED: Failed to allocate request for 176.00MiB (184549376B) on device ordinal 0",
        (
            "ResourceExhaustedError: OOM when allocating tensor with shape[25088,4096] and type float on /job:localhost/replica:0/task:0"
            "/device:GPU:0 by allocator GPU_0_bfc"
        ),
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "RuntimeError: CUDA error: out of memory",
        "RuntimeError: HIP error: out of memory",
        "node-b:99:101 [3] include/alloc.h:185 NCCL WARN Failed to CUDA calloc async 12582912 bytes",
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
        (
            "RuntimeError: [enforce fail at alloc_cpu.cpp:114] data. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
            "137438953472 bytes. Error code 12 (Cannot allocate memory)"
        ),
        "MemoryError: Unable to allocate 47.7 GiB for an array with shape (80000, 80000) and data type float64",
        "Ran out of memory in memory space hbm. Used 14.10G of 15.48G hbm.",
        "Attempting to allocate 1.00G. That was not possible. There are 5.93G free.",
    ],
)
def test_too_few_numbers_explain_nothing(text: str) -> None:
    assert explained(text) is None


@pytest.mark.parametrize(
    ("asked", "free", "room"),
    [
        ("512 bytes", "1.50 MiB", False),
        ("512 bytes", "2.50 MiB", True),
        ("3.00 MiB", "12.00 MiB", False),
        ("3.00 MiB", "21.00 MiB", True),
        ("300.00 MiB", "299.00 MiB", False),
        ("301.00 MiB", "301.50 MiB", False),
        ("300.00 MiB", "301.00 MiB", True),
    ],
)
def test_room_is_what_the_allocator_asks_the_driver_for(asked: str, free: str, *, room: bool) -> None:
    text = (
        f"CUDA out of memory. Tried to allocate {asked}. GPU 0 has a total capacity of 79.15 GiB of which {free} is free. Of the "
        "allocated memory 77.00 GiB is allocated by PyTorch, and 300.00 MiB is reserved by PyTorch but unallocated."
    )
    told = explained(text)
    assert told is not None
    assert (told[0] is Kind.ROOM) is room
