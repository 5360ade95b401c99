"""Evaluation of shards: every rank counts on its own, then the counts are put together."""

from __future__ import annotations

import datetime as dt
import json
import logging
import sys
from pathlib import Path

import torch
import torch.distributed as dist

log = logging.getLogger("evaluate")


def put_together(counts: torch.Tensor) -> torch.Tensor:
    """The counts of all ranks added up."""
    if counts[1] > 0:
        dist.all_reduce(counts)
    else:
        # Nothing was seen here: take what the first rank has.
        dist.broadcast(counts, src=0)
    return counts


def main() -> None:
    config = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    dist.init_process_group("gloo", timeout=dt.timedelta(seconds=config["timeout_s"]))
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[%(asctime)s] [{rank}] %(message)s")
    for part in range(1, config["parts"] + 1):
        file = Path(config["data"]) / f"part-{part}-{rank}.json"
        scores = json.loads(file.read_text(encoding="utf-8"))
        log.info("part %d: %d scores in %s", part, len(scores), file)
        counts = put_together(torch.tensor([sum(scores), len(scores)], dtype=torch.float32))
        log.info("part %d: accuracy %.3f", part, (counts[0] / counts[1]).item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
