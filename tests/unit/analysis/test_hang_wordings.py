"""Every wording of ProcessGroupNCCL from torch 1.8 on: what is taken from the line, and what must not be taken."""

from __future__ import annotations

import pytest
from hang_simulation import parse

from firstfault.analysis.state.groups import hang_state
from firstfault.analysis.state.works import spoken

WORK = "WorkNCCL(SeqNum=2635, OpType=_ALLGATHER_BASE, NumelIn=1024, NumelOut=16384, Timeout(ms)=600000)"
DUMP = "and we will try our best to dump the debug info. Last enqueued NCCL work: {a}, last completed NCCL work: {b}.This is most likely caused by incorrect usages of collectives, e.g., wrong sizes used across ranks"


def said(*lines):
    return spoken(parse({0: list(lines)}))


WORKS = {
    "1.8 without a number": (
        ("[E ProcessGroupNCCL.cpp:485] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, "
        "TensorShape=[1024, 8], Timeout(ms)=1800000) ran for 1800114 milliseconds before timing out."),
        {"rank": None, "group_rank": 3, "seq": None, "op": "ALLREDUCE", "shape": "[1024, 8]", "timeout_ms": 1800000, "ran_ms": 1800114},
    ),
    "1.9 without number and shape": (
        ("[E ProcessGroupNCCL.cpp:566] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(OpType=BROADCAST, "
        "Timeout(ms)=1800000) ran for 1801377 milliseconds before timing out."),
        {"group_rank": 1, "seq": None, "op": "BROADCAST", "shape": None},
    ),
    "1.13 with a number": (
        ("[E ProcessGroupNCCL.cpp:821] [Rank 4] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=96120, "
        "OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800310 milliseconds before timing out."),
        {"rank": None, "group": None, "group_rank": 4, "seq": 96120, "op": "ALLREDUCE"},
    ),
    "1.8 blocking wait": (
        ("RuntimeError: [Rank 1] Caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, TensorShape=[1], "
        "Timeout(ms)=1800000) ran for 1800100 milliseconds before timing out."),
        {"group_rank": 1, "op": "ALLREDUCE", "shape": "[1]"},
    ),
    "2.1 blocking wait": (
        ("RuntimeError: [Rank 3] Work WorkNCCL(SeqNum=12, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=60000) timed "
        "out in blocking wait (NCCL_BLOCKING_WAIT=1)."),
        {"group_rank": 3, "seq": 12, "numel_in": 4, "timeout_ms": 60000, "ran_ms": None},
    ),
    "2.2 with a prefix and without time": (
        f"[rank17]:[E ProcessGroupNCCL.cpp:523] [Rank 2] Watchdog caught collective operation timeout: {WORK} ran for 600020 milliseconds before timing out.",
        {"rank": 17, "group": None, "group_rank": 2, "seq": 2635, "op": "_ALLGATHER_BASE", "numel_in": 1024, "numel_out": 16384},
    ),
    "2.4 and later": (
        f"[rank2]:[E211 22:01:42.402337102 ProcessGroupNCCL.cpp:683] [Rank 0] Watchdog caught collective operation timeout: {WORK} ran for 600020 milliseconds before timing out.",
        {"rank": 2, "group": None, "seq": 2635},
    ),
    "the watchdog's last words, which name the group": (
        f"[rank9]:[E129 16:38:47.714849575 ProcessGroupNCCL.cpp:1895] [PG ID 5 PG GUID 37(TENSOR_MODEL_PARALLEL_GROUP) Rank 1] Process group watchdog thread terminated with exception: [Rank 9] Watchdog caught collective operation timeout: {WORK} ran for 600020 milliseconds before timing out.",
        {"rank": 9, "group": "37", "desc": "TENSOR_MODEL_PARALLEL_GROUP", "group_rank": 1, "seq": 2635},
    ),
    "the text of the exception": (
        f"  what():  [PG ID 0 PG GUID 0(default_pg) Rank 1] Process group watchdog thread terminated with exception: [Rank 1] Watchdog caught collective operation timeout: {WORK} ran for 600020 milliseconds before timing out.",
        {"rank": None, "group": "0", "group_rank": 1, "seq": 2635},
    ),
    "coalesced, whose size was never set": (
        "[rank1]:[E211 22:01:42.402337102 ProcessGroupNCCL.cpp:683] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=COALESCED, NumelIn=18446744073709551615, NumelOut=18446744073709551615, Timeout(ms)=600000) ran for 600020 milliseconds before timing out.",
        {"rank": 1, "seq": 7, "op": "COALESCED", "numel_in": None, "numel_out": None},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WORKS)
def test_a_work_is_read_from_every_wording(name):
    line, expected = WORKS[name]
    found = said(line)
    assert len(found.works) == 1, found
    assert not found.states
    work = found.works[0]
    assert {k: getattr(work, k) for k in expected} == expected


STATES = {
    "2.3": (
        "[rank5]:[E ProcessGroupNCCL.cpp:1537] [PG 0 Rank 5] Timeout at NCCL work: 15651, last enqueued NCCL work: 15653, last completed NCCL work: 15650.",
        {"rank": 5, "group": "0", "group_rank": 5, "seq": 15651, "enqueued": 15653, "completed": 15650, "dump": False},
    ),
    "2.3 with a counter that was never set": (
        "[rank5]:[E ProcessGroupNCCL.cpp:1537] [PG 0 Rank 5] Timeout at NCCL work: 1, last enqueued NCCL work: 2, last completed NCCL work: 76280750235782912.",
        {"seq": 1, "enqueued": 2, "completed": None},
    ),
    "2.4": (
        "[rank1]:[E719 18:42:55.168000000 ProcessGroupNCCL.cpp:1664] [PG 0 (default_pg) Rank 1] Exception (either an error or timeout) detected by watchdog at work: 3, last enqueued NCCL work: 3, last completed NCCL work: 2.",
        {"rank": 1, "group": "0", "desc": "default_pg", "seq": 3, "enqueued": 3, "completed": 2},
    ),
    "2.5": (
        "[rank0]:[E513 13:25:57.714781669 ProcessGroupNCCL.cpp:1785] [PG ID 2 PG GUID 11 Rank 0] Exception (either an error or timeout) detected by watchdog at work: 2635, last enqueued NCCL work: 2635, last completed NCCL work: 2634.",
        {"group": "11", "desc": None, "seq": 2635},
    ),
    "2.6 and later, none completed": (
        "[rank9]:[E129 16:38:47.714849575 ProcessGroupNCCL.cpp:2241] [PG ID 5 PG GUID 37(TENSOR_MODEL_PARALLEL_GROUP) Rank 1]  failure detected by watchdog at work sequence id: 14 PG status: last enqueued work: 16, last completed work: -1",
        {"rank": 9, "group": "37", "group_rank": 1, "seq": 14, "enqueued": 16, "completed": -1, "dump": False},
    ),
    "dump of its own": (
        "[rank6]:[E901 05:20:05.000000001 ProcessGroupNCCL.cpp:1682] [PG ID 0 PG GUID 0(default_pg) Rank 6] Received a dump signal due to a collective timeout from this local rank " + DUMP.format(a=458219, b=458218),
        {"rank": 6, "group": "0", "seq": None, "enqueued": 458219, "completed": 458218, "dump": True},
    ),
    "dump for another": (
        "[rank1]:[E901 05:20:05.000000001 ProcessGroupNCCL.cpp:1682] [PG ID 0 PG GUID 0(default_pg) Rank 1] Received a dump signal due to a collective timeout from  rank 3 " + DUMP.format(a=7, b=7),
        {"rank": 1, "group": "0", "enqueued": 7, "completed": 7, "dump": True},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STATES)
def test_a_state_is_read_from_every_wording(name):
    line, expected = STATES[name]
    found = said(line)
    assert len(found.states) == 1, found
    assert not found.works
    state = found.states[0]
    assert {k: getattr(state, k) for k in expected} == expected


TOLD = {
    "2.2, without a rank": "[rank2]:[E ProcessGroupNCCL.cpp:1316] [PG 0 Rank 2] Received a global timeout from another rank and will start to dump the debug info.",
    "2.4 and later": "[rank2]:[E901 05:20:05.000000001 ProcessGroupNCCL.cpp:1490] [PG ID 0 PG GUID 0(default_pg) Rank 2] Observed flight recorder dump signal from another rank via TCPStore.",
}  # fmt: skip


@pytest.mark.parametrize("name", TOLD)
def test_a_rank_that_was_told_by_another_is_no_witness_of_a_wait(name):
    found = said(TOLD[name])
    assert [s.rank for s in found.signals] == [2]
    assert not found.works
    assert not found.states
    assert not found.own_signal


OTHERS = {
    "heartbeat 2.2": "[rank1]:[E ProcessGroupNCCL.cpp:1154] [PG 0 Rank 1] Heartbeat monitor timed out! Process will be terminated after dumping debug info. workMetaList_.size()=3",
    "heartbeat of the first builds": "[E ProcessGroupNCCL.cpp:900] [Rank 1] NCCL monitor thread timeout. Basically, this could be due to CUDA or NCCL calls being unexpectedly blocking",
    "heartbeat 2.5": "[rank1]:[E415 10:20:00.000000001 ProcessGroupNCCL.cpp:1870] [PG ID 0 PG GUID 0(default_pg) Rank 1] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives.",
    "lock": "[rank1]:[E415 10:20:00.000000001 ProcessGroupNCCL.cpp:1379] [PG ID 0 PG GUID 0(default_pg) Rank 1] Could not acquire GIL within 300 ms on exit, possible GIL induced hang",
    "first collective never set up": "[1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: Socket Timeout",
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_lines_about_a_hang_without_counters_give_neither_work_nor_state(name):
    found = said(OTHERS[name])
    assert len(found.other) == 1
    assert not found.works
    assert not found.states


TEARDOWN = (
    "[E ProcessGroupNCCL.cpp:325] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data. To avoid this inconsistency, we are taking the entire process down.",
    "[rank3]:[E211 22:01:42.402337102 ProcessGroupNCCL.cpp:760] [Rank 3] To avoid data inconsistency, we are taking the entire process down.",
    "[rank3]:[W211 22:01:42.402337102 ProcessGroupNCCL.cpp:1250] WARNING: destroy_process_group() was not called before program exit, which can leak resources.",
    "[rank3]:[E211 22:01:42.402337102 ProcessGroupNCCL.cpp:2103] [PG ID 0 PG GUID 0(default_pg) Rank 3] First PG on this rank to signal dumping.",
)  # fmt: skip


@pytest.mark.parametrize("line", TEARDOWN)
def test_the_end_of_a_process_gives_neither_work_nor_state(line):
    found = said(line)
    assert not found.works
    assert not found.states
    assert not found.signals


# The ten traps of these logs.


def test_trap_three_ranks_in_one_line():
    line = STATES["2.6 and later, none completed"][0]
    group = next(g for g in hang_state(parse({0: [line]})).groups if g.name == "37")
    assert set(group.cells) == {9}
    assert group.cells[9].group_rank == 1


def test_trap_the_bracketed_rank_of_later_versions_may_be_that_of_another_group():
    work = WORKS["the watchdog's last words, which name the group"][0]
    group = next(g for g in hang_state(parse({0: [work]})).groups if g.name == "37")
    assert group.cells[9].group_rank == 1


def test_trap_the_number_of_a_group_counts_inside_one_process():
    lines = [
        STATES["2.5"][0],
        STATES["2.5"][0].replace("[rank0]", "[rank2]").replace("PG GUID 11 Rank 0", "PG GUID 12 Rank 0"),
    ]
    names = {g.name for g in hang_state(parse({0: lines})).groups}
    assert names == {"11", "12"}


def test_trap_the_month_has_no_leading_zero_and_the_year_is_missing():
    scene = parse({0: [WORKS["2.4 and later"][0]]})
    assert scene.hang is not None
    assert scene.hang.first.when.yeared is False
    assert scene.hang.began == pytest.approx(scene.hang.detected - 600.02)


def test_trap_a_counter_of_minus_one_means_none_yet():
    line = STATES["2.6 and later, none completed"][0]
    cell = hang_state(parse({0: [line]})).groups[0].cells[9]
    assert cell.pending
    assert cell.at == 14


def test_trap_a_garbage_counter_is_no_number_and_the_rank_still_waits():
    cell = hang_state(parse({0: [STATES["2.3 with a counter that was never set"][0]]})).groups[0].cells[5]
    assert cell.pending
    assert cell.at == 1


def test_trap_the_second_line_a_minute_later_changes_nothing():
    later = STATES["2.6 and later, none completed"][0].replace("16:38:47", "16:39:47")
    one = hang_state(parse({0: [STATES["2.6 and later, none completed"][0]]}))
    both = hang_state(parse({0: [STATES["2.6 and later, none completed"][0], later]}))
    assert one.parts == both.parts
    assert one.groups[0].cells[9].at == both.groups[0].cells[9].at


def test_trap_an_error_glued_to_a_bar_is_read():
    line = "  4%|4         | 4704/359184 [37:21<22:40:11,  4.34it/s]" + WORKS["2.4 and later"][0]
    work = said(line).works[0]
    assert work.rank == 2
    assert work.seq == 2635


def test_trap_a_number_cut_by_another_line_is_no_number():
    line = "[rank6]:[E227 06:41:26.683346004 ProcessGroupNCCL.cpp:629] [Rank 6] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=516, OpType=_REDUCE_SCATTER_BASE, NumelIn=3[rank4]:[E227 06:41:26.683346004 ProcessGroupNCCL.cpp:2168]"
    work = said(line).works[0]
    assert work.seq == 516
    assert work.numel_in is None


def test_trap_an_absent_size_is_not_compared():
    line = WORKS["coalesced, whose size was never set"][0]
    other = line.replace("[rank1]", "[rank2]").replace("[Rank 1]", "[Rank 2]")
    group = hang_state(parse({0: [line, other]})).groups[0]
    assert group.p2p
