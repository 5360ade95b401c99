"""The table of ranks, held against the fault that was put into the files."""

import csv
import io
import json

import hung_job
import pytest

from firstfault.analysis.rank_table import State
from firstfault.analysis.state.groups import Part
from firstfault.model.views import PartWord, StateWord
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.errors import PipelineError
from firstfault.pipelines.options import DiagnoseOptions
from firstfault.pipelines.publish import publish_ranks
from firstfault.pipelines.ranks import RankFilters, rank_table

INLINE = DiagnoseOptions(engine="inline")


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    return hung_job.write(tmp_path_factory.mktemp("hung") / "logs")


@pytest.fixture(scope="module")
def table(job):
    return rank_table([job], INLINE)


def row(table, rank):
    return next(r for r in table.ranks if r.rank == rank)


def test_the_late_rank_stands_first_and_every_rank_once(table):
    assert [r.rank for r in table.ranks] == [2, 0, 1, 3]
    assert (table.expected, table.seen, table.silent, table.attempt, table.attempts) == (4, 4, [], 1, 1)
    assert [r.rank for r in table.ranks if r.outlier] == [2]


def test_a_row_says_what_the_lines_of_its_rank_say(table):
    waiting, late = row(table, 3), row(table, 2)
    assert (waiting.host, waiting.part, waiting.state, waiting.last_step) == ("cn-08", "initiator", "timed_out", 101)
    (cell,) = waiting.groups
    assert (cell.group, cell.op, cell.seq, cell.numel_in, cell.numel_out) == ("default", "ALLREDUCE", 812, 4096, 4096)
    assert (cell.last_enqueued, cell.last_completed, cell.in_flight) == (813, 811, True)
    assert (cell.timeout_ms, cell.ran_ms) == (600000, 600031)
    (cell,) = late.groups
    assert (late.part, late.state, cell.last_enqueued, cell.last_completed) == ("notified", "late", 811, 811)
    assert (cell.op, cell.seq, cell.in_flight) == (None, None, False)


def test_each_cell_has_the_line_that_states_it(table, job):
    for line in table.ranks:
        stated = {name: proof.evidence for proof in line.proof for name in proof.states}
        assert {"groups.0.last_enqueued", "groups.0.last_completed", "last_step"} <= set(stated)
        for name, evidence in stated.items():
            raw = (job / evidence.file).read_text(encoding="utf-8").split("\n")[evidence.line - 1]
            assert evidence.text[:40] in raw
            assert f"{line.rank}" in raw, (name, raw)
        assert str(line.last_step) in stated["last_step"].text
    assert table.verification.claims == table.verification.reread > 0


@pytest.mark.parametrize(
    ("filters", "ranks"),
    [
        (RankFilters(ranks=((1, 2),)), [2, 1]),
        (RankFilters(hosts=("cn-07",)), [0, 1]),
        (RankFilters(hosts=("*-08",)), [2, 3]),
        (RankFilters(parts=("notified",)), [2]),
        (RankFilters(outliers=True), [2]),
        (RankFilters(groups=("default",), ranks=((0, 0),)), [0]),
        (RankFilters(ranks=((9, 99),)), []),
    ],
)
def test_filters_leave_out_the_rest_and_say_how_many(job, filters, ranks):
    table = rank_table([job], INLINE, filters)
    assert [r.rank for r in table.ranks] == ranks
    assert table.left_out == 4 - len(ranks)


def test_a_group_that_nobody_is_stuck_in_is_an_error_that_names_those_there_are(job):
    with pytest.raises(PipelineError, match="no rank is stuck") as error:
        rank_table([job], INLINE, RankFilters(groups=("tp",)))
    assert "`default`" in error.value.why


def test_many_equal_ranks_share_a_row_unless_each_is_asked_for(tmp_path):
    table = rank_table([hung_job.write(tmp_path / "big", ranks=64, late=37, per_node=8)], INLINE)
    text = publish_ranks(table, "text", "secrets")
    rows = [line for line in text.splitlines() if "initiator" in line or "notified" in line]
    assert len(rows) == 2
    assert rows[0].startswith("37 ")
    assert rows[1].startswith("0-36, 38-63 (63)")
    every = publish_ranks(table, "text", "secrets", every=True)
    assert sum("initiator" in line for line in every.splitlines()) == 63


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("evidence", [False, True])
def test_no_line_is_wider_than_the_page(table, width, evidence):
    text = publish_ranks(table, "text", "secrets", width=width, evidence=evidence)
    assert max(map(len, text.splitlines())) <= width


def test_csv_and_json_hold_every_rank(table):
    rows = list(csv.DictReader(io.StringIO(publish_ranks(table, "csv", "secrets"))))
    assert [r["rank"] for r in rows] == ["2", "0", "1", "3"]
    assert (rows[1]["op"], rows[1]["seq"], rows[0]["seq"]) == ("ALLREDUCE", "812", "")
    assert (rows[1]["file"], rows[1]["line"]) == ("error-77-0.out", "9")
    read = json.loads(publish_ranks(table, "json", "secrets"))
    assert read["schema"] == "firstfault.ranks/1"
    assert [r["rank"] for r in read["ranks"]] == [2, 0, 1, 3]


@pytest.mark.parametrize("form", ["text", "csv", "json"])
def test_it_goes_through_the_door(job, form):
    table = rank_table([job], INLINE)
    out = publish_ranks(table, form, "identities", evidence=True)
    assert "cn-0" not in out
    assert "host-1" in out


def test_the_diagnosis_has_the_same_rows(job):
    held = diagnose([job], INLINE).ranks.table
    assert [(r.rank, r.last_step) for r in held] == [(2, 101), (0, 101), (1, 101), (3, 101)]
    assert "notified" in held[0].note
    assert "stuck in ALLREDUCE 812" in held[1].note
    assert held[1].evidence[0].text.startswith("[rank0]:[E302 14:35:01.000100")


def test_an_error_without_a_hang_is_a_death_and_the_rest_have_no_part(tmp_path):
    (tmp_path / "train.log").write_text(
        "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/2\nInitializing distributed: GLOBAL_RANK: 1, MEMBER: 2/2\n"
        "[rank0]: iteration 7/ 50 | loss: 2.0\n"
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/app/train.py", line 31, in <module>\n[rank1]:     main()\n'
        "[rank1]: KeyError: 'caption'\n",
        encoding="utf-8",
    )
    table = rank_table([tmp_path], INLINE)
    assert [(r.rank, r.state, r.part) for r in table.ranks] == [(1, "failed", "died"), (0, "seen", None)]
    assert row(table, 1).note == "Python exception KeyError"
    assert row(table, 1).proof[0].states == ["note"]


def test_the_published_words_are_those_of_the_analysis():
    assert set(PartWord.__args__) == {str(p) for p in Part}
    assert set(StateWord.__args__) == {str(s) for s in State}


def test_the_order_of_files_and_the_engine_change_nothing(job):
    files = sorted(job.iterdir())
    pages = {
        publish_ranks(rank_table(paths, DiagnoseOptions(engine=engine)), "json", "secrets")
        for paths in (files, files[::-1])
        for engine in ("inline", "processes")
    }
    assert len(pages) == 1


@pytest.mark.parametrize(("heard", "odd"), [((0, 8), [0]), (range(15), [0, 15])])
def test_where_most_say_nothing_that_sets_nobody_apart(tmp_path, heard, odd):
    lines = ["using world size: 16, data-parallel size: 8, context-parallel size: 1"]
    lines += [
        f"2026-03-02 14:{n:02d}:00 [rank{rank}] iteration {n}/ 20 | loss: 2.1" for n in range(20) for rank in heard
    ]
    lines.append("[rank0]: RuntimeError: CUDA error: an illegal memory access was encountered")
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    table = rank_table([tmp_path], INLINE)
    assert table.expected == 16
    assert len(table.silent) == 16 - len(heard)
    assert [r.rank for r in table.ranks if r.outlier] == odd
