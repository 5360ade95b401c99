"""Reads maps of a pickle that are built alike many at a time, instead of operation by operation: a shape is learned once.

A snapshot's history is millions of such maps. What has no known shape is left to `plain_pickle`, which reads everything;
a shape must never accept bytes that mean something else to it. It knows nothing of what the values mean.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple

from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from firstfault.readers.plain_pickle import Machine

MOST_SHAPES = 64
MOST_FAILURES = 200
"""Maps with one beginning that cannot be learned, behind which no more are tried: each costs time."""
MOST_KEYS = 24
MOST_CACHED = 100_000
"""Texts and tuples of which equal ones are one object."""
MOST_MADE = 50_000
"""Values kept with what was made of them."""
SHORT = 200
"""Bytes of a text within a shape."""

_NUMBER = rb"K.|M..|J....|\x8a(?:\x06.{6}|\x05.{5}|\x07.{7}|\x04.{4}|\x08.{8}|\x03...|\x02..|\x01.|\x09.{9}|\x00)"
_GET = rb"h.|j...."
_CONSTANT = rb"N|\x88|\x89|G.{8}"
_PAIR = rb"(?:K.|M..)(?:K.|M..)\x86\x94"
# Eight at a time: such a loop costs a third of one that looks at each reference.
_GETS = rb"(?:" + rb"j...." * 8 + rb"){0,124}(?:j....|h.){0,999}"
_LIST = rb"\]\x94\((?=[hj])" + _GETS + rb"e|\]\x94"
RUN = re.compile(rb"(?s)((?:h.|j.{4}){1,999})e")
"""Picklers begin a new batch of a list behind 1000 items: a run of fewer is the whole list."""
_KEY = lazy(rb"(?s)h.|j....")
_ONE = lazy(rb"(?s)" + _NUMBER + rb"|" + _GET + rb"|" + _CONSTANT)
_IS_PAIR = lazy(rb"(?s)" + _PAIR)
_IS_LIST = lazy(rb"(?s)\]\x94(?:\((?:h.|j.{4}){1,999}e)?(?!\()")
_TEXT, _OPENED, _J, _H, _LONG = 0x8C, 0x5D, 0x6A, 0x68, 0x8A
_NUMBERS = frozenset(b"KMJ\x8a")
_REFERENCES = frozenset(b"hj")
_SIGNED = frozenset(b"J\x8a")
_SKIP = object()
_NOTHING: list[Any] = []


class Column:
    """The values of one key in many maps, still as operations: most of them are alike, so each kind is read once."""

    def __init__(self, tokens: Sequence[bytes], value: Callable[[bytes], Any], made: dict[bytes, Any]) -> None:
        self.tokens = tokens
        self._value = value
        self._made = made
        """What was made of values before, by their operations."""

    def mapped(self, function: Callable[[Any], Any], where: Iterable[int] | None = None) -> list[Any]:
        """What a function makes of the values, in order; it is asked once for values that are written alike.

        Args:
            function: has to be the same for this key whenever it is asked.
            where: of which maps the values are asked for, by 0 and 1; all where None.
        """
        made = _room(self._made)
        tokens = self.tokens if where is None else list(compress(self.tokens, where))
        for token in set(tokens).difference(made):
            made[token] = function(self._value(token))
        return [made[token] for token in tokens]

    def numbers(self, other: int, most: int) -> list[int]:
        """Every value as a whole number from 0 on; what is none, or larger than is allowed, as another number."""
        read = int.from_bytes
        made = {t: read(t[2:] if t[0] == _LONG else t[1:], "little", signed=t[0] in _SIGNED) for t in set(self.tokens)}
        for token, number in made.items():
            if token[0] not in _NUMBERS:
                value = self._value(token)
                made[token] = value if type(value) is int and 0 <= value <= most else other
            elif not 0 <= number <= most:
                made[token] = other
        return [made[token] for token in self.tokens]

    def at(self, number: int) -> Any:
        """One value."""
        return self._value(self.tokens[number])


def _room(made: dict[bytes, Any]) -> dict[bytes, Any]:
    """The same, emptied where it has become large."""
    if len(made) > MOST_MADE:
        made.clear()
    return made


class _Shape(NamedTuple):
    """One way in which a map is built: keys in order, each with the kinds of value that it was seen with."""

    pattern: re.Pattern[bytes]
    """A whole map; one group for each value that is wanted or gets a number."""
    wanted: tuple[tuple[str, int], ...]
    """Keys, and the group of each."""
    memos: tuple[int, ...]
    """Groups whose values may get a number, in order."""
    numbered: bool
    """Whether the map gets a number itself."""


class Shapes:
    """The shapes of one pickle."""

    def __init__(self, wanted: frozenset[str]) -> None:
        self.wanted = wanted
        self.by_start: dict[bytes, list[_Shape]] = {}
        self.cached: dict[bytes, Any] = {}
        self.known: dict[bytes, Any] = {}
        self.made: dict[str, dict[bytes, Any]] = {}
        """By key: see `Column`."""
        self.count = 0
        self.failures: Counter[bytes] = Counter()

    def take(self, machine: Machine, raw: bytes, at: int) -> int:
        """Reads the maps from a place on; the place behind them, or -1 where the first is left to others.

        They are handed to the machine's folder, with the values of keys that it asks for alone.

        Args:
            machine: what is known so far.
            raw: bytes of the pickle.
            at: where the operation is that opens the first map.
        """
        start = raw[at : at + (8 if raw[at + 3 : at + 4] == b"j" else 5)]
        known = self.by_start.get(start, ())
        for shape in known:
            if shape.pattern.match(raw, at) is not None:
                return self._rows(machine, shape, raw, at)
        if self.count >= MOST_SHAPES or self.failures[start] >= MOST_FAILURES:
            return -1
        learned = _learn(machine, raw, at, self.wanted)
        if learned is None:
            self.failures[start] += 1
            return -1
        self.count += 1
        self.by_start.setdefault(start, []).insert(0, learned)
        return self._rows(machine, learned, raw, at)

    def _rows(self, machine: Machine, shape: _Shape, raw: bytes, at: int) -> int:
        # Each match begins where the one before it ended; `finditer` would skip what lies between.
        matches = list(iter(shape.pattern.scanner(raw, at).match, None))  # type: ignore[attr-defined]
        if not matches:
            return -1
        rows = [match.groups() for match in matches]
        end: int = matches[-1].end()
        columns: list[tuple[bytes, ...]] = list(zip(*rows, strict=True))
        memo = machine.memo

        def value(token: bytes) -> Any:
            return self._value(token, machine)

        slots: list[Sequence[Any]] = [[machine.gone] * len(rows)] if shape.numbered else []
        slots += [self._numbered(columns[group], value) for group in shape.memos]
        wanted = {key: Column(columns[group], value, self.made.setdefault(key, {})) for key, group in shape.wanted}
        parent, base = machine.parent(), len(memo)
        if parent is not None and machine.folder.takes(wanted):
            memo += _flat(slots)
            put = machine.folder.many(wanted, parent)
            if put is not None and shape.numbered:
                memo[base:] = _flat([put, *slots[1:]])
            machine.stack += [machine.gone] * len(rows) if put is None else put
            return end
        for number, row in enumerate(zip(*slots, strict=True) if slots else [()] * len(rows)):
            place = len(memo)
            memo += [one for one in row if one is not _SKIP]
            one = machine.take({key: column.at(number) for key, column in wanted.items()})
            if shape.numbered:
                memo[place] = one
        return end

    def _numbered(self, tokens: Sequence[bytes], value: Callable[[bytes], Any]) -> list[Any]:
        """The values that get a number; `_SKIP` stands for those that are references."""
        known = _room(self.known)
        for token in set(tokens).difference(known):
            known[token] = _SKIP if token[0] in _REFERENCES else value(token)
        return [known[token] for token in tokens]

    def _value(self, token: bytes, machine: Machine) -> Any:
        """The value of one operation, or of those of a text, tuple or list."""
        op = token[0]
        if op == _OPENED:
            return machine.run_of(token[3:-1]) if len(token) > 2 else _NOTHING
        if op != _TEXT and token[-2:] != b"\x86\x94":
            return _plain(token, machine.memo)
        known = self.cached.get(token)
        if known is None:
            machine.text += len(token)
            if op == _TEXT:
                known = token[2:-1].decode("utf-8", "backslashreplace")
            else:
                known = tuple(_plain(m[0], []) for m in _ONE.finditer(token[:-2]))
            if len(self.cached) < MOST_CACHED:
                self.cached[token] = known
        return known


def _flat(slots: list[Sequence[Any]]) -> list[Any]:
    """Row by row, what gets a number."""
    return [one for row in zip(*slots, strict=True) for one in row if one is not _SKIP]


def _plain(token: bytes, memo: list[Any]) -> Any:
    op = token[0]
    if op == _J:
        return memo[int.from_bytes(token[1:], "little")]
    if op == _H:
        return memo[token[1]]
    if op == 0x8A:
        return int.from_bytes(token[2:], "little", signed=True)
    if op in {0x4B, 0x4D}:
        return int.from_bytes(token[1:], "little")
    if op == 0x4A:
        return int.from_bytes(token[1:], "little", signed=True)
    if op == 0x47:
        return struct.unpack(">d", token[1:])[0]
    return {0x4E: None, 0x88: True, 0x89: False}[op]


def _learn(machine: Machine, raw: bytes, at: int, wanted: frozenset[str]) -> _Shape | None:
    """The shape of the map at a place; None where it holds more than plain values and lists of references."""
    head = re.compile(rb"\}(\x94?)\(").match(raw, at)
    if head is None:
        return None
    at = head.end()
    parts = [rb"(?s)\}", head[1], rb"\("]
    groups: dict[str, int] = {}
    memos: list[int] = []
    number = keys = 0
    while raw[at : at + 1] != b"u":
        key = _KEY.match(raw, at)
        name = None if key is None else _plain(key[0], machine.memo)
        keys += 1
        if key is None or type(name) is not str or keys > MOST_KEYS:
            return None
        pattern, at, own = _kinds(raw, key.end())
        if not pattern:
            return None
        parts.append(re.escape(key[0]))
        if not own and name not in wanted:
            parts.append(rb"(?:" + pattern + rb")")
            continue
        parts.append(rb"(" + pattern + rb")")
        if own:
            memos.append(number)
        if name in wanted:
            groups[name] = number
        number += 1
    if not number:
        return None
    parts.append(rb"u")
    return _Shape(re.compile(b"".join(parts)), tuple(groups.items()), tuple(memos), bool(head[1]))


def _kinds(raw: bytes, at: int) -> tuple[bytes, int, bool]:
    """What matches values like the one at a place, the place behind it, and whether such a value may get a number.

    A value that is seen again is a reference to where it stood first.
    """
    if raw[at : at + 1] == b"]":
        found = _IS_LIST.match(raw, at)
        return (b"", at, False) if found is None else (_LIST + rb"|" + _GET, found.end(), True)
    if raw[at : at + 1] == b"\x8c":
        end = at + 2 + raw[at + 1]
        if raw[at + 1] > SHORT or raw[end : end + 1] != b"\x94":
            return b"", at, False
        return re.escape(raw[at : at + 2]) + rb".{%d}\x94|" % raw[at + 1] + _GET, end + 1, True
    found = _IS_PAIR.match(raw, at)
    if found is not None:
        return _PAIR + rb"|" + _GET, found.end(), True
    found = _ONE.match(raw, at)
    if found is None:
        return b"", at, False
    if raw[at : at + 1] in {b"h", b"j"}:
        return _LIST + rb"|" + _GET, found.end(), True
    return _NUMBER + rb"|" + _GET + rb"|" + _CONSTANT, found.end(), False
