"""Intervals of the analysis as the text of the published diagnosis."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from firstfault.model.diagnosis import Time

if TYPE_CHECKING:
    from firstfault.model.evidence import When


def time_of(when: When) -> Time | None:
    """An interval as ISO text; None where nothing is known."""
    if when.earliest is None and when.latest is None:
        return None
    return Time(earliest=_iso(when.earliest, when), latest=_iso(when.latest, when), zone=when.zone, dated=when.dated)


def _iso(seconds: float | None, when: When) -> str | None:
    if seconds is None:
        return None
    moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=round(seconds * 1e6))
    if when.zone is not None and when.zone != "Z" and when.dated:  # a time of day stays that of its own clock
        moment = moment.astimezone(timezone(_offset(when.zone)))
    text = moment.strftime("%H:%M:%S") if not when.dated else moment.strftime("%Y-%m-%dT%H:%M:%S")
    if not when.yeared and when.dated:
        text = moment.strftime("--%m-%dT%H:%M:%S")
    if moment.microsecond:
        text += f".{moment.microsecond // 1000:03d}"
    if when.zone is None:
        return text
    return text + ("Z" if when.zone == "Z" else when.zone)


def _offset(zone: str) -> timedelta:
    sign = -1 if zone.startswith("-") else 1
    digits = zone.lstrip("+-").replace(":", "")
    hours, minutes = int(digits[:2] or "0"), int(digits[2:4] or "0")
    return sign * timedelta(hours=hours, minutes=minutes)


def seconds_of_zone(zone: str | None) -> float:
    """Seconds by which a zone's clock is ahead of UTC; 0 where the zone is not known."""
    return 0.0 if zone is None or zone == "Z" else _offset(zone).total_seconds()
