"""Restarts by torchrun inside one job are attempts: the last failing one is diagnosed, the earlier ones are listed."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions

ROWS = ("Traceback (most recent call last):", '  File "/srv/train.py", line 9, in <module>', "    main()")
KEY, MEMORY = (
    "KeyError: 'answer'",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.10 GiB of which 1.02 GiB is free.",
)
STYLES = {
    "2.0": (
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: {rank} (pid: {pid}) of binary: /opt/py/bin/python\n",
        "INFO:torch.distributed.elastic.agent.server.api:[default] Worker group FAILED. {left}/3 attempts left; will restart worker group\n",
    ),
    "2.2": (
        "[2026-03-04 10:00:40,301] torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: 1) local_rank: {rank} (pid: {pid}) of binary: /opt/py/bin/python\n",
        "[2026-03-04 10:00:40,402] torch.distributed.elastic.agent.server.api: [INFO] [default] Worker group FAILED. {left}/3 attempts left; will restart worker group\n",
    ),
    "2.8": (
        "E0304 10:00:40.301000 4000 torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: 1) local_rank: {rank} (pid: {pid}) of binary: /opt/py/bin/python\n",
        "I0304 10:00:40.402000 4000 torch/distributed/elastic/agent/server/api.py:906] [default] Worker group FAILED. {left}/3 attempts left; will restart worker group\n",
    ),
}  # fmt: skip


def steps(first, count=5, minute=0, stamped=True):
    stamp = f"2026-03-04 10:0{minute}:{{:02d}},100 " if stamped else ""
    return "".join(f"[rank0] {stamp.format(5 + n)}INFO step {first + n}/9000 loss 2.31\n" for n in range(count))


def raised(rank, last):
    return "".join(f"[rank{rank}]: {x}\n" for x in (*ROWS, last))


def told(style, rank, left, *, hidden):
    dead, again = STYLES[style]
    return dead.format(rank=rank, pid=4100 + rank) + ("" if hidden else again.format(left=left))


def report_of(folder, text):
    (folder / "run.log").write_text(text)
    return diagnose([str(folder)], DiagnoseOptions(engine="inline"))


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("hidden", [False, True], ids=["told", "hidden"])
def test_the_last_failing_start_is_diagnosed_and_the_one_before_is_listed(tmp_path, style, hidden):
    text = steps(1) + raised(1, MEMORY) + told(style, 1, 3, hidden=hidden) + steps(3, minute=2) + raised(0, KEY)
    report = report_of(tmp_path, text + told(style, 0, 2, hidden=True))
    assert [a.ended for a in report.attempts] == ["failed", "failed"]
    assert (report.verdict.category, list(report.verdict.first_failed.ranks)) == (Category.SOFTWARE, [0])


@pytest.mark.parametrize("style", STYLES)
def test_a_start_that_came_through_is_the_answer(tmp_path, style):
    text = steps(1) + raised(1, MEMORY) + told(style, 1, 3, hidden=False) + steps(3, minute=2)
    report = report_of(tmp_path, text + "[rank0] 2026-03-04 10:03:00,100 INFO Training completed successfully.\n")
    assert ([a.ended for a in report.attempts], report.verdict.failed) == (["failed", "completed"], False)


@pytest.mark.parametrize("style", STYLES)
def test_a_loop_of_starts_without_a_step_is_told_by_the_agents_count(tmp_path, style):
    text = "".join(raised(0, "ImportError: cannot import name 'Rotary' from 'layers'") + told(style, 0, n, hidden=n == 1) for n in (3, 2, 1))  # fmt: skip
    report = report_of(tmp_path, text)
    assert (len(report.attempts), report.verdict.category) == (3, Category.SOFTWARE)


def test_lines_of_several_agents_about_one_restart_are_one_restart(tmp_path):
    once = told("2.8", 1, 3, hidden=False)
    text = steps(1) + raised(1, MEMORY) + once + raised(9, "KeyError: 'x'") + once + once + steps(3, minute=2)
    assert len(report_of(tmp_path, text + raised(0, KEY) + told("2.8", 0, 2, hidden=True)).attempts) == 2


@pytest.mark.parametrize(
    "late",
    [
        steps(2, 4),
        "".join(f"[rank3] 2026-03-04 10:00:0{n},100 INFO step {n}/9000 loss 2.31\n" for n in (3, 4, 5)),
        steps(6, 4, stamped=False),
    ],
    ids=["stamps before", "another rank", "higher steps"],
)
def test_steps_that_are_printed_late_are_no_restart(tmp_path, late):
    text = steps(1) + raised(1, MEMORY) + told("2.8", 1, 3, hidden=True) + late
    assert len(report_of(tmp_path, text).attempts) == 1
