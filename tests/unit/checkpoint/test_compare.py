"""Two checkpoints: a resumed run against one that went on, formats and cuts against one another, and the first difference."""

import shutil
import struct

import pytest

from firstfault.pipelines.checkpoint import compare_checkpoints
from firstfault.pipelines.errors import PipelineError


def test_a_resumed_run_ends_where_the_continuous_one_does(real):
    found = compare_checkpoints(real("dcp2-whole"), real("dcp2-resumed"))
    assert found.verdict == "exact"
    assert found.first_difference is None
    assert {row.part: row.result for row in found.parts} == dict.fromkeys(
        ("weights", "optimizer", "scheduler", "trainer", "rng"), "equal"
    )
    assert found.digests[0] == found.digests[1] is not None


@pytest.mark.parametrize("ranks", [(0,), (0, 1)])
def test_without_random_states_the_match_is_functional(real, ranks):
    one, other = real("dcp2-whole"), real("dcp2-resumed")
    for rank in ranks:
        (other / f"rng_state_{rank}.pth").unlink()
    found = compare_checkpoints(one, other)
    assert found.verdict == "functional"
    assert found.first_difference.part == "rng"
    assert {row.part: row.result for row in found.parts}["weights"] == "equal"


def test_other_random_states_are_functional_too(real):
    one, other = real("dcp2-whole"), real("dcp2-resumed")
    shutil.copy(other / "rng_state_0.pth", other / "rng_state_1.pth")
    found = compare_checkpoints(one, other)
    assert found.verdict == "functional"
    assert found.first_difference.name.startswith("rng_state_1/")


def test_the_same_state_cut_for_twice_as_many_ranks(real):
    found = compare_checkpoints(real("dcp2-whole"), real("dcp4-recut"))
    assert found.verdict == "functional"
    assert {row.part: row.result for row in found.parts} == {
        "weights": "equal",
        "optimizer": "equal",
        "scheduler": "equal",
        "trainer": "equal",
        "rng": "only_first",
    }
    assert found.digests[0] != found.digests[1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("formats/hf-sharded", "formats/hf-bin"),
        ("formats/whole.pt", "formats/legacy.pt"),
        ("formats/whole.pt", "formats/nocrc.pt"),
    ],
)
def test_one_state_in_two_formats_is_exact(real, one, other):
    assert compare_checkpoints(real(one), real(other)).verdict == "exact"


def test_the_first_element_that_differs_is_told(real):
    one = real("layouts/trainer/checkpoint-100")
    other = one.with_name("other")
    shutil.copytree(one, other)
    raw = (other / "model.safetensors").read_bytes()
    # Its tensors are 0.bias, 0.weight (10, 6), 1.bias, 1.weight (4, 10), each behind the other at the end of the file.
    at = len(raw) - 4 * (40 + 4) - 4 * 60 + 4 * (2 * 6 + 3)
    changed = struct.unpack("<f", raw[at : at + 4])[0] + 1
    (other / "model.safetensors").write_bytes(raw[:at] + struct.pack("<f", changed) + raw[at + 4 :])
    found = compare_checkpoints(one, other)
    assert found.verdict == "different"
    first = found.first_difference
    assert (first.part, first.name, first.index, first.elements) == ("weights", "0.weight", [2, 3], 1)
    assert len(found.differences) == 1


def test_another_step_differs_in_every_part(real):
    root = real("ds2")
    found = compare_checkpoints(root / "global_step2", root / "global_step4")
    assert found.verdict == "different"
    results = {row.part: row.result for row in found.parts}
    assert results["weights"] == results["optimizer"] == results["scheduler"] == results["trainer"] == "differs"
    assert results["settings"] == "equal"


def test_a_checkpoint_without_its_optimizer_is_different(real):
    one = real("layouts/trainer/checkpoint-100")
    other = one.with_name("weights-only")
    shutil.copytree(one, other)
    (other / "optimizer.pt").unlink()
    found = compare_checkpoints(one, other)
    assert found.verdict == "different"
    assert {row.part: row.result for row in found.parts}["weights"] == "equal"
    assert found.first_difference.part == "optimizer"


def test_a_damaged_side_is_told(real):
    one, other = real("dcp2-whole"), real("dcp2-resumed")
    raw = (other / "__1_0.distcp").read_bytes()
    (other / "__1_0.distcp").write_bytes(raw[: len(raw) // 2])
    found = compare_checkpoints(one, other)
    assert found.verdict == "different"
    assert any("__1_0.distcp" in text for text in found.problems)


def test_nothing_to_compare_is_an_error_that_says_what_to_do(real, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(PipelineError) as raised:
        compare_checkpoints(real("dcp2-whole"), tmp_path / "empty")
    assert "checkpoint verify" in raised.value.fix
