"""Holds a diagnosis against the truth of a simulated incident: right, missed or wrong, and in which words.

It uses the judge of the cases, so it needs `firstfault` for the strength words only; what is true is decided before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from judge import judge

if TYPE_CHECKING:
    from firstfault.model.diagnosis import Diagnosis

    from .incident import Incident
    from .oracle import Truth


@dataclass(frozen=True)
class Outcome:
    """What came of one diagnosis; both texts are empty where it is right."""

    wrong: str
    """What is claimed that is not so."""
    missed: str
    """What the lines hold and was not said."""

    @property
    def word(self) -> str:
        return "wrong" if self.wrong else "missed" if self.missed else "right"


def outcome(diagnosis: Diagnosis, incident: Incident) -> Outcome:
    """The best of the outcomes against each truth that a fair reader may hold."""
    order = ("right", "missed", "wrong")
    return min((_against(diagnosis, truth) for truth in incident.truths), key=lambda found: order.index(found.word))


def _against(diagnosis: Diagnosis, truth: Truth) -> Outcome:
    judged = judge(diagnosis, truth.as_json())
    verdict = diagnosis.verdict
    named = verdict.culprits
    about = (
        f"got {verdict.category} ({verdict.strength}) ranks {list(named.ranks)[:9]} hosts {list(named.hosts)[:4]} "
        f"({named.strength}); so is {truth.category} <={truth.at_most} ranks {truth.ranks} hosts {truth.hosts} "
        f"[{truth.why}]\n       {verdict.summary}"
    )
    wrong = "; ".join((*judged.confidently_wrong, *judged.must_not))
    right = judged.acceptable and judged.culprits_exact is not False
    return Outcome(f"{wrong}\n       {about}" if wrong else "", "" if right else about)
