"""Writes the flight-recorder dumps of a large job: full rings with stacks, one rank that never issues the last collective.

    python bench/recorder/make.py FOLDER [--ranks 256] [--entries 2000] [--culprit 37]

The form is that of PyTorch 2.13 with NCCL. Prints nothing; the truth is the culprit.
"""

from __future__ import annotations

import argparse
import pickle
import random
from pathlib import Path
from typing import Any

START = 1_795_962_000_000_000_000
OPS = ("_all_gather_base", "_reduce_scatter_base", "all_reduce", "broadcast")


def stacks() -> list[list[dict[str, Any]]]:
    """Stacks of several places of one training script, of 14 frames each, sharing their outer frames."""
    outer = [
        {"name": n, "filename": f"/opt/train/{f}.py", "line": line}
        for n, f, line in (
            ("forward", "model/block", 118),
            ("_call_impl", "torch/nn/modules/module", 1784),
            ("_wrapped_call_impl", "torch/nn/modules/module", 1773),
            ("forward", "model/decoder", 402),
            ("_call_impl", "torch/nn/modules/module", 1784),
            ("_wrapped_call_impl", "torch/nn/modules/module", 1773),
            ("forward_step", "pretrain", 231),
            ("train_step", "pretrain", 318),
            ("train", "pretrain", 377),
            ("main", "pretrain", 455),
            ("<module>", "pretrain", 461),
        )
    ]
    return [
        [
            {
                "name": op,
                "filename": "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py",
                "line": 3000 + i,
            },
            {
                "name": "wrapper",
                "filename": "/opt/venv/lib/python3.11/site-packages/torch/distributed/c10d_logger.py",
                "line": 83,
            },
            {"name": f"gather_{i}", "filename": "/opt/train/parallel/shards.py", "line": 60 + i},
            *outer,
        ]
        for i, op in enumerate(OPS * 4)
    ]


def entry(  # noqa: PLR0917
    number: int, group: tuple[str, str], pg_id: int, seq: int, places: list[list[dict[str, Any]]], shift: int
) -> dict[str, Any]:
    """One completed collective."""
    place = number % len(places)
    op = OPS[place % len(OPS)]
    rows = 1024 * (1 + place % 7)
    created = START + number * 900_000 + shift
    wide = [[rows * 8, 8]] if op == "_all_gather_base" else [[rows, 8]]
    tall = [[rows * 8, 8]] if op == "_reduce_scatter_base" else [[rows, 8]]
    return {
        "frames": list(places[place]),  # a list of its own for each entry, of frames that all share
        "record_id": number,
        "pg_id": pg_id,
        "process_group": group,
        "thread_name": "python3",
        "thread_id": "140184367373184",
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "op_id": number + 1,
        "profiling_name": f"nccl:{op}",
        "time_created_ns": created,
        "duration_ms": 0.75,
        "input_sizes": tall,
        "input_dtypes": ["BFloat16"],
        "output_sizes": wide,
        "output_dtypes": ["BFloat16"],
        "state": "completed",
        "time_discovered_started_ns": created + 40_000,
        "time_discovered_completed_ns": created + 800_000,
        "retired": True,
        "timeout_ms": 600_000,
        "is_p2p": False,
    }


def dump(rank: int, ranks: int, entries: int, culprit: int) -> dict[str, Any]:
    """The dump of one rank: collectives of its machine of 8 and of the whole job in turn."""
    node = rank // 8
    inner = (str(node + 1), "NODE_GROUP")
    members = list(range(node * 8, min(node * 8 + 8, ranks)))
    places, shift = stacks(), random.Random(rank).randrange(200_000)
    first = 100_000
    rows = []
    for i in range(entries):
        number = first + i
        world = i % 4 == 3
        group, pg_id, seq = (("0", "default_pg"), 0, number // 4) if world else (inner, 1, number - number // 4)
        rows.append(entry(number, group, pg_id, seq, places, shift))
    last = entry(first + entries, ("0", "default_pg"), 0, (first + entries) // 4, places, shift)
    last |= {
        "state": "scheduled",
        "retired": False,
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "input_sizes": [[1]],
        "output_sizes": [[1]],
    }
    last.pop("duration_ms")
    last["profiling_name"] = "nccl:all_reduce"
    if rank != culprit:
        rows = [*rows[1:], last]
    seqs = {
        0: [r["collective_seq_id"] for r in rows if r["pg_id"] == 0],
        1: [r["collective_seq_id"] for r in rows if r["pg_id"] == 1],
    }
    return {
        "version": "2.10",
        "comm_lib_version": "2.28.9",
        "pg_config": {
            "0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(ranks)))},
            inner[0]: {"name": inner[0], "desc": inner[1], "ranks": str(members)},
        },
        "pg_status": {
            str(i): {
                "last_enqueued_collective": s[-1],
                "last_started_collective": -1,
                "last_completed_collective": s[-1] - (i == 0 and rank != culprit),
            }
            for i, s in seqs.items()
        },
        "entries": rows,
    }


def main() -> None:
    """Writes the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranks", type=int, default=256)
    parser.add_argument("--entries", type=int, default=2000)
    parser.add_argument("--culprit", type=int, default=37)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    for rank in range(asked.ranks):
        whole = dump(rank, asked.ranks, asked.entries, asked.culprit)
        (asked.folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(whole, 2))


if __name__ == "__main__":
    main()
