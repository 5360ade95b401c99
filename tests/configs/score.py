"""Holds what `check-config` says of public settings against what is known of them: `python tests/configs/score.py`."""

from __future__ import annotations

import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
RANKS = {"ok": 0, "not_checkable": 0, "warn": 1, "fail": 2}


def cases(kind):
    """Folders of one kind, in order."""
    return sorted(path.parent for path in (HERE / kind).glob("*/case.toml"))


def read(folder):
    """What is known of a case."""
    return tomllib.loads((folder / "case.toml").read_text(encoding="utf-8"))


def check(folder):
    """The report of `check-config` on a case."""
    from firstfault.pipelines.check_config import check_config

    known = read(folder)
    return check_config([str(folder / name) for name in known["files"]], world_size=known.get("world_size"))


def missed(known, report):
    """Expected places that were not named as gravely as they must be."""
    named = [(f.file.rpartition("/")[2], f.line, RANKS[f.state]) for f in report.findings]
    return [
        e
        for e in known.get("expected", [])
        if not any(n == e["file"] and at in e["lines"] and rank >= RANKS[e["least"]] for n, at, rank in named)
    ]


def alarms(report):
    """What was found wrong, gravest first."""
    return [f for f in report.findings if RANKS[f.state] > 0]


def _say(*words):
    sys.stdout.write(" ".join(words) + "\n")


def main():
    """Prints one line a case and the sums."""
    right = 0
    for folder in cases("broken"):
        report = check(folder)
        lacking = missed(read(folder), report)
        right += not lacking
        _say("found " if not lacking else "MISSED", folder.name)
        for f in alarms(report):
            _say(f"        {f.state:4} {f.check} {f.file.rpartition('/')[2]}:{f.line} {f.what}")
    _say(f"broken: {right} of {len(cases('broken'))} found")
    quiet = 0
    for folder in cases("good"):
        wrong = alarms(check(folder))
        quiet += not wrong
        _say("quiet " if not wrong else "ALARM ", folder.name)
        for f in wrong:
            _say(f"        {f.state:4} {f.check} {f.file.rpartition('/')[2]}:{f.line} {f.what}")
    _say(f"good: {quiet} of {len(cases('good'))} quiet")


if __name__ == "__main__":
    main()
