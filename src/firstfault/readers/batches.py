"""Coalesced calls in a flight-recorder dump: the parts of a batch end when the entry that closes it does.

The recorder never sees a part end, since only the batch as a whole has events. Knows nothing of other ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.model.recorder import Call, GroupLog, Stage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def settled(log: GroupLog, calls: Sequence[Call], *, active_only: bool) -> GroupLog:
    """The log with the stage of each part set to that of its batch.

    Args:
        log: in order of issue.
        calls: what the log's entries point to.
        active_only: whether completed entries were left out: then a batch of which only parts are left has ended, since
            its closing entry was left out.
    """
    closing = {i for i, call in enumerate(calls) if call.op == "coalesced"}
    shared = len(set(log.seq)) < len(log.seq)
    if not shared and closing.isdisjoint(log.call):
        return log
    stage, started = bytearray(log.stage), bytearray(log.started)
    for run in _runs(log):
        last = run[-1]
        if log.call[last] in closing:
            stage[run.start : run.stop] = bytes([stage[last]]) * len(run)
            started[run.start : run.stop] = bytes([started[last]]) * len(run)
        elif active_only:
            stage[run.start : run.stop] = bytes([Stage.COMPLETED]) * len(run)
    return replace(log, stage=bytes(stage), started=bytes(started))


def _runs(log: GroupLog) -> Iterator[range]:
    """Stretches of entries of one number."""
    start = 0
    for at in range(1, len(log.seq) + 1):
        if at == len(log.seq) or log.seq[at] != log.seq[start]:
            yield range(start, at)
            start = at
