"""The one door through which anything leaves: takes secrets (and, to share, identities) out of a diagnosis or a view.

It gives a type of its own, which every renderer demands, so that forgetting it is a type error. It decides nothing
about the fault and must not be asked to.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Generic, Literal, TypeVar, cast

import msgspec

from firstfault.model.diagnosis import Action, Fact, Published, StorageDaemon
from firstfault.model.lazy import lazy
from firstfault.model.page import Context, Page, Quote
from firstfault.privacy.secrets import KNOWN, SecretFilter

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Collection, Iterator

Level = Literal["none", "secrets", "identities"]
"""What is taken out: nothing (`--raw`), secrets (always else), secrets and identities (`--share`)."""

T = TypeVar("T")
P = TypeVar("P", bound=Published)
P_co = TypeVar("P_co", bound=Published, covariant=True)
_DOOR = object()
_KEY_EDGE = lazy(r"-----(BEGIN|END) (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
_SURROGATE = lazy("[\ud800-\udfff]")
_NUMBERS = frozenset({int, float, bool, type(None)})
_HOST_FIELDS = frozenset({"host", "hosts", "exclude_hosts", "storage_nodes"})
_HOST_FACTS = ("master_addr", "host", "submit_host", "batch_host", "node_list")


class Redacted(Generic[P_co]):
    """What went through `redact`; the only thing that a renderer takes."""

    __slots__ = ("content", "removed")

    def __init__(self, content: P_co, removed: dict[str, int], door: object) -> None:
        if door is not _DOOR:
            raise TypeError("only firstfault.redact.redact makes a Redacted")
        self.content = content
        self.removed = removed
        """Kind of secret or identity -> how many were taken out."""


def redact(content: P, level: Level, *, key: bytes | None = None) -> Redacted[P]:
    """Takes out what must not leave.

    Args:
        content: a diagnosis, or a view of the evidence.
        level: `none` keeps all, `secrets` takes secrets out, `identities` also turns hosts, users, paths, addresses,
            buckets and e-mails into pseudonyms.
        key: makes pseudonyms the same across reports of one owner; without it they are numbered within this one.

    Returns:
        A copy in which every string is free of lone surrogates and, by level, of secrets and identities.
    """
    whole = walk(content, printable, numbers=False)
    removed: dict[str, int] = {}
    if level != "none":
        if isinstance(whole, (Page, Quote)):
            whole = cast("P", msgspec.structs.replace(whole, context=[_without_keys(c) for c in whole.context]))
        secrets = SecretFilter()
        _each(whole, secrets.learn, numbers=False)
        whole = walk(whole, secrets.clean, numbers=False)
        removed.update(secrets.removed)
    if level == "identities":
        from firstfault.privacy.identities import Identities

        people = Identities(key=key)
        people.learn_hosts(_hosts(whole))
        people.learn_paths(_files(whole))
        _each(whole, people.learn)
        whole = _pseudonymous_hostlists(walk(whole, people.clean))
        removed.update(people.removed)
    return Redacted(msgspec.structs.replace(whole, redaction=level), removed, _DOOR)


def rewritten(safe: Redacted[P], change: Callable[[P], P]) -> Redacted[P]:
    """The same content said otherwise, as in another language; the change must add nothing that was not in it."""
    return Redacted(change(safe.content), safe.removed, _DOOR)


def _without_keys(context: Context) -> Context:
    """Lines without the body of a private key: no line of it tells by itself what it is, its first and last line do."""
    marks = [(i, found[1]) for i, line in enumerate(context.lines) if (found := _KEY_EDGE.search(line)) is not None]
    lines = list(context.lines)
    inside = bool(marks) and marks[0][1] == "END"
    edges = dict(marks)
    for i in range(len(lines)):
        if i in edges:
            inside = edges[i] == "BEGIN"
        elif inside:
            lines[i] = "[removed:private key]"
    return msgspec.structs.replace(context, lines=lines)


def _pseudonymous_hostlists(value: T) -> T:
    """A bracketed host list would tell the names that its pseudonyms hide; wherever one stands it is written out instead."""
    return cast("T", _written_out(value))


def _written_out(value: object) -> object:
    if isinstance(value, Action):
        return msgspec.structs.replace(value, exclude_hostlist=",".join(value.exclude_hosts))
    if isinstance(value, msgspec.Struct):
        return type(value)(**{f: _written_out(getattr(value, f)) for f in value.__struct_fields__})
    if isinstance(value, list) and not _NUMBERS.issuperset(map(type, value)):
        return [_written_out(v) for v in value]
    return value


def walk(value: T, change: Callable[[str], str], *, numbers: bool = True) -> T:
    """A copy of a tree of structs, lists, tuples and maps with every string changed; closed words stay as they are.

    Args:
        value: the tree.
        change: gives the new string.
        numbers: whether it may change a short number too; without it the counts by rank of a large job are passed over.
    """
    return cast("T", _walk(value, change, numbers))


def _walk(value: object, change: Callable[[str], str], numbers: bool) -> object:
    if type(value) is str:
        return change(value)
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return change(value)
    if isinstance(value, msgspec.Struct):
        return type(value)(**{f: _walk(getattr(value, f), change, numbers) for f in value.__struct_fields__})
    if isinstance(value, (list, tuple)):
        # Columns of numbers are long, and there is nothing to look through in them.
        if _NUMBERS.issuperset(map(type, value)):
            return value
        return type(value)(_walk(v, change, numbers) for v in value)
    if isinstance(value, dict):
        return _walk_map(value, change, numbers)
    return value


def _walk_map(
    value: dict[object, object],
    change: Callable[[str], str],
    numbers: bool,
) -> dict[object, object]:
    counts = _NUMBERS.issuperset(map(type, value.values()))
    if counts and not numbers and _short_numbers(value):
        return value
    changed: dict[object, object] = {}
    for name, held in value.items():
        new, held_new = _walk(name, change, numbers), held if counts else _walk(held, change, numbers)
        before = changed.get(new)
        # Two names may become one; counts then add up, so that none is lost.
        changed[new] = before + held_new if isinstance(before, int) and isinstance(held_new, int) else held_new
    return changed


def _short_numbers(names: Collection[object]) -> bool:
    """Whether all names are numbers too short to be a secret; asked in whole passes, since a large job has one for each rank."""
    texts = [n for n in names if type(n) is str]
    return len(texts) == len(names) and all(map(str.isdigit, texts)) and max(map(len, texts), default=0) < KNOWN


def _each(value: object, see: Callable[[str], None], *, numbers: bool = True) -> None:
    """Shows every different string once, in the order in which they stand; for `numbers` see `walk`."""
    texts: dict[str, None] = {}

    def look(text: str) -> str:
        texts[text] = None
        return text

    _walk(value, look, numbers)
    for text in texts:
        see(text)


def printable(text: str) -> str:
    r"""Lone surrogates (undecodable bytes of file names) as `\xNN`, which every encoder takes."""
    return text if text.isascii() else _SURROGATE.sub(_spell, text)


def _spell(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code - 0xDC00:02x}" if code >= 0xDC80 else f"\\u{code:04x}"


def _files(value: object) -> Iterator[str]:
    """Names of files that stand in fields of that name."""
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            held = getattr(value, name)
            if name == "file" and isinstance(held, str):
                yield held
            elif name in {"files", "paths"} and isinstance(held, list):
                yield from (one for one in held if isinstance(one, str))
            else:
                yield from _files(held)
    elif isinstance(value, list) and not _NUMBERS.issuperset(map(type, value)):
        for item in value:
            yield from _files(item)


def _hosts(value: object) -> Iterator[str]:
    """Names that stand where a host belongs, in the order of the document."""
    if isinstance(value, StorageDaemon) and value.name != value.node:
        yield value.name
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            held = getattr(value, name)
            if name in _HOST_FIELDS:
                # A column holds numbers of names, which stand beside it.
                yield from [held] if isinstance(held, str) else (name for name in held or () if isinstance(name, str))
            else:
                yield from _hosts(held)
    elif isinstance(value, list):
        for item in value:
            yield from _hosts(item)
    elif isinstance(value, dict):
        for name in _HOST_FACTS:
            fact = value.get(name)
            if isinstance(fact, Fact) and isinstance(fact.value, str):
                yield fact.value
