"""A job of one process that no launcher started: its black box alone tells what became of it, and a helper is never taken for it."""

import pytest
from box_folder import at
from click.testing import CliRunner

from firstfault.cli.watch import command
from firstfault.model.words import Category, Phase
from firstfault.pipelines.diagnose import diagnose
from firstfault.recorder import format as layout

HOST = "node-00"
RECORD = 3999


class Lone:
    """The folder of one run of processes of no rank."""

    def __init__(self, folder):
        self.folder = folder / "run-1"

    def line(self, pid, kind, seconds, file=None, **fields):
        path = self.folder / HOST / (file or f"process.0.{pid}.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        who = {"time": at(seconds), "rank": None, "local_rank": None, "host": HOST, "pid": pid, "attempt": 0}
        with path.open("ab") as lines:
            lines.write(layout.line(kind, {**who, **fields}))

    def header(self, pid, *, launcher=False, parent=RECORD, world=None):
        told = {"FIRSTFAULT_RECORD_LAUNCH": str(RECORD)}
        self.line(pid, layout.HEADER, 0, launcher=launcher, parent=parent, variables=told, world=world)

    def death(self, pid, seconds, **fields):
        self.line(pid, layout.DEATH, seconds, file="node.jsonl", **fields)

    def killed(self, pid, *, step=7, phase="forward"):
        self.death(
            pid, 30, how="was ended by SIGKILL", signal="SIGKILL", step=step, phase=phase, still_s=0.1, last=at(29)
        )


def test_the_death_of_the_only_process_is_that_of_rank_0_of_1(tmp_path):
    box = Lone(tmp_path)
    box.header(4000)
    box.killed(4000)
    done = diagnose([tmp_path])
    assert done.verdict.culprits.ranks == [0]
    assert done.verdict.culprits.hosts == [HOST]
    for text in ("SIGKILL", "phase forward", "after step 7"):
        assert text in done.verdict.summary


def test_its_exception_is_told_with_phase_and_step(tmp_path):
    box = Lone(tmp_path)
    box.header(4000)
    told = {"type": "RuntimeError", "message": "short read", "traceback": [], "chain": [], "caught": False}
    box.line(4000, layout.EXCEPTION, 20, step=7, phase="checkpoint", **told)
    box.death(4000, 21, how="exited with code 1", exit_code=1, step=7, phase="checkpoint", still_s=1.0, last=at(20))
    said = diagnose([tmp_path]).verdict
    assert said.first_failed.ranks == [0]
    assert "short read" in said.summary
    assert said.classes.phase is Phase.CHECKPOINT


@pytest.mark.parametrize("phase", ["data", "checkpoint"])
def test_a_standstill_that_was_ended_from_outside_is_not_the_fault_of_who_ended_it(tmp_path, phase):
    box = Lone(tmp_path)
    box.header(4000)
    state = {"step": 7, "phase": phase, "last": at(30), "item": {"what": "/pool/shard-17.tar", "for_s": 300.0}}
    box.line(4000, layout.HANG, 330, file="node.jsonl", still_s=300.0, **state)
    box.death(4000, 900, how="was ended by SIGTERM", signal="SIGTERM", still_s=870.0, **state)
    said = diagnose([tmp_path]).verdict
    assert (said.category, said.culprits.ranks) == (Category.DATA_LOADING_STALL, [0])
    assert "/pool/shard-17.tar" in said.summary


def test_a_standstill_at_its_own_work_is_blamed_on_nobody(tmp_path):
    box = Lone(tmp_path)
    box.header(4000)
    state = {"step": 7, "phase": "forward", "last": at(30)}
    box.line(4000, layout.HANG, 330, file="node.jsonl", still_s=300.0, **state)
    box.death(4000, 900, how="was ended by SIGTERM", signal="SIGTERM", still_s=870.0, **state)
    said = diagnose([tmp_path]).verdict
    assert said.culprits.ranks == []
    assert "Rank 0 (node-00) stands still since 09:00:30, in phase forward, after step 7." in said.summary


def test_a_helper_that_was_killed_is_not_the_job(tmp_path):
    box = Lone(tmp_path)
    box.header(4000)
    box.header(4001, parent=4000)
    box.line(4000, layout.BEAT, 40, file=layout.HEARTBEAT_FILE, step=9, phase="forward", still_s=0.1, last=at(40))
    box.killed(4001, step=None, phase=None)
    assert diagnose([tmp_path]).verdict.culprits.ranks == []
    result = CliRunner().invoke(command, [str(box.folder), "--once"], standalone_mode=False)
    assert "dead" not in result.output


def test_of_several_that_train_none_is_the_job(tmp_path):
    box = Lone(tmp_path)
    for pid in (4000, 4001):
        box.header(pid, parent=3000)
        box.killed(pid)
    assert diagnose([tmp_path]).verdict.culprits.ranks == []


@pytest.mark.parametrize("more", [{"launcher": True}, {"world": 8}])
def test_a_launcher_and_one_of_many_are_no_job_of_one(tmp_path, more):
    box = Lone(tmp_path)
    box.header(4000, **more)
    box.killed(4000)
    assert diagnose([tmp_path]).verdict.culprits.ranks == []


def test_watch_shows_it_and_its_death(tmp_path):
    box = Lone(tmp_path)
    box.header(4000)
    box.killed(4000)
    result = CliRunner().invoke(command, [str(tmp_path), "--once"], standalone_mode=False)
    assert result.return_value == 1
    assert "1 of 1 ranks; 1 dead" in result.output
