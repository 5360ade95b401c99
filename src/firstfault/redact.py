"""The one door through which anything leaves: takes secrets (and, to share, identities) out of a diagnosis.

It gives a type of its own, which every renderer demands, so that forgetting it is a type error. It decides nothing
about the fault and must not be asked to.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Generic, Literal, TypeVar, cast

import msgspec

from firstfault.model.lazy import lazy
from firstfault.privacy.secrets import SecretFilter

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable

    from firstfault.model.diagnosis import Diagnosis

Level = Literal["none", "secrets", "identities"]
"""What is taken out: nothing (`--raw`), secrets (always else), secrets and identities (`--share`)."""

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)
_DOOR = object()
_SURROGATE = lazy("[\ud800-\udfff]")
_HOST_FACTS = ("master_addr", "host", "submit_host", "batch_host")


class Redacted:
    """A diagnosis that went through `redact`; the only thing that a renderer takes."""

    __slots__ = ("diagnosis", "removed")

    def __init__(self, diagnosis: Diagnosis, removed: dict[str, int], door: object) -> None:
        if door is not _DOOR:
            raise TypeError("only firstfault.redact.redact makes a Redacted")
        self.diagnosis = diagnosis
        self.removed = removed
        """Kind of secret or identity -> how many were taken out."""


def redact(diagnosis: Diagnosis, level: Level, *, key: bytes | None = None) -> Redacted:
    """Takes out what must not leave.

    Args:
        diagnosis: what was found.
        level: `none` keeps all, `secrets` takes secrets out, `identities` also turns hosts, users, paths, addresses,
            buckets and e-mails into pseudonyms.
        key: makes pseudonyms the same across reports of one owner; without it they are numbered within this one.

    Returns:
        A copy in which every string is free of lone surrogates and, by level, of secrets and identities.
    """
    whole = walk(diagnosis, _printable)
    removed: dict[str, int] = {}
    if level != "none":
        secrets = SecretFilter()
        _each(whole, secrets.learn)
        whole = walk(whole, secrets.clean)
        removed.update(secrets.removed)
    if level == "identities":
        from firstfault.privacy.identities import Identities

        people = Identities(key=key)
        people.learn_hosts(_hosts(whole))
        _each(whole, people.learn)
        whole = _pseudonymous_hostlist(walk(whole, people.clean))
        removed.update(people.removed)
    return Redacted(msgspec.structs.replace(whole, redaction=level), removed, _DOOR)


def _pseudonymous_hostlist(diagnosis: Diagnosis) -> Diagnosis:
    """A bracketed host list would tell the names that its pseudonyms hide; it is written out instead."""
    action = diagnosis.verdict.action
    action = msgspec.structs.replace(action, exclude_hostlist=",".join(action.exclude_hosts))
    return msgspec.structs.replace(diagnosis, verdict=msgspec.structs.replace(diagnosis.verdict, action=action))


def walk(value: T, change: Callable[[str], str]) -> T:
    """A copy of a tree of structs, lists, tuples and maps with every string changed; closed words stay as they are."""
    return cast("T", _walk(value, change))


def _walk(value: object, change: Callable[[str], str]) -> object:
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return change(value)
    if isinstance(value, msgspec.Struct):
        return type(value)(**{f: _walk(getattr(value, f), change) for f in value.__struct_fields__})
    if isinstance(value, (list, tuple)):
        return type(value)(_walk(v, change) for v in value)
    if isinstance(value, dict):
        return _walk_map(value, change)
    return value


def _walk_map(value: dict[object, object], change: Callable[[str], str]) -> dict[object, object]:
    changed: dict[object, object] = {}
    for name, held in value.items():
        new, held_new = _walk(name, change), _walk(held, change)
        before = changed.get(new)
        # Two names may become one; counts then add up, so that none is lost.
        changed[new] = before + held_new if isinstance(before, int) and isinstance(held_new, int) else held_new
    return changed


def _each(value: object, see: Callable[[str], None]) -> None:
    def look(text: str) -> str:
        see(text)
        return text

    _walk(value, look)


def _printable(text: str) -> str:
    r"""Lone surrogates (undecodable bytes of file names) as `\xNN`, which every encoder takes."""
    return text if text.isascii() else _SURROGATE.sub(_spell, text)


def _spell(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code - 0xDC00:02x}" if code >= 0xDC80 else f"\\u{code:04x}"


def _hosts(diagnosis: Diagnosis) -> Iterable[str]:
    verdict = diagnosis.verdict
    yield from verdict.culprits.hosts
    yield from verdict.culprits.storage_nodes
    yield from verdict.first_failed.hosts
    yield from verdict.action.exclude_hosts
    for row in diagnosis.ranks.table:
        if row.host is not None:
            yield row.host
    for name in _HOST_FACTS:
        fact = diagnosis.job.get(name)
        if fact is not None and isinstance(fact.value, str):
            yield fact.value


class RedactedView(Generic[S]):
    """A view of the evidence that went through `redact_view`; the only thing that its renderer takes."""

    __slots__ = ("content",)

    def __init__(self, content: S, door: object) -> None:
        if door is not _DOOR:
            raise TypeError("only firstfault.redact.redact_view makes a RedactedView")
        self.content = content


def redact_view(view: S, level: Level) -> RedactedView[S]:
    """Takes out of a view what must not leave; see `redact` for the levels."""
    whole = walk(view, _printable)
    if level != "none":
        secrets = SecretFilter()
        _each(whole, secrets.learn)
        whole = walk(whole, secrets.clean)
    if level == "identities":
        from firstfault.privacy.identities import Identities

        people = Identities()
        _each(whole, people.learn)
        whole = walk(whole, people.clean)
    return RedactedView(msgspec.structs.replace(whole, redaction=level), _DOOR)
