"""The storage side from files to the diagnosis."""

import shutil
from pathlib import Path

import pytest

from firstfault.analysis.state.storage_clock import JobTimes
from firstfault.analysis.zones import ZONES
from firstfault.model.words import Category, CoverageState
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions
from firstfault.pipelines.storage import AFTER, BEFORE, wide

CASE = Path(__file__).parents[2] / "cases/aistore-get-batch-incomplete/logs"


@pytest.fixture
def job(tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    for file in CASE.glob("*.out"):
        shutil.copy(file, logs)
    return logs


def told(diagnosis):
    verdict = diagnosis.verdict
    return verdict.category, verdict.culprits.storage_nodes, verdict.first_failed.ranks


def test_daemon_logs_are_found_inside_the_folder_and_apart_from_it(job, tmp_path):
    apart = tmp_path / "store"
    shutil.copytree(CASE / "ais_logs", apart)
    beside = diagnose([job], DiagnoseOptions(storage=(str(apart),)))
    shutil.copytree(CASE / "ais_logs", job / "ais_logs")
    inside = diagnose([job])
    assert told(beside) == told(inside) == (Category.STORAGE_IO, ["ais-target-7"], [3])
    assert beside.verdict.strength is inside.verdict.strength


def test_a_storage_folder_inside_the_given_one_is_read_once(job):
    shutil.copytree(CASE / "ais_logs", job / "ais_logs")
    found = diagnose([job], DiagnoseOptions(storage=(str(job / "ais_logs"),)))
    assert len({row.file for row in found.coverage}) == len(found.coverage) == 4
    assert all(row.state is CoverageState.READ for row in found.coverage)


def test_every_event_of_a_daemon_has_its_line_and_both_times(job):
    shutil.copytree(CASE / "ais_logs", job / "ais_logs")
    store = diagnose([job]).storage
    assert store.clock.offset_seconds == -8 * 3600
    assert store.clock.evidence
    lines = {p.name: p.read_text().splitlines() for p in (job / "ais_logs").iterdir()}
    for event in store.events:
        file, number = event.evidence.file.rsplit("/", 1)[-1], event.evidence.line
        assert event.evidence.text in lines[file][number - 1]
        assert event.evidence.time.earliest.startswith("2026-02-12T05:")
        assert event.job_time.earliest.startswith("2026-02-11T21:")


def test_counters_are_those_of_the_lines_that_are_shown(job):
    shutil.copytree(CASE / "ais_logs", job / "ais_logs")
    rows = {(r.daemon, r.counter): r for r in diagnose([job]).storage.counters}
    row = rows["ais-target-7 (t[RrTt8081])", "err.soft.getbatch.n"]
    assert (row.before, row.after, row.delta) == (31, 402, 371)
    assert [e.text.split(",")[0] for e in row.evidence] == ["err.soft.getbatch.n:31", "err.soft.getbatch.n:402"]


def test_without_the_daemons_logs_the_report_tells_how_to_get_them(job):
    found = diagnose([job])
    assert found.storage is None
    steps = "\n".join(found.verdict.action.steps)
    for word in ("AIS_ENDPOINT", "AIS_AUTHN_TOKEN_FILE", "ais log get cluster", "--previous", "--storage"):
        assert word in steps


def test_a_busy_store_beside_another_fault_stays_innocent(tmp_path):
    shutil.copytree(CASE / "ais_logs", tmp_path / "ais_logs")
    (tmp_path / "train.log").write_text(
        "2026-02-11 21:00:00,000 INFO step 1 loss 2.1\n2026-02-11 21:31:20,000 INFO step 900 loss 1.9\n"
        '[rank1]: Traceback (most recent call last):\n[rank1]:   File "train.py", line 3, in <module>\n[rank1]:     main()\n'
        "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.11 GiB of which 123.43 MiB is free.\n"
    )
    found = diagnose([tmp_path])
    assert found.verdict.category is Category.GPU_CUDA
    assert found.verdict.culprits.storage_nodes == []


def test_daemon_logs_alone_name_nobody():
    found = diagnose([CASE / "ais_logs"])
    assert found.verdict.category is Category.UNKNOWN
    assert found.verdict.failed is None


@pytest.mark.parametrize("utc", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_the_failure_is_read_in_whatever_zones_the_two_clocks_are(utc, known):
    instant = 1_780_000_000.0
    for of_job in {0} if utc else ZONES:
        for of_store in {0} if known else ZONES:
            job = JobTimes(utc=utc, stop=instant + of_job, end=instant + of_job + 60.0)
            low, high = wide(job, known=known)
            assert low <= instant + of_store - BEFORE
            assert high >= instant + of_store + 60.0 + AFTER
