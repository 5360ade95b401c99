"""Reads a pickle of plain values operation by operation, in one pass, handing every finished map to a folder of them.

For pickles too large to be held: what the folder takes is forgotten at once. It knows the operations of plain values
alone, so nothing of a stranger's pickle can be run; it knows nothing of what the values mean. Time is linear in bytes.
Maps that are built alike are read many at a time by `plain_shapes`.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Any, Protocol

from firstfault.readers.plain_shapes import RUN, Column, Shapes
from firstfault.readers.unpickle import WIDE

if TYPE_CHECKING:
    from collections.abc import Iterator

MARGIN = 1 << 16
"""Bytes of look-ahead: an operation with a short argument, or a run of references, lies in it as a whole."""
MOST_CONTAINERS = 4_000_000
"""Lists and maps held at a time; a snapshot's folded ones do not count."""
MOST_ITEMS = 40_000_000
"""Items on the stack and in lists at a time."""
MOST_TEXT = 256 << 20
"""Bytes of text held."""
LONGEST_NUMBER = 16
"""Bytes of a whole number."""
DEEPEST = 64
_GETS = re.compile(rb"(?s)h(.)|j(.{4})")
_I4, _U2, _U4, _F8 = struct.Struct("<i"), struct.Struct("<H"), struct.Struct("<I"), struct.Struct(">d")


class UnreadableStreamError(ValueError):
    """The bytes are no pickle of plain values; its text says why, in a few words."""


class _Gone:
    """Stands where a folded value was."""

    def __repr__(self) -> str:
        return "a folded value"


GONE = _Gone()


class Folder(Protocol):
    """Takes maps as they are finished."""

    wanted: frozenset[str]
    """Keys that it looks at; of other keys a map may lack the values."""

    def takes(self, columns: dict[str, Column]) -> bool:
        """Whether maps with these keys, held by a list, shall come many at a time."""

    def many(self, columns: dict[str, Column], parent: list[Any]) -> list[Any] | None:
        """What shall stand in the places of maps that follow one another; None where nothing shall.

        Args:
            columns: values by key.
            parent: the list that will hold them.
        """

    def finished(self, found: dict[Any, Any], parent: list[Any] | None) -> Any:
        """What shall stand in the map's place: `GONE`, a smaller value, or the map itself.

        Args:
            found: the map; its values are plain, or what was put in place of inner maps.
            parent: the list that will hold it; None where it is held by a map or by nothing.
        """


class Machine:
    """The state of reading: stack, marks, and what later operations may refer to."""

    gone = GONE

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.shapes = Shapes(folder.wanted)
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: list[Any] = []
        self.open: dict[int, int] = {}
        """Place in the memo of each map that is not finished, by its identity."""
        self.runs: dict[bytes, list[Any]] = {}
        """Lists of references, one for all that are alike."""
        self.shared: set[int] = set()
        self.containers = 0
        self.items = 0
        self.text = 0

    def parent(self) -> list[Any] | None:
        """The list that will hold the next value; None where it is no list that does."""
        above = self.stack[-1] if self.stack else None
        if self.marks and self.marks[-1] and (above is None or above is GONE):
            above = self.marks[-1][-1]
        return above if type(above) is list else None

    def finish(self, found: dict[Any, Any]) -> None:
        """Hands the map on top of the stack to the folder and puts its answer in the map's place."""
        self.stack.pop()
        place = self.open.pop(id(found), None)
        put = self.take(found)
        if put is not found:
            self.containers -= 1
            if place is not None:
                self.memo[place] = put

    def take(self, found: dict[Any, Any]) -> Any:
        """Hands a map to the folder and puts its answer, which is returned, onto the stack."""
        put = self.folder.finished(found, self.parent())
        self.stack.append(put)
        return put

    def run_of(self, gets: bytes) -> list[Any]:
        """The one list of what a run of references refers to."""
        known = self.runs.get(gets)
        if known is None:
            memo = self.memo
            known = [memo[m[1][0] if m[1] is not None else _U4.unpack(m[2])[0]] for m in _GETS.finditer(gets)]
            self.runs[gets] = known
            self.shared.add(id(known))
            self.containers += 1
            self.items += len(known)
        return known

    def check(self) -> None:
        """Refuses what holds more than any snapshot does."""
        held = self.items + len(self.stack) + sum(map(len, self.marks))
        if self.containers > MOST_CONTAINERS or held > MOST_ITEMS or self.text > MOST_TEXT:
            raise UnreadableStreamError("it holds more values at a time than can be read in bounded memory")
        if len(self.marks) > DEEPEST:
            raise UnreadableStreamError("its values are nested too deep")


def read_stream(blocks: Iterator[bytes], folder: Folder) -> Any:
    """The value of a pickle, less what the folder took.

    Args:
        blocks: its bytes, in order.
        folder: takes finished maps.

    Raises:
        UnreadableStreamError: it is damaged, cut off, or asks for more than plain values.
    """
    machine = Machine(folder)
    buffer, last = b"", False
    while True:
        block = next(blocks, None)
        last = block is None
        buffer += block or b""
        if len(buffer) < 2 * MARGIN and not last:
            continue
        try:
            used, done = _run(machine, buffer, len(buffer) if last else len(buffer) - MARGIN)
        except (IndexError, KeyError, TypeError, ValueError, OverflowError, struct.error) as error:
            if isinstance(error, UnreadableStreamError):
                raise
            why = "it is cut off" if last else f"it is damaged ({type(error).__name__})"
            raise UnreadableStreamError(why) from error
        if done:
            return machine.stack[-1]
        if last:
            raise UnreadableStreamError("it is cut off")
        machine.check()
        buffer = buffer[used:]


def _run(machine: Machine, raw: bytes, end: int) -> tuple[int, bool]:  # noqa: PLR0915 - one table of operations, in the order of how often they come
    """Runs the operations that begin before `end`; how far it came, and whether the pickle ended there."""
    memo, marks, stack = machine.memo, machine.marks, machine.stack
    at = 0
    while at < end:
        op = raw[at]
        at += 1
        if op == 0x68:  # BINGET
            stack.append(memo[raw[at]])
            at += 1
        elif op == 0x4B:  # BININT1
            stack.append(raw[at])
            at += 1
        elif op == 0x94:  # MEMOIZE
            if type(stack[-1]) is dict:
                machine.open[id(stack[-1])] = len(memo)
            memo.append(stack[-1])
        elif op == 0x8A:  # LONG1
            size = raw[at]
            if size > LONGEST_NUMBER:
                raise UnreadableStreamError("it holds a number of extreme length")
            stack.append(int.from_bytes(_exact(raw, at + 1, size), "little", signed=True))
            at += 1 + size
        elif op == 0x6A:  # LONG_BINGET
            stack.append(memo[_U4.unpack_from(raw, at)[0]])
            at += 4
        elif op == 0x4A:  # BININT
            stack.append(_I4.unpack_from(raw, at)[0])
            at += 4
        elif op == 0x4D:  # BININT2
            stack.append(_U2.unpack_from(raw, at)[0])
            at += 2
        elif op == 0x28:  # MARK
            if stack and type(stack[-1]) is list and not stack[-1]:
                run = RUN.match(raw, at)
                if run is not None:
                    _share(machine, run[1])
                    at = run.end()
                    continue
            marks.append(stack)
            stack = machine.stack = []
        elif op == 0x7D:  # EMPTY_DICT
            behind = machine.shapes.take(machine, raw, at - 1)
            if behind >= 0:
                at = behind
                continue
            machine.containers += 1
            stack.append({})
        elif op == 0x75:  # SETITEMS
            items = stack
            stack = machine.stack = marks.pop()
            _fill(machine, stack[-1], items)
        elif op == 0x5D:  # EMPTY_LIST
            machine.containers += 1
            stack.append([])
        elif op == 0x65:  # APPENDS
            items = stack
            stack = machine.stack = marks.pop()
            _extend(machine, stack[-1], items)
        elif op == 0x61:  # APPEND
            item = stack.pop()
            _extend(machine, stack[-1], [item])
        elif op == 0x73:  # SETITEM
            items = stack[-2:]
            del stack[-2:]
            _fill(machine, stack[-1], items)
        elif op == 0x2E:  # STOP
            if len(stack) != 1 or marks:
                raise UnreadableStreamError("it is damaged")
            return at, True
        else:
            at = _rarer(machine, op, raw, at)
            stack = machine.stack
    return at, False


def _share(machine: Machine, gets: bytes) -> None:
    """Puts the one list of these references in the place of the empty one that is about to hold them."""
    memo, stack = machine.memo, machine.stack
    machine.containers -= 1
    known = machine.run_of(gets)
    if memo and memo[-1] is stack[-1]:
        memo[-1] = known
    stack[-1] = known


def _fill(machine: Machine, found: Any, items: list[Any]) -> None:
    if type(found) is not dict:
        raise UnreadableStreamError("it is damaged: it puts pairs into what is no map")
    keys = items[::2]
    kinds = set(map(type, keys))
    if not kinds <= _KEYS:
        raise UnreadableStreamError("a key is neither text nor a number")
    if int in kinds and any(type(key) is int and abs(key) >= WIDE for key in keys):
        raise UnreadableStreamError("a key is a number of extreme size")
    found.update(zip(keys, items[1::2], strict=True))
    machine.finish(found)


def _extend(machine: Machine, found: Any, items: list[Any]) -> None:
    if type(found) is not list or id(found) in machine.shared:
        raise UnreadableStreamError("it is damaged: it appends to what is no open list")
    kept = [item for item in items if item is not GONE]
    machine.items += len(kept)
    found.extend(kept)


def _rarer(machine: Machine, op: int, raw: bytes, at: int) -> int:  # a table of operations
    stack, memo = machine.stack, machine.memo
    if op in {0x8C, 0x58, 0x8D}:  # SHORT_BINUNICODE, BINUNICODE, BINUNICODE8
        width = {0x8C: 1, 0x58: 4, 0x8D: 8}[op]
        size = int.from_bytes(_exact(raw, at, width), "little")
        if size > MARGIN - 16:
            raise UnreadableStreamError("it holds a text of extreme length")
        machine.text += size
        stack.append(_exact(raw, at + width, size).decode("utf-8", "backslashreplace"))
        return at + width + size
    if op == 0x95:  # FRAME
        return at + 8
    if op == 0x80:  # PROTO
        return at + 1
    if op in _CONSTANTS:
        stack.append(_CONSTANTS[op])
        return at
    if op == 0x47:  # BINFLOAT
        stack.append(_F8.unpack_from(raw, at)[0])
        return at + 8
    if op in {0x85, 0x86, 0x87}:  # TUPLE1 to TUPLE3
        size = op - 0x84
        inside = tuple(stack[-size:])
        del stack[-size:]
        stack.append(_flat(inside))
        return at
    if op == 0x74:  # TUPLE
        inside = tuple(stack)
        machine.stack = machine.marks.pop()
        machine.stack.append(_flat(inside))
        return at
    if op in {0x71, 0x72}:  # BINPUT, LONG_BINPUT
        place = raw[at] if op == 0x71 else _U4.unpack_from(raw, at)[0]
        if place > len(memo):
            raise UnreadableStreamError("it is damaged")
        if type(stack[-1]) is dict:
            machine.open[id(stack[-1])] = place
        if place == len(memo):
            memo.append(stack[-1])
        else:
            memo[place] = stack[-1]
        return at + (1 if op == 0x71 else 4)
    asked = next((what for ops, what in _REFUSED.items() if op in ops), "a value of a kind that no such file holds")
    raise UnreadableStreamError(f"it asks for {asked}, which is refused")


_REFUSED = {
    b"c\x93": "a class or function",
    b"Rbio\x81\x92": "something to be run",
    b"PQ": "an object from outside",
    b"\x82\x83\x84": "an extension",
}
"""Operations, and what each wants."""
_KEYS = frozenset({str, int})
"""Types of keys: a tuple's hash may cost time without end."""
_CONSTANTS: dict[int, Any] = {0x4E: None, 0x88: True, 0x89: False, 0x29: ()}


def _flat(inside: tuple[Any, ...]) -> tuple[Any, ...]:
    if not all(isinstance(value, (int, float, str, type(None))) for value in inside):
        raise UnreadableStreamError("it holds a tuple of more than plain values")
    return inside


def _exact(raw: bytes, at: int, size: int) -> bytes:
    found = raw[at : at + size]
    if len(found) < size:
        raise IndexError("cut off")
    return found
