"""Scores the cases in the wrappings in which collectors, containers and people hand logs on.

    python bench/quality/disguise.py                       # every third case of tests/cases in every disguise
    python bench/quality/disguise.py --every 1 --only journal

A verdict that is right on the plain log and wrong in a disguise is a reader's fault. Prints a row a disguise and what changed.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
sys.path[:0] = [str(REPOSITORY / "src"), str(REPOSITORY / "tests")]

import casefolder  # noqa: E402
import disguise  # noqa: E402
from firstfault.pipelines.diagnose import diagnose  # noqa: E402
from judge import Expected, Judgement, Line, judge  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--every", type=int, default=3, help="take every n-th case (default 3)")
    parser.add_argument("--only", action="append", default=[], help="only this disguise; repeatable")
    parser.add_argument("--case", action="append", default=[], help="only this case; repeatable")
    options = parser.parse_args()
    cases = [c for c in casefolder.find([casefolder.CASES]) if not options.case or c.name in options.case]
    cases = cases[0 if options.case else options.every // 2 :: 1 if options.case else options.every]
    plain = {case.name: judge(diagnose(case.paths), case.expected) for case in cases}
    total_wrong = 0
    for name in options.only or disguise.WRAPS:
        acceptable = who = wrong = 0
        notes = []
        for case in cases:
            try:
                judged = in_disguise(case, name)
            except Exception as error:  # noqa: BLE001 - one broken case must not hide the others
                notes.append(f"{case.name}: raised {error!r}")
                continue
            before = plain[case.name]
            acceptable += judged.acceptable
            who += judged.culprits_exact is not False
            wrong += bool(judged.confidently_wrong)
            if before.acceptable and not judged.acceptable:
                notes.append(f"{case.name}: {before.category} became {judged.category} ({judged.strength})")
            elif before.culprits_exact and judged.culprits_exact is False:
                notes.append(f"{case.name}: culprits lost ({judged.category})")
            if judged.confidently_wrong and not before.confidently_wrong:
                notes.append(f"{case.name}: NOW WRONG {judged.confidently_wrong}")
        total_wrong += wrong
        print(f"{name:24} {len(cases)} cases: acceptable {acceptable}, culprits {who}, confidently wrong {wrong}")
        for note in notes:
            print(f"    {note}")
        sys.stdout.flush()
    before = plain.values()
    print(
        f"{'(plain)':24} {len(cases)} cases: acceptable {sum(j.acceptable for j in before)}, "
        f"culprits {sum(j.culprits_exact is not False for j in before)}, "
        f"confidently wrong {sum(bool(j.confidently_wrong) for j in before)}"
    )
    return 0


def in_disguise(case: casefolder.Case, name: str) -> Judgement:
    """The judgement of one case in one disguise."""
    wrap, suffix, moved = disguise.WRAPS[name], disguise.RENAMED.get(name, ""), disguise.MOVED.get(name, 0)
    with tempfile.TemporaryDirectory() as folder:
        paths = case.copy(Path(folder), lambda _, data: wrap(data))
        if suffix:
            for path in paths:
                for file in sorted(f for f in path.rglob("*") if f.is_file()):
                    file.rename(file.with_name(file.name + suffix))
        return judge(diagnose(paths), _moved(case.expected, moved, suffix))


def _moved(expected: Expected, lines: int, suffix: str) -> Expected:
    trigger = tuple(Line(t.file + suffix, t.line + lines, t.must_contain) for t in expected.trigger)
    return dataclasses.replace(expected, trigger=trigger)


if __name__ == "__main__":
    raise SystemExit(main())
