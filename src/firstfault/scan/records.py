"""Every record of some bytes of a daemon's log that a signature of a wanted room matches; nothing is folded.

A record is a line, or a part of one where the daemon cut a record with its newline and glued the next to it. For short
stretches only (the time around a failure): the scan of whole sources is in `firstfault.scan.run`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.readers.aistore_lines import PREFIX, RECORD
from firstfault.readers.aistore_records import Known
from firstfault.scan.engines import SHIFT, make_engine
from firstfault.scan.plan import dropped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from firstfault.scan.plan import Plan

_MASK = (1 << SHIFT) - 1
PIECE = 4 << 20
"""Bytes given to the engine at a time."""
MOST_RECORD = 32 * 1024


class RecordSearch:
    """Searches records; made once for a run."""

    def __init__(self, plan: Plan, wanted: Callable[[str], bool], engine: str = "auto") -> None:
        self._plan = plan
        self._engine = make_engine(engine, plan)
        self._wanted = frozenset(i for i, name in enumerate(plan.ids) if wanted(name))

    def __call__(self, data: bytes) -> list[Known]:
        """What is known in some bytes that start at a line start, by position."""
        found: list[Known] = []
        for start, end in _pieces(data):
            part = bytearray(data[start:end])
            asked: dict[tuple[int, int], set[int]] = {}
            for proposal in self._engine.propose(part, len(part)):
                signature = proposal & _MASK
                if signature in self._wanted:
                    asked.setdefault(_record(data, start + (proposal >> SHIFT)), set()).add(signature)
            for (left, right), signatures in sorted(asked.items()):
                found.extend(self._confirmed(data, left, right, signatures))
        return found

    def _confirmed(self, data: bytes, left: int, right: int, signatures: set[int]) -> Iterator[Known]:
        record = data[left:right]
        stamp = RECORD.match(record)
        starts: tuple[int, ...]
        if stamp is None:
            # A message without a time of its own, as a crash prints: it begins behind a stamp or a pod's name.
            prefix = PREFIX.match(record)
            end = 0 if prefix is None else prefix.end()
            starts = (0, *(i + 1 for i in range(end) if record[i] == 0x20))
        else:
            starts = (0, stamp.end())
        matches = {s: m[0] for s in sorted(signatures) if (m := self._plan.confirmer(s).find(record, starts))}
        gone = dropped(self._plan, matches)
        for signature, match in matches.items():
            if signature not in gone:
                yield Known(left, right, self._plan.ids[signature], dict(match.fields))


def _pieces(data: bytes) -> Iterator[tuple[int, int]]:
    start = 0
    while start < len(data):
        end = data.find(b"\n", start + PIECE) + 1 or len(data)
        yield start, end
        start = end


def _record(data: bytes, at: int) -> tuple[int, int]:
    """Borders of the record that holds a position."""
    left = data.rfind(b"\n", 0, at + 1) + 1
    right = data.find(b"\n", at)
    right = len(data) if right < 0 else right
    left = max(left, at - MOST_RECORD)
    begin, end = left, min(right, left + 2 * MOST_RECORD)
    for found in RECORD.finditer(data, left, end):
        if found.start() <= at:
            begin = found.start() if found.start() - left > 0 else begin
        else:
            end = found.start()
            break
    return begin, end
