"""Formats of the past and markers of a save that has ended: Megatron's zarr, the tar of torch before 2017, READY and its like."""

import io
import json
import shutil
import struct
import tarfile

import pytest

from firstfault.pipelines.checkpoint import compare_checkpoints, verify_checkpoint

WEIGHT = "model.decoder.layers.self_attention.linear_qkv.weight"


def kinds(found, weight="damage"):
    return {(p.kind, p.file.rpartition("/")[2]) for p in found.problems if p.weight == weight}


def test_megatrons_zarr_is_read_chunk_by_chunk(real):
    found = verify_checkpoint(real("zarr"))
    assert (found.state, found.step, found.problems) == ("complete", 20, [])
    assert set(found.layouts) == {"torch", "zarr", "megatron"}
    assert {row.part: row.tensors for row in found.parts if row.tensors} == {"weights": 3, "optimizer": 2}
    # Ten rows in chunks of four: the last chunk is larger on disk than what of it belongs to the tensor.
    assert {row.part: row.bytes for row in found.parts if row.tensors}["weights"] == (10 * 6) * 4 + (8 * 4) * 2 + 16 * 2


def test_its_numbers_are_those_that_were_written(real, tmp_path):
    folder = real("zarr") / "iter_0000020"
    chunks = {}
    for row in range(3):
        for column in range(2):
            raw = (folder / WEIGHT / f"{row}.{column}").read_bytes()
            chunks[row, column] = struct.unpack("<12f", raw)
    rows = [[chunks[r // 4, c // 3][(r % 4) * 3 + c % 3] for c in range(6)] for r in range(10)]
    plain = b"".join(struct.pack("<6f", *row) for row in rows)
    entry = {"dtype": "F32", "shape": [10, 6], "data_offsets": [0, len(plain)]}
    for tensor in [d for d in folder.iterdir() if d.is_dir() and d.name != WEIGHT]:
        shutil.rmtree(tensor)
    (folder / "common.pt").unlink()
    (folder / "metadata.json").unlink()
    head = json.dumps({WEIGHT.removeprefix("model."): entry}).encode()
    other = tmp_path / "same.safetensors"
    other.write_bytes(struct.pack("<Q", len(head)) + head + plain)
    assert compare_checkpoints(folder, other).verdict == "exact"
    other.write_bytes(struct.pack("<Q", len(head)) + head + plain[:-4] + struct.pack("<f", 9.0))
    changed = compare_checkpoints(folder, other)
    assert (changed.verdict, changed.first_difference.index) == ("different", [9, 5])


@pytest.mark.parametrize(
    ("damage", "kind", "file"),
    [
        (lambda d: (d / WEIGHT / "2.1").unlink(), "missing_shard", "2.1"),
        (lambda d: (d / WEIGHT / "2.1").write_bytes(b""), "empty_file", "2.1"),
        (lambda d: (d / WEIGHT / "2.1").write_bytes(b"x" * 20), "truncated", "2.1"),
        (lambda d: (d / WEIGHT / "2.1").write_bytes(b"x" * 60), "wrong_size", "2.1"),
        (lambda d: (d / WEIGHT / ".zarray").write_text("{"), "truncated", ".zarray"),
        (lambda d: (d / WEIGHT / ".zarray").write_text('{"shape": [4], "chunks": [0]}'), "layout", ".zarray"),
        (lambda d: (d / WEIGHT / "0.0").write_bytes(struct.pack("<12f", *[float("nan")] * 12)), "nan", "0.0"),
        (lambda d: (d / "metadata.json").unlink(), "missing_metadata", "metadata.json"),
        (lambda d: (d / "common.pt").unlink(), "missing_part", "common.pt"),
    ],
)
def test_damage_to_zarr_is_named(real, damage, kind, file):
    folder = real("zarr")
    damage(folder / "iter_0000020")
    found = verify_checkpoint(folder)
    assert found.state == "damaged"
    assert (kind, file) in kinds(found) or (kind == "nan" and "nan" in {k for k, _ in kinds(found)})


def test_chunks_of_another_shape_are_named_and_compressed_ones_are_not_read(real):
    folder = real("zarr")
    (folder / "iter_0000020" / WEIGHT / "7.7").write_bytes(b"x" * 48)
    assert ("extra_shard", "7.7") in kinds(verify_checkpoint(folder), "warning")
    head = folder / "iter_0000020" / WEIGHT / ".zarray"
    head.write_text(head.read_text().replace('"compressor": null', '"compressor": {"id": "blosc"}'))
    assert ("layout", ".zarray") in kinds(verify_checkpoint(folder), "warning")


def test_a_chunk_that_may_be_left_out_is_not_missed(real):
    folder = real("zarr")
    head = folder / "iter_0000020" / WEIGHT / ".zarray"
    head.write_text(head.read_text().replace('"fill_value": null', '"fill_value": 0.0'))
    (folder / "iter_0000020" / WEIGHT / "2.1").unlink()
    assert "missing_shard" not in {k for k, _ in kinds(verify_checkpoint(folder))}


def test_the_tar_of_before_2017_is_read(real):
    found = verify_checkpoint(real("tar") / "old.pt")
    assert (found.state, found.problems) == ("complete", [])
    assert {row.part: row.tensors for row in found.parts if row.tensors} == {"weights": 2}


def test_a_cut_tar_is_named(real):
    file = real("tar") / "old.pt"
    raw = file.read_bytes()
    for keep in (600, 1500, 3000, 3600):
        file.write_bytes(raw[:keep])
        found = verify_checkpoint(file)
        assert found.state == "damaged"
        assert {k for k, _ in kinds(found)} <= {"truncated", "unreadable"}
        assert kinds(found)


def test_a_tar_of_something_else_is_no_checkpoint(tmp_path):
    with tarfile.open(tmp_path / "x.pt", "w:") as tar:
        member = tarfile.TarInfo("pickle")
        member.size = 4
        tar.addfile(member, io.BytesIO(b"\x80\x02N."))
    assert verify_checkpoint(tmp_path / "x.pt").state == "damaged"


@pytest.fixture
def several(real, tmp_path):
    """Three checkpoints of one run."""
    source = real("formats/whole.pt")
    run = tmp_path / "run"
    for step in (100, 200, 300):
        (run / f"step_{step}").mkdir(parents=True)
        shutil.copy(source, run / f"step_{step}" / "state.pt")
    return run


@pytest.mark.parametrize("name", ["READY", "DONE", ".complete", "_SUCCESS", "commit_success.txt"])
def test_the_newest_that_is_marked_as_ended_is_the_one(several, name):
    for step in (100, 200):
        (several / f"step_{step}" / name).write_text("")
    found = verify_checkpoint(several)
    assert found.verified == "step_200"
    assert {p.file for p in found.problems if p.kind == "unfinished_save"} == {"step_300"}
    assert f"has no {name}, as step_200 has" in next(p.what for p in found.problems if p.kind == "unfinished_save")


def test_without_any_marker_nothing_is_missed(several):
    found = verify_checkpoint(several)
    assert found.verified == "step_300"
    assert not [p for p in found.problems if p.kind == "unfinished_save"]


def test_nemos_marker_of_a_save_that_goes_on(several, real, tmp_path):
    (several / "step_300-unfinished").write_text("")
    found = verify_checkpoint(several)
    assert found.verified == "step_200"
    assert {p.file for p in found.problems if p.kind == "unfinished_save"} == {"step_300"}
    lone = tmp_path / "lone"
    lone.mkdir()
    shutil.copy(real("formats/lightning.ckpt"), lone / "epoch=1-last.ckpt")
    assert verify_checkpoint(lone).state == "complete"
    (lone / "epoch=1-last-unfinished").write_text("")
    assert kinds(verify_checkpoint(lone)) == {("unfinished_save", "epoch=1-last.ckpt")}


def test_a_latest_that_names_a_save_without_its_end_is_damage(several):
    (several / "latest").write_text("step_300")
    for step in (100, 200):
        (several / f"step_{step}" / "READY").write_text("")
    assert ("unfinished_save", "step_300") in kinds(verify_checkpoint(several))
