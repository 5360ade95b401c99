"""Opens whatever a person points at: files, folders, globs, standard input, compressed files and archives, nested.

It gives sources with their kind, sorted by shown path, the coverage of what is not read, and a store for their bytes.
It must not read a source as a whole (unpacking apart) and knows nothing of what lines mean.
"""

from __future__ import annotations

import os
import select
import shutil
import sys
import tempfile
from typing import IO, TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from firstfault.model.evidence import EMPTY, Coverage, Source, SourceId
from firstfault.model.files import LOOK, READ
from firstfault.model.until import NEVER, OVER, Until
from firstfault.model.words import CoverageState, SourceKind
from firstfault.readers.discover import STDIN, Found, Refused, discover, expand, prefixes
from firstfault.readers.far import FarFiles, NoRangesError
from firstfault.readers.limits import Budget, Limits
from firstfault.readers.sniff import HEAD, TAIL, Sniffed, container_of, sniff
from firstfault.readers.spool import Spool, SpoolFullError
from firstfault.readers.store import Extent, Store, read_extent
from firstfault.readers.transcode import to_utf8
from firstfault.readers.unwrap import READ_AS, unwrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import TracebackType

    from typing_extensions import Self

__all__ = ["Limits", "Opened", "open_inputs"]

_UNREAD = {SourceKind.BINARY, SourceKind.EMPTY}


class Opened:
    """The sources of one input; a context manager that removes its temporary files at the end."""

    def __init__(self, sources: Sequence[Source], coverage: Sequence[Coverage], store: Store, spool: Spool) -> None:
        self.sources = tuple(sources)
        """Sorted by shown path; the id of each is its index."""
        self.coverage = tuple(coverage)
        """One entry per input, read or not, sorted by shown path."""
        self.store = store
        self._spool = spool

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes files and removes what was unpacked."""
        self.store.close()
        self._spool.close()


class _Item(Struct, frozen=True, kw_only=True):
    """A stretch of bytes on its way to become a source, or to be opened as a container."""

    shown: str
    extent: Extent
    descriptor: int = -1
    """Open file in which the extent lies; -1 where it lies at an address."""
    far: FarFiles | None = None
    """What reads it there."""
    origin: str = ""
    """The file of this machine in which it was found."""
    modified: float | None = None
    member: tuple[str, ...] = ()
    budget: Budget
    depth: int = 0
    damage: str = ""

    def read(self, offset: int, length: int) -> bytes:
        if self.far is not None:
            wanted = min(length, self.extent.size - offset)
            return self.far.read(self.extent.path, offset, wanted) if wanted > 0 else b""
        return read_extent(self.descriptor, self.extent, offset, length)


class _Opener:
    """Collects sources and coverage while inputs are gone through."""

    def __init__(self, spool: Spool, limits: Limits, until: Until = NEVER) -> None:
        self.spool = spool
        self.until = until
        self.limits = limits
        self.sources: list[tuple[Source, Extent]] = []
        self.coverage: list[Coverage] = []
        self._taken = 0
        self._far_files = FarFiles()
        self.quoting: dict[int, str] = {}
        """Places among the sources of documents in which a log is quoted, with their forms."""
        self.known: dict[tuple[str, str], Sniffed] = {}
        """What files of this machine hold that were looked at before, by their real and shown names."""

    def refuse(self, shown: str, state: CoverageState, reason: str) -> None:
        self.coverage.append(Coverage(file=shown, state=state, reason=reason))

    def file(self, found: Found) -> None:
        """Takes one file of this machine."""
        # What was looked at already is a source at no cost: it may still be read in part.
        if self.until.over() and (found.real, found.shown) not in self.known:
            self.refuse(found.shown, CoverageState.SKIPPED, OVER)
            return
        if Extent(found.real, 0, found.size).is_far:
            self._far(found)
            return
        try:
            descriptor = os.open(found.real, LOOK)
        except FileNotFoundError:
            self.refuse(found.shown, CoverageState.MISSING, "vanished while the folder was read")
            return
        except OSError as error:
            denied = isinstance(error, PermissionError)
            reason = "no permission to read" if denied else f"unreadable: {error.strerror}"
            self.refuse(found.shown, CoverageState.SKIPPED, reason)
            return
        try:
            extent = Extent(found.real, 0, os.fstat(descriptor).st_size)
            budget = Budget(extent.size, self.limits)
            self.take(
                _Item(
                    shown=found.shown,
                    extent=extent,
                    descriptor=descriptor,
                    origin=found.real,
                    modified=found.modified,
                    budget=budget,
                )
            )
        except OSError as error:
            self.refuse(found.shown, CoverageState.SKIPPED, f"unreadable: {error.strerror}")
        finally:
            os.close(descriptor)

    def _far(self, found: Found) -> None:
        """Takes one file at an address: where it can be read as it stands it is left there, else it is copied here."""
        extent = Extent(found.real, 0, found.size)
        item = _Item(
            shown=found.shown,
            extent=extent,
            far=self._far_files,
            origin=found.real,
            modified=found.modified,
            budget=Budget(max(found.size, 0), self.limits),
        )
        try:
            if not self._left_there(item, found):
                self._copied(item)
        except FileNotFoundError:
            self.refuse(found.shown, CoverageState.MISSING, "vanished while the folder was read")
        except PermissionError:
            self.refuse(found.shown, CoverageState.SKIPPED, "no permission to read")
        except OSError as error:
            self.refuse(found.shown, CoverageState.SKIPPED, f"unreadable: {error.strerror}")

    def _left_there(self, item: _Item, found: Found) -> bool:
        """Whether a file at an address was taken as it stands; not where it needs unpacking, or parts of it are not given.

        Raises:
            OSError: it cannot be read.
        """
        if found.size < 0:
            return False
        try:
            head = item.read(0, HEAD)
            tail = item.read(max(0, found.size - TAIL), TAIL)
        except NoRangesError:
            return False
        sniffed = sniff(head, tail, found.shown)
        if container_of(head[:512], found.shown) is not None or sniffed.encoding or sniffed.wrapped:
            return False
        self.known[found.real, found.shown] = sniffed
        self._source(item, head)
        return True

    def _copied(self, item: _Item) -> None:
        extent, damage = self._spooled(self._far_files.blocks(item.origin))
        descriptor = os.open(extent.path, READ)
        try:
            self.take(
                _Item(
                    shown=item.shown,
                    extent=extent,
                    descriptor=descriptor,
                    origin=item.origin,
                    modified=item.modified,
                    budget=Budget(extent.size, self.limits),
                    damage=damage,
                )
            )
        finally:
            os.close(descriptor)

    def take(self, item: _Item) -> None:
        """Takes one stretch of bytes: opens it where it is a container, else makes it a source.

        Raises:
            OSError: it can no longer be read.
        """
        head = item.read(0, HEAD)
        kind = container_of(head[:512], item.shown)
        if kind is None:
            self._source(item, head)
        elif item.depth >= self.limits.depth:
            self.refuse(item.shown, CoverageState.SKIPPED, f"archives nested more than {self.limits.depth} deep")
        else:
            self._container(item, kind)

    def _container(self, item: _Item, kind: str) -> None:
        # Loaded here: the archive modules cost a start without archives 30 ms.
        from firstfault.readers.archives import members
        from firstfault.readers.containers import Container

        inside = Container(item.descriptor, item.extent, self.spool, self.limits, item.budget)
        for found in members(kind, inside):
            if self.until.over():
                self.refuse(item.shown, CoverageState.DAMAGED, OVER)
                return
            self._taken += 1
            if self._taken > self.limits.members:
                reason = f"more than {self.limits.members:,} members: the rest was not read"
                self.refuse(item.shown, CoverageState.DAMAGED, reason)
                return
            if item.budget.is_spent() and found.extent is not None and found.extent.size == 0:
                self.refuse(item.shown, CoverageState.DAMAGED, found.reason)
                return
            name = f"{item.shown}!{_clean(found.name)}" if found.name else item.shown
            if found.extent is None or (found.extent.size == 0 and found.reason):
                damaged = "damaged" in found.reason or "ends" in found.reason
                state = CoverageState.DAMAGED if damaged else CoverageState.SKIPPED
                self.refuse(name, state, found.reason)
                continue
            own = found.extent.path != item.extent.path
            below = os.open(found.extent.path, READ) if own else item.descriptor
            inner = _Item(
                shown=name,
                extent=found.extent,
                descriptor=below,
                origin=item.origin,
                modified=item.modified if found.modified is None else found.modified,
                member=(*item.member, found.name) if found.name else item.member,
                budget=item.budget,
                depth=item.depth + 1,
                damage="; ".join(r for r in (item.damage, found.reason) if r),
            )
            try:
                self.take(inner)
            finally:
                if own:
                    os.close(below)

    def _source(self, item: _Item, head: bytes) -> None:
        sniffed = self.known.get((item.origin, item.shown)) if item.depth == 0 else None
        if sniffed is None:
            tail = item.read(max(0, item.extent.size - TAIL), TAIL)
            sniffed = sniff(head, tail, item.shown)
        extent, damage, note = item.extent, item.damage, sniffed.note
        if sniffed.encoding:
            extent, failed = self._transcoded(item, sniffed.encoding)
            damage = damage or failed
            note = f"{sniffed.encoding.upper()} text, read as UTF-8"
            sniffed = _sniff_extent(extent, item.shown)
        elif sniffed.wrapped and sniffed.kind is SourceKind.LOG:
            extent, failed = self._unwrapped(item.descriptor, item.extent, sniffed.wrapped)
            damage, note = damage or failed, READ_AS[sniffed.wrapped]
        elif sniffed.wrapped:
            self.quoting[len(self.sources)] = sniffed.wrapped
        if sniffed.kind in _UNREAD:
            state = CoverageState.DAMAGED if damage else CoverageState.SKIPPED
            self.refuse(item.shown, state, damage or note)
            return
        state = CoverageState.DAMAGED if damage else CoverageState.READ
        self.coverage.append(Coverage(file=item.shown, state=state, reason=damage or note, bytes=extent.size))
        source = Source(
            id=SourceId(len(self.sources)),
            path=item.shown,
            kind=sniffed.kind,
            size=extent.size,
            real_path=extent.path,
            origin=item.origin,
            member=item.member,
            modified=item.modified,
        )
        self.sources.append((source, extent))

    def _transcoded(self, item: _Item, encoding: str) -> tuple[Extent, str]:
        return self._spooled(to_utf8(_blocks(item.descriptor, item.extent), encoding))

    def _unwrapped(self, descriptor: int, extent: Extent, form: str) -> tuple[Extent, str]:
        return self._spooled(unwrapped(_blocks(descriptor, extent), form))

    def _spooled(self, parts: Iterable[bytes]) -> tuple[Extent, str]:
        start = self.spool.end
        damage = ""
        try:
            for part in parts:
                self.spool.write(part)
        except SpoolFullError as error:
            damage = str(error)
        return self.spool.since(start), damage

    def read_quotations(self) -> None:
        """Reads the logs that documents quote, where nothing else is a log.

        Beside one they are pages about the program: what they quote happened to somebody else.

        Raises:
            OSError: one can no longer be read.
        """
        if any(source.kind is SourceKind.LOG for source, _ in self.sources):
            return
        for at, form in self.quoting.items():
            source, extent = self.sources[at]
            descriptor = os.open(extent.path, READ)
            try:
                said, damage = self._unwrapped(descriptor, extent, form)
            finally:
                os.close(descriptor)
            self.sources[at] = (
                replace(source, kind=SourceKind.LOG, size=said.size, real_path=said.path),
                said,
            )
            where = next(n for n, c in enumerate(self.coverage) if c.file == source.path)
            self.coverage[where] = replace(
                self.coverage[where],
                state=CoverageState.DAMAGED if damage else self.coverage[where].state,
                reason=damage or READ_AS[form],
                bytes=said.size,
            )


def _blocks(descriptor: int, extent: Extent) -> Iterator[bytes]:
    return (read_extent(descriptor, extent, at, 1 << 20) for at in range(0, extent.size, 1 << 20))


def _sniff_extent(extent: Extent, shown: str) -> Sniffed:
    descriptor = os.open(extent.path, READ)
    try:
        head = read_extent(descriptor, extent, 0, HEAD)
        tail = read_extent(descriptor, extent, max(0, extent.size - TAIL), TAIL)
    finally:
        os.close(descriptor)
    again = sniff(head, tail, shown)
    return Sniffed(SourceKind.BINARY, "not text") if again.encoding else again


def look_at(found: Found) -> Sniffed | None:
    """What a file holds; None for a container, for one that cannot be read, and for one at an address."""
    if Extent(found.real, 0, found.size).is_far:
        return None
    try:
        descriptor = os.open(found.real, LOOK)
    except OSError:
        return None
    try:
        extent = Extent(found.real, 0, os.fstat(descriptor).st_size)
        head = read_extent(descriptor, extent, 0, HEAD)
        if container_of(head[:512], found.shown) is not None:
            return None
        return sniff(head, read_extent(descriptor, extent, max(0, extent.size - TAIL), TAIL), found.shown)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def open_inputs(
    paths: Sequence[str | os.PathLike[str]],
    *,
    stdin: IO[bytes] | None = None,
    limits: Limits | None = None,
    looks: Callable[[Sequence[Found]], Sequence[Sniffed | None]] | None = None,
    until: Until = NEVER,
) -> Opened:
    """Opens everything behind some PATHs.

    Args:
        paths: files, folders, globs that no shell expanded, or `-` for standard input.
        stdin: where `-` reads from; the process's own standard input where None.
        limits: what the input may cost.
        looks: tells of files beforehand what `look_at` would, of all of them or of none.
        until: when to leave off; what is left then is refused.

    Returns:
        The sources; nothing raised for what cannot be read: it is in the coverage with its reason.
    """
    bounds = limits if limits is not None else Limits()
    spool = Spool(min(bounds.unpacked, _half_of_what_is_free()), until)
    opener = _Opener(spool, bounds, until)
    try:
        given = expand([os.fspath(p) for p in paths])
        for path, prefix in zip(given, prefixes(given), strict=True):
            if path == STDIN:
                _standard_input(opener, stdin)
                continue
            there = list(_in_time(discover(path, prefix, bounds.members), prefix or path, until))
            if looks is not None:
                files = [one for one in there if isinstance(one, Found)]
                told = zip(files, looks(files), strict=False)
                opener.known = {(file.real, file.shown): kind for file, kind in told if kind is not None}
            for one in there:
                if isinstance(one, Refused):
                    opener.refuse(one.shown, one.state, one.reason)
                else:
                    opener.file(one)
        opener.read_quotations()
    except BaseException:
        spool.close()
        raise
    return _sorted(opener, spool)


def _standard_input(opener: _Opener, stdin: IO[bytes] | None) -> None:
    # A process may be started with its standard input closed: then there is no object for it.
    stream = stdin if stdin is not None else getattr(sys.stdin, "buffer", None)
    if stream is None:
        opener.refuse("<stdin>", CoverageState.MISSING, "standard input is closed")
        return
    start = opener.spool.end
    damage = ""
    try:
        for part in _parts(stream, opener.until):
            opener.spool.write(part)
    except SpoolFullError as error:
        damage = str(error)
    extent = opener.spool.since(start)
    if extent.size == 0:
        opener.refuse("<stdin>", CoverageState.SKIPPED, EMPTY)
        return
    descriptor = os.open(extent.path, READ)
    try:
        budget = Budget(extent.size, opener.limits)
        opener.take(_Item(shown="<stdin>", extent=extent, descriptor=descriptor, damage=damage, budget=budget))
    finally:
        os.close(descriptor)


def _in_time(there: Iterable[Found | Refused], shown: str, until: Until) -> Iterator[Found | Refused]:
    """What is there, as far as there is time to look."""
    for one in there:
        yield one
        if until.over():
            yield Refused(shown, CoverageState.SKIPPED, OVER)
            return


def _parts(stream: IO[bytes], until: Until) -> Iterator[bytes]:
    """Raises SpoolFullError where the time is over before the input is."""
    read = getattr(stream, "read1", stream.read)
    _await(stream, until)
    while part := read(1 << 20):
        yield part
        _await(stream, until)


def _await(stream: IO[bytes], until: Until) -> None:
    """Waits for input, awake every second: an order to stop that comes right before a blocking read would not be heard."""
    try:
        descriptor = stream.fileno()
        while not select.select([descriptor], [], [], min(1.0, 1.0 if until.left is None else until.left))[0]:
            if until.over():
                raise SpoolFullError(OVER)
    except (AttributeError, OSError, ValueError):
        return  # not a file of the system: reading it does not block


def _sorted(opener: _Opener, spool: Spool) -> Opened:
    order = sorted(opener.sources, key=lambda pair: (pair[0].path, pair[0].id))
    sources = [replace(source, id=SourceId(index)) for index, (source, _) in enumerate(order)]
    coverage = sorted(opener.coverage, key=lambda c: (c.file, c.state.value, c.reason))
    return Opened(sources, coverage, Store([extent for _, extent in order]), spool)


def _clean(name: str) -> str:
    r"""Name of a member as shown: what cannot be printed as UTF-8 as `\xNN`, no leading slash or `./`."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return text.removeprefix("./").lstrip("/")


def _half_of_what_is_free() -> int:
    try:
        return shutil.disk_usage(tempfile.gettempdir()).free // 2
    except OSError:
        return 1 << 30
