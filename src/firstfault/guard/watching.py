"""Looks at cards and machine before, during and after a trial, and notes who else was there. Judges by what it saw alone; kills nobody."""

from __future__ import annotations

import os
import resource
import threading
import time
from typing import TYPE_CHECKING

from firstfault.guard import gpus
from firstfault.guard.own import Family, name_of
from firstfault.model.trial import CardUse, HostUse, Stranger

if TYPE_CHECKING:
    from typing import Literal

    from firstfault.guard.gpus import Gpus

UNSEEN_MB = 1500
"""Memory in use on a card without any program from which on somebody must be there whom the driver does not show."""
HOST_PART = 0.5
"""Part of the processors that others may use on a machine without GPU."""
SETTLE_S = 10.0
"""Seconds that the driver gets to take a program that has ended off its list."""


class Watch:
    """Everything that was seen around one trial."""

    def __init__(self, mark: str, *, every_s: float = 5.0, only: frozenset[str] | None = None) -> None:
        self.family = Family(mark)
        self.every_s = every_s
        self.only = only
        """Numbers of the cards that count; None for all."""
        self.strangers: dict[tuple[int, str], Stranger] = {}
        self.troubles: list[str] = []
        self.looks = 0
        self.held: dict[str, _Card] = {}
        self.unseen: dict[int, int] = {}
        self.own_seen = False
        self.has_gpus = False
        self.before = self.after = _Host()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Looks before the trial."""
        self._take(gpus.look(), "before")
        self.before = _Host()

    def follow(self, pid: int) -> None:
        """Goes on looking beside the trial, until `end`.

        Args:
            pid: process of its command.
        """
        self.family.root = pid
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Looks after the trial."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(2 * gpus.LIMIT_S + 2)
        end = time.monotonic() + SETTLE_S
        found = gpus.look()
        while any(self.family.owns(p.pid) is not False for p in found.programs) and time.monotonic() < end:
            time.sleep(0.2)
            found = gpus.look()
        self._take(found, "after")
        self.after = _Host()

    def _follow(self) -> None:
        while not self._stop.wait(self.every_s):
            self._take(gpus.look(), "during")
            self.looks += 1

    def _take(self, found: Gpus, when: Literal["before", "during", "after"]) -> None:
        if found.absent:
            return
        if found.trouble:
            self._trouble(f"{when} the trial: {found.trouble}")
        self.has_gpus = self.has_gpus or bool(found.cards) or bool(found.trouble)
        programs = [p for p in found.programs if self._counts(p.card)]
        for card in found.cards:
            self.held.setdefault(card.number, _Card()).take(card, when)
            quiet = not any(p.card in {card.number, ""} for p in found.programs)
            if when != "during" and self._counts(card.number) and quiet and (card.used_mb or 0) > UNSEEN_MB:
                self._stranger(Stranger(pid=0, card=card.number, mb=card.used_mb, when=when, seen=False))
        for one in programs:
            owns = self.family.owns(one.pid)
            if owns:
                self.own_seen = True
                continue
            if owns is None:
                # A program of ours that has just ended is not to be seen either, but only once.
                self.unseen[one.pid] = self.unseen.get(one.pid, 0) + 1
                if when == "during" and self.unseen[one.pid] < 2:
                    continue
            self._stranger(
                Stranger(
                    pid=one.pid,
                    name=one.name or name_of(one.pid),
                    card=one.card,
                    mb=one.mb,
                    when=when,
                    seen=owns is False,
                )
            )

    def _counts(self, card: str) -> bool:
        return self.only is None or not card or card in self.only

    def _stranger(self, one: Stranger) -> None:
        self.strangers.setdefault((one.pid, one.card), one)

    def _trouble(self, text: str) -> None:
        if text not in self.troubles:
            self.troubles.append(text)

    def invalid(self) -> list[str]:
        """Why the trial does not count: somebody else was there."""
        reasons = []
        for one in [s for s in self.strangers.values() if not self._maybe_own(s)][:8]:
            what = (
                f"process {one.pid}" + (f" ({one.name})" if one.name else "")
                if one.pid
                else "somebody whom the driver does not show"
            )
            reasons.append(
                f"{one.when} the trial {what} was on GPU {one.card or '?'}"
                + ("" if one.mb is None else f" with {one.mb} MB")
            )
        others = self.host().others_cpu
        if not self.has_gpus and others is not None and others > HOST_PART:
            reasons.append(f"others used {others:.0%} of the processors")
        return reasons

    def unproven(self) -> list[str]:
        """What could not be seen, without which the trial proves nothing."""
        reasons = list(self.troubles)
        if any(self._maybe_own(s) for s in self.strangers.values()):
            reasons.append(
                "the driver names processes that are not to be seen from here, and none of the trial: run it where both count alike (--pid=host)"
            )
        return reasons

    def _maybe_own(self, one: Stranger) -> bool:
        """Whether a program may be one of the trial's under a number of another namespace."""
        clean = not any(s.when == "before" for s in self.strangers.values())
        return one.pid != 0 and not one.seen and one.when == "during" and not self.own_seen and clean

    def cards(self) -> list[CardUse]:
        """Each card over the trial."""
        return [card.use(index) for index, card in sorted(self.held.items(), key=lambda kv: (len(kv[0]), kv[0]))]

    def host(self) -> HostUse:
        """The machine over the trial."""
        spent = self.after.at - self.before.at
        busy = None if self.before.busy is None or self.after.busy is None else self.after.busy - self.before.busy
        cpus = os.cpu_count() or 1
        others = None
        if busy is not None and spent >= 1.0:
            own = self.after.own - self.before.own
            others = round(min(1.0, max(0.0, busy - own) / (spent * cpus)), 3)
        return HostUse(
            cpus=cpus,
            load_before=self.before.load,
            load_after=self.after.load,
            memory_free_mb_before=self.before.free_mb,
            memory_free_mb_after=self.after.free_mb,
            others_cpu=others,
        )


class _Card:
    """One card while a trial runs."""

    def __init__(self) -> None:
        self.used: dict[str, int | None] = {}
        self.clocks: list[int] = []
        self.heat: list[int] = []
        self.busy: list[int] = []
        self.throttled: dict[str, int] = {}

    def take(self, card: gpus.Card, when: str) -> None:
        if when != "during":
            self.used[when] = card.used_mb
            return
        for held, value in ((self.clocks, card.clock_mhz), (self.heat, card.temperature), (self.busy, card.busy)):
            if value is not None:
                held.append(value)
        for reason in card.throttled:
            self.throttled[reason] = self.throttled.get(reason, 0) + 1

    def use(self, index: str) -> CardUse:
        return CardUse(
            index=index,
            used_mb_before=self.used.get("before"),
            used_mb_after=self.used.get("after"),
            clock_mhz_least=min(self.clocks, default=None),
            clock_mhz_most=max(self.clocks, default=None),
            temperature_most=max(self.heat, default=None),
            busy_mean=round(sum(self.busy) / len(self.busy), 1) if self.busy else None,
            throttled=self.throttled,
        )


class _Host:
    """The machine at one moment."""

    def __init__(self) -> None:
        self.at = time.monotonic()
        times = _words("/proc/stat", "cpu")
        ticks = os.sysconf("SC_CLK_TCK")
        # user, nice, system, irq, softirq, steal; idle and waiting for disks are not use.
        self.busy = sum(int(times[i]) for i in (0, 1, 2, 5, 6, 7)) / ticks if len(times) > 7 else None
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        own = resource.getrusage(resource.RUSAGE_SELF)
        self.own = used.ru_utime + used.ru_stime + own.ru_utime + own.ru_stime
        try:
            self.load: float | None = round(os.getloadavg()[0], 2)
        except OSError:
            self.load = None
        free = _words("/proc/meminfo", "MemAvailable:")
        self.free_mb = int(free[0]) >> 10 if free else None


def _words(path: str, first: str) -> list[str]:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return next((line.split()[1:] for line in file if line.split()[:1] == [first]), [])
    except OSError:
        return []
