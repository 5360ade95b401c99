"""A real Slurm of one node: its jobs fail, its epilog notes them, and the worker says what the first fault was."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slurm
ROOT = Path(__file__).parents[2]
PATIENCE = 120.0
"""Seconds for what takes one or two on a quiet machine."""
CONF = """
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
CryptoType=crypto/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/d.pid
SlurmctldLogFile={folder}/ctld.log
SlurmdLogFile={folder}/d.log
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
MpiDefault=none
ReturnToService=2
KillWait=2
Epilog={folder}/epilog.sh
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.25 GiB is free."
JOBS = {
    "memory": f"echo 'step 1 loss 2.0'\necho '{OOM}' >&2\nexit 1\n",
    "fine": "echo 'step 1 loss 2.0'\n",
    "killed": "echo 'step 1 loss 2.0'\nkill -9 $$\n",
    "disk": "echo 'OSError: [Errno 28] No space left on device: /ckpt/step_10.pt' >&2\nexit 3\n",
}


def port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def until(what, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.2)
    return None


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """Runs one command of Slurm against a cluster of our own."""
    missing = [p for p in ("slurmctld", "slurmd", "munged", "sbatch") if not find(p)]
    if missing or os.geteuid() != 0:
        pytest.skip(
            f"a Slurm of our own needs root and the programs {', '.join(missing)} (Debian: slurmctld slurmd slurm-client munge)"
        )
    folder = Path("/tmp") / f"ff-slurm-{os.getpid()}"  # short: names of sockets have a limit
    folder.mkdir(mode=0o755)
    for name in ("state", "spool", "queue"):
        (folder / name).mkdir(mode=0o755)
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o600)
    (folder / "epilog.sh").write_text(
        f"#!/bin/bash\nFIRSTFAULT_QUEUE={folder}/queue . {ROOT}/examples/slurm/epilog.sh\n"
    )
    (folder / "epilog.sh").chmod(0o755)
    host = socket.gethostname().split(".")[0]
    (folder / "slurm.conf").write_text(CONF.format(host=host, folder=folder, ports=(port(), port())))
    env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    daemons = [
        ["munged", "--foreground", "--force", f"--key-file={folder}/munge.key", f"--socket={folder}/munge.socket",
         f"--pid-file={folder}/munge.pid", f"--log-file={folder}/munge.log", f"--seed-file={folder}/munge.seed"],
        ["slurmctld", "-D"], ["slurmd", "-D"],
    ]  # fmt: skip
    running = []
    with (folder / "daemons.log").open("wb") as log:
        try:
            for words in daemons:
                running.append(
                    subprocess.Popen(
                        [find(words[0]), *words[1:]], env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL
                    )
                )
                if words[0] == "munged":
                    until((folder / "munge.socket").exists, 20)

            def command(*words):
                return subprocess.run(
                    [find(words[0]), *words[1:]], env=env, capture_output=True, text=True, check=False, timeout=60
                )

            ready = until(lambda: "idle" in command("sinfo", "--noheader", "--format=%T").stdout, 60)
            if not ready:
                told = (folder / "daemons.log").read_text(errors="replace")[-2000:]
                pytest.skip(f"Slurm does not start here: {told}")
            yield command, folder
        finally:
            for daemon in reversed(running):
                daemon.terminate()
            for daemon in running:
                try:
                    daemon.wait(20)
                except subprocess.TimeoutExpired:
                    daemon.kill()
                    daemon.wait()
            shutil.rmtree(folder, ignore_errors=True)


def find(program):
    return shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


def worker(folder, *options):
    done = subprocess.run(
        [sys.executable, "-m", "firstfault", "batch", "--queue", str(folder / "queue"), "--format", "json", *options],
        capture_output=True, text=True, check=False, timeout=300, cwd=folder,
    )  # fmt: skip
    return done, {
        json.loads(path.read_text())["job"]: json.loads(path.read_text())
        for path in (folder / "queue" / "out").glob("*.json")
    }


def test_what_the_epilog_of_a_real_slurm_notes_is_diagnosed(slurm):
    command, folder = slurm
    first, _ = worker(folder)  # makes the queue
    assert first.returncode == 0, first.stderr
    ids = {}
    for name, script in JOBS.items():
        (folder / f"{name}.sh").write_text(f"#!/bin/bash\n{script}")
        told = command(
            "sbatch",
            "--parsable",
            f"--output={folder}/%x-%j.out",
            f"--job-name={name}",
            f"--chdir={folder}",
            str(folder / f"{name}.sh"),
        )
        assert told.returncode == 0, told.stderr
        ids[name] = told.stdout.strip()
    assert until(lambda: not command("squeue", "--noheader").stdout.strip()), command("squeue").stdout
    failed = {ids[name] for name in ("memory", "killed", "disk")}
    assert until(lambda: {p.name.split(".")[0] for p in (folder / "queue" / "new").iterdir()} >= failed)
    assert "idle" in command("sinfo", "--noheader", "--format=%T").stdout  # the epilog drained no node
    done, found = worker(folder)
    assert done.returncode == 1, (done.stderr, done.stdout)
    assert set(found) == failed
    assert found[ids["memory"]]["category"] == "gpu_cuda"
    assert found[ids["disk"]]["category"] == "storage_io"
    assert found[ids["killed"]]["category"] in {"infrastructure", "unknown"}
    assert found[ids["killed"]]["strength"] in {"possible", "unknown", "supported"}
    again, _ = worker(folder)
    assert again.stdout == ""


def test_a_job_that_depends_on_the_failure_of_another_diagnoses_it(slurm):
    command, folder = slurm
    text = (ROOT / "docs" / "how-to" / "use-it-with-slurm.md").read_text()
    line = next(part for part in text.splitlines() if "afternotok" in part and part.startswith("sbatch"))
    (folder / "train.sbatch").write_text(f"#!/bin/bash\n#SBATCH --output={folder}/train-%j.out\n{JOBS['disk']}")
    program = folder / "firstfault"
    program.write_text(
        f'#!/bin/sh\nexport PYTHONPATH="{os.environ.get("PYTHONPATH", "")}"\nexec {sys.executable} -m firstfault "$@"\n'
    )
    program.chmod(0o755)
    job = command("sbatch", "--parsable", f"--chdir={folder}", str(folder / "train.sbatch")).stdout.strip()
    words = (
        line.replace('"$JOB"', job)
        .replace("$JOB", job)
        .replace("LOGS", str(folder))
        .replace("firstfault", str(program))
    )
    told = subprocess.run(
        ["bash", "-c", words], cwd=folder, capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, "SLURM_CONF": str(folder / "slurm.conf")},
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    report = folder / f"why-{job}.md"
    assert until(lambda: report.exists() and "storage" in report.read_text()), list(folder.iterdir())
    assert "No space left on device" in report.read_text()


RANK = """
import os, signal, time
import firstfault.recorder as r
rank = int(os.environ["SLURM_PROCID"])
for step in range(5):
    r.step()
    time.sleep(0.05)
r.phase("checkpoint")
open(f"{rank}.there", "w").close()
while len([f for f in os.listdir() if f.endswith(".there")]) < 2:
    time.sleep(0.05)
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
while True:
    signal.pause()
"""


@pytest.mark.parametrize("outside", [True, False], ids=["record before srun", "record behind srun"])
def test_the_ranks_of_a_step_of_a_real_slurm_are_one_run_of_the_black_box(slurm, tmp_path, outside):
    command, _ = slurm
    (tmp_path / "train.py").write_text(RANK)
    record = [sys.executable, "-m", "firstfault", "record", "--dir", str(tmp_path / "box"), "--stop", "--"]
    step = ["srun", "-n", "2", "--chdir", str(tmp_path)]
    words = (
        [*record, find("srun"), *step[1:], sys.executable, "train.py"]
        if outside
        else [*step, *record, sys.executable, "train.py"]
    )
    done = command(*words)
    runs = sorted(f.name for f in (tmp_path / "box").iterdir())
    assert len(runs) == 1, (runs, done.stderr)
    assert runs[0].startswith("slurm-")
    ranks = sorted(f.name.split(".")[0] for f in (tmp_path / "box").rglob("rank-*.jsonl"))
    assert ranks == ["rank-00000", "rank-00001"]
    header = json.loads(next((tmp_path / "box").rglob("rank-00000*.jsonl")).read_text().splitlines()[0])
    assert header["dump_signal"] not in {signal.SIGUSR1, signal.SIGUSR2, 0}
    told = subprocess.run(
        [sys.executable, "-m", "firstfault", str(tmp_path / "box"), "--format", "json", "--exit-zero"],
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    verdict = json.loads(told.stdout)["verdict"]
    assert verdict["first_failed"]["ranks"] == [1]
    assert "SIGKILL" in verdict["summary"]
    assert "checkpoint" in verdict["summary"]


def test_the_cores_of_an_allocation_read_what_a_job_left(slurm, tmp_path):
    pytest.importorskip("distributed")
    command, folder = slurm
    logs = ROOT / "examples" / "incident" / "logs"
    (tmp_path / "bin").mkdir()
    for name, words in {"firstfault": "-m firstfault", "dask": "-m dask"}.items():
        program = tmp_path / "bin" / name
        program.write_text(
            f'#!/bin/sh\nexport PYTHONPATH="{os.environ.get("PYTHONPATH", "")}"\nexec {sys.executable} {words} "$@"\n'
        )
        program.chmod(0o755)
    (tmp_path / "spread").mkdir()
    told = command(
        "sbatch", "--parsable", "--nodes=1", "--ntasks-per-node=2", f"--output={folder}/spread.out", f"--chdir={folder}",
        f"--export=PATH={tmp_path}/bin:/usr/bin:/bin:/usr/sbin,HOME={tmp_path},FIRSTFAULT_SPREAD={tmp_path}/spread,SLURM_CONF={folder}/slurm.conf",
        str(ROOT / "examples" / "slurm" / "spread.sbatch"), str(logs), "--format", "json", "--output", str(tmp_path / "there.json"),
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    assert until(lambda: not command("squeue", "--noheader").stdout.strip())
    said = (folder / "spread.out").read_text()
    assert "were done on this machine" not in said, said
    here = subprocess.run(
        [sys.executable, "-m", "firstfault", str(logs), "--format", "json", "--engine", "inline"],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert (tmp_path / "there.json").read_text() == here.stdout, said
    assert list((tmp_path / "spread").iterdir()) == []
