"""Simulates hangs and scores the diagnosis of each against what was simulated, by kind, version, size and damage.

    python bench/quality/hangs.py [--kind K]... [--version V]... [--world N]... [--layout L]... [--damage D]... [--seeds N]

Without choices it takes the small matrix of the tests; `--all` takes everything that is possible. Each incident is right,
missed (something that the lines hold was not said, at no harm) or wrong (somebody or something was claimed that is not so).
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

TESTS = Path(__file__).resolve().parents[2] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "generated")]

from hangs import matrix  # noqa: E402 - found by the path above
from hangs.incident import Spec, make  # noqa: E402
from hangs.judging import outcome  # noqa: E402
from hangs.kinds import KINDS, NEEDS  # noqa: E402
from hangs.layouts import DAMAGES, LAYOUTS  # noqa: E402
from hangs.versions import VERSIONS  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable


def main() -> int:
    options = _options()
    scores: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    started = time.perf_counter()
    total: Counter[str] = Counter()
    for spec in _specs(options):
        outcome, words = score(spec, options.keep)
        total[outcome] += 1
        for axis in ("kind", "version", "world", "layout", "damage"):
            scores[axis][str(getattr(spec, axis))][outcome] += 1
        if outcome != "right" and not options.quiet:
            print(f"{outcome:6} {spec.name}\n       {words}")
    for axis, rows in scores.items():
        print(f"\n{axis:24}{'right':>7}{'missed':>8}{'wrong':>7}{'raised':>8}")
        for name, row in rows.items():
            print(f"{name:24}{row['right']:7}{row['missed']:8}{row['wrong']:7}{row['raised']:8}")
    count = sum(total.values())
    share = 100 * total["right"] / count if count else 0.0
    print(f"\n{count} incidents, right {share:.1f} %, wrong {total['wrong']}, {time.perf_counter() - started:.0f} s")
    return 1 if total["wrong"] or total["raised"] else 0


def score(spec: Spec, keep: Path | None = None) -> tuple[str, str]:
    """One incident: right, missed, wrong or raised, and what was said against what is so."""
    from firstfault.pipelines.diagnose import diagnose

    incident = make(spec)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if keep is None else keep / spec.name
        logs = incident.write(folder)
        try:
            diagnosis = diagnose([logs])
        except Exception as error:  # noqa: BLE001 - one incident must not hide the others
            return "raised", repr(error)
    found = outcome(diagnosis, incident)
    return found.word, found.wrong or found.missed


def _specs(options: argparse.Namespace) -> Iterable[Spec]:
    axes = (options.kind, options.version, options.world, options.layout, options.damage)
    chosen = any(axes) or options.all or options.groups
    if not chosen:
        return matrix.small()
    specs = list(
        matrix.full(
            options.kind or tuple(KINDS),
            options.version or tuple(VERSIONS),
            options.world or matrix.SIZES,
            options.layout or LAYOUTS,
            options.damage or ("none",),
            tuple(range(options.seeds)),
        )
    )
    if options.groups:
        specs = [spec for spec in specs if spec.split or spec.kind in NEEDS]
    if options.sample and options.sample < len(specs):
        specs = sorted(random.Random(0).sample(specs, options.sample), key=lambda spec: spec.name)
    return specs


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kind", action="append", choices=tuple(KINDS))
    parser.add_argument("--version", action="append", choices=tuple(VERSIONS))
    parser.add_argument("--world", action="append", type=int, help="number of ranks")
    parser.add_argument("--layout", action="append", choices=LAYOUTS)
    parser.add_argument("--damage", action="append", choices=DAMAGES)
    parser.add_argument("--groups", action="store_true", help="only jobs with process groups besides the default one")
    parser.add_argument("--seeds", type=int, default=1, help="how many of each")
    parser.add_argument("--sample", type=int, help="only so many of them, drawn once for all")
    parser.add_argument("--all", action="store_true", help="everything that is possible, undamaged")
    parser.add_argument("--keep", type=Path, help="leave logs and truth in this folder")
    parser.add_argument("--quiet", action="store_true", help="the table only")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
