"""What a monitor makes of the signs of life of other nodes: who died with its node tells nobody, so that its neighbours tell it.

It is word of a silence and no more: the ranks dump their stacks, and are ended, where that was asked for, only if it lasts.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from firstfault.recorder import format as layout
from firstfault.recorder.files import make_folder, read_file, replace_file
from firstfault.recorder.pulse import Lost, Pulse

if TYPE_CHECKING:
    from firstfault.recorder.monitor import Monitor

STOP_LOST_S = 30.0
"""Seconds for which a node must stay silent before the ranks of the others are ended for it, where that was asked for."""


STAY_S = 5.5
"""Seconds for which a monitor whose ranks have failed stays to see whether a neighbour is gone; `firstfault record` waits a little longer."""


class _Silent(NamedTuple):
    """A node that was told to be silent."""

    since: float
    """When it was told (monotonic)."""
    attempt: int
    word: str
    """The file that tells it to all."""


class Nodes:
    """The other nodes of a run, as one monitor sees them."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        settings = monitor.settings
        self._folder = os.path.join(settings.folder, settings.run)
        self.pulse = Pulse(self._folder, settings.host)
        self.silent: dict[str, _Silent] = {}
        """Nodes that were told to be silent, by their names."""
        self._ended = -1
        """The last attempt whose ranks were ended for one of them."""
        self._failed: tuple[float, int] | None = None
        """When a rank of this node last failed (monotonic), and its attempt."""

    def failed(self, attempt: int) -> None:
        """A rank of this node ended with an error, as one does whose peer is gone: its neighbours may be, which takes seconds to see."""
        self._failed = (time.monotonic(), attempt)

    def stays(self) -> bool:
        """Whether there is yet somebody to be missed by a monitor whose ranks have failed; where all neighbours have ended too there is not."""
        return self._just_failed() and self.pulse.watches()

    def _just_failed(self) -> bool:
        if self._failed is None:
            return False
        failed, anew = self._failed[0], self.pulse.anew
        # The stacks of the other ranks take seconds, in which nobody looks at neighbours: from then on it is measured anew, once.
        return time.monotonic() - (anew if failed < anew <= failed + STAY_S else failed) <= STAY_S

    def turn(self) -> None:
        """Gives this node's sign of life, and tells of neighbours that give none any more, or that do again."""
        self.pulse.idle = not self._monitor.has_ranks()
        for lost in self.pulse.turn():
            if not self.pulse.idle or self._just_failed():
                self._tell(lost)
        while self.pulse.returned:
            name = self.pulse.returned.pop()
            self._monitor.write(layout.NOTE, {"node": name, "back": True})
            told = self.silent.pop(name, None)
            if told is not None:
                self._monitor.bundled_lost.discard(told.attempt)
                with contextlib.suppress(OSError):
                    os.unlink(told.word)
        if self._monitor.settings.stop and self._lasts():
            self._ended = self._monitor.attempt()
            self._monitor.end_ranks(tell=True)

    def _lasts(self) -> bool:
        """Whether a node has been silent for long in the attempt that runs here: the next one may be without it."""
        now, attempt = time.monotonic(), self._monitor.attempt()
        return attempt > self._ended and any(
            told.attempt == attempt and now - told.since > STOP_LOST_S for told in self.silent.values()
        )

    def leave(self) -> None:
        """Says that this monitor leaves by itself: nobody is to miss it."""
        self.pulse.end()

    def _tell(self, lost: Lost) -> None:
        """Tells that a node is silent, with the ranks that were last seen there."""
        failed = self._failed if self.pulse.idle else None
        attempt = self._monitor.attempt() if failed is None else failed[1]
        # By its last sign: all who miss it write the same file, and another silence of it is another word.
        file = os.path.join(self._monitor.faults, f"{lost.host}.node.{lost.number}.{attempt}.json")
        self.silent[lost.host] = _Silent(time.monotonic(), attempt, file)
        beats = [
            beat
            for raw in read_file(os.path.join(self._folder, lost.host, layout.HEARTBEAT_FILE)).splitlines()
            if isinstance(beat := _loaded(raw), dict)
        ]
        word: dict[str, Any] = {
            "time": layout.stamp(time.time() - lost.silent_s),
            "host": lost.host,
            "how": "gives no sign of life any more",
            "silent_s": round(lost.silent_s, 1),
            "ranks": sorted({b["rank"] for b in beats if isinstance(b.get("rank"), int)}),
            "step": max((b["step"] for b in beats if isinstance(b.get("step"), int)), default=None),
            "attempt": attempt,
            "by": self._monitor.settings.host,
        }
        if failed is not None:
            word[layout.AFTER_END] = True
        self._monitor.lines.write(layout.LOST, word)
        make_folder(self._monitor.faults)
        replace_file(file, layout.line(layout.LOST, {**word, "run": self._monitor.settings.run}))
        self._monitor.hear()


def _loaded(raw: bytes) -> object:
    """What a line of JSON holds; None where it is none."""
    try:
        return json.loads(raw)
    except ValueError:
        return None
