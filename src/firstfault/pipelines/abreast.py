"""Scans and reads the sources of one input: all one after the other, or many of them in copies of this process at once.

Where a job leaves thousands of files, a copy reads what it has just scanned: hits never travel, only what readers make of
them. Wires rooms and infers nothing; what comes out does not depend on how many processes there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import force_setattr, replace

from firstfault.model.until import OVER, STOPPED, UNLIMITED
from firstfault.pipelines.kept import Made, file_of
from firstfault.pipelines.options import on_cluster
from firstfault.pipelines.read import UNREAD, Read, largest_whole, read_source
from firstfault.pipelines.share import can_share, shared
from firstfault.pipelines.site import Head, Piece, Site
from firstfault.readers.clock import SourceClock, settle_clocks
from firstfault.readers.identity import SourceProfile, profile_source
from firstfault.readers.recall import forget
from firstfault.scan.executors import processors
from firstfault.scan.results import SourceScan
from firstfault.scan.run import MUCH, scan, scanned
from firstfault.scan.stretch import SAMPLE
from firstfault.scan.tasks import UNDIVIDED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from firstfault.model.evidence import Source, SourceId, Who
    from firstfault.model.until import Stages
    from firstfault.pipelines.kept import Kept
    from firstfault.pipelines.options import DiagnoseOptions
    from firstfault.readers.open import Opened
    from firstfault.readers.store import Store
    from firstfault.signatures.library import Library

FEWEST = 64
"""Sources from which on they are shared out as wholes."""
ENOUGH = 2 << 20
"""Bytes from which on several processes are worth their start, where there are so many sources."""
MOST_SHARED = 100_000
"""Hits beyond which one process reads on alone: a copy holds what is being read twice for a moment."""

MOST_ALIKE = 100_000
"""Speakers, fields and values of fields that are remembered at a time."""


class Gathered(NamedTuple):
    """What scan and readers made of all sources, in order of sources."""

    scans: tuple[SourceScan, ...]
    """Without their hits, where those were read where they were found."""
    read: list[Read]
    profiles: dict[SourceId, SourceProfile]
    clocks: dict[SourceId, SourceClock]


def gather(
    opened: Opened,
    library: Library,
    options: DiagnoseOptions,
    tell: Callable[[int], None] | None = None,
    until: Stages = UNLIMITED,
    *,
    kept: Kept | None = None,
) -> Gathered:
    """Scans and reads all sources that hold text.

    Args:
        opened: the sources.
        library: the signatures.
        options: of the run.
        tell: called with numbers of bytes that were scanned.
        until: when to leave off; what was not read by then is damaged by it.
        kept: what was made of the sources before, where the same input is read again and again.
    """
    if kept is not None:
        return _again(opened, library, options, tell, until, kept)
    sources = [s for s in opened.sources if scanned(s)]
    if on_cluster(options.engine):
        from firstfault.pipelines.spread import spread

        return spread(opened, sources, library, options, tell, until)
    if options.engine != "inline" and len(sources) >= FEWEST and can_share(len(sources), processors()):
        small = sum(n for s in sources if (n := opened.store.size(s.id)) <= UNDIVIDED)
        if small >= ENOUGH:
            gathered = _abreast(opened, sources, library, options, tell, until)
            forget()
            return gathered
    return _in_turn(opened, sources, library, options, tell, until)


def _in_turn(  # noqa: PLR0917 - as `gather`
    opened: Opened,
    sources: Sequence[Source],
    library: Library,
    options: DiagnoseOptions,
    tell: Callable[[int], None] | None,
    until: Stages,
) -> Gathered:
    """The scan of everything, then the readers."""
    store = opened.store
    result = scan(opened, library, executor=options.engine, progress=tell, until=until.scanning)
    read = [(s, r) for s in sources if (r := result.of(s.id)) is not None]
    profiles = {s.id: r.profile or profile_source(store.head(s.id, SAMPLE), s.path) for s, r in read}
    clocks = {s.id: SourceClock(store, s, profiles[s.id]) for s, _ in read}
    settle_clocks(list(clocks.values()))
    whole = largest_whole([store.size(s.id) for s in sources])

    def piece(number: int) -> Read:
        source, found = read[number]
        if until.reading.over():
            return UNREAD
        seen = read_source(store, source, found, library, profiles[source.id], clocks[source.id], whole)
        clocks[source.id].forget()
        return seen

    unread: set[SourceId] = set()

    def stopped(number: int) -> Read:
        unread.add(read[number][0].id)
        return UNREAD

    few = sum(r.bytes for _, r in read) < MUCH or sum(len(r.hits) for _, r in read) > MOST_SHARED
    workers = 1 if options.engine == "inline" or few else processors()
    pieces = shared(piece, len(read), workers, Read, instead=stopped)
    late = {s.id for (s, _), p in zip(read, pieces, strict=True) if p.left_off} - unread
    scans = tuple(
        replace(r, damage=r.damage or (OVER if r.source in late else STOPPED)) if r.source in unread | late else r
        for r in result.sources
    )
    return Gathered(scans, pieces, profiles, clocks)


def _again(  # noqa: PLR0917 - as `gather`
    opened: Opened,
    library: Library,
    options: DiagnoseOptions,
    tell: Callable[[int], None] | None,
    until: Stages,
    kept: Kept,
) -> Gathered:
    """Scans and reads the sources that are not as they were, one after the other; of the others what was made of them serves."""
    store = opened.store
    sources = [s for s in opened.sources if scanned(s)]
    files = {s.id: file_of(s) for s in sources}
    profiles = {s.id: kept.profile(files[s.id]) or profile_source(store.head(s.id, SAMPLE), s.path) for s in sources}
    clocks = {s.id: SourceClock(store, s, profiles[s.id]) for s in sources}
    settle_clocks(list(clocks.values()))
    whole = largest_whole([store.size(s.id) for s in sources])
    known = {s.id: m for s in sources if (m := kept.of(files[s.id], clocks[s.id], whole)) is not None}
    fresh = {s.id for s in sources if s.id not in known}
    found = {
        r.source: r
        for r in scan(
            opened,
            library,
            executor="auto" if on_cluster(options.engine) else options.engine,
            progress=tell,
            only=fresh,
            until=until.scanning,
        ).sources
    }
    scans: list[SourceScan] = []
    read: list[Read] = []
    for source in sources:
        clock, made = clocks[source.id], known.get(source.id)
        if made is None:
            told, profile, seen = found[source.id], profiles[source.id], UNREAD
            if until.reading.over():
                told = replace(told, damage=told.damage or OVER)
            else:
                seen = read_source(store, source, told, library, profile, clock, whole)
            made = Made(source.id, clock.date, clock.neighbour, whole, profile, told, seen)
        clock.forget()
        if not made.scan.damage:
            kept.keep(files[source.id], made)
        scans.append(made.scan)
        read.append(made.read)
    forget()
    kept.turn(len(known))
    return Gathered(tuple(scans), read, profiles, clocks)


def _abreast(  # noqa: PLR0917 - as `gather`
    opened: Opened,
    sources: Sequence[Source],
    library: Library,
    options: DiagnoseOptions,
    tell: Callable[[int], None] | None,
    until: Stages,
) -> Gathered:
    """Each source is scanned and read by one process; before that large ones are scanned by all of them together."""
    store = opened.store
    large = {s.id for s in sources if store.size(s.id) > UNDIVIDED}
    known = {r.source: r for r in _large(opened, library, options, large, tell, until)}
    site = Site(store, library, largest_whole([store.size(s.id) for s in sources]))
    profiles, clocks = _heads(site, store, sources)

    def piece(number: int) -> Piece:
        source = sources[number]
        return site.piece(source, profiles[source.id], clocks[source.id], known.get(source.id), until.reading)

    def stopped(_: int) -> Piece:
        return Piece(0, 0, STOPPED, unterminated=False, read=UNREAD)

    def done(finished: Piece) -> None:
        if tell is not None:
            tell(finished.bytes)

    pieces = shared(piece, len(sources), processors(), Piece, instead=stopped, done=done, keep=Alike().joined)
    scans = tuple(
        SourceScan(
            source=s.id,
            bytes=p.bytes,
            lines=p.lines,
            damage=p.damage,
            profile=profiles[s.id],
            unterminated=p.unterminated,
        )
        for s, p in zip(sources, pieces, strict=True)
    )
    return Gathered(scans, [p.read for p in pieces], profiles, clocks)


class Alike:
    """What lines told before: of a thousand ranks' lines most say the same by the same speaker, and each copy takes memory."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._fields: dict[tuple[str, ...], dict[str, str]] = {}
        self._speakers: dict[Who, Who] = {}

    def joined(self, piece: Piece) -> Piece:
        """The same, with equal speakers, fields and values of fields as one object each; nobody may change them from here on."""
        if len(self._values) + len(self._fields) + len(self._speakers) > MOST_ALIKE:
            self._values, self._fields, self._speakers = {}, {}, {}
        value, whole, speaker = self._values.setdefault, self._fields.get, self._speakers.setdefault
        for event in piece.read.events:
            fields = event.fields
            told = (*fields, *fields.values())
            known = whole(told)
            if known is None:
                known = {name: value(text, text) for name, text in fields.items()}
                lasting = (*known, *known.values())
                self._fields[lasting] = known
            force_setattr(event, "fields", known)
            force_setattr(event, "who", speaker(event.who, event.who))
        return piece


def _large(  # noqa: PLR0917 - as `gather`
    opened: Opened,
    library: Library,
    options: DiagnoseOptions,
    large: set[SourceId],
    tell: Callable[[int], None] | None,
    until: Stages,
) -> tuple[SourceScan, ...]:
    """Scans of the sources that are split."""
    if not large:
        return ()
    return scan(opened, library, executor=options.engine, progress=tell, only=large, until=until.scanning).sources


def _heads(
    site: Site, store: Store, sources: Sequence[Source]
) -> tuple[dict[SourceId, SourceProfile], dict[SourceId, SourceClock]]:
    """Profiles and settled clocks of all sources."""

    def head(number: int) -> Head:
        return site.head(sources[number])

    heads = shared(head, len(sources), processors(), Head)
    profiles = {s.id: h.profile for s, h in zip(sources, heads, strict=True)}
    clocks = {s.id: SourceClock(store, s, profiles[s.id]) for s in sources}
    for source, known in zip(sources, heads, strict=True):
        clocks[source.id].believe(known.date)
    settle_clocks(list(clocks.values()))
    return profiles, clocks
