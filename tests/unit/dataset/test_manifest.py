"""Shards, Lhotse manifests and lists with one fault each, and hostile ones; the truth is what was written."""

import gzip
import io
import json
import struct
import tarfile
import threading
import time

import pytest

from firstfault.dataset import files
from firstfault.dataset.files import File, Looker
from firstfault.dataset.manifest import Given, expanded, read_manifests
from firstfault.dataset.spread import of_shards
from firstfault.pipelines.check_data import DataOptions, check_data
from firstfault.pipelines.errors import PipelineError

JPEG = b"\xff\xd8\xff\xe0" + b"x" * 900 + b"\xff\xd9"


def shard(path, samples, cut=None):
    with tarfile.open(path, "w:gz" if path.name.endswith("gz") else "w") as tar:
        for name, content in samples:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    if cut is not None:
        path.write_bytes(path.read_bytes()[:cut])
    return str(path)


def good(number, count=10):
    return [(f"{number}-{i:03d}.{e}", c) for i in range(count) for e, c in (("jpg", JPEG), ("txt", b"a"))]


def checks(*paths, **given):
    found = read_manifests(paths, Given(**given))
    return {f.check: f for f in found.findings}


def test_good_shards_are_counted_and_nothing_is_said(tmp_path):
    paths = [shard(tmp_path / f"{i}.tar", good(i)) for i in range(4)]
    paths.append(shard(tmp_path / "4.tar.gz", good(4)))
    found = read_manifests(paths, Given(world=5))
    assert (found.kind, [f.items for f in found.files], found.findings, found.per_rank) == (
        "webdataset",
        [10] * 5,
        [],
        [10] * 5,
    )


@pytest.mark.parametrize(
    ("samples", "cut", "check"),
    [
        (good(0), 9000, "shard.truncated"),
        (good(0), 512 * 4 * 10, "shard.no_end"),
        ([], None, "shard.empty"),
        ([*good(0), ("0-000.jpg", JPEG), ("0-000.txt", b"a")], None, "sample.split"),
        ([("a.jpg", JPEG), ("a.jpg", JPEG)], None, "sample.file_twice"),
        ([*good(0, 20), ("z.jpg", JPEG)], None, "sample.incomplete"),
        ([("a.jpg", JPEG), ("a.txt", b"")], None, "sample.empty_file"),
        ([("a.jpg", JPEG[:-2])], None, "sample.damaged"),
        ([("a.png", b"<html>429</html>")], None, "sample.damaged"),
    ],
)
def test_what_is_wrong_with_a_shard_is_named(tmp_path, samples, cut, check):
    assert list(checks(shard(tmp_path / "0.tar", samples, cut))) == [check]


def test_a_header_that_was_changed_is_named_with_its_place(tmp_path):
    path = tmp_path / "0.tar"
    raw = bytearray((shard(path, good(0)), path.read_bytes())[1])
    raw[2560 + 3] ^= 0xFF
    path.write_bytes(raw)
    found = checks(str(path))["shard.damaged"]
    assert "2560" in found.what


def test_keys_of_two_shards_and_shards_of_a_range(tmp_path):
    shard(tmp_path / "s-000.tar", good(0))
    shard(tmp_path / "s-001.tar", good(0))
    found = checks(str(tmp_path / "s-{000..002}.tar"))
    assert found["sample.same_key"].count == 10
    assert found["shard.missing"].names == [str(tmp_path / "s-002.tar")]
    assert len(expanded(["a-{0..11}.tar"])) == 12
    assert expanded(["a-{0..999999999}.tar"]) == ["a-{0..999999999}.tar"]


def test_fewer_shards_than_ranks_stop_the_job_and_unequal_ones_are_to_look_at(tmp_path):
    paths = [shard(tmp_path / f"{i}.tar", good(i, 10 + i)) for i in range(2)]
    assert checks(*paths, world=2)["ranks.uneven"].state == "warn"
    assert checks(*paths, world=4)["ranks.uneven"].state == "fail"
    assert of_shards([1, None, 3], 2) == [4, None]


def test_a_header_that_lies_costs_nothing(tmp_path):
    """A long name of eight exabytes, and one that claims to be far larger than the file."""
    info = tarfile.TarInfo("a.jpg")
    block = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    for kind in (b"L", b"x", b"0"):
        block[156:157] = kind
        block[124:136] = b"\x80" + (1 << 62).to_bytes(11, "big")
        block[148:156] = b" " * 8
        block[148:156] = b"%06o\0 " % sum(block)
        (tmp_path / "l.tar").write_bytes(bytes(block) + b"\0" * 1024)
        begin = time.monotonic()
        assert "shard.truncated" in checks(str(tmp_path / "l.tar"))
        assert time.monotonic() - begin < 2


def wav(path, samples=16000, rate=16000, promised=None):
    size = 2 * (promised or samples)
    path.write_bytes(b"RIFF" + struct.pack("<I", 36 + size) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, rate, rate * 2, 2, 16) + b"data" + struct.pack("<I", size) + b"\0" * 2 * samples)  # fmt: skip


def cut(name="a", source="a.wav", **more):
    recording = {
        "id": name,
        "sources": [{"type": "file", "channels": [0], "source": source}],
        "sampling_rate": 16000,
        "num_samples": 16000,
        "duration": 1.0,
    }
    return {"id": name, "start": 0, "duration": 1.0, "channel": 0, "type": "MonoCut", "recording": recording, "supervisions": [speech(recording_id=name)], **more}  # fmt: skip


def speech(**more):
    return {"id": "s", "recording_id": "a", "start": 0.0, "duration": 1.0, "channel": 0, "text": "hello", **more}


def manifest(path, records):
    text = "".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return str(path)


def test_a_good_manifest_of_lhotse_raises_no_alarm(tmp_path):
    wav(tmp_path / "a.wav")
    mixed = {
        "id": "m",
        "type": "MixedCut",
        "tracks": [
            {"cut": cut("m1")},
            {"cut": {"id": "p", "type": "PaddingCut", "duration": 1.0, "sampling_rate": 16000}, "offset": 1.0},
        ],
    }
    found = read_manifests([manifest(tmp_path / "c.jsonl.gz", [cut("a"), cut("b"), mixed])], Given())
    assert (found.kind, found.findings, found.files[0].items) == ("lhotse_cuts", [], 3)
    recordings = manifest(tmp_path / "r.jsonl", [cut()["recording"]])
    supervisions = manifest(tmp_path / "s.jsonl", [speech()])
    assert [read_manifests([p], Given()).kind for p in (recordings, supervisions)] == [
        "lhotse_recordings",
        "lhotse_supervisions",
    ]
    assert checks(recordings) == checks(supervisions) == {}


def without(record, *names):
    return {k: v for k, v in record.items() if k not in names}


@pytest.mark.parametrize(
    ("records", "check"),
    [
        ([cut("a"), cut("a")], "item.same_id"),
        ([without(cut(), "id")], "item.no_id"),
        ([cut(duration=0, supervisions=[])], "item.duration"),
        ([cut(duration=float("nan"), supervisions=[])], "item.duration"),
        ([cut(start=0.5)], "cut.outside"),
        ([cut(recording={**cut()["recording"], "num_samples": 8000})], "recording.samples"),
        (
            [
                cut("a"),
                cut("b", recording={**cut()["recording"], "id": "b", "sampling_rate": 8000, "num_samples": 8000}),
            ],
            "recording.rates",
        ),
        ([cut(supervisions=[speech(start=3.0)])], "supervision.outside"),
        ([cut(supervisions=[speech(duration=0)])], "supervision.duration"),
        ([cut(supervisions=[speech(recording_id="z")])], "supervision.other_recording"),
        ([cut(supervisions=[speech(), speech()])], "supervision.same_id"),
        ([cut(supervisions=[speech(text=" ")])], "supervision.no_text"),
        ([cut(recording=None)], "cut.no_sound"),
        ([cut(source="gone.wav")], "file.missing"),
        ([cut(source="empty.wav")], "file.empty"),
        ([cut(source="short.wav")], "file.shorter"),
        ([cut(source="cut.wav")], "file.damaged"),
        ([cut(source="fast.wav")], "file.rate"),
        ([cut(), '{"id": "b", "sta'], "manifest.line"),
        ([cut(), {"id": "b", "start": [], "duration": 1, "recording": {"duration": 1}}], "item.unreadable"),
    ],
)
def test_what_is_wrong_with_a_manifest_of_lhotse_is_named(tmp_path, records, check):
    for name, more in (
        ("a", {}),
        ("short", {"samples": 8000}),
        ("cut", {"samples": 8000, "promised": 16000}),
        ("fast", {"rate": 44100, "samples": 44100}),
    ):
        wav(tmp_path / f"{name}.wav", **more)
    (tmp_path / "empty.wav").touch()
    found = checks(manifest(tmp_path / "c.jsonl", records))
    assert check in found
    assert set(found) - {check} <= {"file.rate"}, "nothing else is wrong with it"


def test_m4a_needs_another_program(tmp_path):
    (tmp_path / "a.m4a").write_bytes(b"\0\0\0\x20ftypM4A ")
    assert list(checks(manifest(tmp_path / "c.jsonl", [cut(source="a.m4a")]))) == ["recording.needs_ffmpeg"]


def test_a_packed_manifest_that_is_cut_off_is_named_with_its_line(tmp_path):
    path = tmp_path / "c.jsonl.gz"
    manifest(path, [cut(f"{i}", source=f"http://x.example/{i}") for i in range(2000)])
    path.write_bytes(path.read_bytes()[:-2000])
    found = read_manifests([str(path)], Given())
    one = next(f for f in found.findings if f.check == "manifest.cut")
    assert one.line > 1
    assert found.not_checked == ["Addresses and commands that give sound were not tried."]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("l.csv", "path,label\na.wav,1\nb.wav,2\n", {}),
        ("l.csv", 'label,audio_filepath,text\n1,a.wav,"two\nlines"\n2,b.wav,x\n', {}),
        ("l.tsv", "path\ttext\na.wav\tx, y\n", {}),
        ("l.txt", "a.wav\nb.wav\n", {}),
        ("train.txt", "a.wav 3\nb.wav 4\n", {}),
        ("wav.scp", "u1 a.wav\nu2 sox b.wav -t wav - |\n", {}),
        ("l.jsonl", '{"audio_filepath": "a.wav", "duration": 1}\n{"audio_filepath": "b.wav"}\n', {}),
        ("l.jsonl", '{"text": "no file at all"}\n{"text": "nor here"}\n', {}),
        (
            "l.csv",
            "path,label\na.wav,1\nz.wav,2\n,3\na.wav,4\n",
            {"file.missing": 1, "item.no_path": 1, "item.same_path": 1},
        ),
        (
            "l.jsonl",
            '{"id": "a", "path": "a.wav"}\n{"id": "a", "path": "b.wav"}\n[1]\n',
            {"item.same_id": 1, "manifest.line": 1},
        ),
        ("l.txt", "", {"manifest.unknown": 1}),
    ],
)
def test_lists_of_files(tmp_path, name, text, expected):
    for one in ("a", "b"):
        wav(tmp_path / f"{one}.wav")
    (tmp_path / name).write_text(text)
    assert {c: f.count for c, f in checks(str(tmp_path / name)).items()} == expected


def test_relative_paths_lie_below_the_manifest_the_working_folder_or_root(tmp_path, monkeypatch):
    for place in ("lists", "audio", "work"):
        (tmp_path / place).mkdir()
    wav(tmp_path / "audio" / "a.wav")
    (tmp_path / "lists" / "l.txt").write_text("a.wav\n")
    monkeypatch.chdir(tmp_path / "work")
    assert "file.missing" in checks(str(tmp_path / "lists" / "l.txt"))
    assert checks(str(tmp_path / "lists" / "l.txt"), root=str(tmp_path / "audio")) == {}
    monkeypatch.chdir(tmp_path / "audio")
    assert checks(str(tmp_path / "lists" / "l.txt")) == {}


def test_a_file_system_that_does_not_answer_costs_the_time_that_is_left(monkeypatch):
    answers = threading.Event()
    monkeypatch.setattr(files, "look", lambda file, *, contents: answers.wait())
    looker, before = Looker(time.monotonic() + 0.3, contents=True), threading.active_count()
    for number in range(100):
        looker.ask(File(f"/x/{number}", "", "m", 1))
    assert looker.take(last=True) == []
    assert looker.left == 100
    assert threading.active_count() > before
    answers.set()  # it comes back after all: nothing of ours stays
    until = time.monotonic() + 60
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert threading.active_count() == before


def test_no_thread_is_left_behind(tmp_path):
    wav(tmp_path / "a.wav")
    before = threading.active_count()
    looker = Looker(time.monotonic() + 300, contents=True)
    for number in range(100):
        looker.ask(File(str(tmp_path / f"{number}.wav"), "", "m", 1))
    assert len(looker.take(last=True)) == 100
    assert threading.active_count() == before


@pytest.mark.parametrize(
    "raw", [b"\x7fELF\0\0", b"\x1f\x8b\x08bad", b"\xff\xfe\0", b"[" * 200_000, b'{"id":' * 50_000, b"(\xb5/\xfdxxxx"]
)
def test_hostile_manifests_end_well(tmp_path, raw):
    (tmp_path / "x").write_bytes(raw)
    assert read_manifests([str(tmp_path / "x")], Given(seconds=5)) is not None


def test_the_whole_has_a_state_and_a_missing_one_is_wrong_use(tmp_path):
    wav(tmp_path / "a.wav")
    (tmp_path / "l.txt").write_text("a.wav\n")
    assert check_data([str(tmp_path / "l.txt")], DataOptions()).state == "ok"
    (tmp_path / "l.txt").write_text("b.wav\n")
    assert check_data([str(tmp_path / "l.txt")], DataOptions()).state == "fail"
    with pytest.raises(PipelineError):
        check_data([str(tmp_path / "nothing.jsonl")], DataOptions())


def test_files_are_held_against_the_digests_that_a_manifest_states(tmp_path):
    import hashlib

    for n in range(5):
        (tmp_path / f"{n}.bin").write_bytes(bytes([n]) * 100)
    (tmp_path / "4.bin").write_bytes(bytes([3]) * 100)
    rows = [{"path": f"{n}.bin", "sha256": hashlib.sha256(bytes([n]) * 100).hexdigest()} for n in range(4)]
    rows.append({"path": "4.bin", "sha256": rows[3]["sha256"].upper()})
    rows[1]["sha256"] = "sha256:" + rows[1]["sha256"]
    path = tmp_path / "m.jsonl"
    path.write_text("\n".join(json.dumps(r) for r in rows) + "\n")
    found = read_manifests([str(path)], Given(digests=True))
    assert [(f.check, f.state) for f in found.findings] == [("file.same_content", "warn")]
    # One byte of another file changes, where its first and last bytes do not.
    (tmp_path / "2.bin").write_bytes(b"\2" * 50 + b"\7" + b"\2" * 49)
    found = read_manifests([str(path)], Given(digests=True))
    assert sorted(f.check for f in found.findings) == ["file.digest", "file.same_content"]
    assert any("2.bin" in name for f in found.findings if f.check == "file.digest" for name in f.names)
    # Unasked nothing is read whole, and that is said.
    found = read_manifests([str(path)], Given())
    assert found.findings == []
    assert any("--digests" in text for text in found.not_checked)


@pytest.mark.parametrize(("name", "function"), [("MD5SUMS", "md5"), ("s.sha256", "sha256"), ("x.sha1", "sha1")])
def test_lists_of_checksum_tools_are_manifests(tmp_path, name, function):
    import hashlib

    for n in range(3):
        (tmp_path / f"set {n}.tar").write_bytes(b"shard %d" % n)
    lines = [f"{hashlib.new(function, b'shard %d' % n).hexdigest()} {' *'[n % 2]}set {n}.tar" for n in range(3)]
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n")
    assert read_manifests([str(path)], Given(digests=True, contents=False)).findings == []
    (tmp_path / "set 1.tar").write_bytes(b"shard X")
    (found,) = read_manifests([str(path)], Given(digests=True, contents=False)).findings
    assert (found.check, found.state) == ("file.digest", "fail")
