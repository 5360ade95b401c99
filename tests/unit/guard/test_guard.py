"""Trials under watch: real commands, programs on cards as a false nvidia-smi tells them, real kills. The truth is what was done."""

import ctypes
import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from firstfault.cli.guard import command
from firstfault.guard import gpus, matrix
from firstfault.guard.matrix import MatrixError, Stage, exchange, read_matrix, read_plan, read_trial
from firstfault.guard.watching import Watch
from firstfault.pipelines.errors import PipelineError
from firstfault.pipelines.guard import GuardOptions, run_matrix, run_trial

SMI = """#!/bin/sh
case "$1" in
*query-gpu=index,pci*) echo "0, 00000000:17:00.0, ${USED:-10}, 0, 1980, 40, 0x0000000000000000"; echo "1, 00000000:2A:00.0, 10, 0, 1200, 80, 0x40";;
*compute-apps*) cat "$PROGRAMS" 2> /dev/null;;
esac
exit 0
"""
OPTIONS = {"every_s": 0.1, "revision": "r1", "image": "sha256:" + "0" * 64}


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with two cards; the file says which programs are on them."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "nvidia-smi").write_text(SMI, encoding="utf-8")
    (tools / "nvidia-smi").chmod(0o755)
    (tmp_path / "profile").write_text('{"driver": "570.86.15"}', encoding="utf-8")
    (tmp_path / "code").mkdir()
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PROGRAMS", str(tmp_path / "programs"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("firstfault.pipelines.guard._profile", profile_of(tmp_path))
    return tmp_path


def profile_of(folder):
    from msgspec import to_builtins
    from msgspec.structs import replace

    from firstfault.pipelines.guard import read_profile
    from firstfault.preflight.framed import digest_of

    def given(path):
        found = read_profile(path or folder / "profile")
        return replace(found, digest=digest_of(to_builtins(found)))

    return given


def options(folder, **more):
    return GuardOptions(**{**OPTIONS, "code": str(folder / "code"), **more})


def trial(folder, name="a", words=("true",), of=2, names=(), **more):
    return run_trial(Stage(str(folder / "out"), of, list(names)), name, words, options(folder, **more))


def on_card(folder, pid, bus="2A", name="python"):
    (folder / "programs").write_text(f"{pid}, 4096, 00000000:{bus}:00.0, {name}\n", encoding="utf-8")


def files_of(place):
    return {str(f.relative_to(place)): f.read_bytes() for f in sorted(place.rglob("*")) if f.is_file()}


WRITE = ("sh", "-c", 'echo "{\\"loss\\": 1.5}" > "$FIRSTFAULT_TRIAL_DIR/result.json"')


def test_a_whole_matrix_is_published_and_a_part_is_not(machine):
    first = trial(machine, "a", WRITE)
    assert (first.trial.state, first.done, first.published) == ("valid", 1, None)
    assert not (machine / "out").exists()
    second = trial(machine, "b", WRITE)
    assert second.published == machine / "out"
    assert {p.name for p in (machine / "out").iterdir()} == {"a", "b", "matrix.json"}
    assert read_matrix(machine / "out").published
    assert json.loads((machine / "out" / "b" / "result.json").read_text()) == {"loss": 1.5}
    assert not (machine / "out.staging").exists()


def test_a_new_matrix_takes_the_place_of_the_old_only_when_it_is_whole(machine):
    for name in ("a", "b"):
        trial(machine, name, WRITE)
    old = files_of(machine / "out")
    trial(machine, "a", ("true",))
    assert files_of(machine / "out") == old
    done = trial(machine, "b", ("true",))
    assert "result.json" not in {Path(f).name for f in files_of(machine / "out")}
    assert files_of(done.before) == old


@pytest.mark.parametrize(
    ("meanwhile", "word"),
    [
        ("mkdir out.staging/a", "another guard staged"),
        ("mv out.staging out", "published or moved away"),
        ('echo \'{"trials": [], "of": 3}\' > out.staging/matrix.json', "published or moved away"),
        ('rm -r "$FIRSTFAULT_TRIAL_DIR"', "could not be written down"),
    ],
)
def test_a_trial_whose_place_was_taken_while_it_ran_is_kept_and_told(machine, monkeypatch, meanwhile, word):
    monkeypatch.chdir(machine)
    words = ["--results", "out", "--trial", "a", "--of", "2", "--code", "code", "--revision", "r1", "--image", OPTIONS["image"]]  # fmt: skip
    done = CliRunner().invoke(
        command, [*words, "--interval", "0.1", "--require-valid", "--", "sh", "-c", meanwhile], standalone_mode=False
    )
    assert done.return_value == 1
    assert "the trial a is not staged" in done.stderr
    assert word in done.stderr
    assert "counts" not in done.stderr
    assert not (machine / "out" / "a").exists()


def test_an_image_that_is_named_by_a_tag_is_told_as_that(machine, monkeypatch):
    monkeypatch.setattr("firstfault.guard.provenance.kind", lambda machine: "docker")
    monkeypatch.setenv("FIRSTFAULT_IMAGE", "registry.example/train:24.07")
    reasons = trial(machine, image="").trial.reasons
    assert [r for r in reasons if "FIRSTFAULT_IMAGE holds none" in r]


def test_a_stranger_before_the_trial_makes_it_invalid_and_lives(machine):
    stranger = subprocess.Popen(["sleep", "60"], env={})
    try:
        on_card(machine, stranger.pid)
        done = trial(machine, "a", WRITE, of=1)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
    assert (done.trial.state, done.code, done.published) == ("invalid", 0, None)
    assert str(stranger.pid) in done.trial.reasons[0]
    assert "GPU 1" in done.trial.reasons[0]
    assert read_trial(done.place).strangers[0].pid == stranger.pid
    assert not (machine / "out").exists()


def test_a_stranger_that_comes_and_goes_while_it_runs_is_seen(machine):
    script = f'sleep 60 & echo "$!, 9, 00000000:17:00.0, x" > own; cat own > {machine}/programs; sleep 0.5; cat other > {machine}/programs; sleep 0.8; : > {machine}/programs; kill $!'
    stranger = subprocess.Popen(["sleep", "60"], env={})
    (machine / "other").write_text(f"{stranger.pid}, 9, 00000000:17:00.0, x\n", encoding="utf-8")
    here = Path.cwd()
    try:
        os.chdir(machine)
        done = trial(machine, "a", ("sh", "-c", script), of=1)
    finally:
        os.chdir(here)
        stranger.kill()
        stranger.wait()
    assert done.trial.state == "invalid"
    assert [(s.pid, s.when) for s in done.trial.strangers] == [(stranger.pid, "during")]
    assert done.trial.looks >= 3


def test_what_the_trial_started_is_no_stranger_even_in_a_session_of_its_own(machine):
    script = f"setsid sh -c 'echo \"$$, 9, 00000000:17:00.0, x\" > {machine}/programs; sleep 0.6; : > {machine}/programs' & wait"
    done = trial(machine, "a", ("sh", "-c", script), of=1)
    assert (done.trial.state, done.trial.strangers) == ("valid", [])


def test_a_card_that_the_trial_may_not_use_does_not_count(machine, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    on_card(machine, os.getppid())
    assert trial(machine, "a", of=1).trial.state == "valid"


def test_memory_that_nobody_shown_holds_is_a_stranger(machine, monkeypatch):
    monkeypatch.setenv("USED", "60000")
    done = trial(machine, "a", of=1)
    assert done.trial.state == "invalid"
    assert "60000 MB" in done.trial.reasons[0]


def test_processes_of_another_namespace_prove_nothing(machine):
    script = f'echo "4194200, 9, 00000000:17:00.0, x" > {machine}/programs; sleep 0.8; : > {machine}/programs'
    done = trial(machine, "a", ("sh", "-c", script), of=1)
    assert done.trial.state == "unproven"
    assert "--pid=host" in done.trial.reasons[0]


def test_cards_that_do_not_answer_prove_nothing(machine, monkeypatch):
    (machine / "bin" / "nvidia-smi").write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    monkeypatch.setattr(gpus, "LIMIT_S", 0.3)
    done = trial(machine, "a", of=1)
    assert done.trial.state == "unproven"
    assert "gave no answer" in done.trial.reasons[0]


def test_throttling_and_clocks_are_recorded(machine):
    card = trial(machine, "a", ("sleep", "0.5")).trial.cards[1]
    assert card.clock_mhz_least == 1200
    assert card.throttled["hardware thermal"] >= 1


@pytest.mark.parametrize(("lacks", "word"), [({"revision": ""}, "revision"), ({"image": ""}, "image")])
def test_a_trial_without_provenance_is_not_published(machine, lacks, word, monkeypatch):
    monkeypatch.setattr("firstfault.guard.provenance.kind", lambda machine: "docker")
    for name in ("FIRSTFAULT_IMAGE", "IMAGE_DIGEST"):
        monkeypatch.delenv(name, raising=False)
    done = trial(machine, "a", of=1, **lacks)
    assert done.trial.state == "unproven"
    assert word in done.trial.reasons[0]


def test_revision_and_changes_come_from_git(machine):
    def git(*words):
        subprocess.run(
            ["git", "-c", "user.name=x", "-c", "user.email=x@x.org", *words],
            cwd=machine / "code",
            check=True,
            capture_output=True,
        )

    git("init", "-q")
    (machine / "code" / "a").write_text("1")
    git("add", ".")
    git("commit", "-qm", "x")
    clean = trial(machine, "a").trial.provenance
    (machine / "code" / "a").write_text("2")
    dirty = trial(machine, "b")
    assert (len(clean.revision), clean.dirty, dirty.trial.provenance.dirty) == (40, False, True)
    assert dirty.published is None
    assert "state of the source" in dirty.refused.what


def test_trials_of_two_environments_are_not_published_together(machine):
    (machine / "other").write_text('{"driver": "535.1"}', encoding="utf-8")
    trial(machine, "a")
    done = trial(machine, "b", profile=str(machine / "other"))
    assert (done.trial.state, done.published) == ("valid", None)
    assert "must not be compared" in done.refused.what
    assert trial(machine, "a", again=True, profile=str(machine / "other")).published is not None


def test_the_exit_code_stays_and_a_failed_trial_is_kept(machine):
    done = trial(machine, "a", ("sh", "-c", "exit 37"), of=1)
    assert (done.code, done.trial.state) == (37, "failed")
    assert read_trial(done.place).exit_code == 37
    assert trial(machine, "a", ("sh", "-c", "kill -KILL $$"), of=1).code == 137


def test_what_is_no_matrix_is_never_replaced(machine):
    (machine / "out").mkdir()
    (machine / "out" / "mine").write_text("x")
    with pytest.raises(PipelineError, match="no published matrix"):
        trial(machine, "a", of=1)
    assert files_of(machine / "out") == {"mine": b"x"}


def test_a_file_system_that_cannot_exchange_keeps_both(machine, monkeypatch):
    trial(machine, "a", WRITE, of=1)
    old = files_of(machine / "out")

    def cannot(first, second):
        raise MatrixError("cannot", str(second), "")

    monkeypatch.setattr(matrix, "exchange", cannot)
    done = trial(machine, "a", of=1)
    assert done.refused is not None
    assert files_of(machine / "out") == old
    assert read_trial(machine / "out.staging" / "a").state == "valid"
    monkeypatch.undo()


class NoExchange:
    """The C library on a file system, such as NFS, that renames but does not exchange."""

    def renameat2(self, *words):
        del words
        ctypes.set_errno(errno.EINVAL)
        return -1


def test_what_was_staged_is_published_without_a_new_run_when_the_former_is_out_of_the_way(machine, monkeypatch):
    trial(machine, "a", WRITE, of=1)
    monkeypatch.setattr(matrix.ctypes, "CDLL", lambda *_, **__: NoExchange())
    refused = trial(machine, "a", of=1)
    assert refused.code == 0
    assert "cannot exchange" in refused.refused.what
    # The same command again: nothing is run, and what hinders is told once more.
    ran = machine / "ran"
    again = trial(machine, "a", ("touch", str(ran)), of=1)
    assert (again.code, again.refused is None, ran.exists()) == (1, False, False)
    new = files_of(machine / "out.staging")
    (machine / "out").rename(machine / "elsewhere")
    done = trial(machine, "a", ("touch", str(ran)), of=1)
    assert (done.code, done.published, ran.exists()) == (0, machine / "out", False)
    assert {k: v for k, v in files_of(machine / "out").items() if "matrix" not in str(k)} == {
        k: v for k, v in new.items() if "matrix" not in str(k)
    }


def test_an_exchange_is_one_step(tmp_path):
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text(name)
    exchange(tmp_path / "x", tmp_path / "y")
    assert (tmp_path / "x" / "y").exists()
    with pytest.raises(MatrixError):
        exchange(tmp_path / "x", tmp_path / "nothing")


@pytest.mark.parametrize("newer", [True, False])
def test_a_guard_that_was_killed_around_the_exchange_leaves_no_doubt(machine, newer):
    """Before it the staged one has the younger mark and goes on; after it the older one lies there and is put aside."""
    trial(machine, "a", WRITE, of=1)
    (machine / "out").rename(machine / "kept")
    trial(machine, "a", of=1)
    source, target = ("out", "kept") if newer else ("kept", "out")
    (machine / source).rename(machine / "out.staging")
    if target == "kept":
        (machine / "kept").rename(machine / "out")
    stage = Stage(str(machine / "out"), 1, [])
    stage.open()
    assert bool(stage.done()) is newer
    assert bool(list(machine.glob("out.before-*"))) is not newer


def start(machine, *words):
    from firstfault.guard import nvml_child

    root = Path(nvml_child.__file__).parents[2]
    base = [
        "guard",
        "--results",
        str(machine / "out"),
        "--revision",
        "r",
        "--image",
        OPTIONS["image"],
        "--code",
        str(machine / "code"),
    ]
    base += ["--profile", str(machine / "profile.json"), "--interval", "0.2"]
    (machine / "profile.json").write_text('{"schema": "firstfault.environment/1", "driver": "1"}', encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, "-m", "firstfault", *base, *words],
        env={**os.environ, "PYTHONPATH": str(root)},
        stderr=subprocess.PIPE,
    )


def wait_for(path):
    end = time.monotonic() + 60
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert path.exists()


def test_signals_reach_the_command_and_its_code_comes_back(machine):
    script = f"trap 'echo got > {machine}/got; exit 7' TERM; : > {machine}/up; while :; do sleep 0.05; done"
    guard = start(machine, "--", "sh", "-c", script)
    wait_for(machine / "up")
    guard.send_signal(signal.SIGTERM)
    _, told = guard.communicate(timeout=60)
    assert guard.returncode == 7
    assert (machine / "got").exists()
    assert b"failed" in told


def test_a_killed_guard_publishes_nothing_and_the_next_one_goes_on(machine):
    trial(machine, "only", WRITE, of=1)
    old = files_of(machine / "out")
    guard = start(machine, "--", "sh", "-c", f"echo $$ > {machine}/pid; : > {machine}/up; exec sleep 60")
    wait_for(machine / "up")
    guard.kill()
    guard.wait(timeout=60)
    os.kill(int((machine / "pid").read_text()), signal.SIGKILL)  # the command lives on: nobody is killed for the guard
    guard.communicate(timeout=60)
    assert files_of(machine / "out") == old
    assert not Stage(str(machine / "out"), 1, []).done()
    assert trial(machine, "only", WRITE, of=1).published is not None


def test_a_matrix_of_a_file_runs_what_is_missing_in_its_order(machine):
    (machine / "m.toml").write_text(
        'results = "r"\n[trials]\ntp2 = "sh -c \'exit 0\'"\ndp8 = ["sh", "-c", "exit 4"]\nlast = "true"\n'
    )
    plan = read_plan(str(machine / "m.toml"))
    assert (plan.results, list(plan.trials)) == ("r", ["tp2", "dp8", "last"])
    stage = Stage(str(machine / "out"), 3, list(plan.trials))
    told = []
    assert run_matrix(stage, plan.trials, options(machine), told.append) == 4
    assert [(o.trial.name, o.trial.state) for o in told] == [("tp2", "valid"), ("dp8", "failed")]
    assert run_matrix(stage, {**plan.trials, "dp8": ["true"]}, options(machine), told.append) == 0
    assert [o.trial.name for o in told[2:]] == ["dp8", "last"]
    assert told[-1].published == machine / "out"


@pytest.mark.parametrize(
    "text", ["", "trials = 3", 'trials = ["a", "a"]', '[trials]\n"../x" = "true"', "{", '{"trials": {".x": []}}']
)
def test_what_is_no_matrix_is_told(tmp_path, text):
    (tmp_path / "m").write_text(text)
    with pytest.raises(MatrixError):
        read_plan(str(tmp_path / "m"))


def test_another_matrix_is_not_mixed_in(machine):
    trial(machine, "a", of=2)
    with pytest.raises(PipelineError, match="another matrix"):
        trial(machine, "b", of=3)


def test_others_on_the_processors_count_where_there_is_no_card(monkeypatch):
    monkeypatch.setattr(gpus, "look", lambda: gpus.Gpus([], [], absent=True))
    watch = Watch("m")
    watch.begin()
    watch.end()
    cpus = os.cpu_count()
    for busy, counts in ((0.9, False), (0.2, True)):
        watch.after.at = watch.before.at + 10
        watch.before.busy, watch.after.busy = 0.0, busy * 10 * cpus
        watch.after.own = watch.before.own
        assert bool(watch.invalid()) is not counts


def test_secrets_of_the_command_are_not_written(machine):
    token = "hf_PlantedTokenOfThisTrial0123456789"
    done = trial(machine, "a", ("sh", "-c", "true", "--token", token))
    assert token not in (done.place / "trial.json").read_text()


FAKE_NVML = r"""
#include <string.h>
#include <stdlib.h>
typedef struct { unsigned pid; unsigned long long used; unsigned part, inner; } P;
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = (void *)(long)(i + 1); return 0; }
int nvmlDeviceGetMemoryInfo(void *d, unsigned long long *m) { m[0] = 80ull << 30; m[2] = 100ull << 20; m[1] = m[0] - m[2]; return 0; }
int nvmlDeviceGetUtilizationRates(void *d, unsigned *r) { r[0] = 50; r[1] = 1; return 0; }
int nvmlDeviceGetClockInfo(void *d, int t, unsigned *c) { *c = 1980; return 0; }
int nvmlDeviceGetTemperature(void *d, int t, unsigned *c) { *c = 60; return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *d, unsigned long long *r) { *r = 0x8; return 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, P *p) {
  char *told = getenv("FAKE_PID");
  if ((long)d != 2 || !told) { *n = 0; return 0; }
  *n = 1; p[0].pid = atoi(told); p[0].used = 4096ull << 20; return 0; }
"""


def test_without_nvidia_smi_the_library_of_the_driver_is_asked(tmp_path, monkeypatch):
    (tmp_path / "n.c").write_text(FAKE_NVML)
    built = subprocess.run(["cc", "-shared", "-fPIC", "-o", str(tmp_path / "libnvidia-ml.so.1"), str(tmp_path / "n.c")], check=False, capture_output=True)  # fmt: skip
    if built.returncode:
        pytest.skip("no C compiler here")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("firstfault.collect.commands._PATH", "")
    monkeypatch.setenv("FAKE_PID", "77")
    found = gpus.look()
    assert [(p.pid, p.card, p.mb) for p in found.programs] == [(77, "1", 4096)]
    assert found.cards[0] == gpus.Card("0", 100, 50, 1980, 60, ("hardware slowdown",))
    monkeypatch.delenv("LD_LIBRARY_PATH")
    assert gpus.look().absent


@pytest.mark.parametrize(
    "words", [["--trial", "../x", "--", "true"], ["--image", "nvcr/pytorch:24.01", "--", "true"], ["--of", "2"]]
)
def test_wrong_use_is_told(words):
    assert CliRunner().invoke(command, words).exit_code == 2
