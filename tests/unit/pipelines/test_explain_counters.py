"""Counters of the store are explained by the names that stand in its lines."""

import pytest

from firstfault.analysis.state.storage import FLAGS
from firstfault.pipelines.explain import explain


@pytest.mark.parametrize(
    ("name", "told"),
    [("getbatch.n", "finished"), ("err.http.write.n", "not counted here"), ("state.flags", "6 is healthy")],
)
def test_a_counter_is_explained_with_its_source(name, told):
    (found,) = explain(name).found
    assert told in found.meaning
    assert "AIStore source" in found.sources[0]


@pytest.mark.parametrize(
    ("asked", "alerts"),
    [
        ("state.flags 8198", "disk fault"),
        ("state.flags:134", "restarted"),
        ("state.flags=2054", "low capacity"),
        ("state.flags 6", "none"),
        ("state.flags 4480", "restarted, out of space, low memory, not started"),
    ],
)
def test_a_sum_of_flags_is_taken_apart(asked, alerts):
    (found,) = explain(asked).found
    assert found.facts == {"alerts": alerts}


def test_every_bit_that_is_read_is_explained():
    (found,) = explain("state.flags").found
    assert all(f" {bit} " in found.meaning for bit in FLAGS)
