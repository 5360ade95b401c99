"""What opening one input may cost."""

from __future__ import annotations

from msgspec import Struct


class Limits(Struct, frozen=True, kw_only=True):
    """What one input may cost; beyond a limit the rest is left out and named in the coverage."""

    depth: int = 6
    """Archives within archives."""
    members: int = 100_000
    """Files and members in all."""
    unpacked: int = 64 << 30
    """Bytes of temporary space, in all."""
    ratio: int = 2_000
    """Unpacked bytes per packed byte, looked at above `ratio_from`."""
    whole_from: int = 1 << 30
    """Unpacked bytes of all that lies inside one given file below which its ratio, over all layers, is not too much."""
    ratio_from: int = 256 << 20
    """Unpacked bytes of one stream below which no ratio is too much."""


class Budget:
    """Bytes that may be unpacked out of one given file, over all archives within archives.

    A stream that is compressed once may be very small for what it holds, and is still a log. What was compressed twice
    hardly gets smaller, so that a whole that grows by more than one stream can is made to fill a disk.
    """

    def __init__(self, size: int, limits: Limits) -> None:
        self.left = max(limits.whole_from, size * limits.ratio)

    def take(self, number: int) -> None:
        """Notes that so many bytes were unpacked."""
        self.left -= number

    def is_spent(self) -> bool:
        """Whether nothing more may be unpacked."""
        return self.left < 0
