"""States that `pickle.dump` wrote without `torch.save`, and classes that dill carries along."""

import pytest

from firstfault.pipelines.checkpoint import compare_checkpoints, verify_checkpoint


def test_tensors_within_a_pickle_are_read(real):
    found = verify_checkpoint(real("pickled") / "p4.pt")
    assert (found.state, found.problems) == ("complete", [])
    assert {row.part: row.tensors for row in found.parts} == {"weights": 2, "rng": 1}


def test_they_are_held_against_a_file_of_torch_save(real):
    folder = real("pickled")
    assert compare_checkpoints(folder / "p4.pt", folder / "same.pt").verdict == "exact"
    assert compare_checkpoints(folder / "p4.pt", folder / "p4-other.pt").verdict == "different"


def test_their_values_are_looked_at(real):
    assert [p.kind for p in verify_checkpoint(real("pickled") / "p4-nan.pt").problems] == ["nan"]


def test_what_is_held_as_text_is_not_called_complete(real):
    found = verify_checkpoint(real("pickled") / "p2.pt")
    assert (found.state, [p.weight for p in found.problems]) == ("unknown", ["warning"])


@pytest.mark.parametrize("kept", [60, 300, 700])
def test_a_cut_pickle_is_damaged(real, tmp_path, kept):
    (tmp_path / "cut.pt").write_bytes((real("pickled") / "p4.pt").read_bytes()[:kept])
    assert verify_checkpoint(tmp_path / "cut.pt").state == "damaged"


def test_a_model_whose_class_dill_carries_is_read(real):
    found = verify_checkpoint(real("pickled") / "dilled.pt")
    assert (found.state, found.problems) == ("complete", [])
    assert sum(row.tensors for row in found.parts) == 2
