"""A job that streams one shard of lines for each step and averages over the ranks by hand; no DataLoader, no DDP.

Runs under torchrun, or as plain processes that find each other through `JOB_MASTER` (rank 0 holds the store).
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import os
import sys
from pathlib import Path

import gates
import torch
import torch.distributed as dist

log = logging.getLogger("stream")


def read_shard(folder: Path, rank: int, step: int) -> torch.Tensor:
    """The numbers of one shard."""
    file = folder / f"shard-{rank}-{step:03d}.jsonl"
    log.info("rank %d: reading %s", rank, file)
    with file.open(encoding="utf-8") as handle:
        return torch.tensor([json.loads(line)["value"] for line in handle])


def count_steps(folder: Path, rank: int) -> int:
    """How many shards this rank has."""
    return len(list(folder.glob(f"shard-{rank}-*.jsonl")))


def pair_and_column(rank: int, world: int, timeout: dt.timedelta) -> list[dist.ProcessGroup]:
    """The group of this rank and its neighbour, then the group of all ranks at the same place of their pairs."""
    pairs = [[first, first + 1] for first in range(0, world, 2)]
    columns = [list(range(place, world, 2)) for place in (0, 1)]
    mine = [members for members in (*pairs, *columns) if rank in members]
    groups = [dist.new_group(members, timeout=timeout) for members in (*pairs, *columns)]
    log.info("rank %d: pair %s, column %s", rank, *mine)
    return [group for group, members in zip(groups, (*pairs, *columns), strict=True) if rank in members]


def meet() -> None:
    """Waits until all ranks have come so far, through the launcher's store: the short time-out of the job is none of their start."""
    if "JOB_MASTER" in os.environ:
        return
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = dist.TCPStore(address, port, is_master=False, timeout=dt.timedelta(minutes=2))
    store.set(f"come/{os.environ['RANK']}", "1")
    store.wait([f"come/{rank}" for rank in range(int(os.environ["WORLD_SIZE"]))])


def main() -> None:
    config = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s - %(name)s - %(levelname)s - %(message)s")
    timeout = dt.timedelta(seconds=config["timeout_s"])
    meet()
    dist.init_process_group(
        "gloo",
        init_method=os.environ.get("JOB_MASTER", "env://"),
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
        timeout=timeout,
    )
    rank, world, data = dist.get_rank(), dist.get_world_size(), Path(config["data"])
    log.info("rank %d of %d is up", rank, world)
    groups = pair_and_column(rank, world, timeout) if config.get("pairs") else [None]
    store = dist.distributed_c10d._get_default_store()
    for step in range(1, count_steps(data, rank) + 1):
        mean = read_shard(data, rank, step).mean()
        gates.reached(f"rank-{rank}-step-{step}")
        if config.get("turns"):
            # Ranks take turns in writing their part, each waiting for the one before it through the store.
            if rank > 0:
                store.wait([f"written/{step}/{rank - 1}"])
            store.set(f"written/{step}/{rank}", "1")
            if rank == 0:
                # The first one begins anew when the last one is done: nobody is a step ahead of one that is still starting.
                store.wait([f"written/{step}/{world - 1}"])
        else:
            for group in groups:
                dist.all_reduce(mean, group=group)
        log.info("rank %d: step %d mean %.3f", rank, step, mean.item() / world)
    if config.get("final_check"):
        dist.monitored_barrier(timeout=timeout)
    if rank == 0:
        log.info("epoch done")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
