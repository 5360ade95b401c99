"""Older records: their message is masked anew from what they quote, or left as it is where that does not show it."""

import pytest

from firstfault.incidents.mask import VERSION
from firstfault.incidents.record import parse
from firstfault.pipelines.remask import masked_anew

XID = "Apr 02 10:11:12 host-0a1b2c3d4e kernel: NVRM: Xid (PCI:0000:3b:00): 45, pid=8120, name=python3, Ch 00000008"
LONG = "[rank0]:[E ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=37, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800417 milliseconds before timing out."


def record(message, line, signature="", mask=""):
    return parse(
        f"---\nid: r1\nstate: open\ndate: 2026-03-02\nsignature: {signature}\nmessage: '{message}'\nmask: {mask}\n---\n\n"
        f"## Evidence\n\n```text\nsyslog.log:12: {line}\nother.log:1: x\n```\n"
    )


@pytest.mark.parametrize(
    ("message", "line", "signature", "now"),
    [
        # A process of the job is one, whatever its name is.
        ("NVRM: Xid (PCI<host>): 45, pid=#, name=python#, Ch #", XID, "kernel.xid", "NVRM: Xid (PCI<host>): 45, <process>, Ch #"),
        # Of a long line less is kept.
        (
            "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=#, OpType=ALLREDUCE, NumelIn=#, NumelOut=#, Timeout(ms)=#) ran for # milliseconds before timing out.",
            LONG,
            "nccl.collective_timeout",
            "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=#, OpType=ALLREDUCE, NumelIn=#, NumelOut=#, Timeout(ms)=#)",
        ),
        # It stays where both masks say one thing, and where a person put another line first.
        ("KeyError: 'a'", "[rank0]: KeyError: 'a'", "python.exception", "KeyError: 'a'"),
        ("KeyError: 'a'", "the third machine was replaced on Monday", "python.exception", None),
        # Today it may begin at the begin of the line or here: nothing tells.
        ("milliseconds before timing out.", LONG, "nccl.collective_timeout", None),
    ],
)  # fmt: skip
def test_a_message_is_masked_anew_from_the_quoted_line(message, line, signature, now):
    assert masked_anew(record(message.replace("'", "''"), line, signature)) == now


def test_what_is_of_todays_mask_or_has_no_message_stays():
    assert masked_anew(record("anything at all", XID, mask=f'"{VERSION}"')) == "anything at all"
    assert masked_anew(record("", XID)) == ""
    assert masked_anew(parse("---\nid: r1\nstate: open\nmessage: x y z\n---\n\n## Symptom\n\nIt hung.\n")) is None
