"""File systems as `df` and `mount` show them: what a path lies on. Holds no rules."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from firstfault.model.evidence import Event


class DiskKind(Enum):
    """Whose a file system is."""

    LOCAL = "local"
    """A disk of the machine itself, or its container's own layer."""
    SHARED = "shared"
    """A file system that machines share."""
    MEMORY = "memory"
    """A file system in the machine's memory."""
    UNKNOWN = "unknown"


class FileSystem(Struct, frozen=True, kw_only=True):
    """One row of `df`, `df -i` or `mount`."""

    mount: str
    """Folder at which it is mounted."""
    device: str
    kind: DiskKind
    used: int | None = None
    """Per cent of its space; None where the row does not say."""
    inodes: int | None = None
    """Per cent of its inodes; None where the row does not say."""
    event: Event
    """The row as evidence."""
