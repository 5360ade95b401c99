"""Reads what the recorder has written: lines of JSON with fixed fields, each a record of its own.

A line that is cut or that is none of the recorder's is passed over and counted; nothing here says what a record means.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from firstfault.model.blackbox import BoxRecord
from firstfault.model.evidence import GlobalRank, LocalRank, Span, When, Who
from firstfault.model.lazy import lazy
from firstfault.recorder import format as layout

if TYPE_CHECKING:
    from firstfault.model.evidence import SourceId

MOST_TEXT = 4096
START = layout.START.encode()
_UTC = "+00:00"
MOST_NUMBER = 10_000_000
"""A number of ranks from here on is damage."""
_LARGEST = 1 << 63
"""A whole number from here on is damage: no field holds one, and sums with it do not end or overflow."""
_LONG = lazy(rb"[:,\[] *-?\d{19}")
"""What such a number begins with, and few other things."""
_ONE_VALUE = ("signal", "bundle")
"""Fields by which records are looked up; a list or map there is damage."""


class Read(NamedTuple):
    """What a file holds."""

    records: tuple[BoxRecord, ...]
    damaged: int
    """Lines that could not be read."""


def read_box(data: bytes, source: SourceId, path: str) -> Read:
    """The records of a file, in order.

    Args:
        data: all its bytes.
        source: where they come from.
        path: as shown; the run is one of its folders.
    """
    run = run_of(path)
    found: list[BoxRecord] = []
    damaged = at = 0
    for number, raw in enumerate(data.split(b"\n"), start=1):
        if raw.strip():
            record = _record(raw, Span(source, at, len(raw), number, 1), run) if raw.startswith(START) else None
            if record is None:
                damaged += 1
            else:
                found.append(record)
        at += len(raw) + 1
    return Read(tuple(found), damaged)


def run_of(path: str) -> str:
    """The folder of the run in which a file lies: above that of its node, or above `faults`; of a bundle one higher."""
    folders = path.replace("!", "/").split("/")[:-1]
    if folders and folders[-1].startswith("bundle-"):
        folders.pop()
    return "/".join(folders[:-1])


def _record(raw: bytes, span: Span, run: str) -> BoxRecord | None:
    try:
        fields: Any = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if _LONG.search(raw) is not None and not _in_range(fields):
        return None
    kind = fields.get("kind") if isinstance(fields, dict) else None
    if not isinstance(kind, str) or kind not in layout.KINDS:
        return None
    if any(isinstance(fields.get(name), (list, dict)) for name in _ONE_VALUE):
        return None
    rank, local, worker, pid = (_number(fields, n) for n in ("rank", "local_rank", "worker", "pid"))
    host, phase = fields.get("host"), fields.get("phase")
    still = fields.get("still_s")
    return BoxRecord(
        kind=kind,
        who=Who(
            rank=None if rank is None else GlobalRank(rank),
            local_rank=None if local is None else LocalRank(local),
            host=host if isinstance(host, str) and host else None,
            pid=pid,
            worker=worker,
        ),
        when=_when(fields.get("time")),
        span=span,
        text=raw.decode("utf-8", "backslashreplace")[:MOST_TEXT],
        attempt=_number(fields, "attempt") or 0,
        owner=_number(fields, "parent") if worker is not None else None,
        step=_number(fields, "step"),
        phase=phase if isinstance(phase, str) and phase else None,
        last=_seconds(fields.get("last")),
        still=float(still) if isinstance(still, (int, float)) else None,
        run=run,
        fields=fields,
    )


def _in_range(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(_in_range, value.values()))
    if isinstance(value, list):
        return all(map(_in_range, value))
    return not isinstance(value, int) or abs(value) < _LARGEST


def _number(fields: dict[str, Any], name: str) -> int | None:
    value = fields.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST_NUMBER else None


def _seconds(text: object) -> float | None:
    if not isinstance(text, str):
        return None
    try:
        told = datetime.fromisoformat(text)
    except ValueError:
        return None
    return told.timestamp() if told.tzinfo is not None else None


def _when(text: object) -> When:
    seconds = _seconds(text)
    return When() if seconds is None else When(earliest=seconds, latest=seconds, zone=_UTC)
