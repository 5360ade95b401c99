"""One simulated incident: chooses the job, runs it, writes the logs and the truth.

`make` is deterministic: the same specification gives the same bytes.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import layouts, oracle
from .engine import Engine, Rules
from .kinds import KINDS, NEEDS, Injected
from .lines import Voice, render
from .programs import Job, Plan, program
from .topology import Shape, host_names
from .versions import VERSIONS, Clock

if TYPE_CHECKING:
    from pathlib import Path

BUCKETS = (("ALLREDUCE", 31_457_280, 31_457_280), ("ALLREDUCE", 9_175_040, 9_175_040))
SHARDED = (("_REDUCE_SCATTER_BASE", 33_554_432, 2_097_152), ("_ALLGATHER_BASE", 2_097_152, 33_554_432))


@dataclass(frozen=True)
class Spec:
    """What to simulate; the seed decides all that is not said."""

    kind: str
    version: str
    world: int
    layout: str
    damage: str = "none"
    seed: int = 0
    split: bool | None = None
    """Whether the job has tensor, pipeline and expert groups; None: where the kind needs them."""
    frames: int = 2

    @property
    def name(self) -> str:
        parts = [self.kind, self.version, str(self.world), self.layout]
        if self.split and self.kind not in NEEDS:
            parts.append("groups")
        return "-".join([*parts, *([] if self.damage == "none" else [self.damage]), f"s{self.seed}"])

    @property
    def number(self) -> int:
        """A seed from all of it, the same in every run."""
        return zlib.crc32(f"{self.kind}/{self.version}/{self.world}/{self.layout}/{self.split}/{self.seed}".encode())


@dataclass
class Incident:
    """A finished simulation: files, truth, and how it was set up."""

    spec: Spec
    files: layouts.Files
    truths: tuple[oracle.Truth, ...]
    """The truth; more than one where a fair reader may see it either way."""
    injected: Injected
    shape: Shape

    @property
    def truth(self) -> oracle.Truth:
        """The truth for who takes nothing for granted."""
        return self.truths[0]

    def write(self, folder: Path) -> Path:
        """Write `logs/` and `truth.json` into the folder; the folder of the logs."""
        logs = folder / "logs"
        for name, entries in self.files.items():
            file = logs / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("".join(f"{entry.text}\n" for entry in entries), encoding="utf-8")
        truth = {"scenario": self.spec.kind, "torch": self.spec.version, **self.truth.as_json()}
        (folder / "truth.json").write_text(json.dumps(truth, indent=1) + "\n", encoding="utf-8")
        return logs


def make(spec: Spec) -> Incident:
    """Simulate an incident."""
    rng = random.Random(spec.number)
    version = VERSIONS[spec.version]
    shape = _shape(spec, rng)
    job = _job(spec, shape, rng)
    plan, injected = KINDS[spec.kind](job, rng)
    agents = spec.layout == "rank" or rng.random() < 0.5
    recorder = version.number >= (2, 4) and rng.random() < 0.6
    rules = _rules(plan, version.timeout, version.tick, agents, recorder, rng)
    first = {kind: rng.choice((0, rng.randrange(300, 90_000))) for kind in (*shape.by_kind, "p2p")}
    if injected.sort == "none":
        job.total_steps = job.first_step + plan.steps - 1
    engine = Engine(shape, rules, rng, lambda rank: program(job, plan, rank), first)
    records = engine.run()
    day = dt.datetime(2025, 1, 1, 0, 0, 7, tzinfo=dt.timezone.utc)
    start = day + dt.timedelta(days=rng.randrange(360), minutes=rng.randrange(24 * 60))
    clocks = [Clock(start, rng.uniform(-1.5, 1.5)) for _ in range(shape.nodes)]
    stacks = recorder and rng.random() < 0.5
    voice = Voice(job, version, clocks, agents, recorder, stacks, rng.random() < 0.5, spec.frames, rng.random() < 0.5)
    lines = layouts.delayed(render(voice, records), rng)
    number = str(4_000_000 + job.seed % 999_983)
    whole = layouts.arrange(voice, lines, spec.layout, number)
    left = layouts.damage(whole, spec.damage, random.Random(spec.number + 1), frozenset(injected.culprits))
    return Incident(spec, left, oracle.judge(injected, shape, left), injected, shape)


def _shape(spec: Spec, rng: random.Random) -> Shape:
    per_node = min(spec.world, 8) if spec.kind != "node_frozen" else min(8, max(1, spec.world // 2))
    if spec.world in (4, 8) and spec.layout != "one":
        per_node = spec.world // 2
    need = NEEDS.get(spec.kind, "")
    split = spec.split if spec.split is not None else bool(need)
    tp = pp = ep = 1
    if split or need:
        tp = 2 if need != "pp" or spec.world >= 8 else 1
        pp = 2 if need == "pp" or (spec.world >= 16 and rng.random() < 0.5) else 1
        dp = spec.world // (tp * pp)
        ep = 2 if need == "ep" or (dp % 2 == 0 and dp > 2 and rng.random() < 0.3) else 1
    hosts = host_names(spec.world // per_node, rng.randrange(4))
    return Shape(spec.world, per_node, tp, pp, ep, rng.random() < 0.8, hosts)


def _job(spec: Spec, shape: Shape, rng: random.Random) -> Job:
    style = "megatron" if shape.split else rng.choice(("plain", "nemo"))
    first = rng.randrange(20, 4000)
    job = Job(shape, spec.number, style, first, first + rng.randrange(500, 9000), rng.random() < 0.4)
    job.quiet = rng.random() < 0.2
    job.buckets = list(SHARDED if style == "megatron" and rng.random() < 0.5 else BUCKETS)
    return job


def _rules(plan: Plan, timeout: float, tick: float, agents: bool, recorder: bool, rng: random.Random) -> Rules:
    return Rules(
        timeout=plan.timeout or timeout,
        recorder=recorder,
        agents=agents,
        tick=tick,
        kill_on_bad_exit=rng.random() < 0.3,
        heartbeat=600.0,
        heartbeat_monitor=plan.heartbeat_monitor,
        blocked=plan.blocked,
    )
