"""Turns results of work into bytes and back, for what goes from a copy of this process to the one that asked.

Typed: what comes back is of the kind that was asked for, or it is refused. Nothing in the bytes can be run, so that a copy
that a stranger's file has broken can at worst send a wrong answer. Must not be used for files.
"""

from __future__ import annotations

from array import array
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")

_NUMBER = 8
"""Bytes of the number of a piece."""


class BrokenMessageError(ValueError):
    """The bytes are no result of the kind that was asked for."""


class Transport(Generic[T]):
    """Packs numbered results of one kind."""

    def __init__(self, kind: Any) -> None:
        """`kind`: type of the results, of numbers, text, structs, named tuples, lists, maps, and columns of numbers."""
        self._decoder = msgspec.msgpack.Decoder(kind, dec_hook=_from_plain)
        self._encoder = msgspec.msgpack.Encoder(enc_hook=_to_plain)

    def pack(self, piece: int, result: T) -> bytes:
        """A result as bytes.

        Raises:
            TypeError: it holds a value of a kind that is not meant to go through.
            UnicodeEncodeError: it holds text that is none.
        """
        return piece.to_bytes(_NUMBER, "little") + self._encoder.encode(result)

    def unpack(self, raw: bytes) -> tuple[int, T]:
        """Number and result.

        Raises:
            BrokenMessageError: the bytes are no result of this kind.
        """
        try:
            return int.from_bytes(raw[:_NUMBER], "little"), self._decoder.decode(memoryview(raw)[_NUMBER:])
        except (msgspec.DecodeError, ValueError, TypeError) as error:
            raise BrokenMessageError(str(error)) from error


def _to_plain(value: object) -> object:
    if isinstance(value, array):
        return value.typecode.encode("ascii") + value.tobytes()
    raise TypeError(f"{type(value).__name__} is not meant to go between processes")


def _from_plain(kind: type, value: Any) -> object:
    if kind is not array or not isinstance(value, bytes):
        raise ValueError(f"{kind.__name__} is not meant to go between processes")
    column: array[int] = array(value[:1].decode("ascii"))
    column.frombytes(value[1:])
    return column
