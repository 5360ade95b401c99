"""What a report shows whatever the answer is (timeline, counts), worked out by a copy of this process while questions are asked.

With tens of thousands of ranks that is a third of what one processor does alone. It decides nothing, and where no copy
can be made, or one dies, whoever needs the result works it out: the result is the same.
"""

from __future__ import annotations

import gc
import os
import signal
import warnings
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from firstfault.analysis.floods import counted_lines
from firstfault.analysis.suspects import of_roles
from firstfault.analysis.timeline import moments, without_parts_of_lists
from firstfault.model.diagnosis import Count
from firstfault.model.views import Clock
from firstfault.model.words import Role
from firstfault.pipelines.entries import Outline, Row, outline_of
from firstfault.pipelines.share import can_share
from firstfault.pipelines.transport import BrokenMessageError, Transport
from firstfault.scan.executors import processors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from firstfault.analysis.floods import Speaker
    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import Event, Failure, ProgressSample, SourceId

TIMELINE = 60
"""Entries of one clock of the timeline at most; the middle is left out first."""
FEWEST = 20_000
"""Events from which on a copy is worth its start."""


class Shown(NamedTuple):
    """What is shown of an attempt whatever the answer is."""

    timeline: Outline
    counts: list[Count]


class _Sent(Struct):
    """The same as it goes between processes."""

    clocks: list[Clock]
    rows: list[Row]
    lines: list[tuple[int, int | None]]
    """Places of the lines among all of the attempt."""
    counts: list[Count]


def shown_of(scene: Scene) -> Shown:
    """What is shown of an attempt whatever the answer is."""
    kept = without_parts_of_lists([m for m in moments(scene) if m.role is not Role.NOISE])
    return Shown(outline_of(kept, scene.case.paths, most=TIMELINE), _counts(scene))


class Beforehand:
    """One copy of this process, or none."""

    def __init__(self, *, alone: bool = False) -> None:
        """`alone`: whether no copy is to be made."""
        self._alone = alone
        self._scene: Scene | None = None
        self._process: Any = None
        self._file = -1

    def begin(self, scene: Scene) -> None:
        """Lets a copy begin with an attempt, where that is worth it."""
        if self._alone or len(scene.events) < FEWEST or not can_share(2, processors()):
            return
        import multiprocessing

        # No pipe: a copy that waited to be read would hold its memory, and it has much.
        try:
            self._file = os.memfd_create("firstfault")
        except OSError:
            return
        self._process = multiprocessing.get_context("fork").Process(
            target=_serve, args=(self._file, scene), daemon=True
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads of numpy's libraries are idle here
            self._process.start()
        self._scene = scene

    def of(self, scene: Scene) -> Shown:
        """What is shown of an attempt, from the copy where it was begun with that one."""
        sent = self._taken() if scene is self._scene else None
        if sent is None:
            return shown_of(scene)
        there = [*_lines(scene)]
        lines = [(there[first], None if last is None else there[last]) for first, last in sent.lines]
        return Shown(Outline(sent.clocks, sent.rows, lines), sent.counts)

    def _taken(self) -> _Sent | None:
        try:
            self._process.join()
            with os.fdopen(os.dup(self._file), "rb") as file:
                file.seek(0)
                return _TRANSPORT.unpack(file.read())[1]
        except (OSError, BrokenMessageError):
            return None
        finally:
            self.close()

    def close(self) -> None:
        """Ends the copy, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            os.close(self._file)
        self._scene = self._process = None


_TRANSPORT: Transport[_Sent] = Transport(_Sent)


def _lines(scene: Scene) -> Iterable[Event | Failure | ProgressSample]:
    """All lines that a timeline may show, in an order that copies share."""
    return chain(scene.events, scene.failures, scene.case.seen.progress)


def _serve(file: int, scene: Scene) -> None:
    """What the copy does; where it fails it leaves nothing, and the error comes up in the process that asked."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C and ends the copy
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.disable()  # to look for cycles would make all that is shared with the parent its own
    try:
        shown = shown_of(scene)
        ends = {id(line) for both in shown.timeline.lines for line in both}
        place = {id(line): number for number, line in enumerate(_lines(scene)) if id(line) in ends}
        lines = [(place[id(a)], None if b is None else place[id(b)]) for a, b in shown.timeline.lines]
        sent = _Sent(shown.timeline.clocks, shown.timeline.rows, lines, shown.counts)
        with os.fdopen(os.dup(file), "wb") as written:
            written.write(_TRANSPORT.pack(0, sent))
    except Exception:  # noqa: BLE001 - see above
        return


def _counts(scene: Scene) -> list[Count]:
    """How often each kind of line occurred that is more than context."""
    found = of_roles(scene.case, set(Role) - {Role.CONTEXT})
    totals = counted_lines((event, scene.roster.rank(event)) for event in found)
    return [_count(scene, signature, by, scene.case.paths) for signature, by in sorted(totals.items())]


def _count(scene: Scene, signature: str, by: Mapping[Speaker, int], paths: Mapping[SourceId, str]) -> Count:
    spec = scene.case.library.by_id.get(signature)
    files: dict[str, int] = {}
    ranks: dict[str, int] = {}
    for (source, rank), n in sorted(by.items(), key=lambda row: (row[0][0], str(row[0][1]))):
        path = paths.get(source, "?")
        files[path] = files.get(path, 0) + n
        if rank is not None:
            ranks[str(rank)] = ranks.get(str(rank), 0) + n
    title = spec.title if spec is not None else "Python exception"
    return Count(signature=signature, title=title, total=sum(by.values()), files=files, ranks=ranks)
