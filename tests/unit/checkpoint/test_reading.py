"""NaN and infinity in every type of elements, blocks, pieces that are no plain stretch, and memory that does not grow."""

import json
import pickle
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from firstfault.checkpoint import reading
from firstfault.checkpoint.dtypes import SIZES, Count, count_nonfinite
from firstfault.checkpoint.folder import natural
from firstfault.checkpoint.verify import open_checkpoint, report

BITS = [
    # type, finite numbers, NaN, infinity, as unsigned integers
    ("float32", [0, 0x3F800000, 0x80000000, 0x7F7FFFFF], [0x7FC00000, 0xFF800001], [0x7F800000, 0xFF800000]),
    ("float64", [0, 0x3FF0000000000000], [0x7FF8000000000000], [0x7FF0000000000000]),
    ("float16", [0, 0x3C00, 0x7BFF], [0x7E00, 0xFC01], [0x7C00, 0xFC00]),
    ("bfloat16", [0, 0x3F80, 0x7F7F], [0x7FC0, 0xFFFF], [0x7F80, 0xFF80]),
    ("float8_e5m2", [0, 0x3C, 0x7B], [0x7D, 0xFF], [0x7C, 0xFC]),
    ("float8_e4m3fn", [0, 0x7E, 0xFE], [0x7F, 0xFF], []),
    ("float8_e4m3fnuz", [0, 0x7F, 0xFF], [0x80], []),
    ("float8_e8m0fnu", [0, 0xFE], [0xFF], []),
    ("int64", [0, 0x7FF8000000000000], [], []),
    ("uint8", [0, 0x7F, 0xFF], [], []),
]


@pytest.mark.parametrize(("dtype", "finite", "nan", "inf"), BITS)
def test_what_is_no_finite_number_is_counted(dtype, finite, nan, inf):
    kind = f"<u{SIZES[dtype]}"
    raw = np.array([*finite, *nan, *inf, *nan], kind).view("u1")
    count = Count()
    count_nonfinite(raw, dtype, count)
    assert (count.nan, count.inf) == (2 * len(nan), len(inf))


def write(folder, rows, columns=64):
    header = {"w": {"dtype": "F32", "shape": [rows, columns], "data_offsets": [0, rows * columns * 4]}}
    raw = json.dumps(header).encode()
    numbers = np.arange(rows * columns, dtype="<f4")
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(raw)) + raw + numbers.tobytes())


def test_the_digest_does_not_depend_on_the_block(tmp_path, monkeypatch):
    write(tmp_path, 100)
    whole = report(open_checkpoint(tmp_path), "x")
    monkeypatch.setattr(reading, "BLOCK", 48)
    again = report(open_checkpoint(tmp_path), "x")
    assert whole.shards == again.shards
    assert whole.digest == again.digest is not None


def test_memory_does_not_grow_with_the_tensor(tmp_path, monkeypatch):
    write(tmp_path, 64_000)  # 16 MiB
    monkeypatch.setattr(reading, "BLOCK", 64 << 10)
    tracemalloc.start()
    open_checkpoint(tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


def test_a_transposed_tensor_has_the_digest_of_its_elements_in_order(real):
    # `tied` was saved as the transpose of `0.weight`, in the same storage.
    opened = open_checkpoint(real("formats/whole.pt"))
    content = opened.unit.content
    tied, weight = content.tensors["weights", "tied"], content.tensors["weights", "0.weight"]
    assert (tied.shape, weight.shape) == ((6, 10), (10, 6))
    assert not tied.pieces[0].contiguous
    piece = weight.pieces[0]
    with opened.folder.path("whole.pt").open("rb") as file:
        numbers = reading.elements(file, "float32", piece)
        turned = reading.elements(file, "float32", tied.pieces[0])
    assert (turned == numbers.T).all()
    assert opened.reading.pieces["weights", "tied"] != opened.reading.pieces["weights", "0.weight"]


def test_two_comes_before_ten():
    names = ["r10/a", "r2/a", "a", "r2/b", "__10_0.distcp", "__9_0.distcp"]
    assert sorted(names, key=natural)[-4:] == ["a", "r2/a", "r2/b", "r10/a"]
    assert sorted(names, key=natural)[:2] == ["__9_0.distcp", "__10_0.distcp"]


def entry(first, last, kind="U8"):
    return {"dtype": kind, "shape": [last - first], "data_offsets": [first, last]}


SPANS = [
    # What safetensors takes: each tensor begins where the one before it ends, in whatever order the header names them.
    ({"b": entry(4, 12), "a": entry(0, 4)}, set()),
    ({"a": entry(0, 12), "none": entry(12, 12)}, set()),
    # A type of a later version has its place all the same.
    ({"a": entry(0, 4), "b": {"dtype": "F4", "shape": [16], "data_offsets": [4, 12]}}, set()),
    ({"a": entry(0, 8), "b": entry(4, 12)}, {"layout"}),
    ({"a": entry(0, 4), "b": entry(8, 12)}, {"layout"}),
    ({"a": entry(4, 12)}, {"layout"}),
    ({"a": entry(0, 11), "b": {"dtype": "U8", "shape": [True], "data_offsets": [11, 12]}}, {"layout"}),
]


@pytest.mark.parametrize(("header", "kinds"), SPANS)
def test_tensors_of_safetensors_follow_one_another(tmp_path, header, kinds):
    raw = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(raw)) + raw + bytes(range(1, 13)))
    found = report(open_checkpoint(tmp_path), "x")
    assert {p.kind for p in found.problems if p.weight == "damage"} == kinds
    assert (found.state == "complete") == (not kinds)


def test_the_program_of_torchscript_is_compressed_and_no_damage(tmp_path):
    with zipfile.ZipFile(tmp_path / "model.pt", "w") as archive:
        archive.writestr("m/data.pkl", pickle.dumps({"epoch": 1}, 2))
        archive.writestr("m/code/__torch__/linear.py", "class Linear: ...\n" * 9, zipfile.ZIP_DEFLATED)
    assert report(open_checkpoint(tmp_path), "x").problems == []


def test_a_checkpoint_below_the_given_folder_is_read_once(tmp_path):
    place = tmp_path / "checkpoint-5"
    place.mkdir()
    raw = json.dumps({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    numbers = np.array([1, np.nan, np.nan, np.nan], "<f4")
    (place / "model.safetensors").write_bytes(struct.pack("<Q", len(raw)) + raw + numbers.tobytes())
    below, itself = report(open_checkpoint(tmp_path), "x"), report(open_checkpoint(place), "x")
    for found in (below, itself):
        assert [s.tensors for s in found.shards] == [1]
        assert [p.what.partition(" elements")[0] for p in found.problems if p.kind == "nan"] == ["3"]
    assert below.parts[0].tensors == itself.parts[0].tensors == 1
    assert below.digest == itself.digest
