"""The dumps of a simulated incident as the reader gives them."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING

from firstfault.readers.flight_recorder import read_dump
from recorder.simulate import dump

if TYPE_CHECKING:
    from firstfault.model.recorder import RankDump
    from recorder.faults import Incident
    from recorder.simulate import Form


def dumps_of(incident: Incident, form: Form) -> tuple[RankDump, ...]:
    """One dump a rank, but for those that left none; source ids count up."""
    found: list[RankDump] = []
    for rank in incident.room.ranks:
        if rank.number not in incident.without:
            top = dump(incident.room, rank, form)
            raw = json.dumps(top).encode() if form.as_json else pickle.dumps(top, 2)
            found.append(read_dump(raw, len(found), f"nccl_trace_rank_{rank.number}", fast=True))
    return tuple(found)
