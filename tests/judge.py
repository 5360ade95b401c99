"""Holds a diagnosis against the truth of a case: what is right, what is wrong, and what is confidently wrong.

It knows the two formats of truth (`expected.json` of the cases, `truth.json` of the simulated incidents) and nothing of
files or of how the diagnosis was made. The rules stand in `tests/cases/README.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from firstfault.model.words import Strength

if TYPE_CHECKING:
    from collections.abc import Mapping

    from firstfault.model.diagnosis import Diagnosis, Evidence

NEAR = 2
"""A trigger may stand this many lines away from a listed one."""


@dataclass(frozen=True)
class Line:
    """One line of evidence in the truth."""

    file: str
    line: int
    must_contain: str


@dataclass(frozen=True)
class Expected:
    """The truth of one incident; a set that is None is not judged, an empty one means nobody."""

    category: str
    acceptable: frozenset[str]
    strength_at_most: str | None
    culprit_ranks: frozenset[int] | None
    culprit_hosts: frozenset[str] | None
    first_failed: frozenset[int] | None
    trigger: tuple[Line, ...]
    must_not_categories: frozenset[str] = frozenset()
    must_not_ranks: frozenset[int] = frozenset()
    must_not_hosts: frozenset[str] = frozenset()
    suspect_ranks: frozenset[int] = frozenset()
    """May be named beside the culprits without being wrong."""
    suspect_hosts: frozenset[str] = frozenset()

    @property
    def healthy(self) -> bool:
        """Whether nothing went wrong."""
        return self.category == "none"


@dataclass(frozen=True)
class Judgement:
    """What is right and wrong about one diagnosis; None is not judged."""

    category: str
    strength: str
    acceptable: bool
    strict: bool
    ranks_exact: bool | None
    hosts_exact: bool | None
    first_failed: bool | None
    trigger: bool | None
    confidently_wrong: tuple[str, ...]
    """The reasons; empty where it is not."""
    must_not: tuple[str, ...]
    """What was named although it must not be."""

    @property
    def culprits_exact(self) -> bool | None:
        """Whether ranks and hosts are both right, as far as they are judged."""
        judged = [part for part in (self.ranks_exact, self.hosts_exact) if part is not None]
        return all(judged) if judged else None


def read_expected(data: Mapping[str, Any]) -> Expected:
    """The truth out of either JSON format."""
    simulated = "acceptable_categories" in data
    suspects = data.get("suspects", [])
    must_not = data.get("must_not", {})
    return Expected(
        category=data["category"],
        acceptable=frozenset(data["acceptable_categories" if simulated else "acceptable"]),
        strength_at_most=data["strength_at_most"],
        culprit_ranks=_set(data["culprit_ranks"]),
        culprit_hosts=_set(data["culprit_hosts"]),
        first_failed=_set(data["first_failed_ranks"]),
        trigger=_simulated_trigger(data) if simulated else tuple(_line(entry) for entry in data["trigger"]),
        must_not_categories=frozenset(must_not.get("category", [])),
        must_not_ranks=frozenset(must_not.get("ranks", [])),
        must_not_hosts=frozenset(must_not.get("hosts", [])),
        suspect_ranks=frozenset(name for name in suspects if isinstance(name, int)),
        suspect_hosts=frozenset(name for name in suspects if isinstance(name, str)),
    )


def judge(diagnosis: Diagnosis, expected: Expected | Mapping[str, Any]) -> Judgement:
    """Hold `diagnosis` against the truth (an `Expected`, or the parsed JSON of one)."""
    truth = expected if isinstance(expected, Expected) else read_expected(expected)
    verdict = diagnosis.verdict
    category = str(verdict.category)
    ranks = frozenset(verdict.culprits.ranks)
    hosts = frozenset(verdict.culprits.hosts) | frozenset(verdict.culprits.storage_nodes)
    return Judgement(
        category=category,
        strength=str(verdict.strength),
        acceptable=_acceptable(category, truth),
        strict=category == truth.category,
        ranks_exact=_exact(ranks, truth.culprit_ranks, truth.suspect_ranks),
        hosts_exact=_exact(hosts, truth.culprit_hosts, truth.suspect_hosts),
        first_failed=_exact(frozenset(verdict.first_failed.ranks), truth.first_failed, frozenset()),
        trigger=_trigger(verdict.trigger, truth.trigger),
        confidently_wrong=tuple(_confidently_wrong(diagnosis, truth, ranks, hosts)),
        must_not=tuple(_must_not(diagnosis, truth, ranks, hosts)),
    )


def _acceptable(category: str, truth: Expected) -> bool:
    return category in truth.acceptable or (category == "unknown" and truth.strength_at_most is not None)


def _exact(got: frozenset[Any], wanted: frozenset[Any] | None, suspects: frozenset[Any]) -> bool | None:
    if wanted is None:
        return None
    return wanted <= got <= wanted | suspects


def _trigger(got: Evidence | None, listed: tuple[Line, ...]) -> bool | None:
    """Whether the trigger is a listed line.

    Where none is listed, no trigger is right and a given one is not judged: the truth cannot tell what it is worth.
    """
    if not listed:
        return True if got is None else None
    if got is None:
        return False
    return any(
        (got.file == line.file and abs(got.line - line.line) <= NEAR) or line.must_contain in got.text
        for line in listed
    )


def _naming_strength(diagnosis: Diagnosis) -> Strength:
    """How surely culprits are named: by the stronger of the two words, so that neither excuses the other."""
    verdict = diagnosis.verdict
    return max(verdict.strength, verdict.culprits.strength, key=lambda strength: strength.level)


def _confidently_wrong(
    diagnosis: Diagnosis, truth: Expected, ranks: frozenset[int], hosts: frozenset[str]
) -> list[str]:
    verdict = diagnosis.verdict
    reasons = []
    if verdict.strength.level >= Strength.SUPPORTED.level:
        if not _acceptable(str(verdict.category), truth):
            reasons.append(f"category {verdict.category} is claimed as {verdict.strength}")
        if truth.strength_at_most is not None and str(verdict.category) != "unknown":
            reasons.append(
                f"category {verdict.category} is claimed as {verdict.strength}, at most {truth.strength_at_most} can be"
            )
    if _naming_strength(diagnosis).level >= Strength.SUPPORTED.level:
        if truth.culprit_ranks is not None and (wrong := ranks - truth.culprit_ranks - truth.suspect_ranks):
            reasons.append(f"ranks {sorted(wrong)} are no culprits")
        if truth.culprit_hosts is not None and (others := hosts - truth.culprit_hosts - truth.suspect_hosts):
            reasons.append(f"hosts {sorted(others)} are no culprits")
    return reasons


def _must_not(diagnosis: Diagnosis, truth: Expected, ranks: frozenset[int], hosts: frozenset[str]) -> list[str]:
    verdict = diagnosis.verdict
    violations = []
    if verdict.strength is not Strength.UNKNOWN and str(verdict.category) in truth.must_not_categories:
        violations.append(f"category {verdict.category}")
    if _naming_strength(diagnosis) is not Strength.UNKNOWN:
        violations += [f"rank {rank}" for rank in sorted(ranks & truth.must_not_ranks)]
        violations += [f"host {host}" for host in sorted(hosts & truth.must_not_hosts)]
    return violations


def _set(values: list[Any] | None) -> frozenset[Any] | None:
    return None if values is None else frozenset(values)


def _line(entry: Mapping[str, Any]) -> Line:
    member = entry.get("member")
    file = entry["file"] if member is None else f"{entry['file']}!{member}"
    return Line(file=file, line=entry["line"], must_contain=entry["must_contain"])


def _simulated_trigger(data: Mapping[str, Any]) -> tuple[Line, ...]:
    """The trigger and its alternatives; null means that no line is the origin."""
    entries = ([] if data["trigger"] is None else [data["trigger"]]) + data["trigger_alternatives"]
    return tuple(_line(entry) for entry in entries)
