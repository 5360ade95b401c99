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
from firstfault.pipelines.timeline import timeline

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


SHORT = "Batch result iterator exhausted prematurely. Expected more objects for manifests with URLs."


def asked_for(job, name, bucket):
    """The job of the case with an error that names an object, beside a store whose batches are of a bucket."""
    for file in job.glob("*.out"):
        file.write_text(file.read_text().replace(SHORT, f"Sequential GET fallback failed for ais://asr-train/{name}"))
    shutil.copytree(CASE / "ais_logs", job / "ais_logs")
    for file in (job / "ais_logs").iterdir():
        file.write_text(file.read_text().replace("ais://asr-train", f"ais://{bucket}"))
    return diagnose([job])


def test_the_end_of_a_job_that_reads_another_bucket_joins_no_clocks_and_names_nobody(job):
    found = asked_for(job, "shards/audio_0007.tar", "other-job")
    assert (found.storage.clock.how, found.storage.clock.offset_seconds) == ("unknown", None)
    assert told(found) == (Category.STORAGE_IO, [], [3])


@pytest.mark.parametrize(
    ("name", "strength"), [("shards/audio_1093.tar", "supported"), ("shards/audio_0007.tar", "possible")]
)
def test_a_target_is_surer_where_its_cluster_tells_of_the_object_that_was_asked_for(job, name, strength):
    found = asked_for(job, name, "asr-train")
    assert found.storage.clock.how == "counters"
    assert found.verdict.culprits.storage_nodes == ["ais-target-7"]
    assert found.verdict.culprits.strength == strength
    assert ("may be whole hours off" in found.verdict.summary) is (strength == "possible")


@pytest.mark.parametrize("zone", [None, "-08:00"])
def test_targets_that_are_told_to_stop_all_at_once_are_told_of_and_none_is_named(job, zone):
    store = job / "ais_logs"
    store.mkdir()
    for number in (1, 2, 3):
        rows = [f"I 05:{m:02d}:1{number}.000000 {{getbatch.n:{m * 400},state.flags:6}}" for m in range(31)]
        (store / f"aistarget.ais-target-{number}.INFO.0212-050000.1").write_text(
            f"Rotated at 2026/02/12 05:00:00, host ais-target-{number}, go1.25.5 for linux/amd64\n"
            f"Node t[node808{number}], Version 4.3.1, build 2026-03-25T18:00:00+0000, CPUs(32, runtime=256), containerized\n"
            + "\n".join(["I 05:00:01.000000 common:502 12 Feb 26 05:00 UTC =============", *rows])
            + f"\nW 05:31:20.00{number}000 tgtcp:1651 Stopping t[node808{number}]: Signal 15"
            + "\nI 05:31:21.000000 daemon:374 Terminated OK via Signal 15\n"
        )
    found = diagnose([job], DiagnoseOptions(assume_zone=zone))
    assert told(found) == (Category.STORAGE_IO, [], [3])
    assert "it was told to stop, at 05:31:20 UTC (21:31:20" in found.verdict.summary
    assert "(so on 3 targets)" in found.verdict.summary
    assert not any("show no fault" in line for line in found.collect_next)


def test_the_timeline_holds_what_befell_the_daemons_each_with_its_line(job):
    shutil.copytree(CASE / "ais_logs", job / "ais_logs")
    seen = timeline([job], DiagnoseOptions(assume_zone="-08:00"))
    rows = [e for e in seen.events if e.evidence.file.startswith("ais_logs/")]
    assert {c.zone for c in seen.clocks} == {"UTC"}
    assert [(e.evidence.line, e.time.earliest) for e in rows if "it had given up" in e.what] == [
        (13, "2026-02-12T05:31:01.441Z")
    ]
    assert all("on the job's clock)" in e.what for e in rows)
    assert [
        e.what
        for e in diagnose([job], DiagnoseOptions(assume_zone="-08:00")).timeline
        if e.evidence.file.startswith("ais_logs/")
    ] == [e.what for e in rows]


def test_without_a_stated_zone_the_daemons_stand_on_a_clock_of_their_own_in_the_timeline(job):
    shutil.copytree(CASE / "ais_logs", job / "ais_logs")
    seen = timeline([job], DiagnoseOptions())
    own = {e.clock for e in seen.events if e.evidence.file.startswith("ais_logs/")}
    assert own
    assert not own & {e.clock for e in seen.events if e.evidence.file.endswith(".out")}


def test_a_run_that_ended_well_has_no_word_of_the_store_in_its_timeline(tmp_path):
    shutil.copytree(CASE / "ais_logs", tmp_path / "ais_logs")
    (tmp_path / "train.log").write_text(
        "2026-02-11 21:00:00,000 INFO step 1 loss 2.1\n2026-02-11 21:31:20,000 INFO step 900 loss 1.9\n"
        "2026-02-11 21:31:30,000 INFO `Trainer.fit` stopped: `max_steps=900` reached.\n"
    )
    found = timeline([tmp_path], DiagnoseOptions())
    assert not any(e.evidence.file.startswith("ais_logs/") for e in found.events)
