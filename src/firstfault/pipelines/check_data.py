"""Tries the data of a job: a loader by its import path, rank by rank, or manifests.

Result objects only: redacts nothing and prints nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from firstfault.dataset.dry_run import Limits, run_rank, shm_room
from firstfault.dataset.judge import batches_of, judge, row, slowest
from firstfault.dataset.manifest import Given, read_manifests
from firstfault.model.checks import ORDER
from firstfault.model.dataset import DataCheck
from firstfault.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from firstfault.dataset.trial import Trial
    from firstfault.model.dataset import DataFinding

FEW = 4
"""Ranks up to which all are tried unless some are named."""
MEMORY_PART = 0.8
"""Of the memory that is free, what a trial may take."""


class DataOptions(NamedTuple):
    """How data is tried."""

    world: int = 1
    ranks: tuple[int, ...] = ()
    """Those to try; the first, the second and the last of many unless given."""
    seconds: float = 120.0
    batches: int = 100
    """0 for all."""
    stall_s: float = 30.0
    memory_mb: int | None = None
    python: str = sys.executable
    gpu: bool = False
    root: str | None = None
    field: str | None = None
    contents: bool = True
    digests: bool = False
    """Whether files of a manifest are read whole, and held against the digests that it states."""


def check_data(targets: Sequence[str], options: DataOptions) -> DataCheck:
    """What is wrong with the data of a job.

    Args:
        targets: one import path `package.module:name`, or manifests.
        options: how.

    Raises:
        PipelineError: there is nothing of that name.
    """
    there = [t for t in targets if Path(t).exists()]
    if len(targets) == 1 and not there and ":" in targets[0] and "://" not in targets[0] and "{" not in targets[0]:
        return _loader(targets[0], options)
    if not there and not any("{" in t for t in targets):
        raise PipelineError(
            "there is no such file",
            where=targets[0],
            fix="Give manifests or shards that exist, or a loader as `package.module:name`.",
        )
    given = Given(options.world, options.root, options.field, options.seconds, options.contents, options.digests)
    found = read_manifests([_file(t) for t in targets], given)
    nothing = not any(f.items for f in found.files) and not found.findings
    return _told(
        DataCheck(
            state="unknown" if nothing else "ok", summary="", kind=found.kind, target=", ".join(targets[:3]) + (", …" if len(targets) > 3 else ""),
            world_size=options.world, limits={"seconds": options.seconds}, per_rank=found.per_rank, files=found.files, findings=found.findings, not_checked=found.not_checked,
        )
    )  # fmt: skip


def _file(target: str) -> str:
    if Path(target).is_dir():
        raise PipelineError(
            "a folder was given",
            where=target,
            fix="Name the manifests or shards in it: `DIR/*.tar`, `DIR/cuts.jsonl.gz`.",
        )
    return target


def _loader(target: str, options: DataOptions) -> DataCheck:
    world = options.world
    some = options.ranks or (tuple(range(world)) if world <= FEW else (0, 1, world - 1))
    if max(some) >= world:
        raise PipelineError(
            f"there is no rank {max(some)} among {world}",
            where="--ranks",
            fix="Give --world-size too; ranks count from 0.",
        )
    memory = options.memory_mb or max(512, int(_free_mb() * MEMORY_PART))
    limits = Limits(options.seconds, options.batches or sys.maxsize, options.stall_s, memory)
    shm, spent = shm_room(), 0.0
    trials: list[Trial] = []
    for number, rank in enumerate(some):
        left = max(1.0, (options.seconds - spent) / (len(some) - number))
        try:
            trial = run_rank(target, rank, world, limits._replace(seconds=left), python=options.python, folder=str(Path.cwd()), simulate=number == 0 and world > 1, gpu=options.gpu)  # fmt: skip
        except OSError as error:
            raise PipelineError(
                "the interpreter could not be started", where=options.python, why=error.strerror or "", fix="Give with --python the one that the job runs with."
            ) from error  # fmt: skip
        if trial.absent:
            raise PipelineError(
                "there is nothing of that name to import", where=target, why=trial.absent,
                fix="Run it where the import path begins, with the interpreter of the job (--python), and name what the module holds.",
            )  # fmt: skip
        spent += trial.tried
        trials.append(trial)
    made = next((t.made for t in trials if t.made), {})
    said = {
        n: str(made[n])[:200]
        for n in ("type", "dataset", "sampler", "workers", "batch_size", "items", "length")
        if made.get(n) is not None
    }
    skipped = [f"Only ranks {', '.join(map(str, some))} of {world} were run."] if len(some) < world else []
    if any(t.end == "batches" for t in trials):
        skipped.append(f"Only the first {options.batches} batches of a rank were taken.")
    if any(t.pretends is False for t in trials):
        skipped.append(
            "This torch has no pretended process group: a sampler that asks for its rank fails here, and may not in the job."
        )
    return _told(
        DataCheck(
            state="ok" if any(t.times for t in trials) else "unknown", summary="", kind="loader", target=target, world_size=world,
            limits={"seconds": options.seconds, "batches": float(options.batches), "stall_seconds": options.stall_s, "memory_mb": float(memory)},
            loader=said, ranks=[row(t) for t in trials], per_rank=batches_of(trials, world), slowest=slowest(trials),
            findings=judge(trials, world, limits, shm), not_checked=skipped,
        )
    )  # fmt: skip


def _told(found: DataCheck) -> DataCheck:
    """With its findings in order, its state and a summary."""
    from msgspec.structs import replace

    findings = sorted(found.findings, key=lambda f: ORDER.index(f.state))
    state: Literal["ok", "warn", "fail", "unknown"] = found.state
    for worst in ("fail", "warn"):
        if any(f.state == worst for f in findings):
            state = worst
            break
    return replace(found, findings=findings, state=state, summary=_summary(found, state, findings))


def _summary(found: DataCheck, state: str, findings: list[DataFinding]) -> str:
    if found.kind == "loader":
        batches, items = sum(r.batches for r in found.ranks), sum(r.items for r in found.ranks)
        looked = f"Ranks tried: {len(found.ranks)}, batches: {batches}, items: {items}"
    else:
        looked = f"Files read: {len(found.files)}, items: {sum(f.items or 0 for f in found.files)}"
    if state == "unknown":
        return f"{looked}. Nothing could be tried."
    count = {w: sum(f.state == w for f in findings) for w in ("fail", "warn")}
    if not findings:
        return f"{looked}. Nothing wrong was found."
    return f"{looked}. What would stop the job or change what it learns: {count['fail']}; to look at: {count['warn']}."


def _free_mb() -> int:
    """Memory that a trial could take: what the kernel calls available, or what a cgroup leaves."""
    free = 1 << 62
    for line in _text("/proc/meminfo").split("\n"):
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) << 10
    most, used = _text("/sys/fs/cgroup/memory.max").strip(), _text("/sys/fs/cgroup/memory.current").strip()
    if most.isdecimal() and used.isdecimal():
        free = min(free, int(most) - int(used))
    return max(0, free) >> 20


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
