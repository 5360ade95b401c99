"""Completes whom a line is about by what the lines around it state: reports in blocks, descriptions of pods, lists of tasks.

Joins only what lines state; a number is never taken for a rank because it would fit. Orders nothing and blames nobody.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import structs

from firstfault.analysis.hostlist import short_host
from firstfault.model.evidence import CAUGHT, Event, GlobalRank, LocalRank, Who
from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from firstfault.model.evidence import Failure, SourceId

ACTOR_DIED, ACTOR_REPORT = "ray.actor_died", "ray.actor_report"
NODE_LISTED = "slurm.node_listed"
DOWN = ("DOWN", "FAIL", "NOT_RESPONDING", "POWERED_DOWN")
"""First words of the states in which a node does not run jobs by its own fault."""
RAS_DEAD, RAS_MEMBER = "nccl.ras_process_dead", "nccl.ras_member"
RAS_GROUP, RAS_COMMUNICATOR, RAS_APART = "nccl.ras_group", "nccl.ras_communicator", "nccl.ras_ranks_apart"
ASCEND_HEAD = "gpu.npu_error_head"
ASCEND_LINES = frozenset({"gpu.npu_still_taken", "gpu.npu_exception", "nccl.hccl_failed", "nccl.hccl_timeout"})
ASCEND_BLOCK = 3
"""Lines behind the head of an Ascend error in which its code stands."""
MEMORY_KILL = "ray.memory_kill"
TASKS_LISTED, TASK_NAMED = frozenset({"jax.heartbeat_lost", "jax.barrier_timeout"}), "jax.task_named"
UNHANDLED = "python.unhandled_in_process"
JOINING = TASKS_LISTED | {ACTOR_DIED, UNHANDLED, ASCEND_HEAD, RAS_DEAD, RAS_APART}
"""Signatures of lines that are told something by those around them; beside them only those of caught errors are."""
DESCRIBED, ASSIGNED, ROW = "kubernetes.pod_described", "kubernetes.pod_assigned", "kubernetes.pod_row"
OF_THE_PROCESS = frozenset({"kubernetes.oom_killed", "kubernetes.exit_code"})
"""Lines about a pod that speak of the process in it, and not of the machine or of a pod that never ran."""
REPORT = 10
"""Lines in which Ray's report of one actor stands."""
NEAR = 3
"""Lines behind the line about missing tasks in which the list of them begins."""
LISTED = 64
"""Lines in which a list of tasks, or of a communicator's ranks, stands."""
HEAD_OF_POD = 12
"""Lines behind the name of a pod in which its description names the node."""
TRACE = 2_000
"""Lines behind the head of a traceback in which it ends."""
SAME_LINE = 8
"""Signatures that one line may have."""
LINKED = 40
"""Lines that each earlier exception of a chain may take up above the last one."""
OF_FOLDER = 2
"""Parts at the end of two paths that must be equal: the attempt and the local rank."""
_OBJECT = lazy(r"(?:\bpod/|\bPod:? (?:[a-z0-9-]{1,63}[./])?)([a-z0-9][a-z0-9.-]{0,252})")
_CELL = lazy(r"^(?:[a-z0-9-]{1,63} +)?([a-z0-9][a-z0-9.-]{0,252}) +\d{1,3}/\d{1,3} +\S")
_ACTOR = lazy(r"_0:(\d{1,4})$")
"""Actor of the first placement group, as verl names it: `<prefix>WorkerDict_0:6`; its ranks begin at 0."""
_ONE_KILLED = lazy(r"\b1 Workers? \(tasks / actors\) killed due to memory pressure")
_TASK = lazy(r"/task:(\d{1,6})\b")
_LIST_IN_LINE = lazy(r"(?i)(?:timed out task names|stopped sending heartbeats\)|[Tt]ask (?=/job)):? ?(.*)$")
_MAP_ENTRY = lazy(r"'([\w.-]{1,253})': \[([\d, ]{1,4000})\]")


class Pods:
    """Which node each pod runs on, and which rank its one process has, as descriptions, tables and events state it."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._nodes: dict[str, set[str]] = {}
        self._facts: dict[str, dict[str, int]] = {}
        self.sections: dict[SourceId, list[tuple[int, int, str]]] = {}
        """Descriptions in each source: first line, first line of the next one, pod."""
        described: dict[SourceId, list[Event]] = {}
        for event in events:
            if event.signature == DESCRIBED:
                described.setdefault(event.span.source, []).append(event)
            elif event.signature in {ASSIGNED, ROW}:
                pod, host = event.fields.get("pod"), event.fields.get("host")
                if pod is None or host is None:
                    continue
                self._nodes.setdefault(pod, set()).add(host)
                self._take(pod, event)
        for source, own in described.items():
            self._describe(source, sorted(own, key=lambda e: e.span.line))

    def _describe(self, source: SourceId, events: Sequence[Event]) -> None:
        heads = [e for e in events if "pod" in e.fields]
        for i, head in enumerate(heads):
            until = heads[i + 1].span.line if i + 1 < len(heads) else 1 << 62
            inside = [e for e in events if head.span.line < e.span.line < until]
            node = next((e for e in inside if "host" in e.fields), None)
            if node is None or node.span.line - head.span.line > HEAD_OF_POD:
                continue  # of something else than a pod, or of one that has no node yet
            pod = head.fields["pod"]
            self.sections.setdefault(source, []).append((head.span.line, until, pod))
            self._nodes.setdefault(pod, set()).add(node.fields["host"])
            for event in inside:
                self._take(pod, event)

    def _take(self, pod: str, event: Event) -> None:
        """What a line tells of the place of a pod's processes."""
        for name in ("gpus", "pod_rank", "pod_world", "pod_procs"):
            if (text := event.fields.get(name)) is not None and text.isascii() and text.isdecimal() and len(text) < 8:
                self._facts.setdefault(pod, {}).setdefault(name, int(text))

    def __bool__(self) -> bool:
        return bool(self._nodes)

    def node(self, pod: str | None) -> str | None:
        """The node of a pod; None where none is stated, or several are."""
        nodes = self._nodes.get(pod or "")
        return next(iter(nodes)) if nodes is not None and len({short_host(n) for n in nodes}) == 1 else None

    def rank(self, pod: str | None) -> GlobalRank | None:
        """The rank of the one process of a pod, by its environment; None where it may start several processes."""
        facts = self._facts.get(pod or "", {})
        rank, world = facts.get("pod_rank"), facts.get("pod_world")
        alone = facts.get("pod_procs", facts.get("gpus")) == 1
        return GlobalRank(rank) if alone and rank is not None and world is not None and rank < world else None

    @property
    def nodes(self) -> dict[str, str]:
        """Node by pod, of all pods of which it is known."""
        return {p: n for p in self._nodes if (n := self.node(p)) is not None}

    def of(self, event: Event, label: str | None) -> str | None:
        """The pod that an event is about: by its line, by the description in which it stands, or by the name of its file.

        Args:
            event: a line of a cluster's tools, or of a log.
            label: the pod in the name of the file.
        """
        if (told := event.fields.get("pod")) in self._nodes:
            return told
        found = _OBJECT.search(event.text) or _CELL.match(event.text)
        if found is not None and found[1] in self._nodes:
            return found[1]
        for first, until, pod in self.sections.get(event.span.source, ()):
            if first <= event.span.line < until:
                return pod
        return label if label in self._nodes else None


def joined(
    events: Sequence[Event], place: Mapping[SourceId, Who], pods: Pods, *, caught: frozenset[str] = frozenset()
) -> tuple[Event, ...]:
    """Events of one attempt with the process, the host or the rank that lines around them state.

    Args:
        events: of one attempt.
        place: what the path of each source tells.
        pods: of the same attempt.
        caught: signatures of lines by which a program says that it caught an error and goes on.
    """
    sources: dict[SourceId, list[Event]] = {}
    for event in events:
        sources.setdefault(event.span.source, []).append(event)
    changed: dict[int, Event] = {}
    for own in sources.values():
        told = {e.signature for e in own}
        if not told & JOINING and told.isdisjoint(caught):
            continue  # as it is with nearly all of a thousand files
        own.sort(key=lambda e: e.span.offset)
        _actors(own, changed)
        _tasks(own, changed)
        _unhandled(own, changed)
        _headed(own, changed)
        _ras(own, changed)
        _caught(own, caught, changed)
    _killed(events, changed)
    if pods:
        for event in events:
            label = place[event.span.source].label if event.span.source in place else None
            _in_pod(changed.get(id(event), event), id(event), pods, label, changed)
    return tuple(changed.get(id(e), e) for e in events) if changed else tuple(events)


def _in_pod(event: Event, key: int, pods: Pods, label: str | None, changed: dict[int, Event]) -> None:
    """Gives a line of the cluster's tools about a pod that pod's node, and the rank where it speaks of the process."""
    if event.signature in {DESCRIBED, ASSIGNED, ROW} or event.who.host is not None:
        return
    if event.exception is not None and event.signature != "gpu.lost":
        return
    pod = pods.of(event, label if event.signature.startswith("kubernetes.") else None)
    node = pods.node(pod)
    if pod is None or node is None:
        return
    rank = pods.rank(pod) if event.signature in OF_THE_PROCESS else None
    who = structs.replace(event.who, host=node, rank=event.who.rank if rank is None else rank)
    changed[key] = structs.replace(event, who=who, fields={**event.fields, "pod": pod})


def down_nodes(events: Iterable[Event]) -> frozenset[str]:
    """Nodes that the scheduler's tools show as down."""
    found: set[str] = set()
    node: dict[SourceId, str] = {}
    for event in sorted(events, key=lambda e: (e.span.source, e.span.offset)):
        if event.signature != NODE_LISTED:
            continue
        if "node" in event.fields:
            node[event.span.source] = event.fields["node"]
        if "down" in event.fields:
            found.add(event.fields["down"])
        named = node.get(event.span.source)
        if named is not None and event.fields.get("node_state", "").startswith(DOWN):
            found.add(named)
    return frozenset(found)


def _ras(events: Sequence[Event], changed: dict[int, Event]) -> None:
    """Gives NCCL's lines about processes that are dead, or that gave no data, those that the list below names, as `host/pid`.

    With each goes the rank that the report gives it in a communicator, and that communicator's size, as `rank/size`.
    """
    inner = _ras_ranks(events)
    for i, event in enumerate(events):
        if event.signature != RAS_DEAD and (event.signature != RAS_APART or "Missing" not in event.text):
            continue
        line, named = event.span.line, set[str]()
        for below in events[i + 1 :]:
            if below.signature != RAS_MEMBER or below.span.line != line + 1:
                break
            line = below.span.line
            if "pid" in below.fields and "host" in below.fields:
                named.add(f"{below.fields['host']}/{below.fields['pid']}")
        if named:
            ranks = [r for n in named for r in inner.get(n, ())]
            told = {"lost_in": ",".join(sorted(ranks))} if named <= set(inner) else {}
            changed[id(event)] = structs.replace(
                event, fields={**event.fields, "lost": ",".join(sorted(named)), **told}
            )


def _ras_ranks(events: Sequence[Event]) -> dict[str, list[str]]:
    """Process -> its ranks in communicators of which the report's own table states the size, as `rank/size`."""
    sizes: dict[str, set[str]] = {}
    for event in events:
        if event.signature == RAS_GROUP and "ras_size" in event.fields:
            sizes.setdefault(event.fields.get("ras_group", ""), set()).add(event.fields["ras_size"])
    found: dict[str, list[str]] = {}
    for i, event in enumerate(events):
        told = sizes.get(event.fields.get("ras_group", ""), set())
        if event.signature != RAS_COMMUNICATOR or len(told) != 1:
            continue
        for below in events[i + 1 :]:
            if below.signature == RAS_COMMUNICATOR or below.span.line - event.span.line > LISTED:
                break
            fields = below.fields
            if below.signature == RAS_MEMBER and {"group_rank", "host", "pid"} <= fields.keys():
                process = f"{fields['host']}/{fields['pid']}"
                found.setdefault(process, []).append(f"{fields['group_rank']}/{next(iter(told))}")
    return found


def _actors(events: Sequence[Event], changed: dict[int, Event]) -> None:
    """Gives the lines about a dead actor the process, address and rank that Ray's report between them tells."""
    for i, event in enumerate(events):
        if event.signature != ACTOR_DIED or "pid" in event.fields:
            continue
        block = [e for e in events[i + 1 :] if e.span.line - event.span.line <= REPORT]
        report = [e for e in block if e.signature == ACTOR_REPORT]
        if not report:
            continue
        stated = {k: v for e in report for k, v in e.fields.items()}
        if "pid" not in stated or len([e for e in report if "pid" in e.fields]) != 1:
            continue
        rank = _ACTOR.search(stated.get("name", ""))
        behind = [e for e in block if e.signature != ACTOR_REPORT and e.span.line > report[-1].span.line]
        for about in [event, *(e for e in behind if e.span.line - report[-1].span.line <= 1)]:
            old = about.who
            who = Who(
                rank=old.rank if rank is None else GlobalRank(int(rank[1])),
                host=stated.get("host", old.host),
                pid=int(stated["pid"]),
                label=old.label,
            )
            changed[id(about)] = structs.replace(about, who=who, fields={**about.fields, "pid": stated["pid"]})


def _killed(events: Sequence[Event], changed: dict[int, Event]) -> None:
    """Gives a node's line about its one killed worker the process of the only actor that is reported dead on that node."""
    dead = {(e.who.host, e.who.pid) for e in changed.values() if e.signature == ACTOR_DIED}
    for event in events:
        found = _ONE_KILLED.search(event.text) if event.signature == MEMORY_KILL else None
        if found is None or event.who.pid is not None:
            continue
        there = [pid for host, pid in dead if host is not None and host == (event.fields.get("host") or event.who.host)]
        if len(there) == 1:
            changed[id(event)] = structs.replace(event, who=structs.replace(event.who, pid=there[0]))


def _tasks(events: Sequence[Event], changed: dict[int, Event]) -> None:
    """Gives JAX's lines about missing tasks the numbers of those tasks: process indices, in its own line or in the list below."""
    for i, event in enumerate(events):
        if event.signature not in TASKS_LISTED:
            continue
        inside = _LIST_IN_LINE.search(event.text)
        named = set(_TASK.findall(inside[1])) if inside is not None else set()
        line, reach = event.span.line, NEAR
        for below in events[i + 1 :]:
            if below.span.line > line + reach or below.span.line - event.span.line > LISTED:
                break
            if below.signature == TASK_NAMED and below.span.line > line:
                reach = 1
                named.add(below.fields["jax_task"])
                line = below.span.line
        if named:
            lost = ",".join(sorted(named, key=int))
            changed[id(event)] = structs.replace(event, fields={**event.fields, "lost_ranks": lost})


def _unhandled(events: Sequence[Event], changed: dict[int, Event]) -> None:
    """Gives a traceback the process that the line before it names; where two such lines stand before it, neither is believed."""
    heads: list[Event] = []
    for event in events:
        if event.signature == UNHANDLED:
            heads.append(event)
        elif event.exception is not None:
            near = [h for h in heads if event.span.line - h.span.line <= TRACE]
            if len(near) == 1 and event.who.pid is None and "pid" in near[0].fields:
                who = structs.replace(event.who, pid=int(near[0].fields["pid"]))
                changed[id(event)] = structs.replace(event, who=who)
            heads = []


def _caught(events: Sequence[Event], caught: frozenset[str], changed: dict[int, Event]) -> None:
    """Marks what stands in a line that says that an error was caught, and the traceback that begins right below it."""
    for i, line in enumerate(events):
        if line.signature not in caught:
            continue
        for event in events[max(0, i - SAME_LINE) :]:
            below = event.span.line - line.span.line
            if below > TRACE:
                break
            error = event.exception
            # A frame has its place, its source and maybe a row of carets; above them stands the heading.
            reach = 0 if error is None else 3 * len(error.frames) + 2 + LINKED * len(error.chained_from)
            if 0 <= below <= reach and event is not line and event.who.rank == line.who.rank:
                old = changed.get(id(event), event)
                changed[id(event)] = structs.replace(old, fields={**old.fields, CAUGHT: "1"})
            if error is not None and below > 0:
                break  # the next one is another's


def _headed(events: Sequence[Event], changed: dict[int, Event]) -> None:
    """Gives the lines of a block of an Ascend error the rank that its head states."""
    head: Event | None = None
    for event in events:
        if event.signature == ASCEND_HEAD:
            head = event
        elif head is not None and event.span.line - head.span.line <= ASCEND_BLOCK:
            rank = head.who.rank
            if event.signature in ASCEND_LINES and event.who.rank is None and rank is not None:
                changed[id(event)] = structs.replace(event, who=structs.replace(event.who, rank=rank))


def rank_map(text: str) -> dict[str, tuple[GlobalRank, ...]]:
    """Ranks by host, in the order of their local ranks, of a map that DeepSpeed's launcher prints."""
    found: dict[str, tuple[GlobalRank, ...]] = {}
    for host, ranks in _MAP_ENTRY.findall(text):
        found[host] = tuple(GlobalRank(int(n)) for n in re.findall(r"\d+", ranks))
    return found


def size_of_group(event: Event) -> int | None:
    """Size of the group that a process joins, as a line of NCCL or gloo states it."""
    size, peers = event.fields.get("size", ""), event.fields.get("peers", "")
    if size.isdecimal():
        return int(size)
    return int(peers) + 1 if peers.isdecimal() else None


def world_of_groups(events: Iterable[Event]) -> int | None:
    """The size of the group that holds every process that joined any: the whole job; None where no group does."""
    joins = [(e, n) for e in events if (n := size_of_group(e)) is not None]
    processes = {(e.fields.get("host") or e.who.host, e.fields.get("pid") or e.who.pid) for e, _ in joins}
    if any(pid is None for _, pid in processes):
        return None
    largest = max((n for _, n in joins), default=0)
    return largest if largest > 1 and len(processes) == largest else None


def process_of(event: Event) -> tuple[int, LocalRank] | None:
    """Process id and local rank of a process that a launcher says to have started."""
    pid, local = event.who.pid, event.who.local_rank
    return None if pid is None or local is None else (pid, local)


def listed_process(folder: str, failures: Iterable[Failure]) -> GlobalRank | None:
    """The rank of a launcher's folder for one process, by the path of the error file that its list of failures states.

    Every node counts its own processes and attempts, so of equal ends of two paths the one of a host in the folder's
    path counts, and none where no host tells them apart.

    Args:
        folder: shown path up to `attempt_0/1`.
        failures: entries of all launchers.
    """
    parts = re.split(r"[/!]", folder)
    best: dict[int, set[tuple[GlobalRank, str | None]]] = {}
    for failure in failures:
        if failure.who.rank is None or not failure.error_file:
            continue
        there = failure.error_file.split("/")[:-1]
        same = 0
        while same < min(len(parts), len(there)) and parts[-1 - same] == there[-1 - same]:
            same += 1
        if same >= OF_FOLDER:
            best.setdefault(same, set()).add((failure.who.rank, failure.who.host))
    if not best:
        return None
    found = best[max(best)]
    here = {short_host(p) for p in parts}
    own = {r for r, host in found if host is not None and short_host(host) in here}
    ranks = own or {r for r, _ in found}
    return next(iter(ranks)) if len(ranks) == 1 else None
