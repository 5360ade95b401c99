"""How long searches take in a large folder of records.

    python bench/incidents/search.py                 # 100,000 records in a temporary folder
    python bench/incidents/search.py --records 5000

Makes records of invented faults, builds the index once, then times searches that open the index anew each time, as a
command does, without the start of Python. Prints milliseconds: the median and the slowest of ten.
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

REPOSITORY = Path(__file__).parents[2]
sys.path[:0] = [str(REPOSITORY / "src")]

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
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = str(Path(folder, "cache"))
        return measure(Path(folder, "incidents"), options.records)


def measure(folder: Path, records: int) -> int:
    from firstfault.incidents.fingerprint import Traits, fingerprint
    from firstfault.incidents.index import Index
    from firstfault.incidents.search import Query, search
    from firstfault.incidents.similar import known_again
    from firstfault.incidents.store import Store

    dice = random.Random(7)
    for number in range(records):
        write(folder, number, dice)
    store = Store(folder)
    began = time.process_time()
    with closing(Index(store)) as index:
        read = index.refresh()
    print(f"index of {read} records made in {time.process_time() - began:.1f} CPU seconds")
    began = time.process_time()
    with closing(Index(store)) as index:
        index.refresh(full=True)
    print(f"every file looked at again: {1000 * (time.process_time() - began):.0f} ms")
    slowest = 0.0
    for name, asked in QUERIES.items():
        taken = []
        for _ in range(10):
            start = time.process_time()
            with closing(Index(store)) as index:
                index.refresh()
                hits = len(search(index, Query(**asked)).hits)
            taken.append(1000 * (time.process_time() - start))
        slowest = max(slowest, statistics.median(taken))
        print(f"{name:24} {hits:3} shown, median {statistics.median(taken):6.1f} ms, slowest {max(taken):6.1f} ms")
    traits = Traits(category="gpu_cuda", form="interrupted", signature=SIGNATURES[0], message="message 17")
    start = time.process_time()
    with closing(Index(store)) as index:
        index.refresh()
        known_again(index, traits)
    print(f"seen before: {1000 * (time.process_time() - start):.1f} ms ({fingerprint(traits)})")
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
