"""A re-run against its incident: held, recurred, or not comparable; where it cannot be told it is never held."""

from datetime import date

import pytest
from incident_text import PROVED, text_of
from msgspec import structs

from firstfault.incidents.fingerprint import Traits, fingerprint
from firstfault.incidents.lint import lint
from firstfault.incidents.ran import Ran, framework_of, ran_of_lines
from firstfault.incidents.record import parse
from firstfault.incidents.verification import Start, compare, latest_result, written
from firstfault.incidents.words import State
from firstfault.model.diagnosis import (
    Action,
    AttemptSummary,
    Classes,
    Count,
    Culprits,
    Diagnosis,
    Evidence,
    Fact,
    FirstFailed,
    Ranks,
    Time,
    TimelineEntry,
    Verdict,
)
from firstfault.model.words import ActionKind, Category, Strength

TRAITS = Traits(
    category="gpu_cuda",
    form="interrupted",
    signature="gpu.out_of_memory",
    message="OutOfMemoryError: CUDA out of memory",
)
OTHER = Traits(category="data", form="interrupted", signature="data.archive_damaged", message="BadZipFile: x")


AFTER = "2026-03-04T09:00:00"
"""Two days after the incident."""


def run(category=Category.NONE, *, failed, ranks=None, ended=AFTER, **job):
    """The diagnosis of a re-run, with the time of its last line; None where its lines tell none."""
    line = Evidence(file="a.log", line=9, column=1, text="Training completed")
    timeline = [] if ended is None else [TimelineEntry(time=Time(earliest=ended), what="x", evidence=line)]
    verdict = Verdict(
        failed=failed,
        category=category,
        strength=Strength.ESTABLISHED,
        summary="x",
        culprits=Culprits(),
        first_failed=FirstFailed(),
        trigger=None,
        classes=Classes(),
        action=Action(kind=ActionKind.NONE),
    )
    return Diagnosis(
        verdict=verdict,
        ranks=ranks or Ranks(),
        timeline=timeline,
        job={name: Fact(value=value) for name, value in job.items()},
    )


def incident(**head):
    more = "".join(f'{key}: "{value}"\n' for key, value in head.items())
    text = text_of(**{**PROVED, "state": "fixed", "verifications": "", "fingerprint": f'"{fingerprint(TRAITS)}"'})
    return parse(text.replace("fix_links:", f"{more}fix_links:"))


@pytest.mark.parametrize(
    ("head", "rerun", "traits", "result"),
    [
        ({}, run(failed=False), Traits(), "not comparable"),
        ({"world_size": 16}, run(failed=False), Traits(), "not comparable"),
        ({"last_step": 400}, run(failed=False, last_step=4000), Traits(), "not comparable"),
        ({"world_size": 16, "last_step": 400}, run(failed=False, world_size=16, last_step=4000), Traits(), "held"),
        ({"last_step": 400}, run(failed=False, last_step=400), Traits(), "not comparable"),
        ({"last_step": 400}, run(failed=False, last_step=12), Traits(), "not comparable"),
        ({"last_step": 400}, run(failed=False), Traits(), "not comparable"),
        ({"world_size": 16}, run(failed=False, world_size=8), Traits(), "not comparable"),
        ({"world_size": 16}, run(failed=False, world_size=16), Traits(), "held"),
        ({"framework": "megatron"}, run(failed=False, framework="lightning"), Traits(), "not comparable"),
        ({}, run(failed=None, category=Category.UNKNOWN), Traits(), "not comparable"),
        ({}, run(failed=True, category=Category.GPU_CUDA), TRAITS, "recurred"),
        (
            {},
            run(failed=True, category=Category.GPU_CUDA),
            Traits(**{**{f: getattr(TRAITS, f) for f in TRAITS.__struct_fields__}, "message": "HIP out of memory"}),
            "recurred",
        ),
        ({}, run(failed=True, category=Category.DATA), OTHER, "not comparable"),
        ({}, run(failed=True, category=Category.UNKNOWN), TRAITS, "not comparable"),
    ],
)
def test_what_a_re_run_says(head, rerun, traits, result):
    comparison = compare(incident(**head), rerun, traits)
    assert comparison.result == result
    assert comparison.reason


LEAST_FOUR = {"ranks_at_least": 4, "ranks_seen": "0-3", "framework": "megatron"}
"""An incident whose lines tell `nranks 4` and no world size."""


@pytest.mark.parametrize(
    ("head", "now", "result"),
    [
        (LEAST_FOUR, {"ranks": Ranks(at_least=2, seen=2, seen_ranks="0-1")}, "not comparable"),
        (LEAST_FOUR, {"world_size": 2, "ranks": Ranks(expected=2, seen=2, seen_ranks="0-1")}, "not comparable"),
        (LEAST_FOUR, {}, "not comparable"),
        (LEAST_FOUR, {"ranks": Ranks(at_least=4, seen=4, seen_ranks="0-3")}, "held"),
        (LEAST_FOUR, {"world_size": 4}, "held"),
        ({"ranks_seen": "0-3, 8"}, {"ranks": Ranks(at_least=4, seen=4)}, "not comparable"),
        ({"world_size": 16}, {"framework": "megatron", "ranks": Ranks(at_least=8, seen=8)}, "not comparable"),
        ({"world_size": 16}, {"ranks": Ranks(at_least=16, seen=16)}, "held"),
        ({"world_size": 16}, {"ranks": Ranks(at_least=32, seen=32)}, "not comparable"),
        ({"framework": "megatron", "ranks_at_least": 1, "ranks_seen": "0"}, {}, "held"),
        ({"framework": "megatron"}, {}, "held"),
    ],
)
def test_a_re_run_on_fewer_ranks_or_on_nobody_knows_how_many_is_not_comparable(head, now, result):
    record = incident(**{"framework": "megatron", **head})
    comparison = compare(record, run(failed=False, **{"framework": "megatron", **now}), Traits())
    assert comparison.result == result


def test_stable_fields_are_told_as_equal_or_different():
    comparison = compare(incident(world_size=16), run(failed=False, world_size=16, torch_version="2.7.0"), Traits())
    assert comparison.equal == ("world_size: 16",)
    assert comparison.differs == ()


@pytest.mark.parametrize(
    ("state", "result", "after"),
    [
        ("fixed", run(failed=False, world_size=16), State.VERIFIED),
        ("fixed", run(failed=False), State.FIXED),
        ("supported", run(failed=False, world_size=16), State.SUPPORTED),
        ("fixed", run(failed=True, category=Category.GPU_CUDA), State.SUPPORTED),
        ("fixed", run(failed=None), State.FIXED),
    ],
)
def test_a_linked_re_run_moves_the_state_only_as_far_as_it_shows(state, result, after):
    record = parse(incident(world_size=16).text.replace("state: fixed", f"state: {state}"))
    comparison = compare(record, result, TRAITS if result.verdict.failed else Traits())
    changed = parse(written(record, comparison, "2026-03-09"))
    assert changed.state is after
    assert changed.all("verifications")[-1].startswith(f"rerun 2026-03-09 {comparison.result}: ")
    assert [c.what for c in lint([changed]) if c.level == "error"] == []


def test_a_re_run_that_is_linked_twice_stands_there_once():
    record = parse(incident(world_size=16).text)
    failed = compare(record, run(failed=True, category=Category.GPU_CUDA), TRAITS)
    once = parse(written(record, failed, "2026-03-05"))
    twice = parse(written(once, failed, "2026-03-05"))
    assert twice.text == once.text
    assert len(parse(written(twice, failed, "2026-03-06")).all("verifications")) == len(once.all("verifications")) + 1


def test_what_recurred_after_it_held_is_verified_no_more():
    record = parse(incident(world_size=16).text)
    held = parse(written(record, compare(record, run(failed=False, world_size=16), Traits()), "2026-03-05"))
    again = parse(written(held, compare(held, run(failed=True, category=Category.GPU_CUDA), TRAITS), "2026-03-09"))
    assert (held.state, again.state) == (State.VERIFIED, State.SUPPORTED)
    assert latest_result(again.all("verifications")) == "recurred"


@pytest.mark.parametrize(
    ("failed_at", "ended", "result"),
    [
        ("2026-03-02T14:00:05", "2026-03-03T02:00:00", "held"),
        ("2026-03-02T14:00:05", "2026-02-20T02:00:00", "not comparable"),
        ("2026-03-02T14:00:05", "2026-03-02T13:59:59", "not comparable"),
        ("2026-03-02T14:00:05+08:00", "2026-03-02T06:30:00+00:00", "held"),
        ("2026-03-02T14:00:05+08:00", "2026-03-02T05:30:00+00:00", "not comparable"),
        ("2026-03-02T14:00:05+08:00", "2026-03-03T09:00:00", "held"),
        ("2026-03-02T14:00:05+08:00", "2026-03-02T07:00:00", "not comparable"),
        ("2026-03-02T20:13:00", "2026-03-02T10:09:00+00:00", "not comparable"),
        ("2026-03-02T14:00:05+08:00", "2026-03-01T07:00:00", "not comparable"),
        ("", "2026-03-03T02:00:00", "held"),
        ("", "2026-03-02T02:00:00", "not comparable"),
        ("", "2026-02-20T02:00:00", "not comparable"),
        ("2026-03-02T14:00:05", None, "not comparable"),
        ("", None, "not comparable"),
    ],
)
def test_a_run_of_before_the_incident_is_no_re_run(failed_at, ended, result):
    record = incident(world_size=16, failed_at=failed_at)
    assert compare(record, run(failed=False, world_size=16, ended=ended), Traits()).result == result


@pytest.mark.parametrize(
    ("category", "traits", "result"),
    [
        (Category.GPU_CUDA, TRAITS, "recurred"),
        (Category.GPU_CUDA, Traits(category="gpu_cuda", form="interrupted", signature="gpu.xid", message="Xid 79"), "not comparable"),
        (Category.UNKNOWN, Traits(), "not comparable"),
        (Category.DATA, OTHER, "held"),
    ],
)  # fmt: skip
def test_a_launcher_that_begins_anew_is_no_fix(category, traits, result):
    record = incident(world_size=16)
    earlier = [Start(1, run(category, failed=True, world_size=16), traits)]
    comparison = compare(record, run(failed=False, world_size=16), Traits(), earlier)
    assert comparison.result == result
    assert result == "held" or "attempt 1 of the re-run" in comparison.reason or "its attempt 1" in comparison.reason


def test_a_number_of_ranks_alone_shows_no_same_job():
    comparison = compare(incident(ranks_at_least=8, ranks_seen="0-7"), run(failed=False, world_size=8), Traits())
    assert (comparison.result, comparison.equal) == ("not comparable", ())
    known = compare(incident(world_size=8), run(failed=False, ranks=Ranks(at_least=8, seen=8)), Traits())
    assert known.result == "held"
    assert "its number of ranks alone" in known.reason


def test_a_run_that_met_the_fault_again_and_went_on_is_not_held():
    again = structs.replace(
        run(failed=False, world_size=16),
        counts=[Count(signature="gpu.out_of_memory", title="x", total=1)],
    )
    record = incident(world_size=16)
    assert record.one("signature") == "gpu.out_of_memory"
    assert compare(record, again, Traits()).result == "not comparable"
    other = parse(record.text.replace("signature: gpu.out_of_memory", "signature: gpu.xid", 1))
    assert compare(other, again, Traits()).result == "held"


def test_a_run_that_was_going_on_when_the_incident_came_is_no_re_run():
    line = Evidence(file="a.log", line=1, column=1, text="step 1")
    times = [Time(earliest="2026-03-01T09:00:00"), Time(earliest="2026-03-02T15:18:00")]
    over = structs.replace(
        run(failed=False, world_size=16), timeline=[TimelineEntry(time=t, what="x", evidence=line) for t in times]
    )
    assert compare(incident(world_size=16, failed_at="2026-03-02T14:00:05"), over, Traits()).result == "not comparable"


def test_a_run_of_before_a_later_recurrence_verifies_nothing():
    text = incident(world_size=16).text.replace(
        "verifications:\n", 'verifications:\n  - "rerun 2026-03-20 recurred: again"\n', 1
    )
    record = parse(text)
    assert record.all("verifications") == ("rerun 2026-03-20 recurred: again",)
    changed = parse(written(record, compare(record, run(failed=False, world_size=16), Traits()), "2026-03-09"))
    assert changed.state is State.FIXED


def test_a_record_with_open_parts_is_not_verified_by_a_re_run():
    whole = incident(world_size=16)
    text = whole.text.replace(PROVED["cause"], "OPEN: what caused it")
    assert text != whole.text
    record = parse(text)
    changed = parse(written(record, compare(record, run(failed=False, world_size=16), Traits()), "2026-03-09"))
    assert changed.state is State.FIXED
    assert changed.all("verifications")[-1].startswith("rerun 2026-03-09 held: ")


FAILED_AT = {"world_size": 16, "failed_at": "2026-03-02T14:00:05"}


@pytest.mark.parametrize(
    ("lines", "stated", "result"),
    [
        (["2026-03-03 09:00:00 step 1"], None, "held"),
        (["2026年3月3日 09:00:00 step 1"], None, "held"),
        (["2026年3月1日 09:00:00 step 1", "2026年3月3日 09:00:00 step 2"], None, "not comparable"),
        (["1772532000.1 step 1"], None, "held"),  # 2026-03-03 10:00 UTC
        (["1772442000.1 step 1"], None, "not comparable"),  # 2026-03-02 09:00 UTC
        (["1772442000123 step 1"], None, "not comparable"),
        (["I0303 09:00:00.123456 77 train.py:3] step 1"], None, "not comparable"),
        (["I0303 09:00:00.123456 77 train.py:3] step 1"], date(2026, 3, 3), "held"),
        (["I0301 09:00:00.123456 77 train.py:3] step 1"], date(2026, 3, 3), "not comparable"),
        (["I0301 09:00:00.123456 77 a.py:3] step 1", "2026-03-04 09:00:00 saved"], None, "not comparable"),
        (["I0303 09:00:00.123456 77 a.py:3] step 1", "2026-03-04 09:00:00 saved"], None, "held"),
        (["Mar  3 09:00:00 gpu-n017 trainer: step 1"], None, "not comparable"),
        (["03/04/2026 09:00:00 step 1"], None, "held"),  # the fourth of March, or the third of April
        (["02/03/2026 15:00:00 step 1"], None, "not comparable"),  # the second of March, or the third of February
        (["03.04.2026 09:00:00 step 1"], None, "held"),
        (["2026-03-02T20:00:00Z step 1"], None, "not comparable"),
        (["2026-03-03T03:00:00Z step 1"], None, "held"),
        (["step 1"], None, "not comparable"),
        (["10:00:00 step 1"], None, "not comparable"),
        (["step 1"], date(2026, 3, 2), "held"),
        (["step 1"], date(2026, 3, 1), "not comparable"),
        (["2026-03-01 09:00:00 step 1"], date(2026, 3, 9), "not comparable"),
        ([], None, "not comparable"),
    ],
)
def test_a_run_is_held_only_where_it_is_known_to_have_begun_afterwards(lines, stated, result):
    ran = ran_of_lines([lines])
    now = run(failed=False, world_size=16, ended=None)
    comparison = compare(incident(**FAILED_AT), now, Traits(), ran=ran, stated=stated)
    assert comparison.result == result, comparison.reason


LATER = ran_of_lines([["2026-03-03 09:00:00 step 1"]])


def later(**parts):
    return structs.replace(LATER, **parts)


def tried(ended):
    """A run of which an earlier start ended somehow."""
    attempts = [
        AttemptSummary(number=1, ended=ended, diagnosed=False),
        AttemptSummary(number=2, ended="completed", diagnosed=True),
    ]
    return structs.replace(run(failed=False, world_size=16), attempts=attempts)


def of_form(form, **head):
    record = incident(world_size=16, **head)
    return parse(record.text.replace("form: interrupted", f"form: {form}", 1))


def node(ranks):
    seen = Ranks(expected=16, seen=8, seen_ranks=ranks)
    return run(failed=False, world_size=16, ranks=seen)


LAST = {"world_size": 16, "last_step": 30, "total_steps": 30}
AT_30 = run(failed=False, world_size=16, last_step=30)


@pytest.mark.parametrize(
    ("record", "rerun", "ran", "result"),
    [
        (of_form("slow"), run(failed=False, world_size=16), LATER, "not comparable"),
        (of_form("wrong_results"), run(failed=False, world_size=16), LATER, "not comparable"),
        (of_form("hung"), run(failed=False, world_size=16), LATER, "held"),
        (incident(world_size=1), run(failed=False, world_size=1), LATER, "not comparable"),
        (incident(world_size=16), node("0-7"), LATER, "not comparable"),
        (incident(world_size=16), node("8-15"), LATER, "not comparable"),
        (incident(world_size=16), node("0"), LATER, "held"),
        (incident(world_size=16), node("0, 8"), LATER, "held"),
        (incident(world_size=16), node("0-15"), LATER, "held"),
        (incident(world_size=16), node("15"), LATER, "held"),
        (incident(world_size=16), node("7, 15"), LATER, "held"),
        (incident(world_size=16), node("0-11"), LATER, "not comparable"),
        (incident(world_size=16), node("0-2, 4-15"), LATER, "not comparable"),
        (incident(world_size=16), node("0, 3"), LATER, "not comparable"),
        (incident(world_size=16), run(failed=False, world_size=16, framework="deepspeed"), LATER, "not comparable"),
        (
            incident(world_size=16, framework="deepspeed"),
            run(failed=False, world_size=16, framework="deepspeed"),
            LATER,
            "held",
        ),
        (incident(world_size=16, framework="deepspeed"), run(failed=False, world_size=16), LATER, "not comparable"),
        (
            incident(world_size=16, framework="deepspeed"),
            run(failed=False, world_size=16),
            later(framework="deepspeed"),
            "held",
        ),
        (
            incident(world_size=16, framework="deepspeed"),
            run(failed=False, world_size=16),
            later(framework="megatron"),
            "not comparable",
        ),
        (incident(world_size=16), run(failed=False, world_size=16), later(anew="x"), "not comparable"),
        (incident(world_size=16), run(failed=False, world_size=16), later(back=(240, 210)), "not comparable"),
        (incident(world_size=16), run(failed=False, world_size=16), later(passed_over="x"), "not comparable"),
        (incident(world_size=16), run(failed=False, world_size=16), later(smaller="x"), "not comparable"),
        (incident(**LAST), AT_30, later(total=30), "held"),
        (incident(**LAST), AT_30, later(total=60), "not comparable"),
        (incident(**LAST), AT_30, LATER, "not comparable"),
        (incident(world_size=16, last_step=30), AT_30, later(total=30), "not comparable"),
        (incident(world_size=16, last_step=20), AT_30, later(began_after=25), "not comparable"),
        (incident(world_size=16, last_step=20), AT_30, later(began_after=20), "held"),
        (incident(world_size=16), tried("unknown"), LATER, "not comparable"),
        (incident(world_size=16), tried("stopped"), LATER, "held"),
        (of_form("hung"), tried("stopped"), LATER, "not comparable"),
        (incident(world_size=16), run(failed=False, world_size=16), Ran(), "not comparable"),
    ],
)
def test_what_a_completed_run_has_to_show(record, rerun, ran, result):
    comparison = compare(record, rerun, Traits(), ran=ran)
    assert comparison.result == result, comparison.reason


def test_ranks_without_a_line_are_named():
    assert "(3)" in compare(incident(world_size=16), node("0-2, 4-15"), Traits(), ran=LATER).reason


def test_a_quoted_line_is_shown_and_not_kept():
    record = incident(world_size=16)
    line = "OOM on gpu-n017, skipped; password=Kx9_pq77Lm"
    said = compare(record, run(failed=False, world_size=16), Traits(), ran=later(passed_over=line))
    assert "OOM on gpu-n017" in said.reason
    assert "Kx9_pq77Lm" not in said.reason
    assert "gpu-n017" not in parse(written(record, said, "2026-03-05")).all("verifications")[-1]


def on(day, result):
    """A re-run of a day, held against the incident."""
    ended = f"{day}T09:00:00"
    if result == "held":
        return run(failed=False, world_size=16, ended=ended), Traits()
    return run(failed=True, category=Category.GPU_CUDA, ended=ended), TRAITS


@pytest.mark.parametrize("order", [("held", "recurred"), ("recurred", "held")])
def test_of_two_re_runs_the_one_that_ran_last_counts_whichever_was_linked_last(order):
    for days, state in (({"held": "05", "recurred": "10"}, "recurred"), ({"held": "10", "recurred": "05"}, "held")):
        record = incident(**FAILED_AT)
        for result in order:
            comparison = compare(record, *on(f"2026-03-{days[result]}", result))
            assert (comparison.result, comparison.day) == (result, f"2026-03-{days[result]}")
            record = parse(written(record, comparison))
            # Between the two a person says that it is fixed.
            text = record.text.replace("state: supported", "state: fixed") if result == order[0] else record.text
            record = parse(text)
        assert latest_result(record.all("verifications")) == state
        assert (record.state is State.VERIFIED) is (state == "held")
        assert [c.what for c in lint([record]) if c.level == "error"] == []


def test_a_re_run_of_which_nobody_knows_the_day_verifies_nothing():
    record = incident(world_size=16)
    comparison = compare(record, run(failed=False, world_size=16), Traits())
    assert comparison.result == "held"
    changed = parse(written(record, structs.replace(comparison, day="")))
    assert changed.all("verifications")[-1].startswith("rerun undated ")
    assert changed.state is State.FIXED


@pytest.mark.parametrize("part", ["verification", "sentence"])
def test_a_record_that_a_re_run_made_verified_has_no_error(part):
    record = parse(incident(world_size=16).text.replace(PROVED[part], "OPEN: to be said"))
    changed = parse(written(record, compare(record, run(failed=False, world_size=16), Traits())))
    assert changed.state is State.FIXED
    assert [c.what for c in lint([changed]) if c.level == "error"] == []


def test_an_incident_of_which_nobody_knows_the_day_has_no_later_run():
    record = parse(incident(world_size=16).text.replace('date: "2026-03-02"', 'date: ""', 1))
    assert compare(record, run(failed=False, world_size=16), Traits()).result == "not comparable"


@pytest.mark.parametrize(
    ("lines", "framework"),
    [
        ([b" iteration  10/ 500 | consumed samples: 80 | lm loss: 2.3 |"], "megatron"),
        ([b"Training epoch 0, iteration 10/500 | lr: 0.0001 | reduced_train_loss: 2.3"], "nemo"),
        ([b"{'loss': 2.3, 'learning_rate': 1e-05, 'epoch': 0.1}"], "transformers"),
        ([b"step 10/500 loss 2.3"], ""),
        ([b" iteration  10/ 500 | lm loss: 2.3 |", b"{'loss': 2.3, 'learning_rate': 1e-05, 'epoch': 0.1}"], ""),
        ([], ""),
    ],
)
def test_a_form_of_step_lines_that_one_framework_alone_prints_tells_it(lines, framework):
    assert framework_of(lines) == framework
