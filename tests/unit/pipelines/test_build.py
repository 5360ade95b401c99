"""What the diagnosis lays out beside the verdict, held against small files whose facts are known."""

import hung_job
import pytest

from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions

INLINE = DiagnoseOptions(engine="inline")


@pytest.fixture(scope="module")
def hung(tmp_path_factory):
    return diagnose([hung_job.write(tmp_path_factory.mktemp("hung") / "logs")], INLINE)


def test_every_cited_line_stands_where_it_is_said_to(tmp_path):
    folder = hung_job.write(tmp_path / "logs")
    found = diagnose([folder], INLINE)
    cited = [e for link in found.chain for e in link.evidence] + found.key_lines
    cited += [e.evidence for e in found.timeline] + [e for row in found.ranks.table for e in row.evidence]
    assert len(cited) > 10
    for evidence in cited:
        raw = (folder / evidence.file).read_text(encoding="utf-8").split("\n")[evidence.line - 1]
        assert evidence.text in raw
        assert 1 <= evidence.column <= len(raw)
    assert found.verification.claims == found.verification.reread
    assert found.verification.withdrawn == []


def test_evidence_far_in_a_long_line_is_in_its_window(tmp_path):
    error = "OSError: [Errno 28] No space left on device"
    (tmp_path / "a.log").write_text("[rank0] " + "batch " * 300 + error + "\n", encoding="utf-8")
    trigger = diagnose([tmp_path], INLINE).verdict.trigger
    assert len(trigger.text) <= 400
    assert "No space left on device" in trigger.text


def test_counts_are_by_file_and_rank(hung):
    by = {c.signature: c for c in hung.counts}
    timeouts = by["nccl.collective_timeout"]
    assert (timeouts.total, timeouts.ranks) == (3, {"0": 1, "1": 1, "3": 1})
    assert timeouts.files == {"error-77-0.out": 2, "error-77-1.out": 1}


def test_completeness_counts_ranks_and_nodes(hung):
    ranks = hung.ranks
    assert (ranks.expected, ranks.seen, ranks.with_nccl_state, ranks.silent) == (4, 4, 4, [])
    assert ranks.seen_nodes == 2


def test_the_table_of_a_large_job_is_cut_behind_its_outliers(tmp_path):
    table = diagnose([hung_job.write(tmp_path / "big", ranks=128, late=101, per_node=8)], INLINE).ranks.table
    assert len(table) == 64
    assert table[0].rank == 101


def test_a_flood_is_counted_once_in_the_timeline(tmp_path):
    lines = [f"2026-03-02 14:{m:02d}:00 [rank0] OSError: [Errno 28] No space left on device" for m in range(60)]
    (tmp_path / "a.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    counts = [e.count for e in diagnose([tmp_path], INLINE).timeline]
    assert counts == [60]


@pytest.mark.parametrize("tasks", [4, 127])
def test_as_many_lines_are_told_as_are_there(tmp_path, tasks):
    ended = [f"srun: error: cn-{n // 8:02d}: task {n}: Aborted (core dumped)" for n in range(tasks)]
    own = [
        f"cn-01:{100 + n}:{200 + n} [{n}] transport/net_ib.cc:93 NCCL WARN NET/IB : Got async event : port error"
        for n in range(8)
    ]
    (tmp_path / "slurm-1.out").write_text("\n".join([*own, *ended]) + "\n", encoding="utf-8")
    found = diagnose([tmp_path], INLINE)
    told = {count.title: count for count in found.counts}
    rows = {entry.what: entry.count for entry in found.timeline}
    for title, lines in (("srun reports a task that aborted", tasks), ("InfiniBand: local port error", 8)):
        assert (told[title].total, sum(told[title].files.values()), rows[title]) == (lines, lines, lines)
        assert sum(told[title].ranks.values()) <= lines


@pytest.mark.parametrize(("tasks", "others"), [(4, False), (40, True)])
def test_of_many_tasks_that_ended_those_at_hand_are_not_told_as_all(tmp_path, tasks, others):
    ended = [f"srun: error: cn-{n // 8:02d}: task {n}: Aborted (core dumped)" for n in range(tasks)]
    error = "[rank3]: RuntimeError: CUDA error: an illegal memory access was encountered"
    (tmp_path / "slurm-1.out").write_text("\n".join([error, *ended]) + "\n", encoding="utf-8")
    (told,) = [link.what for link in diagnose([tmp_path], INLINE).chain if "was reported" in link.what]
    assert ("and of others" in told) is others


def test_one_silent_rank_is_not_called_ranks(tmp_path):
    text = (
        "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/2\n"
        "[rank0]: RuntimeError: CUDA error: an illegal memory access was encountered\n"
    )
    (tmp_path / "a.log").write_text(text, encoding="utf-8")
    found = diagnose([tmp_path], INLINE)
    assert found.ranks.silent == [1]
    assert "the logs of the one rank of which no line is here" in found.collect_next


def _steps(*ranks: int) -> list[str]:
    return [f"2026-03-02 14:{n:02d}:00 [rank{r}] iteration {n + 1}/ 20 | loss: 2.1" for n in range(20) for r in ranks]


def test_a_rank_that_prints_nothing_but_its_steps_is_seen_and_not_silent(tmp_path):
    head = ["world_size: 3, backend nccl", "[rank0] world_size=3"]
    (tmp_path / "a.log").write_text("\n".join([*head, *_steps(0, 1)]) + "\n", encoding="utf-8")
    ranks = diagnose([tmp_path], INLINE).ranks
    assert (ranks.expected, ranks.seen, ranks.seen_ranks, ranks.silent) == (3, 2, "0-1", [2])
    assert {row.rank: row.state for row in ranks.table} == {0: "seen", 1: "seen", 2: "silent"}


def test_a_watchdog_line_without_a_time_stands_behind_what_came_before_its_wait_could_end(tmp_path):
    hung = [
        "[2026-03-02 14:00:00,100] torch.distributed.run: [WARNING] starts",
        (
            "[rank0]:[E ProcessGroupNCCL.cpp:523] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, "
            "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800417 milliseconds before timing out."
        ),
        "[2026-03-02 14:50:00,100] torch.distributed.elastic.multiprocessing.api: [WARNING] Sending process 7 closing signal SIGTERM",
    ]
    (tmp_path / "node-0.log").write_text("\n".join(hung) + "\n", encoding="utf-8")
    full = "2026-03-02 14:10:00 [rank1] OSError: [Errno 28] No space left on device: '/data/x'"
    (tmp_path / "node-1.log").write_text(full + "\n", encoding="utf-8")
    shown = [entry.evidence.file for entry in diagnose([tmp_path], INLINE).timeline if "ran out of time" in entry.what
             or "space" in entry.evidence.text]  # fmt: skip
    assert shown == ["node-1.log", "node-0.log"]
