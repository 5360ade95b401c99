"""The monitor of a node, with real processes: deaths with their reasons, word to other nodes, standstills, bundles."""

import json
import os
import signal
import subprocess
import time

import pytest
from programs import environment, program

from firstfault.recorder import format as layout
from firstfault.recorder import launch
from firstfault.recorder.bundle import Watched
from firstfault.recorder.monitor import MOST_HEARD, Monitor
from firstfault.recorder.monitoring import LOCK, _lock
from firstfault.recorder.processes import exit_status, threads
from firstfault.recorder.ring import Ring
from firstfault.recorder.settings import Settings
from firstfault.recorder.sweeping import clear, sweep

STEPS = """
import os, signal
import firstfault.recorder as r
r.start()
r.step(7)
r.phase("checkpoint")
{more}
print("ready", flush=True)
while True:
    signal.pause()
"""


@pytest.fixture
def started(tmp_path):
    running = []

    def start(more="", **names):
        folder = tmp_path / f"job-{len(running)}"
        folder.mkdir()
        where = {"FIRSTFAULT_RECORD_DIR": str(tmp_path / "box"), "FIRSTFAULT_RECORD_LOCAL": str(tmp_path / "local")}
        process = subprocess.Popen(
            program(folder, STEPS.format(more=more)),
            env=environment(folder, **where, **names),
            stdout=subprocess.PIPE,
            cwd=folder,
        )
        running.append(process)
        assert process.stdout.readline() == b"ready\n"
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


def settings(tmp_path, **changes):
    from firstfault.recorder.identity import short_host

    plain = Settings(str(tmp_path / "box"), "run", str(tmp_path / "local"), short_host(), gap_s=0.0, grace_s=0.0)
    return plain._replace(**changes)


def lines(monitor):
    path = os.path.join(monitor.settings.node, layout.NODE_FILE)
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def until(monitor, kind):
    """Lets the monitor wait for what is about to happen."""
    end = time.monotonic() + 30
    while not any(r["kind"] == kind for r in lines(monitor)):
        assert time.monotonic() < end
        monitor.wait(0.5)
    return [r for r in lines(monitor) if r["kind"] == kind]


@pytest.mark.parametrize(
    ("how", "fields"),
    [
        (signal.SIGKILL, {"signal": "SIGKILL"}),
        (signal.SIGTERM, {"signal": "SIGTERM"}),
        (signal.SIGSEGV, {"signal": "SIGSEGV"}),
    ],
)
def test_a_death_is_told_with_its_reason_and_the_last_state(tmp_path, started, how, fields):
    process = started()
    monitor = Monitor(settings(tmp_path), {})
    monitor.find()
    os.kill(process.pid, how)
    death = until(monitor, layout.DEATH)[0]
    assert {k: death[k] for k in fields} == fields
    assert (death["rank"], death["step"], death["phase"], death["pid"]) == (3, 7, "checkpoint", process.pid)
    told = json.loads(next((tmp_path / "box" / "run" / layout.FAULTS).iterdir()).read_text())
    assert (told["rank"], told["run"]) == (3, "run")


def test_an_exit_code_is_told_and_a_good_end_is_no_death(tmp_path, started):
    bad = started("os.write(1, b'ready\\n'); os._exit(5)")
    monitor = Monitor(settings(tmp_path), {})
    monitor.find()
    assert until(monitor, layout.DEATH)[0]["exit_code"] == 5
    bad.wait()
    started("print('ready', flush=True); raise SystemExit(0)", RANK="4")
    monitor.find()
    assert until(monitor, layout.END)[0]["rank"] == 4
    assert len([r for r in lines(monitor) if r["kind"] == layout.DEATH]) == 1


def test_of_a_rank_that_was_reaped_before_anybody_looked_the_command_above_it_tells_the_end(
    tmp_path, started, monkeypatch
):
    """A rank that lives for less than a look, under a `record` of its own, is gone for the kernel when the monitor first looks."""
    process = started()
    monkeypatch.setenv("FIRSTFAULT_RECORD_LOCAL", str(tmp_path / "local"))
    os.kill(process.pid, signal.SIGKILL)
    assert launch._awaited(process) == -signal.SIGKILL
    monitor = Monitor(settings(tmp_path), {})
    monitor.find()
    assert until(monitor, layout.DEATH)[0]["signal"] == "SIGKILL"
    assert not list((tmp_path / "local").rglob(f"*{layout.STATUS}"))


@pytest.mark.parametrize(
    "refused", [OSError(38, "Function not implemented"), OSError(1, "not permitted"), AttributeError("no")]
)
def test_a_rank_that_cannot_be_held_by_a_descriptor_is_not_told_dead_while_it_lives(
    tmp_path, started, monkeypatch, refused
):
    process = started()

    def refuse(pid):
        raise refused

    monkeypatch.setattr(os, "pidfd_open", refuse)
    monitor = Monitor(settings(tmp_path, stop=True), {})
    for _ in range(2):
        monitor.find()
        monitor.wait(0.01)
    assert [r for r in lines(monitor) if r["kind"] in {layout.DEATH, layout.END}] == []
    assert [p.ring.head.rank for p in monitor.living.values()] == [3]
    monitor.end_ranks()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    monitor.find()
    assert until(monitor, layout.DEATH)[0]["signal"] == "SIGTERM"
    assert not monitor.living


def test_a_word_of_another_node_with_a_strange_attempt_does_not_break_the_monitor(tmp_path, started):
    started()
    monitor = Monitor(settings(tmp_path, bundles=1), {})
    monitor.find()
    os.makedirs(monitor.faults)
    word = {"kind": layout.DEATH, "host": "node-b", "time": layout.stamp(time.time()), "rank": 9, "attempt": ["1"]}
    with open(os.path.join(monitor.faults, "node-b.77.json"), "w", encoding="utf-8") as file:
        json.dump(word, file)
    monitor.hear()
    assert [r["rank"] for r in lines(monitor) if r["kind"] == layout.TOLD] == [9]


def test_a_status_is_known_before_and_after_the_dead_is_reaped():
    child = subprocess.Popen(["/bin/sh", "-c", "exit 3"])
    descriptor = os.pidfd_open(child.pid)
    os.waitid(os.P_PIDFD, descriptor, os.WEXITED | os.WNOWAIT)
    assert exit_status(child.pid, descriptor) == 3
    child.wait()
    assert exit_status(child.pid, descriptor) in {3, None}  # older kernels forget it
    os.close(descriptor)


def test_another_node_hears_of_a_death_and_takes_its_stacks(tmp_path, started):
    process = started()
    there = Monitor(settings(tmp_path), {})
    there.find()
    here = Monitor(settings(tmp_path, host="node-b"), {})
    other = started(RANK="9")
    os.makedirs(here.settings.spool)
    # The same machine plays the other node: its spool holds the ring of another rank.
    for file in (tmp_path / "local").rglob("rank-00009*"):
        os.rename(file, os.path.join(here.settings.spool, file.name))
    here.find()
    process.kill()
    until(there, layout.DEATH)
    begin = time.monotonic()
    here.hear()
    here.take_due()
    assert time.monotonic() - begin < 5
    told = next(r for r in lines(here) if r["kind"] == layout.TOLD)
    assert (told["from"], told["rank"], told["signal"]) == (there.settings.host, 3, "SIGKILL")
    stacks = next((tmp_path / "box" / "run" / "node-b").rglob("*.stacks.txt")).read_text()
    assert "rank 9" in stacks.splitlines()[0]
    assert "program.py" in stacks
    assert other.poll() is None


def test_a_standstill_is_told_once_and_leaves_a_bundle_of_three(tmp_path, started):
    process = started()
    end = time.monotonic() + 30
    while {(t["thread"], t.get("syscall")) for t in threads(process.pid)}.isdisjoint({(process.pid, "pause")}):
        assert time.monotonic() < end
        time.sleep(0.01)
    monitor = Monitor(settings(tmp_path, hang_s=1e-6), {})
    monitor.find()
    monitor.look_for_hangs()
    monitor.look_for_hangs()
    hangs = [r for r in lines(monitor) if r["kind"] == layout.HANG]
    assert [(h["rank"], h["step"], h["phase"]) for h in hangs] == [(3, 7, "checkpoint")]
    monitor.take_due()
    folder = tmp_path / "box" / "run" / monitor.settings.host / "bundle-01"
    states = sorted(folder.glob("state.*.jsonl"))
    assert len(states) == 3
    state = json.loads(states[0].read_text())
    assert state["answer"]["broken"] == []
    # Of the program itself each take shows all: its one thread, in what it does. The recorder's own is no part of it.
    takes = [json.loads(path.read_text())["threads"] for path in states]
    assert [[(t["thread"], t["syscall"]) for t in threads] for threads in takes] == [[(process.pid, "pause")]] * 3
    stacks = (folder / f"rank-00003.0.{process.pid}.3.stacks.txt").read_text()
    assert "program.py" in stacks
    assert "listener.py" not in stacks
    assert process.poll() is None


@pytest.mark.parametrize(("ended", "told"), [(layout.RUNNING, True), (layout.ENDED, False), (layout.RAISED, False)])
def test_who_came_to_its_end_since_is_not_stopped_for_a_standstill(tmp_path, ended, told):
    """On a busy machine a rank may leave its last step for longer than a hang takes, before it says that it ends."""
    ring = Ring(
        str(tmp_path / "a.ring"), layout.Head(layout.MAIN, os.getpid(), 0, 3, 3, 8, 0, -1, 0, 0, 1, 1, "node-a")
    )
    ring.step(7)
    monitor = Monitor(settings(tmp_path, stop=True), {})
    monitor.hanging["a.ring"] = layout.read_ring(bytes(ring.map)).last
    ring.ended(ended)
    monitor.living["a.ring"] = Watched("a.ring", layout.read_ring(bytes(ring.map)), -1)
    assert monitor.still_hangs() is told


def test_who_moves_or_has_not_begun_stands_not_still(tmp_path, started):
    started()
    monitor = Monitor(settings(tmp_path, hang_s=3600.0), {})
    monitor.find()
    monitor.look_for_hangs()
    assert lines(monitor) == []


def test_a_process_that_holds_the_interpreters_lock_is_reached_by_signal(tmp_path, started):
    started(
        "import ctypes, sys\nsys.setswitchinterval(1000)\nmutex, c = ctypes.create_string_buffer(64), ctypes.PyDLL(None)\n"
        "c.pthread_mutex_lock(mutex); c.write(1, b'ready\\n', 6); c.pthread_mutex_lock(mutex)"
    )
    monitor = Monitor(settings(tmp_path, hang_s=1e-6), {})
    monitor.find()
    monitor.look_for_hangs()
    monitor.due = monitor.due[:1]
    monitor.take_due()
    folder = tmp_path / "box" / "run" / monitor.settings.host / "bundle-01"
    state = json.loads((folder / "state.1.jsonl").read_text())
    assert (state["silent"], state["signalled"]) == (True, True)
    assert "program.py" in next(folder.glob("*.stacks.txt")).read_text()


def test_asked_to_the_ranks_are_ended_when_one_died(tmp_path, started):
    first, second = started(), started(RANK="4")
    monitor = Monitor(settings(tmp_path, stop=True), {})
    monitor.find()
    first.kill()
    until(monitor, layout.DEATH)
    monitor.take_due()
    assert second.wait(timeout=300) == -signal.SIGTERM


def test_after_a_restart_the_ranks_are_watched_as_before(tmp_path, started):
    first, second = started(), started(RANK="4")
    monitor = Monitor(settings(tmp_path, stop=True, hang_s=1e-6), {})
    monitor.find()
    first.kill()
    until(monitor, layout.DEATH)
    monitor.take_due()
    second.wait(timeout=300)
    again = started("r.step(); r.step()", TORCHELASTIC_RESTART_COUNT="1")
    monitor.find()
    monitor.look_for_hangs()
    assert [r["attempt"] for r in lines(monitor) if r["kind"] == layout.HANG] == [1]
    monitor.take_due()
    assert again.wait(timeout=300) == -signal.SIGTERM


def test_bundles_are_bounded(tmp_path, started):
    started()
    monitor = Monitor(settings(tmp_path, bundles=2), {})
    monitor.find()
    for number in range(5):
        monitor.plan(f"wish {number}", 1)
        monitor.take_due()
    assert len(list((tmp_path / "box" / "run" / monitor.settings.host).glob("bundle-*"))) == 2


def test_only_who_has_a_handler_is_signalled(tmp_path, started):
    process = started("import faulthandler\nfaulthandler.unregister(signal.SIGUSR1)")
    os.unlink(next((tmp_path / "local").rglob("*.ask")))
    monitor = Monitor(settings(tmp_path), {})
    monitor.find()
    monitor.plan("a wish", 1)
    monitor.take_due()
    state = json.loads(next((tmp_path / "box").rglob("state.1.jsonl")).read_text())
    assert state["signalled"] is False
    assert process.poll() is None


def test_heartbeats_come_to_the_shared_folder_as_text(tmp_path, started):
    started()
    monitor = Monitor(settings(tmp_path), {})
    monitor.collect()
    record = json.loads((tmp_path / "box" / "run" / monitor.settings.host / layout.HEARTBEAT_FILE).read_text())
    assert (record["kind"], record["rank"], record["step"], record["phase"]) == (layout.BEAT, 3, 7, "checkpoint")
    assert record["still_s"] >= 0


def test_a_fault_of_an_earlier_run_of_that_name_is_no_news(tmp_path, started):
    started()
    monitor = Monitor(settings(tmp_path), {})
    monitor.find()
    os.makedirs(monitor.faults)
    old = {"time": "2020-01-01T00:00:00+00:00", "rank": 1, "host": "node-b", "how": "was ended by SIGKILL"}
    with open(os.path.join(monitor.faults, "node-b.1.json"), "wb") as file:
        file.write(layout.line(layout.DEATH, old))
    monitor.hear()
    assert [r for r in lines(monitor) if r["kind"] == layout.TOLD] == []


def test_a_wish_and_a_fault_of_an_earlier_run_end_nobody(tmp_path, started):
    before = layout.stamp(time.time() - 1)
    process = started()
    monitor = Monitor(settings(tmp_path, stop=True), {})
    monitor.find()
    for folder in (monitor.requests, monitor.faults):
        os.makedirs(folder)
        told = {"time": before, "rank": 1, "host": monitor.settings.host, "how": "x", "why": "x", "hang": True}
        with open(os.path.join(folder, "a.json"), "wb") as file:
            file.write(layout.line(layout.NOTE, told))
    monitor.hear()
    monitor.take_due()
    assert (monitor.bundles, monitor.end_after) == (0, False)
    assert process.poll() is None


def test_the_monitor_is_started_once_a_node_and_leaves(tmp_path):
    folder = tmp_path / "job"
    folder.mkdir()
    names = {"FIRSTFAULT_RECORD_MONITOR": "1", "FIRSTFAULT_RECORD_GRACE_S": "0.2", "FIRSTFAULT_RECORD_DIR": str(tmp_path / "box"),
             "FIRSTFAULT_RECORD_LOCAL": str(tmp_path / "local")}  # fmt: skip
    text = "import firstfault.recorder as r\nr.start(); r.step()"
    pair = [
        subprocess.Popen(program(folder, text), env=environment(folder, **names, RANK=str(rank)), cwd=folder)
        for rank in (0, 1)
    ]
    assert [p.wait(timeout=300) for p in pair] == [0, 0]
    node = next((tmp_path / "box" / "run").glob("*/"))
    end = time.monotonic() + 30
    while list((tmp_path / "local").glob("run*/*")):
        assert time.monotonic() < end
        time.sleep(0.05)
    records = [json.loads(x) for f in (tmp_path / "box").rglob(layout.NODE_FILE) for x in f.read_text().splitlines()]
    assert node
    assert [r["kind"] for r in records].count(layout.NODE) == 1


def word(monitor, folder, name, seconds, **fields):
    """A word of another node, so many seconds from now."""
    os.makedirs(folder, exist_ok=True)
    told = {"time": layout.stamp(time.time() + seconds), "rank": 1, "host": "node-b", "how": "x", "why": "x", **fields}
    with open(os.path.join(folder, name), "wb") as file:
        file.write(layout.line(layout.NOTE, told))


def test_a_fault_that_lay_there_ends_nobody_though_it_is_some_seconds_old(tmp_path, started):
    process = started()
    monitor = Monitor(settings(tmp_path, stop=True), {})
    word(monitor, monitor.faults, "node-b.7.json", -15)
    word(monitor, monitor.faults, f"{monitor.settings.host}.7.json", -15, host=monitor.settings.host)
    monitor.find()
    monitor.look_back()
    monitor.hear()
    monitor.take_due()
    assert (monitor.bundles, process.poll()) == (0, None)
    assert os.listdir(monitor.faults) == ["node-b.7.json"]
    # One of this run, by a clock that is behind, is heard.
    word(monitor, monitor.faults, "node-b.8.json", -15)
    monitor.hear()
    monitor.take_due()
    assert process.wait(timeout=300) == -signal.SIGTERM


def test_of_deaths_that_are_heard_at_once_the_first_is_the_reason_for_stacks(tmp_path, started):
    started()
    monitor = Monitor(settings(tmp_path), {})
    monitor.find()
    for name, seconds, rank, how in (("1", 0.2, 2, "was ended by SIGTERM"), ("2", 0.0, 3, "was ended by SIGKILL")):
        word(monitor, monitor.faults, f"node-b.{name}.json", seconds, rank=rank, how=how)
    monitor.hear()
    assert [r["rank"] for r in lines(monitor) if r["kind"] == layout.TOLD] == [3, 2]
    assert monitor.due[0][-1] == "rank 3 on node-b was ended by SIGKILL"


def test_what_thousands_of_nodes_say_is_not_read_by_each(tmp_path, started, monkeypatch):
    started(), started(RANK="4")
    monitor = Monitor(settings(tmp_path), {})
    monitor.find()
    read, word_of = [], monitor.word
    monkeypatch.setattr(monitor, "word", lambda folder, name: read.append(name) or word_of(folder, name))
    for number in range(300):
        word(monitor, monitor.faults, f"node-{number}.1.0.json", 0.0)
        word(monitor, monitor.requests, f"node-{number}.1.1.hang.json", 0.0, hang=True)
    word(monitor, monitor.requests, "node-9.1.2.stop.json", 0.0, stop=True, attempt=0)
    for _ in range(3):
        monitor.hear()
    assert len(read) == MOST_HEARD + 1
    assert "node-9.1.2.stop.json" in read
    assert len(monitor.due) == 1
    # A later start is heard of, though so many spoke of the first.
    monitor.due.clear()
    word(monitor, monitor.faults, "node-7.2.1.json", 0.0, attempt=1, rank=5)
    monitor.hear()
    assert "rank 5" in monitor.due[0][-1]


def test_faults_of_an_earlier_run_do_not_use_up_what_is_read(tmp_path, started):
    started()
    monitor = Monitor(settings(tmp_path), {})
    monitor.find()
    for number in range(MOST_HEARD + 9):
        word(monitor, monitor.faults, f"node-{number}.1.0.json", -4000.0)
    word(monitor, monitor.faults, "node-z.1.0.json", 0.0, rank=6)
    monitor.hear()
    monitor.hear()
    assert "rank 6" in monitor.due[0][-1]


def test_a_hang_elsewhere_ends_the_ranks_only_when_its_node_says_so(tmp_path, started):
    process = started()
    monitor = Monitor(settings(tmp_path, stop=True, gap_s=0.0), {})
    monitor.find()
    word(monitor, monitor.requests, "node-b.1.json", 0, hang=True)
    monitor.hear()
    while monitor.due:
        monitor.take_due()
    assert process.poll() is None
    word(monitor, monitor.requests, "node-b.2.json", 0, stop=True, attempt=0)
    monitor.hear()
    assert process.wait(timeout=300) == -signal.SIGTERM


def test_a_hang_that_is_over_ends_nobody_also_after_an_earlier_death(tmp_path, started):
    process = started("import time; print('ready', flush=True); time.sleep(0.5); r.step(); time.sleep(60)", RANK="4")
    monitor = Monitor(settings(tmp_path, stop=True, hang_s=1e-6, gap_s=0.5), {})
    monitor.bundled.add(0)
    monitor.find()
    monitor.look_for_hangs()
    while monitor.due:
        monitor.take_due()
        time.sleep(0.05)
    assert process.poll() is None
    assert not [r for r in lines(monitor) if r.get("did")]


def test_a_hang_that_goes_on_is_told_to_the_other_nodes_as_an_end(tmp_path, started):
    process = started()
    monitor = Monitor(settings(tmp_path, stop=True, hang_s=1e-6, gap_s=0.0), {})
    monitor.find()
    monitor.look_for_hangs()
    while monitor.due:
        monitor.take_due()
    assert process.wait(timeout=300) == -signal.SIGTERM
    told = [json.loads(f.read_text()) for f in (tmp_path / "box" / "run" / layout.REQUESTS).iterdir()]
    assert [t["attempt"] for t in told if t.get("stop")] == [0]


def test_who_comes_while_the_monitor_leaves_is_watched_and_keeps_its_files(tmp_path, started):
    monitor = Monitor(settings(tmp_path), {})
    os.makedirs(monitor.settings.spool)
    lock = os.path.join(monitor.settings.spool, LOCK)
    for path in (lock, os.path.join(monitor.settings.spool, "rank-00001.0.999999999.ring")):
        with open(path, "wb"):
            pass
    process = started()
    assert monitor.leaves() is False
    assert os.path.exists(lock)
    clear(monitor.settings.spool, monitor.dead)
    assert sorted(f.rsplit(".", 1)[-1] for f in os.listdir(monitor.settings.spool) if f"{process.pid}" in f)[:1] == [
        "ask"
    ]
    assert not [f for f in os.listdir(monitor.settings.spool) if "999999999" in f]
    process.kill()
    until(monitor, layout.DEATH)
    assert monitor.leaves() is True
    clear(monitor.settings.spool, monitor.dead)
    assert not os.path.exists(lock)


def test_what_runs_that_are_over_have_left_in_memory_is_taken_away(tmp_path, started):
    process = started()
    here = settings(tmp_path)
    living = next((tmp_path / "local").glob("run-*"))
    with open(here.spool + f"/rank-00003.0.{process.pid}{layout.RING}", "rb") as file:
        ring = file.read()
    for run, host, files in (
        (
            "worker",
            here.host,
            ["rank-00001.0.5.worker-0.999999999.ring", "rank-00001.0.5.worker-0.999999999.stacks.txt"],
        ),
        ("young", here.host, ["process.0.999999999.ring"]),
        ("elsewhere", "other-node", ["process.0.999999999.ring"]),
        ("killed", here.host, [LOCK, "process.0.999999999.ring"]),
        ("killed-today", here.host, [LOCK, "process.0.999999999.ring"]),
        ("another-version", here.host, [f"process.0.{process.pid}.ring"]),
        ("strange", here.host, ["process.0.999999999.ring", "notes.txt"]),
    ):
        folder = tmp_path / "local" / run / host
        folder.mkdir(parents=True, mode=0o700)
        for name in files:
            (folder / name).write_bytes(b"" if run == "another-version" else ring[:24] + b"\xff" * 4 + ring[28:])
        ago = {"young": 5, "killed-today": 3600}.get(run, 100_000)
        os.utime(folder, (time.time() - ago,) * 2)
    os.utime(here.spool, (time.time() - 100_000,) * 2)
    sweep(here.local, here.host)
    left = {str(f.relative_to(tmp_path / "local")) for f in (tmp_path / "local").rglob("*") if f.is_file()}
    gone = {name.split("/")[0] for name in left}
    assert gone == {living.name, "young", "elsewhere", "killed-today", "another-version", "strange"}
    assert f"strange/{here.host}/notes.txt" in left
    assert f"strange/{here.host}/process.0.999999999.ring" not in left


def test_a_lock_on_the_file_of_one_that_left_is_none(tmp_path):
    path = str(tmp_path / LOCK)
    first = _lock(path)
    assert first >= 0
    assert _lock(path) == -1
    os.unlink(path)
    second = _lock(path)
    assert second >= 0
    assert os.path.samestat(os.fstat(second), os.stat(path))
    os.close(first)
    os.close(second)
