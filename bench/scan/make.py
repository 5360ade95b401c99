"""Makes worker logs of a real mixture, with lines of signatures planted at known places, and the truth about them.

    python bench/scan/make.py DATA [--files 16] [--mb 128] [--signatures DIR]

DATA gets `logs/error-881204-<n>.out`, `truth.json` and the three pattern files `killer.txt`, `loop.txt`, `io.txt` for ripgrep.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from bisect import bisect
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from firstfault.readers.identity import body_starts
from firstfault.scan.engines import SHIFT, make_engine
from firstfault.signatures.library import Library, load_library
from firstfault.signatures.match import engine_pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.scan.plan import Confirmed

POOL = 24_000
PLANTED = 120


def background(rng: random.Random, rank: int) -> list[str]:
    """One pool of lines as a rank prints them: steps in four styles, bars, warnings, NCCL notes, frames."""
    lines = []
    for i in range(POOL):
        step = rng.randrange(1, 90_000)
        loss = rng.uniform(1.4, 3.2)
        kind = rng.random()
        if kind < 0.34:
            lines.append(
                f" iteration {step:8d}/  500000 | consumed samples: {step * 1024:12d} | elapsed time per iteration (ms): "
                f"{rng.uniform(3000, 5200):.1f} | learning rate: {rng.uniform(1e-5, 3e-4):.6E} | global batch size:  1024 | "
                f"lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: {rng.uniform(0.2, 2):.3f} | "
                "number of skipped iterations:   0 | number of nan iterations:   0 |"
            )
        elif kind < 0.55:
            lines.append(
                f"[rank{rank}]: 2026-03-{1 + step % 28:02d} {step % 24:02d}:{step % 60:02d}:{i % 60:02d},{i % 1000:03d} - root - INFO - "
                f"step: {step:6d}  loss: {loss:7.4f}  memory: {rng.uniform(40, 70):5.2f}GiB(88.1%)  tps: {rng.randrange(4000, 9000):,}  mfu: {rng.uniform(30, 50):.2f}%"
            )
        elif kind < 0.68:
            lines.append(
                "\r".join(
                    f"Epoch 3:  {p:2d}%|{'█' * (p // 10):<10}| {step + p}/90000 [{p:02d}:12<1:22:31, {rng.uniform(1, 4):.2f}it/s, v_num=3, train_loss={loss:.3f}]"
                    for p in range(1, 9)
                )
            )
        elif kind < 0.84:
            lines.append(
                f"{{'loss': {loss:.4f}, 'grad_norm': {rng.uniform(0.1, 3):.6f}, 'learning_rate': {rng.uniform(1e-6, 1e-4):.4e}, 'epoch': {step / 90000:.2f}}}"
            )
        elif kind < 0.9:
            lines.append(
                f"/opt/venv/lib/python3.11/site-packages/torch/utils/checkpoint.py:{rng.randrange(100, 900)}: UserWarning: the use_reentrant parameter "
                "should be passed explicitly. In version 2.9 it will default to False. Refer to docs for more details."
            )
        elif kind < 0.93:
            lines.append(f"  warnings.warn(  # worker {i % 8} of rank {rank}")
        elif kind < 0.96:
            lines.append(f'  File "/workspace/train/loop.py", line {rng.randrange(10, 900)}, in training_step')
        else:
            lines.append(
                f"[NeMo I 2026-03-04 09:{i % 60:02d}:{step % 60:02d} nemo_logging:393] shard {step % 512} of bucket {i % 16}: {rng.randrange(900, 1800)} cuts, {rng.uniform(1, 9):.1f} s"
            )
    return lines


def opening(rng: random.Random, node: int) -> list[str]:
    """What a worker prints once: NCCL's notes at the start."""
    lines = []
    for i in range(4000):
        pid = 2_000_000 + i % 8
        lines.append(
            rng.choice(
                [
                    f"gpu-h{node:03d}:{pid}:{pid + 400} [{i % 8}] NCCL INFO Channel {i % 16:02d}/0 : {i % 128}[{i % 8}] -> {(i + 8) % 128}[{i % 8}] [send] via NET/IB/{i % 8}/GDRDMA",
                    f"gpu-h{node:03d}:{pid}:{pid + 400} [{i % 8}] NCCL INFO Trees [0] {i % 128}/-1/-1->{(i + 1) % 128}->-1 [1] {i % 128}/-1/-1->{(i + 9) % 128}->-1",
                    f"gpu-h{node:03d}:{pid}:{pid + 400} [{i % 8}] NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.",
                ]
            )
        )
    return lines


class Oracle:
    """Which signatures claim a line, by their matchers alone; literals (never the fast engine) choose whom to ask."""

    def __init__(self, library: Library) -> None:
        self.plan = library.plan
        self.engine = make_engine("re", self.plan)
        self.known: dict[bytes, dict[str, int]] = {}

    def learn(self, lines: list[bytes]) -> None:
        """Works out many lines at once."""
        new = sorted({line for line in lines if line not in self.known})
        text = bytearray(b"\n".join(new))
        starts = [0, *accumulate(len(line) + 1 for line in new)]
        asked: dict[int, set[int]] = {}
        for proposal in self.engine.propose(text, len(text)):
            asked.setdefault(bisect(starts, proposal >> SHIFT) - 1, set()).add(proposal & 0xFFFF)
        for number, line in enumerate(new):
            self.known[line] = self._claims(line, asked.get(number, set()))

    def claims(self, line: bytes) -> dict[str, int]:
        """Number of matches by signature id."""
        if line not in self.known:
            self.learn([line])
        return self.known[line]

    def _claims(self, line: bytes, owners: set[int]) -> dict[str, int]:
        total: dict[str, int] = {}
        for segment in line.split(b"\r") if owners else ():
            found = {}
            for owner in owners:
                matches = self.plan.confirmer(owner).find(segment, body_starts(segment))
                if matches:
                    found[owner] = _told(segment, matches)
            dropped = {g for owner in found for g in self.plan.drops[owner]}
            if not self.plan.generic.issuperset(found):
                dropped |= self.plan.generic
            for owner, count in found.items():
                if owner not in dropped:
                    total[self.plan.ids[owner]] = total.get(self.plan.ids[owner], 0) + count
        return total


def _told(segment: bytes, matches: Sequence[Confirmed]) -> int:
    """How often a line tells a thing: two words for it are one telling unless the second adds a value; the same words twice are two."""
    tellings: list[tuple[bytes, dict[str, str]]] = []
    for match in matches:
        words = segment[match.start : match.end]
        if not any(words != other and match.fields.items() <= fields.items() for other, fields in tellings):
            tellings.append((words, dict(match.fields)))
    return len(tellings)


def make_file(path: Path, size: int, number: int, oracle: Oracle, examples: list[str]) -> dict[str, object]:
    """Writes one log and gives its truth: tallies by signature, and where the planted lines stand."""
    rng = random.Random(number * 7919)
    pool = [line.encode() for line in background(rng, number)]
    start = [line.encode() for line in opening(rng, number)]
    oracle.learn([*pool, *start])
    claims = {line: oracle.claims(line) for line in {*pool, *start}}
    tallies: dict[str, int] = {}
    usual = {name for line in claims.values() for name in line}
    planted = [
        e for e in rng.sample(examples, min(len(examples), PLANTED)) if not usual & set(oracle.claims(e.encode()))
    ]
    places = []
    turns = max(1, size // (sum(map(len, pool)) + len(pool)))
    where = {turn: [] for turn in range(turns)}
    for example in planted:
        where[rng.randrange(turns)].append(example)
    lines = 0
    with path.open("wb") as out:
        for part in (start, *([None] * turns)):
            if part is None:
                turn = turns - sum(1 for _ in where)
                text = rng.sample(pool, len(pool))
                here = where.pop(turn)
                for example in here:
                    text.insert(rng.randrange(len(text)), b"\n" + example.encode())
            else:
                text = part
            for marked in text:
                line = marked.removeprefix(b"\n")
                known = oracle.claims(line) if marked is not line else claims[line]
                if marked is not line:
                    places.append({"line": lines + 1, "signatures": sorted(known)})
                lines += 1
                for name, count in known.items():
                    tallies[name] = tallies.get(name, 0) + count
            out.write(b"\n".join(line.removeprefix(b"\n") for line in text) + b"\n")
    return {"lines": lines, "tallies": tallies, "planted": places}


def for_ripgrep(pattern: str) -> str:
    """A pattern as ripgrep takes it: it joins them, so that no group name may come twice, and knows fewer escapes.

    Classes such as `\\w` are those of ASCII, as in our own scan: those of Unicode are over ripgrep's limit for compiled patterns,
    and it would take 7 s to compile them.
    """
    pattern = re.sub(r"\(\?P<\w+>", "(?:", pattern)
    pattern = re.sub(r"\\([^\w\\.+*?()|\[\]{}^$#&~-])", r"\1", pattern)
    return f"(?-u:{pattern})" if pattern.isascii() else pattern


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--mb", type=int, default=128)
    parser.add_argument("--signatures", type=Path, action="append", default=[])
    options = parser.parse_args()
    library = load_library(options.signatures)
    oracle = Oracle(library)
    examples = sorted({m.line for s in library.signatures for m in s.spec.match if "\n" not in m.line})
    oracle.learn([e.encode() for e in examples])
    (options.data / "logs").mkdir(parents=True, exist_ok=True)
    truth = {}
    for number in range(options.files):
        name = f"error-881204-{number}.out"
        truth[name] = make_file(options.data / "logs" / name, options.mb << 20, number, oracle, examples)
        print(name, truth[name]["lines"], "lines", len(truth[name]["planted"]), "planted", flush=True)
    (options.data / "truth.json").write_text(json.dumps(truth))
    for tier in ("killer", "loop", "io"):
        patterns = [
            for_ripgrep(engine_pattern(p)) for s in library.signatures if s.spec.tier == tier for p in s.spec.patterns
        ]
        (options.data / f"{tier}.txt").write_text("\n".join(patterns) + "\n")


if __name__ == "__main__":
    main()
