"""Who is meant where a line names no rank: by a supervisor's report of a dead process, or by being the only one left out.

Names a rank only where nothing leaves a choice; says nothing of the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from firstfault.analysis.cards import address
from firstfault.analysis.hostlist import short_host
from firstfault.analysis.state.groups import hang_state
from firstfault.analysis.state.joins import down_nodes
from firstfault.analysis.state.nodes import expand_hosts
from firstfault.model.evidence import Event, GlobalRank
from firstfault.model.lazy import lazy
from firstfault.model.words import Blame, Category, Mark

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.analysis.scene import Scene
    from firstfault.analysis.suspects import Suspect

IMAGE_PULL, IMAGE_THERE = "kubernetes.image_pull", "kubernetes.image_there"
_CONNECTION = lazy(
    r"(?i)^[\w.]*(?:connect|timeout|http|rpc|unavailable|protocol|socket)\w*:|connection (?:refused|reset|closed|aborted)|unavailable"
)
"""By the class of an exception or its words: it is about the process at the other end."""
_SEVERAL = lazy(r"\[repeated \d+x across cluster\]")
LATE = "jax.barrier_timeout"
MOST_LOST = 4
"""Ranks that may be named together; of more, what they share is the reason."""


class Lost(Struct, frozen=True, kw_only=True):
    """Processes that a supervisor names as gone or late."""

    ranks: tuple[GlobalRank, ...]
    hosts: tuple[str, ...]
    event: Event
    """The earliest line that names them."""
    late: bool
    """Whether they did not come to a barrier, of which they need not be dead."""


def named_lost(scene: Scene, events: Iterable[Event]) -> Lost | None:
    """The processes that reports name, where all reports name the same ones; None where they name none or differ.

    Args:
        scene: the attempt.
        events: lines about lost peers, earliest first.
    """
    named: dict[tuple[GlobalRank, ...], list[Event]] = {}
    for event in events:
        ranks = _lost(scene, event)
        if ranks:
            named.setdefault(ranks, []).append(event)
    if len(named) != 1:
        return None
    ranks, lines = next(iter(named.items()))
    if len(ranks) > MOST_LOST:
        return None
    hosts = {h for r in ranks if (h := scene.roster.host_of_rank(r)) is not None}
    if not hosts:
        hosts = {h for e in lines if scene.case.has(e, Mark.OF_ANOTHER) and (h := scene.roster.host(e)) is not None}
    return Lost(ranks=ranks, hosts=tuple(sorted(hosts)), event=lines[0], late=all(e.signature == LATE for e in lines))


def _lost(scene: Scene, event: Event) -> tuple[GlobalRank, ...]:
    told = event.fields.get("lost_ranks")
    if told is not None:
        return tuple(GlobalRank(int(n)) for n in told.split(",") if n.isdecimal())
    processes = event.fields.get("lost")
    if processes is not None:
        return _ranks_of_processes(scene, processes) or _ranks_inside(scene, event.fields.get("lost_in", ""), processes)
    if _SEVERAL.search(event.text):
        return ()  # the line stands for several processes and names one of them
    rank = scene.roster.rank(event) if scene.case.has(event, Mark.OF_ANOTHER) else None
    return () if rank is None else (rank,)


def _ranks_of_processes(scene: Scene, processes: str) -> tuple[GlobalRank, ...]:
    """Ranks of processes listed as `host/pid`; none where one of them cannot be told."""
    ranks: set[GlobalRank] = set()
    for process in processes.split(","):
        host, _, pid = process.rpartition("/")
        rank = scene.roster.rank_of_process(host, int(pid)) if pid.isdecimal() else None
        if rank is None:
            return ()
        ranks.add(rank)
    return tuple(sorted(ranks))


def _ranks_inside(scene: Scene, told: str, processes: str) -> tuple[GlobalRank, ...]:
    """Ranks that a report gives to processes in a communicator as large as the job, where they are the global ones."""
    world = scene.complete.expected or scene.roster.whole
    pairs = [one.partition("/") for one in told.split(",")]
    ranks = {int(rank) for rank, _, size in pairs if rank.isdecimal() and size.isdecimal() and int(size) == world}
    if scene.hang is not None and ranks & set(map(int, scene.hang.waiters)):
        return ()  # who prints that it waits is not gone: the report is of another job's communicator
    return tuple(map(GlobalRank, sorted(ranks))) if len(ranks) == len(set(processes.split(","))) else ()


def speaks_for_itself(scene: Scene, event: Event) -> bool:
    """Whether the rank of a line about a lost peer is that of its speaker, and not of the peer."""
    return not scene.case.has(event, Mark.OF_ANOTHER)


def of_one_node(scene: Scene, suspect: Suspect) -> Suspect:
    """A fault that its lines give to nobody, given to the one node to which other lines tie it."""
    if scene.case.has(suspect.first, Mark.NODE_UNNAMED):
        return _of_down_node(scene, suspect)
    return _of_image(scene, suspect)


def _of_down_node(scene: Scene, suspect: Suspect) -> Suspect:
    """A node failure of which the scheduler names no node, where its tools show one node of the job as down."""
    down = down_nodes(scene.events)
    listed = {
        short_host(h)
        for e in scene.events
        for name in ("nodes", "node_list")
        for h in expand_hosts(e.fields.get(name, ""))
    }
    known = listed | scene.roster.machines
    ours = {n for n in down if not known or short_host(n) in known}
    if len(ours) != 1 or (suspect.nature.blame is Blame.HOST and suspect.hosts):
        return suspect
    return replace(suspect, nature=replace(suspect.nature, blame=Blame.HOST), hosts=tuple(ours), unplaced=0)


def _of_image(scene: Scene, suspect: Suspect) -> Suspect:
    """An image that one node could not get while another node has the same image: it is that node's fault."""
    if suspect.nature.key != IMAGE_PULL or suspect.nature.blame is Blame.HOST or scene.roster.pods is None:
        return suspect
    images = {e.fields["name"] for e in suspect.events if "name" in e.fields}
    nodes = {n for e in suspect.events if (n := scene.roster.pods.node(e.fields.get("pod"))) is not None}
    placed = [e for e in scene.events if e.signature == IMAGE_THERE and e.fields.get("name") in images]
    elsewhere = {n for e in placed if (n := scene.roster.host(e)) is not None}
    others = {p for e in placed if (p := e.fields.get("pod")) is not None}
    failed = {p for e in suspect.events if (p := e.fields.get("pod")) is not None}
    if len(nodes) != 1 or nodes & elsewhere or failed & others or not placed:
        return suspect
    return replace(suspect, nature=replace(suspect.nature, blame=Blame.HOST), hosts=tuple(nodes), unplaced=0)


def left_out(scene: Scene, root: Suspect) -> Suspect:
    """A fault of one card of a machine, given to the one rank there that did not wait while all others of the job did."""
    hang = scene.hang
    if root.ranks or hang is None or len(root.hosts) != 1:
        return root
    if root.nature.category is not Category.GPU_CUDA or root.nature.blame is not Blame.HOST:
        return root
    cards = {a for e in root.events if (a := address(e.fields.get("pci", ""))) is not None}
    if len(cards) != 1:
        return root
    rank = only_absent(scene)
    host = None if rank is None else scene.roster.host_of_rank(rank)
    if rank is None or host is None or short_host(host) != short_host(root.hosts[0]):
        return root
    return replace(root, ranks=(rank,), unplaced=0)


def only_absent(scene: Scene) -> GlobalRank | None:
    """The one rank that did not wait in the collective in which all others did; None where there is none or several.

    Without a stated world size the ranks up to the highest one count, since a hole below it is sure to exist.
    """
    hang = scene.hang
    if hang is None:
        return None
    waiters = set(hang.waiters) or _assumed(scene)
    total = scene.complete.expected or max(scene.complete.at_least, max(waiters, default=-1) + 1)
    if total < 3 or len(waiters) != total - 1:
        return None
    away = set(map(GlobalRank, range(total))) - waiters
    return next(iter(away)) if len(away) == 1 else None


def _assumed(scene: Scene) -> set[GlobalRank]:
    """Ranks that wait by numbers that may be taken for global ones, where all who wait do so in the group of the whole job."""
    state = hang_state(scene)
    if len(state.stuck) != 1 or not state.stuck[0].default:
        return set()
    return {c.rank for c in state.stuck[0].pending}


def of_one_process(scene: Scene, event: Event) -> bool:
    """Whether a line is the kernel's word on the end of one process, which names no rank."""
    return event.signature.startswith("kernel.") and scene.case.has(event, Mark.DEATH)


def spoke_of_another(scene: Scene, root: Suspect, ranks: Iterable[GlobalRank]) -> bool:
    """Whether a line without a rank is the word of a process beside the job, of which the ranks that failed only complain.

    A server (an inference engine, a reward model, a parameter server) writes a file of its own, in which no rank speaks; a
    rank that fails with a broken connection as its own last word, in another file, did not fail of what that file tells.
    """
    event = root.first
    if event.signature.startswith("kernel.") or scene.roster.speaks_in(event.span.source):
        return False
    if any(f.span.source == event.span.source for f in scene.failures):
        return False
    wanted = set(ranks)
    complained = {r for e in scene.events if _of_connection(scene, e, event) and (r := scene.roster.rank(e)) in wanted}
    return bool(wanted) and complained == wanted


def _of_connection(scene: Scene, event: Event, other: Event) -> bool:
    """Whether an exception in another file than a line's is about a connection that broke or was refused."""
    exception = event.exception
    if exception is None or exception.ignored or event.span.source == other.span.source or event.who.rank is None:
        return False
    return (
        scene.case.has(event, Mark.PEER_LOST)
        or _CONNECTION.search(f"{exception.kind}: {exception.message}") is not None
    )
