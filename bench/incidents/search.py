"""How long searches take in a large folder of records.

    python bench/incidents/search.py                 # 100,000 records in a temporary folder
    python bench/incidents/search.py --records 5000
    python bench/incidents/search.py --server        # the same in a PostgreSQL that it starts for itself

Makes records of invented faults, builds the index once, then times searches that open the store anew each time, as a
command does, and read the records that are shown, without the start of Python. Prints milliseconds: the median and the
slowest of ten. Of a folder processor time is counted; with a server, which works in processes of its own, what the clock says.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

REPOSITORY = Path(__file__).parents[2]
sys.path[:0] = [str(REPOSITORY / "src"), str(REPOSITORY / "tests")]

WORDS = (  # noqa: SIM905 - a list of words is read as a line
    "loader worker rank collective timeout reduce gather optimizer shard tokenizer checkpoint cache socket link port retry "
    "driver memory kernel stream buffer batch sequence step epoch gradient scale overflow evict quota mount lease token"
).split()
CHINESE = "数据 加载 卡住 显存 不足 检查点 网络 超时 重试 节点 掉线 分片 损坏 权限 磁盘 写满".split()  # noqa: SIM905
SIGNATURES = (
    "gpu.out_of_memory",
    "storage.no_space",
    "nccl.socket_unreachable",
    "data.archive_damaged",
    "kernel.gpu_off_bus",
)
QUERIES = {
    "one rare word": {"text": "zebra77777"},
    "two words": {"text": "quota tokenizer"},
    "four words": {"text": "gradient overflow at evaluation shard"},
    "Chinese": {"text": "显存 不足 分片"},
    "a word of every record": {"text": "interrupted"},
    "by host": {"facts": (("host", "host-0000000123"),)},
    "by signature and text": {"text": "lease", "facts": (("signature", "gpu.out_of_memory"),)},
    "by state": {"facts": (("state", "fixed"),)},
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--server", action="store_true", help="in a PostgreSQL that is started for it")
    options = parser.parse_args()
    dice = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = str(Path(folder, "cache"))
        records = Path(folder, "incidents")
        for number in range(options.records):
            write(records, number, dice)
        if not options.server:
            fill_folder(records)
            return measure(records, time.process_time)
        import postgres

        with postgres.server() as socket:
            postgres.ask(socket, "postgres", "CREATE DATABASE bench")
            place = postgres.address(socket, "bench")
            fill_server(records, place)
            postgres.ask(socket, "bench", "VACUUM ANALYZE")
            return measure(place, time.perf_counter)


def fill_folder(folder: Path) -> None:
    from firstfault.incidents.index import Index
    from firstfault.incidents.store import Store

    began = time.process_time()
    with closing(Index(Store(folder))) as index:
        read = index.refresh()
    print(f"index of {read} records made in {time.process_time() - began:.1f} CPU seconds")
    began = time.process_time()
    with closing(Index(Store(folder))) as index:
        index.refresh(full=True)
    print(f"every file looked at again: {1000 * (time.process_time() - began):.0f} ms")


def fill_server(folder: Path, place: str) -> None:
    from firstfault.incidents.places import store_at

    records, _ = store_at(folder).records()
    began, spent = time.perf_counter(), time.process_time()
    with closing(store_at(place)) as store:
        added = store.add_all(records)
    print(
        f"{len(added)} records added in {time.perf_counter() - began:.0f} s by the clock,"
        f" {time.process_time() - spent:.0f} CPU seconds of them here"
    )


def measure(place: Path | str, clock: Callable[[], float]) -> int:
    from firstfault.incidents.fingerprint import Traits, fingerprint
    from firstfault.incidents.places import index_at
    from firstfault.incidents.search import Query, search
    from firstfault.incidents.similar import known_again

    slowest = 0.0
    for name, asked in QUERIES.items():
        taken, here = [], []
        for _ in range(10):
            start, spent = clock(), time.process_time()
            with closing(index_at(place)) as index:
                index.refresh()
                hits = len(search(index, Query(**asked)).hits)
            taken.append(1000 * (clock() - start))
            here.append(1000 * (time.process_time() - spent))
        slowest = max(slowest, statistics.median(taken))
        print(
            f"{name:24} {hits:3} shown, median {statistics.median(taken):6.1f} ms, slowest {max(taken):6.1f} ms,"
            f" CPU here {statistics.median(here):5.1f} ms",
            flush=True,
        )
    traits = Traits(category="gpu_cuda", form="interrupted", signature=SIGNATURES[0], message="message 17")
    start = clock()
    with closing(index_at(place)) as index:
        index.refresh()
        known_again(index, traits)
    print(f"seen before: {1000 * (clock() - start):.1f} ms ({fingerprint(traits)})")
    print(f"slowest median: {slowest:.1f} ms")
    return 0 if slowest < 100 else 1


def write(folder: Path, number: int, dice: random.Random) -> None:
    from firstfault.incidents.fingerprint import Traits, fingerprint

    signature = SIGNATURES[number % len(SIGNATURES)]
    message = f"message {dice.randrange(5000)}"
    traits = Traits(category="gpu_cuda", form="interrupted", signature=signature, message=message)
    said = " ".join(dice.choices(WORDS, k=30)) + " " + "".join(dice.choices(CHINESE, k=12))
    rare = f"zebra{number}"
    place = folder / f"{2000 + number // 10_000}"
    place.mkdir(parents=True, exist_ok=True)
    state = "fixed" if number % 3 else "open"
    text = (
        f"---\nschema: firstfault.incident/1\nid: r{number}\ntitle: incident {number} {rare}\nstate: {state}\n"
        f'date: "2026-03-{number % 28 + 1:02d}"\ncategory: gpu_cuda\nform: interrupted\nsignature: {signature}\n'
        f'message: {message}\nfingerprint: "{fingerprint(traits)}"\nsignatures:\n  - {signature}\n'
        f"hosts:\n  - host-{number % 2000:010d}\n---\n\n## Symptom\n\nThe job was interrupted. {said}\n\n"
        f"## Root cause\n\nGuess: {' '.join(dice.choices(WORDS, k=20))}\n\n## Fix\n\nGuess: {' '.join(dice.choices(WORDS, k=15))}\n"
    )
    (place / f"r{number}.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
