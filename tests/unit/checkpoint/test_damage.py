"""Real checkpoints are whole; each kind of damage done to one is found and named, and nothing else is."""

import contextlib
import json
import os
import random
import shutil
import struct
from pathlib import Path

import pytest

from firstfault.pipelines.checkpoint import compare_checkpoints, verify_checkpoint
from firstfault.pipelines.errors import PipelineError

WHOLE = [
    ("dcp2-whole", 6, 2, {"weights", "optimizer", "scheduler", "trainer", "rng"}),
    ("dcp2-resumed", 6, 2, {"weights", "optimizer", "scheduler", "trainer", "rng"}),
    ("dcp4-recut", 6, None, {"weights", "optimizer", "scheduler", "trainer"}),
    ("dtensor4", 6, 4, {"weights", "trainer"}),
    ("ds2", 4, 2, {"weights", "optimizer", "scheduler", "trainer", "data", "settings"}),
    ("ds3", 4, 2, {"weights", "optimizer", "scheduler", "trainer", "data", "settings"}),
    ("ds2/global_step2", 2, 2, {"weights", "optimizer", "scheduler", "trainer", "data", "settings"}),
    ("formats/hf-sharded", None, None, {"weights"}),
    ("formats/hf-bin", None, None, {"weights"}),
    ("formats/accelerate", None, 1, {"weights", "optimizer", "scheduler", "rng"}),
    ("formats/whole.pt", 3, None, {"weights", "optimizer", "scheduler", "trainer", "rng"}),
    ("formats/legacy.pt", 3, None, {"weights", "optimizer", "scheduler", "trainer", "rng"}),
    ("formats/nocrc.pt", 3, None, {"weights", "optimizer", "scheduler", "trainer", "rng"}),
    ("formats/lightning.ckpt", 2, None, {"weights", "optimizer", "scheduler", "trainer", "settings"}),
    ("formats/bf16.safetensors", None, None, {"weights"}),
    ("layouts/megatron", 200, 8, {"weights", "optimizer", "scheduler", "trainer", "rng", "settings"}),
    ("layouts/megatron-dist", 300, None, {"weights", "trainer", "settings"}),
    ("layouts/trainer", 100, 2, {"weights", "optimizer", "scheduler", "trainer", "rng", "settings"}),
]


@pytest.mark.parametrize(("name", "step", "world", "parts"), WHOLE)
def test_a_whole_checkpoint_is_complete(real, name, step, world, parts):
    found = verify_checkpoint(real(name))
    assert found.state == "complete"
    assert found.problems == []
    assert (found.step, found.world_size) == (step, world)
    assert {row.part for row in found.parts} == parts
    assert all(shard.digest for shard in found.shards)
    assert found.digest


def cut(file, keep=0.6):
    raw = file.read_bytes()
    file.write_bytes(raw[: int(len(raw) * keep)])


def flip(file, at=-1):
    raw = bytearray(file.read_bytes())
    raw[at] ^= 0x40
    file.write_bytes(raw)


def data_of(file):
    """First byte of the first storage of a zip of torch."""
    raw = file.read_bytes()
    at = raw.find(b"/data/0")
    return at + 7 + struct.unpack("<H", raw[at - raw[:at][::-1].find(b"\x04\x03KP") - 4 :][28:30])[0]


def stored(file, number=1.5):
    """Places of a float32 in a file that has it once or more."""
    return file.read_bytes().find(struct.pack("<f", number))


def zero(file, start=0.0, end=1.0):
    raw = bytearray(file.read_bytes())
    low, high = int(len(raw) * start), int(len(raw) * end)
    raw[low:high] = bytes(high - low)
    file.write_bytes(raw)


def poison(file, pattern):
    """Puts a number that is none into the last element of a file of safetensors whose last tensor is float32."""
    raw = file.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8 : 8 + length])
    entry = next(e for n, e in header.items() if n != "__metadata__" and e["dtype"] == "F32")
    at = 8 + length + entry["data_offsets"][0]
    file.write_bytes(raw[:at] + pattern + raw[at + 4 :])


def edit_header(file, change):
    raw = file.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8 : 8 + length])
    change(header)
    new = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(new)) + new + raw[8 + length :])


def edit_json(file, change):
    held = json.loads(file.read_text())
    change(held)
    file.write_text(json.dumps(held))


def other_step(root):
    shutil.copy(
        root / "global_step2/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt",
        root / "global_step4/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt",
    )


def later(root):
    for name, when in (("__0_0.distcp", 1000), ("__1_0.distcp", 2000), (".metadata", 1010)):
        os.utime(root / name, (when, when))


def grown(root):
    """The files of a job of four ranks beside those of two."""
    for rank in (2, 3):
        shutil.copy(
            root / "global_step4/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt",
            root / f"global_step4/bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt",
        )


def swap_in_index(root):
    def change(held):
        names = sorted(held["weight_map"])
        first = held["weight_map"][names[0]]
        other = next(f for f in held["weight_map"].values() if f != first)
        held["weight_map"][names[0]] = other

    edit_json(root / "model.safetensors.index.json", change)


def only_in_index(root):
    def change(held):
        held["weight_map"]["9.weight"] = "model-00001-of-00003.safetensors"

    edit_json(root / "model.safetensors.index.json", change)


def shape(header):
    next(e for n, e in header.items() if n != "__metadata__")["shape"].append(3)


def short(root):
    file = root / "model-00001-of-00003.safetensors"
    file.write_bytes(file.read_bytes()[:-8])


DAMAGE = [
    # name, checkpoint, what is done to it, kind, file that is named, state
    ("a shard of DCP is gone", "dcp2-whole", lambda d: (d / "__1_0.distcp").unlink(), "missing_shard", "__1_0.distcp"),
    ("a shard of DCP is cut", "dcp2-whole", lambda d: cut(d / "__1_0.distcp"), "truncated", "__1_0.distcp"),
    ("a shard of DCP is empty", "dcp2-whole", lambda d: cut(d / "__0_0.distcp", 0), "empty_file", "__0_0.distcp"),
    ("a shard of DCP is zeroed", "dcp2-whole", lambda d: zero(d / "__0_0.distcp"), "zeroed_file", "__0_0.distcp"),
    ("a shard of DCP is of another save", "dcp4-recut", lambda d: shutil.copy(d / "__2_0.distcp", d / "__3_0.distcp"), "truncated|wrong_size|unreadable|checksum|missing_tensor", "__3_0.distcp"),
    ("DCP has no metadata", "dcp2-whole", lambda d: (d / ".metadata").unlink(), "missing_metadata", ".metadata"),
    ("DCP was writing its metadata", "dcp2-whole", lambda d: (d / ".metadata").rename(d / ".metadata.tmp"), "unfinished_save", ".metadata.tmp"),
    ("DCP's metadata is cut", "dcp2-whole", lambda d: cut(d / ".metadata"), "truncated", ".metadata"),
    ("DCP's metadata is empty", "dcp2-whole", lambda d: cut(d / ".metadata", 0), "empty_file", ".metadata"),
    ("a rank's random state is gone", "dcp2-whole", lambda d: (d / "rng_state_1.pth").unlink(), "missing_part", "rng_state_1.pth"),
    ("a byte of a tensor flipped", "formats/whole.pt", lambda f: flip(f, data_of(f)), "checksum", "whole.pt"),
    ("a file of torch is cut", "formats/whole.pt", cut, "truncated", "whole.pt"),
    ("a file of torch ends in zeros", "formats/whole.pt", lambda f: zero(f, 0.5), "zeroed_file", "whole.pt"),
    ("an old file of torch is cut", "formats/legacy.pt", cut, "truncated", "legacy.pt"),
    ("a file of torch is text", "formats/whole.pt", lambda f: f.write_text("<html>404</html>"), "unreadable", "whole.pt"),
    ("a safetensors file is cut", "formats/hf-sharded", short, "truncated", "model-00001-of-00003.safetensors"),
    ("a safetensors file has a tail", "formats/bf16.safetensors", lambda f: f.write_bytes(f.read_bytes() + b"\1" * 9), "wrong_size", "bf16.safetensors"),
    ("a safetensors header is zeroed", "formats/bf16.safetensors", lambda f: zero(f, 0, 0.9), "zeroed_file", "bf16.safetensors"),
    ("a header gives a wrong shape", "formats/bf16.safetensors", lambda f: edit_header(f, shape), "wrong_size", "bf16.safetensors"),
    ("NaN in the weights", "layouts/trainer/checkpoint-100", lambda d: poison(d / "model.safetensors", b"\0\0\xc0\x7f"), "nan", "model.safetensors"),
    ("infinity in the weights", "layouts/trainer/checkpoint-100", lambda d: poison(d / "model.safetensors", b"\0\0\x80\x7f"), "infinite", "model.safetensors"),
    ("a numbered file is gone", "formats/hf-sharded", lambda d: (d / "model-00002-of-00003.safetensors").unlink(), "missing_shard", "model-00002-of-00003.safetensors"),
    ("a numbered file is gone, with the index", "formats/hf-bin", lambda d: [(d / "pytorch_model-00002-of-00003.bin").unlink(), (d / "pytorch_model.bin.index.json").unlink()], "missing_shard", "pytorch_model-00002-of-00003.bin"),
    ("the index names another file", "formats/hf-sharded", swap_in_index, "misplaced_tensor", "model.safetensors.index.json"),
    ("the index names a tensor that is not there", "formats/hf-sharded", only_in_index, "missing_tensor", "model-00001-of-00003.safetensors"),
    ("two saves of different numbers", "formats/hf-sharded", lambda d: shutil.copy(d / "model-00001-of-00003.safetensors", d / "model-00001-of-00001.safetensors"), "extra_shard", "model-*.safetensors"),
    ("the index is cut", "formats/hf-sharded", lambda d: cut(d / "model.safetensors.index.json"), "truncated", "model.safetensors.index.json"),
    ("latest names what is not there", "ds2", lambda d: (d / "latest").write_text("global_step6"), "marker_dangling", "latest"),
    ("latest is empty", "ds2", lambda d: (d / "latest").write_text(""), "marker_unreadable", "latest"),
    ("an optimizer's shard is gone", "ds2", lambda d: (d / "global_step4/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt").unlink(), "missing_shard", "global_step4/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"),
    ("all optimizer's shards are gone", "ds2", lambda d: [f.unlink() for f in d.glob("global_step4/*optim*")], "missing_shard|missing_part", "optim_states.pt"),
    ("the model's file is gone", "ds2", lambda d: (d / "global_step4/mp_rank_00_model_states.pt").unlink(), "missing_shard", "global_step4/mp_rank_00_model_states.pt"),
    ("a rank's weights are gone under ZeRO 3", "ds3", lambda d: (d / "global_step4/zero_pp_rank_1_mp_rank_00_model_states.pt").unlink(), "missing_shard", "global_step4/zero_pp_rank_1_mp_rank_00_model_states.pt"),
    ("an optimizer's shard of another step", "ds2", other_step, "mixed_steps", "global_step4/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"),
    ("a folder of another step's name", "ds2", lambda d: [shutil.rmtree(d / "global_step4"), (d / "global_step2").rename(d / "global_step4")], "mixed_steps", "global_step4"),
    ("shards of a larger job", "ds2", grown, "world_size", "global_step4/bf16_zero_pp_rank_2_mp_rank_00_optim_states.pt"),
    ("Megatron's tracker names what is not there", "layouts/megatron", lambda d: (d / "latest_checkpointed_iteration.txt").write_text("300"), "marker_dangling", "latest_checkpointed_iteration.txt"),
    ("a rank's folder of Megatron is gone", "layouts/megatron", lambda d: shutil.rmtree(d / "iter_0000200/mp_rank_01_001"), "missing_shard", "iter_0000200/mp_rank_01_001"),
    ("a rank of another iteration", "layouts/megatron", lambda d: shutil.copytree(d / "iter_0000100/mp_rank_01_000", d / "iter_0000200/mp_rank_01_000", dirs_exist_ok=True), "mixed_steps", "iter_0000200/mp_rank_01_000/model_optim_rng.pt"),
    ("a rank beyond those of Megatron", "layouts/megatron", lambda d: shutil.copytree(d / "iter_0000200/mp_rank_01_000", d / "iter_0000200/mp_rank_02_000"), "world_size", "iter_0000200/mp_rank_02_000"),
    ("torch_dist without its last file", "layouts/megatron-dist", lambda d: (d / "iter_0000300/metadata.json").unlink(), "missing_metadata", "iter_0000300/metadata.json"),
    ("torch_dist whose last file is cut", "layouts/megatron-dist", lambda d: cut(d / "iter_0000300/metadata.json"), "truncated", "iter_0000300/metadata.json"),
    ("torch_dist without its common file", "layouts/megatron-dist", lambda d: (d / "iter_0000300/common.pt").unlink(), "missing_part", "iter_0000300/common.pt"),
    ("torch_dist of another iteration", "layouts/megatron-dist", lambda d: [(d / "iter_0000300").rename(d / "iter_0000400"), (d / "latest_checkpointed_iteration.txt").write_text("400")], "mixed_steps", "iter_0000400"),
    ("the Trainer's state is gone", "layouts/trainer/checkpoint-100", lambda d: (d / "trainer_state.json").unlink(), "missing_part", "trainer_state.json"),
    ("the Trainer's state is of another step", "layouts/trainer", lambda d: shutil.copy(d / "checkpoint-50/trainer_state.json", d / "checkpoint-100/trainer_state.json"), "mixed_steps", "checkpoint-100/trainer_state.json"),
    ("the Trainer's scheduler is gone", "layouts/trainer/checkpoint-100", lambda d: (d / "scheduler.pt").unlink(), "missing_part", "scheduler.pt"),
    ("the Trainer's weights are gone", "layouts/trainer/checkpoint-100", lambda d: (d / "model.safetensors").unlink(), "missing_part", ""),
    ("one of four ranks' files is gone", "dtensor4", lambda d: (d / "model_world_size_4_rank_3.pt").unlink(), "missing_shard", "model_world_size_4_rank_3.pt"),
]  # fmt: skip


@pytest.mark.parametrize(("base", "harm", "kind", "file"), [d[1:] for d in DAMAGE], ids=[d[0] for d in DAMAGE])
def test_damage_is_found_and_named(real, base, harm, kind, file):
    place = real(base)
    harm(place)
    found = verify_checkpoint(place)
    assert found.state == "damaged"
    assert any(p.kind in kind.split("|") and p.file.endswith(file) for p in found.problems), found.problems
    assert (file.rpartition("/")[2] or "weights") in found.summary or len(found.problems) > 1


def test_at_least_fifteen_kinds_of_damage_are_done():
    assert len({d[3] for d in DAMAGE if "|" not in d[3]}) >= 15


def test_what_leaves_it_open_is_not_told_as_damage(real):
    place = real("dcp2-whole")
    later(place)
    found = verify_checkpoint(place)
    assert found.state == "unknown"
    assert [(p.kind, p.weight, p.file) for p in found.problems] == [("mixed_steps", "warning", "__1_0.distcp")]


def test_copies_that_keep_no_times_are_no_second_save(real):
    place = real("dcp2-whole")
    for when, name in ((1000, ".metadata"), (2000, "__0_0.distcp"), (3000, "__1_0.distcp")):
        os.utime(place / name, (when, when))
    assert verify_checkpoint(place).state == "complete"


def test_a_save_that_did_not_end_beside_a_whole_one(real):
    root = real("layouts/trainer")
    shutil.copytree(root / "checkpoint-100", root / "tmp-checkpoint-150")
    (root / "tmp-checkpoint-150/optimizer.pt").unlink()
    found = verify_checkpoint(root)
    assert (found.state, found.verified) == ("complete", "checkpoint-100")
    assert [(p.kind, p.weight, p.file) for p in found.problems] == [
        ("unfinished_save", "warning", "tmp-checkpoint-150")
    ]


def test_a_marker_behind_is_told_and_followed(real):
    root = real("ds2")
    (root / "latest").write_text("global_step2")
    found = verify_checkpoint(root)
    assert (found.state, found.verified, found.step) == ("complete", "global_step2", 2)
    assert [p.kind for p in found.problems] == ["marker_behind"]
    assert found.others == ["global_step4"]


def test_a_tag_without_latest_is_told(real):
    root = real("ds2")
    (root / "latest").unlink()
    found = verify_checkpoint(root)
    assert (found.state, found.verified) == ("complete", "global_step4")
    assert {p.kind for p in found.problems} == {"marker_missing"}


def test_deepspeed_inside_the_trainers_folder(real):
    root = real("layouts/trainer") / "checkpoint-100"
    for name in ("optimizer.pt", "scheduler.pt", "model.safetensors"):
        (root / name).unlink()
    shutil.copytree(real("ds2") / "global_step4", root / "global_step100")
    (root / "latest").write_text("global_step100")
    found = verify_checkpoint(root)
    # The tag is named after a step that its files do not state.
    assert {p.kind for p in found.problems} == {"mixed_steps"}
    assert {"deepspeed", "huggingface-trainer"} <= set(found.layouts)
    (root / "latest").write_text("global_step50")
    assert "marker_dangling" in {p.kind for p in verify_checkpoint(root).problems}
    assert "marker_dangling" in {p.kind for p in verify_checkpoint(root.parent).problems}


def test_files_of_other_kinds_are_no_damage(real):
    root = real("layouts/trainer/checkpoint-100")
    (root / "vocab.bin").write_bytes(b"\1\2\3\4" * 9)
    (root / "samples-000.tar").write_bytes(b"a.json" + bytes(506))
    (root / "tokenizer.json").write_text("{")
    found = verify_checkpoint(root)
    assert (found.state, found.problems) == ("complete", [])
    assert any("2 files that are of no kind" in text for text in found.not_checked)


def test_tensors_of_one_name_in_two_folders_are_both_read(real):
    root = real("layouts/trainer/checkpoint-100")
    (root / "ema").mkdir()
    shutil.copy(root / "model.safetensors", root / "ema" / "model.safetensors")
    poison(root / "ema" / "model.safetensors", b"\0\0\xc0\x7f")
    found = verify_checkpoint(root)
    assert [(p.kind, p.file) for p in found.problems] == [("nan", "ema/model.safetensors")]
    assert {row.part: row.tensors for row in found.parts}["weights"] == 8


def test_files_that_are_each_a_checkpoint_are_of_no_mixed_step(real, tmp_path):
    first, second = real("layouts/trainer/checkpoint-50"), real("formats/whole.pt")
    place = tmp_path / "several"
    place.mkdir()
    shutil.copy(second, place / "epoch=1-step=3.pt")
    shutil.copy(real("formats/lightning.ckpt"), place / "epoch=0-step=2.ckpt")
    shutil.copy(first / "optimizer.pt", place / "optimizer.pt")
    found = verify_checkpoint(place)
    assert (found.state, found.problems, found.step) == ("complete", [], None)


def test_one_model_in_two_formats_in_one_folder(real):
    place = real("formats/hf-sharded")
    for file in real("formats/hf-bin").iterdir():
        shutil.copy(file, place)
    found = verify_checkpoint(place)
    assert (found.state, found.problems) == ("complete", [])
    assert len(found.shards) == 6


def test_a_folder_of_links_is_followed(real, tmp_path):
    # Caches of hubs hold links into a folder of blobs.
    snapshot = tmp_path / "snapshots" / "main"
    snapshot.mkdir(parents=True)
    for file in real("formats/hf-sharded").iterdir():
        (snapshot / file.name).symlink_to(file)
    assert verify_checkpoint(snapshot).state == "complete"
    real("formats/hf-sharded").joinpath("model-00002-of-00003.safetensors").unlink()
    found = verify_checkpoint(snapshot)
    assert "missing_shard" in {p.kind for p in found.problems}


def test_the_world_that_was_asked_for(real):
    place = real("ds2")
    assert verify_checkpoint(place, world_size=2).state == "complete"
    found = verify_checkpoint(place, world_size=4)
    assert [p.kind for p in found.problems] == ["world_size"]


def test_quick_leaves_bytes_unread_and_says_so(real):
    file = real("formats/whole.pt")
    flip(file, data_of(file))
    found = verify_checkpoint(file, read=False)
    assert found.state == "complete"
    assert not found.read
    assert found.digest is None
    assert any("--quick" in text for text in found.not_checked)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_bytes_change_nothing_is_raised(real, seed):
    rng = random.Random(seed)
    place = real(
        rng.choice(["dcp2-whole", "dcp4-recut", "dtensor4", "ds2", "ds3", "layouts/trainer", "formats/hf-bin"])
    )
    file = rng.choice(sorted(f for f in place.rglob("*") if f.is_file()))
    raw = bytearray(file.read_bytes())
    for _ in range(20):
        raw[rng.randrange(len(raw))] = rng.randrange(256)
    file.write_bytes(raw)
    found = verify_checkpoint(place)
    assert found.state in {"complete", "damaged", "unknown"}
    # Where nothing is left to read, that is said in the one way that there is.
    with contextlib.suppress(PipelineError):
        compare_checkpoints(place, place)


@pytest.mark.parametrize("name", ["dcp2-whole", "ds3", "formats/hf-sharded", "layouts/megatron"])
def test_cut_anywhere_no_file_raises_and_none_stays_complete(real, name):
    place = real(name)
    files = sorted(f for f in Path(place).rglob("*") if f.is_file() and f.stat().st_size > 500)
    for file in files[:6]:
        raw = file.read_bytes()
        for keep in (0, 1, 7, 9, 64, len(raw) // 3, len(raw) // 2, len(raw) - 1):
            file.write_bytes(raw[:keep])
            found = verify_checkpoint(place)
            if "global_step2" not in str(file) and "iter_0000100" not in str(file):
                assert found.state == "damaged", (file.name, keep)
        file.write_bytes(raw)


LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        ("model.safetensors", LFS, "Git LFS"),
        ("model.pt", LFS, "Git LFS"),
        ("pytorch_model.bin", "<!DOCTYPE html>\n<html><body>401 Unauthorized</body></html>\n" * 20, "HTML"),
        ("model.safetensors", "<html><head><title>Sign in</title></head></html>", "HTML"),
    ],
)
def test_a_file_that_was_never_fetched_is_told_as_that(tmp_path, name, text, word):
    (tmp_path / name).write_text(text)
    found = verify_checkpoint(tmp_path)
    assert found.state == "damaged"
    assert [(p.kind, p.file, word in p.what, p.fix != "") for p in found.problems] == [("unreadable", name, True, True)]


def test_fewer_ranks_than_were_asked_for_leave_it_open(real):
    # A rank that holds nothing of its own writes no file: whether all took part does not show.
    place = real("dcp4-recut")
    assert verify_checkpoint(place, world_size=4).state == "complete"
    found = verify_checkpoint(place, world_size=8)
    assert (found.state, [(p.kind, p.weight) for p in found.problems]) == ("unknown", [("world_size", "warning")])
    file = real("formats/whole.pt")
    assert any("number of ranks" in text for text in verify_checkpoint(file, world_size=4).not_checked)
