"""What a page holds beside the diagnosis: the same ranks as the table, the lines of the files, the times of the incident."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import hung_job
import pytest

from firstfault.pipelines import page as pipeline
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions
from firstfault.pipelines.page import page
from firstfault.pipelines.publish import publish_page
from firstfault.pipelines.ranks import rank_table

if TYPE_CHECKING:
    from firstfault.model.page import Page, RankColumns

LATE = 2
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hung_job.write(tmp_path_factory.mktemp("hung") / "logs", late=LATE)


@pytest.fixture(scope="module")
def made(logs: Path) -> Page:
    return page([logs])


def columns(ranks: RankColumns) -> list[list[object]]:
    told = (getattr(ranks, name) for name in ranks.__struct_fields__)
    names = {"hosts", "states", "parts", "phases", "notes", "files", "groups"}
    return [
        c for name, c in zip(ranks.__struct_fields__, told, strict=True) if isinstance(c, list) and name not in names
    ]


def test_the_diagnosis_is_the_one_that_a_diagnosis_gives(logs: Path, made: Page) -> None:
    assert made.diagnosis == diagnose([logs])


def test_the_columns_say_what_the_table_of_ranks_says(logs: Path, made: Page) -> None:
    ranks = made.ranks
    table = rank_table([logs], DiagnoseOptions())
    assert {len(c) for c in columns(ranks)} == {len(table.ranks)}
    for i, row in enumerate(table.ranks):
        host, part = ranks.host[i], ranks.part[i]
        assert ranks.rank[i] == row.rank
        assert (None if host is None else ranks.hosts[host]) == row.host
        assert ranks.states[ranks.state[i]] == row.state
        assert (None if part is None else ranks.parts[part]) == row.part
        assert (ranks.outlier[i], ranks.last_step[i]) == (row.outlier, row.last_step)
        for cell in row.groups:
            group = next(g for g in ranks.groups if g.name == cell.group)
            at = group.rows.index(i)
            assert (group.enqueued[at], group.completed[at]) == (cell.last_enqueued, cell.last_completed)
            assert (group.seq[at], group.ran_ms[at], group.in_flight[at]) == (cell.seq, cell.ran_ms, cell.in_flight)
    file, line = ranks.file[0], ranks.line[0]
    assert (
        f"{ranks.files[file]}:{line}"
        == f"{table.ranks[0].proof[0].evidence.file}:{table.ranks[0].proof[0].evidence.line}"
    )


def test_the_lanes_tell_when_each_rank_spoke_waited_and_went_quiet(made: Page) -> None:
    lanes, ranks = made.lanes, made.ranks.rank
    assert lanes is not None
    late, other = ranks.index(LATE), ranks.index(0)
    assert lanes.origin.earliest == "2026-03-02T14:20:00"
    assert lanes.seconds == pytest.approx(902, abs=1)
    assert lanes.active_to[late] == pytest.approx(60, abs=1)  # its last step
    assert (lanes.wait_from[late], lanes.wait_to[late]) == (None, None)
    assert lanes.wait_to[other] == pytest.approx(901, abs=1)
    assert lanes.wait_to[other] - lanes.wait_from[other] == pytest.approx(600, abs=1)
    assert lanes.died == [None] * 4
    assert lanes.first_fault == pytest.approx(902, abs=1)


def test_what_a_launcher_says_of_a_rank_is_no_line_of_its_own() -> None:
    """In the bundled incident no rank stamps its lines, and only the launchers of both nodes do."""
    shown = page([ROOT / "examples" / "incident" / "logs"])
    lanes = shown.lanes
    assert lanes is not None
    at = {rank: row for row, rank in enumerate(shown.ranks.rank)}
    assert lanes.ends == lanes.begins == lanes.active_to == [None] * 4
    told = {rank: lanes.reported[row] for rank, row in at.items()}
    assert told[2] is None  # its own error is drawn
    assert told[3] == pytest.approx(0, abs=1)  # 21:22:06
    assert (told[0], told[1]) == (pytest.approx(1805, abs=2), pytest.approx(1805, abs=2))  # 21:52:11


def test_a_group_of_the_verdict_is_marked_and_the_first_sign_is_where_its_line_was_printed() -> None:
    shown = page([ROOT / "tests" / "generated" / "straggler_log_missing" / "logs"])
    assert [group.in_verdict for group in shown.ranks.groups] == [True]
    first = shown.diagnosis.chain[0].what
    assert "rank 1" in first
    assert "hgx0999" not in first  # the machine at fault, of which no line is there


def test_a_job_without_stamps_has_no_lanes(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("[rank0]: ValueError: no\n", encoding="utf-8")
    assert page([tmp_path]).lanes is None


def test_the_lines_around_evidence_are_those_of_the_file(logs: Path, made: Page) -> None:
    assert made.context
    seen: set[tuple[str, int]] = set()
    for block in made.context:
        text = (logs / block.file).read_text(encoding="utf-8").splitlines()
        assert block.lines == text[block.first - 1 : block.first - 1 + len(block.lines)]
        places = {(block.file, block.first + i) for i in range(len(block.lines))}
        assert not places & seen
        seen |= places
    trigger = made.diagnosis.verdict.trigger
    assert {(trigger.file, n) for n in range(trigger.line - 1, trigger.line + 1)} <= seen


def test_a_secret_beside_a_cited_line_does_not_survive(tmp_path: Path) -> None:
    secret = "q7Zt9Lk2Xv4Bn8Mw1Rc6Yd3Hf5Js0PaGe"
    key = ["-----BEGIN RSA PRIVATE KEY-----", *(f"{n}{'Ab3' * 21}" for n in range(3)), "-----END RSA PRIVATE KEY-----"]
    near = [f"export WANDB_API_KEY={secret}", "[rank0]: ValueError: no", "see /home/jdoe/run.py on node-04", secret]
    lines = [*key, *near]
    (tmp_path / "rank0.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    made = page([tmp_path])
    assert secret in str(made.context)
    shown = publish_page(made, "secrets")
    assert secret not in shown
    assert key[2] not in shown
    assert "jdoe" in shown
    assert "jdoe" not in publish_page(made, "identities")


def test_it_is_bounded(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "RANKS", 2)
    monkeypatch.setattr(pipeline, "PLACES", 1)
    made = page([logs])
    assert made.ranks.rank[0] == LATE
    assert {len(c) for c in columns(made.ranks)} == {2}
    assert made.ranks.left_out == 2
    assert sum(len(block.lines) for block in made.context) <= 11


STEP = "2026-03-02 14:{at:02d}:00 [rank{rank}] iteration {step}/ 500 | loss: 2.1"
TIMED_OUT = (
    "[rank{rank}]:[E302 14:40:00.000000000 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=91, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600000 milliseconds before "
    "timing out."
)
TRACE = [
    "[rank1]: Traceback (most recent call last):",
    '[rank1]:   File "/app/train.py", line 8, in main',
    "[rank1]: KeyError: 'no'",
]


def drawn(folder: Path, ranks: dict[int, list[str]]) -> tuple[Page, dict[int, int]]:
    """The page of a job with one file a rank, and the row of each rank."""
    for rank, lines in ranks.items():
        (folder / f"rank{rank}.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    shown = page([folder])
    return shown, {rank: row for row, rank in enumerate(shown.ranks.rank)}


def steps(rank: int, last: int) -> list[str]:
    return [STEP.format(at=n, rank=rank, step=n + 1) for n in range(last + 1)]


def test_an_error_without_a_stamp_lies_between_the_moments_around_it(tmp_path: Path) -> None:
    after = "2026-03-02 14:25:00 [rank1] done with the clean-up"
    shown, row = drawn(tmp_path, {0: [*steps(0, 29), TIMED_OUT.format(rank=0)], 1: [*steps(1, 20), *TRACE, after]})
    lanes = shown.lanes
    assert lanes is not None
    # A stamp of whole seconds lies up to one second after what it says.
    assert (lanes.first_fault, lanes.fault_after, lanes.fault_before) == (None, 1200, 1501)
    assert (lanes.died[row[1]], lanes.died_after[row[1]], lanes.died_before[row[1]]) == (None, 1200, 1501)
    assert (lanes.died[row[0]], lanes.died_after[row[0]], lanes.died_before[row[0]]) == (None, None, None)


def test_an_error_at_the_end_of_a_file_lies_after_its_last_stamp(tmp_path: Path) -> None:
    shown, row = drawn(tmp_path, {0: [*steps(0, 29), TIMED_OUT.format(rank=0)], 1: [*steps(1, 20), *TRACE]})
    lanes = shown.lanes
    assert lanes is not None
    assert (lanes.first_fault, lanes.fault_after, lanes.fault_before) == (None, 1200, None)
    assert (lanes.died_after[row[1]], lanes.died_before[row[1]]) == (1200, None)


def test_a_late_rank_did_not_fail_and_its_last_words_are_no_end(tmp_path: Path) -> None:
    logs = {rank: [*steps(rank, 29), TIMED_OUT.format(rank=rank)] for rank in (0, 1, 2)}
    shown, row = drawn(tmp_path, {**logs, 3: [*steps(3, 29), "2026-03-02 14:29:30 [rank3] reading shard 17"]})
    late = row[3]
    assert shown.diagnosis.verdict.culprits.ranks == [3]
    assert shown.ranks.states[shown.ranks.state[late]] == "late"
    assert late == 0  # who is at fault comes first
    assert shown.lanes is not None
    assert (shown.lanes.died[late], shown.lanes.died_after[late], shown.lanes.died_before[late]) == (None, None, None)


def test_waits_alone_give_the_lanes_their_stretch(tmp_path: Path) -> None:
    shown, row = drawn(tmp_path, {rank: [TIMED_OUT.format(rank=rank)] for rank in (0, 1)})
    lanes = shown.lanes
    assert lanes is not None
    assert (lanes.seconds, lanes.wait_from[row[1]], lanes.wait_to[row[1]]) == (600, 0, 600)
