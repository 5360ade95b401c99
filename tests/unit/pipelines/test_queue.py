"""A queue of failed jobs: in order, nothing lost, nothing twice, whoever is killed; and what the epilog writes."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from firstfault.pipelines import batch as batch_module
from firstfault.pipelines import queue as queue_module
from firstfault.pipelines.batch import Limits
from firstfault.pipelines.batch_child import groups_of
from firstfault.pipelines.errors import PipelineError
from firstfault.pipelines.options import DiagnoseOptions
from firstfault.pipelines.queue import Note, Queue, drain, patterns_of
from firstfault.readers.jobs import there

EPILOG = Path(__file__).parents[3] / "examples" / "slurm" / "epilog.sh"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.25 GiB is free.\n"
JOB = {
    "SLURM_JOB_ID": "4711",
    "SLURM_JOB_EXIT_CODE2": "1:0",
    "SLURM_JOB_UID": "1000",
    "SLURM_JOB_GID": "1000",
    "SLURM_JOB_USER": "ann",
    "SLURM_JOB_WORK_DIR": "/work/ann",
    "SLURM_JOB_STDOUT": "/work/ann/train-%j.out",
    "SLURM_JOB_NAME": "train",
}


def epilog(queue, **changes):
    env = {**{k: v for k, v in JOB.items() if changes.get(k, v) is not None}, **{k: v for k, v in changes.items() if v}}
    began = time.perf_counter()
    done = subprocess.run(
        ["bash", str(EPILOG)],
        env={"PATH": os.environ["PATH"], "FIRSTFAULT_QUEUE": str(queue), **env},
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return time.perf_counter() - began


@pytest.fixture
def queue(tmp_path):
    Queue(str(tmp_path / "queue"))
    return tmp_path / "queue"


def notes(queue, number, logs, first=1):
    """Notes of jobs whose logs are there, in the order of their numbers backwards: age counts, not the number."""
    for n in range(first, first + number):
        path = logs / f"job-{n}.out"
        path.write_text(f"step {n} loss 2.0\n{OOM}")
        note = queue / "new" / f"{n}.0"
        note.write_text(
            f"JOB_ID={n}\nEXIT_CODE=1:0\nUID={os.getuid()}\nWORK_DIR={logs}\nSTDOUT={path.name.replace(str(n), '%j')}\n"
        )
        os.utime(note, ns=((10_000 - n) * 10**9, (10_000 - n) * 10**9))


def answers(queue):
    return {path.name: json.loads(path.read_text()) for path in (queue / "out").glob("*.json")}


def test_the_epilog_notes_what_failed_once(queue):
    epilog(queue)
    epilog(queue, SLURM_JOB_EXIT_CODE2="9:0")  # of another node
    epilog(queue, SLURM_JOB_ID="4712", SLURM_JOB_EXIT_CODE2="0:0")
    epilog(queue, SLURM_JOB_ID="4713", SLURM_JOB_RESTART_COUNT="2", SLURM_JOB_EXIT_CODE2="0:9")
    epilog(queue, SLURM_JOB_ID="4714", SLURM_ARRAY_JOB_ID="4710", SLURM_ARRAY_TASK_ID="3")
    (queue / "done" / "4715.0").write_text("")
    epilog(queue, SLURM_JOB_ID="4715")
    found = {note.name: note for note in Queue(str(queue)).waiting()}
    assert set(found) == {"4711.0", "4713.2", "4714.0"}
    assert (found["4711.0"].job, found["4711.0"].exit_code) == ("4711", 1)
    assert (found["4713.2"].job, found["4713.2"].exit_code) == ("4713", -9)
    assert found["4714.0"].job == "4710_3"
    assert sorted(p.name for p in (queue / "new").iterdir()) == ["4711.0", "4713.2", "4714.0"]


def test_the_epilog_lets_nobody_write_lines_of_his_own(queue):
    epilog(queue, SLURM_JOB_WORK_DIR="/work/x\nUID=0\nSTDOUT=/etc/shadow", SLURM_JOB_NAME="a=b")
    (note,) = Queue(str(queue)).waiting()
    assert note.number("UID") == 1000
    assert "WORK_DIR" not in note.values
    assert note.values["JOB_NAME"] == "a=b"


def test_the_epilog_harms_no_node_where_the_queue_is_gone(tmp_path):
    epilog(tmp_path / "nowhere")
    (tmp_path / "new").write_text("")
    epilog(tmp_path)


def test_output_files_are_found_by_the_marks_of_the_scheduler(tmp_path):
    for name in (
        "train-4711.out",
        "train-4712.out",
        "e-0004711-n1.err",
        "e-0004711-n2.err",
        "slurm-4711.out",
        "a*b.out",
        "axb.out",
    ):
        (tmp_path / name).write_text("")
    (tmp_path / "logs" / "4711").mkdir(parents=True)
    (tmp_path / "logs" / "4711" / "rank0.log").write_text("")

    def found(*patterns, **values):
        note = Note("4711.0", {"JOB_ID": "4711", "WORK_DIR": str(tmp_path), **values})
        return [str(Path(p).relative_to(tmp_path)) for p in there(patterns_of(note, patterns))]

    assert found(STDOUT="train-%j.out", STDERR="e-%7j-%N.err") == [
        "train-4711.out", "e-0004711-n1.err", "e-0004711-n2.err", "slurm-4711.out",
    ]  # fmt: skip
    assert found(STDOUT="%x-%j.out", JOB_NAME="") == ["slurm-4711.out", "train-4711.out"]
    assert found(STDOUT="a*b.out") == ["a*b.out", "slurm-4711.out"]
    assert found(f"{tmp_path}/logs/%j", STDOUT="/dev/null") == ["slurm-4711.out", "logs/4711"]


def test_a_queue_is_drained_in_order(queue, tmp_path):
    notes(queue, 9, tmp_path)
    (queue / "new" / ".4711.0.part").write_text("half a note")
    (queue / "new" / "README").write_text("no note")
    (queue / "new" / "77.0").write_text(f"JOB_ID=77\nEXIT_CODE=1:0\nUID={os.getuid()}\nWORK_DIR=/nowhere\n")
    told = []
    found = drain(str(queue), DiagnoseOptions(), Limits(at_once=2), lambda answer: told.append(answer.job) or "{}\n")
    assert told == [answer.job for answer in found] == [*map(str, range(9, 0, -1)), "77"]
    assert [answer.category for answer in found[:9]] == ["gpu_cuda"] * 9
    assert found[9].state == "no_logs"
    assert len(answers(queue)) == len(list((queue / "done").iterdir())) == 10
    assert sorted(p.name for p in (queue / "new").iterdir()) == [".4711.0.part", "README"]


def test_two_hundred_jobs_with_a_killed_worker_in_between(queue, tmp_path):
    notes(queue, 200, tmp_path)
    command = [sys.executable, "-m", "firstfault", "batch", "--queue", str(queue), "--format", "json"]
    times = {}
    for kill_at in (20, 90, None):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as worker:
            while kill_at is not None and worker.poll() is None and len(list((queue / "out").glob("*.json"))) < kill_at:
                time.sleep(0.01)
            if kill_at is not None:
                worker.send_signal(signal.SIGKILL)
            _, told = worker.communicate(timeout=600)
            assert kill_at is not None or worker.returncode == 1, told
        for path in (queue / "out").glob("*.json"):
            times.setdefault(path.name, path.stat().st_mtime_ns)
    found = answers(queue)
    assert {name: answer["category"] for name, answer in found.items()} == {
        f"{n}.0.json": "gpu_cuda" for n in range(1, 201)
    }
    assert sorted(p.name for p in (queue / "done").iterdir()) == sorted(f"{n}.0" for n in range(1, 201))
    assert list((queue / "new").iterdir()) == []
    now = {path.name: path.stat().st_mtime_ns for path in (queue / "out").glob("*.json")}
    assert now == times  # nothing was written twice
    ordered = sorted(now, key=now.__getitem__)
    assert ordered == [f"{n}.0.json" for n in range(200, 0, -1)]


def test_an_answer_that_is_there_is_not_given_again(queue, tmp_path):
    notes(queue, 1, tmp_path)
    (queue / "out" / "1.0.json").write_text("as it was")
    assert drain(str(queue), DiagnoseOptions(), Limits(), lambda _: "other") == []
    assert (queue / "out" / "1.0.json").read_text() == "as it was"
    assert [p.name for p in (queue / "done").iterdir()] == ["1.0"]


def test_one_drains_at_a_time(queue):
    with Queue(str(queue)).alone(), pytest.raises(PipelineError, match="another process"):
        drain(str(queue), DiagnoseOptions(), Limits(), lambda _: "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root reads as somebody else")
def test_a_worker_of_roots_reads_as_the_owner_of_the_job(queue):
    with tempfile.TemporaryDirectory() as place:  # a folder that others can reach, as those of tests cannot be
        Path(place).chmod(0o755)
        for n, mode in ((1, 0o600), (2, 0o644)):
            path = Path(place, f"{n}.log")
            path.write_text(OOM)
            path.chmod(mode)
            (queue / "new" / f"{n}.0").write_text(
                f"JOB_ID={n}\nEXIT_CODE=1:0\nUID=65534\nGID=65534\nWORK_DIR=/\nSTDOUT={path}\n"
            )
        found = {a.job: a for a in drain(str(queue), DiagnoseOptions(), Limits(at_once=1), lambda a: a.job)}
    assert found["1"].state == "unread", found["1"]
    assert found["2"].category == "gpu_cuda", found["2"]
    assert (queue / "out" / "1.0.json").stat().st_uid == 65534
    assert (queue / "out" / "1.0.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has more to lose")
def test_root_drains_no_queue_into_which_others_write(queue):
    (queue / "new").chmod(0o777)
    with pytest.raises(PipelineError, match="others than root"):
        Queue(str(queue))


def test_no_note_stops_the_worker(queue, tmp_path):
    odd = os.fsdecode(b"tr\xff")
    (tmp_path / f"{odd}-3.out").write_text(OOM)
    (tmp_path / "train-4.out").symlink_to(tmp_path / "nowhere")
    (tmp_path / "train-5.out").write_text(OOM)
    texts = {
        "1": b"STDOUT=%99999999999j.out",
        "2": b"STDOUT=a\0b",
        "3": b"STDOUT=tr\xff-%j.out",
        "4": b"STDOUT=train-%j.out",
        "5": b"STDOUT=train-%j.out\nEXIT_CODE=x:y\nGID=999999999999",
        "6": b"\xff\0=\n==\nSTDOUT",
    }
    for name, text in texts.items():
        head = f"JOB_ID={name}\nUID={os.getuid()}\nWORK_DIR={tmp_path}\n".encode()
        (queue / "new" / name).write_bytes(head + text)
    found = drain(str(queue), DiagnoseOptions(), Limits(at_once=1), lambda answer: answer.job)
    assert {a.job: (a.state, [Path(p).name for p in a.paths]) for a in found} == {
        "1": ("no_logs", []),
        "2": ("no_logs", []),
        "3": ("diagnosed", ["tr\\xff-3.out"]),
        "4": ("no_logs", []),
        "5": ("diagnosed", ["train-5.out"]),
        "6": ("no_logs", []),
    }
    assert list((queue / "new").iterdir()) == []


def test_files_of_other_jobs_are_not_taken_for_want_of_a_number():
    values = {"JOB_ID": "4711", "WORK_DIR": "/w", "USER": "ann", "JOB_NAME": "../../etc"}

    def wanted(*patterns, **more):
        found = patterns_of(Note("4711.0", {**values, **more}), patterns)
        return [p for p in found if not p.startswith("/w/slurm-")]

    assert wanted(STDOUT="%N.out") == []  # every job of the folder
    assert wanted(STDOUT="%j-%N.out") == ["/w/4711-*.out"]
    assert wanted("/logs/%x/*") == []  # leads elsewhere
    assert wanted("/logs/%x/*", JOB_NAME="..") == []
    assert wanted("/logs/%x/*", JOB_NAME="") == []
    assert wanted("/logs/%u/*") == ["/logs/ann/*"]  # the owner of the queue says so
    assert wanted("/logs/%u/%j", USER="") == ["/logs/*/4711"]


def test_the_owner_of_a_job_comes_to_its_answer_and_nobody_else_holds_the_queue(queue):
    with Queue(str(queue)).alone():
        assert (queue / ".lock").stat().st_mode & 0o777 == 0o600
    assert (queue / "out").stat().st_mode & 0o777 == 0o711
    assert (queue / "new").stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has more to lose")
def test_root_reads_nothing_for_nobody(queue, tmp_path):
    notes(queue, 1, tmp_path)
    note = queue / "new" / "1.0"
    for user in ("", "UID=4294967295", "UID=99999999999", "UID=-1", "UID=x"):
        note.write_text(f"JOB_ID=1\n{user}\nWORK_DIR={tmp_path}\nSTDOUT=job-1.out\n")
        (found,) = drain(str(queue), DiagnoseOptions(), Limits(at_once=1), lambda _: "")
        assert (found.job, found.state, found.paths) == ("1", "unread", []), user
        (queue / "out" / "1.0.json").unlink()


def test_a_member_of_a_project_is_read_as_one(monkeypatch):
    pwd = pytest.importorskip("pwd")

    known = pwd.getpwall()[-1]
    monkeypatch.setattr(os, "getgrouplist", lambda name, group: [group, 4242] if name == known.pw_name else [])
    assert groups_of(known.pw_uid, 77) == (77, [77, 4242])
    assert groups_of(known.pw_uid, None) == (known.pw_gid, [known.pw_gid, 4242])
    assert groups_of(4294967290, None) == (65534, [])
    assert groups_of(4294967290, 9) == (9, [9])


def test_notes_stay_where_nothing_can_be_read_for_anybody(queue, tmp_path, monkeypatch):
    notes(queue, 2, tmp_path)
    real = subprocess.Popen

    def broken(command, **kwargs):
        return real([sys.executable, "-c", "raise SystemExit(70)"], **kwargs)

    monkeypatch.setattr(batch_module.subprocess, "Popen", broken)
    with pytest.raises(PipelineError, match="do not start"):
        drain(str(queue), DiagnoseOptions(), Limits(at_once=1), lambda _: "")
    assert len(list((queue / "new").iterdir())) == 2


def test_the_time_for_all_is_for_all(queue, tmp_path, monkeypatch):
    monkeypatch.setattr(queue_module, "AT_ONCE", 1)
    notes(queue, 3, tmp_path)
    left = []

    def slow(asked, options, limits, told):
        left.append(limits.deadline)
        time.sleep(0.3)
        return real(asked, options, limits, told)

    real = queue_module.batch
    monkeypatch.setattr(queue_module, "batch", slow)
    drain(str(queue), DiagnoseOptions(), Limits(at_once=1, deadline=300.0), lambda _: "")
    assert len(left) == 3
    assert left[0] > left[1] + 0.3 > left[2] + 0.6


def test_a_full_disk_loses_no_job(queue, tmp_path, monkeypatch):
    notes(queue, 2, tmp_path)

    def full(descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(queue_module.os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            drain(str(queue), DiagnoseOptions(), Limits(at_once=1), lambda _: "x")
    assert len(list((queue / "new").iterdir())) == 2
    assert answers(queue) == {}
    assert len(drain(str(queue), DiagnoseOptions(), Limits(at_once=1), lambda _: "{}")) == 2


def test_the_faster_of_two_nodes_leaves_one_note(queue, tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "mv").write_text(f'#!/bin/sh\necho other > {queue}/new/4711.0\nexec /bin/mv "$@"\n')
    (tools / "mv").chmod(0o755)
    epilog(queue, PATH=f"{tools}:{os.environ['PATH']}")
    assert [p.name for p in (queue / "new").iterdir()] == ["4711.0"]
    assert (queue / "new" / "4711.0").read_text() == "other\n"
