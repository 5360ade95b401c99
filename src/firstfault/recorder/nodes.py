"""What a monitor makes of the signs of life of other nodes: who died with its node tells nobody, so that its neighbours tell it.

It is word of a silence and no more: the ranks dump their stacks, and are ended, where that was asked for, only if it lasts.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import TYPE_CHECKING

from firstfault.recorder import format as layout
from firstfault.recorder.files import make_folder, read_file, replace_file
from firstfault.recorder.pulse import Lost, Pulse

if TYPE_CHECKING:
    from firstfault.recorder.monitor import Monitor

STOP_LOST_S = 30.0
"""Seconds for which a node must stay silent before the ranks of the others are ended for it, where that was asked for."""


class Nodes:
    """The other nodes of a run, as one monitor sees them."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        settings = monitor.settings
        self._folder = os.path.join(settings.folder, settings.run)
        self.pulse = Pulse(self._folder, settings.host)
        self.silent: dict[str, float] = {}
        """Nodes that were told to be silent, and since when (monotonic)."""

    def turn(self) -> None:
        """Gives this node's sign of life, and tells of neighbours that give none any more, or that do again."""
        self.pulse.idle = not self._monitor.has_ranks()
        for lost in self.pulse.turn():
            if not self.pulse.idle:
                self._tell(lost)
        while self.pulse.returned:
            name = self.pulse.returned.pop()
            self.silent.pop(name, None)
            self._monitor.write(layout.NOTE, {"node": name, "back": True})
            with contextlib.suppress(OSError):
                os.unlink(self._word(name))
        now = time.monotonic()
        if self._monitor.settings.stop and any(now - since > STOP_LOST_S for since in self.silent.values()):
            self.silent = {}
            self._monitor.end_ranks(tell=True)

    def leave(self) -> None:
        """Says that this monitor leaves by itself: nobody is to miss it."""
        self.pulse.end()

    def _word(self, host: str) -> str:
        return os.path.join(self._monitor.faults, f"{host}.node.{self._monitor.attempt()}.json")

    def _tell(self, lost: Lost) -> None:
        """Tells that a node is silent, with the ranks that were last seen there."""
        self.silent[lost.host] = time.monotonic()
        beats = [
            beat
            for raw in read_file(os.path.join(self._folder, lost.host, layout.HEARTBEAT_FILE)).splitlines()
            if isinstance(beat := _loaded(raw), dict)
        ]
        word = {
            "time": layout.stamp(time.time() - lost.silent_s),
            "host": lost.host,
            "how": "gives no sign of life any more",
            "silent_s": round(lost.silent_s, 1),
            "ranks": sorted({b["rank"] for b in beats if isinstance(b.get("rank"), int)}),
            "step": max((b["step"] for b in beats if isinstance(b.get("step"), int)), default=None),
            "attempt": self._monitor.attempt(),
            "by": self._monitor.settings.host,
        }
        self._monitor.lines.write(layout.LOST, word)
        make_folder(self._monitor.faults)
        replace_file(self._word(lost.host), layout.line(layout.LOST, {**word, "run": self._monitor.settings.run}))
        self._monitor.hear()


def _loaded(raw: bytes) -> object:
    """What a line of JSON holds; None where it is none."""
    try:
        return json.loads(raw)
    except ValueError:
        return None
