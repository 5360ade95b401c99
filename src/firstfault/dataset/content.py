"""Whether the begin and end of a file fit the kind that its name says: pictures, sound, arrays. Reads a few bytes, decodes nothing."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

EDGE = 1 << 16
"""Bytes that are looked at, at the begin and at the end."""
_BEGINS = {
    "jpg": (b"\xff\xd8\xff",),
    "jpeg": (b"\xff\xd8\xff",),
    "png": (b"\x89PNG\r\n\x1a\n",),
    "flac": (b"fLaC", b"ID3"),
    "wav": (b"RIFF", b"RF64", b"RIFX"),
    "npy": (b"\x93NUMPY",),
    "npz": (b"PK\x03\x04", b"PK\x05\x06"),
    "gz": (b"\x1f\x8b",),
    "webp": (b"RIFF",),
    "ogg": (b"OggS",),
    "opus": (b"OggS",),
}
Edges = tuple[bytes, bytes]


class Sound(NamedTuple):
    """What the header of a sound file states."""

    rate: int
    samples: int


def fault_of(name: str, size: int, edges: Callable[[int], Edges]) -> str:
    """What is wrong with a file by its first and last bytes; empty for nothing.

    Args:
        name: with the ending that says what it should be.
        size: its bytes.
        edges: gives up to so many bytes of its begin and its end.
    """
    ending = name.rpartition(".")[2].lower()
    begins = _BEGINS.get(ending)
    if begins is None or size == 0:
        return ""
    head, tail = edges(EDGE)
    if not head.startswith(begins):
        told = " ".join(f"{b:02x}" for b in head[:4])
        return f"it begins with {told}" + (
            ", a page of HTML" if head.lstrip()[:5].lower() in {b"<html", b"<!doc"} else ""
        )
    if ending in {"jpg", "jpeg"} and b"\xff\xd9" not in tail:
        return "the end mark of a JPEG is missing"
    if ending == "png" and b"IEND" not in tail:
        return "the last chunk of a PNG is missing"
    if ending == "wav":
        return _wav_fault(head, size)
    return ""


def _wav_fault(head: bytes, size: int) -> str:
    found = _wav(head)
    if found is None:
        return ""
    _, start, length, block = found
    there = size - start
    # A writer into a pipe states 0 or the largest number; readers take what is there.
    if 0 < length < 0x7FFFF000 and length - there >= max(block, 2):
        return f"its header promises {length} bytes of sound, and {max(0, there)} are there"
    return ""


def _wav(head: bytes) -> tuple[int, int, int, int] | None:
    """Rate, begin and length of the samples, bytes of one sample over all channels; None where the header tells none."""
    if head[:4] != b"RIFF" or head[8:12] != b"WAVE":
        return None
    at, rate, block = 12, 0, 0
    while at + 8 <= len(head):
        kind, length = head[at : at + 4], int.from_bytes(head[at + 4 : at + 8], "little")
        if kind == b"fmt " and at + 24 <= len(head):
            rate, block = struct.unpack_from("<I4xH", head, at + 12)
        if kind == b"data":
            return (rate, at + 8, length, block) if rate and block else None
        at += 8 + length + (length & 1)
    return None


def sound_of(size: int, head: bytes) -> Sound | None:
    """Rate and samples of a WAV or FLAC file; None where its header does not tell.

    Args:
        size: its bytes.
        head: its first bytes.
    """
    if head[:4] == b"RIFF":
        found = _wav(head)
        if found is None:
            return None
        rate, start, length, block = found
        return Sound(rate, min(length, max(0, size - start)) // block)
    if head[:4] == b"fLaC" and len(head) >= 26:
        packed = int.from_bytes(head[18:26], "big")
        rate, samples = packed >> 44, packed & ((1 << 36) - 1)
        return Sound(rate, samples) if rate and samples else None
    return None
