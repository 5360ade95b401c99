"""How each PyTorch writes its lines: prefixes, places in the source, and which lines exist at all.

Formats are those of official builds. Data and small formatters only; when a line is printed is decided elsewhere.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .engine import Work
    from .topology import Group, Shape

NANOSECONDS = 1_000_000_000


@dataclass(frozen=True)
class Version:
    """One PyTorch."""

    name: str
    caught: int
    state: int
    again: int
    """Where the state is said a second time; 0: it is not."""
    some: int
    avoid: int
    terminated: int
    dumping: int
    signal: int
    no_stack: int
    stack: int
    raised: int
    timeout: float
    elastic: str
    """Style of the launcher's lines: plain, bracket, thread or pid."""
    elastic_lines: tuple[int, int]
    """Where the launcher says that it signals a worker, and that one failed."""
    tick: float
    """Seconds between two looks of the launcher at its workers."""

    @property
    def number(self) -> tuple[int, int]:
        major, minor = self.name.split(".")
        return int(major), int(minor)

    @property
    def clock(self) -> bool:
        """Whether lines of the C++ logger carry the time."""
        return self.number >= (2, 4)

    @property
    def rank_prefix(self) -> bool:
        """Whether lines begin with the global rank."""
        return self.number >= (2, 3)


VERSIONS = {
    version.name: version
    for version in (
        Version("1.13", 821, 0, 0, 456, 461, 0, 0, 0, 0, 0, 0, 1800.0, "plain", (0, 0), 5.0),
        Version("2.1", 474, 0, 0, 488, 494, 915, 0, 0, 0, 0, 476, 1800.0, "bracket", (0, 0), 5.0),
        Version("2.3", 563, 1537, 0, 577, 583, 1414, 0, 0, 0, 0, 565, 600.0, "thread", (851, 826), 0.1),
        Version("2.4", 607, 1664, 1709, 621, 627, 1515, 1340, 1376, 0, 0, 609, 600.0, "thread", (858, 833), 0.1),
        Version("2.6", 629, 2168, 0, 681, 695, 1895, 1683, 2002, 667, 712, 632, 600.0, "pid", (897, 869), 0.1),
        Version("2.8", 683, 2241, 0, 744, 758, 2057, 1802, 2094, 730, 773, 685, 600.0, "pid", (900, 874), 0.1),
    )
}  # fmt: skip


class Clock:
    """Local times of one machine."""

    def __init__(self, start: dt.datetime, skew: float) -> None:
        self._start = start
        self._skew = skew

    def at(self, time: float) -> dt.datetime:
        return self._start + dt.timedelta(seconds=time + self._skew)

    def cpp(self, time: float, level: str = "E") -> str:
        """As the C++ logger writes it: month without a leading zero, nanoseconds."""
        moment = self.at(time)
        nanoseconds = int((time * NANOSECONDS) % 1000)
        return f"{level}{moment.month}{moment:%d %H:%M:%S.%f}{nanoseconds:03d}"

    def python(self, time: float, level: str) -> str:
        """As torch's Python logger writes it: milliseconds, padded."""
        moment = self.at(time)
        return f"{level}{moment:%m%d %H:%M:%S}.{moment.microsecond // 1000:03d}000"

    def iso(self, time: float, pattern: str = "%Y-%m-%d %H:%M:%S") -> str:
        return format(self.at(time), pattern)


def head(version: Version, clock: Clock, time: float, rank: int, line: int, level: str = "E") -> str:
    """What stands before every line of the watchdog."""
    stamp = clock.cpp(time, level) if version.clock else level
    prefix = f"[rank{rank}]:" if version.rank_prefix else ""
    return f"{prefix}[{stamp} ProcessGroupNCCL.cpp:{line}] "


def group_prefix(version: Version, shape: Shape, rank: int, group: Group) -> str:
    """The group as a line names it, from 2.3 on; before, only `[Rank n]`."""
    place = group.places[rank]
    described = shape.named or group.kind == "default"
    if version.number < (2, 3):
        return f"[Rank {place}] "
    if version.number < (2, 4):
        return f"[PG {group.guid} Rank {place}] "
    if version.number < (2, 5):
        return (
            f"[PG {group.guid} ({group.description}) Rank {place}] "
            if described
            else f"[PG {group.guid} Rank {place}] "
        )
    words = f"({group.description})" if described else ""
    return f"[PG ID {shape.number(rank, group.kind)} PG GUID {group.guid}{words} Rank {place}] "


def work_rank(version: Version, shape: Shape, rank: int, group: Group) -> int:
    """The number in `[Rank n] Watchdog caught`: of the work's group in old versions, of the first group that ever logged later."""
    if version.number >= (2, 3) and shape.split:
        return shape.by_rank[rank]["dp"].places[rank]
    return group.places[rank]


def work_words(version: Version, work: Work, timeout: int, shapes: bool) -> str:
    """The collective as the watchdog describes it; `shapes`: whether 1.x keeps the tensor's shape."""
    numel_in, numel_out = work.sizes
    if version.number < (2, 1):
        shape = f"TensorShape=[{numel_out}], " if shapes else ""
        return f"WorkNCCL(SeqNum={work.seq}, OpType={work.op}, {shape}Timeout(ms)={timeout})"
    return f"WorkNCCL(SeqNum={work.seq}, OpType={work.op}, NumelIn={numel_in}, NumelOut={numel_out}, Timeout(ms)={timeout})"


def elastic_head(version: Version, clock: Clock, time: float, pid: int, warning: bool) -> str:
    """What stands before a line of the launcher."""
    where = "torch.distributed.elastic.multiprocessing.api"
    if version.elastic == "plain":
        return f"{'WARNING' if warning else 'ERROR'}:{where}:"
    if version.elastic == "bracket":
        moment = clock.at(time)
        return f"[{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d}] {where}: [{'WARNING' if warning else 'ERROR'}] "
    who = pid if version.elastic == "pid" else 139_000_000_000_000 + pid * 1024
    line = version.elastic_lines[0 if warning else 1]
    return (
        f"{clock.python(time, 'W' if warning else 'E')} {who} torch/distributed/elastic/multiprocessing/api.py:{line}] "
    )
