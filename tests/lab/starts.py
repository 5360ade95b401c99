"""Ways to start the streaming job that several scenarios share: on two machines, and without a launcher.

Must not hold a scenario or put a fault into a job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stage import HOST, free_port, python, torchrun

if TYPE_CHECKING:
    from pathlib import Path
    from subprocess import Popen

    from stage import Stage

OTHER = "lab-node-2"
"""The second machine of the jobs that have two."""


def two_nodes(stage: Stage, gate: str | None = None) -> list[Popen[bytes]]:
    """Starts the streaming job on two machines of two ranks each, a log for each machine."""
    port, config = free_port(), stage.config()
    nodes = []
    for number, host in enumerate([HOST, OTHER]):
        where = ["--nnodes=2", f"--node-rank={number}", "--master-addr=127.0.0.1", f"--master-port={port}"]
        nodes.append(stage.start(torchrun("stream.py", config, 2, *where), f"{host}.log", host=host, gate=gate))
    return nodes


def plain_processes(
    stage: Stage, world: int, config: Path, environment: dict[str, str], gate: str | None = None
) -> list[Popen[bytes]]:
    """Starts the streaming job without a launcher, a process and a log for each rank."""
    port = free_port()
    jobs = []
    for rank in range(world):
        place = {"RANK": str(rank), "WORLD_SIZE": str(world), "JOB_MASTER": f"tcp://127.0.0.1:{port}"}
        command = python("stream.py", config)
        jobs.append(stage.start(command, f"rank_{rank}.log", gate=gate, environment=place | environment))
    return jobs
