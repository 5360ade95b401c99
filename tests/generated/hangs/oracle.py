"""What an expert could know from the lines that are left: the truth to judge by, from the facts that survived.

It knows what was really done and asks of each part (who, what kind) whether the lines hold it. It never sees a diagnosis.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .lines import UNNAMED

if TYPE_CHECKING:
    from .kinds import Injected
    from .layouts import Files
    from .topology import Shape

Works = dict[tuple[str, int], dict[int, tuple[Any, ...]]]


@dataclass
class Left:
    """The facts that survived, by what they say; only those whose rank a reader can know."""

    world: bool = False
    finished: bool = False
    seen: set[int] = field(default_factory=set)
    """Ranks of which any line is left."""
    told: set[int] = field(default_factory=set)
    """Ranks whose host some line states."""
    works: Works = field(default_factory=lambda: defaultdict(dict))
    """(guid, seq) -> rank -> signature, collectives only."""
    waiting: set[int] = field(default_factory=set)
    """Ranks that said themselves that they wait."""
    states: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    why: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    nameless: dict[str, int] = field(default_factory=Counter)
    """Lines of a kind whose rank cannot be told."""
    exits: dict[int, int] = field(default_factory=dict)
    """Rank -> how the launcher says that it ended, where both its rank and its code are left."""
    ended: set[int] = field(default_factory=set)
    """Ranks in the launcher's report of failures."""
    tasks: dict[int, int] = field(default_factory=dict)
    """What srun says of a task: most likely the rank of that number, but no line says so."""


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What a diagnosis of these lines is judged by, in the terms of `truth.json`; None is not judged."""

    why: str
    """Why it can be known, or cannot."""
    category: str
    acceptable: tuple[str, ...]
    at_most: str | None = None
    ranks: tuple[int, ...] | None = ()
    hosts: tuple[str, ...] | None = None
    suspects: tuple[int | str, ...] = ()
    never: tuple[str, ...] = ()
    """Categories that must not be named."""
    innocent: tuple[int, ...] = ()
    """Ranks that must not be named."""
    held: bool = True
    """Whether the lines hold who did it (or that nobody did)."""

    def as_json(self) -> dict[str, Any]:
        return {
            "category": self.category,
            "acceptable_categories": list(self.acceptable),
            "strength_at_most": self.at_most,
            "culprit_ranks": None if self.ranks is None else list(self.ranks),
            "culprit_hosts": None if self.hosts is None else list(self.hosts),
            "first_failed_ranks": None,
            "suspects": list(self.suspects),
            "trigger": None,
            "trigger_alternatives": [],
            "must_not": {"category": list(self.never), "ranks": list(self.innocent), "hosts": []},
            "log_suffices": self.held,
            "reasoning": self.why,
        }


def read(files: Files, *, mended: bool = False) -> Left:
    """The facts of what is left; `mended`: with those of broken lines."""
    left = Left()
    owned = _owned(files)
    for entries in files.values():
        for entry in entries:
            known = entry.known or entry.folder in owned
            for line in entry.lines:
                if line.rank is not None and known:
                    left.seen.add(line.rank)
                for fact in line.facts + (line.doubtful if mended else ()):
                    _take(left, fact.what, fact.rank, fact.value, known)
    left.exits = {rank: code for rank, code in left.exits.items() if rank in left.ended}
    return left


def _owned(files: Files) -> set[tuple[str, int] | None]:
    """The folders of which a reader can tell the global rank: by a line in them, or by one of the same machine.

    A machine holds ranks in a row, so one pair of global and local rank tells all of them.
    """
    entries = [entry for group in files.values() for entry in group]
    told = {entry.folder[0] for entry in entries if entry.folder is not None and entry.known}
    for name, group in files.items():
        if any(fact.what == "exit" for entry in group for line in entry.lines for fact in line.facts):
            told.add(name.split("/")[0])
    return {entry.folder for entry in entries if entry.folder is not None and entry.folder[0] in told}


def _take(left: Left, what: str, rank: int | None, value: Any, known: bool) -> None:
    if what == "world":
        left.world = True
    elif what == "finished":
        left.finished = True
    elif rank is None:
        raise ValueError(f"a fact of {what} is of a rank")
    elif not known:
        left.nameless[value if what == "why" else what] += 1
    elif what == "work":
        guid, seq, signature, point_to_point = value
        left.waiting.add(rank)
        if not point_to_point:
            left.works[guid, seq][rank] = signature
    elif what == "state":
        guid, enqueued, completed = value
        left.states[guid, rank] = (enqueued, completed)
    elif what == "why":
        left.why[value].add(rank)
    elif what == "exit":
        left.ended.add(rank)
    elif what == "code":
        left.exits[rank] = value
    elif what == "task":
        left.tasks[rank] = value
    elif what == "host":
        left.told.add(rank)
    else:
        left.why[what].add(rank)


def judge(injected: Injected, shape: Shape, files: Files) -> tuple[Truth, ...]:
    """The truth about what is left; two where it hangs on whether a reader puts the halves of broken lines together."""
    doubtful = any(line.doubtful for entries in files.values() for entry in entries for line in entry.lines)
    readings = (False, True) if doubtful else (False,)
    truths = [SORTS[injected.sort](injected, shape, read(files, mended=mended)) for mended in readings]
    return tuple(dict.fromkeys(truths))


def _open(injected: Injected, shape: Shape, left: Left, why: str) -> Truth:
    """The lines do not hold who it was: nobody need be named, and of those that are unaccounted for anybody may be."""
    suspects = _unaccounted(shape, left) | set(injected.culprits)
    return Truth(
        why=why,
        category="unknown",
        acceptable=_either("unknown", *injected.acceptable, "data_loading_stall"),
        at_most="possible",
        suspects=tuple(sorted(suspects)),
        held=False,
    )


def _held(injected: Injected, shape: Shape, left: Left, why: str, at_most: str | None = None) -> Truth:
    """The culprits are certain."""
    return Truth(
        why=why,
        category=injected.category,
        acceptable=injected.acceptable,
        at_most=at_most,
        ranks=injected.culprits,
        hosts=_hosts(injected, shape, left),
        suspects=injected.suspects,
        never=injected.must_not,
        innocent=tuple(sorted(left.waiting - set(injected.culprits) - set(injected.suspects)))[:64],
    )


def _nameless(injected: Injected, shape: Shape, why: str, at_most: str | None = None) -> Truth:
    """What happened is certain, to whom is not: nobody need be named, the right one may be."""
    suspects = (*injected.culprits, *(shape.host(rank) for rank in injected.culprits))
    return Truth(
        why=why,
        category=injected.category,
        acceptable=injected.acceptable,
        at_most=at_most,
        suspects=suspects,
        never=injected.must_not,
    )


def _either(*categories: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(categories))


def _hosts(injected: Injected, shape: Shape, left: Left) -> tuple[str, ...] | None:
    if set(injected.culprits) <= left.told or (shape.nodes == 1 and left.told):
        return tuple(sorted({shape.host(rank) for rank in injected.culprits}))
    return None


def _unaccounted(shape: Shape, left: Left) -> set[int]:
    return set(range(shape.world)) - left.waiting


def _stall(injected: Injected, shape: Shape, left: Left) -> Truth:
    culprits = set(injected.culprits)
    missing = _unaccounted(shape, left)
    if left.world and missing == culprits:
        if _many(culprits, shape):
            return _open(injected, shape, left, "half of the ranks or more are silent, which may have another reason")
        if culprits <= left.seen:
            return _held(injected, shape, left, "everybody else waits, and the culprits have lines of their own")
        return _held(injected, shape, left, "everybody else waits; of the culprits no line is left", "possible")
    if left.world and missing >= culprits and all(_behind(rank, left) for rank in culprits):
        others = {rank for rank in missing - culprits if not _with_the_rest(rank, left)}
        why = "the counters of the culprits stand behind those of the rest"
        if len(others) * 2 < shape.world:
            truth = _held(injected, shape, left, why)
            return replace(truth, suspects=(*truth.suspects, *sorted(others)))
        return replace(_open(injected, shape, left, f"{why}, of most ranks nothing is known"), at_most=None)
    return _open(injected, shape, left, f"{len(missing)} ranks are unaccounted for")


def _many(ranks: set[int], shape: Shape) -> bool:
    """Whether so many are silent that the silence may be of the log and not of the ranks; one of two is not many."""
    return len(ranks) > 1 and len(ranks) * 2 >= shape.world


def _behind(rank: int, left: Left) -> bool:
    """Whether the rank's own counter of some group stands before a collective in which another waits."""
    return any(
        state[0] < seq
        for (guid, of), state in left.states.items()
        if of == rank
        for (group, seq), members in left.works.items()
        if group == guid and members
    )


def _with_the_rest(rank: int, left: Left) -> bool:
    """Whether the rank's own counters show it in the collective in which the others wait."""
    return any(
        state[0] >= seq
        for (guid, of), state in left.states.items()
        if of == rank
        for (group, seq), members in left.works.items()
        if group == guid and members
    )


def _fabric(injected: Injected, shape: Shape, left: Left) -> Truth:
    missing = _unaccounted(shape, left)
    if left.world and not missing:
        return _held(injected, shape, left, "all ranks say that they wait", "possible")
    return _open(injected, shape, left, f"{len(missing)} ranks are unaccounted for")


def _transport(injected: Injected, shape: Shape, left: Left) -> Truth:
    if not (left.why["transport"] or left.nameless["transport"]):
        return _fabric(injected, shape, left)
    return Truth(
        why="a transport error is named",
        category="network",
        acceptable=("network",),
        suspects=(*injected.suspects, *injected.hosts),
        never=injected.must_not,
    )


def _mismatch(injected: Injected, shape: Shape, left: Left) -> Truth:
    culprit = injected.culprits[0]
    group = shape.by_rank[culprit][injected.group]
    for (guid, _), members in sorted(left.works.items()):
        if guid != group.guid or culprit not in members or len(set(members.values())) < 2:
            continue
        alike = Counter(members.values())
        majority = max(alike, key=lambda signature: alike[signature])
        if alike[members[culprit]] == 1 and alike[majority] * 2 > group.size:
            return _held(injected, shape, left, "the culprit's own line differs from those of the majority")
        return Truth(
            why="two sides differ, and neither is clearly the odd one",
            category=injected.category,
            acceptable=injected.acceptable,
            ranks=None,
            suspects=group.members,
            never=injected.must_not,
            held=False,
        )
    if culprit not in left.waiting:
        return _mismatch_unseen(injected, shape, left)
    if any(guid == UNNAMED for guid, _ in left.works):
        return Truth(
            why="the lines do not name the group, which a reader may find by what stands side by side",
            category=injected.category,
            acceptable=_either(*injected.acceptable, "unknown"),
            suspects=(culprit, shape.host(culprit)),
            never=injected.must_not,
            held=False,
        )
    return Truth(
        why="the lines do not show a difference",
        category="unknown",
        acceptable=_either("unknown", "network", *injected.acceptable),
        at_most="possible",
        suspects=tuple(sorted(_unaccounted(shape, left) | set(injected.culprits))),
        held=False,
    )


def _mismatch_unseen(injected: Injected, shape: Shape, left: Left) -> Truth:
    """Of the rank that issued something else no line is left: it looks as if it never came."""
    stalled = _stall(injected, shape, left)
    return replace(
        stalled,
        acceptable=_either(*injected.acceptable, "data_loading_stall", "unknown"),
        at_most=None if stalled.held and stalled.at_most is None else "possible",
        why=f"no line of the culprit's own; {stalled.why}",
    )


def _crash(injected: Injected, shape: Shape, left: Left) -> Truth:
    culprit = injected.culprits[0]
    known = culprit in left.why["crash"]
    said = known or bool(left.nameless["crash"])
    if said and (known or left.exits.get(culprit) == 1):
        return _held(injected, shape, left, "the exception and its rank are in the lines")
    if said:
        return _nameless(injected, shape, "the exception is there, whose it is, is not")
    if left.exits.get(culprit) == 1:
        truth = _held(injected, shape, left, "the exit of the culprit is there, its exception is not", "possible")
        acceptable = _either(*injected.acceptable, "software", "unknown", "infrastructure")
        return replace(truth, category="unknown", acceptable=acceptable, never=())
    stalled = _stall(injected, shape, left)
    acceptable = _either(*stalled.acceptable, "data_loading_stall", "unknown", "infrastructure", "software")
    why = f"no exception is left; {stalled.why}"
    return replace(stalled, acceptable=acceptable, at_most="possible", never=(), innocent=(), why=why)


def _error(injected: Injected, shape: Shape, left: Left) -> Truth:
    """As a crash, but the exception does not tell whose fault it is: the rank may be named and need not."""
    truth = _crash(injected, shape, left)
    if truth.category != injected.category or not truth.ranks:
        return truth
    return replace(truth, ranks=(), hosts=None, suspects=(*truth.ranks, *truth.suspects))


def _killed(injected: Injected, shape: Shape, left: Left) -> Truth:
    culprit = injected.culprits[0]
    if left.exits.get(culprit) == -9:
        return _held(injected, shape, left, "the exit by SIGKILL is reported", injected.at_most)
    if left.tasks.get(culprit) == -9:
        return _nameless(injected, shape, "srun reports the end of a task", injected.at_most)
    return _crash(injected, shape, left)


def _heartbeat(injected: Injected, shape: Shape, left: Left) -> Truth:
    if left.why["heartbeat"] & set(injected.culprits):
        return _held(injected, shape, left, "its heartbeat monitor says that its watchdog is stuck", injected.at_most)
    return _stall(injected, shape, left)


def _machine(injected: Injected, shape: Shape, left: Left) -> Truth:
    missing = _unaccounted(shape, left)
    if left.world and missing == set(injected.suspects):
        return Truth(
            why="exactly the ranks of one machine are missing",
            category=injected.category,
            acceptable=injected.acceptable,
            at_most="possible",
            hosts=injected.hosts if missing & left.told and not _many(missing, shape) else None,
            suspects=injected.suspects,
            never=injected.must_not,
        )
    return _open(injected, shape, left, f"{len(missing)} ranks are unaccounted for")


def _none(_injected: Injected, _shape: Shape, left: Left) -> Truth:
    if left.finished:
        return Truth(why="the run says that it is finished", category="none", acceptable=("none",), hosts=())
    acceptable = ("none", "unknown")
    return Truth(
        why="no end is left", category="unknown", acceptable=acceptable, at_most="possible", hosts=(), held=False
    )


SORTS = {
    "stall": _stall,
    "fabric": _fabric,
    "transport": _transport,
    "mismatch": _mismatch,
    "crash": _crash,
    "error": _error,
    "killed": _killed,
    "heartbeat": _heartbeat,
    "machine": _machine,
    "none": _none,
}
