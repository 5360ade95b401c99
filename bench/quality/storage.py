"""Scores the diagnosis on simulated storage incidents and prints the score by kind, version, zones and layout.

    python bench/quality/storage.py                      # the default matrix of the tests
    python bench/quality/storage.py --large              # kinds, versions, zones and layouts crossed
    python bench/quality/storage.py --large --seeds 7 8  # the same with incidents that are new
    python bench/quality/storage.py --only late_abort --verbose
    python bench/quality/storage.py --keep DIR           # leave the incidents there
    python bench/quality/storage.py --unreached          # entries for tests/generated/aistore/reached.toml

It only counts; incidents, truth and judgement are those of `tests/generated/aistore`. Exit code 1 where a verdict is
confidently wrong, breaks a `must_not`, or the diagnosis raised.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import traceback
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

REPOSITORY = Path(__file__).parents[2]
sys.path[:0] = [str(REPOSITORY / "src"), str(REPOSITORY / "tests")]

from generated.aistore import held, layouts, scenario  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SERIOUS = ("confidently_wrong", "must_not", "raised")


class Row(NamedTuple):
    """One judged incident; `held` is None where the diagnosis raised."""

    spec: scenario.Spec
    problems: dict[str, str]
    held: held.Held | None


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    specs = [spec for spec in scenario.matrix(large=options.large, seeds=options.seeds) if _chosen(spec, options.only)]
    if options.limit:
        specs = specs[:: max(1, len(specs) // options.limit)]
    rows = []
    for spec in specs:
        rows.append(_run(spec, options.keep))
        if options.verbose:
            _print(rows[-1])
    if options.unreached:
        _print_unreached(rows)
        return 0
    _print_scores(rows)
    return 1 if any(name in row.problems for row in rows for name in SERIOUS) else 0


def _chosen(spec: scenario.Spec, only: Sequence[str]) -> bool:
    return not only or any(word in (spec.kind, spec.name) for word in only)


def _run(spec: scenario.Spec, keep: Path | None) -> Row:
    folder = Path(tempfile.mkdtemp()) if keep is None else keep / spec.name
    try:
        if keep is not None:
            shutil.rmtree(folder, ignore_errors=True)
        judged = held.hold(spec, folder)
        return Row(spec, judged.problems(), judged)
    except Exception:  # noqa: BLE001 - one broken incident must not hide the others
        return Row(spec, {"raised": traceback.format_exc().strip().splitlines()[-1]}, None)
    finally:
        if keep is None:
            shutil.rmtree(folder)


def _print(row: Row) -> None:
    print(f"{'ok ' if not row.problems else 'BAD'} {row.spec.name}")
    if row.held is None or not row.problems:
        print("".join(f"    {name}: {why}\n" for name, why in row.problems.items()), end="")
        return
    verdict, truth = row.held.diagnosis.verdict, row.held.truth
    named = [*verdict.culprits.ranks, *verdict.culprits.hosts, *verdict.culprits.storage_nodes]
    print(f"    {verdict.category} ({verdict.strength}) {named}: {verdict.summary}")
    print(f"    expected {truth['acceptable_categories']} {truth['culprit_ranks']} {truth['culprit_hosts']}")
    for name, why in row.problems.items():
        print(f"    {name}: {why}")


def _print_scores(rows: Sequence[Row]) -> None:
    views: tuple[tuple[str, Callable[[scenario.Spec], str], Sequence[str]], ...] = (
        ("kind", lambda spec: spec.kind, scenario.KINDS),
        ("version", lambda spec: f"{spec.version[0]}.{spec.version[1]}", ()),
        ("zones", lambda spec: "{:+d} {:+d}".format(*spec.zones), ()),
        ("layout", lambda spec: spec.layout, layouts.ALL),
        ("midnight", lambda spec: spec.midnight or "none", ()),
    )
    for title, key, order in views:
        groups: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            groups[key(row.spec)].append(row)
        print(f"\n{title:20} right  category    who   1st  trigger   line clocks  wrong")
        for name in order or sorted(groups):
            if name in groups:
                _print_group(name, groups[name])
    print()
    _print_group("all", rows)


def _print_group(name: str, rows: Sequence[Row]) -> None:
    def right(*checks: str) -> str:
        return f"{sum(not any(check in row.problems for check in (*checks, 'raised')) for row in rows)}/{len(rows)}"

    wrong = sum(any(check in row.problems for check in SERIOUS) for row in rows)
    perfect = sum(not row.problems for row in rows)
    print(
        f"{name:20} {perfect}/{len(rows):<4} {right('category'):>8} {right('culprits'):>6} {right('first_failed'):>5} "
        f"{right('trigger'):>8} {right('daemon_line'):>6} {right('clocks'):>6} {wrong or '-':>5}"
    )


def _print_unreached(rows: Sequence[Row]) -> None:
    """What fails, as tables for `reached.toml`; the given reason says what is wrong, write in why."""
    for row in rows:
        if row.problems:
            print(f'["{row.spec.name}"]')
            print("\n".join(f"{name} = {json.dumps(why)}" for name, why in row.problems.items()) + "\n")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--large", action="store_true", help="cross kinds, versions, zones and layouts")
    parser.add_argument("--seeds", type=int, nargs="+", default=(), metavar="N", help="these instead of the usual ones")
    parser.add_argument("--limit", type=int, metavar="N", help="only about N incidents, evenly spread")
    parser.add_argument(
        "--only", action="append", default=[], metavar="KIND", help="only this kind or name; repeatable"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the incidents in this folder")
    parser.add_argument("--verbose", action="store_true", help="each incident, and what was wrong")
    parser.add_argument("--unreached", action="store_true", help="print entries for reached.toml instead of scores")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
