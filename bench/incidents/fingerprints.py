"""How well fingerprints hold: every case changed in hosts, ranks, steps, paths and interleaving, and every pair of cases.

    python bench/incidents/fingerprints.py                 # every case, 20 changes each
    python bench/incidents/fingerprints.py --every 8 --times 5
    python bench/incidents/fingerprints.py --part 1/2      # half of the cases, for two processors; without the pairs
    python bench/incidents/fingerprints.py --times 0       # only the pairs

Prints the share of changed runs whose fingerprint equals that of the case as it lies, and the share of pairs of cases
that share one, with what their reports say, so that a reader sees which of them are one cause: those that are stay counted.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
sys.path[:0] = [str(REPOSITORY / "src"), str(REPOSITORY / "tests"), str(Path(__file__).parent)]

from mutate import Mutation  # noqa: E402

import casefolder  # noqa: E402
from firstfault.incidents.fingerprint import Traits, fingerprint, hosts_of, same  # noqa: E402
from firstfault.pipelines.incidents import examine  # noqa: E402
from firstfault.pipelines.options import DiagnoseOptions  # noqa: E402

OPTIONS = DiagnoseOptions(engine="inline")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--every", type=int, default=1, help="take every n-th case (default 1)")
    parser.add_argument("--times", type=int, default=20, help="changes of each case (default 20)")
    parser.add_argument("--part", default="1/1", help="take only this part of the cases, as 1/2")
    parser.add_argument("--case", action="append", default=[], help="only this case; repeatable")
    options = parser.parse_args()
    cases = [
        c
        for c in casefolder.find([casefolder.CASES, casefolder.GENERATED])
        if not options.case or c.name in options.case
    ]
    part, parts = (int(n) for n in options.part.split("/"))
    cases = cases[part - 1 :: parts]
    known: dict[str, Traits] = {}
    equal = total = lines = untouched = whole = 0
    moved: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(cases):
            diagnosis, traits = examine([str(p) for p in case.paths], OPTIONS)
            if diagnosis.verdict.failed is False:
                continue
            known[case.name] = traits
            if number % options.every or not options.times:
                continue
            files = {case.shown(f): f.read_bytes() for f in case.files()}
            held, made, differs = 0, 0, Counter[str]()
            for seed in range(options.times):
                mutation = Mutation(seed, hosts_of(diagnosis), files)
                before = {mutation.name(name): data.split(b"\n") for name, data in files.items()}
                changed = {mutation.name(name): mutation.change(data) for name, data in files.items()}
                if changed == files:
                    continue
                target = Path(folder, f"{number}-{seed}")
                for name, data in changed.items():
                    file = target / name
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(data)
                    lines += sum(a != b for a, b in zip(data.split(b"\n"), before[name], strict=False))
                made += 1
                _, now = examine([str(target)], OPTIONS)
                held += fingerprint(now) == fingerprint(traits)
                differs.update(
                    f"{n}: {getattr(traits, n)!r} -> {getattr(now, n)!r}"
                    for n in Traits.__struct_fields__
                    if n != "layer" and getattr(traits, n) != getattr(now, n)
                )
            whole += made > 0 and held == made
            untouched += not made
            equal, total = equal + held, total + made
            if held < made:
                moved[case.name] = made - held
                print(f"{case.name}: {held} of {made} equal; {dict(differs.most_common(4))}", flush=True)
    print(f"changed runs with an equal fingerprint: {equal} of {total} ({100 * equal / max(total, 1):.1f} %)")
    print(f"cases in which every one is equal: {whole}; in which some differ: {len(moved)}")
    print(f"lines changed in each: {lines / max(total, 1):.0f}; cases in which nothing could be changed: {untouched}")
    if parts == 1:
        _collisions({c.name: c for c in cases}, known)
    return 0


def _truth(case: casefolder.Case) -> str:
    """What the report or the simulation says of the cause."""
    for name, key in (("expected.json", "root_cause"), ("truth.json", "scenario")):
        file = case.folder / name
        if file.is_file():
            return str(json.loads(file.read_text(encoding="utf-8"))[key])
    raise ValueError(f"{case.folder}: no truth")


def _members(colliding: dict[str, list[str]]) -> set[str]:
    return {name for one, others in colliding.items() for name in (one, *others)}


def _collisions(cases: dict[str, casefolder.Case], known: dict[str, Traits]) -> None:
    prints = {name: fingerprint(traits) for name, traits in known.items()}
    names = sorted(prints)
    colliding: dict[str, list[str]] = defaultdict(list)
    pairs = clash = other_kind = 0
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            pairs += 1
            if same(prints[one], prints[other]):
                clash += 1
                other_kind += cases[one].expected.category != cases[other].expected.category
                colliding[one].append(other)
    print(
        f"pairs of cases with one fingerprint: {clash} of {pairs} ({100 * clash / max(pairs, 1):.3f} %), whatever their truth"
    )
    print(f"of these with another category by their truth: {other_kind}; cases in any: {len(_members(colliding))}")
    told: set[str] = set()
    for one, others in colliding.items():
        if one in told:
            continue
        told.update(others)
        for name in (one, *others):
            cause = _truth(cases[name])
            print(f"  {name}: {known[name].category}, {known[name].signature or 'no signature'}; {cause[:120]}")
        print()


if __name__ == "__main__":
    raise SystemExit(main())
