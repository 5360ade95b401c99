"""Phrases that several formats share: who, when, what is missing.

Says what the diagnosis holds; must not infer, escape for a format, or shorten log text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from firstfault.analysis.wording import ranges
from firstfault.model.lazy import lazy
from firstfault.model.words import ActionKind, Category, CoverageState, Strength

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from firstfault.model.diagnosis import Action, AttemptSummary, CoverageRow, Diagnosis, Evidence, Time
    from firstfault.model.views import View

_HOSTLIST = lazy(r"[A-Za-z0-9][\w.,\[\]-]*")


def runs(numbers: Iterable[int], *, most: int = 12) -> str:
    """Numbers as runs: `0-6, 8`, written as the sentences of the analysis write them."""
    return ranges(numbers, most=most)


def names(items: Sequence[str], say: Mapping[str, str], *, most: int = 4) -> str:
    """Names with commas; beyond `most` the rest as a count."""
    shown = ", ".join(items[:most])
    return shown if len(items) <= most else f"{shown} {say['value.more'].format(n=len(items) - most)}"


def who(ranks: Sequence[int], hosts: Sequence[str], say: Mapping[str, str]) -> str:
    """Ranks and hosts in words; empty where there is neither."""
    what = say["value.rank" if len(ranks) == 1 else "value.ranks"].format(list=runs(ranks)) if ranks else ""
    if not hosts:
        return what
    if what:
        return say["value.on"].format(who=what, where=names(hosts, say))
    return say["value.host" if len(hosts) == 1 else "value.hosts"].format(list=names(hosts, say))


def culprits(diagnosis: Diagnosis, say: Mapping[str, str]) -> str:
    """The culprits in words with their own strength, or that nobody can be named."""
    found = diagnosis.verdict.culprits
    parts = [who(found.ranks, found.hosts, say)]
    if found.devices:
        parts.append(say["value.devices"].format(list=names(found.devices, say)))
    if found.storage_nodes:
        parts.append(say["value.storage"].format(list=names(found.storage_nodes, say)))
    text = ", ".join(p for p in parts if p)
    if not text:
        return say["value.nobody"]
    return f"{text} ({found.strength}: {say[f'strength.{found.strength}']})"


def headline(diagnosis: Diagnosis | View, say: Mapping[str, str]) -> str:
    """The verdict in capitals."""
    verdict = diagnosis.verdict
    if verdict.failed is False:
        return say["head.none"]
    if verdict.failed is None:
        return say["head.undecided"]
    return say["head.failed_unknown" if verdict.category is Category.UNKNOWN else "head.failed"]


def how_sure(diagnosis: Diagnosis | View, say: Mapping[str, str]) -> str:
    """Category and strength in words."""
    verdict = diagnosis.verdict
    if verdict.category is Category.UNKNOWN:
        return say["strength.unknown"]
    sure = f"{verdict.strength}: {say[f'strength.{verdict.strength}']}"
    return sure if verdict.category is Category.NONE else f"{say[f'category.{verdict.category}']}, {sure}"


def exit_code(diagnosis: Diagnosis | View) -> Literal[0, 1, 2, 3]:
    """The exit code of a diagnosis or of a view: 0 no failure, 1 a failure with a category, 2 nothing read, 3 not decidable."""
    if not any(row.state in {CoverageState.READ, CoverageState.DAMAGED} for row in diagnosis.coverage):
        return 2
    verdict = diagnosis.verdict
    if verdict.failed is False:
        return 0
    known = verdict.category not in {Category.UNKNOWN, Category.NONE} and verdict.strength is not Strength.UNKNOWN
    return 1 if verdict.failed is True and known else 3


def when(time: Time | None, say: Mapping[str, str]) -> str:
    """A time as text: one stamp, or both ends of an interval."""
    if time is None or (time.earliest is None and time.latest is None):
        return say["time.unknown"]
    ends = [t for t in (time.earliest, time.latest) if t is not None]
    text = ends[0] if len(set(ends)) == 1 else " .. ".join(ends)
    return text if time.dated else f"{text} {say['time.undated']}"


def missing(diagnosis: Diagnosis, say: Mapping[str, str]) -> list[str]:
    """What is not there: ranks, nodes, files, inputs that could not be read; one phrase each."""
    ranks = diagnosis.ranks
    parts = []
    if ranks.expected is not None or ranks.seen:
        parts.append(seen(ranks.seen, ranks.expected, say))
    if ranks.expected_nodes is not None and ranks.expected_nodes != ranks.seen_nodes:
        parts.append(say["missing.nodes"].format(seen=ranks.seen_nodes, expected=ranks.expected_nodes))
    if ranks.silent:
        parts.append(say["missing.silent"].format(list=who(ranks.silent, [], say)))
    if ranks.missing_files:
        parts.append(say["missing.files"].format(list=names(ranks.missing_files, say)))
    return [*parts, *unread(diagnosis.coverage, say)]


def seen(ranks: int, expected: int | None, say: Mapping[str, str]) -> str:
    """How many ranks were seen, and of how many where that is known."""
    if expected is not None:
        return say["missing.ranks" if expected != 1 else "missing.rank"].format(seen=ranks, expected=expected)
    return say["missing.ranks_unknown" if ranks != 1 else "missing.rank_unknown"].format(seen=ranks)


def unread(coverage: Sequence[CoverageRow], say: Mapping[str, str]) -> list[str]:
    """Inputs that were not read, or only in part, with the reason; one phrase for each of the two."""
    parts = []
    for key, states in (
        ("missing.unread", {CoverageState.SKIPPED, CoverageState.MISSING}),
        ("missing.damaged", {CoverageState.DAMAGED}),
    ):
        rows = [f"{r.file} ({r.reason})" if r.reason else r.file for r in coverage if r.state in states]
        if rows:
            parts.append(say[key].format(list=names(rows, say, most=3)))
    return parts


def attempt(one: AttemptSummary, say: Mapping[str, str]) -> str:
    """One attempt with its own verdict: how it ended, what kind of fault, whose, and the line that shows it."""
    text = f"{one.number} {say[f'attempt.{one.ended}']}"
    if one.verdict is None:
        return text
    verdict = one.verdict
    if verdict.category not in {Category.UNKNOWN, Category.NONE}:
        text += f", {say[f'category.{verdict.category}']} ({verdict.strength})"
    text += f": {verdict.summary}"
    return text if verdict.trigger is None else f"{text} [{place(verdict.trigger)}]"


def recurrence(diagnosis: Diagnosis, say: Mapping[str, str]) -> list[str]:
    """Which attempts failed in the same way, and whom all of them name."""
    said = []
    for one in diagnosis.recurrence:
        text = say["recurrence.alike"].format(list=runs(one.attempts), what=one.what)
        whom = who(one.ranks, one.hosts, say)
        said.append(f"{text}; {say['recurrence.same'].format(who=whom)}" if whom else text)
    return said


def drain(action: Action) -> list[str]:
    """The command that takes the named hosts out of service under SLURM; none where no host is to be left out.

    A host list that a shell could take for more than a name is not put into a command.
    """
    if action.kind is not ActionKind.RESTART_WITHOUT or not _HOSTLIST.fullmatch(action.exclude_hostlist):
        return []
    return [f"scontrol update NodeName='{action.exclude_hostlist}' State=DRAIN Reason='firstfault'"]


def place(evidence: Evidence) -> str:
    """`file:line` of a line of evidence."""
    return f"{evidence.file}:{evidence.line}"


def best_lines(diagnosis: Diagnosis, most: int) -> list[Evidence]:
    """The most telling lines: the trigger, then the key lines, then those of the chain, each place once."""
    verdict = diagnosis.verdict
    wanted = [] if verdict.trigger is None else [verdict.trigger]
    wanted += diagnosis.key_lines
    for link in diagnosis.chain:
        wanted += link.evidence
    kept: dict[tuple[str, int], Evidence] = {}
    for line in wanted:
        kept.setdefault((line.file, line.line), line)
    return list(kept.values())[:most]
