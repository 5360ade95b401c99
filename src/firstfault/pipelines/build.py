"""Turns a conclusion into a diagnosis: re-reads every cited line and lays out what renderers need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.hostlist import compress
from firstfault.analysis.order import exact, sort_key
from firstfault.analysis.suspects import nature_of
from firstfault.model.diagnosis import (
    Action,
    AttemptSummary,
    ChainLink,
    Classes,
    Count,
    CoverageRow,
    Culprits,
    Diagnosis,
    Evidence,
    Fact,
    FirstFailed,
    NaiveReading,
    RankRow,
    Ranks,
    RivalSummary,
    TimelineEntry,
    Verdict,
    Verification,
    Withdrawn,
)
from firstfault.model.evidence import SourceId
from firstfault.model.words import Mark, Role, Strength
from firstfault.pipelines.build_storage import storage_section
from firstfault.pipelines.times import time_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from firstfault.analysis.answer import Answer
    from firstfault.analysis.conclude import Conclusion
    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.facts import JobFact
    from firstfault.analysis.verify import Verifier
    from firstfault.model.evidence import Event, Failure, GlobalRank

WINDOW = 400
TIMELINE = 60
"""Entries of the timeline at most; the middle is left out first."""
TABLE = 64
"""Rows of the rank table at most; outliers first."""


class Builder:
    """Builds one diagnosis; keeps count of what was re-read and withdrawn."""

    def __init__(self, conclusion: Conclusion, verifier: Verifier) -> None:
        self.conclusion = conclusion
        self.scene: Scene = conclusion.scene
        self.verifier = verifier
        self.paths = conclusion.scene.case.paths
        self.withdrawn: dict[tuple[str, int], Withdrawn] = {}

    def cite(self, event: Event) -> Evidence | None:
        """Evidence for an event, re-read; None (and noted) where its line does not read back."""
        file = self.paths.get(event.span.source, "?")
        ok, why = self.verifier.check(event)
        if not ok:
            self.withdrawn[(file, event.span.line)] = Withdrawn(file=file, line=event.span.line, why=why)
            return None
        return Evidence(
            file=file, line=event.span.line, column=event.span.column, text=window(event), time=time_of(event.when)
        )

    def cite_all(self, events: Iterable[Event]) -> list[Evidence]:
        """Evidence for some events; those that do not read back are left out."""
        return [e for e in map(self.cite, events) if e is not None]

    def build(self) -> Diagnosis:
        """The whole diagnosis."""
        answer = self.conclusion.answer
        verdict = self._verdict(answer)
        chain = [ChainLink(what=link.what, why=link.why, evidence=self.cite_all(link.events)) for link in answer.chain]
        return Diagnosis(
            verdict=verdict,
            job={name: self._fact(fact) for name, fact in self.scene.facts.items()},
            attempts=[self._attempt(scene, said) for scene, said in self.conclusion.attempts],
            chain=[link for link in chain if link.evidence],
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
            counts=self._counts(),
            key_lines=self.cite_all(_distinct(answer.proof)),
            ranks=self._ranks(),
            coverage=[
                CoverageRow(file=c.file, state=c.state, reason=c.reason, bytes=c.bytes)
                for c in self.scene.case.seen.coverage
            ],
            collect_next=_unique((*answer.collect, *self._gaps()))
            if verdict.strength is not Strength.ESTABLISHED
            else [],
            storage=storage_section(self.conclusion, self.cite),
            recommendations=_recommendations(answer),
            verification=Verification(
                claims=self.verifier.claims, reread=self.verifier.reread, withdrawn=list(self.withdrawn.values())
            ),
        )

    def _verdict(self, answer: Answer) -> Verdict:
        trigger = None if answer.trigger is None else self.cite(answer.trigger)
        strength = answer.strength
        if answer.trigger is not None and trigger is None:
            # The line on which the verdict rests is gone: nothing stronger than a possibility is left.
            strength = strength.at_most(Strength.POSSIBLE)
        return Verdict(
            failed=answer.failed,
            category=answer.category,
            strength=strength,
            summary=answer.summary,
            culprits=Culprits(
                ranks=[int(r) for r in answer.culprits.ranks],
                hosts=list(answer.culprits.hosts),
                devices=list(answer.culprits.devices),
                storage_nodes=list(answer.culprits.storage_nodes),
                strength=answer.culprits.strength if answer.culprits.anybody else Strength.UNKNOWN,
            ),
            first_failed=FirstFailed(
                ranks=[int(r) for r in answer.first_failed.ranks], hosts=list(answer.first_failed.hosts)
            ),
            trigger=trigger,
            classes=Classes(
                domain=answer.classes.domain,
                form=answer.classes.form,
                layer=answer.classes.layer,
                phase=answer.classes.phase,
                scope=answer.classes.scope,
            ),
            action=Action(
                kind=answer.action,
                exclude_hosts=list(answer.exclude_hosts),
                exclude_hostlist=compress(answer.exclude_hosts),
                steps=list(answer.steps),
            ),
        )

    def _fact(self, fact: JobFact) -> Fact:
        return Fact(value=fact.value, evidence=self.cite_all(fact.events[:1]))

    def _attempt(self, scene: Scene, answer: Answer) -> AttemptSummary:
        first = min(scene.events, key=sort_key, default=None)
        return AttemptSummary(
            number=scene.number,
            ended=scene.outcome.ended,
            diagnosed=scene is self.scene,
            first_line=None if first is None else self.cite(first),
            summary=answer.summary,
        )

    def _naive(self) -> list[NaiveReading]:
        readings = []
        for naive in self.conclusion.naive:
            if naive.event is not None:
                evidence = self.cite_all([naive.event])
            else:
                evidence = [] if naive.failure is None else self._cite_failure(naive.failure)
            readings.append(
                NaiveReading(
                    reading=naive.reading, says=naive.says, dropped_because=naive.dropped_because, evidence=evidence
                )
            )
        return readings

    def _cite_failure(self, failure: Failure) -> list[Evidence]:
        file, span = self.paths.get(failure.span.source, "?"), failure.span
        text, why = self.verifier.quote(span, WINDOW)
        if text is None:
            self.withdrawn[(file, span.line)] = Withdrawn(file=file, line=span.line, why=why)
            return []
        return [Evidence(file=file, line=span.line, column=span.column, text=text, time=time_of(failure.when))]

    def _timeline(self) -> list[TimelineEntry]:
        case = self.scene.case
        told = (Mark.START, Mark.ATTEMPT, Mark.END, Mark.PLANNED_STOP, Mark.CHECKPOINT_BEGIN, Mark.CHECKPOINT_END)
        wanted = [
            e
            for e in self.scene.events
            if nature_of(case, e).role in {Role.CAUSE, Role.EFFECT, Role.TEARDOWN} or any(case.has(e, m) for m in told)
        ]
        ordered = sorted(wanted, key=lambda e: (not exact(e.when), sort_key(e)))
        if len(ordered) > TIMELINE:
            ordered = [*ordered[: TIMELINE // 2], *ordered[-TIMELINE // 2 :]]
        entries = []
        for event in ordered:
            evidence = self.cite(event)
            if evidence is not None:
                title = nature_of(case, event).title
                entries.append(TimelineEntry(time=evidence.time, what=title, evidence=evidence, count=event.count))
        return entries

    def _counts(self) -> list[Count]:
        totals: dict[str, dict[tuple[int, str], int]] = {}
        for event in self.scene.events:
            if nature_of(self.scene.case, event).role is Role.CONTEXT:
                continue
            rank = self.scene.roster.rank(event)
            key = (int(event.span.source), "?" if rank is None else str(rank))
            speaker = totals.setdefault(event.signature, {})
            speaker[key] = max(speaker.get(key, 0), event.count)
        return [_count(self.scene, signature, by, self.paths) for signature, by in sorted(totals.items())]

    def _ranks(self) -> Ranks:
        complete = self.scene.complete
        return Ranks(
            expected=complete.expected,
            seen=len(complete.seen),
            with_nccl_state=len(
                {r for e in self.scene.marked(Mark.STATE) if (r := self.scene.roster.rank(e)) is not None}
            ),
            silent=[int(r) for r in complete.silent],
            table=self._table(),
            expected_nodes=complete.expected_nodes,
            seen_nodes=len({h.split(".")[0] for h in complete.hosts}),
            missing_files=list(complete.missing_files),
            witnesses=[self._fact(w) for w in complete.witnesses],
        )

    def _table(self) -> list[RankRow]:
        answer = self.conclusion.answer
        failed = {*answer.first_failed.ranks, *answer.culprits.ranks}
        waited = set(self.scene.hang.waiters) if self.scene.hang is not None else set()
        lost = self._ranks_with(Mark.PEER_LOST)
        silent = set(self.scene.complete.silent)
        rows = []
        for rank in (*self.scene.complete.seen, *self.scene.complete.silent):
            state, order = "seen", 3
            if rank in failed:
                state, order = "failed", 0
            elif rank in silent:
                state, order = "silent", 1
            elif rank in waited:
                state, order = "timed_out", 2
            elif rank in lost:
                state, order = "lost_peer", 2
            rows.append((order, rank, state))
        return [
            RankRow(
                rank=int(rank),
                host=self.scene.roster.host_of_rank(rank),
                local_rank=self.scene.roster.local_of.get(rank),
                state=state,
            )
            for _, rank, state in sorted(rows)[:TABLE]
        ]

    def _ranks_with(self, mark: Mark) -> set[GlobalRank]:
        return {r for e in self.scene.marked(mark) if (r := self.scene.roster.rank(e)) is not None}

    def _gaps(self) -> list[str]:
        complete = self.scene.complete
        gaps = [f"the log file {name}: its neighbours are here, it is not" for name in complete.missing_files]
        if complete.silent:
            gaps.append(f"the logs of {len(complete.silent)} ranks of which no line is here")
        return gaps


def window(event: Event) -> str:
    """Up to 400 characters of a line, from where the evidence starts."""
    return event.text[:WINDOW]


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


def _count(scene: Scene, signature: str, by: dict[tuple[int, str], int], paths: Mapping[SourceId, str]) -> Count:
    spec = scene.case.library.by_id.get(signature)
    files: dict[str, int] = {}
    ranks: dict[str, int] = {}
    for (source, rank), n in sorted(by.items()):
        path = paths.get(SourceId(source), "?")
        files[path] = files.get(path, 0) + n
        if rank != "?":
            ranks[rank] = ranks.get(rank, 0) + n
    title = spec.title if spec is not None else "Python exception"
    return Count(signature=signature, title=title, total=sum(by.values()), files=files, ranks=ranks)


def _recommendations(answer: Answer) -> dict[str, list[str]]:
    """Steps by side: storage, client, training."""
    side = "training"
    if answer.category.value == "storage_io":
        side = "storage" if answer.culprits.storage_nodes else "client"
    elif answer.category.value == "data":
        side = "client"
    sections: dict[str, list[str]] = {"storage": [], "client": [], "training": []}
    sections[side] = list(answer.steps)
    return sections
