"""One incident: a cluster and a job in one time, the fault that is put in, and the truth about it.

Everything follows from the `Spec`, the seed included; the truth is written here, before anything reads the logs.
"""

from __future__ import annotations

import calendar
import json
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from . import clients, daemons, faults, layouts
from .job import Job
from .journal import Zone
from .versions import ALL, CALENDAR, SDK, Dialect, Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

T = TypeVar("T")

GUILTY = tuple(faults.FAULTS)
INNOCENT = (
    "busy_far_oom",
    "busy_near_oom",
    "restart_before_oom",
    "disk_fault_far_oom",
    "busy_keyerror",
    "busy_fabric",
    "healthy",
)
UNDECIDED = ("no_clock", "origin_missing", "wrong_window", "no_daemon_logs")
KINDS = (*GUILTY, *INNOCENT, *UNDECIDED)
LATER = {
    "reader_gone_oom": (4, 2),
    "reader_gone_keyerror": (4, 5),
    "origin_cut": (4, 3),
    "old_fault": (4, 4),
    "two_stores": (4, 2),
    "other_job_ends": (4, 4),
}
"""Further kinds, each with the version in which the default matrix has it: a rank of the job fails and its store gives up
the batch; the origin's log ends minutes before; an old fault, or another store, elsewhere; another job ends whole hours apart."""
HOURS = 3
"""Hours after this job at which another one ends."""

BESIDE_A_DECOY = ("late_abort", "killed", "panic", "disk_fault", "full", "removed", "proxy_lost")
"""Faults that tell who they are even where another target is in trouble of its own."""

NAMES = {0: "UTC", -420: "MST", 330: "IST", 480: "+08"}
ZONES = ((-420, 0), (330, 0), (480, 0), (0, -420), (0, 330), (0, 480), (0, 0))
"""Minutes east of Greenwich of the workers' and the daemons' clocks."""

CATEGORIES = {
    "removed": ["storage_io", "network", "infrastructure"],
    "proxy_lost": ["storage_io", "network", "infrastructure"],
    "killed": ["storage_io", "infrastructure"],
    "panic": ["storage_io", "infrastructure"],
    "rebalanced": ["storage_io", "infrastructure"],
}
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU {gpu} has a total capacity of 79.11 GiB of which 123.43 MiB is "
    "free. Including non-PyTorch memory, this process has 78.99 GiB memory in use. Of the allocated memory 76.60 GiB is allocated by PyTorch, and "
    "1.21 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  "
    "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
)


@dataclass(frozen=True)
class Spec:
    """What to simulate."""

    kind: str
    version: Version
    zones: tuple[int, int] = (480, 0)
    layout: str = "archives"
    after: str = "hang"
    """What the other ranks do: `hang` until their watchdogs end them, or `kill`: the scheduler ends the step."""
    midnight: str = ""
    """Whose date changes while the job runs: `store`, `workers`, or nobody's."""
    seed: int = 1
    apart: bool = False
    """Whether the store's logs stand outside the folder of the job."""
    tenant: bool = False
    """Whether others use the store too, before and after: its counters do not stop with the job."""
    skewed: bool = False
    """Whether the daemons' clocks differ by seconds."""
    decoy: bool = False
    """Whether an innocent target is short of a disk at the same time."""

    @property
    def name(self) -> str:
        worker, store = self.zones
        version = f"{self.version[0]}.{self.version[1]}"
        flags = (self.midnight, *(word for word in ("apart", "tenant", "skewed", "decoy") if getattr(self, word)))
        tail = "".join(f"-{word}" for word in flags if word)
        return f"{self.kind}-{version}-{worker:+d}{store:+d}-{self.layout}-{self.after}{tail}-{self.seed}"

    @property
    def possible(self) -> bool:
        """Whether this can happen in that version."""
        since = faults.SINCE.get(self.kind, (3, 22))
        if self.kind in ("origin_missing", "wrong_window", "no_daemon_logs"):
            since = (3, 31)
        return self.version >= since and (self.kind != "panic" or self.layout.startswith("pods"))


@dataclass
class Incident:
    """Everything of one simulated incident, before it is written."""

    spec: Spec
    cluster: daemons.Cluster
    job: Job
    rng: random.Random
    hit: float
    victim: int
    origin: daemons.Node
    batches: bool
    since: float
    until: float
    stops: float = 0.0
    """When the job no longer uses the store."""
    end: float = 0.0
    fault: faults.Fault | None = None
    second: int | None = None
    """Another rank that met the same."""
    missing: list[daemons.Node] = field(default_factory=list)
    """Daemons whose logs nobody brought."""
    beside: daemons.Cluster | None = None
    """Another store, which the job does not use."""


def plan(spec: Spec) -> Incident:
    """The cast and the times; nothing has happened yet."""
    rng = random.Random(spec.name)
    worker, store = (Zone(minutes, NAMES[minutes]) for minutes in spec.zones)
    hit = _moment(spec, rng)
    dialect = Dialect(spec.version)
    cluster = daemons.make(
        rng,
        dialect,
        store,
        names="prod-ais-{role}-{n}" if spec.layout == "archives" and rng.random() < 0.3 else "ais-{role}-{n}",
        targets=rng.randint(3, 5),
        stats_time=rng.choice((60.0, 180.0)),
        disks=14 if dialect.disks_in_stats and rng.random() < 0.5 else 3,
    )
    stem = rng.choice(("gpu-a", "pool0-", "cn", "dgx-"))
    first = rng.randint(100, 900)
    job = Job(
        id=str(rng.randint(1_000_000, 9_999_999)),
        hosts=[f"{stem}{first + number}" for number in range(2)],
        gpus=rng.choice((2, 4)),
        zone=worker,
        torch="2.1" if spec.kind == "no_clock" else rng.choice(("2.6", "2.8")),
        start=hit - rng.uniform(2700, 4500),
        rng=rng,
        sdk=SDK[spec.version],
        bucket=cluster.bucket,
        by_host=rng.random() < 0.5,
        timed=spec.kind != "no_clock",
    )
    since = job.start - rng.uniform(3300, 4500)
    for node in cluster.nodes:
        node.starts = [since - rng.uniform(86_400, 800_000)]
        node.kept = since + rng.uniform(0, 1500)
        node.journal.skew = rng.uniform(-3, 3) if spec.skewed else 0.0
    by_batch = spec.kind in ("late_abort", "slow_sender", "rejected", "rebalanced", *INNOCENT, *UNDECIDED)
    return Incident(
        spec=spec,
        cluster=cluster,
        job=job,
        rng=rng,
        hit=hit,
        victim=0 if spec.kind == "full" else rng.randrange(job.world),
        origin=rng.choice(cluster.targets),
        batches=by_batch and dialect.getbatch,
        since=since,
        until=hit + rng.uniform(2500, 4500),
    )


def _moment(spec: Spec, rng: random.Random) -> float:
    year, month = CALENDAR[spec.version]
    day = 1 if month == 1 else rng.randint(3, 26)
    start = calendar.timegm((year, month, day, 0, 0, 0))
    worker, store = spec.zones
    if spec.midnight:
        minutes = store if spec.midnight == "store" else worker
        return start - minutes * 60 + rng.uniform(600, 2900)
    # Nobody's date changes from two hours before the job to two hours after it.
    east, west = max(worker, store, 0), min(worker, store, 0)
    earliest, latest = 4.6 * 3600 - west * 60, 21.5 * 3600 - east * 60
    return start + rng.uniform(min(earliest, latest), max(earliest, latest))


def play(incident: Incident) -> None:
    """Let it happen: store and job write what they write."""
    kind = incident.spec.kind
    incident.stops = incident.hit
    job = incident.job
    if kind in GUILTY or kind in (
        "origin_missing",
        "wrong_window",
        "no_daemon_logs",
        "origin_cut",
        "old_fault",
        "two_stores",
    ):
        _guilty(incident)
    elif kind.startswith("reader_gone"):
        _reader_gone(incident)
    elif kind == "other_job_ends":
        _other_job_ends(incident)
    elif kind == "no_clock":
        _no_clock(incident)
    else:
        _innocent(incident)
    job.run(incident.stops, resets=0 if incident.spec.version < (3, 31) else incident.rng.randint(2, 9))
    for node in incident.cluster.nodes:
        node.settle()
    others = 0.4 if incident.spec.tenant or kind == "wrong_window" else 0.0
    for node in incident.cluster.nodes:

        def busy(at: float, node: daemons.Node = node) -> float:
            own = 1.0 if job.start + 45 <= at < incident.stops else 0.0
            if kind == "other_job_ends":
                own = 1.0 if at < incident.hit + HOURS * 3600 else 0.0
            return own + others if node.alive(at) else 0.0

        node.run(incident.until, busy, incident.batches)
    for node in [] if incident.beside is None else incident.beside.nodes:
        node.settle()
        node.run(incident.until, lambda _: 0.5, incident.batches)


def _guilty(incident: Incident) -> None:
    spec, rng = incident.spec, incident.rng
    kind = "late_abort" if spec.kind in UNDECIDED or spec.kind in LATER else spec.kind
    origin = incident.cluster.primary if kind == "proxy_lost" else incident.origin
    fault = faults.FAULTS[kind](incident.cluster, origin, incident.hit, rng)
    incident.fault = fault
    if spec.decoy:
        idle = [node for node in incident.cluster.targets if node is not incident.origin]
        start = incident.hit - rng.uniform(500, 1500)
        faults.saturate(incident.cluster, rng.choice(idle), start, incident.hit + 100, rng)
    if kind == "rebalanced":
        origin.starts = [fault.first - 1.5]
    elsewhere = [node for node in incident.cluster.targets if node is not incident.origin]
    if spec.kind == "origin_missing":
        incident.missing = [origin]
    elif spec.kind == "origin_cut":
        # The archives were fetched one after the other, this one first.
        origin.journal.cut = incident.hit - rng.uniform(120, 400)
    elif spec.kind == "old_fault":
        faults.disk_fault(incident.cluster, rng.choice(elsewhere), incident.hit - rng.uniform(1200, 1700), rng)
    elif spec.kind == "two_stores":
        faults.disk_fault(_another_store(incident), incident.beside.targets[0], incident.hit - 60, rng)  # type: ignore[union-attr]
    elif spec.kind == "wrong_window":
        _too_late(incident)
    elif spec.kind == "no_daemon_logs":
        incident.missing = incident.cluster.nodes
    hidden = spec.kind in UNDECIDED
    said = _client(incident, fault, hidden=hidden)
    # The client notices a little later than the server; its own waiting is part of what it prints.
    raised = incident.hit + max((-after for after, _ in said.before), default=0.0) + rng.uniform(0.2, 1.5)
    loader = fault.answer in ("short", "reset", "timeout", "io")
    incident.job.raises(incident.victim, raised, said, loader=loader)
    if fault.answer in ("reset", "timeout", "refused") and spec.after == "hang" and rng.random() < 0.5:
        # A daemon that is gone fails more than one of its readers.
        incident.second = rng.choice([rank for rank in range(incident.job.world) if rank != incident.victim])
        incident.job.raises(incident.second, raised + rng.uniform(0.3, 4), said, loader=loader, mark="other_client")
    _aftermath(incident, raised)


def _another_store(incident: Incident) -> daemons.Cluster:
    """A store of another team, whose logs were fetched as well."""
    store = incident.cluster.targets[0].journal.zone
    other = daemons.make(
        incident.rng,
        incident.cluster.targets[0].dialect,
        store,
        names="cold-{role}-{n}",
        targets=1,
        stats_time=60.0,
        disks=3,
    )
    for node in other.nodes:
        node.starts, node.kept = [incident.since - 90_000], incident.since
    incident.beside = other
    return other


def _reader_gone(incident: Incident) -> None:
    """A rank fails by itself; the store gives up the batch that nobody fetches any more, and another rank's loader fails."""
    job, rng, hit, victim = incident.job, incident.rng, incident.hit, incident.victim
    error = "KeyError: 'audio_lens'" if incident.spec.kind.endswith("keyerror") else OOM.format(gpu=victim % job.gpus)
    before = incident.stops = hit - rng.uniform(12, 40)
    job.raises(victim, before, clients.Said((), error, (), error[:40]), loader=False)
    job.exits(victim, before + 1.5)
    fault = faults.late_abort(incident.cluster, incident.origin, hit, rng)
    other = rng.choice([rank for rank in range(job.world) if rank != victim])
    said = _client(incident, fault, hidden=True)
    job.raises(other, hit + rng.uniform(0.2, 1.5), said, loader=True, mark="other_client")
    incident.end = job.stopped(hit + 4, victim)


def _other_job_ends(incident: Incident) -> None:
    """A loader fails, and the store has nothing of it; another job's reads end whole hours later, and its batch breaks then."""
    rng, hit = incident.rng, incident.hit
    later = hit + HOURS * 3600
    incident.until = later + rng.uniform(2500, 4500)
    fault = faults.late_abort(incident.cluster, incident.origin, later, rng)
    incident.fault = fault
    incident.job.raises(incident.victim, hit + 0.5, _client(incident, fault, hidden=True), loader=True)
    _aftermath(incident, hit + 0.5)


def _too_late(incident: Incident) -> None:
    """What the daemons wrote until the failure is deleted; of the time after it there is other trouble."""
    rng = incident.rng
    for node in incident.cluster.nodes:
        node.kept = incident.hit + rng.uniform(300, 900)
    other = rng.choice([node for node in incident.cluster.targets if node is not incident.origin])
    faults.saturate(incident.cluster, other, incident.hit + 1200, incident.hit + 2000, rng)


def _client(incident: Incident, fault: faults.Fault, *, hidden: bool) -> clients.Said:
    """What the victim prints; `hidden` where no word of the client may name a daemon."""
    rng, sdk, bucket = incident.rng, incident.job.sdk, incident.cluster.bucket
    node = fault.dt or fault.origin
    assert node is not None
    host = node.address if rng.random() < 0.4 else f"{node.host}.ais-{node.role}.ais.svc.cluster.local"
    match fault.answer:
        case "short":
            fallback = incident.spec.version >= (4, 5) and not hidden
            return clients.short_batch(rng, fallback=fallback, host=host, bucket=bucket)
        case "reset" | "timeout":
            return clients.broken_read(sdk, rng, host=host, bucket=bucket, timeout=fault.answer == "timeout")
        case "refused":
            return clients.proxy_refused(rng, host=host, bucket=bucket)
        case _:
            path = {
                "capacity": "/v1/objects/ckpt/step.ckpt",
                "io": f"/v1/objects/{incident.cluster.bucket_name}/shards/audio_2311.tar",
            }
            code = {"rejected": "ErrTooManyRequests", "capacity": "ErrCapExceeded"}
            return clients.refused_by_server(
                fault.status,
                fault.message,
                node=node.name,
                host=host,
                path=path.get(fault.answer, f"/v1/ml/moss/{incident.cluster.bucket_name}"),
                tcode=code.get(fault.answer, ""),
            )


def _aftermath(incident: Incident, failed_at: float) -> None:
    job, victim = incident.job, incident.victim
    job.exits(victim, failed_at + 1.5)
    if incident.spec.after == "hang":
        gone = {victim} if incident.second is None else {victim, incident.second}
        if incident.second is not None:
            job.exits(incident.second, failed_at + 6)
        incident.end = job.hang(failed_at + incident.rng.uniform(4.5, 6), gone)
    else:
        incident.end = job.stopped(failed_at + 2, victim)


def _innocent(incident: Incident) -> None:
    """Something else breaks the job, or nothing does; the store is noisy beside it."""
    job, rng, kind, hit = incident.job, incident.rng, incident.spec.kind, incident.hit
    victim = incident.victim
    if kind == "restart_before_oom":
        early = rng.uniform(incident.since + 1600, job.start - 900)
        faults.gone(incident.cluster, incident.origin, early, rng, lost=rng.uniform(2, 30), down=rng.uniform(20, 90))
    elif kind == "disk_fault_far_oom":
        # The other copies serve what was on that disk: the job does not notice.
        faults.disk_fault(incident.cluster, incident.origin, job.start + rng.uniform(300, 900), rng)
    elif kind in ("busy_near_oom", "healthy"):
        faults.saturate(incident.cluster, incident.origin, hit - rng.uniform(500, 1200), hit + 20, rng)
    else:
        faults.saturate(incident.cluster, incident.origin, job.start + 200, job.start + rng.uniform(700, 1200), rng)
    if kind == "healthy":
        job.finishes(hit)
        incident.end = hit
    elif kind == "busy_fabric":
        incident.end = job.hang(hit, set())
    else:
        error = "KeyError: 'audio_lens'" if kind == "busy_keyerror" else OOM.format(gpu=victim % job.gpus)
        said = clients.Said((), error, (), error[:40])
        job.raises(victim, hit, said, loader=False)
        _aftermath(incident, hit)


def _no_clock(incident: Incident) -> None:
    """A rank waits for its data; two targets were busy at times that no line of the workers can be held against."""
    rng, hit = incident.rng, incident.hit
    other = rng.choice([node for node in incident.cluster.targets if node is not incident.origin])
    faults.saturate(incident.cluster, incident.origin, hit - 600, hit + 900, rng)
    faults.saturate(incident.cluster, other, incident.job.start + 300, incident.job.start + 1200, rng)
    incident.end = incident.job.hang(hit, {incident.victim})


def build(spec: Spec, folder: Path) -> dict[str, Any]:
    """Write the incident below `folder` as `logs/` (and `storage/`) with `truth.json`; the truth."""
    from . import truth

    incident = plan(spec)
    play(incident)
    root = folder / "storage" if spec.apart else folder / "logs" / "ais_logs"
    brought = [node for node in incident.cluster.nodes if node not in incident.missing]
    places = layouts.write(spec.layout, brought, root, incident.rng.choice((24_000, 90_000))) if brought else {}
    prefix = root.relative_to(folder).as_posix()
    places = {key: place._replace(file=f"{prefix}/{place.file}") for key, place in places.items()}
    if incident.beside is not None:
        layouts.write(spec.layout, incident.beside.nodes, root.with_name("other_store"), 90_000)
    files, marks = incident.job.render()
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / "logs" / name).write_bytes(content)
    told = truth.of(incident, brought, places, marks)
    (folder / "truth.json").write_text(json.dumps(told, indent=1) + "\n")
    return told


def matrix(*, large: bool, seeds: Iterable[int] = ()) -> Iterable[Spec]:
    """The incidents to judge: kinds and versions crossed, the rest dealt out evenly; `large` crosses all, six times.

    Other seeds than those give incidents that no figure was ever taken from.
    """
    wanted = tuple(seeds) or tuple(range(1, 7 if large else 2))
    zones, layout = _deal("zones", ZONES), _deal("layout", layouts.ALL)
    pods = _deal("pods", [name for name in layouts.ALL if name.startswith("pods")])
    after, midnight = _deal("after", ("hang", "kill")), _deal("midnight", ("", "store", "workers"))
    apart, tenant = (_deal(word, (False, False, False, True)) for word in ("apart", "tenant"))
    skewed, decoy = _deal("skewed", (False, False, True)), _deal("decoy", (False, True))
    for version in ALL:
        for kind in KINDS:
            for seed in wanted:
                spec = Spec(kind=kind, version=version, layout="pods_time")
                if not spec.possible or not (large or _chosen(version, kind)):
                    continue
                yield Spec(
                    kind=kind,
                    version=version,
                    zones=next(zones),
                    layout=next(pods if kind == "panic" else layout),
                    after="hang" if kind in ("no_clock", "busy_fabric") else next(after),
                    midnight=next(midnight),
                    seed=seed,
                    apart=next(apart),
                    tenant=next(tenant),
                    skewed=next(skewed),
                    decoy=kind in BESIDE_A_DECOY and next(decoy),
                )

    for kind, version in LATER.items():
        for seed in wanted:
            # The workers' clock shows another zone than the daemons': where both state none, counters join them.
            yield Spec(kind=kind, version=version, zones=(480, 0), layout="archives", after="kill", seed=seed)


def _deal(name: str, values: Sequence[T]) -> Iterator[T]:
    """The values in an order without pattern, each as often as any other."""
    rng = random.Random(name)
    while True:
        yield from rng.sample(values, len(values))


def _chosen(version: Version, kind: str) -> bool:
    """The default matrix: each kind in a third of the versions, two whose wordings change the most in all of them."""
    return kind in ("late_abort", "rebalanced") or (ALL.index(version) + KINDS.index(kind)) % 3 == 0
