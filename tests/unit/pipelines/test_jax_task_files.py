"""Files numbered like JAX's tasks: which of them miss a task, and which do not, tells whether the numbers are the tasks'."""

from __future__ import annotations

import pytest

from firstfault.pipelines.diagnose import diagnose

START = "I0912 01:00:0{n}.000000 140 distributed.py:149] Connecting to JAX distributed service on 10.0.0.1:1234\n"
MISSES = (
    "F0912 01:12:00.123457 199 client.h:80] Terminating process because the JAX distributed service detected fatal errors. "
    "absl::Status: UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):\n"
    "/job:jax_worker/replica:0/task:{lost}\n"
    "The tasks have crashed. Check the task logs for an earlier error to debug further.\n"
)
ERRORS = {
    "memory": "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes.",
    "key": "KeyError: 'tokens'",
}


def verdict_of(folder, names, failed, lost, error="memory"):
    for n, name in enumerate(names):
        own = (
            'Traceback (most recent call last):\n  File "/w/train.py", line 88, in step\n    state = p(state)\n'
            + ERRORS[error]
            + "\n"
        )
        (folder / name).write_text(START.format(n=n) + (own if n == failed else MISSES.format(lost=lost)))
    return diagnose([folder]).verdict


@pytest.mark.parametrize("form", ["task-{n}.log", "job_{n}.out", "out.task{n}", "train.{n}.err"])
@pytest.mark.parametrize("error", sorted(ERRORS))
@pytest.mark.parametrize("failed", [0, 3])
def test_the_file_of_the_task_that_the_others_miss_is_that_process(tmp_path, form, error, failed):
    verdict = verdict_of(tmp_path, [form.format(n=n) for n in range(4)], failed, failed, error)
    assert verdict.first_failed.ranks == [failed]


def test_numbers_that_do_not_fit_who_misses_whom_mean_something_else(tmp_path):
    verdict = verdict_of(tmp_path, [f"task-{n}.log" for n in range(4)], 3, 1)
    assert verdict.first_failed.ranks == []


def test_numbers_with_a_gap_are_not_believed(tmp_path):
    verdict = verdict_of(tmp_path, [f"task-{n}.log" for n in (0, 1, 5, 6)], 3, 6)
    assert verdict.first_failed.ranks == []
