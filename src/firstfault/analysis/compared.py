"""Holds two diagnoses of one incident against each other: what changed, and what in them shows why.

Reads two finished documents; it judges no log, and says no more about the reason than the documents show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.wording import ranges
from firstfault.model.comparison import Change, Comparison, InputChange
from firstfault.model.words import CoverageState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.model.comparison import What
    from firstfault.model.diagnosis import CoverageRow, Diagnosis, Evidence, Verdict

LINES = 20
"""Lines at most that are listed as added or gone."""
_READ = frozenset({CoverageState.READ, CoverageState.DAMAGED})


def compare(before: Diagnosis, after: Diagnosis) -> Comparison:
    """What is different in the second diagnosis, and why, as far as the two show it."""
    spoken = _chinese(before) == _chinese(after)
    changes = [c for c in _changes(before.verdict, after.verdict) if spoken or c.what != "summary"]
    inputs = _inputs(before.coverage, after.coverage, reasons=spoken)
    why = _why(before, after, inputs) if changes else []
    old, new = _lines(before), _lines(after)
    return Comparison(
        same=not changes,
        before=before.verdict,
        after=after.verdict,
        changes=changes,
        why=why if spoken else [*why, "The two are in different languages: their sentences are not compared."],
        inputs=inputs,
        lines_added=[line for place, line in new.items() if place not in old][:LINES],
        lines_gone=[line for place, line in old.items() if place not in new][:LINES],
    )


def _chinese(diagnosis: Diagnosis) -> bool:
    """Whether its sentences are Chinese; what they quote may be of any language."""
    verdict = diagnosis.verdict
    return any(
        text.rstrip().endswith("。") for text in (verdict.summary, *verdict.action.steps, *diagnosis.collect_next)
    )


def _changes(before: Verdict, after: Verdict) -> list[Change]:
    told = zip(_parts(before), _parts(after), strict=True)
    return [Change(what=what, before=old, after=new) for (what, old), (_, new) in told if old != new]


def _parts(verdict: Verdict) -> list[tuple[What, str]]:
    """The parts of a verdict in words, in the order in which a person asks for them."""
    culprits, first = verdict.culprits, verdict.first_failed
    failed = {True: "yes", False: "no", None: "not decidable"}[verdict.failed]
    return [
        ("failed", failed),
        ("category", str(verdict.category)),
        ("strength", str(verdict.strength)),
        ("culprits", _who(culprits.ranks, [*culprits.hosts, *culprits.devices, *culprits.storage_nodes])),
        ("culprits_strength", str(culprits.strength)),
        ("first_failed", _who(first.ranks, first.hosts)),
        ("trigger", "" if verdict.trigger is None else _place(verdict.trigger)),
        ("action", str(verdict.action.kind)),
        ("summary", verdict.summary),
    ]


def _who(ranks: Sequence[int], names: Sequence[str]) -> str:
    told = [f"rank{'' if len(ranks) == 1 else 's'} {ranges(ranks)}"] if ranks else []
    return ", ".join([*told, *names])


def _place(line: Evidence) -> str:
    return f"{line.file}:{line.line}"


def _lines(diagnosis: Diagnosis) -> dict[tuple[str, int], Evidence]:
    """The lines on which a verdict rests: the first sign, the chain, the key lines."""
    verdict = diagnosis.verdict
    lines = [] if verdict.trigger is None else [verdict.trigger]
    lines += [line for link in diagnosis.chain for line in link.evidence]
    found: dict[tuple[str, int], Evidence] = {}
    for line in [*lines, *diagnosis.key_lines]:
        found.setdefault((line.file, line.line), line)
    return found


def _inputs(before: Sequence[CoverageRow], after: Sequence[CoverageRow], *, reasons: bool = True) -> list[InputChange]:
    """What was read otherwise; with `reasons`, another reason for it is a difference too."""
    old = {row.file: row for row in before}
    new = {row.file: row for row in after}
    found = []
    for file in sorted({*old, *new}):
        was, now = old.get(file), new.get(file)
        if was is None and now is not None:
            found.append(InputChange(file=file, change="added", after=_state(now)))
        elif was is not None and now is None:
            found.append(InputChange(file=file, change="gone", before=_state(was)))
        elif was is not None and now is not None and _key(was, reasons) != _key(now, reasons):
            found.append(InputChange(file=file, change="read_otherwise", before=_state(was), after=_state(now)))
    return found


def _key(row: CoverageRow, reasons: bool) -> tuple[str, int, str]:
    return str(row.state), row.bytes, row.reason if reasons else ""


def _state(row: CoverageRow) -> str:
    return f"{row.state}, {row.bytes} bytes" + (f", {row.reason}" if row.reason else "")


def _why(before: Diagnosis, after: Diagnosis, inputs: Sequence[InputChange]) -> list[str]:
    found = [*_by_lines(before, after), *_by_rivals(before, after), *_by_ranks(before, after)]
    old, new = _attempt(before), _attempt(after)
    if old is not None and new is not None and old != new:
        found.append(f"The first diagnosis is about attempt {old}, the second about attempt {new}.")
    if not {r.file for r in before.coverage} & {r.file for r in after.coverage}:
        found.append(
            "The two have no input in common by name: they may be about two incidents, or the folders were named otherwise."
        )
    elif not inputs and not found:
        found.append(
            "The inputs are the same: another version of firstfault, its options or other signatures make the difference."
        )
    elif inputs and not found:
        counts = {kind: sum(i.change == kind for i in inputs) for kind in ("added", "gone", "read_otherwise")}
        words = {"added": "new", "gone": "gone", "read_otherwise": "read otherwise"}
        told = ", ".join(f"{n} {words[kind]}" for kind, n in counts.items() if n)
        found.append(f"Inputs differ ({told}), but no line on which a verdict rests stands in them.")
    return found


def _by_lines(before: Diagnosis, after: Diagnosis) -> list[str]:
    """What the first signs of the two show: a file that the other had not read, has not any more, or a line withdrawn."""
    found = []
    old, new = before.verdict.trigger, after.verdict.trigger
    fresh_files, lost_files = _read(after) - _read(before), _read(before) - _read(after)
    if new is not None and new.file in fresh_files:
        found.append(f"The first sign now stands in {_place(new)}, a file that the first diagnosis had not read.")
    if old is not None and old.file in lost_files:
        found.append(f"The first sign had been {_place(old)}; the second diagnosis did not read that file.")
    shown = set() if new is None else {new.file}
    fresh = sorted({line.file for line in _lines(after).values()} & (fresh_files - shown))
    if fresh:
        found.append(f"Further lines of the second verdict stand in files that are new to it: {_some(fresh)}.")
    lost = {(w.file, w.line): w.why for w in after.verification.withdrawn}
    found += [
        f"The line {_place(line)}, on which the first verdict rested, does not read back any more: {lost[place]}."
        for place, line in _lines(before).items()
        if place in lost
    ]
    return found


def _read(diagnosis: Diagnosis) -> set[str]:
    return {row.file for row in diagnosis.coverage if row.state in _READ}


def _by_rivals(before: Diagnosis, after: Diagnosis) -> list[str]:
    """Whether the two explanations changed places."""
    if before.verdict.category == after.verdict.category:
        return []
    found = [
        f"The first diagnosis had weighed {after.verdict.category} as a rival ({rival.strength})."
        for rival in before.rivals
        if rival.category == after.verdict.category
    ]
    for rival in after.rivals:
        if rival.category == before.verdict.category:
            against = f"; against it: {'; '.join(rival.against)}" if rival.against else ""
            found.append(
                f"What the first diagnosis said, {rival.category}, is now a rival ({rival.strength}){against}."
            )
    return found


def _by_ranks(before: Diagnosis, after: Diagnosis) -> list[str]:
    old, new = before.ranks.seen, after.ranks.seen
    if old == new:
        return []
    of = "" if after.ranks.expected is None else f" of {after.ranks.expected}"
    return [f"{new}{of} ranks are seen now; the first diagnosis saw {old}."]


def _attempt(diagnosis: Diagnosis) -> int | None:
    shown = [a.number for a in diagnosis.attempts if a.diagnosed]
    return shown[0] if len(shown) == 1 else None


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
