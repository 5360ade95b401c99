"""What the dry runs of some ranks mean: failures, stalls, uneven ends, items that come twice, memory. Pure: trials in, findings out."""

from __future__ import annotations

import itertools
from statistics import quantiles
from typing import TYPE_CHECKING

from firstfault.dataset.spread import uneven
from firstfault.model.dataset import DataFinding, RankTrial, SlowItem, WorkerRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from firstfault.dataset.dry_run import Limits
    from firstfault.dataset.trial import Failure, Stood, Trial
    from firstfault.model.dataset import RunEnd

SLOW_S = 1.0
"""Seconds from which on an item may be called slow."""
SLOW_TIMES = 10
"""And how many times the median it takes."""
FULL = 0.8
"""Part of the shared memory from which on it is nearly full."""
_REPLACED = "accelerate, Lightning and the Hugging Face Trainer put one in by themselves; else use DistributedSampler and call set_epoch."


def judge(trials: Sequence[Trial], world: int, limits: Limits, shm: tuple[int, int] | None) -> list[DataFinding]:
    """What is wrong.

    Args:
        trials: of the ranks that were tried.
        world: ranks of the job.
        limits: what the trials were allowed.
        shm: size and free bytes of /dev/shm before; None where there is none.
    """
    found: list[DataFinding] = []
    for trial in trials:
        found += [*_ends(trial, limits), *_stalls(trial), *_failures(trial), *_slow(trial), *_memory(trial, world, shm)]
    found += [*_sampler(trials, world), *_repeats(trials), *_lengths(trials, world)]
    return _joined(found)


def _joined(found: list[DataFinding]) -> list[DataFinding]:
    """One for what several ranks tell alike."""
    held: dict[tuple[str, str, str], DataFinding] = {}
    for one in found:
        key = (one.check, one.what, one.state)
        if key in held:
            ranks = sorted({*held[key].ranks, *one.ranks})
            held[key] = _with(held[key], ranks)
        else:
            held[key] = one
    return list(held.values())


def _with(one: DataFinding, ranks: list[int]) -> DataFinding:
    from msgspec.structs import replace

    return replace(one, ranks=ranks)


def _ends(trial: Trial, limits: Limits) -> Iterator[DataFinding]:
    ranks, said = [trial.rank], [line for line in trial.said.strip().split("\n") if line.strip()][-4:]
    if trial.failure:
        told = trial.failure
        where = {"import": "importing it", "make": "making it", "iterate": "iterating it"}.get(
            str(told.get("where")), ""
        )
        yield DataFinding(
            check="loader.fails", state="fail", ranks=ranks, lines=[str(f)[:300] for f in told.get("frames", [])],
            what=f"{where} raised {told.get('type')}: {str(told.get('text'))[:400]}",
            why="The job would end there before its first step.",
            fix="Read the frames; where the code needs arguments, give a function without any that makes the loader.",
        )  # fmt: skip
    elif trial.end == "died":
        code = trial.code or 0
        how = f"was killed by signal {-code}" if code < 0 else f"left with code {code}"
        yield DataFinding(
            check="loader.dies", state="fail", ranks=ranks, lines=said, what=f"the process that loads {how}",
            why="No exception reaches the training script.",
            fix="Signal 7 is a full /dev/shm, 9 mostly a memory limit, 11 a library: run the same items in one process with faulthandler.",
        )  # fmt: skip
    elif trial.end == "memory":
        yield DataFinding(
            check="loader.memory", state="fail", ranks=ranks,
            what=f"it held {trial.memory_mb} MB after {len(trial.times)} batches, and {limits.memory_mb} MB were allowed",
            why="A cgroup or the kernel would end the job at its own limit.",
            fix="Fewer workers or a smaller prefetch_factor; keep lists of paths as one array. --memory-mb allows more.",
        )  # fmt: skip
    elif trial.end == "gave_up":
        yield DataFinding(check="loader.gives_up", state="fail", ranks=ranks, what="batch after batch failed, and it was given up", fix="See what the items raised.")  # fmt: skip
    elif trial.end == "ended" and not trial.times and not trial.failures:
        yield DataFinding(
            check="loader.no_batch", state="fail", ranks=ranks, what="it ended without a single batch",
            why="The epoch is over before its first step: the job ends at once, or waits for ranks that have some.",
            fix="Look whether the path, a filter, drop_last or the split over ranks leaves nothing.", lines=said,
        )  # fmt: skip
    elif trial.end in {"time", "stalled"} and not trial.times:
        yield DataFinding(
            check="loader.no_batch", state="fail" if trial.stood else "warn", ranks=ranks,
            what=f"no batch came in {trial.tried:.0f} s after the loader was made" if trial.made else f"no loader was made in {trial.seconds:.0f} s", why="All other ranks would wait for this one in their first collective.",
            fix="--seconds allows more; look at where it stood.", lines=trial.place or said,
        )  # fmt: skip


def _stalls(trial: Trial) -> Iterator[DataFinding]:
    for stood in trial.stood[:5]:
        name, worker = stood.what.name, stood.what.worker
        if not name:
            what = f"a batch had not come after {stood.after:.1f} s"
            if stood.ended is not None:
                what = f"a batch came after {stood.ended:.1f} s"
        elif worker is None:
            what = f"item {name} had not come after {stood.after:.1f} s"
            if stood.ended is not None:
                what = f"item {name} came after {stood.ended:.1f} s"
        else:
            what = f"item {name} had not come from worker {worker} after {stood.after:.1f} s"
            if stood.ended is not None:
                what = f"item {name} came from worker {worker} after {stood.ended:.1f} s"
        if stood.kernel:
            what += f"; state in the kernel: {stood.kernel}"
        yield DataFinding(
            check="item.stalls", state="fail" if stood.ended is None else "warn", ranks=[trial.rank],
            what=what, names=[stood.what.name] if stood.what.name else [], lines=stood.stack,
            why="The other ranks wait in a collective meanwhile, until its time-out.",
            fix="Give reads a time-out and a second try, and the DataLoader `timeout`; state D is a file system that does not answer.",
        )  # fmt: skip


def _failures(trial: Trial) -> Iterator[DataFinding]:
    for one in trial.failures.values():
        yield _failure(trial, "item.collate" if one.collate else "item.fails", one)
    if not trial.failures:
        for one in trial.errors.values():
            yield _failure(trial, "batch.fails", one)


def _failure(trial: Trial, check: str, one: Failure) -> DataFinding:
    text = one.text.strip().split("\n")[-1][:300]
    what = f"items failed with {one.kind} ({one.count}): {text}"
    if check != "item.fails":
        what = f"batches failed with {one.kind} ({one.count}): {text}"
    return DataFinding(
        check=check, state="fail", ranks=[trial.rank], count=one.count, names=one.names, lines=one.frames,
        what=what,
        why="The first of them ends the job, at a step that changes with the seed.",
        fix="Repair or leave out what is named; --batches looks at more.",
    )  # fmt: skip


def _slow(trial: Trial) -> Iterator[DataFinding]:
    times = sorted(trial.times[1:])
    if len(times) < 10 or not trial.slow:
        return
    middle, worst = times[len(times) // 2], max(trial.slow)
    if worst[0] >= SLOW_S and times[-1] >= max(SLOW_S, SLOW_TIMES * middle):
        yield DataFinding(
            check="item.slow", state="warn", ranks=[trial.rank], names=[name for _, name, _ in sorted(trial.slow, reverse=True)[:3]],
            what=f"the slowest batch took {times[-1]:.2f} s, the median {middle:.3f} s; the slowest item is {worst[1]} with {worst[0]:.2f} s",
            why="All ranks wait for the slowest batch of each step.", fix="Cut or leave out such items, or load with more workers.",
        )  # fmt: skip


def _memory(trial: Trial, world: int, shm: tuple[int, int] | None) -> Iterator[DataFinding]:
    workers = len(trial.workers)
    if shm is None or not workers or not trial.batch_bytes:
        return
    prefetch = trial.made.get("prefetch")
    ahead = workers * (prefetch if isinstance(prefetch, int) else 2) * trial.batch_bytes
    if ahead > shm[1]:
        yield DataFinding(
            check="shm.small", state="fail", ranks=[trial.rank],
            what=f"{workers} workers hold up to {ahead >> 20} MB of batches ready in /dev/shm, where {shm[1] >> 20} of {shm[0] >> 20} MB are free",
            why="A worker that finds it full is killed by signal 7 (bus error).",
            fix="Start the container with --shm-size or --ipc=host, or take fewer workers or a smaller prefetch_factor.",
        )  # fmt: skip
    elif ahead > FULL * shm[1] or (world > 1 and ahead * min(world, 8) > shm[1]):
        yield DataFinding(
            check="shm.small", state="warn", ranks=[trial.rank],
            what=f"{workers} workers of one rank hold up to {ahead >> 20} MB ready in /dev/shm, where {shm[1] >> 20} MB are free for all ranks of the machine",
            why="A worker that finds it full is killed by signal 7 (bus error).",
            fix="Count the ranks of a machine: --shm-size must hold them all.",
        )  # fmt: skip


def _sampler(trials: Sequence[Trial], world: int) -> Iterator[DataFinding]:
    trial = next((t for t in trials if t.sampler), None)
    if trial is None:
        return
    told = trial.sampler
    if told["k"] == "plain_sampler":
        if world > 1:
            yield DataFinding(
                check="sampler.not_split", state="warn", what=f"{told.get('type')} knows nothing of ranks: each of the {world} reads all items",
                why="Every rank trains on the same items, and the epoch is as long as on one GPU.", fix=_REPLACED,
            )  # fmt: skip
        return
    if told.get("size") != world:
        yield DataFinding(
            check="sampler.world_size", state="fail", what=f"{told.get('type')} splits for {told.get('size')} ranks, and the job has {world}",
            why="Items are left out, or come on several ranks.", fix="Give it the size of the data-parallel group.",
        )  # fmt: skip
        return
    both = [(r, n) for r, n in trial.shared.items() if n > max(world, trial.simulated[r][1] // 2)]
    if both:
        yield DataFinding(
            check="sampler.overlaps", state="fail", what=f"rank {both[0][0]} is given {both[0][1]} items that another rank is given too", ranks=[r for r, _ in both][:64],
            why="Ranks train on the same items.", fix="Seed the shuffle alike on all ranks, and split after it.",
        )  # fmt: skip


def _repeats(trials: Sequence[Trial]) -> Iterator[DataFinding]:
    for trial in trials:
        stream, workers = bool(trial.made.get("stream")), len(trial.workers)
        for what, count in trial.repeated.items():
            if not count:
                continue
            if stream and workers > 1 and count >= (trial.items * (workers - 1)) // (2 * workers):
                yield DataFinding(
                    check="stream.every_worker", state="fail", ranks=[trial.rank], count=count, names=trial.again[what],
                    what=f"{count} of {trial.items} items came from more than one of the {workers} workers",
                    why="Each worker iterates the whole dataset, so that an epoch holds every item once per worker.",
                    fix="Split by torch.utils.data.get_worker_info() in __iter__, or add split_by_worker.",
                )  # fmt: skip
            else:
                yield DataFinding(
                    check=f"item.same_{what}", state="warn", ranks=[trial.rank], count=count, names=trial.again[what],
                    what=f"{count} items have the {what} of an earlier one", fix="Leave them out, or see that it is meant.",
                )  # fmt: skip
    streams = [t for t in trials if t.made.get("stream") and t.keys]
    for first, second in itertools.pairwise(streams):
        shared = first.keys.keys() & second.keys.keys()
        if len(shared) > min(len(first.keys), len(second.keys)) // 2:
            yield DataFinding(
                check="stream.every_rank", state="fail", ranks=[first.rank, second.rank], count=len(shared), names=sorted(m[1:] for m in shared)[:5] if next(iter(shared))[0] == "k" else [],
                what=f"{len(shared)} items came on rank {first.rank} and on rank {second.rank}", why="Ranks train on the same items.",
                fix="Split by the rank in __iter__ (shards[rank::world_size]), or add split_by_node.",
            )  # fmt: skip


def _lengths(trials: Sequence[Trial], world: int) -> Iterator[DataFinding]:
    counts = batches_of(trials, world)
    known = [c for c in counts if c is not None]
    if len(known) > 1:
        yield from uneven(counts, "batches")


def batches_of(trials: Sequence[Trial], world: int) -> list[int | None]:
    """Batches of each rank: by the sampler, else by runs that came to the end of the data; empty where nothing says it."""
    simulated = next((t.simulated for t in trials if len(t.simulated) > 1 and t.sampler.get("size") == world), None)
    if simulated is not None:
        return [simulated[r][0] if r in simulated else None for r in range(world)]
    ended = {t.rank: len(t.times) for t in trials if t.end == "ended" and not t.failures and not t.errors}
    return [ended.get(r) for r in range(world)] if ended else []


def row(trial: Trial) -> RankTrial:
    """What is published of a trial."""
    times = trial.times[1:]
    cuts = quantiles(times, n=100, method="inclusive") if len(times) > 1 else []
    return RankTrial(
        rank=trial.rank, end=_end(trial), batches=len(trial.times), items=trial.items, failed=trial.failed, seconds=round(trial.seconds, 3),
        first_s=round(trial.times[0], 4) if trial.times else None,
        median_s=round(cuts[49], 4) if cuts else None, p90_s=round(cuts[89], 4) if cuts else None, p99_s=round(cuts[98], 4) if cuts else None,
        longest_s=round(max(times), 4) if times else None, batch_bytes=trial.batch_bytes or None, memory_mb=trial.memory_mb, shm_mb=trial.shm_mb,
        workers=[
            WorkerRow(number=n, items=w.items, failed=w.failed, busy_s=round(w.busy, 3), state="in an item" if w.pid in trial.open else w.state or "ended")
            for n, w in sorted(trial.workers.items())
        ],
    )  # fmt: skip


def _end(trial: Trial) -> RunEnd:
    ends: tuple[RunEnd, ...] = ("ended", "batches", "time", "memory", "stalled", "failed", "died", "gave_up")
    return next((e for e in ends if e == trial.end), "died")


def slowest(trials: Sequence[Trial]) -> list[SlowItem]:
    """The slowest items of all ranks, also those that never came."""
    found = [
        SlowItem(name=n, seconds=round(s, 4), rank=t.rank, worker=None if w < 0 else w)
        for t in trials
        for s, n, w in t.slow
    ]
    found += [_never(t.rank, s) for t in trials for s in t.stood if s.ended is None and s.what.name]
    return sorted(found, key=lambda i: (-i.seconds, i.rank, i.name))[:10]


def _never(rank: int, stood: Stood) -> SlowItem:
    return SlowItem(name=stood.what.name, seconds=round(stood.after, 4), rank=rank, worker=stood.what.worker)
