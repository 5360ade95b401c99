"""Reads the black box of a job, where there is one, and turns what speaks for itself into events; infers nothing.

Loaded only where a file of the recorder was found. Of several runs in one folder the last is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from firstfault.analysis.case import GENERIC_EXCEPTION
from firstfault.model.evidence import Coverage, Event, Frame, GlobalRank, PythonException, Span, Who
from firstfault.model.until import NEVER, OVER
from firstfault.model.words import CoverageState, Mark, SourceKind
from firstfault.pipelines.error_files import meaning
from firstfault.readers.blackbox import read_box, run_of
from firstfault.readers.lone_box import numbered
from firstfault.recorder import format as layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from firstfault.model.blackbox import BoxRecord
    from firstfault.model.evidence import Source, SourceId
    from firstfault.model.stacks import StackDump
    from firstfault.model.until import Until
    from firstfault.readers.store import Store
    from firstfault.signatures.library import Library

LARGEST = 64 << 20
"""Bytes of a file of records that are read."""
RANK, DEATH, STOPPED, ENDED = "recorder.rank", "recorder.death", "recorder.stopped", "recorder.ended"
NODE_LOST, TOLD = "recorder.node_lost", "recorder.told_to_stop"
_HEADING = 1024
"""Bytes in which the first line of a file of stacks ends."""
_WORKER = "Caught "
_BESIDE = 1.0
"""Seconds after a bundle from which a sign of life shows that it was not the last standstill."""
MISSED_S = 10.0
"""Seconds by which clocks of nodes may differ: what a node wrote within them after it was missed is no sign that it lives on."""
SEEN_S = 3.0
"""Seconds by which a node may see the last sign of life of another later than that one was lost."""
_STOPPERS = frozenset({"SIGTERM", "SIGKILL", "SIGINT", "SIGHUP"})
"""Signals by which somebody ends a job; no rank gets one at once for the loss of another machine."""
STOOD = 60.0
"""Seconds without a sign of life from which on a rank stood still, where no watch says so."""


class ReadBoxes(NamedTuple):
    """The records of the run that is looked at, what follows from them at once, and what became of each file."""

    records: tuple[BoxRecord, ...]
    events: tuple[Event, ...]
    coverage: dict[str, Coverage]
    """By shown path."""
    others: frozenset[SourceId] = frozenset()
    """Files of other runs, of any kind: their stacks and dumps too are of jobs that are not looked at."""


def read_boxes(store: Store, sources: Iterable[Source], library: Library, until: Until = NEVER) -> ReadBoxes:
    """All records of an input.

    Args:
        store: the bytes.
        sources: all sources; others than those of the recorder are passed over.
        library: knows what an exception means.
        until: when to leave off.
    """
    files = [s for s in sources if s.kind is SourceKind.BLACK_BOX]
    found: list[BoxRecord] = []
    coverage: dict[str, Coverage] = {}
    for source in files:
        if until.over():
            coverage[source.path] = Coverage(file=source.path, state=CoverageState.DAMAGED, reason=OVER)
            continue
        size = store.size(source.id)
        read = read_box(store.read(source.id, 0, min(size, LARGEST)), source.id, source.path)
        found.extend(read.records)
        damaged = f"{read.damaged} line{'s' if read.damaged > 1 else ''} could not be read" if read.damaged else ""
        state = CoverageState.DAMAGED if read.damaged else CoverageState.READ
        coverage[source.path] = Coverage(file=source.path, state=state, reason=damaged, bytes=size)
    run = _last_run(found)
    others = _of_others(sources, {run_of(s.path) for s in files} - {run}, run)
    for source in others:
        reason = "the black box of another run, whose last sign of life is older"
        coverage[source.path] = Coverage(file=source.path, state=CoverageState.SKIPPED, reason=reason)
    kept = _of_last_start(numbered([r for r in found if r.run == run]))
    told = _told_to_stop(store, [s for s in sources if s.path.endswith(layout.SIGTERM)], run)
    return ReadBoxes(kept, tuple(_events(kept, library, told)), coverage, frozenset(s.id for s in others))


def _told_to_stop(store: Store, sources: Sequence[Source], run: str) -> dict[tuple[int, int], Event]:
    """Rank and process id of each process of a run that left its stack at SIGTERM, with the first line of that."""
    found = {}
    for source in sources:
        name = layout.read_name(source.path.replace("!", "/").rsplit("/", 1)[-1])
        if name is None or name.rank is None or name.worker is not None or run_of(source.path) != run:
            continue
        raw = store.read(source.id, 0, min(store.size(source.id), _HEADING)).split(b"\n", 1)[0]
        text = raw.decode("utf-8", "backslashreplace")
        host = text.rpartition(";")[0].rpartition(" ")[2] or None
        if text.startswith(layout.STACKS_OF):
            who = Who(rank=GlobalRank(name.rank), host=host, pid=name.pid)
            found[(name.rank, name.pid)] = Event(
                signature=TOLD, span=Span(source.id, 0, len(raw), 1, 1), text=text, who=who
            )
    return found


def _of_others(sources: Iterable[Source], runs: set[str], run: str) -> list[Source]:
    """Sources that lie in the folders of other runs."""
    inside = tuple(f"{other}/" for other in runs if other and not f"{run}/".startswith(f"{other}/"))
    return [
        s
        for s in sources
        if (path := s.path.replace("!", "/")).startswith(inside)
        or (s.kind is SourceKind.BLACK_BOX and run_of(path) in runs)
    ]


def _last_run(records: Sequence[BoxRecord]) -> str:
    """The run whose last record is the latest, where one of a rank that merely goes on to stand still counts as of its last sign of life.

    A rank that nobody could end, as in a read that never returns, keeps its monitor at work long after the next run began.
    """
    last: dict[str, float] = {}
    for record in records:
        when = record.when.latest or 0.0
        if record.kind == layout.BEAT and record.last is not None:
            when = min(when, record.last)
        last[record.run] = max(last.get(record.run, 0.0), when)
    return max(last, key=lambda run: (last[run], run), default="")


def _of_last_start(records: Sequence[BoxRecord]) -> tuple[BoxRecord, ...]:
    """Records of the processes of the last start: a launcher may start ranks again, in the same attempt or a new one."""
    attempt = max((r.attempt for r in records if r.kind == layout.HEADER and r.who.rank is not None), default=0)
    process: dict[int, tuple[float, int | None]] = {}
    for record in records:
        rank = record.who.rank
        if record.kind == layout.HEADER and rank is not None and record.attempt == attempt:
            process[rank] = max(process.get(rank, (-1.0, None)), (record.when.earliest or 0.0, record.who.pid or 0))
    return tuple(r for r in records if _is_of(r, attempt, process))


def _is_of(record: BoxRecord, attempt: int, process: dict[int, tuple[float, int | None]]) -> bool:
    rank, pid = record.who.rank, record.who.pid if record.who.worker is None else record.owner
    if rank is None or record.kind == layout.TOLD:
        return True
    if record.attempt != attempt:
        return False
    return rank not in process or pid in {None, process[rank][1]} or record.who.worker is not None


def _events(records: Sequence[BoxRecord], library: Library, told: Mapping[tuple[int, int], Event]) -> Iterable[Event]:
    ranks = {r.who.rank for r in records if r.who.rank is not None}
    for record in records:
        if record.who.worker is not None or (record.who.rank is None and ranks):
            continue  # a launcher or helper beside ranks only passes on what these met
        if record.kind == layout.EXCEPTION and record.fields.get("caught") is False:
            yield _raised(record, library)
        elif record.kind == layout.HEADER and record.who.rank is not None:
            yield _event(record, RANK)
        elif record.kind == layout.DEATH and record.who.rank is not None and not _copied(record):
            yield _event(record, STOPPED if record.fields.get("signal") == "SIGTERM" else DEATH)
    yield from _said(records, library)
    yield from _all_ended(records, told)
    yield from _nodes_lost(records, library)


def _said(records: Sequence[BoxRecord], library: Library) -> Iterable[Event]:
    """The texts with which programs ended (`sys.exit("…")`), where their exit code is that of such an end."""
    codes = {(r.who.host, r.who.pid): r.fields.get("exit_code") for r in records if r.kind == layout.DEATH}
    for record in records:
        text = record.fields.get("said")
        if record.kind == layout.END and isinstance(text, str) and codes.get((record.who.host, record.who.pid)) == 1:
            yield _raised(replace(record, fields={**record.fields, "type": "sys.exit", "message": text}), library)


def _nodes_lost(records: Sequence[BoxRecord], library: Library) -> Iterable[Event]:
    """The first word on each node that its neighbours missed, and that gave no sign of life behind it: nothing of its own, nor one that they saw."""
    last: dict[str, float] = {}
    for record in records:
        back, when = record.fields.get("node"), record.when.latest
        if when is None or record.kind in {layout.LOST, layout.TOLD}:
            continue
        if record.fields.get("back") is True and isinstance(back, str):
            last[back] = max(last.get(back, 0.0), when + MISSED_S)
        elif record.who.host is not None:
            last[record.who.host] = max(last.get(record.who.host, 0.0), when)
    told: dict[str, BoxRecord] = {}
    for record in sorted(
        (r for r in records if r.kind == layout.LOST), key=lambda r: (_copied(r), r.when.latest or 0.0)
    ):
        host, when = record.who.host, record.when.latest
        if host is not None and when is not None and last.get(host, 0.0) <= when + MISSED_S:
            told.setdefault(host, record)
    empty = _without_ranks(records)
    return [
        _event(r, NODE_LOST)
        for h, r in told.items()
        if h not in empty
        and not _over_before(r, records)
        and (r.fields.get(layout.AFTER_END) is not True or _lost_its_peer(r, records, library))
    ]


def _without_ranks(records: Sequence[BoxRecord]) -> set[str]:
    """Hosts all ranks of which had ended, as their own monitor wrote: their silence took nothing from the job."""
    began: dict[str, set[int]] = {}
    ended: dict[str, set[int]] = {}
    for record in records:
        host, rank = record.who.host, record.who.rank
        if host is None or rank is None or record.who.worker is not None:
            continue
        if record.kind in {layout.HEADER, layout.BEAT}:
            began.setdefault(host, set()).add(rank)
        elif record.kind in {layout.END, layout.DEATH}:
            ended.setdefault(host, set()).add(rank)
    return {host for host, ranks in ended.items() if ranks >= began.get(host, set())}


def _lost_its_peer(lost: BoxRecord, records: Sequence[BoxRecord], library: Library) -> bool:
    """Whether the first end in the job was that of a rank beside the teller that lost a connection.

    A node that fell silent only after another end may have been taken away for it, by a launcher or the scheduler.
    """
    ends = [
        r
        for r in records
        if r.kind in {layout.DEATH, layout.TOLD}
        and r.attempt == lost.attempt
        and r.fields.get("rank") is not None
        and r.who.worker is None
    ]
    first = min(ends, key=lambda r: r.when.latest or 0.0, default=None)
    if first is None or first.kind == layout.TOLD or first.who.host != lost.fields.get("by"):
        return False
    met = {_raised(r, library).signature for r in records if r.kind == layout.EXCEPTION and _ended_by(r, first)}
    return bool(met) and all(m in library.by_id and Mark.PEER_LOST in library.by_id[m].marks for m in met)


def _ended_by(raised: BoxRecord, death: BoxRecord) -> bool:
    return (
        raised.fields.get("caught") is False
        and raised.who.worker is None
        and (raised.who.rank, raised.who.pid) == (death.who.rank, death.who.pid)
    )


def _over_before(lost: BoxRecord, records: Sequence[BoxRecord]) -> bool:
    """Whether a rank had died before a node was lost, or was stopped with it, by the clock of the node that tells of both."""
    silent = lost.when.latest or 0.0
    deaths = [
        (when, record.fields.get("signal") in _STOPPERS)
        for record in records
        if record.kind in {layout.DEATH, layout.TOLD}
        and record.who.host == lost.fields.get("by")
        and record.fields.get("rank") is not None
        and record.who.worker is None
        and record.attempt == lost.attempt
        and (when := record.when.latest) is not None
    ]
    if not deaths:
        return False
    when, stopped = min(deaths)
    return when < silent - SEEN_S or (stopped and when < silent + SEEN_S)


def _copied(record: BoxRecord) -> bool:
    """Whether this is the copy of a death for the other nodes, in `faults/`: the node's own file holds it too."""
    return "run" in record.fields


def _all_ended(records: Sequence[BoxRecord], told: Mapping[tuple[int, int], Event]) -> Iterable[Event]:
    """The end of the last rank, where every rank of a job of known size is seen to have ended with code 0.

    A rank whose training thread ended by an exception did not come to its end, whatever code its main thread returned; nor did
    one that was told to stop, and whose program made code 0 of it.
    """
    broken = {
        (r.who.rank, r.who.pid)
        for r in records
        if r.kind == layout.EXCEPTION and r.fields.get("trains") is True and r.fields.get("caught") is False
    }
    ended = {
        r.who.rank: r
        for r in records
        if r.kind == layout.END
        and r.who.worker is None
        and r.fields.get("exit_code") == 0
        and r.who.rank is not None
        and (r.who.rank, r.who.pid) not in broken
    }
    for record in ended.values():
        stop = told.get((int(record.who.rank or 0), record.who.pid or 0))
        if stop is not None:
            yield replace(stop, when=record.when)
            broken.add((record.who.rank, record.who.pid))
    ended = {rank: r for rank, r in ended.items() if (rank, r.who.pid) not in broken}
    world = {r.fields.get("world") for r in records if r.kind == layout.HEADER and r.who.rank is not None}
    if len(world) == 1 and world == {len(ended)}:
        yield _event(max(ended.values(), key=lambda r: (r.when.latest or 0.0, r.span)), ENDED)


def _event(record: BoxRecord, signature: str) -> Event:
    fields = {
        name: str(value)
        for name in ("rank", "local_rank", "host", "pid", "exit_code", "signal")
        if (value := record.fields.get(name)) is not None
    }
    world = record.fields.get("world")
    if signature == RANK and isinstance(world, int):
        fields["world_size"] = str(world)
    return Event(
        signature=signature, span=record.span, text=record.text, who=record.who, when=record.when, fields=fields
    )


def _raised(record: BoxRecord, library: Library) -> Event:
    """An uncaught exception, with the meaning that its last line has in a log."""
    fields = record.fields
    message = str(fields.get("message") or "")
    chain = fields.get("chain") if isinstance(fields.get("chain"), list) else []
    exception = PythonException(
        kind=str(fields.get("type") or "Exception"),
        message=message,
        frames=_frames(fields.get("traceback")),
        chained_from=tuple(f"{c.get('type')}: {c.get('message')}" for c in chain or () if isinstance(c, dict)),
        in_worker=message.startswith(_WORKER) and "in DataLoader worker process" in message[:200],
    )
    frames = exception.frames
    user = [
        f for f in frames if "site-packages" not in f.file and "/torch/" not in f.file and not f.file.startswith("<")
    ]
    exception = PythonException(
        kind=exception.kind,
        message=exception.message,
        frames=frames,
        user_frame=user[-1] if user else None,
        chained_from=exception.chained_from,
        in_worker=exception.in_worker,
        in_thread=fields.get("caught") is False and fields.get("thread") not in {None, "MainThread"},
    )
    signature, named = _meaning(
        exception, [c for c in chain or () if isinstance(c, dict) and c.get("member") is True], library
    )
    return Event(
        signature=signature,
        span=record.span,
        text=record.text,
        who=record.who,
        when=record.when,
        fields=named,
        exception=exception,
    )


def _meaning(
    exception: PythonException, members: Sequence[dict[str, object]], library: Library
) -> tuple[str, dict[str, str]]:
    """What an exception means; a group of several what they all mean, of which one may be known and the rest be nobody's words.

    That of a worker of a loader is what the worker raised, where that has a meaning of its own.
    """
    if not members:
        kind, _, said = layout.original(exception.message).partition(": ")
        inner = meaning(PythonException(kind=kind, message=said), library) if kind else None
        return meaning(exception, library) if inner is None or inner[0] == GENERIC_EXCEPTION else inner
    each = [PythonException(kind=str(m.get("type")), message=str(m.get("message") or "")) for m in members]
    known = [found for found in (meaning(one, library) for one in each) if found[0] != GENERIC_EXCEPTION]
    return known[0] if len({name for name, _ in known}) == 1 else meaning(exception, library)


def _frames(found: object) -> tuple[Frame, ...]:
    if not isinstance(found, list):
        return ()
    frames = []
    for frame in found:
        if isinstance(frame, dict):
            line = frame.get("line")
            number = line if isinstance(line, int) else 0
            frames.append(Frame(str(frame.get("file")), number, str(frame.get("function"))))
    return tuple(frames)


def without_stale(
    stacks: Sequence[StackDump], records: Sequence[BoxRecord], paths: dict[SourceId, str]
) -> list[StackDump]:
    """The stacks without those that show no standstill of the end.

    Those of bundles after which the process moved on; and those that SIGTERM left in a run in which nobody stood still: a
    job that was told to stop at work is seen at any place of its step.
    """
    stood = {r.run for r in records if r.kind == layout.HANG or (r.still or 0.0) >= STOOD}
    stacks = [
        s
        for s in _of_the_lone(stacks, records)
        if not paths[s.begin.source].endswith(layout.SIGTERM) or run_of(paths[s.begin.source]) in stood
    ]
    taken = {
        (r.run, r.fields.get("bundle"), r.fields.get("part"), r.who.pid): r.when.latest or 0.0
        for r in records
        if r.kind == layout.STATE
    }
    if not taken:
        return list(stacks)
    moved: dict[int | None, float] = {}
    for record in records:
        if record.last is not None and record.kind != layout.STATE:
            moved[record.who.pid] = max(moved.get(record.who.pid, 0.0), record.last)
    kept = []
    for dump in stacks:
        place = _bundle_of(paths[dump.begin.source])
        at = None if place is None else taken.get((run_of(paths[dump.begin.source]), *place))
        if at is None or place is None or moved.get(place[2], 0.0) <= at + _BESIDE:
            kept.append(dump)
    return kept


def _of_the_lone(stacks: Sequence[StackDump], records: Sequence[BoxRecord]) -> list[StackDump]:
    """The stacks, where one process is the whole job with the rank that its records were given."""
    ranks = {(r.who.host, r.who.pid): r.who for r in records if r.kind == layout.HEADER and r.who.rank is not None}
    found = []
    for dump in stacks:
        who = ranks.get((dump.who.host, dump.who.pid)) if dump.who.rank is None else None
        found.append(dump if who is None else replace(dump, who=replace(dump.who, rank=who.rank)))
    return found


def _bundle_of(path: str) -> tuple[int, int, int] | None:
    """Number of the bundle, its part and the process of a file of stacks in a bundle; None for any other file."""
    *_, folder, file = ["", *path.replace("!", "/").split("/")]
    name = layout.read_name(file)
    part = file.removesuffix(layout.STACKS).rsplit(".", 1)[-1]
    number = folder.removeprefix("bundle-")
    if name is None or not folder.startswith("bundle-") or not (number.isdecimal() and part.isdecimal()):
        return None
    return int(number), int(part), name.pid
