"""What the search for all signatures costs on ordinary text, and which of them set the price.

    python bench/scan/price.py [--mb 4] [--rounds 12] [--groups] [--each] [--bisect] [--file LOG ...] [--signatures DIR]

Prints nanoseconds of processor time a byte on one core: of the search for words alone, of it with the proposals handed to
Python, and of everything up to hits; then whose words stand in the text, since each of those costs about a microsecond.
Words share one automaton, so that a word's cost alone says little: `--groups` says how much cheaper the whole gets without
each folder of signatures, `--bisect` halves the words again and again and follows the dearer half, `--each` gives every
signature alone. The text is cut into blocks and of each block the fastest round counts: other programs disturb single
rounds, and hardly ever the same block in all of them.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hyperscan
from make import background, opening

from firstfault.readers.identity import profile_source
from firstfault.scan.collect import Collector
from firstfault.scan.engines import SHIFT, make_engine
from firstfault.scan.newlines import want_numpy
from firstfault.scan.regions import Region
from firstfault.scan.words import words_of
from firstfault.signatures.library import Library, load_library
from firstfault.signatures.plan import SignaturePlan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

BLOCK = 256 * 1024


def frames(rng: random.Random, rank: int) -> list[str]:
    """Stack frames of Python and of C++, and what stands between them, without the error itself."""
    lines = []
    for i in range(1500):
        address = rng.randrange(1 << 40)
        lines.append(
            rng.choice(
                [
                    f'[rank{rank}]:   File "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", line {1500 + i}, in _call_impl',
                    f"[rank{rank}]:     return forward_call(*args, **kwargs)",
                    f"[rank{rank}]:            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
                    f"frame #{i % 40}: c10d::ProcessGroupNCCL::ncclCommWatchdog() + 0x{address:x} (0x7f{address:010x} in /opt/venv/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so)",
                    f"frame #{i % 40}: <unknown function> + 0x{address:x} (0x7f{address:010x} in /usr/lib/x86_64-linux-gnu/libc.so.6)",
                    "    self._optimizer_step(batch, state)",
                    f'  File "/workspace/train/model.py", line {i}, in forward',
                ]
            )
        )
    return lines


def made(mb: int) -> bytes:
    """Lines of a worker in a real mixture, shuffled."""
    rng = random.Random(20_261)
    out: list[str] = []
    size = 0
    while size < mb << 20:
        rank = len(out) % 128
        part = background(rng, rank) + opening(rng, rank)[:2000] + frames(rng, rank)
        rng.shuffle(part)
        out += part
        size += sum(map(len, part))
    return "\n".join(out).encode()[: mb << 20]


def blocks_of(text: bytes) -> list[bytearray]:
    """Blocks that end with a line."""
    found = []
    start = 0
    while start < len(text):
        end = text.rfind(b"\n", start, start + BLOCK) + 1 or len(text)
        found.append(bytearray(text[start:end]))
        start = end
    return found


def nanoseconds(
    work: dict[str, Callable[[bytearray], object]], blocks: list[bytearray], rounds: int
) -> dict[str, float]:
    """Processor time a byte of some works, measured in turns."""
    best = {name: [10**12] * len(blocks) for name in work}
    for _ in range(rounds):
        for name, do in work.items():
            kept = best[name]
            for i, block in enumerate(blocks):
                start = time.thread_time_ns()
                do(block)
                kept[i] = min(kept[i], time.thread_time_ns() - start)
    size = sum(map(len, blocks))
    return {name: sum(kept) / size for name, kept in best.items()}


def searcher(words: Sequence[bytes]) -> Callable[[bytearray], object]:
    """A search for words that does nothing with what it finds."""
    database: Any = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    numbers = list(range(len(words)))
    database.compile(expressions=list(words), ids=numbers, elements=len(words), flags=[0] * len(words), literal=True)
    database.scratch = hyperscan.Scratch(database)
    return lambda block: database.scan(block, _nothing)


def _nothing(*_: object) -> None:
    return None


def region(block: bytearray) -> Region:
    """A block as the collector gets it."""
    return Region(block, len(block), 0, len(block), 0, 0, open_end=False)


def whole(library: Library, blocks: list[bytearray], rounds: int) -> None:
    """Prints the price of everything, and who is proposed."""
    plan = library.plan
    words = words_of(plan)
    engine = make_engine("hyperscan", plan)
    collector = Collector(plan, profile_source(b"", "error-0.out"))
    want_numpy()
    costs = nanoseconds(
        {
            f"search for {len(words.all)} words": searcher(words.all),
            "with proposals": lambda b: engine.propose(b, len(b)),
            "with all up to hits": lambda b: collector.take(region(b), engine.propose(b, len(b))),
        },
        blocks,
        rounds,
    )
    for name, cost in costs.items():
        print(f"{cost:7.3f} ns/B  {name}")
    collector = Collector(plan, profile_source(b"", "error-0.out"))
    proposed: Counter[str] = Counter()
    hits: Counter[str] = Counter()
    for block in blocks:
        found = engine.propose(block, len(block))
        proposed.update(plan.ids[p & ((1 << SHIFT) - 1)] for p in found)
        collector.take(region(block), found)
    for (name, _), fold in collector.finish().folds.items():
        hits[name] += fold.count
    size = sum(map(len, blocks)) / 1e6
    for name, count in proposed.most_common(30):
        print(f"{count / size:7.1f} proposals and {hits[name] / size:.1f} hits a MB: {name}")
    text = b"".join(blocks)
    stops = Counter({w: n for w in words.all if (n := text.count(w[-8:]))})
    for word, count in stops.most_common(30):
        print(f"{count / size:7.1f} stops a MB: {word!r}")


def groups(library: Library, blocks: list[bytearray], rounds: int) -> None:
    """Prints how much cheaper the whole gets without each folder."""
    folders = sorted({s.id.split(".")[0] for s in library.signatures})
    work = {"": searcher(words_of(library.plan).all)}
    for folder in folders:
        rest = [s for s in library.signatures if s.id.split(".")[0] != folder]
        work[folder] = searcher(words_of(SignaturePlan(rest)).all)
    costs = nanoseconds(work, blocks, rounds)
    for folder in sorted(folders, key=costs.__getitem__):
        print(f"{costs[''] - costs[folder]:+7.3f} ns/B  {folder}")


def each(library: Library, blocks: list[bytearray], rounds: int) -> None:
    """Prints the dearest signatures, each searched alone."""
    work = {s.id: searcher(words_of(SignaturePlan([s])).all) for s in library.signatures}
    costs = nanoseconds(work, blocks, rounds)
    for name, cost in sorted(costs.items(), key=lambda c: -c[1])[:40]:
        print(f"{cost:7.3f} ns/B  {name} alone")


def bisect(library: Library, blocks: list[bytearray], rounds: int) -> None:
    """Prints what halves of the words save, going on with the half that saves more."""
    words = list(words_of(library.plan).all)
    dear = words
    random.Random(5).shuffle(dear)
    while len(dear) > 8:
        halves = [dear[: len(dear) // 2], dear[len(dear) // 2 :]]
        work = {"all": searcher(words)}
        for name, half in zip("ab", halves, strict=True):
            gone = set(half)
            work[name] = searcher([w for w in words if w not in gone])
        costs = nanoseconds(work, blocks, rounds)
        dear = halves[0] if costs["a"] < costs["b"] else halves[1]
        print(f"{costs['all'] - min(costs['a'], costs['b']):+7.3f} ns/B  {len(dear)} words", flush=True)
    print(b"\n".join(dear).decode("utf-8", "backslashreplace"))


def main(arguments: Iterable[str] | None = None) -> None:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mb", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--file", type=Path, action="append", default=[])
    parser.add_argument("--signatures", type=Path, action="append", default=[])
    for extra in ("groups", "each", "bisect"):
        parser.add_argument(f"--{extra}", action="store_true")
    options = parser.parse_args(None if arguments is None else list(arguments))
    library = load_library(options.signatures)
    text = b"".join(f.read_bytes() for f in options.file) or made(options.mb)
    blocks = blocks_of(text)
    whole(library, blocks, options.rounds)
    if options.groups:
        groups(library, blocks, options.rounds)
    if options.each:
        each(library, blocks, max(2, options.rounds // 4))
    if options.bisect:
        bisect(library, blocks, options.rounds)


if __name__ == "__main__":
    main()
