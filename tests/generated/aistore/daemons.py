"""Proxies and targets with state, and what they write while nothing special happens.

A tick every ten seconds moves the counters and prints what is due; a fault adds records, counts and disk load through the
methods here. It knows nothing of training jobs and writes no files.
"""

from __future__ import annotations

import random
import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .journal import Journal, Life, Zone

if TYPE_CHECKING:
    from collections.abc import Callable

    from .versions import Dialect

TICK = 10.0
HEALTHY = 6
ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


@dataclass(frozen=True)
class Load:
    """A time in which one disk is busier than usual; `disk` counts from 0, None is all of them."""

    start: float
    end: float
    disk: int | None
    util: int


@dataclass
class Node:
    """One daemon; `busy` says how hard the store is used at a time, 0 to 1."""

    role: str
    id: str
    host: str
    address: str
    dialect: Dialect
    zone: Zone
    rng: random.Random
    stats_time: float
    pid: int = 1
    """1 in a container."""
    disks: list[str] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)
    ends: list[tuple[float, float]] = field(default_factory=list)
    """Ends of processes: time, seconds of the log that are lost."""
    loads: list[Load] = field(default_factory=list)
    bumps: list[tuple[float, str, int]] = field(default_factory=list)
    flags: list[tuple[float, int]] = field(default_factory=list)
    kept: float = 0.0
    """Since when the log is still there; older files are deleted, each daemon's by its own size."""
    capacity: list[tuple[float, str]] = field(default_factory=list)
    """Tags of the capacity line from a time on."""
    journal: Journal = field(init=False)

    def __post_init__(self) -> None:
        self.journal = Journal(
            role=f"ais{self.role}",
            host=self.host,
            zone=self.zone,
            pid=self.pid,
            title=f"Node {self.name}, {self.version_line}",
            go=self.dialect.go,
        )

    @property
    def version_line(self) -> str:
        title = self.dialect.title
        return title if self.pid == 1 else title.rsplit(", container", 1)[0]

    @property
    def name(self) -> str:
        """The daemon as its peers call it."""
        return f"{'t' if self.role == 'target' else 'p'}[{self.id}]"

    def say(self, at: float, severity: str, place: str, text: str, mark: str = "") -> None:
        """Write a record; lines of the source move from version to version, but for the hourly marker's."""
        file, _, line = place.partition(":")
        if line and place != self.dialect.marker:
            place = f"{file}:{int(line) + zlib.crc32(f'{self.dialect} {place}'.encode()) % 60}"
        self.journal.add(at, severity, place, text, mark)

    def bump(self, at: float, name: str, count: int = 1) -> None:
        self.bumps.append((at, name, count))

    def alive(self, at: float) -> bool:
        return any(life.start <= at and (life.end is None or at < life.end) for life in self.journal.lives)

    # -- running -----------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Fix the processes once all starts and ends are known."""
        self.flags.sort(key=lambda entry: entry[0])
        self.capacity.sort(key=lambda entry: entry[0])
        ends = [*sorted(self.ends), (None, 0.0)]
        self.journal.lives = [
            Life(start, end, lost) for start, (end, lost) in zip(sorted(self.starts), ends, strict=False)
        ]

    def run(self, until: float, busy: Callable[[float], float], batches: bool) -> None:
        """Everything that the ticks of all processes write as far as it is kept."""
        since = self.kept
        for number, life in enumerate(self.journal.lives):
            end = until if life.end is None else life.end
            if end > since:
                self._boot(life.start) if life.start >= since else None
                self._ticks(life.start, max(since, life.start), end, busy, batches, fresh=number > 0)

    def _boot(self, start: float) -> None:
        title = self.version_line
        backends = "[aws]" if self.role == "target" else "[]"
        for after, place, text in (
            (0.774518, "config:2840", 'log.dir: "/var/log/ais"; l4.proto: tcp; pub port: 51081; verbosity: 3'),
            (
                0.774523,
                "config:2842",
                f'config: "/etc/ais/.ais.conf"; stats_time: 10s; authentication: false; backends: {backends}',
            ),
            (0.774540, "daemon:325", title),
            (0.801377, "k8s:58", f"Pod info: name {self.host} ,namespace ais ,node 10.0.41.{self.rng.randint(2, 99)}"),
            (0.913001, "daemon:268", f"Node {self.name}, {title}"),
        ):
            self.say(start + after, "I", place, text, "started" if place == "daemon:325" else "")

    def _ticks(
        self, start: float, since: float, end: float, busy: Callable[[float], float], batches: bool, *, fresh: bool
    ) -> None:
        counters = Counter() if fresh else self._past(batches)
        bumps = sorted(bump for bump in self.bumps if start <= bump[0] < end)
        marker = start
        while marker + 3600 < since:
            marker += 3600 + self.rng.uniform(0, 10)
        printed, last_line, next_hk = (
            since - self.rng.uniform(0, self.stats_time),
            "",
            since + self.rng.uniform(60, 900),
        )
        shown_capacity = since - self.rng.uniform(0, 14400)
        at = since + self.rng.uniform(0.2, TICK)
        while at < end:
            at += (self.rng.random() - 0.5) / 1000
            now = busy(at)
            hot = self._hot(at, now)
            if at - marker > 3600:
                marker = at
                moment = self.zone.local(at + self.journal.skew)
                self.say(
                    at - 0.0004, "I", self.dialect.marker, f"{moment:%d %b %y %H:%M} {self.zone.name} ============="
                )
            if now or hot or (bumps and bumps[0][0] <= at):
                before = dict(counters)
                averages = self._move(counters, now * (0.9 + 0.2 * self.rng.random()), batches)
                while bumps and bumps[0][0] <= at:
                    counters[bumps[0][1]] += bumps[0][2]
                    bumps.pop(0)
                # An idle daemon prints nothing, not the same again.
                idle = dict(counters) == before and all(util <= 20 for util in hot)
                if not idle and at - printed >= self.stats_time:
                    line = self._stats(counters, averages, at, hot)
                    if line != last_line:
                        self.say(at, "I", "", line)
                        printed, last_line = at, line
                self._disks(at, hot)
            tag = next((text for when, text in reversed(self.capacity) if when <= at), "")
            if self.disks and at - shown_capacity > (180 if tag else 14400):
                shown_capacity = at
                self._capacity(at, tag)
            if at >= next_hk:
                next_hk = at + self.rng.uniform(600, 1800)
                self._housekeeping(at, hot)
            at += TICK

    def _past(self, batches: bool) -> Counter[str]:
        """What a process that runs for days has counted."""
        draw = self.rng.randint
        counters: Counter[str] = Counter(
            {"get.n": draw(80_000, 2_000_000), "lst.n": draw(100, 9000), "err.get.n": draw(0, 40)}
        )
        counters["get.ns.total"] = counters["get.n"] * draw(400_000, 1_200_000)
        counters["get.size"] = counters["get.n"] * draw(1_000_000, 9_000_000)
        if self.role == "proxy":
            return Counter({name: counters[name] for name in ("get.n", "lst.n", "err.get.n")})
        counters["put.n"] = draw(0, 900)
        counters["lcache.evicted.n"] = draw(10_000, 900_000)
        counters["lcache.flush.cold.n"] = draw(10_000, 400_000)
        if batches and self.dialect.getbatch:
            if self.dialect.getbatch_counters:
                counters["getbatch.n"] = draw(40_000, 900_000)
                counters["getbatch.obj.n"] = counters["getbatch.n"] * 128
                counters["getbatch.obj.size"] = counters["getbatch.obj.n"] * 188_411
                counters["getbatch.rxwait.ns"] = counters["getbatch.n"] * 2_300_000
            counters["stream.in.n"] = draw(10_000_000, 60_000_000)
            counters["stream.in.size"] = counters["stream.in.n"] * 176_112
            counters["stream.out.n"] = draw(10_000_000, 60_000_000)
            counters["stream.out.size"] = counters["stream.out.n"] * 175_904
        return counters

    def _move(self, counters: Counter[str], busy: float, batches: bool) -> dict[str, int]:
        """One tick of work; the averages of that tick."""
        averages = {"kalive.ns": self.rng.randint(1_100_000, 1_310_000)}
        if busy <= 0:
            return averages
        by_batch = batches and self.dialect.getbatch and self.role == "target"
        gets = int(busy * self.rng.choice((0, 0, 3, 5)) if by_batch else busy * self.rng.randint(40, 60))
        counters["get.n"] += gets
        if gets and self.role == "target":
            each = self.rng.randint(700_000, 900_000)
            counters["get.ns.total"] += gets * each
            counters["get.size"] += gets * 4_194_304
            averages |= {"get.ns": each, "get.bps": gets * 419_430, "get.redir.ns": self.rng.randint(210_000, 270_000)}
        if not by_batch:
            return averages
        work = max(1, int(busy * 55))
        if self.dialect.getbatch_counters:
            counters["getbatch.n"] += work
            counters["getbatch.obj.n"] += work * 128
            counters["getbatch.obj.size"] += work * 128 * 188_411
            counters["getbatch.rxwait.ns"] += work * self.rng.randint(2_000_000, 2_900_000)
        for way in ("in", "out"):
            moved = work * self.rng.randint(90, 104)
            counters[f"stream.{way}.n"] += moved
            counters[f"stream.{way}.size"] += moved * 176_112
        return averages

    def _hot(self, at: float, busy: float) -> list[int]:
        """How busy each disk is; empty where the daemon has none to speak of."""
        forced = [load for load in self.loads if load.start <= at < load.end]
        if not busy and not forced:
            return []
        usual = [int(busy * (6 + 11 * self.rng.random())) for _ in self.disks]
        for load in forced:
            for index in range(len(usual)) if load.disk is None else (load.disk,):
                usual[index] = load.util
        return usual

    def _stats(self, counters: Counter[str], averages: dict[str, int], at: float, hot: list[int]) -> str:
        flags = next((value for when, value in reversed(self.flags) if when <= at), HEALTHY)
        values = {**counters, **averages, "state.flags": flags}
        text = ",".join(f"{name}:{value}" for name, value in sorted(values.items()) if value)
        if self.dialect.disks_in_stats and any(util >= self.dialect.disk_line_from for util in hot):
            for index, util in enumerate(hot):
                disk = f"disk.{self.disks[index]}"
                text += (
                    f",{disk}.read.bps:{util * 16_777_216},{disk}.avg.rsize:{121_856},{disk}.write.bps:{util * 131_072},"
                    f"{disk}.avg.wsize:{21_504},{disk}.util:{util}"
                )
        return "{" + text + "}"

    def _disks(self, at: float, hot: list[int]) -> None:
        for index, util in enumerate(hot):
            if util >= self.dialect.disk_line_from:
                read = f"{util * 16}MiB/s"
                text = f"{self.disks[index]}: {read}, {self.rng.randint(117, 123)}KiB, 0B/s, 0B, {util}%"
                self.say(at + 0.0001, "I", "", text, "disk" if util >= 95 else "")

    def _capacity(self, at: float, tag: str) -> None:
        for index, disk in enumerate(self.disks):
            shown = tag if tag and index == 0 else ""
            text = f"/ais/{disk}: {shown}" if shown else f"/ais/{disk}: used {40 + index}%, avail 1.21TiB"
            self.say(at + 0.0002, "I", "", text)

    def _housekeeping(self, at: float, hot: list[int]) -> None:
        if self.role != "target":
            return
        worst = max(hot, default=0)
        level = "critical" if worst >= 95 else "high" if worst > 80 else "moderate" if worst > 70 else "low"
        for number, (severity, place, text) in enumerate(self.dialect.housekeeping("low", "low", level, worst)):
            self.say(
                at + 0.002 + number * 0.0001, severity, place, text, "hk" if level == "critical" and not number else ""
            )


@dataclass
class Cluster:
    """All daemons; the first proxy is the primary."""

    proxies: list[Node]
    targets: list[Node]
    uuid: str
    xid: str
    bucket: str
    default_bucket: bool
    smap: int = 41

    @property
    def nodes(self) -> list[Node]:
        return [*self.proxies, *self.targets]

    @property
    def primary(self) -> Node:
        return self.proxies[0]

    @property
    def xact(self) -> str:
        """The job that serves batches; its name holds a bucket only where the client gave a default one."""
        return f"x-get-batch[{self.xid}]" + (f"-{self.bucket}" if self.default_bucket else "")

    @property
    def short(self) -> str:
        """The job's name in informational lines: short from 4.5 on."""
        return f"get-batch[{self.xid}]" if self.primary.dialect.version >= (4, 5) else self.xact

    @property
    def bucket_name(self) -> str:
        return self.bucket.split("://")[1]

    @property
    def provider(self) -> str:
        """The backend as directories of the store are called."""
        return {"s3": "aws", "gs": "gcp", "ais": "ais"}[self.bucket.split("://")[0]]

    def wid(self, rng: random.Random) -> str:
        """The name of one client request."""
        return "".join(rng.choice(ALPHABET + "0123456789") for _ in range(10))

    def map(self, version: int, targets: int | None = None) -> str:
        count = len(self.targets) if targets is None else targets
        return f"Smap v{version}[{self.uuid}, {self.primary.name}, t={count}, p={len(self.proxies)}]"


def make(
    rng: random.Random, dialect: Dialect, zone: Zone, *, names: str, targets: int, stats_time: float, disks: int
) -> Cluster:
    """A cluster; `names` is the pattern of host names with `{role}` and `{n}`."""

    def word(length: int) -> str:
        return "".join(rng.choice(ALPHABET) for _ in range(length))

    grown = rng.random() < 0.5
    disk = rng.choice(("nvme{}n1", "nvme{}n1", "sd{}", "dm-{}"))
    bare = rng.random() < 0.25

    def node(role: str, number: int) -> Node:
        port = 8080 + number + (role == "target")
        return Node(
            role=role,
            id=f"{word(3)}{role[0]}{port}" if grown else word(6) + str(rng.randint(10, 99)),
            host=names.format(role=role, n=number),
            address=f"10.0.{role == 'target':d}.{11 + number}",
            dialect=dialect,
            zone=zone,
            rng=random.Random(rng.random()),
            stats_time=stats_time,
            pid=rng.randint(2000, 90_000) if bare else 1,
            disks=[disk.format("abcdefghijklmnop"[n] if "sd" in disk else n) for n in range(disks)]
            if role == "target"
            else [],
        )

    return Cluster(
        proxies=[node("proxy", number) for number in range(2)],
        targets=[node("target", number) for number in range(targets)],
        uuid=word(9),
        xid=word(9),
        bucket=rng.choice(("s3://asr-train", "ais://speech", "gs://corpus-v2")),
        default_bucket=rng.random() < 0.7,
    )
