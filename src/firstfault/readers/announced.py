"""Whether the warning before a traceback announced it: a logger writes both at once, and of one error.

It reads time stamps and names of exceptions; whether the warning says that somebody goes on, and what stands behind the
traceback, others look at.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from firstfault.model.lazy import lazy
from firstfault.readers.frames import clean
from firstfault.readers.identity import locate
from firstfault.readers.lines import lines_back, lines_from

if TYPE_CHECKING:
    from firstfault.model.evidence import SourceId
    from firstfault.model.place import Stamp
    from firstfault.readers.identity import SourceProfile
    from firstfault.readers.lines import TextStore
    from firstfault.readers.raised import Block

LOOK_BACK = 12
"""Lines before a traceback among which its speaker's last words stand, as far as the reader of tracebacks looks."""
MOST_BYTES = 8192
PAUSE = 10.0
"""Seconds between a warning and what stands behind it from which on the two were not written at once."""
_HALF, _DAY = 43200.0, 86400.0


_NAMED = lazy(r"\b[A-Z][a-z]\w*(?:Error|Exception)\b")
"""An exception that a warning names by its class."""


def of_another(store: TextStore, source: SourceId, block: Block, profile: SourceProfile) -> bool:
    """Whether the words before a traceback are not about it: they came a while before, or name exceptions that it does not hold.

    The time is told by its own stamp and those of the lines between.
    """
    head = next(iter(lines_from(store, source, block.first_offset, block.first_line, MOST_BYTES)), None)
    if head is None:
        return False
    told = locate(head.text, 0, profile).stamp
    since = [] if told is None else [told]
    for line in reversed(
        lines_back(store, source, block.first_offset, block.first_line, LOOK_BACK, max_bytes=MOST_BYTES)
    ):
        found = locate(line.text, 0, profile)
        words = line.text[found.body :].strip()
        if found.key == block.key and words:
            own = found.stamp
            return (own is not None and any(_later(own, stamp) for stamp in since)) or _names_others(words, block)
        if found.stamp is not None:
            since.append(found.stamp)
    return False


def _names_others(words: bytes, block: Block) -> bool:
    """Whether words name exceptions and the traceback, with all from which it was chained, names none of them."""
    named = set(_NAMED.findall(clean(words)))
    if not named:
        return False
    exception = block.raised.exception
    chain = [f"{e.kind}: {e.message}" for e in (exception, *(r.exception for r in block.earlier))]
    whole = "\n".join((*chain, *exception.chained_from))
    return exception.complete and not any(name in whole for name in named)


def _later(before: Stamp, stamp: Stamp) -> bool:
    """Whether a stamp of the same writing tells a time more than a pause behind another."""
    if (before.style, before.zone, before.dated) != (stamp.style, stamp.zone, stamp.dated):
        return False
    apart = _seconds(stamp) - _seconds(before)
    if before.uptime is None and _day(before) is None:
        apart = (apart + _HALF) % _DAY - _HALF
    return apart > PAUSE


def _seconds(stamp: Stamp) -> float:
    if stamp.uptime is not None:
        return stamp.uptime
    return (_day(stamp) or 0) * _DAY + stamp.hour * 3600 + stamp.minute * 60 + stamp.second + stamp.fraction


def _day(stamp: Stamp) -> int | None:
    """Number of the day; None where the stamp does not tell it whole."""
    if stamp.month is None or stamp.day is None:
        return None
    try:
        return date(stamp.year or 2000, stamp.month, stamp.day).toordinal()
    except ValueError:
        return None
