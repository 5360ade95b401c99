"""Counters of the store are explained by the names that stand in its lines."""

import pytest

from firstfault.pipelines.explain import explain


@pytest.mark.parametrize(
    ("name", "told"),
    [("getbatch.n", "finished"), ("err.http.write.n", "not counted here"), ("state.flags", "6 is healthy")],
)
def test_a_counter_is_explained_with_its_source(name, told):
    (found,) = explain(name).found
    assert told in found.meaning
    assert "AIStore source" in found.sources[0]
