"""The arithmetic of out-of-memory messages: a device is filled in a known way, its allocator's message made in each wording."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.analysis.oom_message import Kind, account, figures

MIB, GIB = 1 << 20, 1 << 30


class Device:
    """What fills a device when a request fails; the truth behind a message."""

    def __init__(self, **held: int) -> None:
        self.capacity = 80 * GIB
        self.tensors = self.pieces = self.pools = self.others = self.allowed = 0
        self.context = GIB // 2
        for name, size in held.items():
            setattr(self, name, size)
        self.own = self.tensors + self.pieces + self.pools + self.context
        self.free = self.capacity - self.own - self.others


def size(number: int) -> str:
    """As c10's format_size prints it."""
    for unit, factor in (("GiB", GIB), ("MiB", MIB), ("KiB", 1 << 10)):
        if number >= factor:
            return f"{number / factor:.2f} {unit}"
    return f"{number} bytes"


def old(device: Device, asked: int, *, name: str = "GPU", extra: str = "") -> str:
    """The wording of torch 1.5 to 2.0."""
    allowed = f"{size(device.allowed)} allowed; " if device.allowed else ""
    reserved = device.tensors + device.pieces + device.pools
    return (
        f"RuntimeError: {'NPU' if name == 'NPU' else 'CUDA'} out of memory. Tried to allocate {size(asked)} ({name} 3; "
        f"{size(device.capacity)} total capacity; {size(device.tensors)} already allocated; {extra}{size(device.free)} free; "
        f"{allowed}{size(reserved)} reserved in total by PyTorch) If reserved memory is >> allocated memory try setting "
        "max_split_size_mb to avoid fragmentation."
    )


def oldest(device: Device, asked: int) -> str:
    """The wording of torch 0.4 to 1.4."""
    return (
        f"RuntimeError: CUDA out of memory. Tried to allocate {size(asked)} (GPU 0; {size(device.capacity)} total capacity; "
        f"{size(device.tensors)} already allocated; {size(device.free)} free; {size(device.pieces + device.pools)} cached)"
    )


def new(device: Device, asked: int, *, word: str = "capacity", contained: bool = False) -> str:
    """The wording of torch 2.1 and later; in a container the process is named by a number of the host."""
    others = f"Process 4711 has {size(device.others)} memory in use. " if device.others else ""
    own = (
        f"Process 815 has {size(device.own)} memory in use. "
        if contained
        else f"Including non-PyTorch memory, this process has {size(device.own)} memory in use. "
    )
    allowed = f"{size(device.allowed)} allowed; " if device.allowed else ""
    pools = f"with {size(device.pools)} allocated in private pools (e.g., CUDA Graphs), " if device.pools else ""
    return (
        f"[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {size(asked)}. GPU 3 has a total {word} of "
        f"{size(device.capacity)} of which {size(device.free)} is free. {others}{own}{allowed}Of the allocated memory "
        f"{size(device.tensors + device.pools)} is allocated by PyTorch, {pools}and {size(device.pieces)} is reserved by "
        "PyTorch but unallocated. If reserved but unallocated memory is large try setting "
    )


def kind(text: str) -> Kind | None:
    """What the message is explained by."""
    known = figures(text)
    told = None if known is None else account(known)
    return None if told is None else told.kind


CASES = [
    (Device(tensors=78 * GIB), 4 * GIB, Kind.OWN, Kind.OWN),
    (Device(tensors=48 * GIB, pieces=31 * GIB), 2 * GIB, Kind.FRAGMENTED, Kind.FRAGMENTED),
    (Device(tensors=40 * GIB, others=39 * GIB), 2 * GIB, Kind.OTHERS, Kind.BESIDE),
    (Device(tensors=40 * GIB, context=39 * GIB), 2 * GIB, Kind.OUTSIDE, Kind.BESIDE),
    (Device(tensors=40 * GIB, pools=39 * GIB), 2 * GIB, Kind.POOLS, Kind.FRAGMENTED),
    (Device(tensors=50 * GIB), 40 * GIB, Kind.LARGE, Kind.LARGE),
    (Device(tensors=10 * GIB), 900 * GIB, Kind.IMPOSSIBLE, Kind.IMPOSSIBLE),
    (Device(tensors=19 * GIB, allowed=20 * GIB), 2 * GIB, Kind.LIMIT, Kind.LIMIT),
]


@pytest.mark.parametrize(("device", "asked", "now", "then"), CASES)
def test_what_fills_the_device_explains_the_failure(device: Device, asked: int, now: Kind, then: Kind) -> None:
    assert kind(new(device, asked)) is now
    assert kind(new(device, asked, word="capacty")) is now
    assert kind(old(device, asked)) is then
    extra = f"{size(device.tensors)} current active; "
    assert kind(old(device, asked, name="NPU", extra=extra)) is then
    if not device.allowed:
        assert kind(oldest(device, asked)) is then


@pytest.mark.parametrize(("device", "asked", "now", "then"), [c for c in CASES if c[2] is not Kind.OUTSIDE])
def test_in_a_container_the_process_is_found_among_those_named(
    device: Device, asked: int, now: Kind, then: Kind
) -> None:
    del then
    known = figures(new(device, asked, contained=True))
    assert known is not None
    assert known.itself == 815
    assert kind(new(device, asked, contained=True)) is now


def test_two_that_fit_leave_open_which_one_the_process_is() -> None:
    device = Device(tensors=30 * GIB, others=30 * GIB + GIB // 2)
    known = figures(new(device, 30 * GIB, contained=True))
    assert known is not None
    assert known.itself is None
    assert kind(new(device, 30 * GIB, contained=True)) is Kind.BESIDE


def test_what_is_lost_but_not_enough_alone_is_said_together() -> None:
    device = Device(tensors=44 * GIB, pieces=17 * GIB, others=18 * GIB)
    told = account(figures(new(device, 19 * GIB)) or pytest.fail("no figures"))
    assert told is not None
    assert told.kind is Kind.MIXED
    assert "17.00 GiB" in told.sentence
    assert "18.00 GiB" in told.sentence


def test_others_make_no_difference_where_the_own_limit_refused() -> None:
    device = Device(tensors=37 * GIB, pieces=2 * GIB, others=30 * GIB, allowed=40 * GIB)
    assert kind(new(device, 2 * GIB)) is Kind.LIMIT


@pytest.mark.parametrize(
    "text",
    [
        "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 4",
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.21 GiB is free.",
        "CUDA error: out of memory",
        "MPS backend out of memory (MPS allocated: 8.00 GB, other allocations: 1.00 GB, max allowed: 9.07 GB).",
    ],
)
def test_too_few_figures_explain_nothing(text: str) -> None:
    assert kind(text) is None


@given(
    st.integers(0, 80).map(lambda n: n * GIB),
    st.integers(0, 40).map(lambda n: n * GIB),
    st.integers(0, 40).map(lambda n: n * GIB),
    st.integers(1, 100_000).map(lambda n: n * MIB),
)
def test_nothing_is_blamed_that_could_not_have_made_room(tensors: int, pieces: int, others: int, asked: int) -> None:
    device = Device(tensors=tensors, pieces=pieces, others=others)
    if device.free < 0 or device.free >= asked:
        return
    found = kind(new(device, asked))
    short = asked - device.free
    if found is Kind.FRAGMENTED:
        assert pieces >= short * 0.99
    if found is Kind.OTHERS:
        assert others >= short * 0.99
    if tensors + asked > device.capacity * 1.001:
        assert found in {Kind.OWN, Kind.LARGE, Kind.IMPOSSIBLE}


@given(st.text(max_size=300), st.integers(0, 500))
def test_no_text_and_no_cut_makes_it_raise(text: str, cut: int) -> None:
    message = new(Device(tensors=70 * GIB, others=5 * GIB), 6 * GIB)
    for tried in (text, "Tried to allocate " + text, message[:cut], message[:cut] + text):
        known = figures(tried)
        if known is not None:
            account(known)
