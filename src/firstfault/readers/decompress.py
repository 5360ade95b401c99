"""Streams of gzip, zstd, xz and bzip2, told by their first bytes; damaged ones give all that comes before the damage.

Memory is bounded whatever the input says: no call takes more input than can expand to some ten megabytes.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from typing import TYPE_CHECKING, Protocol

from firstfault.readers.magic import compression_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_MEMORY = 256 * 1024 * 1024
_PIECE = {"gzip": 32 * 1024, "zstd": 2 * 1024, "xz": 32 * 1024, "bzip2": 32 * 1024, "deflate": 32 * 1024}
"""Compressed bytes per call; zstd can make 128 KiB of four bytes and knows no limit of output."""


class DamagedError(Exception):
    """A stream ends early or holds what cannot be; the message says which."""


class _Decoder(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


def decompress(parts: Callable[[], Iterable[bytes]], kind: str) -> Iterator[bytes]:
    """Decompressed bytes of a stream, all members or frames of it.

    Args:
        parts: gives the compressed bytes from the start; called again where damage has to be come close to.
        kind: a name that `compression_of` gives, or `deflate` for the raw streams of zip.

    Raises:
        DamagedError: after everything before the damage was given.
    """
    given = taken = 0

    def counted() -> Iterator[bytes]:
        nonlocal taken
        for piece in _pieces(parts(), _PIECE[kind]):
            taken += 1
            yield piece

    try:
        for out in _run(counted(), kind):
            given += len(out)
            yield out
    except DamagedError as error:
        damage = error
    else:
        return
    # A decoder gives nothing for the call in which it fails: that piece is gone through byte by byte.
    seen = 0
    try:
        for out in _run(_narrowing(parts, kind, taken - 1), kind):
            seen += len(out)
            if seen > given:
                yield out[max(0, len(out) - (seen - given)) :]
                given = seen
    except DamagedError:
        pass
    raise damage


def _narrowing(parts: Callable[[], Iterable[bytes]], kind: str, failing: int) -> Iterator[bytes]:
    for index, piece in enumerate(_pieces(parts(), _PIECE[kind])):
        if index < failing:
            yield piece
            continue
        for i in range(len(piece)):
            yield piece[i : i + 1]
        return


def _pieces(parts: Iterable[bytes], size: int) -> Iterator[bytes]:
    for part in parts:
        for start in range(0, len(part), size):
            yield part[start : start + size]


def _run(pieces: Iterable[bytes], kind: str) -> Iterator[bytes]:
    decoder: _Decoder | None = None
    whole = 0
    begun = b""
    for piece in pieces:
        data = piece
        while data:
            if decoder is None:
                data = data.lstrip(b"\0") if whole else data  # tape padding between members is allowed
                if not data:
                    break
                decoder, begun = _new(kind), data[:10]
            try:
                out = decoder.decompress(data)
            except Exception as error:  # each library has an error of its own, and none says what else it raises
                if whole and compression_of(begun.ljust(10, b"\0")) != kind:
                    return  # what follows a whole stream is no stream
                raise DamagedError(f"damaged {kind} data: {str(error) or type(error).__name__}") from error
            if out:
                yield out
            data = b""
            if decoder.eof:
                data, decoder = decoder.unused_data, None
                whole += 1
                if kind == "deflate":
                    return
    if decoder is not None:
        raise DamagedError(f"the {kind} data ends too early")


def _new(kind: str) -> _Decoder:
    if kind == "gzip":
        return _gzip(31)
    if kind == "deflate":
        return _gzip(-15)
    if kind == "xz":
        return lzma.LZMADecompressor(memlimit=_MEMORY)
    if kind == "bzip2":
        return bz2.BZ2Decompressor()
    return _zstd()


def _gzip(wbits: int) -> _Decoder:
    try:
        from isal import isal_zlib
    except ImportError:
        return zlib.decompressobj(wbits)
    decoder: _Decoder = isal_zlib.decompressobj(wbits)
    return decoder


def _zstd() -> _Decoder:
    import zstandard

    return zstandard.ZstdDecompressor(max_window_size=_MEMORY // 2).decompressobj()
