"""Jobs that record and meet one fault each; their diagnosis gets the black box alone, no log.

The ranks are forked from one process that has imported torch, which a start costs most; two jobs run under torchrun.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from register import scenario
from stage import LIMIT, host_name, python, torchrun

import firstfault

if TYPE_CHECKING:
    import subprocess

    from stage import Stage

SOURCES = str(Path(firstfault.__file__).parents[1])
SECRET = "sk-proj-Planted0Secret1Of2This3Lab4Job5"
OTHER_SECRET = "hf_PlantedTokenOfThisLabJob0123456789"
AT, FAULTY = 6, 2
"""The step and the rank of each fault."""
SHORT = {"FIRSTFAULT_RECORD_GAP_S": "0.2", "FIRSTFAULT_RECORD_GRACE_S": "1", "FIRSTFAULT_RECORD_GATHER_S": "1"}


def recorded(stage: Stage, fault: str, *options: str, launcher: bool = False, **settings: Any) -> int:
    """Performs a job with the recorder on; its exit code."""
    job = start(stage, fault, *options, launcher=launcher, **settings)
    return job.wait(timeout=LIMIT)


def start(
    stage: Stage,
    fault: str,
    *options: str,
    launcher: bool = False,
    environment: dict[str, str] | None = None,
    **settings: Any,
) -> subprocess.Popen[bytes]:
    """Starts a job with the recorder on."""
    common = {
        "world": 4,
        "workers": 0,
        "context": "fork",
        "step_s": 0.01,
        "rank": FAULTY,
        "at": AT,
        "samples": 80,
        **settings,
    }
    for number in range(common["samples"]):
        (stage.work / "data" / f"{number:04d}.txt").write_text("1.5", encoding="ascii")
    for name in ("pipe", "gate_of_job"):
        os.mkfifo(stage.work / name)
    os.mkfifo(stage.work / "data" / f"{2 * AT:04d}.fifo")
    paths = {
        "data": stage.work / "data",
        "store": stage.work / "store",
        "pipe": stage.work / "pipe",
        "gate": stage.work / "gate_of_job",
    }
    config = stage.work / "config.json"
    config.write_text(json.dumps({**common, **paths, "fault": fault, "secret": SECRET}, default=str), encoding="utf-8")
    words = torchrun("boxed.py", str(config), common["world"]) if launcher else python("boxed.py", str(config))
    command = [
        *(sys.executable, "-m", "firstfault", "record", "--dir", str(stage.logs / "box")),
        *(options or ("--hang", "2", "--stop")),
        *("--", *words, f"--api-key={SECRET}"),
    ]
    given = {
        "PYTHONPATH": SOURCES,
        "HUB_TOKEN": OTHER_SECRET,
        "NCCL_NOTE": f"token={OTHER_SECRET}",
        **SHORT,
        **(environment or {}),
    }
    return stage.start(command, "../work/console.txt", environment=given)


HELD = {"ranks": [FAULTY], "hosts": [host_name()], "never": ["network"]}


@scenario("data_loading_stall", **HELD, phase="data", says=("rank 2", "Worker 0 of its loader", "0012.fifo"))
def box_worker_stuck_on_a_read(stage: Stage) -> None:
    """A worker of the loader of rank 2 opens a pipe into which nobody writes."""
    assert recorded(stage, "worker_stuck", workers=1) != 0


@scenario(
    "data_loading_stall", ranks=[1], hosts=[host_name()], never=["network"], phase="data", says=("ank 1", "0012.fifo")
)
def box_spawned_worker_stuck_on_a_read(stage: Stage) -> None:
    """The same with a spawned worker, which knows of the recorder only by its environment."""
    assert recorded(stage, "worker_stuck", world=2, rank=1, workers=1, context="spawn") != 0


ALONE = {"world": 1, "rank": 0, "alone": True}
"""Without a launcher: one process, to which nobody tells a rank."""


@scenario(
    "data_loading_stall", ranks=[0], hosts=[host_name()], never=["network"], phase="data", says=("ank 0", "0012.fifo")
)
def box_alone_stuck_on_a_read(stage: Stage) -> None:
    """A plain `python train.py` whose loader's worker opens a pipe into which nobody writes."""
    assert recorded(stage, "worker_stuck", workers=1, **ALONE) != 0


@scenario("infrastructure", ranks=[0], hosts=[host_name()], first=[0], says=("ank 0", "SIGKILL", "after step 5"))
def box_alone_killed(stage: Stage) -> None:
    """The same program is killed by SIGKILL."""
    assert recorded(stage, "killed", **ALONE) != 0


@scenario("infrastructure", "data", "software", **HELD, first=[FAULTY], says=("ank 2", "SIGKILL"))
def box_worker_killed(stage: Stage) -> None:
    """A worker of the loader of rank 2 is killed."""
    assert recorded(stage, "worker_killed", workers=1) != 0


@scenario(
    "data",
    "software",
    ranks=None,
    hosts=None,
    first=[FAULTY],
    never=["network"],
    says=("rank 2", "after step 5"),
    trigger=["label 17 is outside"],
)
def box_exception_on_one_rank(stage: Stage) -> None:
    """Rank 2 raises; what was planted in environment, arguments, configuration and message is in no file."""
    assert recorded(stage, "raises", launcher=True) != 0
    for file in (stage.logs / "box").rglob("*"):
        content = file.read_bytes() if file.is_file() else b""
        assert SECRET.encode() not in content, file
        assert OTHER_SECRET.encode() not in content, file
        assert SECRET[10:].encode() not in content, file


@scenario("infrastructure", **HELD, first=[FAULTY], says=("rank 2", "SIGKILL", "after step 5"), trigger=["SIGKILL"])
def box_rank_killed(stage: Stage) -> None:
    """Rank 2 is killed by SIGKILL."""
    assert recorded(stage, "killed") != 0


@scenario("software", **HELD, first=[FAULTY], says=("rank 2", "after step 5"), trigger=["Segmentation fault"])
def box_rank_crashes(stage: Stage) -> None:
    """Rank 2 reads at address 0."""
    assert recorded(stage, "crashes") != 0


@scenario("data_loading_stall", "software", **HELD, says=("rank 2", "phase augment", "after step 5", "boxed.py"))
def box_deadlock_on_a_lock(stage: Stage) -> None:
    """Rank 2 takes a lock twice; the others wait in a sum."""
    assert recorded(stage, "lock") != 0


@scenario("data_loading_stall", "software", **HELD, says=("rank 2", "phase tokenize", "interpreter's lock"))
def box_lock_of_the_interpreter_held(stage: Stage) -> None:
    """Rank 2 stands in C code that keeps the interpreter's lock: only signals and /proc reach it."""
    assert recorded(stage, "holds_gil") != 0


@scenario("data_loading_stall", "storage_io", **HELD, phase="checkpoint", says=("rank 2", "checkpoint", "after step 5"))
def box_checkpoint_never_written(stage: Stage) -> None:
    """Rank 2 saves into a pipe that nobody empties, as a file system that does not answer."""
    job = start(stage, "checkpoint")
    holder = os.open(stage.work / "pipe", os.O_RDWR)
    try:
        assert job.wait(timeout=LIMIT) != 0
    finally:
        os.close(holder)


@scenario("collective_mismatch", **HELD, says=("rank 2", "broadcast"))
def box_another_collective(stage: Stage) -> None:
    """Rank 2 of 8 calls broadcast where the others call all_reduce."""
    assert recorded(stage, "other_call", world=8) != 0


@scenario("infrastructure", "data_loading_stall", ranks=None, hosts=None, never=["network"], says=("ank 2", "slower"))
def box_slow_rank(stage: Stage) -> None:
    """Rank 2 takes three times as long for its own work until somebody ends the job."""
    _ended_at_the_gate(stage, start(stage, "slow", "--hang", "30", step_s=0.03, samples=200, at=40))


@scenario("infrastructure", "data_loading_stall", ranks=None, hosts=None, never=["network"], says=("ank 2", "slower"))
def box_slow_rank_under_ddp(stage: Stage) -> None:
    """The same where gradients are summed up within the backward pass: all step at one pace, and nobody is seen in a call."""
    _ended_at_the_gate(stage, start(stage, "slow", "--hang", "30", step_s=0.03, samples=200, at=60, ddp=True))


@scenario("infrastructure", never=["network", "software", "data_loading_stall"], says=("told to stop",), first=[])
def box_preempted(stage: Stage) -> None:
    """SIGTERM to the launcher in the middle of the run, as a scheduler sends it."""
    _ended_at_the_gate(stage, start(stage, "stopped", "--hang", "30", launcher=True))


def _ended_at_the_gate(stage: Stage, job: subprocess.Popen[bytes]) -> None:
    """Sends SIGTERM to all processes of the job when the faulty rank says that it is there."""
    with (stage.work / "gate_of_job").open(encoding="ascii") as gate:
        gate.readline()
    os.killpg(job.pid, signal.SIGTERM)
    assert job.wait(timeout=LIMIT) != 0


@scenario("gpu_cuda", **HELD, first=[FAULTY], says=("rank 2", "after step 5"), trigger=["CUDA out of memory"])
def box_out_of_memory(stage: Stage) -> None:
    """Rank 2 of 8 raises what torch raises when the card is full."""
    assert recorded(stage, "out_of_memory", world=8) != 0


@scenario("none")
def box_all_is_well(stage: Stage) -> None:
    """Nothing happens: every rank ends with code 0."""
    assert recorded(stage, "", samples=20) == 0
