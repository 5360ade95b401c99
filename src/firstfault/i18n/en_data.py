"""English messages of the reports about data and about trials; text only, the keys as in `en`."""

from __future__ import annotations

DATA_CHECK: dict[str, str] = {
    "data.ranks": "rank {ranks}:",
    "data.names": "such as: {names}",
    "data.trial": "Dry run",
    "data.per_rank": "items or batches of a rank: {least} to {most} ({known} of {world} ranks known)",
    "data.slowest": "Slowest items",
    "data.files": "Files",
    "data.more": "{n} more (`--format json` has them)",
    "data.rank": "rank",
    "data.end": "end",
    "data.batches": "batches",
    "data.items": "items",
    "data.failed": "failed",
    "data.first": "first",
    "data.median": "median",
    "data.p99": "p99",
    "data.longest": "longest",
    "data.memory": "memory",
    "data.shm": "shm",
    "data.workers": "worker:items",
    "data.worker": "worker",
    "data.item": "item",
    "data.kind": "kind",
    "data.bytes": "bytes",
    "data.hours": "hours",
}
