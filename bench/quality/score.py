"""Scores the diagnosis on cases with a known truth and prints a table with totals.

    python bench/quality/score.py                                  # tests/cases
    python bench/quality/score.py tests/cases tests/generated
    python bench/quality/score.py --only tp-group-rank1-is-rank29 --verbose
    python bench/quality/score.py --noise                          # harmless start-up lines in front of every file
    python bench/quality/score.py --unreached                      # entries for tests/cases/reached.toml

It only counts; what is right is decided by `tests/judge.py`. Exit code 1 where a verdict is confidently wrong, breaks a
`must_not`, or the diagnosis raised.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
sys.path[:0] = [str(REPOSITORY / "src"), str(REPOSITORY / "tests")]

import casefolder  # noqa: E402
import checks  # noqa: E402
import noise  # noqa: E402
from firstfault.model.diagnosis import Diagnosis  # noqa: E402
from judge import Judgement, judge  # noqa: E402

Reader = Callable[[Sequence[Path]], Diagnosis]


@dataclass(frozen=True)
class Row:
    """One judged run; `judgement` is None where the diagnosis raised."""

    case: casefolder.Case
    label: str
    judgement: Judgement | None
    diagnosis: Diagnosis | None
    seconds: float
    error: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    # Imported late: the naive readers use this module without the pipeline.
    from firstfault.pipelines.diagnose import diagnose

    cases = select(options.folders, options.only)
    rows = run(cases, lambda paths: diagnose(list(paths)), options.noise)
    if options.unreached:
        print_unreached(rows)
        return 0
    print_table(rows, verbose=options.verbose)
    print_totals(rows)
    bad = [row for row in rows if row.judgement is None or row.judgement.confidently_wrong or row.judgement.must_not]
    return 1 if bad else 0


def select(folders: Sequence[Path], only: Sequence[str]) -> list[casefolder.Case]:
    cases = casefolder.find(folders)
    chosen = [case for case in cases if not only or case.name in only]
    if not chosen:
        names = ", ".join(only) or "any name"
        raise SystemExit(f"no case of {names} below {', '.join(str(folder) for folder in folders)}")
    return chosen


def run(cases: Sequence[casefolder.Case], reader: Reader, sets: Sequence[int] = ()) -> list[Row]:
    """Judge every case; with the numbers of noise sets, once a set instead of once."""
    rows = []
    for case in cases:
        if not sets:
            rows.append(_run_one(case, case.name, case.paths, reader))
        for number in sets:
            with tempfile.TemporaryDirectory() as folder:
                noisy, paths = noise.in_front(case, number, Path(folder))
                rows.append(_run_one(noisy, f"{case.name} +noise {number}", paths, reader))
    return rows


def _run_one(case: casefolder.Case, label: str, paths: Sequence[Path], reader: Reader) -> Row:
    start = time.perf_counter()
    try:
        diagnosis = reader(paths)
    except Exception:  # noqa: BLE001 - one broken case must not hide the others
        return Row(case, label, None, None, time.perf_counter() - start, traceback.format_exc())
    return Row(case, label, judge(diagnosis, case.expected), diagnosis, time.perf_counter() - start)


def print_table(rows: Sequence[Row], *, verbose: bool = False) -> None:
    width = max(len(row.label) for row in rows)
    print(f"{'case':{width}}  {'expected':30}  {'got':20}  {'strength':11}  cat  who  1st  line  wrong  seconds")
    for row in rows:
        wanted = row.case.expected.category
        if row.case.expected.strength_at_most is not None:
            wanted += f" <={row.case.expected.strength_at_most}"
        judged = row.judgement
        if judged is None:
            print(f"{row.label:{width}}  {wanted:30}  {'raised':20}  {row.error.strip().splitlines()[-1]}")
        else:
            fit = "=" if judged.strict else _mark(judged.acceptable)
            wrong = ("W" if judged.confidently_wrong else "") + ("N" if judged.must_not else "")
            print(
                f"{row.label:{width}}  {wanted:30}  {judged.category:20}  {judged.strength:11}  {fit:3}  "
                f"{_mark(judged.culprits_exact):3}  {_mark(judged.first_failed):3}  {_mark(judged.trigger):4}  "
                f"{wrong or '-':5}  {row.seconds:7.2f}"
            )
        if verbose:
            _print_details(row)


def _print_details(row: Row) -> None:
    if row.judgement is None or row.diagnosis is None:
        print("    " + row.error.strip().replace("\n", "\n    "))
        return
    verdict, truth = row.diagnosis.verdict, row.case.expected
    hosts = sorted({*verdict.culprits.hosts, *verdict.culprits.storage_nodes})
    print(f"    {verdict.summary}")
    print(
        f"    who    got {sorted(verdict.culprits.ranks)} {hosts} ({verdict.culprits.strength}), "
        f"expected {_names(truth.culprit_ranks)} {_names(truth.culprit_hosts)}"
    )
    print(f"    first  got {sorted(verdict.first_failed.ranks)}, expected {_names(truth.first_failed)}")
    trigger = verdict.trigger
    shown = "none" if trigger is None else f"{trigger.file}:{trigger.line} {trigger.text[:120]}"
    listed = "; ".join(f"{line.file}:{line.line} {line.must_contain}" for line in truth.trigger) or "none"
    print(f"    line   got {shown}\n           expected {listed}")
    for reason in row.judgement.confidently_wrong:
        print(f"    CONFIDENTLY WRONG: {reason}")
    for reason in row.judgement.must_not:
        print(f"    MUST NOT: {reason}")


def print_totals(rows: Sequence[Row]) -> None:
    judged = [row.judgement for row in rows if row.judgement is not None]
    # A trigger counts where the truth lists one; leaving it out rightly elsewhere would flatter the rate.
    triggers = [row.judgement for row in rows if row.case.expected.trigger]
    print(f"\ncases             {len(rows)}, raised {len(rows) - len(judged)}")
    # A run that raised is in the denominators: it gave no right answer.
    raised = len(rows) - len(judged)
    for title, values in (
        ("acceptable", [judgement.acceptable for judgement in judged] + [False] * raised),
        ("strict", [judgement.strict for judgement in judged] + [False] * raised),
        ("culprits exact", [judgement.culprits_exact for judgement in judged] + [False] * raised),
        ("first failed", [judgement.first_failed for judgement in judged] + [False] * raised),
        ("trigger", [judgement is not None and judgement.trigger for judgement in triggers]),
    ):
        counted = [value for value in values if value is not None]
        share = f"{100 * sum(counted) / len(counted):5.1f} %" if counted else "-"
        print(f"{title:17} {sum(counted)} of {len(counted)}  {share}")
    print(f"confidently wrong {sum(bool(judgement.confidently_wrong) for judgement in judged)}")
    print(f"must_not broken   {sum(bool(judgement.must_not) for judgement in judged)}")
    print(f"seconds           {sum(row.seconds for row in rows):.1f}")


def print_unreached(rows: Sequence[Row]) -> None:
    """What fails, as tables for a `reached.toml`; the given reason says what is wrong, write in why."""
    for row in rows:
        if row.judgement is None:
            print(f"# {row.label} raised: {row.error.strip().splitlines()[-1]}")
            continue
        failed = {name: why for name, check in checks.CHECKS.items() if (why := check(row.judgement))}
        if failed:
            print(f"[{row.case.name}]" if row.label == row.case.name else f"# {row.label}")
            print("\n".join(f"{name} = {json.dumps(why)}" for name, why in failed.items()) + "\n")


def _mark(value: bool | None) -> str:
    return "." if value is None else "ok" if value else "no"


def _names(values: frozenset[object] | None) -> str:
    return "not judged" if values is None else str(sorted(values, key=str))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_options(parser)
    parser.add_argument("--unreached", action="store_true", help="print entries for reached.toml instead of the table")
    options = parser.parse_args(arguments)
    normalise(options)
    return options


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folders", nargs="*", type=Path, help="folders of cases (default tests/cases)")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="only this case; repeatable")
    parser.add_argument(
        "--noise",
        nargs="?",
        const="all",
        metavar="SET",
        help=f"with start-up lines in front of every file: set 1 to {len(noise.SETS)}, or all of them one by one",
    )
    parser.add_argument("--verbose", action="store_true", help="what was named, and what should have been")


def normalise(options: argparse.Namespace) -> None:
    options.folders = options.folders or [casefolder.CASES]
    numbers = range(1, len(noise.SETS) + 1)
    if options.noise in (None, "all"):
        options.noise = list(numbers) if options.noise else []
    elif options.noise.isdigit() and int(options.noise) in numbers:
        options.noise = [int(options.noise)]
    else:
        raise SystemExit(f"--noise takes 1 to {len(noise.SETS)} or all, not {options.noise}")


if __name__ == "__main__":
    sys.exit(main())
