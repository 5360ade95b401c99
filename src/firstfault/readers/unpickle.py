"""Loads pickles of strangers: plain values only; with `unpickle_torch` the only module that may import pickle.

Every class, function, extension and persistent object is refused, so nothing of a pickle is ever run. What is left to
fear is a pickle that eats time, memory or stack; `load` looks for that first, at the price of a slow pass over its
operations. A process that may be lost takes `load_fast`, which does without.
"""

from __future__ import annotations

import pickle
import pickletools
from typing import Any, NoReturn

MOST_BYTES = 512 << 20
"""A larger pickle is not loaded."""
_LEAVES = frozenset(
    {
        "BINUNICODE",
        "SHORT_BINUNICODE",
        "UNICODE",
        "BININT",
        "BININT1",
        "BININT2",
        "LONG1",
        "INT",
        "LONG",
        "BINFLOAT",
        "FLOAT",
        "NONE",
        "NEWTRUE",
        "NEWFALSE",
        "SHORT_BINBYTES",
        "BINBYTES",
        "SHORT_BINSTRING",
        "BINSTRING",
        "EMPTY_TUPLE",
    }
)
_ROOMS = frozenset({"EMPTY_DICT", "EMPTY_LIST"})
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_PUTS = frozenset({"BINPUT", "LONG_BINPUT", "PUT"})
_GETS = frozenset({"BINGET", "LONG_BINGET", "GET"})
DEEPEST = 64
"""Containers within containers."""
MOST_VALUES = 100_000_000
"""Values, counted as often as they are met on the way through."""
LONGEST_NUMBER = 64
"""Bytes of a whole number."""
WIDE = (1 << 61) - 1
"""A whole number from which on others have the same hash: a map of such keys costs time without end."""


class UnreadablePickleError(ValueError):
    """The bytes are no pickle of plain values; its text says why, in a few words."""


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it asks for {module[:60]}.{name[:60]}, which is refused")

    def persistent_load(self, pid: object) -> NoReturn:
        del pid
        raise pickle.UnpicklingError("it asks for an object from outside, which is refused")


class _Whole:
    """Bytes as a file that shows all of them at a peek: so the C unpickler reads in one go, three times as fast."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0

    def peek(self, _size: int) -> bytes:
        """All that is left."""
        return self._raw[self._at :] if self._at else self._raw

    def read(self, size: int) -> bytes:
        """The next bytes."""
        start, self._at = self._at, self._at + size
        return self._raw[start : self._at]

    def readline(self) -> bytes:
        """The next line."""
        end = self._raw.find(b"\n", self._at) + 1
        return self.read((end or len(self._raw)) - self._at)


def load(raw: bytes) -> object:
    """The plain value of a pickle, after a look at each of its operations.

    Raises:
        UnreadablePickleError: it is damaged, too large, too deep, or asks for more than plain values.
    """
    if len(raw) > MOST_BYTES:
        raise UnreadablePickleError(f"larger than {MOST_BYTES >> 20} MiB")
    _look_through(raw)
    return load_fast(raw)


def load_fast(raw: bytes) -> object:
    """The plain value of a pickle, without the look beforehand: only for a process that may hang, grow or die.

    Raises:
        UnreadablePickleError: it is damaged, too large, or asks for more than plain values.
    """
    if len(raw) > MOST_BYTES:
        raise UnreadablePickleError(f"larger than {MOST_BYTES >> 20} MiB")
    try:
        return _Plain(_Whole(raw)).load()
    except Exception as error:
        # An unpickler raises anything at all on damaged input.
        raise UnreadablePickleError(_reason(error)) from error


def _reason(error: Exception) -> str:
    text = str(error).split("\n", 1)[0][:160]
    if isinstance(error, EOFError) or "truncated" in text or "ran out" in text:
        return "it is cut off"
    return text if isinstance(error, pickle.UnpicklingError) and text else f"{type(error).__name__}: {text}"


class _Cell:
    """What is known of a value on the stack."""

    __slots__ = ("depth", "held", "weight", "wide")

    def __init__(self, depth: int, weight: int = 1, *, wide: bool = False) -> None:
        self.depth = depth
        """Containers within it, itself included; 0 for a plain value, -1 for a tuple."""
        self.weight = weight
        """Values in it, counted as often as they are met on the way through."""
        self.held = False
        """Whether it is inside another: then it must not grow."""
        self.wide = wide
        """Whether it is a whole number from `WIDE` on, or holds one: then it must be no key."""


_LEAF = _Cell(0)
_WIDE = _Cell(0, wide=True)


_ENDS = ("exhausted", "enough", "remain", "newline")
"""Words of the standard library where the bytes end within an operation, or before the last one."""


def _look_through(raw: bytes) -> None:
    """Refuses operations other than those of plain values, tuples within tuples, and what is deep, long or folded up.

    A tuple of tuples is refused since its hash, taken where it is a key, may cost time without end.
    """
    stack: list[_Cell | None] = []
    """None is a mark."""
    memo: dict[int, _Cell] = {}
    try:
        for opcode, argument, _ in pickletools.genops(raw):
            _step(opcode.name, argument, stack, memo)
    except UnreadablePickleError:
        raise
    except (ValueError, KeyError, IndexError, OverflowError) as error:
        cut = any(words in str(error) for words in _ENDS)
        raise UnreadablePickleError("it is cut off" if cut else "it is damaged or cut off") from error


def _step(name: str, argument: Any, stack: list[_Cell | None], memo: dict[int, _Cell]) -> None:
    if name in _LEAVES:
        if isinstance(argument, int) and argument.bit_length() > 8 * LONGEST_NUMBER:
            raise UnreadablePickleError("it holds a number of extreme length")
        stack.append(_WIDE if isinstance(argument, int) and abs(argument) >= WIDE else _LEAF)
    elif name in _ROOMS:
        stack.append(_Cell(1))
    elif name in _TUPLES:
        _tuple(stack, [stack.pop() for _ in range(_TUPLES[name])])
    elif name == "TUPLE":
        _tuple(stack, _to_mark(stack))
    elif name in {"APPEND", "APPENDS"}:
        _hold(stack, [stack.pop()] if name == "APPEND" else _to_mark(stack))
    elif name in {"SETITEM", "SETITEMS"}:
        pairs = [stack.pop(), stack.pop()] if name == "SETITEM" else _to_mark(stack)
        if any(_value(key).wide for key in pairs[1::2]):
            raise UnreadablePickleError("a key is a number of extreme size")
        _hold(stack, pairs)
    elif name == "MARK":
        stack.append(None)
    elif name in _PUTS or name == "MEMOIZE":
        place = len(memo) if name == "MEMOIZE" else int(argument)
        if not 0 <= place <= len(memo):
            # Picklers number what they keep one by one; room for a number out of nowhere would be made at once.
            raise UnreadablePickleError("it keeps a value under a number out of nowhere")
        memo[place] = _value(stack[-1])
    elif name in _GETS:
        stack.append(memo[int(argument)])
    elif name not in {"PROTO", "FRAME", "STOP"}:
        raise UnreadablePickleError(f"its operation {name} is refused")


def _to_mark(stack: list[_Cell | None]) -> list[_Cell | None]:
    taken: list[_Cell | None] = []
    while (value := stack.pop()) is not None:
        taken.append(value)
    return taken


def _value(cell: _Cell | None) -> _Cell:
    if cell is None:
        raise UnreadablePickleError("it is damaged")
    return cell


def _tuple(stack: list[_Cell | None], inside: list[_Cell | None]) -> None:
    if any(_value(cell).depth != 0 for cell in inside):
        raise UnreadablePickleError("it holds a tuple of more than plain values")
    stack.append(_Cell(-1, 1 + len(inside), wide=any(_value(cell).wide for cell in inside)))


def _hold(stack: list[_Cell | None], inside: list[_Cell | None]) -> None:
    holder = _value(stack[-1])
    if holder.depth < 1 or holder.held:
        raise UnreadablePickleError("it puts values into what is no list or map, or is closed")
    for cell in map(_value, inside):
        if cell is holder:
            raise UnreadablePickleError("it holds itself")
        holder.weight += cell.weight
        holder.depth = max(holder.depth, abs(cell.depth) + 1)
        if cell is not _LEAF:
            cell.held = True
    if holder.depth > DEEPEST:
        raise UnreadablePickleError("its values are nested too deep")
    if holder.weight > MOST_VALUES:
        raise UnreadablePickleError("it unfolds to too many values")
