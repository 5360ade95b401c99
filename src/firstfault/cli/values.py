"""The kinds of values that options take, with messages that say what is wrong and what would be right.

Must not import a room.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from firstfault.pipelines.timeline import Instant

    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType


class AttemptValue(ParamType):
    """A number from 1, `last` or `all`."""

    name = "N|last|all"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """The number, or the word in small letters."""
        text = str(value).strip().lower()
        if text in {"last", "all"}:
            return text
        if text.isdecimal() and int(text) >= 1:
            return int(text)
        return self.fail(f"{value!r} is not an attempt: give a number from 1, `last` or `all`.", param, ctx)


class OneAttemptValue(ParamType):
    """A number from 1, or `last`."""

    name = "N|last"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """The number, or the word in small letters."""
        text = str(value).strip().lower()
        if text == "last" or (text.isdecimal() and int(text) >= 1):
            return text if text == "last" else int(text)
        return self.fail(
            f"{value!r} is not one attempt: a table shows one, so give its number from 1, or `last`.", param, ctx
        )


class SecondsValue(ParamType):
    """Seconds, more than none."""

    name = "SECONDS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number, above 0 and finite; a following `s` is allowed."""
        try:
            seconds = float(str(value).strip().removesuffix("s"))
        except ValueError:
            seconds = -1.0
        if not 0 < seconds < float("inf"):
            self.fail(f"{value!r} is no time: give seconds, more than 0, such as `30`.", param, ctx)
        return seconds


class RanksValue(ParamType):
    """Global ranks and ranges of them."""

    name = "LIST"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[tuple[int, int], ...]:
        """Ranges with both ends included, in the order given."""
        spans = []
        for part in str(value).split(","):
            found = re.fullmatch(r"\s*(\d{1,9})(?:\s*-\s*(\d{1,9}))?\s*", part)
            low = -1 if found is None else int(found[1])
            high = low if found is None or found[2] is None else int(found[2])
            if found is None or high < low:
                self.fail(f"{part.strip()!r} is no rank: give numbers and ranges such as `3` or `0-7,12`.", param, ctx)
            spans.append((low, high))
        return tuple(spans)


class TimeValue(ParamType):
    """A time of day, or a date and a time, with or without a zone."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Instant:
        """Seconds since the epoch (naive time read as UTC), or of the day where there is no date."""
        from datetime import datetime

        from firstfault.pipelines.timeline import Instant

        text = str(value).strip()
        found = re.fullmatch(
            r"(?:(\d{4}-\d\d-\d\d)(?:[T ]|$))?(?:(\d\d:\d\d)(?::(\d\d(?:\.\d{1,6})?))?)?(Z|[+-]\d\d:?\d\d)?", text
        )
        date, clock, rest, zone = (None, None, None, None) if found is None else found.groups()
        if (date is None and clock is None) or (date is None and zone is not None):
            self.fail(
                f"{value!r} is no time: give `14:05`, `14:05:01` or `2026-03-02T14:05`, the last maybe with `+08:00`.",
                param,
                ctx,
            )
        seconds = float(rest or 0)
        try:
            moment = datetime.fromisoformat(f"{date or '1970-01-01'}T{clock or '00:00'}:00+00:00")
        except ValueError:
            self.fail(f"{value!r} is no time of any day.", param, ctx)
        at = moment.timestamp() + seconds
        shown = zone if zone is None or zone == "Z" else f"{zone[:3]}:{zone[-2:]}"
        return Instant(at, date is not None, shown)


class ExitCodeValue(ParamType):
    """An exit status, minus a signal number, or SLURM's `status:signal`."""

    name = "N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The status, or minus the signal number where a signal ended the job."""
        found = re.fullmatch(r"(-?\d{1,5})(?::(\d{1,3}))?", str(value).strip())
        if found is None:
            self.fail(f"{value!r} is not an exit code: give `1`, `-9`, or `0:9` as sacct prints it.", param, ctx)
        status, signal = int(found[1]), int(found[2] or 0)
        return -signal if signal else status


class ZoneValue(ParamType):
    """A fixed offset, UTC, or the name of a zone."""

    name = "ZONE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """`Z`, `+HH:MM`, `-HH:MM`, or an IANA name that this machine knows."""
        from firstfault.pipelines.asked import zone_of

        zone = zone_of(str(value))
        if zone is None:
            self.fail(
                f"{value!r} is not a time zone: give `+08:00`, `UTC` or a name such as `Europe/Berlin`.", param, ctx
            )
        return zone


class EngineValue(ParamType):
    """Where sources are scanned and read."""

    name = "auto|inline|processes|dask[:ADDRESS]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The word, with an address as it stands."""
        from firstfault.pipelines.options import ENGINES, on_cluster

        text = str(value).strip()
        if on_cluster(text.lower()):
            word, colon, address = text.partition(":")
            if colon and not address.strip():
                self.fail(
                    f"{value!r} names no address: give that of a scheduler, or the path of its scheduler file.",
                    param,
                    ctx,
                )
            return word.lower() + colon + address.strip()
        if text.lower() in ENGINES:
            return text.lower()
        return self.fail(f"{value!r} is not an engine: give `auto`, `inline`, `processes` or `dask`.", param, ctx)


class LanguageValue(ParamType):
    """Language of the report."""

    name = "en|zh"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The language's code; a locale such as `zh_CN.UTF-8` is taken by its language."""
        language = language_of(str(value))
        return language or self.fail(f"{value!r} is not a language of this version: use `en` or `zh`.", param, ctx)


def language_of(text: str) -> str | None:
    """The language of a code or locale (`zh`, `zh-CN`, `zh_CN.UTF-8`); None where there is no report in it."""
    word = re.split(r"[-_.@]", text.strip().lower(), maxsplit=1)[0]
    return word if word in {"en", "zh"} else None
