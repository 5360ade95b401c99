"""One JSON object a line, as containers, clouds and log stores keep logs: what stands before the message in one of its fields.

Takes only what the fields state; knows nothing of messages.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from firstfault.model.lazy import lazy
from firstfault.readers.stamps import match_stamp

if TYPE_CHECKING:
    import re

    from firstfault.readers.chain import Chain
    from firstfault.readers.identity import SourceProfile

_JSON_TEXT = lazy(rb'"(?:message|msg|log|textPayload|text)"\s?:\s?"')
_JSON_OTHER_TEXT = lazy(rb'"(?:line|MESSAGE|@message|_raw|body|event)"\s?:\s?"')
"""Keys of exports of log stores and of structured loggers, which mean other things in records that have one of the usual keys."""
_JSON_TIME = lazy(rb'"(?:@timestamp|timestamp|time|ts|asctime|eventTime|__REALTIME_TIMESTAMP)"\s?:\s?"?')
_EPOCH = lazy(rb"([12]\d{9})(?:\.(\d{1,9})|(\d{3}|\d{6}|\d{9}))?(?!\d)")
"""Seconds since 1970 with a fraction, or all digits of milli-, micro- or nanoseconds."""
_JSON_LEVEL = lazy(rb'"(?:level|levelname|severity)"\s?:\s?"(?P<level>[A-Za-z]{1,10})"')
_JSON_RANK = lazy(rb'"(?P<local>local_)?(?:global_)?rank"\s?:\s?"?(?P<rank>\d{1,6})')
_JSON_HOST = lazy(rb'"(?:host|hostname|node_name)"\s?:\s?"(?P<host>[\w.\-]{1,253})"')


def json_record(segment: bytes, at: int, chain: Chain, _profile: SourceProfile) -> int | None:
    """One JSON object a line, as containers and clouds keep logs: the message stands in one of its fields."""
    text = _JSON_TEXT.search(segment, at) or _JSON_OTHER_TEXT.search(segment, at)
    if text is None:
        return None
    time = _JSON_TIME.search(segment, at)
    if time is not None:
        stamp = chain.stamp_at(segment, time.end())
        if stamp is None:
            stamp = _epoch(segment, time.end())
            chain.alike = False  # its first digit decides whether a number is a time
        if stamp is not None:
            chain.stamps.append(stamp)
    level = _JSON_LEVEL.search(segment, at)
    if level is not None:
        chain.level = level["level"].decode().upper()
    for found in _JSON_RANK.finditer(segment, at):
        chain.take("rank" if found["local"] is None else "local_rank", found, "rank", number=True)
    host = _JSON_HOST.search(segment, at)
    if host is not None:
        chain.take("host", host, "host")
    return text.end()


_REST_OF_TEXT = lazy(rb'(?:[^"\\]|\\.)*')


def spoken(segment: bytes) -> bytes | None:
    """The text of a record, as it is escaped; None where it has none."""
    found = _JSON_TEXT.search(segment) or _JSON_OTHER_TEXT.search(segment)
    rest = None if found is None else _REST_OF_TEXT.match(segment, found.end())
    return None if rest is None else rest.group()


_STRING = lazy(rb'"(?:[^"\\]|\\.)*"')


def string_at(segment: bytes, position: int) -> int | None:
    """Where the text of the string begins that holds a position of a record; None where no string does."""
    for found in _STRING.finditer(segment):
        if found.end() > position:
            return found.start() + 1 if found.start() < position else None
    return None


def _epoch(segment: bytes, at: int) -> tuple[str, re.Match[bytes]] | None:
    """A number of seconds since 1970 as the stamp that says the same in words."""
    found = _EPOCH.match(segment, at)
    if found is None:
        return None
    fraction = (found[2] or found[3] or b"").decode()[:6]
    moment = datetime.fromtimestamp(int(found[1]), tz=timezone.utc)
    return match_stamp(f"{moment:%Y-%m-%dT%H:%M:%S}{'.' if fraction else ''}{fraction}Z".encode(), 0)
