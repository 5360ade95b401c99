"""What goes wrong inside the cluster, and what each daemon writes of it.

A fault takes the cluster and the time at which a client is hit; it leaves records, counts, disk load and process ends with
the daemons, and returns the truth: origin, first sign, chain of marked lines. It knows nothing of what the client prints.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .daemons import HEALTHY, Cluster, Load, Node

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

OOS, LOW_CAPACITY, DISK_FAULT, RESTARTED, LOW_MEMORY, OOM = 256, 2048, 8192, 128, 4096, 512
PIPE = "write: broken pipe"


@dataclass
class Fault:
    """The truth of one fault."""

    origin: Node | None
    """Where it began; None where no daemon is to blame."""
    first: float
    """When the first line that is true evidence was due."""
    hit: float
    """When the client was hit."""
    answer: str
    """What the client meets: short, slow, rejected, reset, io, capacity, refused, membership, aborted."""
    chain: list[tuple[str, str]] = field(default_factory=list)
    """Marks of lines in the order of cause and effect, each with what happened."""
    message: str = ""
    """The server's words, where the client is told some."""
    status: int = 0
    dt: Node | None = None
    """The target that answers the client."""
    suspects: tuple[Node, ...] = ()
    """Who may be named beside the origin without being wrong."""


def wire(source: Node, to: Node, what: str = PIPE) -> str:
    return f"write tcp {source.address}:51082->{to.address}:51082: {what}"


def saturate(
    cluster: Cluster, node: Node, start: float, end: float, rng: random.Random, disk: int = 0
) -> list[tuple[str, str]]:
    """One disk of `node` is at its limit; the chain of what is written of it."""
    node.loads.append(Load(start, end, disk, rng.randint(97, 99)))
    at = start + rng.uniform(40, 90)
    number = 0
    while at < end:
        said = node.dialect.pressure(cluster.xact, "low", "low", "critical", 97 + number)
        if said is not None:
            node.say(at, "W", *said, mark="pressure" if not number else "")
        node.bump(at, "err.soft.getbatch.n" if node.dialect.getbatch_counters else "err.get.n", rng.randint(1, 9))
        number += 1
        at += rng.uniform(61, 150)
    soon = start + rng.uniform(90, 240)
    for step, (severity, place, text) in enumerate(node.dialect.housekeeping("low", "low", "critical", 99)):
        node.say(soon + step * 0.0001, severity, place, text, "busy_hk" if not step else "")
    steps = (
        [("pressure", f"{node.host}: batches are slowed down, a disk is at its limit")]
        if node.dialect.admission
        else []
    )
    return [
        ("disk", f"{node.host}: a disk is at its limit"),
        *steps,
        ("busy_hk", f"{node.host}: housekeeping sees the disk at its limit"),
    ]


def late_abort(cluster: Cluster, origin: Node, hit: float, rng: random.Random) -> Fault:
    """A busy disk makes a batch late, its client leaves, a late entry aborts the job on all targets."""
    first = hit - rng.uniform(900, 2200)
    chain = saturate(cluster, origin, first, hit + 30, rng)
    dialect, xact = origin.dialect, cluster.xact
    wid = cluster.wid(rng)
    cause = dialect.out_of_bounds(xact, origin.name, rng.randint(20, 120), wid)
    origin.say(
        hit - rng.uniform(0.3, 2.0),
        "W",
        "moss:1599",
        f"{xact} Warning: failed to transmit GET response [ write tcp {origin.address}:51081->10.1.7.21:40112: {PIPE} ]",
        "dropped",
    )
    if dialect.version <= (4, 4):
        origin.say(hit, "E", "moss:758", f"{xact} {origin.name} RecvObj: {cause}", "abort")
    origin.say(hit + 0.00008, "I", "moss:311", f"{cluster.short} aborting: {cause}", "aborting")
    if dialect.version >= (4, 5):
        origin.say(hit + 0.0001, "W", "moss:314", f"{xact} {origin.name} bcast abort [ {cause} ]")
    for number, peer in enumerate(node for node in cluster.targets if node is not origin):
        name = f"shards/audio_{rng.randint(1000, 4999)}.tar"
        severity, place, text = dialect.not_found(cluster.xid, name, peer.name, origin.name, number + 1)
        origin.say(hit + 0.002 + number * 0.0004, severity, place, text)
        if dialect.version <= (4, 2) or number == 0:
            place, text = dialect.terminated(
                peer.id, origin.id, f"{cluster.bucket}/{name}", 188_411, wire(peer, origin)
            )
            peer.say(hit + 0.003 + number * 0.0004, "E", place, text, f"echo{number}")
        if not dialect.relays:
            continue
        relayed = dialect.relayed(xact, origin.name, cause)
        peer.say(hit + 0.0042 + number * 0.0004, "I", "moss:311", f"{cluster.short} aborting: {relayed}")
        if dialect.version <= (4, 4):
            peer.say(hit + 0.0043 + number * 0.0004, "W", "moss:749", relayed)
    origin.bump(hit + 0.01, "err.getbatch.n" if dialect.getbatch_counters else "err.get.n", rng.randint(1, 4))
    chain += [
        ("dropped", "a client of a slow batch has left"),
        ("abort", "a late entry aborts the job"),
        ("aborting", "the job is aborted on all targets"),
    ]
    return Fault(origin, first, hit, "short", chain, dt=origin)


def slow_sender(cluster: Cluster, origin: Node, hit: float, rng: random.Random) -> Fault:
    """A busy disk on one sender; another target assembles the batch and gives up on the missing entries."""
    first = hit - rng.uniform(900, 2200)
    origin.loads.append(Load(first, hit + 600, 1 % len(origin.disks), rng.randint(97, 99)))
    soon = first + rng.uniform(90, 240)
    for step, (severity, place, text) in enumerate(origin.dialect.housekeeping("low", "low", "critical", 99)):
        origin.say(soon + step * 0.0001, severity, place, text, "busy_hk" if not step else "")
    others = [node for node in cluster.targets if node is not origin]
    dt = rng.choice(others)
    wid = cluster.wid(rng)
    timed_out = dt.dialect.entry_timeout(cluster.xact, dt.name, rng.randint(8, 100), wid)
    if dt.dialect.version >= (4, 5):
        work = f'[ work:wid="{wid}" objs:[128 23.00MiB] age:41s ] streaming: true'
        dt.say(hit, "W", "moss:684", f"get-batch[{cluster.xid}] err: {timed_out} {work}", "missing")
    else:
        path = f"GET /v1/ml/moss/{cluster.bucket_name}"
        dt.say(hit, "E", "", f"{timed_out}: {path} (stack: [moss.go:1250 <- moss.go:1188 <- ml.go:302])", "missing")
    counted = dt.dialect.getbatch_counters
    for number in range(6):
        dt.bump(hit - 35 * number, "err.soft.getbatch.n" if counted else "err.get.n", 1)
    dt.bump(hit, "err.getbatch.n" if counted else "err.get.n", 1)
    if counted:
        dt.bump(hit, "getbatch.rxwait.ns", 31_000_000_000)
    chain = [
        ("disk", f"{origin.host}: a disk is at its limit"),
        ("busy_hk", f"{origin.host}: housekeeping sees the disk at its limit"),
        ("missing", f"{dt.host}: an entry of a peer did not come in time"),
    ]
    return Fault(origin, first, hit, "short", chain, dt=dt)


def rejected(cluster: Cluster, origin: Node, hit: float, rng: random.Random) -> Fault:
    """The target takes no more batches: memory critical, or from 4.5 on a disk at its limit."""
    dialect = origin.dialect
    by_disk = dialect.version >= (4, 5) and rng.random() < 0.5
    first = hit - rng.uniform(300, 900)
    if by_disk:
        chain = saturate(cluster, origin, first, hit + 400, rng)
        mem, disk = "low", "critical"
    else:
        chain = _short_of_memory(origin, first, hit + 200, rng)
        mem, disk = "critical", "low"
    at = first + 60
    while at < hit + 60:
        origin.bump(at, "err.getbatch.n", rng.randint(2, 20))
        at += 30
    said = dialect.rejected(cluster.xact, cluster.wid(rng), mem, disk, 12)
    return Fault(origin, first, hit, "rejected", chain, message=said, status=429, dt=origin)


def _short_of_memory(
    node: Node, start: float, end: float, rng: random.Random, *, recovers: bool = True
) -> list[tuple[str, str]]:
    node.say(start, "W", "common:556", f"{node.name} {node.id}.gmm alert: low memory", "low_memory")
    node.flags.append((start, HEALTHY + LOW_MEMORY))
    at, number = start + 10, 0
    while at < end:
        node.say(at, "W", "gc:50", node.dialect.memory(node.id, 174 + number % 3, 1), "gc" if not number else "")
        node.say(at + 0.4, "W", "oom:64", f"free-mem runtime: {rng.randint(300, 700)}.118ms")
        if number == 1:
            node.say(at + 0.5, "E", "memsys:71", node.dialect.extreme(), "extreme")
            node.flags.append((at, HEALTHY + OOM))
            node.say(at + 0.6, "W", "common:549", f"{node.name} {node.id}.gmm alert: oom", "oom_alert")
        number += 1
        at += rng.uniform(50, 100)
    if recovers:
        node.flags.append((end, HEALTHY))
        node.say(end, "I", "common:564", f"{node.name} {node.id}.gmm back to normal")
    return [
        ("low_memory", f"{node.host}: memory runs short"),
        ("gc", f"{node.host}: memory is given back under pressure"),
        ("extreme", f"{node.host}: memory is used up"),
        ("oom_alert", f"{node.host}: out-of-memory alert"),
    ]


def killed(cluster: Cluster, origin: Node, hit: float, rng: random.Random) -> Fault:
    """The target's process is killed for memory and starts again; what it had not flushed is lost."""
    first = hit - rng.uniform(150, 400)
    chain = _short_of_memory(origin, first, hit - 1, rng, recovers=False)
    lost = rng.uniform(2, 35)
    chain += gone(cluster, origin, hit, rng, lost=lost, down=rng.uniform(50, 90))
    return Fault(origin, first, hit, "reset", chain, dt=origin)


def panic(cluster: Cluster, origin: Node, hit: float, rng: random.Random) -> Fault:
    """The target's process dies of a Go panic, which only its stderr shows."""
    number = rng.randint(100, 999)
    for step, text in enumerate(
        (
            "panic: runtime error: invalid memory address or nil pointer dereference",
            f"[signal SIGSEGV: segmentation violation code=0x1 addr=0x18 pc=0xe1{number}c]",
            "",
            f"goroutine {number}812 [running]:",
            "github.com/NVIDIA/aistore/core.(*LOM).Load(0x0, 0x1, 0x0)",
            "\t/go/src/aistore/core/lom.go:512 +0x3c",
            "github.com/NVIDIA/aistore/ais.(*getOI).getObject(0xc0049a2000)",
            "\t/go/src/aistore/ais/tgtobj.go:661 +0x9f",
        )
    ):
        origin.journal.raw.append((hit - 0.2 + step * 0.00001, text, f"panic{step}" if text else ""))
    chain = [(f"panic{step}", f"{origin.host}: the process dies of a panic") for step in range(8)]
    chain += gone(cluster, origin, hit, rng, lost=rng.uniform(1, 20), down=rng.uniform(20, 60))
    return Fault(origin, hit - 0.2, hit, "reset", chain, dt=origin)


def gone(
    cluster: Cluster, node: Node, at: float, rng: random.Random, *, lost: float, down: float
) -> list[tuple[str, str]]:
    """The process of a target ends without a word and starts again after `down` seconds."""
    node.ends.append((at, lost))
    start = at + down
    node.starts.append(start)
    node.flags.append((start, HEALTHY + RESTARTED))
    error = f"dial tcp {node.address}:51082: connect: connection refused"
    smap = cluster.map(cluster.smap)
    told = node.dialect.kalive(cluster.primary.name, node.name, error, smap)
    removed = down > 30
    for step, (severity, place, text) in enumerate(told if removed else told[:2]):
        cluster.primary.say(at + 8 + step * 9.0, severity, place, text, f"kalive{step}")
    cluster.primary.bump(at + 8, "err.kalive.n", 2)
    new = cluster.map(cluster.smap + 2)
    for number, peer in enumerate(other for other in cluster.targets if other is not node):
        if node.dialect.getbatch:
            place, text = node.dialect.terminated(
                peer.id,
                node.id,
                f"{cluster.bucket}/shards/audio_{rng.randint(1000, 4999)}.tar",
                188_411,
                f"read tcp {peer.address}:51082->{node.address}:51082: read: connection reset by peer",
            )
            peer.say(at + 0.05 + number * 0.002, "E", place, text, f"lost{number}")
        if removed:
            peer.say(
                at + 27,
                "I",
                "htrun:1860",
                f"msync Rx: new {cluster.map(cluster.smap + 1, len(cluster.targets) - 1)} ( have v{cluster.smap} <-- {cluster.primary.name} )",
            )
    for after, severity, place, text in (
        (1.2, "I", "target:449", f"{node.name} loaded {smap}"),
        (1.4, "I", "htrun:2157", f"{node.name}: joined cluster via http://{cluster.primary.host}:51082"),
        (2.1, "I", "gfn:44", "timed on"),
        (7.4, "I", "htrun:2330", f"{node.name} via primary health: cluster startup Ok, {new}"),
        (7.5, "I", "target:550", f"{node.name} is ready"),
        (7.6, "I", "common:463", "Starting targetstats"),
    ):
        node.say(start + after, severity, place, text, "ready" if "is ready" in text else "")
    cluster.primary.say(start + 1.4, "I", "clustermap:370", f"joined {node.name} -> {new}", "joined")
    return [
        ("kalive0", f"{cluster.primary.host}: {node.host} does not answer"),
        ("lost0", "peers lose their streams"),
        ("kalive2", f"{node.host} is removed"),
        ("joined", f"{node.host} is back"),
        ("ready", f"{node.host} has started again"),
    ]


def disk_fault(cluster: Cluster, origin: Node, hit: float, rng: random.Random) -> Fault:
    """A disk gives input/output errors; the health checker takes it out."""
    disk = origin.disks[0]
    path = f"mp[/ais/{disk}, {disk}, nvme]"
    file = f"/ais/{disk}/@{cluster.provider}/{cluster.bucket_name}/%ob/shards/audio_{rng.randint(1000, 4999)}.tar"
    error = f"read {file}: input/output error"
    first = hit - rng.uniform(2, 40)
    origin.say(first, "E", "tgtobj:1391", f"{origin.name}: waking up FSHC to check {path}, err: {error}", "io_error")
    origin.bump(first, origin.dialect.io_error, 7)
    origin.bump(first, "err.get.n", 9)
    origin.say(
        first + 0.4, "E", "", "## IO errors (7) exceeded configured limit, which is: (no more than 5 in 10s)", "limit"
    )
    if origin.dialect.version > (3, 22):
        origin.bump(first + 0.4, "err.fshc.n", 1)
    end = hit + rng.uniform(5, 30)
    origin.say(
        end, "E", "fshc:216", "exceeded I/O error limit: (read 5, write 2 (max-errors 2, write-size 1MiB))", "fshc"
    )
    origin.say(end + 0.001, "W", "fshc:217", f"proceeding to disable {path}")
    if origin.dialect.version >= (4, 3):
        origin.say(end + 0.002, "E", "fshc:147", f"{path} FAULTED stat /ais/{disk}: input/output error")
    now = "now disabled, reason: FAULTED" if origin.dialect.version >= (4, 3) else "now disabled"
    origin.say(end + 0.1, "I", "fshc:227", f"{path} {now}", "disabled")
    origin.say(end + 0.11, "I", "fs:963", f"disabled mountpath {path} ({len(origin.disks) - 1} remain active)")
    origin.flags.append((first, HEALTHY + DISK_FAULT))
    origin.capacity.append((end, "(faulted)"))
    chain = [
        ("io_error", f"{origin.host}: a disk gives input/output errors"),
        ("limit", "more errors than allowed"),
        ("fshc", "the health checker gives the disk up"),
        ("disabled", "the disk is taken out"),
    ]
    return Fault(origin, first, hit, "io", chain, message=error, status=500, dt=origin)


def full(cluster: Cluster, origin: Node, hit: float, rng: random.Random) -> Fault:
    """A target runs out of space; the checkpoint that the job puts there is refused."""
    first = hit - rng.uniform(600, 2400)
    low = "low on free space: used capacity 91% exceeded high watermark(90%) (total used 81.20TiB out of 89.40TiB)"
    origin.say(
        first,
        "W",
        "tgtspace:77",
        f"{origin.name} running store cleanup: cap(used 81.2TiB, avail 8.2TiB [min=88%, avg=90%, max=91%], high-wm)",
        "cleanup",
    )
    origin.say(first + 0.01, "W", "tgtspace:80", low, "low_space")
    origin.flags.append((first, HEALTHY + LOW_CAPACITY))
    origin.capacity.append((first, "(low-free-space)"))
    end = hit - rng.uniform(5, 60)
    oos = "out of space: used 96% of total capacity on at least one of the mountpaths (total used 86.10TiB out of 89.40TiB)"
    origin.say(
        end,
        "W",
        "tgtspace:87",
        f"{origin.name} still out of space, running LRU eviction now: cap(used 86.1TiB, avail 3.3TiB [min=93%, avg=95%, max=96%], OOS)",
        "still_full",
    )
    origin.capacity.append((end, "(out-of-space)"))
    origin.flags.append((end, HEALTHY + OOS))
    origin.say(end + 0.2, "I", "", "Warning: state alerts:")
    origin.say(end + 0.2001, "I", "", "[out-of-space low-usable-capacity]")
    origin.say(
        hit,
        "E",
        "",
        f"ErrCapExceeded: {oos}: PUT /v1/objects/ckpt/step.ckpt ({origin.name}: tgtobj.go:312 <- target.go:1120])",
        "refused",
    )
    origin.bump(hit, "err.put.n", 1)
    chain = [
        ("cleanup", f"{origin.host}: space runs short"),
        ("low_space", f"{origin.host}: above the high watermark"),
        ("still_full", f"{origin.host}: out of space"),
        ("refused", "a PUT is refused"),
    ]
    return Fault(origin, first, hit, "capacity", chain, message=oos, status=507, dt=origin)


def removed(cluster: Cluster, origin: Node, hit: float, rng: random.Random) -> Fault:
    """A target and the primary do not reach each other; it is taken out of the cluster map and comes back."""
    first = hit - rng.uniform(20, 40)
    for step, (severity, place, text) in enumerate(origin.dialect.own_kalive(origin.name, cluster.primary.name)):
        origin.say(first + step * 6, severity, place, text, f"own{step}")
    origin.bump(first + 3, "err.kalive.n", 2)
    origin.flags.append((first, HEALTHY + 524288))
    error = f"dial tcp {origin.address}:51082: i/o timeout"
    old, new = cluster.map(cluster.smap), cluster.map(cluster.smap + 1, len(cluster.targets) - 1)
    for step, (severity, place, text) in enumerate(
        origin.dialect.kalive(cluster.primary.name, origin.name, error, old)
    ):
        cluster.primary.say(first + 4 + step * 5, severity, place, text, f"kalive{step}")
    cluster.primary.bump(first + 4, "err.kalive.n", 3)
    for peer in cluster.targets:
        if peer is not origin:
            peer.say(
                hit - 1, "I", "htrun:1860", f"msync Rx: new {new} ( have v{cluster.smap} <-- {cluster.primary.name} )"
            )
    back = hit + rng.uniform(200, 500)
    cluster.primary.say(back, "I", "clustermap:370", f"joined {origin.name} -> {cluster.map(cluster.smap + 2)}")
    origin.flags.append((back, HEALTHY))
    chain = [
        ("own0", f"{origin.host} does not reach the primary"),
        ("kalive0", f"{cluster.primary.host} does not reach {origin.host}"),
        ("kalive1", "asked again"),
        ("own1", "given up"),
        ("kalive2", f"{origin.host} is removed"),
    ]
    return Fault(origin, first, hit, "timeout", chain, dt=origin)


def rebalanced(cluster: Cluster, origin: Node, hit: float, rng: random.Random) -> Fault:
    """A target joins on purpose, the rebalance that starts aborts the batches of the job."""
    first = hit - rng.uniform(3, 12)
    new = cluster.map(cluster.smap + 1)
    cluster.primary.say(first, "I", "clustermap:370", f"joined {origin.name} -> {new}", "grown")
    for node in cluster.targets:
        head = f"{node.name}[g12,v{cluster.smap + 1}]"
        node.say(first + 1.1, "I", "reb:301", f"{head} initializing", "starting")
        node.say(hit - 0.2, "I", "reb:412", f"{head} - running x-rebalance[g12]-{node.zone.local(hit):%H:%M:%S}.118220")
        node.say(hit, "I", "moss:311", f"{cluster.short} aborting: reason: starting x-rebalance[g12]", "aborting")
        node.flags.append((first + 1.1, HEALTHY + 8))
        node.flags.append((hit + 900, HEALTHY))
        node.bump(hit, "err.getbatch.n", rng.randint(1, 3))
        node.say(hit + 900, "I", "reb:640", f"{head} done x-rebalance[g12]")
    cluster.primary.say(hit + 902, "I", "rebmeta:210", "rebalance[g12] done")
    message = f"{cluster.xact}: aborted, reason: starting x-rebalance[g12]"
    chain = [("grown", "a target joins"), ("starting", "a rebalance starts"), ("aborting", "the batches are aborted")]
    return Fault(
        None, first, hit, "aborted", chain, message=message, status=409, dt=cluster.targets[0], suspects=(origin,)
    )


def proxy_lost(cluster: Cluster, origin: Node, hit: float, rng: random.Random) -> Fault:
    """The primary proxy's process ends without a word; the others elect a new one."""
    primary, other = cluster.primary, cluster.proxies[1]
    start = hit + rng.uniform(400, 700)
    primary.ends.append((hit - 2, rng.uniform(1, 20)))
    primary.starts.append(start)
    other.say(
        hit + 9,
        "W",
        "vote:212",
        f"{other.name}: primary {primary.name} is no longer online and must be reelected",
        "no_primary",
    )
    other.say(hit + 9.1, "I", "vote:240", f"{other.name}: starting election (candidate = self)")
    other.say(hit + 9.2, "I", "vote:251", f"{other.name}: moving to election state phase 1 (prepare)")
    other.say(hit + 9.9, "I", "vote:270", "Vote Results:\n Y: 5, N: 0\n Victory: true\n")
    other.say(hit + 10.2, "I", "vote:290", f"{other.name} becoming primary", "elected")
    for number, node in enumerate(cluster.targets):
        for step, (severity, place, text) in enumerate(node.dialect.own_kalive(node.name, primary.name)):
            node.say(hit + 2 + step * 4 + number * 0.3, severity, place, text, f"own{number}" if not step else "")
        node.bump(hit + 3, "err.kalive.n", 2)
        node.say(
            hit + 10.4,
            "I",
            "vote:333",
            f"{node.name}: received vote result: new primary {other.name} (old {primary.name})",
        )
    chain = [
        # Each target finds it for itself, and tells it first on its own clock tick: which of them is first is chance.
        *((f"own{number}", f"{node.host} does not reach the primary") for number, node in enumerate(cluster.targets)),
        ("no_primary", f"{primary.host} is not online"),
        ("elected", f"{other.host} takes over"),
    ]
    return Fault(primary, hit - 2, hit, "refused", chain)


FAULTS: dict[str, Callable[[Cluster, Node, float, random.Random], Fault]] = {
    "late_abort": late_abort,
    "slow_sender": slow_sender,
    "rejected": rejected,
    "killed": killed,
    "panic": panic,
    "disk_fault": disk_fault,
    "full": full,
    "removed": removed,
    "rebalanced": rebalanced,
    "proxy_lost": proxy_lost,
}

EFFECTS = frozenset({"joined", "ready", "elected", "disabled"})
"""Marks of lines that follow from the fault and are no evidence of where it began."""

SINCE = {"late_abort": (3, 31), "slow_sender": (4, 1), "rejected": (4, 1), "rebalanced": (4, 7)}
"""First version in which a fault can happen; all others can in every one."""
