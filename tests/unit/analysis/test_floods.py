"""The lines behind those that were kept are as many as were there, whoever said them and in whatever order."""

from __future__ import annotations

from collections import Counter

import pytest

from firstfault.analysis.floods import counted_lines, lines_behind
from firstfault.model.evidence import Event, GlobalRank, SourceId, Span
from firstfault.scan.results import FIRST, LAST


def kept(count: int, ranks: list[int | None], *, source: int = 0) -> list[tuple[Event, GlobalRank | None]]:
    """What a scan keeps of so many equal lines, said by ranks in turn."""
    places = list(range(count)) if count <= FIRST + LAST else [*range(FIRST), *range(count - LAST, count)]
    found = []
    for at in places:
        rank = ranks[at % len(ranks)]
        event = Event(
            signature="gpu.out_of_memory", span=Span(SourceId(source), 100 * at, 10, at + 1, 1), text="CUDA out of memory",
            count=count, ordinal=at if at < FIRST else at - count,
        )  # fmt: skip
        found.append((event, None if rank is None else GlobalRank(rank)))
    return found


@pytest.mark.parametrize("count", [1, 2, 5, 6, 7, 90])
def test_of_one_speaker_all_lines_are_counted(count):
    lines = kept(count, [3])
    assert sum(lines_behind(event) for event, _ in lines) == count
    assert counted_lines(lines) == {"gpu.out_of_memory": Counter({(0, 3): count})}


@pytest.mark.parametrize("count", [6, 127, 16_383])
def test_of_lines_by_many_only_the_kept_ones_are_given_to_their_ranks(count):
    found = counted_lines(kept(count, list(range(count))))["gpu.out_of_memory"]
    assert found.total() == count
    assert {n for (_, rank), n in found.items() if rank is not None} == {1}


def test_floods_of_one_length_are_each_given_to_their_rank():
    lines = [one for rank in range(8) for one in kept(90, [rank])] + kept(90, [1], source=1) + kept(90, [5, 6, None])
    found = counted_lines(lines)["gpu.out_of_memory"]
    assert found.total() == 10 * 90
    assert found[SourceId(0), GlobalRank(4)] == 90
    assert found[SourceId(1), GlobalRank(1)] == 90
    assert found[SourceId(0), None] == 84 + 2
