"""Lines of the recorder: what is damaged is counted, and takes nothing else along."""

import pytest

from firstfault.analysis.state.boxes import rank_boxes
from firstfault.readers.blackbox import read_box
from firstfault.recorder.format import BEAT, STATE, line

GOOD = {"rank": 3, "time": "2026-11-30T07:00:00+00:00", "still_s": 2, "step": 7}


@pytest.mark.parametrize(
    "more",
    [{"still_s": 10**400}, {"steps": -(10**400)}, {"loader": {"waited_s": [10**30]}}, {"call": {"number": 1 << 63}}],
)
def test_a_number_that_no_field_can_hold_is_damage(more):
    read = read_box(line(BEAT, {**GOOD, **more}) + line(BEAT, GOOD), 0, "box/run/node/heartbeat.jsonl")
    assert read.damaged == 1
    assert [(r.who.rank, r.still, r.step) for r in read.records] == [(3, 2.0, 7)]


def test_digits_of_a_text_are_no_number():
    told = {
        **GOOD,
        "item": {"what": "/set/12345678901234567890.tar", "for_s": 1.5, "batch": 1},
        "seeds": "[99999999999999999999]",
    }
    assert read_box(line(BEAT, told), 0, "box/run/node/heartbeat.jsonl").damaged == 0


@pytest.mark.parametrize("name", ["signal", "bundle"])
@pytest.mark.parametrize("value", [[], ["SIGKILL"], {}, {"a": 1}])
def test_a_list_or_map_where_one_value_belongs_is_damage(name, value):
    read = read_box(line(STATE, {**GOOD, name: value}) + line(STATE, GOOD), 0, "box/run/node/node.jsonl")
    assert (read.damaged, len(read.records)) == (1, 1)
    assert list(rank_boxes(read.records)) == [3]
