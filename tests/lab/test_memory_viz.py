"""PyTorch's own tools for memory snapshots and ours read the same simulated ones: sums, fragments, places and history agree."""

from __future__ import annotations

import importlib.util
import random
import re
from collections import Counter
from typing import Any

import pytest
from allocator import GIB, MIB, Allocator, OutOfMemory, pickled, stack

from firstfault.model.evidence import SourceId
from firstfault.readers.memory_snapshot import read_snapshot

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]
PLACES = [stack(("/srv/app/model.py", n, f"layer_{n}"), ("/srv/app/train.py", 88, "step")) for n in range(12)]


def trained() -> Allocator:
    """A process that asked, freed, fragmented and ran out."""
    device, rng, held = Allocator(6 * GIB), random.Random(3), []
    try:
        while True:
            held.append(device.alloc(rng.randint(1, 90 * MIB), rng.choice(PLACES)))
            if rng.random() < 0.45:
                device.release(held.pop(rng.randrange(len(held))))
    except OutOfMemory:
        return device


@pytest.fixture(scope="module")
def whole() -> dict[str, Any]:
    return trained().snapshot()


@pytest.fixture(scope="module")
def ours(whole: dict[str, Any]) -> Any:
    raw = pickled(whole)
    return read_snapshot(lambda at, size: raw[at : at + size], len(raw), SourceId(0), "rank0_snapshot.pickle").devices[
        0
    ]


def test_the_sums_agree(whole: dict[str, Any], ours: Any) -> None:
    from torch.cuda import _memory_viz

    told = _memory_viz.segsum(whole)
    assert f"segments: {ours.segments}\n" in told
    assert f"total_reserved: {_memory_viz.Bytes(ours.reserved)}\n" in told
    assert f"total_allocated: {_memory_viz.Bytes(ours.requested)}\n" in told
    free = ours.inactive + ours.allocated - ours.requested
    assert f"total_free: {_memory_viz.Bytes(free)} " in told


def test_the_places_agree(whole: dict[str, Any], ours: Any) -> None:
    from torch.cuda import _memory_viz

    lines = _memory_viz.memory(whole, format_flamegraph=lambda text: text).splitlines()
    theirs: Counter[str] = Counter()
    for line in lines:
        place = re.search(r";active_allocated;.*;model\.py:(\d+):layer_\d+ (\d+)$", line)
        if place is not None:
            theirs[place[1]] += int(place[2])
    found: Counter[str] = Counter()
    for held in ours.held:
        found[str(next(f.line for f in held.frames if f.file.endswith("model.py")))] += held.size
    assert found == theirs
    assert len(found) == len(PLACES)


def test_the_history_agrees(whole: dict[str, Any], ours: Any) -> None:
    from torch.cuda import _memory_viz

    told = _memory_viz.trace(whole)
    assert f"{ours.entries} entries\n" in told
    oom = ours.ooms[-1]
    expected = (
        f"raise OutOfMemoryError # {_memory_viz.Bytes(oom.asked)} requested, {_memory_viz.Bytes(oom.free)} free in CUDA"
    )
    assert told.count("raise OutOfMemoryError") == ours.oom_count == 1
    assert expected in told


def test_what_is_never_freed_agrees(whole: dict[str, Any], ours: Any) -> None:
    import copy

    from torch.cuda import _memory_viz

    left = _memory_viz.filter_alloc_free_pairs(copy.deepcopy(whole))["device_traces"][0]
    theirs: Counter[int] = Counter()
    for entry in left:
        if entry["action"] == "alloc":
            theirs[next(f["line"] for f in entry["frames"] if f["filename"].endswith("model.py"))] += entry["size"]
    found: Counter[int] = Counter()
    for grown in ours.grown:
        found[next(f.line for f in grown.frames if f.file.endswith("model.py"))] += grown.size
    assert found == theirs
