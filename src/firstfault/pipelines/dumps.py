"""Reads the flight-recorder dumps of an input, and reads cited entries again from their bytes; infers nothing.

Dumps come from strangers: they are read in copies of this process where that is possible, else after a look at every
operation (see `firstfault.readers.unpickle`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from msgspec.structs import replace

from firstfault.analysis.recorder_words import ENTRY, STATUS
from firstfault.analysis.verify import cited
from firstfault.model.evidence import Coverage, Span
from firstfault.model.recorder import RankDump
from firstfault.model.until import NEVER
from firstfault.model.words import CoverageState, SourceKind
from firstfault.pipelines.apart import apart, possible
from firstfault.pipelines.strangers import Told, read_strangers
from firstfault.readers.dump_names import ranks_of_names
from firstfault.readers.entries import counters_text, entry_place, entry_text
from firstfault.readers.flight_recorder import UnreadableDumpError, read_dump
from firstfault.readers.recorder_tables import MOST_BYTES, holds_tables, read_tables
from firstfault.readers.sniff import HEAD as TABLES_HEAD

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from firstfault.analysis.conclude import Conclusion
    from firstfault.analysis.verify import Cited
    from firstfault.model.evidence import Event, GlobalRank, Source, SourceId
    from firstfault.model.until import Until
    from firstfault.readers.recorder_tables import Tables
    from firstfault.readers.store import Store

T = TypeVar("T")

LARGEST = 512 << 20
"""Bytes of a dump; a larger file is none."""


class ReadDumps(NamedTuple):
    """Dumps, and what became of each file that should be one."""

    dumps: tuple[RankDump, ...]
    coverage: dict[str, Coverage]
    """By shown path."""


def read_dumps(store: Store, sources: Iterable[Source], *, inline: bool = False, until: Until = NEVER) -> ReadDumps:
    """All flight-recorder dumps of an input.

    Args:
        store: the bytes.
        sources: all sources; others than dumps are passed over.
        inline: keep to one copy at a time.
        until: when to leave off.
    """
    recorded = [s for s in sources if s.kind is SourceKind.FLIGHT_RECORDER]
    tables = [s for s in recorded if holds_tables(store.head(s.id, TABLES_HEAD))]
    files = [s for s in recorded if s not in tables]
    known: dict[object, object] = {}
    copies = possible()

    def one(source: Source) -> RankDump | str:
        return _read(store, source, fast=copies)

    def keep(read: RankDump) -> RankDump:
        """Groups, calls and stacks are the same on most ranks: each is kept once."""
        return replace(read, **{name: _once(getattr(read, name), known) for name in ("groups", "calls", "frames")})

    dumps, coverage = read_strangers(store, files, one, RankDump | str, _told, inline=inline, keep=keep, until=until)
    for source in tables:
        found = _tables(store, source.id)
        dumps = (*dumps, *found.dumps)
        state = CoverageState.DAMAGED if found.why else CoverageState.READ
        coverage[source.path] = Coverage(
            file=source.path, state=state, reason=found.why and f"not read: {found.why}", bytes=store.size(source.id)
        )
    return ReadDumps(_named(dumps, {s.id: s.path for s in files}, coverage), coverage)


def _named(
    dumps: tuple[RankDump, ...], paths: dict[SourceId, str], coverage: dict[str, Coverage]
) -> tuple[RankDump, ...]:
    """Dumps of which no rank is told, or several one and the same, with the ranks that their names tell together."""
    guessed = [d for d in dumps if not d.stated and d.source in paths]
    told = [d.rank for d in guessed if d.rank is not None]
    if len(guessed) == len(told) == len(set(told)):
        return dumps
    # Whoever is in all groups of a process may be its rank.
    members = [
        frozenset.intersection(*(frozenset(g.ranks) for g in d.groups)) if d.groups else frozenset() for d in guessed
    ]
    ranks = ranks_of_names([paths[d.source] for d in guessed], members)
    taken = {d.rank for d in dumps if d.stated}
    if ranks is None or taken & set(ranks):
        return dumps
    known = dict(zip((d.source for d in guessed), ranks, strict=True))
    for dump in guessed:
        path = paths[dump.source]
        coverage[path] = replace(coverage[path], reason="")
    return tuple(replace(d, rank=known[d.source], notes=()) if d.source in known else d for d in dumps)


def _tables(store: Store, source: SourceId) -> Tables:
    return read_tables(store.read(source, 0, MOST_BYTES), source)


def _told(read: RankDump) -> Told:
    return Told(CoverageState.READ, read.notes)


def _once(parts: tuple[T, ...], known: dict[object, object]) -> tuple[T, ...]:
    same = tuple(cast("T", known.setdefault(part, part)) for part in parts)
    return cast("tuple[T, ...]", known.setdefault(same, same))


def _read(store: Store, source: Source, *, fast: bool) -> RankDump | str:
    """One dump, or why it cannot be read."""
    if store.size(source.id) > LARGEST:
        return f"larger than {LARGEST >> 20} MiB"
    try:
        return read_dump(store.read(source.id, 0, LARGEST), source.id, source.path, fast=fast)
    except (UnreadableDumpError, OSError) as error:
        return str(error)


class _Again(NamedTuple):
    """What stands in a file now: the place of each cited entry, with its text."""

    texts: dict[str, tuple[Span, str]]


def cited_again(conclusion: Conclusion, store: Store, sources: Sequence[Source]) -> tuple[Conclusion, frozenset[Cited]]:
    """Reads the dumps that a conclusion cites again, and puts the place of each cited entry into its event.

    Returns:
        The conclusion with places, and what is cited and still there.
    """
    answer = conclusion.answer
    links = [e for link in answer.chain for e in link.events]
    shown = [e for e in (answer.trigger, *answer.proof, *links) if e is not None and e.signature in {ENTRY, STATUS}]
    if not shown:
        return conclusion, frozenset()
    every = sorted({e.span.source for e in shown})
    wanted = {s: {_key(e) for e in shown if e.span.source == s} for s in every}
    ranks = {e.span.source: e.who.rank for e in shown}
    tables = [s for s in every if holds_tables(store.head(s, TABLES_HEAD))]
    files = [s for s in every if s not in tables]

    def piece(number: int) -> _Again:
        return _texts(store, sources[files[number]], wanted[files[number]], ranks[files[number]], fast=copies)

    copies = possible()
    read = apart(piece, len(files), 1, _Again) if copies else [piece(n) for n in range(len(files))]
    now = {source: again.texts for source, again in zip(files, read, strict=True) if again is not None}
    now |= {source: _table_texts(_tables(store, source), wanted[source]) for source in tables}
    same: set[Cited] = set()

    def place(event: Event) -> Event:
        if event.signature not in {ENTRY, STATUS}:
            return event
        span, text = now.get(event.span.source, {}).get(_key(event), (event.span, ""))
        placed = replace(event, span=span)
        if text == event.text:
            same.add(cited(placed))
        return placed

    chain = tuple(replace(k, events=tuple(map(place, k.events))) for k in answer.chain)
    answer = replace(
        answer,
        trigger=None if answer.trigger is None else place(answer.trigger),
        proof=tuple(map(place, answer.proof)),
        chain=chain,
    )
    return replace(conclusion, answer=answer), frozenset(same)


def _key(event: Event) -> str:
    if event.signature == ENTRY:
        return f"entry {event.fields['entry']}"
    return f"group {event.who.rank} {event.fields['group']}"  # one file of tables tells of all ranks


def _table_texts(tables: Tables, wanted: set[str]) -> dict[str, tuple[Span, str]]:
    """The same of a file of tables: each entry has a row as its place."""
    found: dict[str, tuple[Span, str]] = {}
    for dump in tables.dumps:
        for log in dump.logs:
            for at, entry in enumerate(log.entry):
                if f"entry {entry}" in wanted:
                    offset, length, line = tables.places[entry]
                    found[f"entry {entry}"] = (Span(dump.source, offset, length, line, 1), entry_text(dump, log, at))
        for name in wanted:
            if name.startswith(f"group {dump.rank} "):
                group = name.split(" ", 2)[2]
                found[name] = (Span(dump.source, *tables.start, 1), counters_text(dump, group))
    return found


def _texts(store: Store, source: Source, wanted: set[str], rank: GlobalRank | None, *, fast: bool) -> _Again:
    read = _read(store, source, fast=fast)
    if isinstance(read, str):
        return _Again({})
    if not read.stated:
        read = replace(read, rank=rank)  # the names of several files may have told it together
    raw = store.read(source.id, 0, LARGEST)
    found: dict[str, tuple[Span, str]] = {}
    for log in read.logs:
        for at, entry in enumerate(log.entry):
            if f"entry {entry}" in wanted:
                found[f"entry {entry}"] = (_span(raw, source.id, read, entry), entry_text(read, log, at))
    for name in wanted:
        if name.startswith("group "):
            found[name] = (_span(raw, source.id, read, None), counters_text(read, name.split(" ", 2)[2]))
    return _Again(found)


def _span(raw: bytes, source: SourceId, dump: RankDump, entry: int | None) -> Span:
    offset, length = entry_place(raw, dump, entry)
    start = raw.rfind(b"\n", 0, offset) + 1
    return Span(source, offset, length, raw.count(b"\n", 0, offset) + 1, offset - start + 1)
