"""What simulated processes ran out of memory for, by their snapshots: the injected use is found."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from allocator import GIB, MIB, SITE, Allocator, OutOfMemory, frame, pickled, stack

from firstfault.analysis.memory_reading import Reading, Use, read_memory
from firstfault.analysis.state.memory import MemoryState, memory_state, place_of
from firstfault.model.evidence import Frame, SourceId
from firstfault.readers.memory_snapshot import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

LINEAR = stack((f"{SITE}/nn/functional.py", 2300, "linear"), ("/srv/app/model.py", 41, "forward"))
CACHE = stack(("/srv/app/cache.py", 12, "remember"))
WEIGHTS = stack(("/srv/app/model.py", 7, "build"))
LOGITS = stack(("/srv/app/loss.py", 88, "logits"))
GRADIENT = [frame("??", 0, "torch::autograd::AccumulateGrad::apply(std::vector&&)")]
BACKWARD = [frame("??", 0, "torch::autograd::Engine::evaluate_function(std::shared_ptr&)")]
ADAM = stack((f"{SITE}/optim/adam.py", 140, "_init_group"), ("/srv/app/train.py", 60, "main"))


def state(device: Allocator) -> MemoryState:
    """The state that is read back."""
    raw = pickled(device.snapshot())
    snapshot = read_snapshot(lambda at, size: raw[at : at + size], len(raw), SourceId(0), "rank0.pickle")
    return memory_state(snapshot.devices[0])


def until_full(step: Callable[[int], object], most: int = 2000) -> None:
    """Does steps until the device has no more."""
    for number in range(most):
        try:
            step(number)
        except OutOfMemory:
            return
    pytest.fail("the device was never full")


def ran(device: Allocator, seed: int, *, leak: int = 0) -> Reading:
    """Trains until the device is full, or gives up."""
    rng = random.Random(seed)
    for _ in range(4):
        device.alloc(300 * MIB, WEIGHTS)

    def step(number: int) -> None:
        now = [device.alloc(rng.randint(20, 60) * MIB, LINEAR) for _ in range(10)]
        if leak:
            device.alloc(leak, CACHE)
        now.append(device.alloc(30 * MIB, BACKWARD))
        for address in now:
            device.release(address)
        if number == 30 and not leak:
            device.alloc(100 * GIB, LOGITS)

    until_full(step)
    return read_memory(state(device))


@pytest.mark.parametrize("seed", range(5))
def test_a_line_that_keeps_what_it_makes_is_named(seed: int) -> None:
    reading = ran(Allocator(8 * GIB), seed, leak=25 * MIB)
    assert reading.use is Use.GROWING
    assert any("remember (cache.py:12) keeps growing" in s for s in reading.sentences)
    assert any("/srv/app/cache.py:12" in s for s in reading.steps)


@pytest.mark.parametrize("seed", range(5))
def test_one_large_request_is_named(seed: int) -> None:
    reading = ran(Allocator(8 * GIB), seed)
    assert reading.use is Use.LARGE
    assert "100.00 GiB at logits (loss.py:88)" in reading.sentences[0]


def test_free_pieces_between_small_blocks_are_fragmentation() -> None:
    device = Allocator(8 * GIB)
    kept: list[int] = []
    until_full(lambda n: kept.append(device.alloc((9 if n % 2 == 0 else 2) * MIB, LINEAR)), 5000)
    for address in kept[::2]:
        device.release(address)
    with pytest.raises(OutOfMemory):
        device.alloc(64 * MIB, LOGITS)
    reading = read_memory(state(device))
    assert reading.use is Use.FRAGMENTED
    assert any("9.00 MiB" in s or "11.00 MiB" in s or "18.00 MiB" in s for s in reading.sentences)


def test_free_memory_of_private_pools_is_named() -> None:
    device = Allocator(8 * GIB)
    graph = [device.alloc(100 * MIB, LINEAR, (3, 0)) for _ in range(40)]
    kept = graph[::2]
    for address in graph[1::2]:
        device.release(address)
    held = [device.alloc(20 * MIB, WEIGHTS) for _ in range(50)]
    for segment in device.segments:
        if segment.pool != (0, 0) and len(segment.blocks) == 1 and segment.blocks[0].frames is None:
            segment.blocks[0].frames = LINEAR  # a graph keeps its pool: it is not given back to the driver
    until_full(lambda _: held.append(device.alloc(100 * MIB, WEIGHTS)))
    for segment in device.segments:
        if segment.pool != (0, 0) and segment.blocks[0].address not in kept:
            segment.blocks[0].frames = None
    reading = read_memory(state(device))
    assert reading.use is Use.POOLS


def test_a_plain_need_is_not_given_another_name() -> None:
    device = Allocator(8 * GIB)
    until_full(lambda _: device.alloc(300 * MIB, WEIGHTS))
    reading = read_memory(state(device), 8 * GIB)
    assert reading.use is Use.OWN
    assert any("build (model.py:7)" in s for s in reading.sentences)


def test_what_one_forward_pass_keeps_is_no_leak() -> None:
    device = Allocator(8 * GIB)

    def layer(_: int) -> None:
        device.alloc(60 * MIB, LINEAR)
        device.release(device.alloc(60 * MIB, LOGITS))

    until_full(layer)
    reading = read_memory(state(device))
    assert reading.use is Use.OWN
    assert any("may be what one step needs" in s for s in reading.sentences)


def test_what_others_hold_is_told_where_the_capacity_is_known() -> None:
    device = Allocator(8 * GIB, others=4 * GIB)
    until_full(lambda _: device.alloc(500 * MIB, WEIGHTS))
    assert read_memory(state(device), 8 * GIB).use is Use.ELSEWHERE
    assert read_memory(state(device)).use is not Use.ELSEWHERE


def test_the_shares_are_those_of_the_truth() -> None:
    device = Allocator(8 * GIB)
    for frames, size in ((LINEAR, 300), (WEIGHTS, 200), (ADAM, 150), (GRADIENT, 100)):
        device.alloc(size * MIB, frames)
    device.recording = False
    device.alloc(50 * MIB, LINEAR)
    found = state(device)
    assert [(s.place.text, s.place.part, s.size // MIB) for s in found.shares] == [
        ("forward (model.py:41)", "", 300),
        ("build (model.py:7)", "", 200),
        ("main (train.py:60)", "optimizer", 150),
        ("gradients", "gradients", 100),
        ("before the recording began", "", 50),
    ]
    assert found.shares[0].place.through == "linear"
    assert found.nameless == 50 * MIB


@pytest.mark.parametrize(
    ("frames", "text"),
    [
        ((Frame("??", 0, "torch::autograd::Engine::thread_init(int)"),), "backward, outside Python"),
        ((Frame("/opt/lib/python3.12/site-packages/torch/nn/init.py", 5, "fill"),), "fill of a library"),
        ((Frame("??", 0, "at::empty"),), "native code"),
        ((Frame("/home/u/proj/run.py", 9, "main"),), "main (run.py:9)"),
        ((Frame("C:\\work\\run.py", 9, "main"),), "main (run.py:9)"),
    ],
)
def test_places_are_told_from_frames(frames: tuple[Frame, ...], text: str) -> None:
    assert place_of(frames).text == text
