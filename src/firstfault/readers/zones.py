"""Gives times that state no zone the one that a person named; it never touches a time that states its own.

Where a clock is put back or forward, a wall time that a zone has twice is taken as its first, one that it does not have as if the clock had not moved.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone, tzinfo
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec.structs import replace

from firstfault.model.evidence import When
from firstfault.model.zones import zone_name

if TYPE_CHECKING:
    from collections.abc import Iterable

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - wall time: which zone it is in is what is being settled


class Timed(Protocol):
    """Anything that was said at some time."""

    @property
    def when(self) -> When:
        """When it was said."""
        ...


T = TypeVar("T", bound=Timed)


def in_zone(found: Iterable[T], zone: str | None) -> Iterable[T]:
    """The same observations, with their local times on the clock of a zone.

    Args:
        found: events, failures or signs of progress.
        zone: `Z`, `+08:00` or an IANA name; None leaves everything as it is.
    """
    if zone is None:
        return found
    where = _zone(zone)
    return [replace(one, when=_placed(one.when, where)) for one in found]  # type: ignore[type-var]


def _zone(name: str) -> tzinfo:
    if name == "Z":
        return timezone.utc
    if name[0] in "+-":
        sign = -1 if name[0] == "-" else 1
        return timezone(sign * timedelta(hours=int(name[1:3]), minutes=int(name[4:6])))
    from zoneinfo import ZoneInfo

    return ZoneInfo(name)


def _placed(when: When, zone: tzinfo) -> When:
    """A local time as one of UTC; without its date or year an offset could be the wrong one, so it stays local."""
    some = when.earliest if when.earliest is not None else when.latest
    if when.zone is not None or not when.dated or not when.yeared or some is None:
        return when
    offset = (EPOCH + timedelta(seconds=some)).replace(tzinfo=zone).utcoffset() or timedelta()
    shift = offset.total_seconds()
    earliest = None if when.earliest is None else when.earliest - shift
    latest = None if when.latest is None else when.latest - shift
    return When(earliest, latest, zone_name(round(shift / 60) * 60), when.dated, when.yeared)
