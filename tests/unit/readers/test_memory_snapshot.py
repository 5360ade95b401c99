"""Memory snapshots of a simulated allocator, whose truth is known; damaged and hostile ones."""

from __future__ import annotations

import pickle
import pickletools
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from allocator import GIB, MIB, SITE, Allocator, OutOfMemory, as_json, pickled, stack
from hypothesis import given, settings
from hypothesis import strategies as st

from firstfault.model.evidence import SourceId
from firstfault.readers import memory_trace, plain_pickle
from firstfault.readers.memory_snapshot import UnreadableSnapshotError, read_snapshot

if TYPE_CHECKING:
    from firstfault.model.memory import MemorySnapshot

FORWARD = stack((f"{SITE}/nn/functional.py", 2300, "linear"), ("/srv/app/model.py", 41, "forward"), deep=6)
CACHE = stack(("/srv/app/cache.py", 12, "remember"), deep=3)
WEIGHTS = stack(("/srv/app/model.py", 7, "__init__"))
LOGITS = stack(("/srv/app/loss.py", 88, "logits"))


def load(raw: bytes, path: str = "snap/rank3_memory_snapshot.pickle") -> MemorySnapshot:
    """Reads bytes as a file of that name."""
    return read_snapshot(lambda at, size: raw[at : at + size], len(raw), SourceId(0), path)


def held(snapshot: MemorySnapshot) -> dict[tuple[str, int], int]:
    """Bytes by the innermost frame behind the native ones."""
    found: Counter[tuple[str, int]] = Counter()
    for one in snapshot.devices[0].held:
        frames = [f for f in one.frames if f.file != "??"]
        found[(frames[0].file, frames[0].line) if frames else ("", 0)] += one.size
    return dict(found)


def trained(seed: int, *, leak: int = 0, until: int = 40) -> Allocator:
    """Steps that allocate and free, with blocks kept by one line in every step."""
    rng = random.Random(seed)
    device = Allocator(8 * GIB)
    for _ in range(12):
        device.alloc(rng.randint(10 * MIB, 60 * MIB), WEIGHTS)
    for _ in range(until):
        now = [device.alloc(rng.randint(1000, 90 * MIB), FORWARD) for _ in range(8)]
        if leak:
            device.alloc(leak, CACHE)
        rng.shuffle(now)
        for address in now:
            device.release(address)
    return device


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("old", [False, True])
def test_what_is_held_is_summed_up_by_stack(protocol: int, *, old: bool) -> None:
    device = trained(3, leak=11 * MIB)
    found = load(pickled(device.snapshot(old=old), protocol))
    assert held(found) == device.held()
    one = found.devices[0]
    assert one.reserved == sum(s.size for s in device.segments)
    assert one.requested == sum(b.asked for _, b in device.live.values())
    assert one.entries == len(device.trace)
    assert found.who.rank == 3


def test_json_tells_the_same_as_the_pickle() -> None:
    whole = trained(4, leak=MIB).snapshot()
    one, other = load(pickled(whole)), load(as_json(whole), "snap/rank3_memory_snapshot.json")
    assert one.devices == other.devices


def test_a_plain_list_of_segments_is_read() -> None:
    device = trained(5)
    assert held(load(pickle.dumps(device.snapshot()["segments"]))) == device.held()


def test_the_state_at_the_failed_request_is_told_though_the_dump_came_later() -> None:
    device = trained(6, leak=20 * MIB)
    kept = [device.alloc(90 * MIB, FORWARD) for _ in range(30)]
    truth = device.held()
    reserved = sum(s.size for s in device.segments)
    with pytest.raises(OutOfMemory):
        device.alloc(7 * GIB, LOGITS)
    reserved = sum(s.size for s in device.segments)
    for address in kept:
        device.release(address)
    device.alloc(3 * MIB, LOGITS)
    device.alloc(900 * MIB, LOGITS)
    found = load(pickled(device.snapshot()))
    one = found.devices[0]
    assert one.at_oom
    assert held(found) == truth
    assert one.reserved == reserved
    assert one.ooms[-1].asked == 7 * GIB
    assert [f.function for f in one.ooms[-1].frames if f.file != "??"] == ["logits"]


def test_a_leak_spreads_over_the_history_and_a_step_does_not() -> None:
    device = trained(7, leak=30 * MIB)
    for _ in range(9):
        device.alloc(50 * MIB, FORWARD)
    grown = {g.frames[-1].file + str(len(g.frames)): g for g in load(pickled(device.snapshot())).devices[0].grown}
    by_first = {next(f for f in g.frames if f.file != "??").function: g for g in grown.values()}
    assert min(by_first["remember"].parts) > 0
    assert sum(1 for n in by_first["linear"].parts if n) == 1
    assert by_first["remember"].size == 40 * 30 * MIB


@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(["alloc", "free_requested", "free_completed", "segment_map", "oom", "snapshot"]),
            st.integers(0, 40),
            st.integers(0, 5),
        ),
        max_size=120,
    ),
    most=st.integers(1, 30),
)
@settings(max_examples=60, deadline=None)
def test_a_history_summed_up_in_parts_tells_the_same_as_in_one(rows: list[tuple[str, int, int]], most: int) -> None:
    def told(at_a_time: int) -> Any:
        trace = memory_trace.Trace()
        for number, (action, block, stack_of) in enumerate(rows):
            trace.add(action, 0x7F0000000000 + 512 * block, 512 * (stack_of + 1), stack_of, number)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(memory_trace, "AT_A_TIME", at_a_time)
            return trace.summed()

    assert told(most) == told(1 << 20)


def test_what_fell_off_the_history_is_told_as_unknown() -> None:
    device = Allocator(8 * GIB, record=30)
    early = [device.alloc(20 * MIB, FORWARD) for _ in range(10)]
    for _ in range(10):
        device.release(device.alloc(MIB, FORWARD))
    with pytest.raises(OutOfMemory):
        device.alloc(9 * GIB, LOGITS)
    for address in early:
        device.release(address)
    one = load(pickled(device.snapshot())).devices[0]
    assert one.at_oom
    assert one.held_unknown == 200 * MIB


def test_devices_are_told_apart_and_private_pools_counted() -> None:
    device = trained(8, until=2)
    graph = [device.alloc(40 * MIB, FORWARD, (1, 0)) for _ in range(6)]
    for address in graph[1:]:
        device.release(address)
    found = load(pickled(device.snapshot(device=2)))
    assert [d.device for d in found.devices] == [2]
    one = found.devices[0]
    assert one.pool_reserved == sum(s.size for s in device.segments if s.pool == (1, 0)) == 240 * MIB
    assert one.pool_inactive == 200 * MIB
    assert one.entries == len(device.trace)


def test_blocks_from_before_the_recording_have_no_frames() -> None:
    device = Allocator(8 * GIB)
    device.recording = False
    device.alloc(70 * MIB, WEIGHTS)
    device.recording = True
    device.alloc(30 * MIB, FORWARD)
    assert held(load(pickled(device.snapshot())))["", 0] == 70 * MIB


def test_long_stacks_and_long_histories_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_pickle, "MARGIN", 1 << 13)
    monkeypatch.setattr("firstfault.readers.memory_snapshot.BLOCK", 4099)
    deep = stack(("/srv/app/deep.py", 5, "recurse"), deep=1200)
    device = trained(9, leak=MIB)
    device.alloc(5 * MIB, deep)
    device.alloc(6 * MIB, stack(("/srv/app/deep.py", 5, "recurse"), deep=996))
    assert held(load(pickled(device.snapshot()))) == device.held()


class Evil:
    """What a stranger may put into a pickle."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("run",))


@pytest.mark.parametrize(
    "raw",
    [
        pickle.dumps({"segments": [Evil()], "device_traces": []}),
        pickle.dumps({"segments": [print], "device_traces": []}),
        pickle.dumps({"segments": [b"x" * 9], "device_traces": []}),
        pickle.dumps({"a": 1}),
        pickle.dumps([1, 2]),
        b"\x80\x04.",
        b"\x80\x04]\x94" + b"(" * 1_000_000,
        b"\x80\x04" + b"}" * 2_000_000,
        b"\x80\x04" + b"]\x94h\x00a." * 3,
        b"\x80\x04(K\x01K\x02u.",
        b"\x80\x04h\x05.",
        b"\x80\x04\x8a\xff" + b"\x01" * 255 + b".",
        b"\x80\x04X\xff\xff\xff\x7fabc.",
        b"\x80\x04K\x01r\xff\xff\xff\x7f.",
        b"{",
        b'{"segments": 1}',
        b"[" * 100_000,
        b'{"segments": [], "device_traces": ' + b"[" * 600 + b"]" * 600 + b"}",
    ],
)
def test_what_is_made_to_harm_is_refused(raw: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UnreadableSnapshotError):
        load(raw)
    assert not capsys.readouterr().out


def test_keys_of_one_hash_are_refused() -> None:
    with pytest.raises(UnreadableSnapshotError, match="key is a number of extreme size"):
        load(pickle.dumps({"segments": [], "device_traces": []} | {k * ((1 << 61) - 1): 0 for k in range(9)}))


def test_a_tuple_that_folds_up_is_refused() -> None:
    bomb: Any = (1, 2)
    for _ in range(40):
        bomb = (bomb, bomb)
    with pytest.raises(UnreadableSnapshotError):
        load(pickle.dumps({"segments": [], "device_traces": bomb}))


def test_a_history_that_is_cut_off_leaves_the_segments() -> None:
    device = trained(10)
    raw = pickled(device.snapshot())
    found = load(raw[: len(raw) * 9 // 10])
    assert "history is lost" in found.notes[0]
    assert held(found) == device.held()


WHOLE = pickled(trained(11, leak=MIB, until=5).snapshot())
PLACES = [place for _, _, place in pickletools.genops(WHOLE) if place]


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, len(WHOLE)), st.lists(st.tuples(st.integers(0, len(PLACES) - 1), st.integers(0, 255)), max_size=4)
)
def test_no_damage_makes_it_raise_anything_else(cut: int, changes: list[tuple[int, int]]) -> None:
    raw = bytearray(WHOLE)
    for place, byte in changes:
        raw[PLACES[place]] = byte
    for tried in (bytes(raw), bytes(raw[:cut])):
        try:
            load(tried)
        except UnreadableSnapshotError:
            continue


@settings(max_examples=60, deadline=None)
@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=4),
        lambda s: (
            st.lists(s, max_size=4)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "action",
                        "size",
                        "blocks",
                        "state",
                        "filename",
                        "name",
                        "total_size",
                        "addr",
                        "frames",
                        "segments",
                        "device_traces",
                        "history",
                    ]
                ),
                s,
                max_size=5,
            )
        ),
    )
)
def test_no_value_of_any_shape_makes_it_raise_anything_else(value: Any) -> None:
    for raw in (
        pickle.dumps(value),
        pickle.dumps({"segments": value, "device_traces": [value]}),
        as_json({"segments": [value], "device_traces": value}),
    ):
        try:
            load(raw)
        except UnreadableSnapshotError:
            continue


def changed(size: object) -> bytes:
    """A snapshot of which every segment and block holds another value as its size."""
    whole = trained(12).snapshot()
    for segment in whole["segments"]:
        segment["total_size"] = size
        for block in segment["blocks"]:
            block["size"] = block["requested_size"] = size
    return pickled(whole)


@pytest.mark.parametrize("size", [-5, "many", None, 1 << 70, [1], 0])
def test_sizes_that_cannot_be_true_give_no_sums(size: object) -> None:
    with pytest.raises(UnreadableSnapshotError, match="no sizes that can be true"):
        load(changed(size))


def test_a_segment_without_a_size_is_left_out_and_told() -> None:
    device = trained(13)
    whole = device.snapshot()
    whole["segments"].append({**whole["segments"][0], "total_size": -1, "blocks": []})
    found = load(pickled(whole))
    assert found.devices[0].reserved == sum(s.size for s in device.segments)
    assert found.notes[0].endswith("left out: 1")


@pytest.mark.parametrize("traces", [[], [[]], [[], []]])
def test_a_snapshot_of_a_process_that_used_no_device_says_so(traces: list[list[object]]) -> None:
    with pytest.raises(UnreadableSnapshotError, match="had used no device"):
        load(pickle.dumps({"segments": [], "device_traces": traces}))


@pytest.mark.parametrize(
    "more", [{}, {"compile_context": "N/A", "user_metadata": "step 7"}, {"stream": 94_000_000_000_000}]
)
@pytest.mark.parametrize("shared", [False, True])
def test_entries_of_every_shape_are_summed_up_as_one_by_one(more: dict[str, Any], *, shared: bool) -> None:
    """The truth is the simulated device; the same as JSON goes another way, map by map."""
    device = trained(14, leak=MIB, until=120)
    with pytest.raises(OutOfMemory):
        device.alloc(9 * GIB, LOGITS)
    device.alloc(3 * MIB, LOGITS)
    truth, entries = device.held(), []
    for number, entry in enumerate(device.trace):
        own = {key: str(value) + "" if key == "user_metadata" else value for key, value in more.items()}
        if number % 7 == 3 and own:
            own.pop(next(iter(own)))
        frames = entry.pop("frames")
        kept = frames if shared else list(frames)
        entries.append({**entry, **own, "pool_id": tuple([0, number % 2]), "frames": kept})  # noqa: C409 - one of its own
    device.trace = entries
    whole = device.snapshot()
    found = load(pickled(whole))
    assert found.devices == load(as_json(whole), "snap/rank3_memory_snapshot.json").devices
    assert found.devices[0].entries == len(entries)
    assert found.devices[0].oom_count == 1
    truth = {place: size for place, size in truth.items() if place != ("/srv/app/loss.py", 88)}
    assert held(found) == truth


def test_lists_that_hold_the_bytes_of_their_own_end_are_read() -> None:
    """Numbers of frames that look like the operations behind a list: every frame once, in many orders."""
    device, rng = Allocator(64 * GIB), random.Random(15)
    frames = [{"filename": f"/srv/app/part{n}.py", "line": n, "name": f"work_{n}"} for n in range(31_000)]
    device.alloc(MIB, frames)
    for _ in range(300):
        device.alloc(rng.randint(1, 9) * MIB, [frames[25_900 + rng.randrange(400)], *rng.sample(frames, 40)])
    assert held(load(pickled(device.snapshot()))) == device.held()


def outcome(raw: bytes) -> object:
    """What reading gives, or that it gives nothing; which of several flaws of one file is told first is of no account."""
    try:
        return load(raw)
    except UnreadableSnapshotError:
        return "unreadable"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(PLACES) - 1), st.integers(0, 255)), max_size=3))
def test_many_at_a_time_and_one_by_one_give_the_same(changes: list[tuple[int, int]]) -> None:
    raw = bytearray(WHOLE)
    for place, byte in changes:
        raw[PLACES[place]] = byte
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("firstfault.readers.plain_shapes.MOST_SHAPES", 0)
        alone = outcome(bytes(raw))
    assert outcome(bytes(raw)) == alone
