"""What the recorder of a job has written: one record a line. Observations only."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from firstfault.model.evidence import Span, When, Who


class BoxRecord(Struct, frozen=True, kw_only=True):
    """One line of the black box."""

    kind: str
    """As `firstfault.recorder.format` names it: `header`, `heartbeat`, `exception`, `death`, `hang`, `state` …"""
    who: Who
    """Rank, host and process; `worker` for a worker of its data loader."""
    when: When
    span: Span
    text: str
    attempt: int = 0
    """As the launcher counts them, from 0."""
    owner: int | None = None
    """The process of the rank whose loader's worker this is; None for any other."""
    step: int | None = None
    phase: str | None = None
    last: float | None = None
    """Last sign of life, in seconds since the epoch of UTC."""
    still: float | None = None
    """Seconds since then, on the machine's own monotonic clock."""
    run: str = ""
    """The folder of the run, as shown."""
    fields: dict[str, Any] = {}
    """Everything else, as it stands."""


def item_of(fields: dict[str, Any]) -> str | None:
    """What a process is at by the fields of a state; None where that is over: older than its last step or its present phase.

    Programs name what they begin and seldom say that it is done; in a data phase an item may have been named just before.
    """
    item = fields.get("item")
    what, age = (item.get("what"), item.get("for_s")) if isinstance(item, dict) else (None, None)
    if not isinstance(what, str) or not what:
        return None
    bounds = ("step_s_ago",) if fields.get("phase") == "data" else ("step_s_ago", "phase_for_s")
    since = [s for name in bounds if isinstance(s := fields.get(name), (int, float))]
    return None if isinstance(age, (int, float)) and any(age > s for s in since) else what
