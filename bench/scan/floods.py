"""Floods: makes inputs of very many equal things, diagnoses each at a quarter and at its whole size, and shows what grows.

    python bench/scan/floods.py FOLDER [--only NAME ...] [--scale 0.01] [--history floods.jsonl]

A flood is ten million errors in one file, equal or with numbers of their own, one line of gigabytes, a hundred thousand tiny
files, one file under fifty names, archives within archives, and so on (`FLOODS`). What counts: processor time that grows
no faster than the input, and memory that does not grow with it. At `--scale 1` the largest takes 2 GB of disk; each input
is deleted as soon as it is measured. Every measurement is a line of JSON in the history, with the load of the machine.

Exit code 1 where time grew by more than `STEEP` times what the input grew by, memory by more than `THICK`, or a
diagnosis failed.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hangs import Sampled

if TYPE_CHECKING:
    from collections.abc import Callable

STEEP = 1.3
"""Growth of the time beyond that of the input from which on it is no longer linear; clocks of a shared machine differ by less."""
THICK = 1.3
SMALL = 0.25
EXTRA = 48e6
"""Bytes of memory by which the larger one may need more whatever the ratio: sizes of buffers and tables of paths."""
ERROR = "[rank3]:[E712 14:23:28.058775353 ProcessGroupNCCL.cpp:681] [Rank 3] Some NCCL operations have failed or timed out.\n"
STEP = "step 120/900 | loss 2.41 | lr 1.5e-04 | 812 ms\n"
DEATH = "RuntimeError: CUDA error: an illegal memory access was encountered\n"
BLOCK = 1 << 20


def equal(folder: Path, scale: float) -> None:
    """Ten million equal errors behind one another."""
    _repeat(folder / "job.log", ERROR, 10_000_000 * scale)


def numbered(folder: Path, scale: float) -> None:
    """Two million errors of sixteen thousand ranks, each with numbers of its own."""
    with (folder / "job.log").open("w") as file:
        for i in range(int(2_000_000 * scale)):
            file.write(
                f"[rank{i % 16384}]:[E712 14:{i // 60000 % 60:02d}:{i // 1000 % 60:02d}.{i % 10**9:09d} ProcessGroupNCCL.cpp:681] "
                f"[Rank {i % 16384}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={i}, OpType=ALLREDUCE, "
                f"NumelIn={i % 4096}, NumelOut={i % 4096}, Timeout(ms)=600000) ran for {600000 + i % 999} milliseconds before timing out.\n"
            )


def one_line(folder: Path, scale: float) -> None:
    """Two gigabytes without a newline."""
    _fill(folder / "job.log", "all of it is one line and nobody ever ended it, ", int(2e9 * scale))


def bars(folder: Path, scale: float) -> None:
    """Progress bars that redraw one line for a gigabyte."""
    _fill(folder / "job.log", "\r 45%|####5     | 450/1000 [07:30<09:10,  1.00s/it, loss=2.4]", int(1e9 * scale))


def files(folder: Path, scale: float) -> None:
    """Two thousand files of 500 kB."""
    text = (STEP * 100 + ERROR) * (500_000 // (100 * len(STEP)))
    for i in range(int(2000 * scale)):
        (folder / f"rank_{i:05d}.log").write_text(text)


def tiny(folder: Path, scale: float) -> None:
    """A hundred thousand files of two lines."""
    for i in range(int(100_000 * scale)):
        below = folder / f"{i // 1000:03d}"
        below.mkdir(exist_ok=True)
        (below / f"rank_{i}.log").write_text(STEP + ERROR)


def names(folder: Path, scale: float) -> None:
    """A file of 400 MB under fifty names."""
    first = folder / "job_0.log"
    _repeat(first, STEP * 99 + ERROR, 400e6 * scale / (99 * len(STEP)))
    for i in range(1, 50):
        (folder / f"job_{i}.log").hardlink_to(first)


def nested(folder: Path, scale: float) -> None:
    """Two hundred archives, each eight archives deep around a log of 200 kB."""
    packed = (STEP * 4000 + ERROR).encode()
    name = "job.log"
    for depth in range(8):
        held = io.BytesIO()
        with tarfile.open(fileobj=held, mode="w:gz") as archive:
            entry = tarfile.TarInfo(name)
            entry.size = len(packed)
            archive.addfile(entry, io.BytesIO(packed))
        packed, name = held.getvalue(), f"inner_{depth}.tar.gz"
    for i in range(int(200 * scale)):
        (folder / f"node_{i}.tar.gz").write_bytes(packed)


FLOODS: dict[str, Callable[[Path, float], None]] = {
    f.__name__: f for f in (equal, numbered, one_line, bars, files, tiny, names, nested)
}


class Cost(NamedTuple):
    """What one diagnosis cost."""

    size: float
    """Share of the whole flood."""
    wall: float
    cpu: float
    peak: int
    """Bytes of all its processes at once."""
    code: int


def main() -> int:
    options = _options()
    right = True
    for name in options.only or FLOODS:
        costs = [_measured(options.folder, name, options.scale * part) for part in (SMALL, 1.0)]
        small, whole = costs
        growth = (whole.cpu - options.fixed) / max(0.05, small.cpu - options.fixed) * SMALL
        steep = growth > STEEP
        thick = whole.peak > small.peak * THICK + EXTRA
        failed = any(c.code not in {0, 1, 3} for c in costs)
        right = right and not (steep or thick or failed)
        print(
            f"{name:9} CPU {small.cpu:.1f} -> {whole.cpu:.1f} s ({growth:.2f} of linear{', STEEP' if steep else ''}), "
            f"wall {whole.wall:.1f} s, peak {small.peak / 1e6:.0f} -> {whole.peak / 1e6:.0f} MB{' THICK' if thick else ''}"
            f"{' FAILED' if failed else ''}, load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
        with options.history.open("a") as history:
            for cost in costs:
                history.write(json.dumps({"flood": name, "load": os.getloadavg()[0], **cost._asdict()}) + "\n")
    return 0 if right else 1


def _measured(folder: Path, name: str, scale: float) -> Cost:
    logs = folder / name
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    FLOODS[name](logs, scale)
    before = os.times()
    start = time.perf_counter()
    command = [sys.executable, "-m", "firstfault", "diagnose", str(logs), "--format", "json"]
    try:
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            watch = Sampled(process.pid)
            watch.start()
            process.wait()
            watch.done.set()
            watch.join()
        wall, after = time.perf_counter() - start, os.times()
    finally:
        shutil.rmtree(logs, ignore_errors=True)
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Cost(scale, wall, cpu, watch.peak, process.returncode)


def _repeat(path: Path, text: str, times: float) -> None:
    """A file of one text many times over."""
    many = max(1, BLOCK // len(text))
    with path.open("w") as file:
        for _ in range(int(times) // many):
            file.write(text * many)
        file.write(text * (int(times) % many))


def _fill(path: Path, text: str, size: int) -> None:
    """A file of a text over and over up to a size, and at its end the words of a death."""
    _repeat(path, text, size / len(text))
    with path.open("a") as file:
        file.write("\n" + DEATH)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", choices=sorted(FLOODS))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--fixed", type=float, default=0.4, help="seconds of processor time that any diagnosis takes")
    parser.add_argument("--history", type=Path, default=Path("floods.jsonl"))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
