"""Words of an error inside another program's sentence, or that the job stepped past, are no failure; a machine's own are."""

import pytest
from incident import event, sample, scene_of
from msgspec.structs import replace

from firstfault.analysis.conclude import ask
from firstfault.analysis.passed import quoted, stepped_past
from firstfault.model.evidence import Frame, PythonException

LIMIT = "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-01-01T10:00:00 DUE TO TIME LIMIT ***"


def line(name, text, number=5, **more):
    return replace(event(name, number, **more), text=text)


@pytest.mark.parametrize(
    "head",
    [
        "", "0: ", "[2026-01-01 10:00:00] ", "Nov 12 10:01:22 sw-2 ", "2026-01-01T10:00:00Z stderr F ", "node7 ",
        '{"timestamp": 1772618812000, "logStreamName": "job-7/algo-one", "message": "',
        '{"insertId": "ab", "resource": {"type": "k8s_container"}, "severity": "ERROR", "textPayload": "',
        'level=error source=stderr msg="',
    ],
)  # fmt: skip
def test_what_collectors_put_in_front_makes_no_quotation(head):
    scene = scene_of()
    assert not quoted(scene.case, line("slurm.time_limit", head + LIMIT))


@pytest.mark.parametrize(
    "head", ["[sample] tool: ", "the user said: ", 'prompt text: "', '{"message": "the user said: ']
)
def test_a_sentence_in_front_does(head):
    scene = scene_of()
    assert quoted(scene.case, line("slurm.time_limit", head + LIMIT))
    assert not quoted(scene.case, line("code.crash", head + LIMIT))


def stepping():
    return scene_of(progress=(sample(0, 1, 4), sample(0, 9, 5))).case


def stops(found, *more, step=5):
    return ask(scene_of(found, *more, progress=(sample(0, 1, 4), sample(0, 9, step))))


def test_a_plain_line_that_the_job_stepped_past_is_no_failure_where_nothing_else_is():
    assert stops(line("shared.full", "skip sample: OSError: [Errno 28]")).failed is None


def test_without_a_further_step_it_is():
    assert stops(line("shared.full", "OSError: [Errno 28]"), step=4).failed is True


def test_a_traceback_is_a_last_word_whatever_follows():
    frame = Frame("/w/train.py", 9, "<module>")
    error = PythonException(kind="OSError", message="full", frames=(frame,))
    assert stops(replace(event("shared.full", 5), exception=error)).failed is True


def test_an_exit_that_is_reported_takes_the_excuse():
    assert stops(line("shared.full", "OSError: [Errno 28]"), event("launcher.exit", 20, rank=0)).failed is True


def test_a_runtimes_own_word_is_believed():
    assert stepped_past(stepping(), line("shared.full", "disk is full"))
    assert not stepped_past(stepping(), line("nccl.ib_error", "NET/IB : Got completion with status=12"))
    assert not stepped_past(
        stepping(), line("gpu.out_of_memory", "[rank3]: torch.OutOfMemoryError: CUDA out of memory")
    )
    assert stepped_past(
        stepping(), line("gpu.out_of_memory", "[sample] tool: torch.OutOfMemoryError: CUDA out of memory")
    )


def test_another_ranks_step_excuses_no_rank():
    assert stops(line("shared.full", "OSError: [Errno 28]", rank=2)).failed is True
