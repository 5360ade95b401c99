"""On which machine a rank runs, and by which statement that is known: the only place that gives a host to a rank.

A host that a log names once is the machine of the process that printed that line, and of nobody else. A rank is given a host
only by a stated mapping (`Mapped`); where none is stated it has no host, however few machines the logs name.
"""

from __future__ import annotations

from bisect import bisect_right
from enum import Enum
from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from firstfault.analysis.hostlist import short_host
from firstfault.model.evidence import GlobalRank, LocalRank, SourceId
from firstfault.model.lazy import lazy
from firstfault.model.words import Mark, SourceKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from firstfault.analysis.case import Case
    from firstfault.model.evidence import Event, Who

_LAUNCHER = lazy(r"\b[IWEF]\d{4} [\d:.]+ (\d+) ")
"""The stamp of a launcher's line; the number behind it is of its process or thread."""
SPEAKERS = 2
"""Processes of one machine that must speak in a file before the file is that machine's: one may be the only one that names itself."""


class Mapped(Enum):
    """By which statement a rank is known to run on a host."""

    LINE = "a line of that rank or of its process names its host"
    TASK = "the scheduler says on which host the task of that number ran"
    ONE_MACHINE = "all ranks run on one machine, and the logs name it"
    BLOCK = "the launcher gives each machine a block of ranks, and another rank of its block is known to run there"
    FILE = "its lines stand in a file that holds the output of one machine"


def many(case: Case) -> Iterator[tuple[Who, SourceId]]:
    """Speakers of floods of lines in which each names its rank, also those of whom no line is kept."""
    for named in (n for n in case.seen.named if not n.tasks):
        for rank, (_, _, host) in named.ranks.items():
            if named.who.rank is None or named.who.rank == rank:
                who = structs.replace(named.who, rank=GlobalRank(rank), host=named.who.host or host or None)
                yield who, named.source


class Home(Struct, frozen=True):
    """A rank's machine."""

    host: str
    by: Mapped


class Stated(Struct, frozen=True, kw_only=True):
    """What the lines of one attempt state, from which machines of ranks follow."""

    host_of: dict[GlobalRank, str]
    """Host of each rank whose own lines, or whose process, name it."""
    conflicts: frozenset[GlobalRank]
    """Ranks of which lines state two hosts."""
    local_of: dict[GlobalRank, LocalRank]
    host_of_task: dict[int, str]
    """By task number; empty where the scheduler's tasks are not the ranks."""
    source_hosts: dict[SourceId, set[str]]
    ranks_in: dict[SourceId, set[GlobalRank]]
    """Ranks that speak in each source."""
    speakers: dict[SourceId, set[tuple[str, int]]]
    """Short host and process of the lines of each source that name both."""
    one_machine: bool
    """Whether all ranks are stated to run on one machine."""
    per_node: int | None
    """Ranks a machine."""


class Homes:
    """The machines of ranks and of files."""

    def __init__(self, case: Case, stated: Stated) -> None:
        self._case = case
        self._stated = stated
        self._only = only_of(h for hs in stated.source_hosts.values() for h in hs)
        self._split = self._one_file_a_machine()
        self._blocks = self._task_blocks() | self._block_hosts()
        self.spans = self._known_spans()
        self._bounds = sorted({edge for low, high, _ in self.spans for edge in (low, high + 1)})
        """Ranks at which some span begins, or has just ended: between two of them all ranks lie in the same spans."""
        self._within: dict[int, str | None] = {}
        self._files: dict[SourceId, str | None] = {}
        self._sources: dict[GlobalRank, list[SourceId]] = {}
        for source, ranks in stated.ranks_in.items():
            for rank in ranks:
                self._sources.setdefault(rank, []).append(source)

    def of(self, rank: GlobalRank) -> Home | None:
        """Machine of a global rank with the statement by which it is known; None where no mapping is stated."""
        stated = self._stated
        if rank in stated.conflicts:
            return None
        if rank in stated.host_of:
            return Home(stated.host_of[rank], Mapped.LINE)
        if int(rank) in stated.host_of_task:
            return Home(stated.host_of_task[int(rank)], Mapped.TASK)
        if stated.one_machine:
            return None if self._only is None else Home(self._only, Mapped.ONE_MACHINE)
        between = self._between(int(rank))
        if between is not None:
            return Home(between, Mapped.BLOCK)
        block = None if stated.per_node is None else self._blocks.get(int(rank) // stated.per_node)
        if block is not None:
            return Home(block, Mapped.BLOCK)
        files = only_of(h for s in self._sources.get(rank, ()) if (h := self.of_file(s)) is not None)
        return None if files is None else Home(files, Mapped.FILE)

    def _between(self, rank: int) -> str | None:
        """The machine whose span holds a rank; looked for once in each stretch, since there may be as many spans as machines."""
        stretch = bisect_right(self._bounds, rank)
        if stretch not in self._within:
            self._within[stretch] = only_of(host for low, high, host in self.spans if low <= rank <= high)
        return self._within[stretch]

    def of_file(self, source: SourceId) -> str | None:
        """The machine whose output a source is; None where it may hold the lines of several, though it names only one."""
        if source not in self._files:
            self._files[source] = self._of_file(source)
        return self._files[source]

    def _of_file(self, source: SourceId) -> str | None:
        host = only_of(self._stated.source_hosts.get(source, ()))
        if host is None:
            return self._only if self._stated.one_machine and not self._stated.source_hosts.get(source) else None
        if self._case.kind_of.get(source) not in {SourceKind.LOG, None} or self._stated.one_machine:
            return host
        if source in self._split or self._named_after_one(source):
            return host
        speaking = {who for who in self._stated.speakers.get(source, ()) if who[0] == short_host(host)}
        ranks = self._stated.ranks_in.get(source, ())
        return host if len(speaking) >= max(SPEAKERS, len(ranks)) else None

    def _named_after_one(self, source: SourceId) -> bool:
        """Whether the name of a file says that it is of one machine: a host, a node's number or a pod."""
        place = self._case.seen.place.get(source)
        return place is not None and (place.host, place.node_rank, place.label) != (None, None, None)

    def only(self) -> str | None:
        """The only host that any line of the job names; None where there are several or none."""
        return self._only

    def _one_file_a_machine(self) -> frozenset[SourceId]:
        """Logs of a job that has one for each machine, or each rank: several, of which no rank speaks in two.

        Logs of one rank each may name the same host, since several ranks run on one; fuller ones may not.
        """
        stated = self._stated
        logs = [
            s.id
            for s in self._case.seen.sources
            if s.kind is SourceKind.LOG and (stated.ranks_in.get(s.id) or stated.source_hosts.get(s.id))
        ]
        ranks = [r for s in logs for r in stated.ranks_in.get(s, ())]
        hosts = [h for s in logs for h in {short_host(h) for h in stated.source_hosts.get(s, ())}]
        named = sum(bool(stated.source_hosts.get(s)) for s in logs)
        each = all(len(stated.ranks_in.get(s, ())) == 1 for s in logs)
        apart = len(set(ranks)) == len(ranks) and len(hosts) == named and (each or len(set(hosts)) == len(hosts))
        return frozenset(logs) if len(logs) > 1 and apart else frozenset()

    def _known_spans(self) -> list[tuple[int, int, str]]:
        """First and last of consecutive ranks that one machine is known to hold, with that machine.

        A launcher gives the processes of one machine consecutive ranks in the order of their local ranks: those between two
        known ones of a machine are known where both keep the same distance, and only the first machine has a rank above 0
        that is its local rank too.
        """
        stated = self._stated
        pairs: dict[str, dict[int, int]] = {}
        for rank, local in stated.local_of.items():
            if rank in stated.host_of and rank not in stated.conflicts:
                pairs.setdefault(short_host(stated.host_of[rank]), {})[int(rank)] = int(local)
        found = []
        for host, known in pairs.items():
            offsets = {rank - local for rank, local in known.items()}
            if len(offsets) == 1 and max(known) > 0:
                found.append((0 if offsets == {0} else min(known), max(known), host))
        return [*found, *self._spans_of_files()]

    def _spans_of_files(self) -> Iterator[tuple[int, int, str]]:
        """First and last rank that speak in the log of one machine, with that machine, where no rank of another log is between.

        Of ranks that are dealt out to the machines in turn, others would be. A rank between them that says nothing runs there.
        """
        stated = self._stated
        edges = {s: (min(ranks), max(ranks)) for s in self._split if (ranks := stated.ranks_in.get(s))}
        ordered = sorted((low, high, s) for s, (low, high) in edges.items())
        reached = [-1, *accumulate((high for _, high, _ in ordered), max)]
        following = [*(low for low, _, _ in ordered[1:]), None]
        for (low, high, source), before, after in zip(ordered, reached, following, strict=False):
            host = only_of(stated.source_hosts.get(source, ()))
            alone = before < low and (after is None or high < after)
            if alone and host is not None and low < high < low + 2 * len(stated.ranks_in[source]):
                yield int(low), int(high), host

    def _task_blocks(self) -> dict[int, str]:
        """Host of each block of consecutive ranks, by a scheduler's word on some of its tasks: it deals them out in blocks."""
        size = self._stated.per_node
        if size is None or size < SPEAKERS:
            return {}
        found: dict[int, set[str]] = {}
        for task, host in self._stated.host_of_task.items():
            found.setdefault(task // size, set()).add(host)
        several = len(self._stated.host_of_task) > len(found)
        single = {block: only_of(hosts) for block, hosts in found.items()}
        if not several or None in single.values() or len(set(single.values())) < len(single):
            return {}
        return {block: host for block, host in single.items() if host is not None}

    def _block_hosts(self) -> dict[int, str]:
        """Host of each block of consecutive ranks, where local ranks show that machines hold such blocks."""
        stated = self._stated
        if stated.per_node is None or stated.per_node < 1:
            return {}
        pairs = {int(r): int(local) for r, local in stated.local_of.items()}
        if any(r % stated.per_node != local for r, local in pairs.items()) or not any(pairs.values()):
            # Local ranks that are all 0 also fit a launcher that deals ranks out to the machines in turn.
            return {}
        found: dict[int, set[str]] = {}
        for rank, host in stated.host_of.items():
            if rank not in stated.conflicts and int(rank) in pairs:
                found.setdefault(int(rank) // stated.per_node, set()).add(host)
        single = {block: only_of(hosts) for block, hosts in found.items()}
        return {block: host for block, host in single.items() if host is not None}


def children(case: Case, events: Iterable[Event]) -> int:
    """How many processes one launcher says that it started; 0 where nobody says it, or where several launchers do.

    A launcher is told by the process id in its lines; older ones print none, and then it cannot be told how many speak.
    """
    stopped: dict[SourceId, int] = {}
    failed: set[str] = set()
    launchers: set[str] = set()
    child = case.signatures_with(Mark.CHILD)
    for event in events:
        if event.signature not in child or (pid := event.fields.get("pid")) is None:
            continue
        found = _LAUNCHER.search(event.text)
        launchers.add("" if found is None else found[1])
        if case.has(event, Mark.STOP_SIGNAL):
            # Of many such lines only some are kept; each carries their number.
            stopped[event.span.source] = max(stopped.get(event.span.source, 0), event.count)
        else:
            failed.add(pid)
    return sum(stopped.values()) + len(failed) if len(launchers) == 1 and "" not in launchers else 0


def tasks_speak(
    case: Case,
    host_of_task: dict[int, str],
    source_hosts: dict[SourceId, set[str]],
    ranks_in: dict[SourceId, set[GlobalRank]],
) -> bool:
    """Whether the scheduler's tasks are ranks: several of them on each host, of the numbers of the ranks that speak in its file.

    A launcher runs once on a host, and starts the ranks itself; where one speaks, tasks are taken for no ranks.
    """
    if any(s.startswith("launcher.") for s in case.signatures):
        return False
    tasks: dict[str, set[int]] = {}
    for task, host in host_of_task.items():
        tasks.setdefault(short_host(host), set()).add(task)
    for host, own in tasks.items():
        files = [s for s, hosts in source_hosts.items() if {short_host(h) for h in hosts} == {host}]
        if len(own) < SPEAKERS or not own <= {int(r) for s in files for r in ranks_in.get(s, ())}:
            return False
    return bool(tasks)


def only_of(hosts: Iterable[str]) -> str | None:
    """The one host of some names, in its shortest form; None where there are none or several."""
    found = set(hosts)
    if len(found) < 2:
        return next(iter(found), None)
    forms = by_short_name(found)
    return next(iter(forms.values())) if len(forms) == 1 else None


def by_short_name(hosts: Iterable[str]) -> dict[str, str]:
    """Hosts by their name without the domain; of several forms of one host the shortest is shown."""
    return {short_host(h): h for h in sorted(set(hosts), key=lambda h: (-len(h), h))}
