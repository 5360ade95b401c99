"""The job's own map (its hosts, the cards and processes of its ranks, its job number) held against a machine's line.

A machine's log speaks of everything on that machine. A line about another machine, card, job or process than the job's
own lines state is no part of it; and what befell a machine all of whose ranks wait does not explain a rank that stays
away elsewhere. Acquits only where the map is whole on the point in question; must not choose between faults.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from firstfault.analysis.cards import address
from firstfault.analysis.foreign import akin
from firstfault.analysis.hostlist import short_host
from firstfault.analysis.suspects import nature_of
from firstfault.model.evidence import GlobalRank
from firstfault.model.lazy import lazy
from firstfault.model.words import Category, Mark, SourceKind, Strength

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from firstfault.analysis.cards import Address
    from firstfault.analysis.case import Case
    from firstfault.analysis.hangs import Hang
    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.facts import JobFact
    from firstfault.analysis.state.ranks import Roster
    from firstfault.analysis.suspects import Suspect
    from firstfault.model.evidence import Event, SourceId

MACHINE = ("kernel.", "kubernetes.", "container.")
"""Rooms of signatures whose lines are a machine's or a platform's, whichever job runs there."""
TOOLS = frozenset({"gpu.lost", "gpu.nvml_failed", "gpu.dcgm_xid"})
"""Signatures of what tools print about a machine's cards; in a job's own log they are the job's word."""
OF_A_CARD = frozenset({"kernel.xid", "kernel.gpu_off_bus", "gpu.lost", "gpu.nvml_failed", "gpu.dcgm_xid"})
"""Signatures of lines about one card, by its address."""
KILLS = ("kernel.oom_kill", "kernel.segfault")
WHY_KILLED = "kernel.oom_constraint"
BESIDE = 60
"""Lines in which the kernel tells of one kill: why, a table of processes at most this long, and whom."""
_RUNS_RANKS = lazy(
    r"(?i)python|^pt_|torch|train|^ray|mpi|slurm|srun|conda|deepspeed|accelerate|nccl|data|worker|main|sh$"
)
"""Names of programs that run ranks, load their data or start them; services that any job may have are not among them."""
_NUMBER = lazy(r"\d+")
_ELEMENT = lazy(r"(?<![\dA-Za-z])\d{3,12}_\d{1,8}(?=[-_.]|$)")
_IN_A_POD = lazy(
    r"(?i)-(?:worker|master|launcher|leader|replica|head)-?\d+(?:-\d+)?$|-[a-z0-9]{8,10}-[a-z0-9]{5}$|^[0-9a-f]{12}$"
)
"""Names that a controller gives to pods, and a runtime to containers: no machine's own log has these."""


class JobMap:
    """What the lines of one attempt state about where it ran; everything is None or empty where they do not state all."""

    def __init__(self, case: Case, roster: Roster, world: int | None, nodes: int | None, job: str | None) -> None:
        """Keeps what is asked.

        Args:
            case: of the attempt.
            roster: which rank ran where.
            world: stated number of ranks.
            nodes: stated number of machines.
            job: the scheduler's number of the job, as the job's own log states it.
        """
        self._case = case
        self._roster = roster
        self._world = world if world is not None else roster.whole
        self._nodes = nodes
        self._job = job

    @cached_property
    def homes(self) -> dict[GlobalRank, str]:
        """Short host of every rank of the job; empty where that of one is not stated."""
        found = {}
        for rank in map(GlobalRank, range(self._world or 0)):
            host = self._roster.host_of_rank(rank)
            if host is None:
                return {}
            found[rank] = short_host(host)
        return found

    @cached_property
    def hosts(self) -> frozenset[str]:
        """Short names of all machines of the job; empty where they are not all stated, or are names of containers."""
        known = frozenset(self.homes.values())
        if len(known) < (self._nodes or 1) or any(_IN_A_POD.search(h) for h in known):
            return frozenset()
        return known

    @cached_property
    def _shapes(self) -> frozenset[str]:
        return frozenset(_NUMBER.sub("#", h) for h in self.hosts)

    @cached_property
    def named(self) -> frozenset[str]:
        """Short hosts that the job's own logs speak of, as a speaker or as a peer."""
        kinds = self._case.kind_of
        logs = [e for e in self._case.events if kinds.get(e.span.source) is SourceKind.LOG and not _machines_word(e)]
        told = (h for e in logs for h in (e.who.host, e.fields.get("host"), e.fields.get("peer_host")) if h is not None)
        return frozenset(short_host(h) for h in told)

    @cached_property
    def _stores(self) -> frozenset[SourceId]:
        """Files beside the logs of a store's daemons: machines of the store are no machines of the job, and matter all the same."""
        folders = {s.id: s.path.partition("!")[0].rpartition("/")[0] for s in self._case.seen.sources}
        kept = {folders[i] for i, kind in self._case.kind_of.items() if kind is SourceKind.AISTORE}
        return frozenset(i for i, folder in folders.items() if folder in kept)

    def not_of_the_job(self, event: Event) -> bool:
        """Whether a machine's line is about a machine, a card, a job or a process that is none of the job's, by its own map."""
        if not self._asked(event):
            return False
        host = self._roster.host(event)
        short = None if host is None else short_host(host)
        return self._another_machine(event, short) or self._another_card(event, short) or self._another_job(event)

    def _asked(self, event: Event) -> bool:
        """Whether a line is a machine's word: the kernel's, a platform's, or a tool's in a file of its own."""
        if event.who.rank is not None or event.exception is not None:
            return False
        if event.signature in TOOLS:
            return event.span.source not in self._case.tracks and not self._roster.speaks_in(event.span.source)
        return _machines_word(event) or self._case.kind_of.get(event.span.source) is SourceKind.KERNEL

    def _another_machine(self, event: Event, host: str | None) -> bool:
        """Whether a line is of a machine that is named like those of the job, and is none of them.

        A machine may have several names, and a container's name is not its machine's: only names of one kind are compared.
        """
        if host is None or not self.hosts or host in self.hosts or host in self.named:
            return False
        return _NUMBER.sub("#", host) in self._shapes and event.span.source not in self._stores

    @cached_property
    def _cards(self) -> dict[str, set[Address]]:
        """Cards of the ranks of each machine of which every rank states one."""
        found: dict[str, dict[tuple[int | None, int | None], Address]] = {}
        for event, card in self._told_cards():
            host, pid = self._roster.host(event), event.fields.get("pid") or event.who.pid
            if host is not None:
                found.setdefault(short_host(host), {})[None if pid is None else int(pid), event.who.device] = card
        held = {h: set(cards.values()) for h, cards in found.items()}
        return {h: cards for h, cards in held.items() if len(cards) == len(self.ranks_on(h)) > 0}

    @cached_property
    def _owners(self) -> dict[Address, set[GlobalRank]]:
        """The ranks that hold a card of each address, whatever their machine; empty where not every rank states its card."""
        found: dict[Address, set[GlobalRank]] = {}
        for event, card in self._told_cards():
            rank = self._roster.rank(event)
            if rank is not None:
                found.setdefault(card, set()).add(rank)
        return found if set(self.homes) == {r for ranks in found.values() for r in ranks} else {}

    def _told_cards(self) -> Iterator[tuple[Event, Address]]:
        """Lines in which a process of the job states its card, with its address."""
        for event in self._case.marked(Mark.IDENTITY):
            card = address(event.fields.get("pci", ""))
            if card is not None and event.signature.startswith(("nccl.", "torch.", "framework.")):
                yield event, card

    def ranks_on(self, host: str) -> frozenset[GlobalRank]:
        """The ranks of a machine, by its short name; empty where not all ranks of the job are placed."""
        return frozenset(r for r, h in self.homes.items() if h == host)

    def _another_card(self, event: Event, host: str | None) -> bool:
        """Whether a line is about a card that no rank of its machine holds; where it names no machine, that none of the job holds."""
        if event.signature not in OF_A_CARD:
            return False
        card = address(event.fields.get("pci", ""))
        cards = self._owners if host is None else self._cards.get(host)
        return card is not None and bool(cards) and card not in (cards or ())

    def nobodys_card(self, event: Event) -> bool:
        """Whether a line is about a card of an address that no rank holds, of a machine on which no rank is known to run.

        It may be the job's all the same: to the kernel below a virtual machine the card has another address.
        """
        host, card = self._roster.host(event), address(event.fields.get("pci", ""))
        if event.signature not in OF_A_CARD or card is None or (host is not None and self.ranks_on(short_host(host))):
            return False
        return bool(self._owners) and card not in self._owners

    def _another_job(self, event: Event) -> bool:
        """Whether the kernel killed a process in the cgroup of another job than this one."""
        if not event.signature.startswith(KILLS) or self._job is None:
            return False
        told = self._job_of_kill(event)
        return told is not None and told != self._job

    def can_prove(self, event: Event) -> Strength:
        """The most that a machine's line proves of the job: less where nothing but the machine ties what it is about to it.

        A loader's process is a child of a rank with a number of its own, so that a name of theirs is never a stranger's.
        """
        pid, name, host = event.fields.get("pid", ""), event.fields.get("name", ""), self._roster.host(event)
        if not event.signature.startswith(KILLS) or not name or host is None or not self._asked(event):
            return Strength.ESTABLISHED
        if self._job is not None and self._job_of_kill(event) == self._job:
            return Strength.ESTABLISHED
        ranks = self.ranks_on(short_host(host))
        known = self._processes(host)
        if not ranks or not ranks <= set(known.values()) or not pid.isdecimal() or int(pid) in known:
            return Strength.ESTABLISHED
        return Strength.SUPPORTED if _RUNS_RANKS.search(name) is not None else Strength.POSSIBLE

    def a_strange_pod(self, hang: Hang | None, event: Event) -> bool:
        """Whether a pod has nothing of the job's names, and ranks of its machine wait: these did not end with it."""
        pod, host = event.fields.get("pod"), self._roster.host(event)
        if hang is None or pod is None or host is None or not event.signature.startswith("kubernetes."):
            return False
        lives = not self.ranks_on(short_host(host)).isdisjoint(hang.waiters)
        return lives and bool(self.hosts) and not akin(self._case, self._roster, pod)

    def _processes(self, host: str) -> dict[int, GlobalRank]:
        """The ranks of a machine by their processes, as lines that state both tell."""
        told = {e.who.pid for e in self._case.events} | {p.pid for p in self._case.seen.progress}
        told |= {int(n) for e in self._case.marked(Mark.IDENTITY) if (n := e.fields.get("pid", "")).isdecimal()}
        known = {pid: self._roster.rank_of_process(host, pid) for pid in told if pid is not None}
        return {pid: rank for pid, rank in known.items() if rank is not None}

    def _job_of_kill(self, event: Event) -> str | None:
        """The number of the job in whose cgroup a process was killed, by the kernel's line on why it killed it."""
        near = (
            e.fields["job_id"]
            for e in self._case.of({WHY_KILLED})
            if e.span.source == event.span.source
            and abs(e.span.line - event.span.line) <= BESIDE
            and e.fields.get("pid") == event.fields.get("pid")
            and "job_id" in e.fields
        )
        return next(near, None)

    def waits_there(self, hang: Hang | None, event: Event) -> frozenset[GlobalRank]:
        """The ranks elsewhere that stay away, where a machine's line is of a machine all of whose ranks wait for them.

        Returns:
            Empty where the line may explain the wait: a rank of its machine is not among those that wait, no rank that is
            known to have run stays away elsewhere, or the map does not tell.
        """
        if hang is None or not hang.waiters or not self.homes or not self._asked(event):
            return frozenset()
        if self._case.has(event, Mark.PEER_LOST) or self._case.has(event, Mark.STOP_SIGNAL):
            return frozenset()
        waiting = frozenset(hang.waiters)
        if self._roster.rank(event) in set(self.homes) - waiting:
            return frozenset()
        there = self._ranks_beside(event)
        away = frozenset(self.homes) - waiting
        if not there or not there <= waiting or not away or not away <= self._roster.seen:
            return frozenset()
        return away if 2 * len(away) < len(self.homes) else frozenset()

    def _ranks_beside(self, event: Event) -> frozenset[GlobalRank]:
        """The ranks of a line's machine; where no rank is known to run there, those that hold a card of the address that it names.

        A machine may have another name for its own kernel than for the job: then the card is theirs, and else nobody's.
        """
        host = self._roster.host(event)
        there = frozenset[GlobalRank]() if host is None else self.ranks_on(short_host(host))
        if there:
            return there
        card = address(event.fields.get("pci", "")) if event.signature in OF_A_CARD else None
        return frozenset() if card is None else frozenset(self._owners.get(card, ()))


def _machines_word(event: Event) -> bool:
    return event.signature.startswith(MACHINE)


def bystanders(case: Case, chart: JobMap, hang: Hang | None, events: Iterable[Event]) -> frozenset[int]:
    """Machines' lines (events by identity) that cannot explain the wait, since all ranks of their machine wait themselves."""
    return frozenset(id(e) for e in events if not reaches_beyond(case, e) and chart.waits_there(hang, e))


def reaches_beyond(case: Case, event: Event) -> bool:
    """Whether a fault is of what several machines use together: a link between them, or a server of files."""
    return nature_of(case, event).category is Category.NETWORK or case.has(event, Mark.OUTAGE)


def own_number(case: Case, facts: Mapping[str, JobFact]) -> str | None:
    """The scheduler's number of the job, as a job's log states it; None where none does, or of an element of an array.

    An element is called by its array's number and its own, and has a third one in the names of cgroups.

    Args:
        case: of the attempt.
        facts: of the job.
    """
    stated = facts.get("job_id")
    if stated is None or any(_ELEMENT.search(path.rsplit("/", 1)[-1]) for path in case.paths.values()):
        return None
    told = {case.kind_of.get(e.span.source) for e in stated.events}
    return str(stated.value) if SourceKind.LOG in told else None


def proves(scene: Scene, root: Suspect) -> Strength:
    """The most that the lines of a root prove of the job.

    No more than a possibility where the ranks beside it only wait, and of a card that nobody is known to hold.
    """
    chart, event = scene.chart, root.first
    if chart.waits_there(scene.hang, event) or all(chart.nobodys_card(e) for e in root.events):
        return Strength.POSSIBLE
    return Strength.POSSIBLE if chart.a_strange_pod(scene.hang, event) else chart.can_prove(event)
