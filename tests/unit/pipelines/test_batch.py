"""Many jobs: each within its limits, none lost, and the same answers as one by one."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from firstfault.model.batch import Batch, JobAnswer
from firstfault.pipelines import batch as module
from firstfault.pipelines import batch_child
from firstfault.pipelines.batch import Asked, Limits, batch, exit_code_of, jobs_of, publish_batch
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.errors import PipelineError
from firstfault.pipelines.options import DiagnoseOptions
from firstfault.readers.jobs import Job

CASES = Path(__file__).parents[2] / "cases"
SOME = ("apex-loss-scale-halved-to-zero", "asr-oom-one-rank", "accelerate-nohup-terminal-closed")
OPTIONS = DiagnoseOptions()
CHILD = """
import json, os, signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
for line in sys.stdin:
    asked = json.loads(line)
    what = asked["job"]
    if what == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "hang":
        time.sleep(600)
    if what == "slow":
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            time.sleep(600)
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    if what == "grow":
        kept = b"x" * 400_000_000
        time.sleep(600)
    print(json.dumps({"schema": "s", "job": what, "paths": asked["paths"], "failed": True, "category": "data", "strength": "possible", "exit_code": 1}), flush=True)
"""


@pytest.fixture
def jobs(tmp_path):
    for name in SOME:
        (tmp_path / name).symlink_to(CASES / name / "logs")
    return tmp_path


@pytest.fixture
def children(monkeypatch):
    """Children that do what the job's name says instead of reading."""
    real = subprocess.Popen

    def other(command, **kwargs):
        return real([sys.executable, "-c", CHILD], **kwargs)

    monkeypatch.setattr(module.subprocess, "Popen", other)
    monkeypatch.setattr(module, "GRACE", 1.0)


def named(*names):
    return [Asked(Job(name, (f"/logs/{name}",))) for name in names]


def states(found):
    return {answer.job: answer.state for answer in found.jobs}


@pytest.mark.parametrize("at_once", [1, 2])
def test_answers_are_those_of_one_by_one(jobs, at_once):
    found = batch(jobs_of([str(jobs)], None), OPTIONS, Limits(at_once=at_once))
    assert [answer.job for answer in found.jobs] == sorted(SOME)
    for answer in found.jobs:
        alone = diagnose(answer.paths, OPTIONS)
        assert (answer.category, answer.strength, answer.summary, answer.culprits, answer.first_line) == (
            alone.verdict.category,
            alone.verdict.strength,
            alone.verdict.summary,
            alone.verdict.culprits,
            alone.verdict.trigger,
        )
        assert answer.state == "diagnosed"
        assert answer.seconds > 0
    assert exit_code_of(found) == 1


def test_what_the_scheduler_says_goes_into_the_diagnosis(tmp_path):
    (tmp_path / "run-7001").mkdir()
    (tmp_path / "run-7001" / "a.log").write_text("step 1 loss 2.0\nstep 2 loss 1.9\n")
    listed = tmp_path / "sacct.txt"
    listed.write_text("JobID|State|ExitCode\n7001|TIMEOUT|0:0\n7002|FAILED|1:0\n7003|COMPLETED|0:0\n")
    found = batch(jobs_of([str(tmp_path)], str(listed)), OPTIONS, Limits())
    assert states(found) == {"7001": "diagnosed", "7002": "no_logs"}
    first = found.jobs[0]
    assert (first.category, first.failed, first.scheduler_state) == ("infrastructure", True, "TIMEOUT")
    everything = jobs_of([str(tmp_path)], str(listed), every=True)
    assert [one.job.name for one in everything] == ["7001", "7002", "7003"]


def test_a_job_that_harms_costs_its_own_answer_alone(children):
    asked = named("a", "die", "b", "hang", "slow", "grow", "c")
    told = []
    found = batch(asked, OPTIONS, Limits(seconds=3.0, memory_mb=200, at_once=2), told.append)
    assert states(found) == {
        "a": "diagnosed",
        "die": "broken",
        "b": "diagnosed",
        "hang": "too_long",
        "slow": "cut_short",
        "grow": "too_much_memory",
        "c": "diagnosed",
    }
    assert told == found.jobs
    assert [s.jobs for s in found.categories] == [["a", "b", "slow", "c"]]


def test_jobs_that_were_not_begun_are_told_when_the_time_is_over(children):
    found = batch(named("hang", "a", "b"), OPTIONS, Limits(deadline=1.0, at_once=1))
    assert states(found) == {"hang": "too_long", "a": "not_begun", "b": "not_begun"}
    assert exit_code_of(found) == 3


def test_an_interrupt_leaves_what_was_found_and_no_process(children):
    asked = named("a", "hang", "b")
    began = []

    def told(answer):
        began.append(answer.job)
        if answer.job == "a":
            raise KeyboardInterrupt

    found = batch(asked, OPTIONS, Limits(at_once=1), told)
    assert began == ["a", "hang", "b"]
    assert states(found) == {"a": "diagnosed", "hang": "not_begun", "b": "not_begun"}


def test_no_process_is_left(children):
    batch(named("hang"), OPTIONS, Limits(seconds=0.5, at_once=1))
    left = subprocess.run(
        ["ps", "--ppid", str(os.getpid()), "-o", "args="], capture_output=True, text=True, check=False
    )
    assert "time.sleep(600)" not in left.stdout


def test_an_interrupt_between_two_jobs_does_nothing(jobs):
    command = [sys.executable, "-m", "firstfault.pipelines.batch_child"]
    request = batch_child.encoded(batch_child.Request("x", [os.fsencode(jobs / SOME[1])], OPTIONS))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as child:
        for _ in range(2):
            child.stdin.write(request)
            assert msgspec.json.decode(child.stdout.readline(), type=JobAnswer).category == "gpu_cuda"
            child.send_signal(signal.SIGINT)  # between two jobs it does nothing
            time.sleep(0.05)
        child.stdin.close()
        assert child.wait(timeout=300) == 0


def test_answers_of_a_child_tell_what_went_wrong(tmp_path, monkeypatch):
    def answer(paths, **options):
        return batch_child.answer(batch_child.Request("x", [*map(os.fsencode, paths)], DiagnoseOptions(**options)))

    assert answer([str(tmp_path / "none")]).state == "unread"
    monkeypatch.setattr(batch_child, "_diagnosed", lambda request, paths: 1 / 0)
    assert answer([]).state == "broken"
    assert "ZeroDivisionError" in answer([]).note

    def stopped(request, paths):
        raise KeyboardInterrupt

    monkeypatch.setattr(batch_child, "_diagnosed", stopped)
    assert answer([]).state == "too_long"


def test_a_child_is_replaced_after_many_jobs(children, monkeypatch):
    monkeypatch.setattr(module, "ONE_CHILD", 2)
    found = batch(named(*(f"j{n}" for n in range(7))), OPTIONS, Limits(at_once=1))
    assert set(states(found).values()) == {"diagnosed"}


def test_wrong_use_is_told(tmp_path):
    with pytest.raises(PipelineError, match="no job lies there"):
        jobs_of([str(tmp_path)], None)
    (tmp_path / "list").write_text("x")
    with pytest.raises(PipelineError, match="cannot be used"):
        jobs_of([str(tmp_path)], str(tmp_path / "list"))


def test_folders_with_jobs_of_one_name_keep_them_apart(tmp_path):
    for day in ("monday", "tuesday"):
        (tmp_path / day / "run-1").mkdir(parents=True)
    asked = jobs_of([str(tmp_path / "monday"), str(tmp_path / "tuesday")], None)
    assert [one.job.name for one in asked] == ["monday/run-1", "tuesday/run-1"]


def test_a_folder_that_is_named_twice_holds_its_jobs_once(tmp_path):
    (tmp_path / "a" / "x" / "run-1").mkdir(parents=True)
    (tmp_path / "b" / "x" / "run-1").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    places = [str(tmp_path / name) for name in ("a/x", "a/x/", "link/x", "b/x")]
    assert [one.job.name for one in jobs_of(places, None)] == ["a/x/run-1", "b/x/run-1"]


def test_no_job_is_left_out_for_a_word_of_the_scheduler_that_is_cut_or_new(tmp_path):
    (tmp_path / "l").write_text(
        "JobID|State|ExitCode\n4711|OUT_OF_ME+|0:125\n4712|LAUNCH_FAILED|1:0\n4713|COMPLETED|0:0\n4714|RUNNING|0:0\n4715|CANCELLED by 7|0:15\n"
    )
    asked = jobs_of([str(tmp_path)], str(tmp_path / "l"))
    assert [(one.job.name, one.state) for one in asked] == [
        ("4711", "OUT_OF_MEMORY"),
        ("4712", None),
        ("4715", "CANCELLED"),
    ]


def test_a_name_that_is_no_text_and_signatures_of_ones_own_go_to_the_child(tmp_path):
    (tmp_path / "day").mkdir()
    (tmp_path / "own").mkdir()
    path = tmp_path / "day" / os.fsdecode(b"a\xff\xfe.log")
    path.write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")
    options = DiagnoseOptions(signatures=(tmp_path / "own",))
    found = batch(jobs_of([str(tmp_path / "day")], None), options, Limits(at_once=1))
    assert [answer.category for answer in found.jobs] == ["gpu_cuda"]
    assert msgspec.json.decode(publish_batch(found, "json", "secrets", key=b""))["job"] == "a\\xff\\xfe.log"


def test_a_report_is_not_written_over_what_is_to_be_read(tmp_path):
    (tmp_path / "a.log").write_text("RuntimeError: x\n")
    words = [sys.executable, "-m", "firstfault", "batch", str(tmp_path), "--exit-zero"]
    done = subprocess.run([*words, "-o", str(tmp_path / "a.log")], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "destroy" in done.stderr
    assert (tmp_path / "a.log").read_text() == "RuntimeError: x\n"
    for form in ("text", "csv", "json"):
        for _ in range(2):  # an older report of ours may be replaced
            done = subprocess.run(
                [*words, "--format", form, "-o", str(tmp_path / "own")], capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
        (tmp_path / "own").unlink()


def test_an_order_to_stop_that_comes_before_a_child_listens_is_no_fault_of_the_job(monkeypatch):
    real = subprocess.Popen
    monkeypatch.setattr(
        module.subprocess,
        "Popen",
        lambda command, **k: real([sys.executable, "-c", "import time; time.sleep(60)"], **k),
    )
    found = batch(named("a"), OPTIONS, Limits(seconds=0.01, at_once=1))
    assert states(found) == {"a": "too_long"}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a child ends with its job")
def test_a_child_ends_with_whoever_asks(tmp_path):
    os.mkfifo(tmp_path / "never")
    asking = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-m', 'firstfault.pipelines.batch_child'], stdin=open(sys.argv[1], 'r+b', buffering=0), stdout=subprocess.PIPE, start_new_session=True)\n"
        "print(child.pid, flush=True)\nchild.wait()\n"
    )
    with subprocess.Popen([sys.executable, "-c", asking, str(tmp_path / "never")], stdout=subprocess.PIPE) as parent:
        pid = int(parent.stdout.readline())
        time.sleep(1.0)
        assert Path(f"/proc/{pid}").exists()
        parent.kill()
    end = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.05)
    else:
        assert not Path(f"/proc/{pid}").exists()


def some(**changes):
    return Batch(
        jobs=[
            msgspec.convert(
                {
                    "schema": "s", "job": "4711", "paths": ["/data/alice/4711"], "failed": True, "category": "gpu_cuda",
                    "strength": "established", "summary": "Out of memory on gpu-node-17.", "exit_code": 1,
                    "culprits": {"ranks": [3], "hosts": ["gpu-node-17"], "strength": "established"}, **changes,
                },
                JobAnswer,
            )
        ]
        * 2
    )  # fmt: skip


def test_pseudonyms_are_those_of_the_whole_batch():
    lines = publish_batch(some(), "json", "identities", key=b"k" * 16).splitlines()
    assert len(lines) == 2
    assert lines[0] == lines[1]
    assert "gpu-node-17" not in lines[0]
    table = publish_batch(some(), "text", "identities", key=b"k" * 16)
    assert msgspec.json.decode(lines[0])["culprits"]["hosts"][0] in table


@pytest.mark.parametrize("form", ["text", "json", "csv"])
def test_what_a_log_holds_cannot_act(form):
    text = publish_batch(
        some(job="=cmd()\x1b[31m", summary="=1+1\x1b]0;x\x07 token=hf_" + "QzXw7Lk2Vb9RtYpM4sDfGhJ1cNeUoIaK3x"),
        form,
        "secrets",
        key=b"",
    )
    assert "\x1b" not in text
    assert "hf_QzXw" not in text
    if form == "csv":
        assert "'=cmd" in text


def test_no_line_is_wider_than_the_page():
    for width in (40, 80, 200):
        for language in ("en", "zh"):
            text = publish_batch(some(), "text", "secrets", key=b"", width=width, language=language)
            assert max(map(len, text.splitlines())) <= width


def test_the_answers_as_metrics(jobs, tmp_path_factory):
    from firstfault.cli.main import run

    place = tmp_path_factory.mktemp("textfile") / "firstfault.prom"
    place.write_text("old")
    assert run(["batch", str(jobs), "--textfile", str(place), "--format", "csv"]) == 1
    lines = place.read_text().splitlines()
    assert 'firstfault_jobs{state="diagnosed"} 3' in lines
    told = {
        line.split("{")[1].split("}")[0]: int(line.split()[-1])
        for line in lines
        if line.startswith("firstfault_jobs_diagnosed{")
    }
    answers = batch(jobs_of([str(jobs)], None), OPTIONS, Limits()).jobs
    assert sum(told.values()) == len(answers) == 3
    assert all(f'category="{a.category}",strength="{a.strength}"' in told for a in answers)
    names = [line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")]
    assert set(names) <= {line.split(" ")[2] for line in lines if line.startswith("# TYPE")}
    assert [p.name for p in place.parent.iterdir()] == ["firstfault.prom"]


def test_labels_of_metrics_are_escaped_and_hosts_hidden_where_asked():
    from firstfault.model.diagnosis import Culprits
    from firstfault.model.words import Category, Strength

    answers = [
        JobAnswer(job=str(n), paths=[], category=Category.GPU_CUDA, strength=Strength.SUPPORTED, failed=True, exit_code=1,
                  culprits=Culprits(hosts=['gpu"n7\\']))
        for n in range(2)
    ]  # fmt: skip
    plain = module.publish_counts(module.summed(answers), "secrets", key=b"k" * 16)
    assert 'firstfault_culprit_jobs{host="gpu\\"n7\\\\"} 2' in plain
    assert "n7" not in module.publish_counts(module.summed(answers), "identities", key=b"k" * 16)


def test_the_textfile_may_not_be_the_evidence(jobs):
    from firstfault.cli.main import run

    assert run(["batch", str(jobs), "--textfile", str(jobs / SOME[0])]) == 2
