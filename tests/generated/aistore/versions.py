"""What differs between versions of the daemons: names of counters, places in the source, wordings.

Facts only; it decides neither when a line is written nor what it is worth.
"""

from __future__ import annotations

from dataclasses import dataclass

Version = tuple[int, int]

ALL: tuple[Version, ...] = ((3, 22), (3, 31), (4, 0), (4, 1), (4, 2), (4, 3), (4, 4), (4, 5), (4, 7), (5, 0))

CALENDAR: dict[Version, tuple[int, int]] = {
    (3, 22): (2024, 4),
    (3, 31): (2025, 8),
    (4, 0): (2025, 11),
    (4, 1): (2026, 1),
    (4, 2): (2026, 2),
    (4, 3): (2026, 4),
    (4, 4): (2026, 5),
    (4, 5): (2026, 6),
    (4, 7): (2026, 7),
    (5, 0): (2026, 9),
}
"""Year and month in which a cluster of that version is seen; the first month of a year crosses the year."""

SDK: dict[Version, str] = {
    (3, 22): "1.8",
    (3, 31): "1.15",
    (4, 0): "1.16",
    (4, 1): "1.18",
    (4, 2): "1.19",
    (4, 3): "1.23",
    (4, 4): "1.23",
    (4, 5): "1.24",
    (4, 7): "1.25",
    (5, 0): "1.25",
}
"""The Python client shipped alongside."""

_BUILD = {
    (3, 22): "2024-02-20T21:14:05+0000",
    (3, 31): "2025-07-25T17:41:32+0000",
    (4, 0): "2025-10-07T18:22:47+0000",
    (4, 1): "2025-12-05T20:03:18+0000",
    (4, 2): "2026-01-15T19:20:12+0000",
    (4, 3): "2026-03-25T18:00:09+0000",
    (4, 4): "2026-04-08T16:35:51+0000",
    (4, 5): "2026-05-12T17:12:44+0000",
    (4, 7): "2026-06-03T15:48:29+0000",
    (5, 0): "2026-08-20T18:31:02+0000",
}

_MARKER = {
    (3, 31): 494,
    (4, 0): 503,
    (4, 1): 501,
    (4, 2): 502,
    (4, 3): 502,
    (4, 4): 502,
    (4, 5): 502,
    (4, 7): 498,
    (5, 0): 494,
}


@dataclass(frozen=True)
class Dialect:
    """How one version speaks."""

    version: Version

    def __str__(self) -> str:
        return f"{self.version[0]}.{self.version[1]}"

    @property
    def title(self) -> str:
        """The version part of the title line, from `Version` on."""
        text = f"{self}.5c31e0a"
        build = _BUILD[self.version]
        if self.version < (3, 28):
            return f"Version {text}, build time {build}, debug false, CPUs(32, runtime=256), containerized"
        tail = "container:v5.0-2" if self.version >= (5, 0) else "containerized"
        return f"Version {text}, build {build}, CPUs(32, runtime=256), {tail}"

    @property
    def go(self) -> str:
        return "go1.22.0" if self.version < (3, 26) else "go1.25.5"

    @property
    def marker(self) -> str:
        """Place of the hourly marker; empty where its file is hidden."""
        number = _MARKER.get(self.version)
        return "" if number is None else f"common:{number}"

    @property
    def disks_in_stats(self) -> bool:
        return self.version <= (4, 1)

    @property
    def disk_line_from(self) -> int:
        return 10 if self.version < (3, 26) else 15

    @property
    def getbatch(self) -> bool:
        return self.version >= (3, 31)

    @property
    def getbatch_counters(self) -> bool:
        return self.version >= (4, 1)

    @property
    def admission(self) -> bool:
        """Whether the target looks at its load before it takes a batch."""
        return self.version >= (4, 1)

    @property
    def io_error(self) -> str:
        return "err.io.n" if self.version <= (3, 22) else "err.io.get.n"

    # -- get-batch ---------------------------------------------------------------------------------------------------

    def out_of_bounds(self, xact: str, me: str, index: int, wid: str) -> str:
        who = f"{xact} " if self.version < (4, 0) else f"{xact} {me} "
        quoted = f'"{wid}"' if self.version >= (4, 5) else wid
        return f"{who}out-of-bounds index {index} (recv'd len=0, wid={quoted})"

    @property
    def relays(self) -> bool:
        """Whether the other targets say where an abort began."""
        return self.version >= (4, 0)

    def relayed(self, xact: str, origin: str, cause: str) -> str:
        """The abort as the other targets tell it."""
        if self.version >= (4, 5):
            quoted = cause.replace('"', '\\"')
            return f'remote target aborted xaction: get-batch[{xact[12:21]}] [{origin}: "{quoted}"]'
        return f"{xact}: remote target abort [{origin}: {cause}]"

    def not_found(self, xid: str, name: str, peer: str, me: str, drops: int) -> tuple[str, str, str]:
        """Severity, place and text of an entry for a job that is gone."""
        if self.version <= (4, 2):
            return (
                "E",
                "",
                (
                    f"shared-dm: xid {xid} not found, dropping recv [oname: {name}]: PUT /v1/objstream/shared-dm "
                    f"(called by {peer}) ({me}: recv.go:104 <- recv.go:214])"
                ),
            )
        if self.version <= (4, 5):
            return "W", "bundle:412", f"shared-dm: xid {xid} not found, dropping recv [oname: {name}, drops: {drops}]"
        return "W", "bundle:433", f"shared-dm xid {xid} not found - dropping {name}"

    def terminated(self, source: str, to: str, name: str, size: int, error: str) -> tuple[str, str]:
        """Place and text of a broken stream as its sender tells it."""
        if self.version >= (4, 3):
            return "base:188", f"shared-dm[{source}=>{to}] terminated [{error} ctx: dropping {name}(size={size})]"
        if self.version >= (4, 1):
            return (
                "base:172",
                f"shared-dm[{source}=>{to}] terminated [reason: 'error' ctx: dropping {name}(size={size}) err: {error}]",
            )
        label = f"{sum(map(ord, source + to)):x}"
        return "base:160", f"shared-dm[{label}:4][term-reason: error, err: {error}]"

    def pressure(self, xact: str, mem: str, cpu: str, disk: str, pending: int) -> tuple[str, str] | None:
        """Place and text of the admission line; None where this version has none (or rejects silently)."""
        if not self.admission:
            return None
        worst = max((mem, cpu, disk), key=LEVELS.index)
        advice = f"load={worst} sleep={'10ms' if worst == 'critical' else '1ms'} [mem={mem} cpu={cpu} dsk={disk}]"
        if self.version <= (4, 4):
            return "moss:441", f"resource pressure: {advice} - sleeping/delaying: 10ms"
        return "moss:587", f"{xact} pending: {pending} resource pressure: {advice} throttle: 10ms"

    def housekeeping(self, mem: str, cpu: str, disk: str, util: int) -> list[tuple[str, str, str]]:
        """Severity, place and text of one run of the metadata cache's housekeeping."""
        if self.version < (3, 31):
            return []
        if self.version < (4, 1):
            lines = [("I", "lcache:262", f"hk: [ throttle(%%): 3 dutil: {util} load avg: 12 ]")]
            if util > 90:
                lines.append(("W", "lcache:265", "max-evict threshold: 60 - not running"))
            return lines
        worst = max(LEVELS.index(level) for level in (mem, cpu, disk))
        lines = [("W" if worst > 1 else "I", "lcache:251", f"hk: [ mem/cpu/disk: {mem} {cpu} {disk} ]")]
        if worst > 1:
            numbers = f"(cpu: {LEVELS.index(cpu) + 1} disk: {LEVELS.index(disk) + 1} )"
            lines.append(("W", "lcache:281", f"hk: high system load {numbers} - not running"))
        else:
            lines += [("I", "lcache:300", "hk begin"), ("I", "lcache:333", "hk done: 1881220 112 ")]
        return lines

    def soft_limit(self, xact: str, wid: str) -> str:
        if self.version >= (4, 5):
            return f'{xact}: wid="{wid}" exceeded soft-errors limit: 9 (max: 8)'
        limit = 8 if self.version >= (4, 3) else 6
        return f'{xact}: work item "{wid}" exceeded soft-errors limit: {limit + 1} (max: {limit})'

    def entry_timeout(self, xact: str, me: str, index: int, wid: str) -> str:
        if self.version < (4, 1):
            return f'{xact}: timed out waiting for {index} "hole" to fill'
        wait = "20s" if self.version >= (5, 0) else "30s"
        return f"{xact}: timed out waiting for missing entry at index {index} [ {me}, wid={wid}, total-wait={wait} ]"

    def rejected(self, xact: str, wid: str, mem: str, disk: str, pending: int) -> str:
        """What the client is told where the target takes no more batches."""
        advice = f"load=critical sleep=10ms [mem={mem} cpu=low dsk={disk}]"
        if self.version >= (4, 5):
            return f'{xact}: wid="{wid}" rejected due to resource pressure ({advice}, pending={pending})'
        return f'{xact}: work item "{wid}" rejected due to resource pressure ({advice})'

    # -- cluster -----------------------------------------------------------------------------------------------------

    def kalive(self, proxy: str, target: str, error: str, smap: str) -> list[tuple[str, str, str]]:
        """What the primary writes about a target that does not answer, in order."""
        if self.version <= (3, 25):
            return [
                ("W", "kalive:301", f"{proxy} failed to slow-ping {target} - retrying [ {error} ]"),
                ("W", "kalive:322", f"{proxy}: slow-ping failure after 3 attempts - removing {target} from {smap}"),
            ]
        return [
            ("W", "kalive:279", f"{proxy} failed to fast-kalive {target} err: [ {error} 0 ]"),
            ("W", "kalive:342", f"{proxy} failed to slow-kalive {target} - retrying [ {error} 0 4s {smap} ]"),
            ("E", "kalive:444", f"slow-kalive failure after 3 attempts - removing {target} from {smap}"),
        ]

    def own_kalive(self, target: str, proxy: str) -> list[tuple[str, str, str]]:
        """What a target writes whose primary does not answer."""
        if self.version <= (3, 25):
            return [("W", "kalive:410", f"{target}: keepalive failed: [ context deadline exceeded ]")]
        return [
            ("W", "kalive:595", f"{target} => {proxy} failure - retrying: [ true 1s context deadline exceeded 0 ]"),
            ("W", "kalive:628", f"{target} => {proxy} failed after 3 attempts"),
        ]

    def memory(self, node: str, used: int, free: int) -> str:
        return (
            f"{node}.gmm[(used {used}GiB, free {free}GiB, buffcache 2GiB, actfree {free + 2}GiB), pressure 'extreme', "
            "(min-free 6GiB, low-wm 20GiB] free mem to OS(pressure,force,togc,load) [ 3 true 2.1GiB 44 ]"
        )

    def extreme(self) -> str:
        if self.version >= (5, 0):
            return "extreme memory pressure actual: 1368709120 min: 6442450944 cnt: 3"
        return "extreme memory pressure [ ncrit 0 actual 1368709120 min 6442450944 ]"


LEVELS = ("low", "moderate", "high", "critical")
