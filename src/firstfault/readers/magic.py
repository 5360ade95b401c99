"""Compression told by the first bytes of a stream. It opens nothing."""

from __future__ import annotations


def compression_of(head: bytes) -> str | None:
    """Name of the compression by the first bytes (at least 10 are needed); None where there is none."""
    if head.startswith(b"\x1f\x8b\x08"):
        return "gzip"
    if head.startswith(b"\x28\xb5\x2f\xfd") or (head[1:4] == b"\x2a\x4d\x18" and 0x50 <= head[0] <= 0x5F):
        return "zstd"
    if head.startswith(b"\xfd7zXZ\x00"):
        return "xz"
    if head.startswith(b"BZh") and head[4:10] in {b"1AY&SY", b"\x17rE8P\x90"}:
        return "bzip2"
    return None
