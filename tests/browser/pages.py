"""The reports that the browser is shown: made by the pipeline from logs in the true format, and one of 16,384 ranks by columns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import hung_job
from allocator import GIB, MIB, Allocator, OutOfMemory, pickled, stack
from msgspec.structs import replace

from firstfault.model.diagnosis import CoverageRow
from firstfault.model.page import GroupColumns, Lanes, RankColumns
from firstfault.model.words import CoverageState
from firstfault.pipelines.page import page
from firstfault.pipelines.publish import publish_page
from generated.aistore import scenario

if TYPE_CHECKING:
    from collections.abc import Callable

    from firstfault.model.page import Page

MANY = 16_384
MIXED = Path(__file__).resolve().parents[1] / "mixed"
EVIL = (
    "</script><script>document.title='owned'</script>",
    '"><img src=x onerror="document.title=\'owned\'">',
    "<!-- --><svg/onload=document.title='owned'>",
    "\x1b[31mred\x1b[0m \u202eltr \u2028line {{ 7 * 7 }} {% raw %}",
    "javascript:document.title='owned'",
)
TRACE = """[rank0]: Traceback (most recent call last):
[rank0]:   File "/app/train.py", line 12, in <module>
[rank0]:     main()
[rank0]:   File "/app/train.py", line 8, in main
[rank0]:     raise ValueError({text!r})
[rank0]: ValueError: {text}
"""
STEPS = "2026-03-02 14:{at:02d}:00 [rank{rank}] iteration {step}/ {total} | loss: 2.1"


@dataclass(frozen=True)
class Shown:
    """One report on disk."""

    name: str
    path: Path
    size: int
    text: str


def small(folder: Path) -> Page:
    """A hung job of four ranks."""
    return page([hung_job.write(folder / "logs")])


def large(folder: Path) -> Page:
    """A hung job of 128 ranks on 16 nodes."""
    return page([hung_job.write(folder / "logs", ranks=128, late=37, per_node=8)])


def huge(folder: Path) -> Page:
    """The same of 16,384 ranks: every column as long as a job of that size gives, and all of its 2,048 inputs."""
    start = small(folder)
    diagnosis = start.diagnosis
    files = [f"error-77-{node}.out" for node in range(MANY // 8)]
    ranks = replace(diagnosis.ranks, expected=MANY, seen=MANY, seen_ranks=f"0-{MANY - 1}")
    coverage = [CoverageRow(file=f, state=CoverageState.READ, bytes=48_123) for f in files]
    counts = [
        replace(c, total=MANY, files=dict.fromkeys(files, 8), ranks={str(r): 1 for r in range(MANY)})
        for c in diagnosis.counts
    ]
    late = 9037
    order = [late, *(r for r in range(MANY) if r != late)]
    waits = [None if r == late else 1421.0 + r % 7 / 10 for r in order]
    columns = RankColumns(
        rank=order,
        host=[r // 8 for r in order],
        local_rank=[r % 8 for r in order],
        node_rank=[None] * MANY,
        state=[0 if r == late else 1 for r in order],
        part=[0 if r == late else 1 for r in order],
        outlier=[r == late for r in order],
        last_step=[4_100 if r == late else 4_120 for r in order],
        phase=[None] * MANY,
        note=[None] * MANY,
        file=[r // 8 for r in order],
        line=[40 + r % 8 for r in order],
        hosts=[f"gpu-node-{n:04d}" for n in range(MANY // 8)],
        states=["failed", "timed_out"],
        parts=["notified", "initiator"],
        files=files,
        groups=[_group(order, late)],
    )
    lanes = Lanes(
        origin=start.lanes.origin,
        seconds=3241.0,
        first_fault=3240.0,
        begins=[r % 30 / 10 for r in order],
        active_to=[1201.0 if r == late else 1420.0 for r in order],
        wait_from=waits,
        wait_to=[None if w is None else w + 1800 for w in waits],
        died=[None] * MANY,
        ends=[3240.0] * MANY,
    )
    named = replace(diagnosis.verdict.culprits, ranks=[late], hosts=[f"gpu-node-{late // 8:04d}"])
    verdict = replace(diagnosis.verdict, culprits=named)
    shown = replace(diagnosis, verdict=verdict, ranks=ranks, coverage=coverage, counts=counts)
    return replace(start, diagnosis=shown, ranks=columns, lanes=lanes)


def _group(order: list[int], late: int) -> GroupColumns:
    waiting = [r != late for r in order]
    return GroupColumns(
        name="default",
        rows=list(range(len(order))),
        enqueued=[81_213 if w else 81_211 for w in waiting],
        completed=[81_211] * len(order),
        op=[0 if w else None for w in waiting],
        seq=[81_212 if w else None for w in waiting],
        numel_in=[25_165_824 if w else None for w in waiting],
        numel_out=[25_165_824 if w else None for w in waiting],
        timeout_ms=[1_800_000 if w else None for w in waiting],
        ran_ms=[1_800_000 + r % 97 if w else None for r, w in zip(order, waiting, strict=True)],
        in_flight=waiting,
        ops=["ALLREDUCE"],
    )


def healthy(folder: Path) -> Page:
    """Two ranks that came to their last step."""
    lines = [STEPS.format(at=n, rank=r, step=n + 1, total=20) for n in range(20) for r in range(2)]
    return _of(folder, "\n".join([*lines, "Training completed. Do not forget to share your model =)"]))


def unknown(folder: Path) -> Page:
    """A log that just stops."""
    return _of(folder, "\n".join(STEPS.format(at=n, rank=0, step=n + 1, total=500) for n in range(20)))


def hostile(folder: Path) -> Page:
    """Markup, scripts, templates and control characters where text can stand: in lines, file names and messages."""
    text = "".join(TRACE.format(text=evil.replace("\n", " ")) for evil in EVIL)
    return _of(folder, text + "\n".join(EVIL), name="a<img src=x onerror=alert(1)>'\".log")


def between(folder: Path) -> Page:
    """A hung job in which a rank died of an error whose lines bear no stamp."""
    logs = hung_job.write(folder / "logs", late=2)
    trace = "[rank2]: Traceback (most recent call last):\n[rank2]: ValueError: no"
    for path in sorted(logs.iterdir()):
        kept = [line for line in path.read_text(encoding="utf-8").splitlines() if "[rank2]:" not in line]
        own = [i for i, line in enumerate(kept) if "[rank2]" in line]
        if own:
            kept.insert(own[-1] + 1, trace)
        path.write_text("\n".join(kept) + "\n", encoding="utf-8")
    return page([logs])


def witnesses(_folder: Path) -> Page:
    """A real small job that hung, with its logs, flight-recorder dumps, stacks and a kernel log."""
    case = MIXED / "loader-behind-a-mount"
    return page([case / part for part in ("logs", "dumps", "stacks", "kernel")])


def storage(folder: Path) -> Page:
    """A simulated incident of an object store, with the logs of its daemons."""
    spec = next(spec for spec in scenario.matrix(large=False) if spec.kind == "late_abort")
    scenario.build(spec, folder)
    return page([folder])


def memory(folder: Path) -> Page:
    """A process of which one line keeps what it makes, with its memory snapshot."""
    kept = stack(("/srv/app/metrics.py", 57, "remember"), ("/srv/app/train.py", 93, "step"))
    device = Allocator(4 * GIB)
    try:
        while True:
            device.alloc(120 * MIB, kept)
    except OutOfMemory:
        (folder / "rank1_memory_snapshot.pickle").write_bytes(pickled(device.snapshot(device=1)))
    error = "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 120.00 MiB. GPU 1 has a total capacity of 4.00 GiB"
    (folder / "rank1.log").write_text(error + "\n", encoding="utf-8")
    return page([folder])


NAN_FROM, SLOW_FROM, SLOW_RANK, RUN = 330, 200, 5, 400
SMI = "timestamp, index, utilization.gpu [%], memory.used [MiB], temperature.gpu, clocks.sm [MHz]"


def metrics(folder: Path, ranks: int = 4) -> Page:
    """A run in which one rank is slow from one step on and the loss is no number from a later one, with a table of counters."""
    logs = folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    smi = [SMI]
    for rank in range(ranks):
        lines = []
        for step in range(1, RUN + 1):
            slow, stamp = step >= SLOW_FROM, f"2026-08-22 {10 + step // 60:02d}:{step % 60:02d}:00"
            own = 2.5 if slow and rank == SLOW_RANK % ranks else 0.5
            loss = "nan" if step >= NAN_FROM else f"{1.5 + 8 / (1 + step / 20) + step * (rank + 3) % 7 / 100:.4f}"
            lines.append(
                f"[{stamp}] rank: {rank}, step: {step}, loss: {loss}, grad_norm: {0.5 + step % 5 / 20:.3f}, "
                f"step_time: {(4.2 if slow else 2.2) + step % 4 / 100:.3f}, forward_time: {own + step * rank % 3 / 100:.3f}"
            )
            if rank == 0:
                smi.append(f"{stamp.replace('-', '/')}.000, 0, {48 if slow else 97} %, 61000 MiB, 66, 1980 MHz")
        (logs / f"rank{rank}.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (logs / "smi.csv").write_text("\n".join(smi) + "\n", encoding="utf-8")
    return page([logs])


def spread(folder: Path) -> Page:
    """The same of more ranks than lines are drawn."""
    return metrics(folder, ranks=48)


def short(folder: Path) -> Page:
    """A run of three steps, of which the first has by far the highest loss."""
    return _of(folder, "\n".join(f"[rank0] step: {n}, loss: {loss}" for n, loss in ((10, 9.5), (20, 1.2), (30, 1.1))))


def steep(folder: Path) -> Page:
    """A long run, whose first steps have a loss so high that the rest would be a flat line beside it."""
    losses = (900.0 if step < 5 else 2 + step % 7 / 10 for step in range(1, 401))
    return _of(folder, "\n".join(f"[rank0] step: {n}, loss: {loss:.3f}" for n, loss in enumerate(losses, 1)))


def _of(folder: Path, text: str, name: str = "rank0.log") -> Page:
    logs = folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    (logs / name).write_text(text + "\n", encoding="utf-8")
    return page([logs])


REPORTS: dict[str, Callable[[Path], Page]] = {
    "small": small,
    "large": large,
    "huge": huge,
    "healthy": healthy,
    "unknown": unknown,
    "hostile": hostile,
    "between": between,
    "witnesses": witnesses,
    "storage": storage,
    "memory": memory,
    "metrics": metrics,
    "spread": spread,
    "short": short,
    "steep": steep,
}


def write(name: str, folder: Path, language: str = "en") -> Shown:
    """Makes a report and writes it to disk."""
    text = publish_page(REPORTS[name](folder), "secrets", language=language)
    path = folder / f"{name}.html"
    path.write_text(text, encoding="utf-8")
    return Shown(name, path, path.stat().st_size, text)
