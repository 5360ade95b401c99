"""Reads what PyTorch's debug server writes of its flight recorders (`fr_trace_<time>.txt`): tables over all ranks.

A row is a collective of all its members: its own ranks, those that miss it, those that issued another. From these rows each
rank's entries are told again, so that the tables are judged as dumps are. Where rows do not tell who issued what (sends and
receives, workers that did not answer, a cut file), nothing is told and the reason is given. Judges nothing.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

from firstfault.model.evidence import GlobalRank
from firstfault.model.lazy import lazy
from firstfault.model.recorder import Call, GroupLog, Membership, RankDump, Stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.model.evidence import SourceId

MOST_BYTES = 64 << 20
MOST_ENTRIES = 1_000_000
"""Rows times ranks."""
MOST_RANKS = 100_000
_SECTION = lazy(rb"(?m)^=== (?:TorchComms )?FR Trace(?: NCCL)? ===\r?$")
_PART = lazy(rb"(?m)^--- (Groups|Memberships|Collectives|NCCL Calls) ---\r?$")
_PARTIAL = lazy(rb"(?m)^PARTIAL DATA: (\d+)/(\d+) workers responded")
_SIZES = r"\[(?:\[[\d, ]{0,400}\](?:, )?){0,4096}\]"
_CELLS = lazy(r"  +")
_RANKS = lazy(r"\{\d[\d, ]*\}")
_WHOLE = lazy(r"\d{1,18}")
_OTHER = lazy(
    r"[{ ](\d{1,7}): Collective\([^\n]{0,400}?collective_name='([^'\n]{1,200})', "
    rf"input_sizes=({_SIZES}), output_sizes=({_SIZES}),[^(\n]{{0,200000}}?collective_state='([a-z]+)'"
)
_NUMBER = lazy(r"\d{1,7}")
_SIZE = lazy(r"\[([\d, ]*)\]")
_FIXED = 8
"""Cells of a row before the sizes."""
_MESSAGES = ("->", "<-", "coalesced")
MESSAGES = "tables with sends and receives do not tell who issued them: give the dumps themselves"
_STAGES = {"completed": Stage.COMPLETED, "started": Stage.UNFINISHED, "scheduled": Stage.UNFINISHED}


class Tables(NamedTuple):
    """What the tables of a file tell."""

    dumps: tuple[RankDump, ...]
    """One of each rank; none where `why` says why."""
    places: dict[int, tuple[int, int, int]]
    """Number of an entry -> offset, length and line of its row."""
    why: str = ""
    start: tuple[int, int, int] = (0, 1, 1)
    """Offset, length and line of the head of the table, the place of what no row shows."""


class _Row(NamedTuple):
    """One collective, as all its ranks issued it but for those that are told apart."""

    group: tuple[str, str]
    """Name and description."""
    seq: int
    p2p: int
    record: int
    name: str
    sizes: tuple[str, str]
    expected: frozenset[int]
    state: str
    missing: frozenset[int]
    others: dict[int, tuple[str, tuple[str, str], str]]
    """Rank -> name, sizes and state of what it issued instead."""


class _Entry(NamedTuple):
    rank: int
    number: int
    record: int
    seq: int
    call: Call
    state: str


def holds_tables(head: bytes) -> bool:
    """Whether a file is such a dump of tables, by its first bytes."""
    return b" FR Trace" in head and _SECTION.search(head) is not None and _PART.search(head) is not None


def read_tables(raw: bytes, source: SourceId) -> Tables:
    """The dumps of all ranks that the tables of a file tell again."""
    partial = _PARTIAL.search(raw[:4096])
    if partial is not None:
        return Tables((), {}, f"tables of {int(partial[1])} of {int(partial[2])} workers: the rest did not answer")
    ends = [m.start() for m in _SECTION.finditer(raw)]
    told: Tables | None = None
    for start, end in reversed(list(zip(ends, [*ends[1:], len(raw)]))):  # noqa: B905 - what NCCL recorded comes last
        found = _section(raw, start, end, source)
        if found.dumps or (found.why and told is None):
            told = found
        if found.dumps:
            break
    return told if told is not None else Tables((), {}, "its tables hold no collective")


def _section(raw: bytes, start: int, end: int, source: SourceId) -> Tables:
    parts = {m[1]: m.end() for m in _PART.finditer(raw, start, end)}
    if b"Collectives" not in parts:
        return Tables((), {}, "")
    if b"NCCL Calls" not in parts:
        return Tables((), {}, "cut off within its table of collectives")
    begin = parts[b"Collectives"]
    stop = raw.rfind(b"--- NCCL Calls ---", begin, end)
    members: dict[tuple[str, str], set[int]] = {}
    entries: dict[int, dict[tuple[str, str], list[_Entry]]] = {}
    places: dict[int, tuple[int, int, int]] = {}
    offset, count, number = begin, 0, raw.count(b"\n", 0, begin)
    start_of = raw.rfind(b"\n", 0, begin - 1) + 1
    head = (start_of, begin - start_of, number + 1)
    for line in raw[begin:stop].split(b"\n"):
        text = line.rstrip(b"\r").decode("utf-8", "replace")
        at, offset, number = offset, offset + len(line) + 1, number + 1
        if not text.strip() or text.split(None, 1)[0] == "id":
            continue
        row = _row(text)
        if row is None:
            return Tables((), {}, "a row of its tables cannot be told")
        if row.p2p or any(word in row.name for word in _MESSAGES):
            return Tables((), {}, MESSAGES)
        members.setdefault(row.group, set()).update(row.expected)
        if len(members[row.group]) > MOST_RANKS:
            return Tables((), {}, f"more than {MOST_RANKS:,} ranks in a group")
        for entry in _entries(row, count):
            places[entry.number] = (at, max(len(line), 1), number)
            entries.setdefault(entry.rank, {}).setdefault(row.group, []).append(entry)
            count += 1
            if count > MOST_ENTRIES:
                return Tables((), {}, f"more than {MOST_ENTRIES:,} entries")
    if any(word.encode() in raw[stop:end] for word in _MESSAGES):
        return Tables((), {}, MESSAGES)
    return Tables(tuple(_dumps(members, entries, source)), places, start=head)


def _row(text: str) -> _Row | None:
    """The cells of a row, which two spaces and more part from each other; empty ones are not seen."""
    cells = _CELLS.split(text.strip())
    at = next((i for i, cell in enumerate(cells) if i >= _FIXED and _RANKS.fullmatch(cell)), None)
    if at is None or at + 1 >= len(cells) or not all(_WHOLE.fullmatch(c) for c in cells[3:6]):
        return None
    group, colon, desc = cells[6].partition(":")
    sizes = cells[_FIXED:at]
    rest = cells[at + 2 :]
    absent = next((cell for cell in rest if _RANKS.fullmatch(cell)), "")
    other = next((cell for cell in rest if "Collective(" in cell), "")
    if not colon or cells[at + 1] not in _STAGES or ":" not in cells[7]:
        return None
    return _Row(
        group=(group, desc),
        seq=int(cells[3]),
        p2p=int(cells[4]),
        record=int(cells[5]),
        name=cells[7],
        sizes=(sizes[0], sizes[1]) if len(sizes) == 2 else ("", ""),
        expected=frozenset(_ranks(cells[at])),
        state=cells[at + 1],
        missing=frozenset(_ranks(absent)),
        others={int(m[1]): (m[2], (m[3], m[4]), m[5]) for m in _OTHER.finditer(other)},
    )


def _entries(row: _Row, first: int) -> Iterator[_Entry]:
    """The entry of each rank that issued the collective of a row, or another in its place."""
    for i, rank in enumerate(sorted(row.expected - row.missing)):
        name, sizes, state = row.others.get(rank, (row.name, row.sizes, row.state))
        yield _Entry(rank, first + i, row.record, row.seq, _call(name, sizes), state)


def _call(name: str, sizes: tuple[str, str]) -> Call:
    backend, _, op = name.partition(":")
    return Call(op=op, backend=backend, input_sizes=_sizes(sizes[0]), output_sizes=_sizes(sizes[1]))


def _sizes(text: str) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(map(int, _NUMBER.findall(m[1]))) for m in _SIZE.finditer(text[1:-1]))


def _ranks(text: str) -> set[int]:
    return {int(n) for n in _NUMBER.findall(text)}


def _dumps(
    members: dict[tuple[str, str], set[int]],
    entries: dict[int, dict[tuple[str, str], list[_Entry]]],
    source: SourceId,
) -> Iterator[RankDump]:
    # PyTorch leaves out what lies before the latest first entry of any rank, by numbers that ranks do not share: a rank
    # without a row in a group may have been cut away there, and is unknown. Behind a row that is left nothing is.
    groups = {g: Membership(g[0], g[1], tuple(GlobalRank(r) for r in sorted(m))) for g, m in members.items()}
    for rank in sorted(set().union(*members.values())) if members else ():
        calls: dict[Call, int] = {}
        logs: list[GroupLog] = []
        for group, own in entries.get(rank, {}).items():
            logs.append(_log(group, sorted(own, key=lambda e: (e.seq, e.number)), calls))
        yield RankDump(
            source=source,
            rank=GlobalRank(rank),
            stated=True,
            version=(),
            groups=tuple(m for g, m in groups.items() if rank in members[g]),
            logs=tuple(logs),
            calls=tuple(calls),
            frames=((),),
            entries=sum(len(log.seq) for log in logs),
            first_record=min((log.record[0] for log in logs), default=1),
            active_only=False,
        )


def _log(group: tuple[str, str], own: list[_Entry], calls: dict[Call, int]) -> GroupLog:
    return GroupLog(
        group=group[0],
        desc=group[1],
        p2p=False,
        entry=array("i", [e.number for e in own]),
        record=array("q", [e.record for e in own]),
        seq=array("q", [e.seq for e in own]),
        call=array("i", [calls.setdefault(e.call, len(calls)) for e in own]),
        created=array("q", [0] * len(own)),
        stage=bytes(_STAGES.get(e.state, Stage.UNFINISHED) for e in own),
        started=bytes(e.state in {"started", "completed"} for e in own),
    )
