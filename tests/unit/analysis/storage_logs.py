"""Builds what was read of storage daemons, whose truth is known; for the tests of the storage side."""

from __future__ import annotations

from firstfault.analysis.state.storage import fold
from firstfault.analysis.state.storage_clock import ClockJoin, JobTimes
from firstfault.model.evidence import Event, Span, When
from firstfault.model.storage import (
    Beginning,
    Daemon,
    DaemonLine,
    DaemonRole,
    LogPiece,
    Opening,
    StatsLine,
    StorageLogs,
)

STOP = 100_000.0
"""When the job stood still, on both clocks unless a test moves them."""


def daemon(number, role=DaemonRole.TARGET):
    letter = "t" if role is DaemonRole.TARGET else "p"
    return Daemon(role, f"node{letter}{number}", f"ais-{role}-{number}")


def said(at, signature, text="", *, source=0, line=1, **fields):
    span = Span(source, line * 100, 10, line, 1)
    return DaemonLine(
        at, Event(signature=signature, span=span, text=text or signature, when=When(at, at), fields=fields)
    )


def stats(at, *, source=0, **counters):
    named = {name.replace("__", "."): value for name, value in counters.items()}
    text = "{" + ",".join(f"{k}:{v}" for k, v in sorted(named.items())) + "}"
    return StatsLine(at, named, Span(source, int(at), 10, int(at) % 1000 + 1, 1), text)


def piece(who, *, source=0, lines=(), counters=(), begins=0.0, ends=STOP + 7200, started=(), **more):
    beginnings = tuple(Beginning(Opening.STARTED, at, Span(source, 0, 10, 1, 1), "Started up at") for at in started)
    return LogPiece(
        source=source, daemon=who, lines=tuple(lines), stats=tuple(counters), begins=begins, ends=ends,
        beginnings=beginnings, zone=more.pop("zone", 0), **more,
    )  # fmt: skip


def state(*pieces, offset=0.0, targets=None):
    join = ClockJoin(offset=offset, how="counters", utc=True)
    logs = StorageLogs(pieces=pieces, targets=targets)
    window = None if offset is None else (STOP - 10800, STOP + 600)
    return fold(logs, join, JobTimes(utc=False, stop=STOP, start=STOP - 9000, end=STOP + 1800), window)


def reads(until, *, every=60, rate=5, floor=0, begin=-7200, name="getbatch.n", after=3600):
    """Counters of a daemon that works for a job until a moment, and for others all the time."""
    value, lines = 1000, []
    at = until + begin
    while at < until + after:
        at += every
        work = max(0.0, min(every, until - (at - every))) * rate
        value += int(work) + floor * every
        if work or floor:
            lines.append(StatsLine(at, {name: value}, Span(0, int(at), 10, 1, 1), f"{{{name}:{value}}}"))
    return tuple(lines)
