"""Writes the example of a memory snapshot in `examples/memory`: synthetic, of a process of which one line keeps what it makes.

PYTHONPATH=tests/unit/readers python tests/unit/readers/memory_example.py FILE
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from allocator import GIB, MIB, Allocator, OutOfMemory, frame, pickled, stack

KEEPS = stack(
    ("/srv/app/metrics.py", 57, "remember_output"),
    ("/srv/app/train.py", 96, "step"),
    ("/srv/app/train.py", 141, "main"),
)
"""The line at fault: each step it keeps the output with its graph."""
BUILD = stack(("/srv/app/model.py", 7, "build"), ("/srv/app/train.py", 120, "main"))
FORWARD = stack(
    ("/opt/venv/lib/python3.12/site-packages/torch/nn/functional.py", 125, "linear"),
    ("/srv/app/model.py", 41, "forward"),
    ("/srv/app/train.py", 88, "step"),
    ("/srv/app/train.py", 141, "main"),
)
BACKWARD = [frame("??", 0, "torch::autograd::Engine::evaluate_function(std::shared_ptr&)")]
WHERE = Path(__file__).parents[3] / "examples" / "memory" / "rank1_memory_snapshot.pickle"


def example() -> bytes:
    """The file: weights, then steps of which each leaves its output behind, until a request fails."""
    device, rng = Allocator(80 * GIB), random.Random(11)
    for _ in range(16):
        device.alloc(900 * MIB, BUILD)
    try:
        while True:
            step = [device.alloc(rng.randint(300, 800) * MIB, FORWARD) for _ in range(12)]
            device.alloc(rng.randint(900, 1100) * MIB, KEEPS)
            step.append(device.alloc(512 * MIB, BACKWARD))
            for address in step:
                device.release(address)
    except OutOfMemory:
        return pickled(device.snapshot(device=1))


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(example())
