"""Times a diagnosis with the logs of many storage daemons against one of worker logs of the same size, in turn.

    python bench/storage/run.py DATA --daemons 24 --mb 64 [--rounds 3] [--keep] [--apart]

DATA gets `N x MB/`: `job` (a small job that lost a batch), `ais` (the daemons' logs: one target's disk was saturated and it aborted
the get-batch job) and `worker` (the same job, whose worker logs are as many and as large as the daemons'). First the answer
is held against what was put in, then whole commands are run in turn. It prints processor and wall seconds of each round.
With `--apart` the worker logs are made, and the rounds of them run, when the daemons' logs are timed and gone: for sizes
of which two sets fit neither the disk nor the page cache. `--memory` samples the memory of all processes, which itself takes time.
"""

from __future__ import annotations

import argparse
import calendar
import json
import random
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scan"))

from make import background
from watched import memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FAULT = calendar.timegm((2026, 2, 11, 5, 31, 0))
"""When the batch was lost, in UTC, which is the daemons' zone."""
EAST = 8 * 3600
"""The workers' zone."""
TICK, DISKS = 10, 10
NODE, HOST, BAD = "kWQt8081", "ais-target-000", 3
"""Node id and host of the template, and the number of the target at fault."""
XACT = "x-get-batch[k7Qm2xWpL]-s3://asr"


def clock(moment: float, fraction: int = 0) -> str:
    """Time of day as a daemon prints it."""
    return time.strftime("%H:%M:%S", time.gmtime(moment)) + f".{fraction:06d}"


def daemon_log(size: int, *, rng: random.Random) -> bytes:
    """The log of a target that saw the abort of another: ordinary lines before it, hourly markers after it."""
    per_hour = 3600 / TICK * DISKS * 62 + 20 * 900
    start = FAULT - int(size / per_hour * 3600)
    opened = time.strftime("%Y/%m/%d %H:%M:%S", time.gmtime(start))
    lines = [
        f"Started up at {opened}, host {HOST}, go1.25.5 for linux/amd64",
        f"I {clock(start, 774540)} daemon:325 Version 4.2.1a2b3c4, build 2026-01-15T19:20:12+0000, CPUs(32, runtime=256), containerized",
        f"I {clock(start, 913001)} daemon:268 Node t[{NODE}], Version 4.2.1a2b3c4, build 2026-01-15T19:20:12+0000, CPUs(32, runtime=256), containerized",
        f"I {clock(start + 2, 402118)} htrun:2157 t[{NODE}]: joined cluster via http://ais-proxy-0.ais-proxy:51082",
    ]
    for number, at in enumerate(range(start + TICK, FAULT, TICK)):
        lines.extend(
            f"I {clock(at, 785102 + disk)} nvme{disk}n1: {rng.randrange(20, 900)}MiB/s, 119KiB, {rng.randrange(10, 300)}MiB/s, 21KiB, {rng.randrange(16, 70)}%"
            for disk in range(DISKS)
        )
        if number % 18 == 0:
            lines += counters(at, number)
        if number % 360 == 0:
            lines.append(
                f"I {clock(at, 785200)} common:502 {time.strftime('%d %b %y %H:%M UTC', time.gmtime(at))} ============="
            )
    relayed = (
        f"remote target abort [t[B4DB4DB4]: {XACT} t[B4DB4DB4] out-of-bounds index 63 (recv'd len=0, wid=Zx9QwErTy1)]"
    )
    lines.append(f"I {clock(FAULT, 122890)} moss:311 {XACT} aborting: {XACT}: {relayed}")
    for hour in range(1, 3):
        at = FAULT + hour * 3600
        lines.append(f"I {clock(at)} common:502 {time.strftime('%d %b %y %H:%M UTC', time.gmtime(at))} =============")
    return ("\n".join(lines) + "\n").encode()


def counters(at: int, number: int) -> list[str]:
    """A line of statistics and what goes with it every three minutes."""
    batches = 1000 + number * 56
    return [
        (
            f"I {clock(at, 785300)} {{err.get.n:12,get.bps:219094016,get.n:{1_006_219 + number},get.ns:4255454,get.ns.total:{3_041_645_043_551 + number * 10**6},"
            f"getbatch.n:{batches},getbatch.obj.n:{batches * 128},getbatch.obj.size:{batches * 24_000_000},getbatch.rxwait.ns:{88_123_400_112 + number * 10**7},"
            f"kalive.ns:1204331,lcache.evicted.n:1211669,lcache.flush.cold.n:491970,lst.n:8824,put.n:286,state.flags:6,"
            f"stream.in.n:{number * 200},stream.in.size:{number * 35_000_000},stream.out.n:{number * 200},stream.out.size:{number * 35_000_000}}}"
        ),
        f"I {clock(at, 785400)} lcache:251 hk: [ mem/cpu/disk: low low low ]",
        f"I {clock(at, 785500)} moss:494 {XACT} ctlmsg ( pending:4 reqs:{batches} files: [53017774 8.44TiB], bewarm:on avg-wait:2.4ms )",
    ]


def at_fault(log: bytes) -> bytes:
    """The same log, of the target whose disk was saturated and which aborted the job."""
    lines = log.decode().splitlines()
    end = next(i for i, line in enumerate(lines) if "remote target abort" in line)
    pressed = [
        line
        for i in range(12)
        for line in (
            f"I {clock(FAULT - 600 + i * 50, 1)} nvme2n1: 1GiB/s, 118KiB, 402MiB/s, 256KiB, 99%",
            f"W {clock(FAULT - 600 + i * 50, 2)} moss:441 resource pressure: load=critical sleep=10ms [mem=low cpu=low dsk=critical] - sleeping/delaying: 10ms",
        )
    ]
    own = f"{XACT} t[{NODE}] out-of-bounds index 63 (recv'd len=0, wid=Zx9QwErTy1)"
    lines[end : end + 1] = [
        f"E {clock(FAULT, 118330)} moss:758 {XACT} t[{NODE}] RecvObj: {own}",
        f"I {clock(FAULT, 118410)} moss:311 {XACT} aborting: {own}",
    ]
    # What happened in the ten minutes before is put where its time is.
    begin = end
    while lines[begin - 1][2:17] >= clock(FAULT - 600):
        begin -= 1
    late = sorted([*lines[begin:end], *pressed], key=lambda line: line[2:17])
    return ("\n".join([*lines[:begin], *late, *lines[end:]]) + "\n").encode()


def job_log(rank: int, size: int, *, rng: random.Random) -> Iterator[bytes]:
    """A rank's log: training, then the lost batch (rank 1) or the wait for it."""
    stamp = lambda at: time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at + EAST))  # noqa: E731
    yield f"{stamp(FAULT - 7200)},118 INFO train: RANK={rank} WORLD_SIZE=8 host=gpu-a{501 + rank // 4}\n".encode()
    if size:
        pool = ("\n".join(background(rng, rank)) + "\n").encode()
        for _ in range(max(1, size // len(pool))):
            yield pool
    for step in range(60):
        at = FAULT - 3600 + step * 60
        yield f"[rank{rank}]: {stamp(at)},118 INFO train: step {step + 1}/1000 loss={3 - step / 1000:.4f} lr=3.0e-04\n".encode()
    if rank == 1:
        yield (
            f"[rank1]: {stamp(FAULT + 2)},401 ERROR train: data loader failed\n"
            "[rank1]: Traceback (most recent call last):\n"
            '[rank1]:   File "/app/train.py", line 91, in <module>\n[rank1]:     main()\n'
            '[rank1]:   File "/opt/venv/lib/python3.11/site-packages/lhotse/ais/batch_loader.py", line 171, in __call__\n'
            "[rank1]:     raise AISBatchLoaderError(\n"
            "[rank1]: lhotse.ais.batch_loader.AISBatchLoaderError: Batch result iterator exhausted prematurely. "
            "Expected more objects for manifests with URLs.\n"
        ).encode()
        return
    yield (
        f"[rank{rank}]:[E211 {time.strftime('%H:%M:%S', time.gmtime(FAULT + EAST + 602))}.066673180 ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=5111, OpType=ALLREDUCE, NumelIn=65553408, NumelOut=65553408, Timeout(ms)=600000) "
        "ran for 600023 milliseconds before timing out.\n"
    ).encode()


def make_store(folder: Path, daemons: int, size: int) -> int:
    """Writes the job and the daemons' logs; gives the bytes of one of them."""
    rng = random.Random(f"{daemons} {size}")
    log = daemon_log(size, rng=rng)
    bad = at_fault(log)
    for number in range(daemons):
        place = folder / "ais" / f"ais-target-{number:03d}"
        place.mkdir(parents=True)
        node = "B4DB4DB4" if number == BAD else f"kWQt8{number:03d}"
        own = (bad if number == BAD else log).replace(NODE.encode(), node.encode())
        name = f"aistarget.ais-target-{number:03d}.INFO.0131-120000.1"
        (place / name).write_bytes(own.replace(HOST.encode(), f"ais-target-{number:03d}".encode()))
    make_ranks(folder / "job", 8, 0)
    return len(log)


def make_ranks(folder: Path, files: int, size: int) -> None:
    """Writes worker logs of a size each; of size 0 they hold only what happened."""
    rng = random.Random(f"{files} {size}")
    folder.mkdir(parents=True)
    for rank in range(files):
        with (folder / f"rank-{rank}.log").open("wb") as file:
            # More files than ranks are only training output: a job writes more than one file a rank.
            file.writelines(job_log(rank, size, rng=rng) if rank < 8 else _filler(size, rng, rank))


def _filler(size: int, rng: random.Random, rank: int) -> Iterator[bytes]:
    pool = ("\n".join(background(rng, rank % 8)) + "\n").encode()
    for _ in range(max(1, size // len(pool))):
        yield pool


class Timed(NamedTuple):
    """What one whole command cost."""

    used: float
    """Seconds of processor time."""
    wall: float
    peak: int
    """Most bytes of all its processes at a look, shared pages counted once; 0 where nobody looked."""


def timed(arguments: Sequence[str], *, watched: bool = False) -> Timed:
    """Runs one whole command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start, peak = time.perf_counter(), 0
    command = [sys.executable, "-m", "firstfault", "diagnose", "--exit-zero", *arguments]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while watched and process.poll() is None:
            peak = max(peak, memory(process.pid))
            time.sleep(1)
    assert process.returncode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Timed(used, time.perf_counter() - start, peak)


def check(folder: Path) -> None:
    """Ends the program where the answer is not what was put in."""
    command = [sys.executable, "-m", "firstfault", "diagnose", "--exit-zero", "--format", "json"]
    out = subprocess.run(
        [*command, str(folder / "job"), "--storage", str(folder / "ais")], check=True, capture_output=True
    ).stdout
    verdict = json.loads(out)["verdict"]
    named = verdict["culprits"]["storage_nodes"]
    if verdict["category"] != "storage_io" or named != [f"ais-target-{BAD:03d}"]:
        sys.exit(f"wrong answer: {verdict['category']}, {named}: {verdict['summary']}")


def size_of(folder: Path) -> int:
    """Bytes of all files of a folder."""
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())


def told(name: str, one: Timed) -> str:
    """One run, for people."""
    peak = f", peak {one.peak / 1e6:.0f} MB" if one.peak else ""
    return f"{name} {one.used:.2f} s of processor time ({one.wall:.1f} s{peak})"


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--daemons", type=int, default=24)
    parser.add_argument("--mb", type=float, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="leave the logs there")
    parser.add_argument("--apart", action="store_true", help="one set of logs at a time")
    parser.add_argument("--memory", action="store_true", help="sample the memory of all processes")
    options = parser.parse_args()
    folder = options.data / f"{options.daemons} x {options.mb:g}"
    store, ranks = folder / "ais", folder / "worker"
    commands = {store: [str(folder / "job"), "--storage", str(store)], ranks: [str(ranks)]}
    rounds: dict[Path, list[Timed]] = {store: [], ranks: []}

    def run(name: str, place: Path) -> None:
        rounds[place].append(timed(commands[place], watched=options.memory))
        print(told(name, rounds[place][-1]), flush=True)

    each = int(options.mb * 1e6)
    if not store.exists():
        each = make_store(folder, options.daemons, each)
    check(folder)
    sizes = {store: size_of(store)}
    print(f"{options.daemons} daemons, {sizes[store] / 1e6:.0f} MB; the target at fault is named", flush=True)
    for _ in range(options.rounds if options.apart else 0):
        run("storage", store)
    if options.apart and not options.keep:
        shutil.rmtree(store)
    if not ranks.exists():
        make_ranks(ranks, max(8, options.daemons), each)
    sizes[ranks] = size_of(ranks)
    print(f"worker logs {sizes[ranks] / 1e6:.0f} MB", flush=True)
    for _ in range(options.rounds):
        if not options.apart:
            run("storage", store)
        run("worker", ranks)
    ratios = [
        one.used / sizes[store] / (other.used / sizes[ranks])
        for one, other in zip(rounds[store], rounds[ranks], strict=True)
    ]
    print(f"ratios a byte {', '.join(f'{r:.2f}' for r in ratios)}, median {statistics.median(ratios):.2f}")
    if not options.keep:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
