"""What a report says of the ranks that waited is true of each of them: in what they waited, and which of them spoke at all."""

from __future__ import annotations

import pytest

from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions

WORLD = 4


def waits(rank, op, seq, guid="0(default_pg)"):
    head = f"[rank{rank}]:[E812 09:15:0{rank}.10206102{rank} ProcessGroupNCCL.cpp:"
    work = f"WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000)"
    return (
        f"{head}632] [Rank {rank}] Watchdog caught collective operation timeout: {work} ran for {600010 + rank} milliseconds before timing out.\n"
        f"{head}2268] [PG ID 3 PG GUID {guid} Rank {rank}]  failure detected by watchdog at work sequence id: {seq} PG status: "
        f"last enqueued work: {seq}, last completed work: {seq - 1}\n"
    )


def report(tmp_path, text):
    (tmp_path / "train.log").write_text(text, encoding="utf-8")
    return diagnose([str(tmp_path / "train.log")], DiagnoseOptions(engine="inline"))


def chain_of(found):
    return " ".join(step.what for step in found.chain)


def test_ranks_that_waited_in_the_same_collective(tmp_path):
    found = report(tmp_path, "".join(waits(r, "ALLREDUCE", 512) for r in range(WORLD)))
    assert "in ALLREDUCE 512" in chain_of(found)


def test_ranks_that_waited_in_different_collectives_are_not_said_to_be_in_one(tmp_path):
    groups = {0: "10(TP)", 1: "10(TP)", 2: "20(DP)", 3: "20(DP)"}
    text = "".join(waits(r, "ALLREDUCE" if r > 1 else "_ALLGATHER_BASE", 77 + r // 2, groups[r]) for r in groups)
    told = chain_of(report(tmp_path, text))
    assert "Ranks waited too long: ranks 0-3, for 10 min" in told


def test_ranks_in_different_sends_and_receives_are_not_said_to_be_in_one(tmp_path):
    pipeline = "5(PIPELINE_MODEL_PARALLEL_GROUP)"
    text = waits(0, "SEND", 82, pipeline) + waits(2, "RECV", 41, pipeline) + waits(3, "RECV", 41, pipeline)
    summary = report(tmp_path, text).verdict.summary
    assert "sends and receives of group 5" in summary
    assert "RECV 41" not in summary


@pytest.mark.parametrize("stated", ["", "world_size: 4\n"])
def test_a_rank_whose_last_words_are_quoted_was_seen(tmp_path, stated):
    text = (
        stated + "[rank0] eval 10%\n[rank0] eval 40%\n" + "".join(waits(r, "ALLREDUCE", 300) for r in range(1, WORLD))
    )
    found = report(tmp_path, text)
    assert found.verdict.culprits.ranks == [0]
    assert "eval 40%" in chain_of(found) or found.verdict.trigger.text == "[rank0] eval 40%"
    assert found.ranks.seen == WORLD
    assert found.ranks.silent == []


def test_a_bar_of_an_evaluation_is_work_of_its_rank(tmp_path):
    text = "[rank0] eval 10%\n[rank0] eval 40%\n" + "".join(waits(r, "ALLREDUCE", 300) for r in range(1, WORLD))
    verdict = report(tmp_path, text).verdict
    assert (str(verdict.category), str(verdict.classes.phase)) == ("data_loading_stall", "evaluation")
