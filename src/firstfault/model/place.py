"""Who speaks at one place of a line, and the time stamp before it, as the text has them; nothing is inferred from it here."""

from __future__ import annotations

from msgspec import Struct

from firstfault.model.evidence import Who


class Stamp(Struct, frozen=True, kw_only=True, gc=False):
    """One time stamp; parts that the text does not state are None."""

    style: str
    """iso, slashed, c10, named, day_first, month_day, lettered, time or uptime."""
    hour: int = 0
    minute: int = 0
    second: int = 0
    fraction: float = 0.0
    precision: float = 1.0
    """Seconds that one unit of the last digit stands for."""
    year: int | None = None
    month: int | None = None
    day: int | None = None
    first: int | None = None
    """First of two numbers of which one is the month (`06/27/2024`), where the text alone does not tell."""
    second_number: int | None = None
    month_first: bool | None = None
    """Which order two such numbers have, where one of them can only be a day; tells about the other lines of the source."""
    zone: str | None = None
    """`Z` or an offset such as `+08:00`."""
    uptime: float | None = None

    @property
    def dated(self) -> bool:
        """Whether the text states a day."""
        return self.day is not None or self.first is not None


class Located(Struct, frozen=True, gc=False):
    """Who speaks at one position of a segment."""

    who: Who
    body: int
    """Position at which the message begins."""
    stamp: Stamp | None
    level: str | None
    """Level word of the logger (`WARNING`); the letters of C++ loggers are spelt out."""
    key: bytes
    """Stream key, as `stream_key` gives it."""
