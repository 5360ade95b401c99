"""A worker of a rank's loader was killed: named by either witness, the monitor of the node or the rank itself, and by neither wrongly."""

import pytest
from box_folder import Box

from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose
from firstfault.recorder import format as layout

GLOO = "[../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.2]:1234"
IN_CHANNEL = [
    {"file": "/app/train.py", "line": 93, "function": "train"},
    {"file": "/usr/lib/python3.11/multiprocessing/connection.py", "line": 395, "function": "_recv"},
]
IN_DATA = [{"file": "/app/data.py", "line": 12, "function": "__getitem__"}]
RESET = "[Errno 104] Connection reset by peer"
LOST = [{"worker": 0, "pid": 4102, "signal": "SIGKILL"}]


def job(
    folder, *, monitor=True, said=LOST, first=100.4, error=("ConnectionResetError", IN_CHANNEL), lost=2, says=RESET
):
    """Rank `lost` of 4 loses a worker at 100, and raises at 100.1; the others lose their connection to it from `first` on."""
    box = Box(folder, world=4)
    if monitor:
        box.line(lost, layout.DEATH, 100, file="node.jsonl", pid=4102, worker=0, parent=4000 + lost, step=8, phase="data",
                 last="", signal="SIGKILL", how="was ended by SIGKILL")  # fmt: skip
    more = {} if said is None else {"lost_workers": said}
    box.line(lost, layout.EXCEPTION, 100.1, type=error[0], message=says, caught=False,
             phase="data", step=7, traceback=error[1], chain=[], run={}, **more)  # fmt: skip
    for rank in range(4):
        if rank != lost:
            box.line(rank, layout.EXCEPTION, first + rank / 100, type="RuntimeError", message=GLOO, caught=False,
                     phase="forward", step=7, traceback=[], chain=[], run={})  # fmt: skip
        when = 100.3 if rank == lost else first + 0.1 + rank / 100
        box.state(rank, layout.DEATH, when, last=100.1, phase="data", step_s_ago=when - 99.9, exit_code=1,
                  how="exited with code 1")  # fmt: skip
    return diagnose([folder]).verdict


@pytest.mark.parametrize(
    "left",
    [{}, {"monitor": False}, {"error": ("EOFError", IN_CHANNEL)}, {"error": ("ConnectionRefusedError", IN_CHANNEL)}],
)
def test_whose_connection_broke_with_its_worker_is_named_for_the_worker(tmp_path, left):
    said = job(tmp_path, **left)
    assert (said.category, said.culprits.ranks, said.first_failed.ranks) == (Category.INFRASTRUCTURE, [2], [2])
    assert "SIGKILL" in said.summary


def test_a_job_in_which_another_rank_had_failed_before_is_not_laid_on_the_worker(tmp_path):
    said = job(tmp_path, first=90.0)
    assert "lost a worker" not in said.summary


def test_without_a_word_of_its_rank_a_worker_that_ended_with_it_is_not_blamed(tmp_path):
    said = job(tmp_path, said=None)
    assert "lost a worker" not in said.summary


def test_an_error_of_the_rank_itself_stays_the_first_fault(tmp_path):
    said = job(tmp_path, error=("KeyError", IN_DATA), says="'label'")
    assert "lost a worker" not in said.summary
    assert said.first_failed.ranks == [2]
    assert "KeyError" in said.summary


def test_a_worker_that_was_ended_by_its_own_loader_is_none_that_was_lost(tmp_path):
    said = job(tmp_path, monitor=False, said=[{"worker": 0, "pid": 4102, "exit_code": 1}])
    assert "lost a worker" not in said.summary
