"""What the daemons of an object store left behind: who they are, what they said, and which stretch of time was read.

Observations only. Times are seconds on the daemon's own wall clock (read as if it were UTC) unless a field says else.
"""

from __future__ import annotations

from msgspec import Struct

from firstfault.model.evidence import Event, SourceId, Span
from firstfault.model.words import Word


class DaemonRole(Word):
    """What a daemon does in its cluster."""

    TARGET = "target"
    """It holds objects and serves them."""
    PROXY = "proxy"
    """It redirects requests and keeps the cluster map; no object passes through it."""
    UNKNOWN = "unknown"


class Opening(Word):
    """Why a log file begins."""

    STARTED = "started"
    """The process started: a restart, where an earlier file is there."""
    ROTATED = "rotated"
    """The same process went on in a new file."""
    UNKNOWN = "unknown"
    """The first line does not say (a cut file, or the output of a container)."""


class Daemon(Struct, frozen=True, order=True):
    """Who a daemon is, as far as archive name, first lines and file name tell."""

    role: DaemonRole
    node: str
    """Node id without `t[…]`; empty where no line tells."""
    name: str
    """Host or pod name; empty where no line tells."""

    @property
    def shown(self) -> str:
        """The name by which people know it: its host or pod, else its node id."""
        return self.name or self.node or "an unnamed daemon"

    @property
    def full(self) -> str:
        """Name and node id together: `ais-target-3 (t[kWQt8081])`."""
        letter = "p" if self.role is DaemonRole.PROXY else "t"
        own = f"{letter}[{self.node}]"
        return f"{self.name} ({own})" if self.name and self.node else own if self.node else self.shown


class Beginning(Struct, frozen=True):
    """A line at which a file or a process begins."""

    opening: Opening
    at: float
    span: Span
    text: str


class StatsLine(Struct, frozen=True):
    """One line of counters."""

    at: float
    counters: dict[str, int]
    span: Span
    text: str = ""
    """The whole line."""


class DiskLine(Struct, frozen=True):
    """One line about a busy disk."""

    at: float
    disk: str
    util: int
    """Per cent of the time that it was busy in the last tick."""
    span: Span
    text: str = ""


class DaemonLine(Struct, frozen=True):
    """One line of a known meaning."""

    at: float
    event: Event


class LogPiece(Struct, frozen=True, kw_only=True):
    """What was read of one daemon in one source."""

    source: SourceId
    daemon: Daemon
    version: str = ""
    zone: int | None = None
    """Seconds east of UTC that the daemon's clock shows, where a line states it."""
    zones: tuple[int, ...] = ()
    """The same where an abbreviation leaves several."""
    zone_span: Span | None = None
    """The line that states it."""
    zone_line: str = ""
    """Its text."""
    zone_text: str = ""
    """How it names the zone: `UTC`, `CST`, `+0530`."""
    dated: bool = True
    """False where no line states a date: `at` then counts from an assumed day."""
    beginnings: tuple[Beginning, ...] = ()
    begins: float | None = None
    """First moment of the source, read or not."""
    ends: float | None = None
    errors_only: bool = False
    """Whether it is the file of warnings and errors, which the other repeats."""
    read_from: float | None = None
    read_to: float | None = None
    lines: tuple[DaemonLine, ...] = ()
    stats: tuple[StatsLine, ...] = ()
    disks: tuple[DiskLine, ...] = ()
    stopped: bool = False
    """Whether it ends with the words of a daemon that stops as told."""


class StorageLogs(Struct, frozen=True, kw_only=True):
    """All that was read of the daemons."""

    pieces: tuple[LogPiece, ...] = ()
    targets: int | None = None
    """Number of targets of the cluster as its map last had it; None where no line tells."""
