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
    ratio_from: int = 256 << 20
    """Unpacked bytes of one stream below which no ratio is too much."""
