"""Writes the black box of an invented job, in the recorder's own format; what happened is what the caller says."""

from __future__ import annotations

from datetime import datetime, timezone

from firstfault.recorder import format as layout

START = datetime(2026, 11, 30, 9, 0, tzinfo=timezone.utc).timestamp()


def at(seconds: float) -> str:
    return datetime.fromtimestamp(START + seconds, timezone.utc).isoformat(timespec="microseconds")


class Box:
    """The folder of one run; seconds count from its start."""

    def __init__(self, folder, world=4, run="run-1", per_host=4):
        self.folder = folder / run
        self.world = world
        self.per_host = per_host
        for rank in range(world):
            self.write(rank, layout.HEADER, 0, world=world, launcher=False)

    def host(self, rank):
        return f"node-{rank // self.per_host:02d}"

    def who(self, rank, attempt=0):
        return {
            "rank": rank,
            "local_rank": rank % self.per_host,
            "host": self.host(rank),
            "pid": 4000 + rank + 1000 * attempt,
            "attempt": attempt,
        }

    def line(self, rank, kind, seconds, file=None, attempt=0, **fields):
        name = file or f"{layout.name_of(rank, attempt, 4000 + rank + 1000 * attempt)}.jsonl"
        path = self.folder / self.host(rank) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        who = {"time": at(seconds), **self.who(rank, attempt)}
        with path.open("ab") as file:
            file.write(layout.line(kind, {**who, **fields}))
        return path

    def write(self, rank, kind, seconds, **fields):
        """A line in the rank's own file."""
        return self.line(rank, kind, seconds, **fields)

    def node(self, rank, kind, seconds, **fields):
        """A line in the file of the rank's node."""
        return self.line(rank, kind, seconds, file="node.jsonl", **fields)

    def state(self, rank, kind, seconds, *, step=7, phase="forward", last, call=None, number=20, **fields):
        """A line with a whole state: `last` is the last sign of life, `call` the call that it is in."""
        known = {"name": call or "all_reduce", "number": number, "inside": call is not None, "s_ago": 1.0}
        return self.node(
            rank,
            kind,
            seconds,
            step=step,
            phase=phase,
            still_s=seconds - last,
            last=at(last),
            steps=step,
            pace_s=0.5,
            call=known,
            **fields,
        )

    def hung(self, odd, *, since=100.0, end=500.0, signal="SIGTERM", **of_odd):
        """All stand still: `odd` in something of its own, the others in all_reduce; then all are ended."""
        for rank in range(self.world):
            own = {"last": since, **of_odd} if rank in odd else {"last": since + 0.2, "call": "all_reduce"}
            self.state(rank, layout.HANG, 400, after_s=300.0, **own)
        for rank in range(self.world):
            own = {"last": since, **of_odd} if rank in odd else {"last": since + 0.2, "call": "all_reduce"}
            self.state(rank, layout.DEATH, end + rank / 10, how=f"was ended by {signal}", signal=signal, **own)

    def raised(self, rank, seconds, kind, message, **fields):
        trace = [
            {"file": "train.py", "line": 9, "function": "<module>"},
            {"file": "train.py", "line": 5, "function": "step"},
        ]
        more = {
            "step": 7,
            "phase": "forward",
            "type": kind,
            "message": message,
            "traceback": trace,
            "chain": [],
            "caught": False,
        }
        self.write(rank, layout.EXCEPTION, seconds, **{**more, "thread": "MainThread", **fields})
