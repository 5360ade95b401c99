"""The storage side of a diagnosis as rows of text, for the formats; infers nothing and escapes for none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.report import phrases

if TYPE_CHECKING:
    from collections.abc import Mapping

    from firstfault.model.diagnosis import Storage, StorageCounter, StorageDaemon, StorageEvent


def clock(storage: Storage, say: Mapping[str, str]) -> str:
    """How the daemons' clock lies to the job's, in one sentence."""
    offset = storage.clock.offset_seconds
    if offset is None:
        why = f" ({storage.clock.why})" if storage.clock.why else ""
        return say["storage.clock_unknown"] + why
    minutes = round(abs(offset) / 60)
    key = "storage.same" if not minutes else "storage.subtract" if offset < 0 else "storage.add"
    shift = say[key].format(offset=f"{minutes // 60}:{minutes % 60:02d}")
    doubt = f" ({storage.clock.why})" if storage.clock.why else ""
    return say[f"storage.clock_{storage.clock.how}"].format(offset=shift) + doubt


def coverage(daemon: StorageDaemon, say: Mapping[str, str]) -> str:
    """From when to when the logs of a daemon reach."""
    ends = [phrases.when(t, say) for t in (daemon.begins, daemon.ends) if t is not None]
    text = " .. ".join(ends) if ends else say["time.unknown"]
    return text if daemon.covers_failure else f"{text} ({say['storage.not_covered']})"


def state(daemon: StorageDaemon, say: Mapping[str, str]) -> str:
    """Restarts, alerts and holes of a daemon; empty where there is nothing."""
    parts = [say["storage.restarted"].format(place=phrases.place(r)) for r in daemon.restarts]
    parts += daemon.alerts
    parts += daemon.holes
    return "; ".join(parts)


def event(row: StorageEvent, say: Mapping[str, str]) -> str:
    """What befell a daemon, with both times."""
    own = phrases.when(row.evidence.time, say)
    job = "" if row.job_time is None else f" ({say['storage.job_time']} {phrases.when(row.job_time, say)})"
    many = f", {say['value.times'].format(n=row.count)}" if row.count > 1 else ""
    return f"{own}{job} {row.daemon}: {row.what}{many}"


def counter(row: StorageCounter, say: Mapping[str, str]) -> list[str]:
    """One row of the table of counters, with its two lines and their times."""
    reset = " *" if row.reset else ""
    numbers = [str(row.before), str(row.after), f"{row.delta}{reset}", f"{row.per_second:g}"]
    return [row.daemon, row.counter, *numbers, "; ".join(_lines(row, say))]


def _lines(row: StorageCounter, say: Mapping[str, str]) -> list[str]:
    known = len(row.job_times) == len(row.evidence)
    return [
        f"{phrases.when(line.time, say)}"
        + (f" ({say['storage.job_time']} {phrases.when(row.job_times[i], say)})" if known else "")
        + f" {phrases.place(line)}"
        for i, line in enumerate(row.evidence)
    ]
