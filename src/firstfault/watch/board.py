"""The state of every rank at one moment, read from the folder of a recorder: who moves, who is slow, who stands, who is gone.

Reads files only, and few: one a node, the deaths, and the headers' names. It draws nothing and asks nobody.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from firstfault.model.blackbox import item_of
from firstfault.model.evidence import SourceId
from firstfault.model.paces import LOADER, call_share, loader_share, own_share, slow_ranks
from firstfault.readers.blackbox import read_box
from firstfault.readers.lone_box import numbered
from firstfault.recorder import format as layout
from firstfault.recorder.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from firstfault.model.blackbox import BoxRecord

MOST_HEADERS = 256
"""Processes of no rank whose headers are read."""
OLD_S = 60.0
"""Seconds after which a node that writes no heartbeats is called silent, where it does not say that it writes more seldom."""
CLOCKS_S = 10.0
"""Seconds by which clocks of nodes may differ: what a node wrote within them after its neighbours missed it is no sign that it lives on."""
_MISSED = 4.0
"""Heartbeats of a node that must be missing before it is called silent."""


class Row(Struct, frozen=True, kw_only=True):
    """One rank."""

    rank: int
    host: str
    state: str
    """`moving`, `slow`, `stalled`, `dead`, `ended`, or `silent` where its node writes no more."""
    step: int | None = None
    phase: str | None = None
    still_s: float | None = None
    """Seconds without a sign of life, when its node wrote last: what it has done since is not known yet."""
    pace_s: float | None = None
    waited_share: float | None = None
    """Share of its time that it spent in calls of torch.distributed."""
    loader_share: float | None = None
    own_share: float | None = None
    """Share of its time in which it can have waited for nobody; None where waits cannot be seen."""
    note: str = ""
    """How it ended, or what it waits for."""


class Board(Struct, frozen=True, kw_only=True):
    """All ranks of a run."""

    run: str
    rows: tuple[Row, ...]
    world: int | None

    def count(self, state: str) -> int:
        """How many ranks are in a state."""
        return sum(row.state == state for row in self.rows)


def latest_run(folder: Path) -> Path:
    """The run of a recorder's folder that was written last; the folder itself where it is one run.

    Raises:
        FileNotFoundError: there is none.
    """
    if any(folder.glob(f"*/{layout.NODE_FILE}")):
        return folder
    runs = {f.parent.parent: f.stat().st_mtime for f in folder.glob(f"*/*/{layout.NODE_FILE}")}
    if not runs:
        raise FileNotFoundError(f"{folder} holds no run of the recorder")
    return max(runs, key=lambda run: (runs[run], run.name))


def read_board(run: Path, now: float | None = None) -> Board:
    """The state of every rank of a run.

    Args:
        run: the folder of the run.
        now: the time in seconds; the clock's where None.
    """
    now = time.time() if now is None else now
    limits: dict[str, _Limits] = {}
    lost: dict[str, float] = {}
    beats: dict[int, BoxRecord] = {}
    ends: dict[int, BoxRecord] = {}
    for record in numbered(_records(run)):
        rank = record.who.rank
        if record.kind == layout.LOST:
            lost[record.who.host or ""] = max(lost.get(record.who.host or "", 0.0), record.when.latest or 0.0)
        if record.kind == layout.NODE:
            limits[record.who.host or ""] = _limits(record.fields)
        if rank is None or record.who.worker is not None:
            continue
        if record.kind == layout.BEAT:
            kept = beats
        elif record.kind in {layout.DEATH, layout.END}:
            kept = ends
        else:
            continue
        before = kept.get(int(rank))
        if before is None or (record.attempt, record.when.latest or 0) >= (before.attempt, before.when.latest or 0):
            kept[int(rank)] = record
    last = {r: _later(beats.get(r), ends.get(r)) for r in sorted({*beats, *ends})}
    rows = [
        _row(rank, record, now, limits.get(record.who.host or "", _limits({})), lost.get(record.who.host or "", 0.0))
        for rank, record in last.items()
    ]
    slow = slow_ranks({row.rank: last[row.rank].fields for row in rows if row.state == "moving"})
    if slow is not None:
        note = "waits for its loader" if slow.by == LOADER else "the others wait for it"
        rows = [replace(row, state="slow", note=note) if row.rank in slow.ranks else row for row in rows]
    worlds = [w for record in last.values() if isinstance(w := record.fields.get("world"), int)]
    return Board(run=run.name, rows=tuple(rows), world=max(worlds, default=None))


def _records(run: Path) -> Sequence[BoxRecord]:
    found: list[BoxRecord] = []
    for name in (layout.HEARTBEAT_FILE, layout.NODE_FILE):
        for file in sorted(run.glob(f"*/{name}")):
            try:
                raw = file.read_bytes()
            except OSError:
                continue  # replaced while we looked
            found.extend(read_box(raw, SourceId(0), str(file)).records)
    if found and all(r.who.rank is None for r in found):
        found.extend(_headers(run))
    return found


def _headers(run: Path) -> list[BoxRecord]:
    """The first lines of the processes of no rank, which tell a program from its launcher."""
    found: list[BoxRecord] = []
    for file in sorted(run.glob(f"*/process.*{layout.LINES}"))[:MOST_HEADERS]:
        with contextlib.suppress(OSError), file.open("rb") as lines:
            raw = lines.readline(1 << 20)
            found.extend(read_box(raw, SourceId(0), str(file)).records)
    return found


def _later(beat: BoxRecord | None, end: BoxRecord | None) -> BoxRecord:
    if beat is None or (
        end is not None and (end.attempt, end.when.latest or 0) >= (beat.attempt, beat.when.latest or 0)
    ):
        assert end is not None
        return end
    return beat


class _Limits(NamedTuple):
    """As the recorder of a node was told."""

    hang_s: float
    start_s: float
    gather_s: float


def _limits(fields: dict[str, Any]) -> _Limits:
    """Seconds to a standstill, the same before the first step, and between two heartbeats; the defaults where it does not say."""
    plain = Settings("", "", "", "")
    told = {n: fields.get(n) for n in _Limits._fields}
    return _Limits(*(float(v) if isinstance(v, (int, float)) else getattr(plain, n) for n, v in told.items()))


def _still_after(fields: dict[str, Any], limits: _Limits) -> float:
    steps, pace = fields.get("steps"), fields.get("pace_s")
    done = steps if isinstance(steps, int) else 0
    known = float(pace) if isinstance(pace, (int, float)) else None
    return layout.still_after(limits.hang_s, limits.start_s, done, known)


def _row(rank: int, record: BoxRecord, now: float, limits: _Limits, lost: float) -> Row:
    age = now - (record.when.latest or now)
    still = record.still or 0.0
    state, note = "moving", ""
    if record.kind == layout.DEATH:
        state, note = "dead", str(record.fields.get("how") or "")
    elif record.kind == layout.END:
        state = "ended"
    elif age > max(OLD_S, _MISSED * limits.gather_s) or now - age <= lost + CLOCKS_S:
        state, note = "silent", "its node has written nothing since"
    elif still > _still_after(record.fields, limits):
        # As the monitor does: of a process that tells neither steps nor a phase nobody can say that it stands still.
        told = bool(record.fields.get("steps")) or record.phase is not None
        state, note = ("stalled", _doing(record)) if told else ("moving", "tells no step and no phase")
    pace = record.fields.get("pace_s")
    return Row(
        rank=rank,
        host=record.who.host or "",
        state=state,
        step=record.step,
        phase=record.phase,
        still_s=round(still, 1),
        pace_s=float(pace) if isinstance(pace, (int, float)) else None,
        waited_share=call_share(record.fields),
        loader_share=loader_share(record.fields),
        own_share=own_share(record.fields),
        note=note,
    )


def _doing(record: BoxRecord) -> str:
    call = record.fields.get("call")
    if isinstance(call, dict) and call.get("inside") is True:
        return f"in {call.get('name')}"
    item = item_of(record.fields)
    return "" if item is None else f"at {item}"
