"""Jobs of several real processes: they meet by a folder or by the port of the job, and one answer comes out."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time

import pytest
from made import may_unshare

from firstfault.preflight import meeting
from firstfault.preflight.families import Report
from firstfault.preflight.meeting import Server, SharedFolder, talk


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        return int(held.getsockname()[1])


def start(tmp_path, words, env, before=()):
    """A process of a job."""
    path = os.pathsep.join(filter(None, sys.path))
    clean = {
        k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "MASTER_", "RANK", "WORLD_", "FIRSTFAULT_"))
    }
    command = [*before, sys.executable, "-m", "firstfault", "preflight", "--job", "--format", "json", *words]
    return subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**clean, "PYTHONPATH": path, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def tasks(count, per_node=2, **env):
    """Variables of the tasks of a step."""
    return [
        {
            "SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0", "SLURM_PROCID": str(n), "SLURM_LOCALID": str(n % per_node), "SLURM_NTASKS": str(count),
            "SLURM_STEP_NUM_TASKS": str(count), "SLURM_NNODES": str(-(-count // per_node)), **env,
        }
        for n in range(count)
    ]  # fmt: skip


def outcome(processes, limit=120):
    """Exit codes, and the answers that were printed."""
    texts = [p.communicate(timeout=limit) for p in processes]
    return (
        [p.returncode for p in processes],
        [json.loads(out) for out, _ in texts if out.strip()],
        [err for _, err in texts],
    )


def results(answer, check):
    return [(c["state"], c["seen"]) for c in answer["checks"] if c["id"] == check]


def test_a_job_meets_in_a_folder(tmp_path):
    processes = [start(tmp_path, ["--dir", "box"], env) for env in tasks(4, per_node=4)]
    codes, answers, errors = outcome(processes)
    assert codes == [0, 0, 0, 0], errors
    (answer,) = answers
    assert answer["reported"] == answer["world_size"] == 4
    assert results(answer, "job.reported") == [("ok", "all 4 answered")]
    assert answer["state"] in {"ok", "warn"}
    left = [p.name for p in (tmp_path / "box").rglob("*") if p.is_file()]
    assert left == ["answer"]


def test_a_job_meets_where_it_will_meet(tmp_path):
    env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    processes = [start(tmp_path, [], e) for e in tasks(3, per_node=4, **env)]
    codes, answers, errors = outcome(processes)
    assert codes == [0, 0, 0], errors
    (answer,) = answers
    assert answer["reported"] == 3
    assert results(answer, "launcher.port")[0][0] == "ok"
    assert list(tmp_path.iterdir()) == []


def test_machines_with_names_of_their_own(tmp_path):
    env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    named = [
        ["unshare", "-ru", "sh", "-c", f'hostname node-{n} && exec "$@"', "sh"] if may_unshare() else []
        for n in range(2)
    ]
    processes = [
        start(tmp_path, ["--dir", str(tmp_path / "box")], e, before=named[n])
        for n, e in enumerate(tasks(2, per_node=1, **env))
    ]
    codes, (answer,), errors = outcome(processes)
    # The meeting place is a loopback: wrong for two machines, and said so.
    assert codes == [1, 0], errors
    assert any(
        "every machine would look for rank 0 on itself" in text for _, text in results(answer, "launcher.master")
    )
    if may_unshare():
        assert [n["host"] for n in answer["nodes"]] == ["node-0", "node-1"]
        assert [s for s, _ in results(answer, "job.clocks")] == ["ok"]
        assert results(answer, "job.reach") == [("ok", f"127.0.0.1:{env['MASTER_PORT']} is reached")]


def test_a_rank_that_does_not_come_is_named(tmp_path):
    processes = [start(tmp_path, ["--dir", "box", "--wait", "8"], e) for e in tasks(3, per_node=4)[:2]]
    codes, (answer,), _ = outcome(processes)
    assert codes == [1, 0]
    assert answer["missing"] == [2]
    assert results(answer, "job.reported")[0][0] == "fail"


def test_ranks_that_were_all_set_to_0(tmp_path):
    processes = [start(tmp_path, ["--dir", "box"], {**e, "RANK": "0", "WORLD_SIZE": "3"}) for e in tasks(3, per_node=4)]
    codes, (answer,), _ = outcome(processes)
    assert codes == [1, 0, 0]
    assert results(answer, "job.ranks")[0][1].startswith("rank 0 is there 3 times")


def test_where_rank_0_does_not_come_another_joins(tmp_path):
    processes = [start(tmp_path, ["--dir", "box", "--wait", "6"], e) for e in tasks(3, per_node=1)[1:]]
    codes, answers, errors = outcome(processes)
    assert sorted(codes) == [0, 1], errors
    (answer,) = answers
    assert answer["missing"] == [0]
    assert answer["reported"] == 2


def test_without_folder_and_rank_0_each_speaks_for_itself(tmp_path):
    env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    process = start(tmp_path, ["--wait", "2"], tasks(2, per_node=4, **env)[1])
    codes, (answer,), _ = outcome([process])
    assert codes == [0]
    assert answer["summary"].startswith("rank 0 could not be told of it")


def test_a_port_that_another_program_holds(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as held:
        env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(held.getsockname()[1])}
        processes = [start(tmp_path, ["--dir", "box", "--wait", "20"], e) for e in tasks(2, per_node=4, **env)]
        codes, (answer,), _ = outcome(processes)
    assert codes == [1, 0]
    assert results(answer, "launcher.port")[0][0] == "fail"


def test_settings_that_differ(tmp_path):
    first, second = tasks(2, per_node=1)
    named = [
        ["unshare", "-ru", "sh", "-c", f'hostname node-{n} && exec "$@"', "sh"] if may_unshare() else []
        for n in range(2)
    ]
    processes = [
        start(tmp_path, ["--dir", "box"], {**e, "NCCL_ALGO": a}, before=b)
        for e, a, b in zip((first, second), ("Ring", "Tree"), named, strict=True)
    ]
    _, (answer,), errors = outcome(processes)
    told = results(answer, "job.settings")
    if may_unshare():
        assert told == [("warn", "NCCL_ALGO: Ring on node-0; Tree on node-1")], errors
    else:
        assert told[0][0] == "ok"  # one machine by its name: one report of it counts


def test_other_launchers(tmp_path):
    mpi = [
        {
            "OMPI_COMM_WORLD_RANK": str(n),
            "OMPI_COMM_WORLD_LOCAL_RANK": str(n),
            "OMPI_COMM_WORLD_SIZE": "2",
            "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
        }
        for n in range(2)
    ]
    torchrun = [
        {"TORCHELASTIC_RUN_ID": "x", "TORCHELASTIC_USE_AGENT_STORE": "True", "RANK": str(n), "LOCAL_RANK": str(n), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
         "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"} for n in range(2)
    ]  # fmt: skip
    for envs in (mpi, torchrun):
        # Without an address of its own the job meets below the working directory.
        codes, (answer,), errors = outcome([start(tmp_path, [], {**e, "SLURM_JOB_ID": "1"}) for e in envs])
        assert codes == [0, 0], errors
        assert answer["reported"] == 2
    assert (tmp_path / "firstfault-preflight").is_dir()


def test_all_ranks_of_mpirun_find_one_name(tmp_path):
    # The rank beside mpirun has the variables of the batch script, others those of a step that starts daemons.
    own = {
        "OMPI_COMM_WORLD_SIZE": "2",
        "OMPI_COMM_WORLD_LOCAL_RANK": "0",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
        "PMIX_NAMESPACE": "prterun-node-1-77@1",
        "SLURM_JOB_ID": "9",
    }
    envs = [
        {**own, "OMPI_COMM_WORLD_RANK": "0"},
        {**own, "OMPI_COMM_WORLD_RANK": "1", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0"},
    ]
    _, (answer,), errors = outcome([start(tmp_path, ["--dir", "box"], e) for e in envs])
    assert answer["reported"] == 2, errors
    assert results(answer, "job.reported") == [("ok", "all 2 answered")]


def test_alone_it_needs_no_meeting(tmp_path):
    codes, (answer,), _ = outcome([start(tmp_path, [], {})])
    assert codes == [0]
    assert answer["reported"] == 1
    process = start(tmp_path, ["--expect", "2"], {})
    assert process.communicate(timeout=60)[1].count("srun firstfault preflight --job") == 1
    assert process.returncode == 2


def test_strangers_at_the_meeting_place_are_not_heard():
    server = Server(0, "run-1")
    try:
        for data in (
            b"GET / HTTP/1.1\r\n\r\n",
            b'{"firstfault": "run-2"}\n',
            b"\xff" * 4096,
            b'{"firstfault": "run-1"}\n{"host": 3}\n',
            b"[" * 100000,
        ):
            # Whoever is not heard is hung up on.
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", server.port)) as stream:
                stream.settimeout(5)
                stream.sendall(data)
                stream.shutdown(socket.SHUT_WR)
                while stream.recv(4096):
                    pass
        assert server.reports() == []
        met = talk(
            "127.0.0.1",
            server.port,
            "run-1",
            lambda clock: Report(host="a", pid=1, clock_s=clock),
            time.monotonic() + 10,
        )
        assert met.state == "met"
        assert met.delivered
        assert abs(met.clock_s) < 5
        assert [r.host for r in server.reports()] == ["a"]
    finally:
        server.close()


def test_a_clock_that_is_ahead_is_measured(monkeypatch):
    class Ahead:
        """The clock of a machine that is 40 s ahead of that of rank 0, which answers in another thread."""

        monotonic, sleep = time.monotonic, time.sleep

        @staticmethod
        def time():
            return time.time() + (40 if threading.current_thread() is threading.main_thread() else 0)

    monkeypatch.setattr(meeting, "time", Ahead)
    server = Server(0, "run")
    try:
        met = talk("127.0.0.1", server.port, "run", None, time.monotonic() + 10)
    finally:
        server.close()
    assert 39 < met.clock_s < 41


def test_a_message_from_the_future_shows_a_clock_that_is_behind(tmp_path):
    folder = SharedFolder(str(tmp_path), "run")
    assert folder.clock(0.0) is None
    assert folder.call(time.time() + 60)
    assert -61 < folder.clock(0.0) < -58
    assert folder.call(time.time() - 60)
    assert folder.clock(0.0) == 0.0


def test_reports_of_an_earlier_start_do_not_count(tmp_path):
    folder = SharedFolder(str(tmp_path), "run")
    folder.call(time.time())
    assert folder.leave(Report(host="old", pid=1, task=1))
    (file,) = (tmp_path / "run").glob("*.json")
    os.utime(file, (time.time() - 1000, time.time() - 1000))
    folder.leave(Report(host="new", pid=2, task=1))
    (tmp_path / "run" / "half.json").write_text('{"host": "ha')
    seen, arrived = {}, {}
    folder.gather(seen, arrived)
    assert [r.host for r in seen.values()] == ["new"]


@pytest.mark.parametrize("host", ["node/../../etc", "a b", "node-1.example.com"])
def test_a_name_of_a_machine_makes_no_path(tmp_path, host):
    folder = SharedFolder(str(tmp_path), "run")
    assert folder.leave(Report(host=host, pid=1, task=0))
    assert [p.parent for p in tmp_path.rglob("*.json")] == [tmp_path / "run"]
