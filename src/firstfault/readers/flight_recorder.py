"""Reads one flight-recorder dump, pickle or JSON, of any version and backend, into columns.

The content decides what a file is and, where it can, whose; the name of the file is the last resort for the rank.
It compares no ranks and judges nothing.
"""

from __future__ import annotations

import marshal
from array import array
from functools import lru_cache
from operator import itemgetter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import msgspec

from firstfault.model.evidence import Frame, GlobalRank
from firstfault.model.lazy import lazy
from firstfault.model.recorder import Call, Counters, GroupLog, Membership, RankDump, Stage
from firstfault.readers.batches import settled
from firstfault.readers.unpickle import UnreadablePickleError, load, load_fast

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from firstfault.model.evidence import SourceId

MOST_ENTRIES = 1_000_000
MOST_GROUPS = 100_000
MOST_RANKS = 1_000_000
"""Members of one group; more are not believed."""
MOST_TENSORS = 4096
"""Tensors of one call whose sizes are kept."""
MOST_FRAMES = 512
LONGEST = 500
"""Characters of a name that are kept."""
_KEEPS_STATES = frozenset({"nccl", "ncclx", "rccl", "rcclx"})
_KEEPS_NONE = frozenset({"gloo"})
_LARGEST = 1 << 62
_FIELDS = (
    "record_id",
    "time_created_ns",
    "collective_seq_id",
    "p2p_seq_id",
    "state",
    "time_discovered_started_ns",
    "time_discovered_completed_ns",
    "retired",
    "frames",
    "profiling_name",
    "process_group",
    "pg_id",
    "is_p2p",
    "timeout_ms",
    "input_sizes",
    "output_sizes",
    "input_dtypes",
    "output_dtypes",
)
"""What is taken of an entry: numbers of its own, its stack, and what it shares with others."""
_OWN = 8
"""Of these fields, how many are an entry's own."""
_TOLD = itemgetter(*_FIELDS)
_RECORD = itemgetter(1, 0)
_PEER = lazy(r"(\w+) (\d{1,7})(?:->|<-)(\d{1,7})$")
_NUMBER = lazy(r"\d{1,7}")
_LIST = lazy(r"\s*\[[\d,\s]*\]\s*$")
_RANK_WORD = lazy(r"(?i)rank[_.=-]?(\d{1,7})(?!\d)")
_LAST_NUMBER = lazy(r"(\d{1,7})$")
_ENDINGS = frozenset({".json", ".pkl", ".pickle", ".bin", ".dump", ".trace", ".txt", ".gz", ".zst", ".xz", ".bz2"})


class UnreadableDumpError(ValueError):
    """The bytes are no flight-recorder dump that can be used; its text says why, in a few words."""


def read_dump(raw: bytes, source: SourceId, name: str, *, fast: bool = False) -> RankDump:
    """What one dump holds.

    Args:
        raw: the whole file.
        source: id of the file.
        name: its path as shown.
        fast: leave out the look at a pickle before it is loaded; only in a process that may be lost.

    Raises:
        UnreadableDumpError: it is damaged, or no dump.
    """
    top = _decoded(raw, fast=fast)
    if isinstance(top, list):
        top = {"entries": top}  # the form of 2023
    if not isinstance(top, dict):
        raise UnreadableDumpError("it holds neither a map nor a list")
    entries = top.get("entries")
    if entries is None:
        entries = []  # the JSON form leaves an empty list out
    if not isinstance(entries, list):
        raise UnreadableDumpError("its entries are no list")
    if not entries and not top.keys() & {"pg_config", "pg_status", "version"}:
        raise UnreadableDumpError("it has none of the parts of a dump")
    groups = _memberships(top.get("pg_config"))
    columns = _Columns(groups)
    columns.fill(entries[:MOST_ENTRIES])
    if entries and not columns.found and not top.keys() & {"pg_config", "pg_status", "version"}:
        raise UnreadableDumpError("nothing in its list is an entry of a dump")
    notes = list(columns.notes)
    if len(entries) > MOST_ENTRIES:
        notes.append(f"only the first {MOST_ENTRIES:,} entries were read")
    own, stated, doubt = _whose(name, groups, columns)
    if doubt:
        notes.append(doubt)
    logs = columns.logs()
    active_only = bool(logs) and not any(s != Stage.UNFINISHED for log in logs for s in log.stage)
    logs = tuple(settled(log, columns.calls, active_only=active_only) for log in logs)
    return RankDump(
        source=source,
        rank=own,
        stated=stated,
        version=_version(top.get("version")),
        library=_text(top.get("comm_lib_version") or top.get("nccl_version")),
        groups=groups,
        counters=_counters(top.get("pg_status"), groups, columns.ids),
        logs=logs,
        calls=tuple(columns.calls),
        frames=tuple(columns.frames),
        entries=min(len(entries), MOST_ENTRIES),
        first_record=min((log.record[0] for log in logs), default=0),
        active_only=active_only,
        latest_ns=max((max(log.created) for log in logs), default=0),
        notes=tuple(notes),
    )


def _decoded(raw: bytes, *, fast: bool) -> object:
    start = raw[:64].lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if start in {b"{", b"["}:
        try:
            return msgspec.json.decode(raw.lstrip(b"\xef\xbb\xbf"))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            cut = "truncated" in str(error)
            raise UnreadableDumpError("its JSON is cut off" if cut else f"its JSON is damaged: {error}") from error
    try:
        return load_fast(raw) if fast else load(raw)
    except UnreadablePickleError as error:
        raise UnreadableDumpError(str(error)) from error


class _Columns:
    """Gathers entries by group; equal calls and stacks are kept once.

    Most entries are like an earlier one but for their numbers: what all those share is looked at once.
    """

    def __init__(self, groups: Iterable[Membership]) -> None:
        self.calls: list[Call] = []
        self.frames: list[tuple[Frame, ...]] = [()]
        self.ids: dict[str, str] = {}
        """Number of a group in its process -> name of the group."""
        self.notes: dict[str, None] = {}
        self.peers: dict[tuple[str, int], None] = {}
        """Group, and own rank in it as sends and receives tell it."""
        self._desc = {g.name: g.desc for g in groups}
        self._logs: dict[tuple[str, bool], _Rows] = {}
        self._kinds: dict[Any, _Kind] = {}
        self._calls: dict[Call, int] = {}
        self._stacks: dict[tuple[Frame, ...], int] = {(): 0}

    def fill(self, entries: Iterable[Any]) -> None:
        """Takes all entries; what is not one is left out and noted."""
        before: tuple[_Rows | None, object] = (None, 0)
        kind = _Kind(None, 0, ())
        for index, entry in enumerate(entries):
            try:
                told = _TOLD(entry)
            except (KeyError, TypeError):
                if type(entry) is not dict:
                    self.notes["some entries are no maps"] = None
                    continue
                told = tuple(map(entry.get, _FIELDS))
            # Steps of a training repeat, so that most entries are of the kind that came after such a one last time.
            shared, guess = told[_OWN:], kind.after
            if guess is None or guess.shared != shared:
                guess = kind.after = self._kind(entry, shared)
            kind = guess
            rows, call = kind.rows, kind.call
            if rows is None:
                self.notes["some entries have no name or no group"] = None
                continue
            record, created, seq, p2p_seq, state, began, ended, retired = told[:_OWN]
            number = p2p_seq if rows.p2p else seq
            if call in rows.closing:
                # Some versions close a batch of sends and receives with an entry that is not marked as one of them.
                batch = self._logs.get((rows.group, True))
                if batch is not None and before == (batch, p2p_seq):
                    rows, number = batch, p2p_seq
            if number is None:
                number = entry.get("seq_id")
            if type(number) is not int or not -1 <= number < _LARGEST:
                self.notes["some entries have no number"] = None
                continue
            before = (rows, number)
            done = state == "completed" or bool(ended)
            stage = 2 if done else 1 if retired is True else 0
            rows.rows.append((index, record, number, call, created, stage, done or state == "started" or bool(began)))

    def _kind(self, entry: Mapping[str, Any], shared: tuple[Any, ...]) -> _Kind:
        """The kind of an entry, looked at once for all entries that are alike but for their own numbers."""
        frames, *rest = shared
        try:
            # torch writes each frame once, so that stacks are told apart by the places of their frames in memory.
            key = (marshal.dumps(rest, 2), *map(id, frames or ()))
        except (TypeError, ValueError):
            key = None
        found = self._kinds.get(key)
        if found is None or key is None:
            rows, call = self._look(entry) or (None, 0)
            found = self._kinds[key] = _Kind(rows, call, shared)
        return found

    def _look(self, entry: Mapping[str, Any]) -> tuple[_Rows, int] | None:
        """Log and call of an entry of a new kind; None where it is none."""
        name, group = entry.get("profiling_name"), entry.get("process_group")
        if not isinstance(name, str):
            return None
        pg_id = _whole(entry.get("pg_id"))
        if isinstance(group, (tuple, list)) and group and isinstance(group[0], str):
            guid, desc = _text(group[0]), _text(group[1]) if len(group) > 1 else ""
        elif pg_id is not None:
            guid, desc = str(pg_id)[:32], ""
        else:
            return None
        op, backend, own, peer = _name(_text(name))
        p2p = entry.get("is_p2p") is True or (entry.get("is_p2p") is None and own is not None)
        rows = self._logs.get((guid, p2p))
        if rows is None:
            rows = self._logs[guid, p2p] = _Rows(guid, desc or self._desc.get(guid, ""), p2p=p2p)
            if pg_id is not None:
                self.ids.setdefault(str(pg_id), guid)
        rows.backend = backend or rows.backend
        if own is not None:
            self.peers[guid, own] = None
        call = self._call(entry, op, backend, own, peer)
        if op.endswith("coalesced") and not p2p:
            rows.closing.add(call)
        return rows, call

    def _call(self, entry: Mapping[str, Any], op: str, backend: str, own: int | None, peer: int | None) -> int:
        get = entry.get
        call = Call(
            op=op,
            backend=backend,
            own=own,
            peer=peer,
            input_sizes=_sizes(get("input_sizes")),
            output_sizes=_sizes(get("output_sizes")),
            input_dtypes=_words(get("input_dtypes")),
            output_dtypes=_words(get("output_dtypes")),
            timeout_ms=_whole(get("timeout_ms")) or None,
            frames=self._stack(get("frames")),
        )
        known = self._calls.setdefault(call, len(self.calls))
        if known == len(self.calls):
            self.calls.append(call)
        return known

    def _stack(self, frames: object) -> int:
        if not isinstance(frames, list) or not frames:
            return 0
        whole = tuple(f for f in map(_frame, frames[:MOST_FRAMES]) if f is not None)
        known = self._stacks.setdefault(whole, len(self.frames))
        if known == len(self.frames):
            self.frames.append(whole)
        return known

    @property
    def found(self) -> bool:
        """Whether anything was an entry."""
        return any(rows.rows for rows in self._logs.values())

    def logs(self) -> tuple[GroupLog, ...]:
        """The columns of all groups, in the order in which the groups came up."""
        return tuple(rows.log() for rows in self._logs.values() if rows.rows)


class _Kind:
    """Entries that are alike but for their own numbers; without rows where they have no name or no group."""

    def __init__(self, rows: _Rows | None, call: int, shared: tuple[Any, ...]) -> None:
        self.rows, self.call, self.shared = rows, call, shared
        self.after: _Kind | None = None
        """What came behind one of them last time."""


class _Rows:
    def __init__(self, group: str, desc: str, *, p2p: bool) -> None:
        self.group, self.desc, self.p2p = group, desc, p2p
        self.backend = ""
        self.closing: set[int] = set()
        """Calls that end a batch."""
        self.rows: list[tuple[Any, ...]] = []
        """Index, record, number, call, creation, stage and begin of each entry, as the file has them."""

    def log(self) -> GroupLog:
        """The finished log, in order of issue."""
        entry, record, seq, call, created, stage, began = zip(*self.rows, strict=True)
        numbers, times = _column(record), _column(created)
        if times is None:
            times = array("q", map(_time, created))
        if numbers is None:
            numbers = array("q", entry)  # without numbers of their own entries stand in the order of the file
        elif record != tuple(sorted(record)):
            self.rows.sort(key=_RECORD)
            return self.log()
        if self.backend in _KEEPS_STATES or (self.backend not in _KEEPS_NONE and any(began)):
            # Retired and not completed: it ran out of time, or was aborted.
            stage = tuple(bytes(stage).replace(b"\x01", b"\x00"))
        return GroupLog(
            group=self.group,
            desc=self.desc,
            p2p=self.p2p,
            entry=array("i", entry),
            record=numbers,
            seq=array("q", seq),
            call=array("i", call),
            created=times,
            stage=bytes(stage),
            started=bytes(began),
        )


def _column(values: Sequence[Any]) -> array[int] | None:
    """Whole numbers as a column; None where one is none, or out of range."""
    try:
        column = array("q", values)
    except (TypeError, OverflowError):
        return None
    return column if min(column) >= 0 else None


def _time(value: object) -> int:
    return value if type(value) is int and 0 <= value < _LARGEST else 0


def _name(name: str) -> tuple[str, str, int | None, int | None]:
    """Op, backend, own rank and peer of a name such as `nccl:send 0->1`."""
    backend, colon, rest = name.partition(":")
    if not colon:
        backend, rest = "", name
    found = _PEER.match(rest)
    if found is None:
        return rest, backend, None, None
    return found[1], backend, int(found[2]), int(found[3])


def _sizes(value: object) -> tuple[tuple[int, ...], ...]:
    if not isinstance(value, list) or len(value) > MOST_TENSORS:
        return ()
    if not all(
        type(s) is list and len(s) <= 64 and all(type(n) is int and -_LARGEST < n < _LARGEST for n in s) for s in value
    ):
        return ()
    return tuple(map(tuple, value))


def _words(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or len(value) > MOST_TENSORS:
        return ()
    return tuple(map(_text, value)) if all(type(v) is str for v in value) else ()


def _whole(value: object) -> int | None:
    """A whole number that may be written as text; None for anything else."""
    if type(value) is int:
        return value if -_LARGEST < value < _LARGEST else None
    if isinstance(value, str) and len(value) < 20 and value.removeprefix("-").isdecimal():
        return int(value)
    return None


def _text(value: object) -> str:
    """Text that can be written; a pickle may hold halves of characters."""
    if not isinstance(value, str):
        return ""
    text = value[:LONGEST]
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def _frame(value: object) -> Frame | None:
    if not isinstance(value, dict):
        return None
    line = _whole(value.get("line"))
    return Frame(_text(value.get("filename")), 0 if line is None else line, _text(value.get("name")))


def _version(value: object) -> tuple[int, ...]:
    """The version as numbers, since 2.10 is newer than 2.9; empty where there is none."""
    return tuple(int(n) for n in _NUMBER.findall(str(value))[:4]) if isinstance(value, (str, float, int)) else ()


def _memberships(config: object) -> tuple[Membership, ...]:
    if not isinstance(config, dict):
        return ()
    groups = []
    for name, value in list(config.items())[:MOST_GROUPS]:
        if isinstance(value, dict):
            ranks, own, desc = (
                value.get("ranks"),
                _text(value.get("name")) or _text(str(name)),
                _text(value.get("desc")),
            )
        else:
            ranks, own, desc = value, _text(str(name)), ""
        listed = _ranks_of_text(ranks) if isinstance(ranks, str) else _ranks(ranks)
        groups.append(Membership(own, desc, listed))
    return tuple(groups)


@lru_cache(maxsize=4096)
def _ranks_of_text(text: str) -> tuple[GlobalRank, ...]:
    """Ranks of a list that is written as text; all dumps of a job repeat the same lists."""
    return _ranks([int(n) for n in _NUMBER.findall(text)]) if _LIST.match(text) else ()


def _ranks(value: object) -> tuple[GlobalRank, ...]:
    """Ranks of a group; empty where they are not told or cannot be believed."""
    if not isinstance(value, list) or len(value) > MOST_RANKS or any(type(n) is not int or n < 0 for n in value):
        return ()
    return tuple(GlobalRank(n) for n in sorted(set(value)))


def _counters(status: object, groups: Sequence[Membership], ids: Mapping[str, str]) -> dict[str, Counters]:
    """The counters by group: a process numbers its groups by itself, so that only its own entries join the two.

    Without entries the groups are taken in their order, where as many numbers as groups are there and nothing speaks
    against it: both count upwards as groups are made.
    """
    if not isinstance(status, dict):
        return {}
    found = {str(number): c for number, row in status.items() if (c := _counter(row)) is not None}
    join = dict(ids)
    names = [g.name for g in groups]
    if len(found) == len(names) and all(n.isdecimal() for n in (*names, *found)):
        ordered = dict(zip(sorted(found, key=int), sorted(names, key=int), strict=True))
        if all(ordered.get(number, name) == name for number, name in ids.items()):
            join = ordered
    return {join[number]: c for number, c in found.items() if number in join}


def _counter(row: object) -> Counters | None:
    if not isinstance(row, dict):
        return None
    numbers = [_whole(row.get(f"last_{w}_collective")) for w in ("enqueued", "started", "completed")]
    enqueued, started, completed = (-1 if n is None else n for n in numbers)
    # An uninitialised counter of 2.3 prints a number of 17 digits.
    if max(enqueued, completed) > 1 << 48 or (numbers[0] is None and numbers[2] is None):
        return None
    return Counters(enqueued, started, completed)


def _whose(path: str, groups: Sequence[Membership], columns: _Columns) -> tuple[GlobalRank | None, bool, str]:
    """The rank of a dump, whether its content tells it, and what speaks against it."""
    inside = _by_content(groups, columns)
    named = rank_of_name(path)
    if inside is not None and len(inside) == 1:
        own = next(iter(inside))
        doubt = "" if named in {None, own} else f"its name says rank {named}, its groups say rank {own}"
        return own, True, doubt
    if named is None:
        return None, False, "neither its content nor its name tells its rank"
    if inside is not None and named not in inside:
        return None, False, f"its name says rank {named}, which is in none of its groups"
    return named, False, ""


def _by_content(groups: Sequence[Membership], columns: _Columns) -> set[GlobalRank] | None:
    """Ranks that are in every group of the process; None where nothing is told or the groups contradict each other."""
    told = {g.name: g.ranks for g in groups if g.ranks}
    if not told:
        return None
    left = set.intersection(*(set(ranks) for ranks in told.values()))
    for group, own in columns.peers:
        ranks = told.get(group, ())
        if own < len(ranks):
            left &= {ranks[own]}
    return left or None


def rank_of_name(path: str) -> GlobalRank | None:
    """The rank that a path tells: the number behind `rank`, else the one at the end of the file's name; None for none."""
    pure = PurePosixPath(path.rsplit("!", 1)[-1])
    stem = pure.name
    while PurePosixPath(stem).suffix.lower() in _ENDINGS:
        stem = PurePosixPath(stem).stem
    for part in (stem, *reversed(pure.parent.parts)):
        found = _RANK_WORD.findall(part)
        if found:
            return GlobalRank(int(found[-1]))
    last = _LAST_NUMBER.search(stem)
    return None if last is None else GlobalRank(int(last[1]))
