"""The view of flight-recorder dumps alone: open, read, fold, and say where each group stands.

Files that are no dumps are passed over; for one verdict from logs and dumps together see `firstfault.pipelines.diagnose`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from firstfault.analysis.case import Observations
from firstfault.analysis.conclude import Conclusion, conclude
from firstfault.analysis.recorder_words import place_text
from firstfault.analysis.state.recorder.reading import Reading, read
from firstfault.model.diagnosis import CoverageRow, Culprits, Evidence
from firstfault.model.evidence import Coverage
from firstfault.model.flight_recorder import Difference, GroupRow, RecorderVerdict, RecorderView, Side, StuckWork
from firstfault.model.words import CoverageState, SourceKind
from firstfault.pipelines.cite import WINDOW
from firstfault.pipelines.dumps import cited_again, read_dumps
from firstfault.pipelines.times import time_of
from firstfault.readers.open import open_inputs
from firstfault.redact import redact
from firstfault.signatures.library import load_library

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence
    from typing import IO

    from firstfault.analysis.state.recorder.calls import Mismatch
    from firstfault.analysis.state.recorder.lanes import Team
    from firstfault.model.evidence import GlobalRank
    from firstfault.readers.open import Opened
    from firstfault.redact import Level

KEY_ENTRIES = 6


def recorder_view(paths: Sequence[str | os.PathLike[str]], *, stdin: IO[bytes] | None = None) -> RecorderView:
    """Where every process group stands, by the flight-recorder dumps of an input.

    Args:
        paths: files, folders, archives, globs, or `-` for standard input.
        stdin: where `-` reads from; the process's own standard input where None.
    """
    with open_inputs(paths, stdin=stdin) as opened:
        found = read_dumps(opened.store, opened.sources)
        coverage = _coverage(opened, found.coverage)
        seen = Observations(sources=opened.sources, events=(), coverage=coverage, dumps=found.dumps)
        conclusion, same = cited_again(conclude(seen, load_library(())), opened.store, opened.sources)
        places = {source.id: source.path for source in opened.sources}
        cited = [e for e in conclusion.answer.proof if (int(e.span.source), e.span.offset, e.span.line, e.text) in same]
        entries = [
            Evidence(
                file=places[e.span.source],
                line=e.span.line,
                column=e.span.column,
                text=e.text[:WINDOW],
                time=time_of(e.when),
            )
            for e in cited[:KEY_ENTRIES]
        ]
    return _view(conclusion, read(found.dumps), entries, coverage)


def _coverage(opened: Opened, dumps: dict[str, Coverage]) -> tuple[Coverage, ...]:
    rows = {c.file: c for c in opened.coverage}
    for source in opened.sources:
        if source.kind is not SourceKind.FLIGHT_RECORDER:
            rows[source.path] = Coverage(
                file=source.path, state=CoverageState.SKIPPED, reason="no flight-recorder dump"
            )
    return tuple(row for _, row in sorted({**rows, **dumps}.items()))


def _view(
    conclusion: Conclusion, reading: Reading, entries: list[Evidence], coverage: Iterable[Coverage]
) -> RecorderView:
    answer, recorded = conclusion.answer, reading.recorded
    return RecorderView(
        verdict=RecorderVerdict(
            failed=answer.failed,
            category=answer.category,
            strength=answer.strength,
            summary=answer.summary
            if answer.failed is not None or not recorded.dumps
            else f"The dumps of {len(recorded.dumps)} ranks hold no unfinished collective: they name nobody.",
            culprits=Culprits(ranks=_numbers(answer.culprits.ranks), strength=answer.culprits.strength),
        ),
        expected=_numbers(recorded.expected),
        told=recorded.told,
        dumps=_numbers(recorded.dumps),
        missing=_numbers(recorded.missing),
        frozen=_numbers(reading.waits.frozen),
        groups=[_group(team, reading) for team in recorded.teams],
        difference=None if reading.mismatch is None else _difference(reading.mismatch),
        key_entries=entries,
        coverage=[CoverageRow(file=c.file, state=c.state, reason=c.reason, bytes=c.bytes) for c in coverage],
    )


def _numbers(ranks: Iterable[GlobalRank]) -> list[int]:
    return [int(r) for r in ranks]


def _group(team: Team, reading: Reading) -> GroupRow:
    issued = {rank: lane.high for rank, lane in team.lanes.items() if lane.high is not None}
    most = max(issued.values(), default=None)
    return GroupRow(
        name=team.name,
        description=team.desc,
        members=_numbers(team.members),
        told=team.told,
        without_dump=_numbers(team.unseen),
        issued_least=min(issued.values(), default=None),
        issued_most=most,
        behind=_numbers(rank for rank, high in issued.items() if most is not None and high < most),
        stuck=_stuck(team, reading),
    )


def _stuck(team: Team, reading: Reading) -> StuckWork | None:
    waits = [w for w in reading.waits.waits if w.team is team]
    if waits:
        wait = min(waits, key=lambda w: (w.seq, w.why, w.waiters))
        op = wait.waiting[0].call.op if wait.waiting else "?"
        return StuckWork(
            number=wait.seq,
            op=op,
            waiting=_numbers(wait.waiters),
            awaited=_numbers(wait.blockers),
            why=str(wait.why),
        )
    places = [i for i in reading.waits.inside if i.team is team]
    if not places:
        return None
    place = min(places, key=lambda i: i.seq)
    return StuckWork(number=place.seq, op=place.spots[0].call.op, waiting=_numbers(team.lanes))


def _difference(found: Mismatch) -> Difference:
    return Difference(
        group=found.team.title,
        number=found.seq,
        kind=str(found.kind),
        sides=[
            Side(
                what=what,
                ranks=sorted(int(s.dump.rank) for s in spots if s.dump.rank is not None),
                place=place_text(spots[0]),
            )
            for what, spots in found.sides
        ],
        odd=sorted(int(s.dump.rank) for s in found.odd if s.dump.rank is not None),
        shift=None if found.shift is None else str(found.shift),
    )


def publish_recorder(view: RecorderView, form: Literal["text", "json"], level: Level, *, width: int = 100) -> str:
    """Takes the view through the one door and into a format; see `firstfault.pipelines.publish`."""
    safe = redact(view, level)
    if form == "json":
        from firstfault.report.json import render_json

        return render_json(safe)
    from firstfault.report.flight_recorder import render_recorder

    return render_recorder(safe, width=width)
