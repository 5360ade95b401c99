"""What a job of the lab is, with its fault and its truth, and the list of all of them.

The jobs themselves stand in `scenarios.py`; nothing here runs one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from judge import Expected, Line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stage import Stage


@dataclass(frozen=True)
class Scenario:
    """One job with its fault and its truth."""

    name: str
    perform: Callable[[Stage], None]
    truth: Expected
    attempts: tuple[str, ...] | None = None
    """How each start of the job ended, where there are several."""
    says: tuple[str, ...] = ()
    """What the summary must hold."""
    phase: str | None = None
    """What the job was doing, where the diagnosis must say it."""
    needs_namespaces: bool = False
    """Whether it can only be run where a job may have mounts or host names of its own."""

    def checks(self, known: Iterable[str]) -> list[str]:
        """Those of the known checks that can fail here."""
        truth = self.truth
        judged = {
            "must_not": bool(truth.must_not_categories),
            "culprits": not (truth.culprit_ranks is None and truth.culprit_hosts is None),
            "trigger": bool(truth.trigger),
            "first_failed": truth.first_failed is not None,
        }
        return [check for check in known if judged.get(check, True)]


ALL: list[Scenario] = []


def scenario(
    *acceptable: str,
    ranks: Iterable[int] | None = (),
    hosts: Iterable[str] | None = (),
    first: Iterable[int] | None = None,
    at_most: str | None = None,
    suspect_ranks: Iterable[int] = (),
    suspect_hosts: Iterable[str] = (),
    never: Iterable[str] = (),
    trigger: Iterable[str] = (),
    attempts: tuple[str, ...] | None = None,
    says: tuple[str, ...] = (),
    phase: str | None = None,
    namespaces: bool = False,
) -> Callable[[Callable[[Stage], None]], Callable[[Stage], None]]:
    """Register a job: acceptable categories, the right one first, and the rest of its truth.

    `ranks` and `hosts` are the culprits (None: not judged), `suspect_*` may be named beside them, `never` are categories
    that must not be named, `trigger` are texts of lines of which any is right (where they stand differs from run to run).
    """

    def register(perform: Callable[[Stage], None]) -> Callable[[Stage], None]:
        truth = Expected(
            category=acceptable[0],
            acceptable=frozenset(acceptable),
            strength_at_most=at_most,
            culprit_ranks=None if ranks is None else frozenset(ranks),
            culprit_hosts=None if hosts is None else frozenset(hosts),
            first_failed=None if first is None else frozenset(first),
            trigger=tuple(Line(file="", line=-1, must_contain=text) for text in trigger),
            must_not_categories=frozenset(never),
            suspect_ranks=frozenset(suspect_ranks),
            suspect_hosts=frozenset(suspect_hosts),
        )
        name = perform.__name__.replace("_", "-")
        ALL.append(Scenario(name, perform, truth, attempts, says, phase, namespaces))
        return perform

    return register
