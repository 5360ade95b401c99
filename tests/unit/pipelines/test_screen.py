"""What a person sees of whole inputs: who was seen, in which order it went, what misleads, what to do first."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.publish import publish

ROOT = Path(__file__).resolve().parents[3]
DEMO = ROOT / "examples" / "incident" / "logs"


def case(name):
    return ROOT / "tests" / "cases" / name / "logs"


def screen(path, width=100, height=None):
    return publish(diagnose([str(path)]), "text", "secrets", width=width, height=height)


def said(text):
    return " ".join(text.split())


def part(text, label):
    """The rows of one label as one line."""
    rows = text.split("\n")
    at = next((i for i, row in enumerate(rows) if row.startswith(label + " ") or row == label), None)
    if at is None:
        return ""
    kept = [rows[at].removeprefix(label)]
    for row in rows[at + 1 :]:
        if not row.startswith(" "):
            break
        kept.append(row)
    return said(" ".join(kept))


def test_ranks_that_a_library_names_when_it_starts_are_seen():
    assert part(screen(DEMO), "Seen") == "4 of 4 ranks"


def test_a_rank_whose_line_is_the_verdict_counts_as_seen():
    assert part(screen(case("nanotron-rank0-tokenizing")), "Seen") == "ranks 0, 2-3, of at least 4; nothing from rank 1"


def test_the_folders_of_a_launcher_show_which_ranks_there_are():
    assert part(screen(case("dev-shm-too-small")), "Seen").startswith("ranks 0-7; how many")


def test_of_a_job_that_names_no_rank_that_is_said():
    found = diagnose(["-"], stdin=io.BytesIO(b"hello\n"))
    text = publish(found, "text", "secrets", width=100)
    assert part(text, "Seen") == "no line names a rank"
    assert "Culprit" not in text


def test_nobody_waits_and_is_silent_at_once():
    waited = part(screen(case("exit-hang-after-finished-run")), "How it went")
    assert "ranks 0-1, 3-4, 6 (silent: ranks 2, 5, 7)" in waited


def test_where_everybody_waited_nobody_is_looked_for():
    text = screen(case("insufficient-save-nccl-timeout"))
    assert "Find the rank that did not wait" not in said(text)
    assert "Make sure that these are all ranks" in part(text, "What to do")


def test_nobody_and_not_known_are_two_answers():
    assert part(screen(DEMO), "Culprit").startswith("nobody:")
    assert part(screen(case("insufficient-save-nccl-timeout")), "Culprit").startswith("not known:")


def test_the_headline_holds_no_quotation_and_the_best_line_does():
    text = screen(case("dev-shm-too-small"))
    assert "unhandled system error" not in text.partition("Culprit")[0]
    first = text.partition("Best lines\n")[2].split("\n")[1]
    assert "/dev/shm/nccl-xT0aPk" in first
    assert "NCCL: a system call failed" in part(text, "Not this")


def test_the_failed_rank_ends_before_those_who_waited_for_it():
    went = part(screen(DEMO), "How it went")
    order = [went.index(s) for s in ("on rank 2 [", "21:22:06", "Ranks waited too long", "21:52:11")]
    assert order == sorted(order)
    assert "Other processes failed" not in went[: order[1]]


def test_the_launchers_wrong_root_cause_is_told_first():
    assert part(screen(DEMO), "Not this").startswith("Rank 0, which the launcher calls the root cause")


def test_wait_and_exit_are_among_the_best_lines_and_no_bare_class_name():
    lines = screen(DEMO).partition("Best lines\n")[2].partition("\nSeen")[0]
    assert "Watchdog caught collective operation timeout" in lines
    assert "exitcode: 1" in said(lines)
    assert "ChildFailedError" not in lines


def test_moments_stand_on_one_row():
    when = part(screen(DEMO), "When")
    assert when.startswith("first sign between 2025-04-08 21:10:01 and 21:22:06; last step 40")
    assert when.endswith("end 2025-04-08 21:52:11")


def test_a_store_speaks_on_its_own_clock_and_is_shown_on_the_jobs():
    text = screen(case("aistore-get-batch-incomplete"))
    assert "first sign 2026-02-11 21:28:02" in part(text, "When")
    assert "less 8:00 h gives the job's time" in part(text, "Storage clock")
    assert "Get the daemons' logs" not in said(text)


def test_a_healthy_run_shows_what_looked_like_a_failure():
    text = screen(case("healthy-oom-halved-own-wording"))
    assert text.startswith("NO FAILURE FOUND")
    assert "CUDA out of memory" in part(text, "Harmless")


def test_all_processes_of_a_machine_are_counted():
    assert "8 of 8 processes there report it" in said(screen(case("ib-port-error-node48")))


def test_a_rank_inside_a_group_is_told_from_the_global_one():
    text = said(screen(case("tp-group-rank1-is-rank29")))
    assert "on rank 29. `Rank 1` in its line is its number inside the process group." in text


def test_where_stacks_tell_why_it_is_not_said_to_be_unknown():
    found = diagnose([str(case("video-pretraining-step-10100-last"))])
    assert "Why is not in these logs" not in found.verdict.summary


def test_advice_does_not_ask_for_what_was_done():
    steps = diagnose([str(case("asr-oom-one-rank"))]).verdict.action.steps
    assert steps
    assert not [s for s in steps if "Compare allocated" in s]


def test_dumps_alone_are_not_called_a_log(tmp_path):
    (tmp_path / "rank0.txt").write_text(
        "Process 4242: python train.py\nPython v3.11.4 (/usr/bin/python3.11)\n\n"
        'Thread 4242 (idle): "MainThread"\n    train (train.py:88)\n    <module> (train.py:141)\n',
        encoding="utf-8",
    )
    summary = diagnose([str(tmp_path)]).verdict.summary
    assert summary.startswith("No log of the job was read, only stacks")


@pytest.mark.parametrize(
    "name",
    ["dev-shm-too-small", "nanotron-rank0-tokenizing", "aistore-get-batch-incomplete", "asr-oom-one-rank", "ib-port-error-node48"],
)  # fmt: skip
def test_on_the_smallest_usual_window_the_first_step_stands_whole(name):
    found = diagnose([str(case(name))])
    text = publish(found, "text", "secrets", width=80, height=24)
    assert len(text.splitlines()) < 24
    assert said(found.verdict.action.steps[0]) in said(text)
    assert text.splitlines()[-1].startswith("exit code ")


POOL = """title = "My store is full"
tier = "killer"
role = "cause"
category = "storage_io"
domain = "data"
layer = "storage"
strength = "supported"
action = "fix_and_rerun"
patterns = ['mystore write failed: pool']
meaning = "The pool is full."
not_proof = "Not by whom."
advice = ["Make room."]
[[sources]]
what = "w"
date = "2026-01"
[[match]]
line = "ERROR mystore write failed: pool 7 is full"
[[no_match]]
line = "mystore write done: pool 7"
why = "it went well"
"""
LOG = """2026-03-02 14:00:01 INFO step 10/100 loss 2.1
2026-03-02 14:00:11 INFO step 20/100 loss 2.0
2026-03-02 14:00:30 {level} mystore write failed: pool 7 is full
{between}Traceback (most recent call last):
  File "/app/train.py", line 88, in <module>
    main()
  File "/app/store.py", line 12, in save
    raise RuntimeError("save failed")
{raised}
"""


@pytest.mark.parametrize(
    ("level", "between", "raised", "category"),
    [
        ("ERROR", "", "RuntimeError: save failed", "storage_io"),
        ("INFO", "", "RuntimeError: save failed", "software"),
        ("ERROR", "a line of the program\n" * 12, "RuntimeError: save failed", "software"),
        ("ERROR", "", "KeyError: 'lr'", "software"),
    ],
)
def test_a_fatal_line_wins_over_the_bare_exception_raised_upon_it(tmp_path, level, between, raised, category):
    from firstfault.pipelines.options import DiagnoseOptions

    (tmp_path / "own" / "storage").mkdir(parents=True)
    (tmp_path / "own" / "storage" / "my_pool_full.toml").write_text(POOL, encoding="utf-8")
    (tmp_path / "train.log").write_text(LOG.format(level=level, between=between, raised=raised), encoding="utf-8")
    found = diagnose([str(tmp_path / "train.log")], DiagnoseOptions(signatures=(tmp_path / "own",)))
    assert found.verdict.category == category
