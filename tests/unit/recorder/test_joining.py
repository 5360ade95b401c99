"""Processes of one job meet in one run, and two jobs never do, whatever name, port and folder they share."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from programs import LIMIT, SOURCES, program

from firstfault.recorder import format as layout
from firstfault.recorder import joining
from firstfault.recorder.identity import Identity
from firstfault.recorder.joining import join, sign_off
from firstfault.recorder.settings import Settings, from_environment

NAMES = (
    "SLURM_",
    "TORCHELASTIC_",
    "MASTER_",
    "GROUP_",
    "LOCAL_",
    "WORLD_",
    "RANK",
    "LSB_",
    "PBS_",
    "JOB_",
    "FIRSTFAULT_",
)


@pytest.fixture
def joined(tmp_path, monkeypatch):
    """The run of a rank that a launch has started on a host."""

    def join_it(host, rank, launch, world=4, address="10.0.0.1", folder="box", port="29500", **more):
        for name in [n for n in os.environ if n.startswith(NAMES)]:
            monkeypatch.delenv(name)
        own = {"RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_PORT": port, "MASTER_ADDR": address}
        if launch:
            own["FIRSTFAULT_RECORD_COMMAND"] = launch
        for name, value in {**own, **more}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(joining, "_starter", lambda: 0)
        settings = from_environment(str(tmp_path / folder))._replace(host=host)
        return join(settings, Identity(rank, None, world, 0, launcher=False))

    return join_it


def run(joined, *words, **more):
    return joined(*words, **more).run


def test_nodes_of_one_job_meet(joined):
    assert {run(joined, f"node-{n // 2}", n, f"launch-{n // 2}") for n in range(4)} == {"port-29500"}


def test_nodes_of_one_job_meet_when_the_second_one_is_first(joined):
    assert {run(joined, f"node-{n // 2}", n, f"launch-{n // 2}", GROUP_RANK=str(n // 2)) for n in (3, 2, 0, 1)} == {
        "port-29500"
    }


def test_the_next_job_is_another_run(joined):
    first = [run(joined, "node-a", n, "launch-1") for n in (0, 1)]
    second = [run(joined, "node-a", n, "launch-2") for n in (1, 0)]
    assert (first, second) == (["port-29500"] * 2, ["port-29500.2"] * 2)
    assert run(joined, "node-a", 1, "launch-1") == "port-29500"


def test_a_rank_that_is_there_is_not_joined_from_another_node(joined):
    settings = joined("node-a", 0, "first-a")
    Path(settings.node).mkdir(parents=True)
    (Path(settings.node) / "rank-00002.0.77.jsonl").write_text("", encoding="ascii")
    assert run(joined, "node-c", 2, "second-c") == "port-29500.2"
    assert run(joined, "node-c", 3, "second-c") == "port-29500.2"


def test_a_job_of_one_node_is_joined_by_none_and_joins_none(joined):
    assert run(joined, "node-a", 0, "launch-a", world=1) == "port-29500"
    assert run(joined, "node-b", 0, "launch-b", world=1) == "port-29500.2"
    assert run(joined, "node-a", 0, "c", world=2, LOCAL_WORLD_SIZE="2", GROUP_RANK="0") == "port-29500.3"
    assert run(joined, "node-b", 0, "d", world=2, LOCAL_WORLD_SIZE="2", GROUP_RANK="0") == "port-29500.4"


@pytest.mark.parametrize("more", [{"address": "10.0.0.2"}, {"world": 8}, {"address": "localhost"}])
def test_another_meeting_place_or_size_is_another_job(joined, more):
    assert run(joined, "node-a", 0, "launch-a") == "port-29500"
    assert run(joined, "node-b", 1, "launch-b", **more) == "port-29500.2"


def test_a_job_that_has_ended_or_is_old_is_not_joined(joined, monkeypatch):
    ended = joined("node-a", 0, "launch-a")
    sign_off(ended)
    assert run(joined, "node-b", 1, "launch-b") == "port-29500.2"
    now = time.time()
    monkeypatch.setattr(joining.time, "time", lambda: now + 2 * joining.NEAR_S)
    assert run(joined, "node-c", 2, "launch-c") == "port-29500.3"


def test_ranks_that_nothing_known_has_started_meet_once(joined):
    assert {run(joined, "node-a", n, "", address="localhost") for n in range(4)} == {"port-29500"}


def test_a_name_that_the_user_gives_is_taken(joined):
    assert run(joined, "node-a", 0, "a", FIRSTFAULT_RECORD_RUN="mine") == "mine"
    assert run(joined, "node-a", 0, "b", FIRSTFAULT_RECORD_RUN="mine") == "mine"


def test_a_step_of_the_scheduler_is_a_name_and_its_job_alone_is_not(joined):
    step = {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "3", "SLURM_PROCID": "0"}
    assert {run(joined, "node-a", 0, n, **step) for n in ("a", "b")} == {"slurm-77.3"}
    assert [run(joined, "node-a", 0, n, SLURM_JOB_ID="77") for n in ("a", "b", "a")] == [
        "slurm-77",
        "slurm-77.2",
        "slurm-77",
    ]


def test_a_folder_that_cannot_be_written_gives_a_name_of_the_launch(joined, tmp_path):
    (tmp_path / "box").write_text("", encoding="ascii")
    assert run(joined, "node-a", 0, "a") != run(joined, "node-a", 0, "b") != "port-29500"


def test_spools_of_two_folders_are_two():
    assert len({Settings(f, r, "local", "h").spool for f in ("/a", "/b") for r in ("run", "run.2")}) == 4


STEPS = "import os, sys, time, firstfault.recorder as r\nr.start(); r.step()\nprint('ready', flush=True)\n"


def begin(folder, host, text, *options):
    kept = {n: os.environ[n] for n in ("PATH", "HOME", "LD_LIBRARY_PATH") if n in os.environ}
    own = {"PYTHONPATH": SOURCES, "FIRSTFAULT_RECORD_LOCAL": str(folder / f"local-{host}"), "MASTER_PORT": "29500", "RANK": "0",
           "WORLD_SIZE": "1", "FIRSTFAULT_RECORD_GRACE_S": "0.2", "FIRSTFAULT_RECORD_GAP_S": "0"}  # fmt: skip
    work = folder / host
    work.mkdir()
    words = [sys.executable, "-m", "firstfault", "record", "--dir", str(folder / "box"), *options, "--"]
    named = ["unshare", "--uts", "sh", "-c", f'hostname {host} && exec "$@"', "_", *words, *program(work, text)]
    return subprocess.Popen(named, env={**kept, **own}, cwd=work, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@pytest.mark.skipif(
    subprocess.run(["unshare", "--uts", "true"], capture_output=True, check=False).returncode != 0,
    reason="a host name of its own is not allowed here",
)
def test_a_job_is_not_ended_for_the_death_of_another_in_the_same_folder(tmp_path):
    waits = begin(tmp_path, "node-b", STEPS + "sys.stdin.readline(); r.step(); print('done', flush=True)", "--stop")
    try:
        assert waits.stdout.readline() == b"ready\n"
        dies = begin(tmp_path, "node-a", STEPS + "raise ValueError('of the other job')")
        assert dies.wait(timeout=LIMIT) == 1
        assert dies.stdout.read() == b"ready\n"
        # Its monitor looks once a second; in the time of three looks nothing may come.
        time.sleep(3.2)
        assert waits.poll() is None
        rest, _ = waits.communicate(b"\n", timeout=LIMIT)
    finally:
        if waits.poll() is None:
            waits.send_signal(signal.SIGKILL)
        for process in (waits, dies):
            process.stdin.close()
            process.stdout.close()
    assert (rest, waits.returncode) == (b"done\n", 0)
    runs = {f.parents[1].name: f for f in (tmp_path / "box").glob(f"*/*/{layout.NODE_FILE}")}
    assert sorted(runs) == ["port-29500", "port-29500.2"]
    kinds = [json.loads(x)["kind"] for x in runs["port-29500"].read_text(encoding="utf-8").splitlines()]
    assert not {layout.TOLD, layout.BUNDLE, layout.DEATH} & set(kinds)
    assert layout.END in kinds
