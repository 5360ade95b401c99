"""Sentences and evidence from flight-recorder dumps: which collective, who waits, where in the program.

Decides nothing; see `firstfault.analysis.questions.flight_recorder`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from firstfault.analysis.wording import frame_text, ranks_text
from firstfault.model.evidence import Event, Span, When, Who
from firstfault.model.lazy import lazy
from firstfault.model.words import Phase
from firstfault.readers.entries import call_frame, counters_text, entry_text

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Sequence

    from firstfault.analysis.state.recorder.lanes import Lane, Spot, Team
    from firstfault.model.evidence import GlobalRank
    from firstfault.model.recorder import RankDump

ENTRY = "flight_recorder.entry"
"""Signature of an event that stands for one entry of a dump; its field `entry` is the entry's index in the file."""
STATUS = "flight_recorder.status"
"""Signature of an event that stands for the counters of one group of a dump; its field `group` names the group."""
_PHASES: tuple[tuple[Phase, re.Pattern[str]], ...] = (
    (Phase.CHECKPOINT, lazy(r"(?i)checkpoint|ckpt|save_(?:state|model|pretrained)|state_dict")),
    (Phase.EVALUATION, lazy(r"(?i)(?:^|_)(?:eval|evaluate|evaluation|validate|validation|test_step)(?:_|$)|validation_step")),
    (Phase.BACKWARD, lazy(r"(?i)backward")),
    (Phase.OPTIMIZER, lazy(r"(?i)optimizer|optim_step|clip_grad|grad_norm|reduce_gradients|unscale|prepare_grads|finalize_model_grads")),
    (Phase.DATA, lazy(r"(?i)dataload|dataset|data_iter|get_batch|collate|sampler|tokeniz")),
    (Phase.FORWARD, lazy(r"(?i)(?:^|_)forward(?:_|$)")),
    (Phase.START_UP, lazy(r"(?i)init_process_group|initialize|setup_model|build_model|broadcast_params|_sync_module_states|load_(?:model|checkpoint)")),
)  # fmt: skip


def entry_event(spot: Spot) -> Event:
    """An entry as evidence; where it stands in the file is found when it is cited."""
    dump, log, at = spot.dump, spot.log, spot.at
    seconds = log.created[at] / 1e9 if log.created[at] else None
    return Event(
        signature=ENTRY,
        span=Span(dump.source, 0, 0, 1, 1),
        text=entry_text(dump, log, at),
        who=Who(rank=dump.rank, group=log.group),
        when=When(earliest=seconds, latest=seconds, zone=None if seconds is None else "Z"),
        fields={"entry": str(log.entry[at])},
    )


def status_event(lane: Lane, team: Team) -> Event:
    """What a dump says of a group in which nothing of it is visible: its counters; the lane is that of a dump."""
    assert lane.dump is not None
    return Event(
        signature=STATUS,
        span=Span(lane.dump.source, 0, 0, 1, 1),
        text=counters_text(lane.dump, team.name),
        who=Who(rank=lane.rank, group=team.name),
        fields={"group": team.name},
    )


def standing_event(lane: Lane, team: Team) -> Event:
    """The last entry of a rank in a group, else its counters there."""
    last = lane.last()
    return status_event(lane, team) if last is None else entry_event(last)


def call_text(spot: Spot, team: Team) -> str:
    """`all_reduce 5 of the default group`."""
    call, seq = spot.call, spot.log.seq[spot.at]
    if spot.log.p2p and call.peer is not None:
        toward = "to" if call.op == "send" else "from"
        peer = team.members[call.peer] if call.peer < len(team.members) and team.told else call.peer
        return f"the {call.op} {toward} rank {peer} in {team.title}"
    return f"{call.op} {seq} of {team.title}"


def shared_op(spots: Iterable[Spot]) -> str:
    """The operation of most of some entries; where two are equally many, both: no single rank's entry is the truth."""
    counts = Counter(s.call.op for s in spots)
    most = max(counts.values(), default=0)
    return "/".join(sorted(op for op, n in counts.items() if n == most))


def some_ranks(ranks: Sequence[GlobalRank]) -> str:
    """`ranks 0-3`, or the number where there are too many to read."""
    return ranks_text(ranks) if len(ranks) <= 64 else f"{len(ranks)} ranks"


def phase_of(spot: Spot | None) -> Phase:
    """The phase that the functions on a stack speak of, innermost first; unknown where they speak of none."""
    if spot is None:
        return Phase.UNKNOWN
    for frame in spot.dump.frames[spot.call.frames]:
        for phase, pattern in _PHASES:
            if pattern.search(frame.function):
                return phase
    return Phase.UNKNOWN


def place_text(spot: Spot | None) -> str | None:
    """The frame that made a call; None where no stack is there."""
    if spot is None:
        return None
    frame = call_frame(spot.dump, spot.call)
    return None if frame is None else frame_text(frame)


def last_spot(dump: RankDump) -> Spot | None:
    """The last entry of a dump over all its groups."""
    from firstfault.analysis.state.recorder.lanes import Spot

    log = max((g for g in dump.logs if g.record), key=lambda g: g.record[-1], default=None)
    return None if log is None else Spot(dump, log, len(log.record) - 1)


def once(events: Iterable[Event]) -> tuple[Event, ...]:
    """Events without repetitions, in order."""
    return tuple({(e.span.source, e.signature, e.text): e for e in events}.values())


_GUESS = lazy(r" (?:Its dump shows|Their dumps show|It left a dump|They left dumps)[^.]{1,60}busy or stuck[^.]{1,80}\.")


def without_guess(summary: str) -> str:
    """A summary of the dumps without its guess at where ranks were that issued nothing, for who knows where they were."""
    return _GUESS.sub("", summary)
