"""Turns a conclusion into a diagnosis: re-reads every cited line and lays out what renderers need."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.chain import build_chain
from firstfault.analysis.hostlist import short_host
from firstfault.analysis.order import sort_key
from firstfault.analysis.rank_table import lines_of, notes_of, rank_entries
from firstfault.analysis.recurrence import recurrences
from firstfault.analysis.state.boxes import event_of, rank_boxes, stood_first
from firstfault.analysis.telling import counted, key_events, moments
from firstfault.analysis.timeline import began
from firstfault.analysis.wording import ranges
from firstfault.model.diagnosis import (
    AttemptSummary,
    ChainLink,
    CoverageRow,
    Diagnosis,
    Evidence,
    Fact,
    NaiveReading,
    RankRow,
    Ranks,
    Recurrence,
    RivalSummary,
    Storage,
    TimelineEntry,
    Verdict,
)
from firstfault.model.evidence import Event, GlobalRank
from firstfault.model.words import Category, Mark, Strength
from firstfault.pipelines.beforehand import Beforehand, timeline_of
from firstfault.pipelines.cite import Citer
from firstfault.pipelines.entries import cited
from firstfault.pipelines.times import time_of
from firstfault.pipelines.verdict import verdict_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from firstfault.analysis.answer import Answer
    from firstfault.analysis.conclude import Conclusion
    from firstfault.analysis.rank_table import Entry
    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.facts import JobFact
    from firstfault.analysis.verify import Verifier
    from firstfault.pipelines.beforehand import Shown

TABLE = 64
"""Rows of the rank table at most; outliers first."""
ROW_LINES = 3
"""Lines cited for one row of it, without that of its last step."""


class Builder:
    """Builds one diagnosis."""

    def __init__(
        self, conclusion: Conclusion, verifier: Verifier, *, every: bool = False, ahead: Beforehand | None = None
    ) -> None:
        """See the class.

        Args:
            conclusion: of which a diagnosis is made.
            verifier: reads its lines again.
            every: whether each attempt gets its own verdict and chain, not only the diagnosed one.
            ahead: what was worked out before the questions were answered.
        """
        self.conclusion = conclusion
        self._ahead = Beforehand(alone=True) if ahead is None else ahead
        self.every = every
        self.scene: Scene = conclusion.scene
        self.paths = conclusion.scene.case.paths
        self.cite = Citer(verifier, self.paths)

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """Every rank, outliers first."""
        return rank_entries(self.scene, self.conclusion.answer)

    @cached_property
    def _shown(self) -> Shown:
        """What is shown whatever the answer is."""
        return self._ahead.of(self.scene)

    def build(self) -> Diagnosis:
        """The whole diagnosis."""
        answer = self.conclusion.answer
        verdict = self._verdict(self.scene, answer)
        return Diagnosis(
            verdict=verdict,
            job={**{name: self._fact(fact) for name, fact in self.scene.facts.items()}, **self._moments()},
            attempts=[self._attempt(scene, said) for scene, said in self.conclusion.attempts],
            recurrence=[
                Recurrence(attempts=list(r.attempts), what=r.what, hosts=list(r.hosts), ranks=[int(x) for x in r.ranks])
                for r in recurrences(self.conclusion.attempts)
            ],
            chain=self._links(answer),
            rivals=[
                RivalSummary(
                    category=r.category,
                    strength=r.strength,
                    supports=list(r.supports),
                    against=list(r.against),
                    settled_by=list(r.settled_by),
                )
                for r in answer.rivals
            ],
            naive=self._naive(),
            timeline=self._timeline(),
            counts=self._shown.counts,
            key_lines=self.cite.events(_distinct(key_events(self.scene, answer))),
            ranks=self._ranks(),
            coverage=[
                CoverageRow(file=c.file, state=c.state, reason=c.reason, bytes=c.bytes)
                for c in self.scene.case.seen.coverage
            ],
            collect_next=_unique((*answer.collect, *self._gaps()))
            if verdict.strength is not Strength.ESTABLISHED
            else [],
            storage=self._storage(),
            recommendations=_recommendations(answer),
            verification=self.cite.verification(),
        )

    def _storage(self) -> Storage | None:
        if self.conclusion.storage is None:
            return None
        from firstfault.pipelines.build_storage import storage_section

        return storage_section(self.conclusion, self.cite.event)

    def _verdict(self, scene: Scene, answer: Answer) -> Verdict:
        return verdict_in(scene, answer, self.cite)

    def _moments(self) -> dict[str, Fact]:
        """Since when ranks wait or one stands still, the last step, checkpoint and word of the attempt, as far as lines tell them."""
        found = moments(self.scene)
        told: dict[str, Fact] = {}
        wait = began(self.scene)
        proof = None if wait is None or not isinstance(wait.shown, Event) else self.cite.event(wait.shown)
        since = None if wait is None else time_of(wait.when)
        if proof is not None and since is not None:
            told["wait_since"] = Fact(value=since.earliest, evidence=[proof])
        else:
            told |= self._still()
        step = None if found.step is None else self.cite.sample(found.step)
        if found.step is not None and step is not None:
            told["last_step"] = Fact(value=found.step.step, evidence=[step])
        for name, event in (("last_checkpoint", found.checkpoint), ("last_word", found.last)):
            line = None if event is None else self.cite.event(event)
            if event is not None and line is not None:
                number = event.fields.get("step", "")
                value = int(number) if number.isdecimal() else None if line.time is None else line.time.earliest
                told[name] = Fact(value=value or line.text.strip()[:80], evidence=[line])
        return told

    def _still(self) -> dict[str, Fact]:
        """Since when the first rank stands still that never moved again, by its black box."""
        first = stood_first(rank_boxes(self.scene.case.seen.box))
        if first is None:
            return {}
        since = time_of(replace(first.when, earliest=first.last, latest=first.last))
        proof = self.cite.event(event_of(first))
        return {} if since is None or proof is None else {"still_since": Fact(value=since.earliest, evidence=[proof])}

    def _fact(self, fact: JobFact) -> Fact:
        """A fact with its line; without a value where the line does not read back."""
        lines = self.cite.events(fact.events[:1])
        return Fact(value=fact.value if lines or not fact.events else None, evidence=lines)

    def _attempt(self, scene: Scene, answer: Answer) -> AttemptSummary:
        first = min(scene.events, key=sort_key, default=None)
        here = scene is self.scene
        if here:
            answer = self.conclusion.answer  # it may have been reconsidered
        return AttemptSummary(
            number=scene.number,
            ended=scene.outcome.ended,
            diagnosed=here or self.every,
            first_line=None if first is None else self.cite.event(first),
            summary=answer.summary,
            category=answer.category,
            strength=answer.strength,
            verdict=self._verdict(scene, answer) if self.every else None,
            chain=self._links(replace(answer, chain=build_chain(scene, answer))) if self.every else [],
        )

    def _links(self, answer: Answer) -> list[ChainLink]:
        links = [
            ChainLink(
                what=link.what,
                why=link.why,
                evidence=[
                    *self.cite.events(link.events),
                    *(e for s in link.samples if (e := self.cite.sample(s)) is not None),
                ],
            )
            for link in answer.chain
        ]
        return [link for link in links if link.evidence]

    def _naive(self) -> list[NaiveReading]:
        readings = []
        for naive in self.conclusion.naive:
            line = None
            if naive.event is not None:
                line = self.cite.event(naive.event)
            elif naive.failure is not None:
                line = self.cite.failure(naive.failure)
            if line is not None:
                readings.append(
                    NaiveReading(
                        reading=naive.reading, says=naive.says, dropped_because=naive.dropped_because, evidence=[line]
                    )
                )
        return readings

    def _timeline(self) -> list[TimelineEntry]:
        """The rows that `firstfault timeline` shows too."""
        storage = self.conclusion.storage
        if self.conclusion.answer.failed and storage is not None:
            from firstfault.analysis.storage_moments import storage_moments

            shown = timeline_of(self.scene, storage_moments(self.scene, storage))
        else:
            shown = self._shown.timeline
        rows = cited(shown, self.cite)
        return [
            TimelineEntry(
                time=e.time, what=e.what, evidence=e.evidence, count=e.count, clock=e.clock, ranks=e.ranks, hosts=e.hosts, left_out=gone
            )
            for e, gone in zip(rows.entries, rows.left_out, strict=True)
        ]  # fmt: skip

    def _ranks(self) -> Ranks:
        complete = self.scene.complete
        witnesses = [self._fact(w) for w in complete.witnesses]
        held = not witnesses or any(w.value is not None for w in witnesses)
        here = counted(self.scene, self.conclusion.answer)
        seen_nodes, expected_nodes = self._nodes()
        return Ranks(
            expected=complete.expected if held else None,
            seen=len(here.seen),
            seen_ranks=ranges(here.seen, most=len(here.seen)),
            at_least=here.at_least or None,
            with_nccl_state=len(
                {r for e in self.scene.marked(Mark.STATE) if (r := self.scene.roster.rank(e)) is not None}
            ),
            silent=[int(r) for r in here.silent],
            table=self._table(),
            expected_nodes=expected_nodes,
            seen_nodes=seen_nodes,
            missing_files=list(complete.missing_files),
            witnesses=witnesses,
        )

    def _machines(self) -> Collection[str]:
        """The machines of the job that are seen: those of its ranks where all are placed; else each that a line names."""
        complete, placed = self.scene.complete, self.scene.roster.host_of
        if complete.expected and all(GlobalRank(r) in placed for r in range(complete.expected)):
            return set(placed.values())  # what else speaks is a storage host, a head node, a neighbour
        return complete.hosts

    def _nodes(self) -> tuple[int, int | None]:
        """Machines seen and expected; none expected where even of those with ranks there are more than was stated.

        Logs of machines outside the job may lie beside its own: these are not counted where they are too many.
        """
        seen, stated = len({short_host(h) for h in self._machines()}), self.scene.complete.expected_nodes
        if stated is None or seen <= stated:
            return seen, stated
        with_ranks = len(self.scene.roster.machines)
        return (with_ranks, stated) if 0 < with_ranks <= stated else (seen, None)

    def _table(self) -> list[RankRow]:
        entries = self.entries[:TABLE]
        notes = notes_of(self.scene, entries)
        return [
            RankRow(
                rank=int(entry.rank),
                host=entry.host,
                local_rank=entry.local_rank,
                state=entry.state,
                last_step=None if entry.step is None else entry.step.step,
                note=notes[entry.rank],
                evidence=self._lines_of(entry),
            )
            for entry in entries
        ]

    def _lines_of(self, entry: Entry) -> list[Evidence]:
        """The lines of one rank: what it did, then its last sign of progress."""
        lines = self.cite.events(lines_of(entry)[:ROW_LINES])
        step = None if entry.step is None else self.cite.sample(entry.step)
        return lines if step is None else [*lines, step]

    def _gaps(self) -> list[str]:
        gaps = [f"the log file {n}: its neighbours are here, it is not" for n in self.scene.complete.missing_files]
        silent = len(counted(self.scene, self.conclusion.answer).silent)
        if silent:
            whose = "the one rank" if silent == 1 else f"the {silent} ranks"
            gaps.append(f"the logs of {whose} of which no line is here")
        return gaps


def _distinct(events: Sequence[Event]) -> list[Event]:
    seen: set[tuple[int, int]] = set()
    kept = []
    for event in events:
        key = (int(event.span.source), event.span.line)
        if key not in seen:
            seen.add(key)
            kept.append(event)
    return kept


def _unique(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def _recommendations(answer: Answer) -> dict[str, list[str]]:
    """Steps by side: storage, client, training."""
    side = "training"
    if answer.category is Category.STORAGE_IO:
        side = "storage" if answer.culprits.storage_nodes else "client"
    elif answer.category is Category.DATA:
        side = "client"
    sections: dict[str, list[str]] = {"storage": [], "client": [], "training": []}
    sections[side] = list(answer.steps)
    return sections
