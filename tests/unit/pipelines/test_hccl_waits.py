"""Ascend: each report of a wait names the neighbour; the rank that several waited for and that waits for nobody is late."""

from __future__ import annotations

from firstfault.pipelines.diagnose import diagnose

REPORT = "EI0002: [PID: 30{speaker:02d}] 2026-05-07-10:40:01.123.456 The wait execution of the Notify register times out. Reason: The Notify register has not received the Notify record from remote rank [{peer}]. base information: [streamID:[12], taskID[3], tag[AllReduce_x], AlgType(level 0-1-2):[null-ring-NA]]{group}\n"


def told(folder, peers, group="", world=8, files=()):
    for rank in {*peers, *files}:
        text = f"[2026-05-07 10:00:00] rank: {rank} world_size: {world} device: {rank}\n"
        if rank in peers:
            text += f"[ERROR] 2026-05-07-10:40:00 (PID:30{rank:02d}, Device:{rank}, RankID:{rank}) ERR02200 DIST call hccl api failed.\n"
            text += REPORT.format(speaker=rank, peer=peers[rank], group=group)
        (folder / f"worker_{rank}.log").write_text(text)
    return diagnose([folder]).verdict


def test_the_rank_that_all_waited_for_is_named_without_a_word_of_its_own(tmp_path):
    verdict = told(tmp_path, {r: 5 for r in range(8) if r != 5})
    assert verdict.culprits.ranks == [5]
    assert verdict.category in {"unknown", "data_loading_stall"}


def test_in_a_ring_one_report_of_an_unknown_rank_is_not_enough(tmp_path):
    verdict = told(tmp_path, {r: (r - 1) % 8 for r in range(4)})
    assert 7 not in verdict.culprits.ranks


def test_a_rank_that_waits_itself_is_not_late(tmp_path):
    verdict = told(tmp_path, {0: 3, 1: 3, 2: 3, 3: 0})
    assert verdict.culprits.ranks == []


def test_numbers_of_a_smaller_group_are_not_global(tmp_path):
    verdict = told(tmp_path, {0: 3, 1: 3, 2: 3}, group=" group information: [group:[g_12], rankSize[4], rankId[0]]")
    assert verdict.culprits.ranks == []
