"""Job facts, each with its lines: a fold over the `facts` of signatures; unknown is left out, never guessed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.model.evidence import Event, Who

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.analysis.case import Case

NUMBERS = frozenset(
    {
        "world_size", "nodes", "ranks_per_node", "tensor_parallel", "pipeline_parallel", "data_parallel",
        "context_parallel", "expert_parallel", "global_batch_size", "total_steps", "restart_count", "zero_stage",
    }
)  # fmt: skip
KEPT = 3
"""Lines kept as proof of one fact."""


class JobFact(Struct, frozen=True):
    """One value of one fact, with the lines that state it."""

    name: str
    value: str | int
    events: tuple[Event, ...]


def job_facts(case: Case, events: Iterable[Event]) -> dict[str, JobFact]:
    """Facts of the job by name; where lines differ, the value stated most often, then the first, wins."""
    votes: dict[str, dict[str | int, list[Event]]] = {}
    specs = case.library.by_id
    stating = {s for s in case.signatures if s in specs and specs[s].facts}
    for event in events:
        spec = case.spec(event) if event.signature in stating else None
        if spec is None:
            continue
        for name, source in spec.facts.items():
            value = source[1:] if source.startswith("=") else event.fields.get(source)
            if value is None or value == "":
                continue
            typed = _typed(name, value)
            if typed is not None:
                votes.setdefault(name, {}).setdefault(typed, []).append(event)
    return {name: _winner(name, values) for name, values in sorted(votes.items())}


def _typed(name: str, value: str) -> str | int | None:
    if name not in NUMBERS:
        return value.strip()
    digits = value.replace(",", "").strip()
    return int(digits) if digits.isdecimal() else None


def _winner(name: str, values: dict[str | int, list[Event]]) -> JobFact:
    # The lines that are kept of one flood all carry its whole count: each stands for its share of it.
    kept = Counter(_flood(e) for events in values.values() for e in events)

    def weight(item: tuple[str | int, list[Event]]) -> tuple[float, int, int]:
        events = item[1]
        stated = sum(e.count / kept[_flood(e)] for e in events)
        return (-round(stated, 6), events[0].span.source, events[0].span.offset)

    value, events = min(values.items(), key=weight)
    return JobFact(name, value, tuple(events[:KEPT]))


def _flood(event: Event) -> tuple[int, str, Who]:
    """What the equal lines of one speaker have in common."""
    return (event.span.source, event.signature, event.who)
