"""One dump as columns: every version, both forms, the rank, the counters, batches, and whatever the bytes are."""

import json
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstfault.model.recorder import Counters, Stage
from firstfault.readers.entries import counters_text, entry_place, entry_text
from firstfault.readers.flight_recorder import UnreadableDumpError, rank_of_name, read_dump


def entry(number, seq, op="all_reduce", **more):
    return {
        "record_id": number,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "op_id": seq,
        "profiling_name": f"nccl:{op}",
        "time_created_ns": 1_795_962_015_000_000_000 + number,
        "input_sizes": [[4, 4]],
        "input_dtypes": ["Float"],
        "output_sizes": [[4, 4]],
        "output_dtypes": ["Float"],
        "state": "scheduled",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "retired": False,
        "timeout_ms": 600_000,
        "is_p2p": False,
        "frames": [{"name": "step", "filename": "/home/user/train.py", "line": 12}],
    } | more


def whole(*entries, **more):
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
    return {"version": "2.10", "pg_config": config, "entries": list(entries)} | more


def read(top, name="nccl_trace_rank_3", *, as_json=False):
    raw = json.dumps(top).encode() if as_json else pickle.dumps(top, 2)
    return read_dump(raw, 5, name)


def test_the_columns_hold_what_the_entries_say():
    dump = read(whole(entry(7, 3, state="completed"), entry(8, 4, "broadcast", state="started"), entry(9, 5)))
    (log,) = dump.logs
    assert (dump.source, dump.rank, dump.stated, dump.version, dump.entries, dump.first_record) == (
        5,
        3,
        False,
        (2, 10),
        3,
        7,
    )
    assert (list(log.record), list(log.seq), list(log.entry)) == ([7, 8, 9], [3, 4, 5], [0, 1, 2])
    assert list(log.stage) == [Stage.COMPLETED, Stage.UNFINISHED, Stage.UNFINISHED]
    assert list(log.started) == [1, 1, 0]
    assert [dump.calls[c].op for c in log.call] == ["all_reduce", "broadcast", "all_reduce"]
    assert dump.calls[0].input_sizes == ((4, 4),)
    assert dump.frames[dump.calls[0].frames][0].file == "/home/user/train.py"
    assert dump.latest_ns == 1_795_962_015_000_000_009


@pytest.mark.parametrize(("text", "numbers"), [("2.10", (2, 10)), ("2.9", (2, 9)), ("2.2", (2, 2)), ("1.1", (1, 1))])
def test_versions_are_numbers(text, numbers):
    assert read(whole(version=text)).version == numbers
    assert read(whole(version="2.10")).version > read(whole(version="2.9")).version


def test_numbers_of_extreme_length_are_not_taken_over():
    long = 10**5000
    frames = [{"name": "f", "filename": "a.py", "line": long}]
    top = whole(entry(0, 1, input_sizes=[[long]], timeout_ms=long, frames=frames))
    dump = read_dump(pickle.dumps(top), 5, "nccl_trace_rank_3", fast=True)
    (call,) = dump.calls
    assert (call.input_sizes, call.timeout_ms, dump.frames[call.frames][0].line) == ((), None, 0)


def test_the_list_of_2023_is_read():
    old = {
        k: v
        for k, v in entry(0, 1).items()
        if k in {"pg_id", "profiling_name", "input_sizes", "output_sizes", "state", "frames"}
    }
    dump = read([{**old, "seq_id": 1}, {**old, "seq_id": 2, "state": "completed"}])
    (log,) = dump.logs
    assert (log.group, list(log.seq), dump.version) == ("0", [1, 2], ())


def test_the_json_form_gives_the_same():
    top = whole(
        entry(7, 3, state="completed", time_discovered_completed_ns=9), entry(8, 4, time_discovered_started_ns=0)
    )
    for row in top["entries"]:
        row["frames"] = []
    one, other = read(top), read(json.loads(json.dumps(top)), as_json=True)
    assert one == other


def test_json_without_entries_is_an_empty_dump():
    top = whole()
    del top["entries"]
    assert read(top, as_json=True).entries == 0


def test_retired_and_not_completed_is_unfinished_with_nccl_and_unknown_with_gloo():
    gone = entry(0, 1, retired=True)
    assert list(read(whole(gone, entry(1, 2, state="completed"))).logs[0].stage) == [0, 2]
    assert list(read(whole(gone | {"profiling_name": "gloo:all_reduce"})).logs[0].stage) == [Stage.RETIRED]


def test_sends_and_receives_have_their_own_numbers_and_peers():
    send = entry(0, 5, "send 0->2", is_p2p=True, p2p_seq_id=1)
    dump = read(whole(send, entry(1, 6), send | {"record_id": 2, "profiling_name": "nccl:recv 0<-1", "p2p_seq_id": 2}))
    p2p = next(log for log in dump.logs if log.p2p)
    assert list(p2p.seq) == [1, 2]
    assert [(dump.calls[c].op, dump.calls[c].own, dump.calls[c].peer) for c in p2p.call] == [
        ("send", 0, 2),
        ("recv", 0, 1),
    ]
    assert (dump.rank, dump.stated) == (0, True)  # its messages say so, whatever its name says


def test_a_closing_entry_that_is_not_marked_belongs_to_its_batch():
    part = entry(0, 5, "send 3->2", is_p2p=True, p2p_seq_id=4)
    close = entry(2, 5, "coalesced", p2p_seq_id=4, state="completed", input_sizes=[], output_sizes=[])
    dump = read(whole(part, part | {"record_id": 1, "profiling_name": "nccl:recv 3<-2"}, close))
    (log,) = dump.logs
    assert (log.p2p, list(log.seq)) == (True, [4, 4, 4])


def test_the_content_tells_the_rank_where_groups_meet_in_one():
    config = {
        "0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"},
        "1": {"name": "1", "desc": "tp", "ranks": "[2, 3]"},
        "2": {"name": "2", "desc": "dp", "ranks": "[0, 2]"},
    }
    dump = read(whole(entry(0, 1), pg_config=config), name="copy-of-trace_9")
    assert (dump.rank, dump.stated) == (2, True)
    assert "rank 9" in dump.notes[0]


def test_a_name_that_contradicts_the_groups_tells_no_rank():
    dump = read(whole(entry(0, 1)), name="nccl_trace_rank_12")
    assert dump.rank is None
    assert dump.notes


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("nccl_trace_rank_3", 3),
        ("logs/node-7/nccl_trace_rank_0", 0),
        ("comm_lib_trace_rank_17.json", 17),
        ("_dump_12", 12),
        ("fr_trace_4.pkl.gz", 4),
        ("a.tar.gz!x/nccl_trace_rank_9", 9),
        ("nccl_trace_rank_host-12_5", 5),
        ("rank_5/nccl_trace.json", 5),
        ("trace_2024.pkl", 2024),
        ("dump", None),
    ],
)
def test_ranks_of_names(name, rank):
    assert rank_of_name(name) == rank


def test_counters_join_by_entries_else_by_order():
    config = {n: {"name": n, "desc": "", "ranks": "[2, 3]"} for n in ("0", "12", "7")}
    status = {
        n: {"last_enqueued_collective": v, "last_started_collective": -1, "last_completed_collective": str(v)}
        for n, v in (("0", 10), ("3", 20), ("5", 30))
    }
    assert read(whole(pg_config=config, pg_status=status)).counters == {
        "0": Counters(10, -1, 10),
        "7": Counters(20, -1, 20),
        "12": Counters(30, -1, 30),
    }
    own = entry(0, 1, process_group=("12", ""), pg_id=3)
    assert read(whole(own, pg_config=config, pg_status=status)).counters == {"12": Counters(20, -1, 20)}


def test_an_uninitialised_counter_is_none():
    status = {
        "0": {
            "last_enqueued_collective": 76280750235782912,
            "last_started_collective": 0,
            "last_completed_collective": 0,
        }
    }
    assert read(whole(pg_status=status)).counters == {}


def test_entries_out_of_order_are_put_in_order():
    dump = read(whole(entry(9, 5), entry(7, 3), entry(8, 4)))
    assert (list(dump.logs[0].seq), list(dump.logs[0].entry)) == ([3, 4, 5], [1, 2, 0])


def test_an_entry_is_found_in_its_bytes():
    top = whole(entry(7, 3), entry(8, 4))
    for raw in (pickle.dumps(top, 2), json.dumps(top).encode()):
        dump = read_dump(raw, 0, "rank_1")
        offset, length = entry_place(raw, dump, 1)
        stamp = 1_795_962_015_000_000_008
        assert raw[offset : offset + length] in {str(stamp).encode(), b"\x8a\x08" + stamp.to_bytes(8, "little")}
    text = entry_text(dump, dump.logs[0], 1)
    assert (
        text
        == "rank 1 entry 1: all_reduce [4, 4] Float, collective 4 of group 0 (default_pg), scheduled, at /home/user/train.py:12 (step)"
    )
    assert counters_text(dump, "0") == "rank 1 no unfinished entry of group 0 (default_pg)"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[1, 2",
        b'"text"',
        b"{}",
        b"\x80\x02K\x05.",
        b'{"entries": 5, "version": "2.1"}',
        b"\x80\x02}q\x00.",
        b"\xff\xfe\x00",
    ],
)
def test_what_is_no_dump_says_so(raw):
    with pytest.raises(UnreadableDumpError, match=r"\w"):
        read_dump(raw, 0, "nccl_trace_rank_0")


STRANGE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 2**80)
    | st.floats()
    | st.sampled_from(["0", "nccl:all_reduce", "completed", "[0, 1]", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["ranks", "name", "desc", "line", "0"]), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = sorted(entry(0, 1))


@settings(max_examples=300)
@given(
    st.lists(st.dictionaries(st.sampled_from(FIELDS), STRANGE, max_size=6), max_size=3),
    st.dictionaries(
        st.sampled_from(["version", "pg_config", "pg_status", "nccl_version", "comm_lib_version"]), STRANGE, max_size=4
    ),
)
def test_no_content_raises_anything_else(changes, top):
    entries = [entry(n, n) | change for n, change in enumerate(changes)]
    for given_entries in (entries, [*entries, 7, None]):
        try:
            dump = read({"version": "2.10", **top, "entries": given_entries})
        except UnreadableDumpError:
            continue
        for log in dump.logs:
            for at in range(len(log.seq)):
                assert entry_text(dump, log, at)


@settings(max_examples=150)
@given(st.data())
def test_a_dump_cut_anywhere_is_refused_or_whole(data):
    raw = pickle.dumps(whole(entry(7, 3), entry(8, 4)), 2)
    cut = raw[: data.draw(st.integers(0, len(raw) - 1))]
    with pytest.raises(UnreadableDumpError):
        read_dump(cut, 0, "rank_0")


def test_parts_of_a_batch_end_with_the_entry_that_closes_it():
    part = entry(0, 5, "_all_gather_base")
    close = entry(2, 5, "coalesced", state="completed", input_sizes=[], output_sizes=[])
    ended = read(whole(part, part | {"record_id": 1}, close, entry(3, 6)))
    assert list(ended.logs[0].stage) == [2, 2, 2, 0]
    open_one = read(
        whole(entry(-1, 4, state="completed"), part, part | {"record_id": 1}, close | {"state": "scheduled"})
    )
    assert list(open_one.logs[0].stage) == [2, 0, 0, 0]


def test_parts_without_their_closing_entry_have_ended_where_completed_entries_are_left_out():
    # The closing entry was completed and therefore left out; the parts are never seen to end.
    part = entry(0, 5, "send 3->2", is_p2p=True, p2p_seq_id=4)
    dump = read(whole(part, part | {"record_id": 1, "profiling_name": "nccl:recv 3<-2"}, entry(9, 7)))
    p2p = next(log for log in dump.logs if log.p2p)
    assert (dump.active_only, list(p2p.stage)) == (True, [Stage.COMPLETED, Stage.COMPLETED])
