"""Scans and reads single sources wherever it is asked to: in this process, in a copy of it, or in a worker on another machine.

A worker has its own firstfault and its own view of the files; what it tells comes with what shows that both are those of
who asked. It infers nothing and knows nothing of the other sources.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

from msgspec import Struct

from firstfault import __version__
from firstfault.model.evidence import Source, SourceId
from firstfault.model.until import NEVER, OVER, STOPPED, Until
from firstfault.pipelines.read import UNREAD, Read, read_source
from firstfault.pipelines.transport import Transport
from firstfault.readers.clock import Date, SourceClock
from firstfault.readers.identity import SourceProfile, profile_source
from firstfault.readers.recall import forget
from firstfault.readers.store import Extent, Store
from firstfault.scan.engines import kept_engine
from firstfault.scan.executors import Work
from firstfault.scan.newlines import want_numpy
from firstfault.scan.regions import BLOCK
from firstfault.scan.results import Part, SourceScan, joined
from firstfault.scan.stretch import SAMPLE, Stretch
from firstfault.scan.tasks import whole
from firstfault.signatures.library import load_library

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.signatures.library import Library

SEEN = 4096
"""Bytes at the head of a source by which two machines tell that they see the same one."""
_KEPT = 2
"""Inputs that a worker keeps ready."""


class Head(Struct):
    """What the first look at a source tells."""

    profile: SourceProfile
    date: Date | None
    seen: int = 0


class Piece(Struct):
    """What became of one source."""

    bytes: int
    lines: int
    damage: str
    unterminated: bool
    read: Read
    seen: int = 0
    """Digest of the head of the source, as whoever read it saw it."""


class Scanned(Struct):
    """What became of one stretch of a source."""

    part: Part
    seen: int = 0


class Wanted(Struct, frozen=True):
    """A source that is to be read, with what is known of it."""

    source: SourceId
    profile: SourceProfile
    date: Date | None
    neighbour: Date | None
    found: SourceScan | None = None
    """Its scan, where that is done."""


class Plot(Struct, frozen=True):
    """What a worker has to know of an input; where its bytes lie, and nothing that could be run."""

    name: str
    """Of this run, unlike that of any other."""
    extents: tuple[Extent, ...]
    sources: tuple[Source, ...]
    """Those to read, which are not all."""
    signatures: tuple[str, ...]
    """Folders of a site's own."""
    ours: str
    """See `ourselves`."""
    largest: int
    """Bytes of a source up to which all steps are kept."""


class OtherFirstfaultError(Exception):
    """A worker has another firstfault, or other signatures, than who asked."""


class Site:
    """The means to scan and read the sources of one input."""

    def __init__(self, store: Store, library: Library, largest: int) -> None:
        """`largest`: bytes of a source up to which all of its steps are kept; see `largest_whole`."""
        self._store = store
        self._library = library
        self._largest = largest
        plan = library.plan
        self._work = Work(store, plan, kept_engine("auto", plan), BLOCK)

    def seen(self, source: SourceId) -> int:
        """Digest of the head of a source.

        Raises:
            OSError: it cannot be read.
        """
        return crc32(self._store.head(source, SEEN))

    def head(self, source: Source) -> Head:
        """The first look at a source."""
        profile = profile_source(self._store.head(source.id, SAMPLE), source.path)
        return Head(profile, SourceClock(self._store, source, profile).date)

    def scanned(self, stretch: Stretch, until: Until, profile: SourceProfile | None = None) -> Part:
        """The scan of some lines of a source."""
        self._work.until = until
        return self._work.scan(stretch, None, profile)

    def piece(self, source: Source, profile: SourceProfile, clock: SourceClock, found: SourceScan | None, until: Until) -> Piece:  # fmt: skip
        """What scan and readers make of a source; `found` is its scan, where that is done.

        Raises:
            KeyboardInterrupt: it came while it was scanned.
        """
        scan = found or joined(source.id, [self.scanned(whole(self._store, source), until, profile)])
        if scan.damage == STOPPED and found is None:
            raise KeyboardInterrupt
        if until.over():
            return Piece(scan.bytes, scan.lines, scan.damage or OVER, scan.unterminated, UNREAD)
        read = read_source(self._store, source, scan, self._library, profile, clock, self._largest)
        clock.forget()
        return Piece(scan.bytes, scan.lines, scan.damage, scan.unterminated, read)

    def wanted(self, wanted: Wanted, source: Source, until: Until) -> Piece:
        """The same for a source of which another process tells what is known."""
        clock = SourceClock(self._store, source, wanted.profile)
        clock.believe(wanted.date)
        clock.neighbour = wanted.neighbour
        return self.piece(source, wanted.profile, clock, wanted.found, until)


def ourselves(library: Library) -> str:
    """What tells one firstfault with its signatures from another: two that tell the same make the same of the same bytes."""
    return f"{__version__} {library.digest}"


class _Ready(Struct):
    """An input that a worker has made ready."""

    site: Site
    sources: dict[SourceId, Source]
    store: Store


_READY: dict[str, _Ready] = {}
_LOCK = threading.Lock()
"""Readers keep what they meet last; of the threads of one worker one reads at a time."""


def _ready(plot: Plot) -> _Ready:
    known = _READY.get(plot.name)
    if known is not None:
        return known
    library = load_library([Path(folder) for folder in plot.signatures])
    here = ourselves(library)
    if here != plot.ours:
        raise OtherFirstfaultError(f"it has firstfault {here}, not {plot.ours}")
    while len(_READY) >= _KEPT:
        _READY.pop(next(iter(_READY))).store.close()
    want_numpy()
    store = Store(plot.extents)
    made = _Ready(Site(store, library, plot.largest), {s.id: s for s in plot.sources}, store)
    _READY[plot.name] = made
    return made


def _until(left: float | None) -> Until:
    return NEVER if left is None else Until(time.monotonic() + left)


HEADS: Transport[list[Head]] = Transport(list[Head])
STRETCHES: Transport[list[Scanned]] = Transport(list[Scanned])
PIECES: Transport[list[Piece]] = Transport(list[Piece])


def heads(plot: Plot, sources: Sequence[SourceId]) -> bytes:
    """What a worker does: the first look at some sources, one `Head` each."""
    with _LOCK:
        ready = _ready(plot)
        found = []
        for source in sources:
            head = ready.site.head(ready.sources[source])
            head.seen = ready.site.seen(source)
            found.append(head)
        return HEADS.pack(0, found)


def stretches(plot: Plot, wanted: Sequence[Stretch], left: float | None) -> bytes:
    """What a worker does: the scan of some stretches, one `Scanned` each; `left` is the seconds that it may take."""
    with _LOCK:
        ready, until = _ready(plot), _until(left)
        return STRETCHES.pack(0, [Scanned(ready.site.scanned(s, until), ready.site.seen(s.source)) for s in wanted])


def pieces(plot: Plot, wanted: Sequence[Wanted], left: float | None) -> bytes:
    """What a worker does: scan and readers of some sources, one `Piece` each; `left` is the seconds that it may take."""
    with _LOCK:
        ready, until = _ready(plot), _until(left)
        found = []
        for one in wanted:
            piece = ready.site.wanted(one, ready.sources[one.source], until)
            piece.seen = ready.site.seen(one.source)
            found.append(piece)
        forget()
        return PIECES.pack(0, found)
