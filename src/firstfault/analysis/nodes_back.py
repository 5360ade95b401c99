"""Nodes of which the control plane heard nothing for a moment: away so shortly that no pod was taken from them.

Reads the ages that listings of events show: they tell how far two lines of one listing lie apart, and no time of the job.
A node that stays away is nothing for this; neither is one of which no line says that it came back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.hostlist import short_host
from firstfault.analysis.order import comparable, exact
from firstfault.model.lazy import lazy
from firstfault.model.words import Mark

if TYPE_CHECKING:
    from firstfault.analysis.case import Case
    from firstfault.analysis.hangs import Hang
    from firstfault.model.evidence import Event

EVICTED_AFTER = 300.0
"""Seconds for which pods tolerate a node that is not ready, by default."""
SHARE = 0.5
"""Part of a wait that a node must have been away to be its reason."""
SHORT, TEN = 8, 10
"""Hours (and days) below which an age names the next smaller unit too, and minutes below which it does."""
AWAY = "kubernetes.node_not_ready"
_UNIT = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_AGE = lazy(r"(\d+)([dhms])")


def back_soon(case: Case, hang: Hang | None, event: Event) -> bool:
    """Whether a line tells of a node that was ready again before its pods were evicted, and before half of a wait was over."""
    if event.signature != AWAY:
        return False
    waited = None if hang is None or hang.waited_ms is None else hang.waited_ms / 1000
    most = EVICTED_AFTER if waited is None else min(EVICTED_AFTER, SHARE * waited)
    node = event.fields.get("host")
    return any(
        (gap := _seconds_until(event, back)) is not None and gap[0] >= 0 and gap[1] < most
        for back in case.marked(Mark.OUTAGE_OVER)
        if back.span.source == event.span.source
        and node is not None
        and short_host(back.fields.get("host", "")) == short_host(node)
    )


def _seconds_until(away: Event, back: Event) -> tuple[float, float] | None:
    """Fewest and most seconds from one line of a listing to another, by their ages or times; None where neither tells."""
    if exact(away.when) and exact(back.when) and comparable(away.when, back.when):
        gap = (back.when.earliest or 0.0) - (away.when.earliest or 0.0)
        return gap, gap
    a, b = _AGE.findall(away.fields.get("age", "")), _AGE.findall(back.fields.get("age", ""))
    if not a or not b:
        return None
    gap = sum(int(n) * _UNIT[u] for n, u in a) - sum(int(n) * _UNIT[u] for n, u in b)
    return gap, gap + _cut(a)


def _cut(age: list[tuple[str, str]]) -> float:
    """Seconds that an age as kubectl writes it may leave out: `4h` is given to the minute, `9h` to the hour, `9d` to the day."""
    number, unit = int(age[0][0]), age[0][1]
    if unit == "d":
        return _UNIT["h"] if number < SHORT else _UNIT["d"]
    if unit == "h":
        return _UNIT["m"] if number < SHORT else _UNIT["h"]
    return _UNIT["m"] if unit == "m" and number >= TEN else _UNIT["s"]
