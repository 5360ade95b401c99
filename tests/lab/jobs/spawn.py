"""The same kind of job without a launcher: processes started by torch.multiprocessing.spawn."""

from __future__ import annotations

import csv
import datetime as dt
import json
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

PATIENCE_S = 8.0
"""Seconds for which a process that lost its peer waits before it says so."""


def read_rows(folder: Path, rank: int) -> list[float]:
    """The targets in the table of this rank."""
    with (folder / f"table-{rank}.csv").open(encoding="utf-8", newline="") as handle:
        return [float(row["target"]) for row in csv.DictReader(handle)]


def work(rank: int, config: dict) -> None:
    """What each process does."""
    dist.init_process_group(
        "gloo",
        init_method=f"tcp://127.0.0.1:{config['port']}",
        rank=rank,
        world_size=config["world"],
        timeout=dt.timedelta(seconds=config["timeout_s"]),
    )
    sys.stdout.write(f"process {rank} ready\n")
    total = torch.tensor(sum(read_rows(Path(config["data"]), rank)))
    try:
        dist.all_reduce(total)
    except RuntimeError:
        # Which process the parent hears first decides whose error it prints: whoever lost its peer leaves the word to the peer,
        # whose native threads may take seconds to come down on a busy machine.
        time.sleep(PATIENCE_S)
        raise
    sys.stdout.write(f"process {rank}: total {total.item():.1f}\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    settings = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    mp.spawn(work, args=(settings,), nprocs=settings["world"])
