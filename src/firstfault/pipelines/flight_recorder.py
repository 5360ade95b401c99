"""Where every process group stands, by the flight-recorder dumps of an input, beside the verdict of all of it.

Must not choose columns or cut lists: that is how a table is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.recorder_words import ENTRY, STATUS, place_text, shared_op
from firstfault.analysis.state.recorder.reading import read
from firstfault.model.views import Difference, GroupRow, RecorderView, Side, StuckWork
from firstfault.pipelines.cite import Citer
from firstfault.pipelines.diagnose import concluded
from firstfault.pipelines.errors import PipelineError
from firstfault.pipelines.ranks import coverage_of
from firstfault.pipelines.verdict import verdict_in

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence
    from typing import IO

    from firstfault.analysis.conclude import Conclusion
    from firstfault.analysis.state.recorder.calls import Mismatch
    from firstfault.analysis.state.recorder.lanes import Team
    from firstfault.analysis.state.recorder.reading import Reading
    from firstfault.model.evidence import GlobalRank
    from firstfault.pipelines.options import DiagnoseOptions

KEY_ENTRIES = 6


def recorder_view(
    paths: Sequence[str | os.PathLike[str]], options: DiagnoseOptions, *, stdin: IO[bytes] | None = None
) -> RecorderView:
    """Where every process group stands.

    Args:
        paths: files, folders, archives, globs, or `-` for standard input.
        options: as for a diagnosis; one attempt, not all.
        stdin: where `-` reads from; the process's own standard input where None.

    Returns:
        The view, not yet redacted.

    Raises:
        SignatureError: a site signature is wrong.
        PipelineError: the attempt asked for is not there, or not the one of the dumps.
    """
    with concluded(paths, options, stdin=stdin) as (conclusion, verifier, _):
        scene = conclusion.scene
        total = len(conclusion.attempts)
        if scene.number != total:
            raise PipelineError(
                f"the dumps are of attempt {total}, the last one",
                where=f"--attempt {scene.number}",
                why="a rerun writes its dumps over those of the attempt before",
                fix="Leave --attempt out.",
            )
        return recorder_of(conclusion, Citer(verifier, scene.case.paths))


def recorder_of(conclusion: Conclusion, cite: Citer) -> RecorderView:
    """The view of a conclusion, its entries cited."""
    scene = conclusion.scene
    verdict = verdict_in(conclusion.scene, conclusion.answer, cite)
    reading = read(scene.case.seen.dumps)
    recorded = reading.recorded
    shown = [e for e in conclusion.answer.proof if e.signature in {ENTRY, STATUS}]
    return RecorderView(
        verdict=verdict,
        attempt=scene.number,
        attempts=len(conclusion.attempts),
        coverage=coverage_of(scene),
        expected=_numbers(recorded.expected),
        told=recorded.told,
        dumps=_numbers(recorded.dumps),
        missing=_numbers(recorded.missing),
        earlier=sorted(cite.path(d.source) for d in recorded.earlier),
        frozen=_numbers(reading.waits.frozen),
        groups=[_group(team, reading, hung=scene.hang is not None) for team in recorded.teams],
        difference=None if reading.mismatch is None else _difference(reading.mismatch),
        key_entries=cite.events(shown[:KEY_ENTRIES]),
        verification=cite.verification(),
    )


def _numbers(ranks: Iterable[GlobalRank]) -> list[int]:
    return [int(r) for r in ranks]


def _group(team: Team, reading: Reading, *, hung: bool) -> GroupRow:
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
        stuck=_stuck(team, reading, hung=hung),
        states=team.states,
    )


def _stuck(team: Team, reading: Reading, *, hung: bool) -> StuckWork | None:
    """The first work of a group that does not end; of one that all have issued, where states or lines tell that it did not."""
    waits = [w for w in reading.waits.waits if w.team is team]
    if waits:
        wait = min(waits, key=lambda w: (w.seq, w.why, w.waiters))
        op = shared_op(wait.waiting) or "?"
        return StuckWork(
            number=wait.seq,
            op=op,
            waiting=_numbers(wait.waiters),
            awaited=_numbers(wait.blockers),
            why=str(wait.why),
        )
    places = [i for i in reading.waits.inside if i.team is team]
    if not places or not (hung or team.states):
        return None
    place = min(places, key=lambda i: i.seq)
    return StuckWork(number=place.seq, op=shared_op(place.spots), waiting=_numbers(team.lanes))


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
