"""A recorded job on two nodes, each with a host name, a monitor and a local folder of its own, over one shared folder.

One node is lost whole, its monitor with its ranks, so that nobody there can tell of it; once silently, as a machine without power
or network, and once with its connections closed, as a container that is taken away.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from black_box import AT, FAULTY, SHORT, SOURCES
from register import scenario
from stage import LIMIT, python

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from stage import Stage

STAYS, LEAVES = "lab-node-1", "lab-node-2"
HERE = {STAYS: [0, 1], LEAVES: [2, 3]}
"""Ranks of each node; the one that says when the step is there is of the second."""
TOLD_S = 60.0
"""Seconds within which a loss must be told on a machine under load; on a free one it is four."""


def _started(stage: Stage) -> dict[str, subprocess.Popen[bytes]]:
    """The job: 4 ranks, two on each node; it returns when the step is there in whose neighbourhood a node is to be lost."""
    for number in range(800):
        (stage.work / "data" / f"{number:04d}.txt").write_text("1.5", encoding="ascii")
    os.mkfifo(stage.work / "gate_of_job")
    common = {"fault": "stopped", "rank": FAULTY, "at": AT, "world": 4, "workers": 0, "context": "fork", "step_s": 0.05}
    paths = {"data": stage.work / "data", "store": stage.work / "store", "gate": stage.work / "gate_of_job"}
    jobs = {}
    for host, here in HERE.items():
        config = stage.work / f"config-{host}.json"
        config.write_text(json.dumps({**common, **paths, "here": here}, default=str), encoding="utf-8")
        record = [
            sys.executable,
            "-m",
            "firstfault",
            "record",
            "--dir",
            str(stage.logs / "box"),
            "--run",
            "two",
            "--hang",
            "60",
        ]
        local = {"FIRSTFAULT_RECORD_LOCAL": str(stage.work / f"local-{host}")}
        jobs[host] = stage.start(
            [*record, "--", *python("boxed.py", str(config))],
            f"../work/console-{host}.txt",
            host=host,
            environment={"PYTHONPATH": SOURCES, **SHORT, **local},
        )
    with (stage.work / "gate_of_job").open(encoding="ascii") as gate:
        gate.readline()
    return jobs


def _everything(stage: Stage, job: subprocess.Popen[bytes], host: str) -> list[int]:
    """All processes of a node: the command with its ranks, and the monitor, which is no child of theirs."""
    locks = list((stage.work / f"local-{host}").rglob("monitor.lock"))
    assert len(locks) == 1, locks
    return [*stage.tree(job), json.loads(locks[0].read_text(encoding="utf-8"))["pid"]]


def _wait_for(what: str, there: Callable[[], object]) -> None:
    end = time.monotonic() + TOLD_S
    while not there():
        assert time.monotonic() < end, f"nobody saw {what}"
        time.sleep(0.1)


def _text(folder: Path, name: str) -> str:
    return "".join(file.read_text(encoding="utf-8") for file in folder.rglob(name))


@scenario(
    "infrastructure",
    ranks=None,
    hosts=[LEAVES],
    at_most="possible",
    never=["software", "data", "data_loading_stall"],
    says=(LEAVES, "sign of life"),
    namespaces=True,
)
def box_second_node_falls_silent(stage: Stage) -> None:
    """All of the second node stands still at once, its monitor too; the first one tells of it, takes stacks, and is ended."""
    jobs = _started(stage)
    for pid in (lost := _everything(stage, jobs[LEAVES], LEAVES)):
        os.kill(pid, signal.SIGSTOP)
    _wait_for("the silence", lambda: list((stage.logs / "box").rglob(f"faults/{LEAVES}.node.*.json")))
    _wait_for("stacks", lambda: '"kind":"bundle"' in _text(stage.logs / "box", "node.jsonl"))
    os.killpg(jobs[STAYS].pid, signal.SIGTERM)
    assert jobs[STAYS].wait(timeout=LIMIT) != 0
    for pid in lost:
        os.kill(pid, signal.SIGKILL)


@scenario(
    "infrastructure",
    ranks=None,
    hosts=[LEAVES],
    at_most="possible",
    never=["software", "data", "data_loading_stall"],
    says=(LEAVES,),
    namespaces=True,
)
def box_second_node_killed_whole(stage: Stage) -> None:
    """All of the second node is killed at once, its monitor too; the ranks of the first see their connections closed, and raise."""
    jobs = _started(stage)
    lost = _everything(stage, jobs[LEAVES], LEAVES)
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in lost:
            os.kill(pid, number)
    assert jobs[STAYS].wait(timeout=LIMIT) != 0
