"""Answers from flight-recorder dumps that cannot be laid side by side: of several jobs, or of a job that went on meanwhile.

Nobody is named, and nothing is said to have failed: what such dumps show is that they do not belong together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.answer import Answer, Named
from firstfault.analysis.recorder_words import call_text, entry_event, once, some_ranks
from firstfault.model.words import ActionKind, Category, Strength

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.analysis.state.recorder.reading import Reading
    from firstfault.model.evidence import Event, GlobalRank


def of_several_moments(reading: Reading, behind: Sequence[GlobalRank]) -> Answer:
    """Who seems not to have come was only asked earlier than a peer that has completed what it had not issued yet."""
    rank, spot = behind[0], reading.older[behind[0]]
    team = next(t for t in reading.recorded.teams if rank in t.lanes and spot.log.group == t.name)
    peer = [] if spot.dump.rank is None else [spot.dump.rank]
    return _apart(
        f"The flight-recorder dumps are of different moments: {some_ranks(peer)} had completed {call_text(spot, team)}, in which "
        f"all take part, when {some_ranks([rank])} by its dump had not issued it yet. So the job went on while they were written, "
        "and nobody in them is shown to be late.",
        once([entry_event(spot)]),
        "dumps of all ranks written at one time: by the watchdog at a time-out, or twice, a minute apart, to see who does not move",
    )


def of_several_jobs(reading: Reading) -> Answer:
    """Dumps whose processes state different sizes of the whole job, none of which is told to be this one's."""
    sizes = " and ".join(str(n) for n in reading.worlds)
    return _apart(
        f"The flight-recorder dumps are of several jobs: their processes state groups of all ranks of {sizes} members. "
        "Which of them is the job that failed no line tells, so they are not compared.",
        (),
        "the dumps of the one job, in a folder of their own (old ones stay in /tmp and ~/.cache), and its log, which states the number of ranks",
    )


def of_local_names(reading: Reading) -> Answer:
    """Files named by local ranks of several machines: of which rank each is, nothing tells."""
    return _apart(
        f"The flight-recorder dumps are named by local rank: each number stands in the names of {reading.each} files, and together they "
        f"are as many as the {len(reading.recorded.expected)} ranks. Of which rank a file is nothing tells, so they are not compared.",
        (),
        "the dumps under names with the global rank (or one folder a machine beside logs that say which ranks ran on it)",
    )


def _apart(summary: str, proof: tuple[Event, ...], wanted: str) -> Answer:
    return Answer(
        question="flight_recorder",
        failed=None,
        category=Category.UNKNOWN,
        strength=Strength.UNKNOWN,
        summary=summary,
        trigger=None,
        proof=proof,
        culprits=Named(),
        first_failed=Named(),
        action=ActionKind.COLLECT_MORE,
        collect=(wanted,),
    )
