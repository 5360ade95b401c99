"""The answer of one question about one attempt: verdict, proof and next steps; before verification and rendering."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from firstfault.model.diagnosis import Classes
from firstfault.model.evidence import Event, GlobalRank
from firstfault.model.findings import Link, Rival
from firstfault.model.words import ActionKind, Category, Form, Strength

__all__ = ["Answer", "Classes", "Named", "hung"]


class Named(Struct, frozen=True, kw_only=True):
    """Ranks, hosts and devices that are named, with how sure that is."""

    ranks: tuple[GlobalRank, ...] = ()
    hosts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    storage_nodes: tuple[str, ...] = ()
    strength: Strength = Strength.UNKNOWN

    @property
    def anybody(self) -> bool:
        """Whether anybody is named."""
        return bool(self.ranks or self.hosts or self.devices or self.storage_nodes)


class Answer(Struct, frozen=True, kw_only=True):
    """What one question found out."""

    question: str
    failed: bool | None
    category: Category
    strength: Strength
    summary: str
    trigger: Event | None = None
    fault: Event | None = None
    """The line of the first fault itself, whose kind the summary names, where one is known: the trigger may be an earlier sign of it."""
    proof: tuple[Event, ...] = ()
    """Lines on which the verdict rests, most telling first."""
    culprits: Named = Named()
    first_failed: Named = Named()
    classes: Classes = Classes()
    action: ActionKind = ActionKind.NONE
    exclude_hosts: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    collect: tuple[str, ...] = ()
    chain: tuple[Link, ...] = ()
    upstream: tuple[Link, ...] = ()
    """Links that come before the job's own lines: what happened on the storage side."""
    course: tuple[Link, ...] = ()
    """Links about what training metrics show up to the end: where they went wrong, by the first such line."""
    rivals: tuple[Rival, ...] = ()
    open: bool = False
    """Whether another fatal fault of the job may have come before the root: nothing orders the two."""
    why: str = "it is the earliest line that shows the root cause"
    """By what the trigger was chosen."""
    said: tuple[tuple[GlobalRank, Event], ...] = ()
    """What ranks that others waited for said last, where somebody looked for it."""
    follows: tuple[tuple[Event, str], ...] | None = None
    """Other faults that follow from the first, each by its first line and with the reason; None where nobody asked."""


def hung(
    question: str,
    category: Category,
    strength: Strength,
    summary: str,
    *,
    proof: tuple[Event, ...],
    action: ActionKind,
    steps: tuple[str, ...],
    culprits: Named | None = None,
    classes: Classes | None = None,
    collect: tuple[str, ...] = (),
    rivals: tuple[Rival, ...] = (),
) -> Answer:
    """An answer about a job that hung: its first proof is the trigger, and whoever is named was the first to fail."""
    named = Named() if culprits is None else culprits
    return Answer(
        question=question,
        failed=True,
        category=category,
        strength=strength,
        summary=summary,
        trigger=proof[0],
        proof=proof,
        culprits=named,
        first_failed=named,
        classes=replace(Classes() if classes is None else classes, form=Form.HUNG),
        action=action,
        steps=steps,
        collect=collect,
        rivals=rivals,
    )
