"""The archive of a recorder's folder: what a diagnosis says of it is what it says of the folder."""

import tarfile

import pytest
from box_folder import Box
from click.testing import CliRunner

from firstfault.cli.collect import command
from firstfault.collect import boxes
from firstfault.collect.boxes import pack
from firstfault.pipelines.diagnose import diagnose
from firstfault.recorder import format as layout


@pytest.fixture
def folder(tmp_path):
    box = Box(tmp_path / "box", world=8)
    box.hung({5}, phase="data", item={"what": "/home/ada/set/shard-17.tar", "for_s": 300.0, "batch": 8})
    (box.folder / "node-00" / "rank-00000.0.4000.oom-1.memory.pickle").write_bytes(b"\x80\x04/home/ada/x.")
    (box.folder / "node-00" / "link.txt").symlink_to("/etc/hostname")
    return tmp_path / "box"


def test_the_archive_says_what_the_folder_says(tmp_path, folder):
    packed = pack(folder, tmp_path / "a.tar.gz")
    one, two = diagnose([folder]).verdict, diagnose([tmp_path / "a.tar.gz"]).verdict
    assert packed.files == 8 + 2
    assert (two.category, two.strength, two.culprits.ranks) == (one.category, one.strength, one.culprits.ranks)
    assert two.culprits.ranks == [5]


def test_names_become_pseudonyms_and_what_cannot_is_left_out(tmp_path, folder):
    packed = pack(folder, tmp_path / "a.tar.gz")
    with tarfile.open(tmp_path / "a.tar.gz") as archive:
        content = b"".join(archive.extractfile(m).read() for m in archive.getmembers())
        names = " ".join(archive.getnames())
        assert all(m.isfile() and not m.uname for m in archive.getmembers())
    for name in ("node-00", "node-01", "ada", tmp_path.name):
        assert name.encode() not in content
        assert name not in names
    assert [p.endswith(layout.MEMORY) for p in packed.left_out] == [True]


def test_raw_keeps_names_and_snapshots(tmp_path, folder):
    packed = pack(folder, tmp_path / "a.tar.gz", raw=True)
    assert packed.left_out == ()
    with tarfile.open(tmp_path / "a.tar.gz") as archive:
        assert any("node-01" in n for n in archive.getnames())
        assert not any("link" in n for n in archive.getnames())


def test_nothing_is_overwritten_and_nothing_is_left_half_done(tmp_path, folder):
    (tmp_path / "a.tar.gz").write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        pack(folder, tmp_path / "a.tar.gz")
    assert (tmp_path / "a.tar.gz").read_bytes() == b"mine"
    with pytest.raises(FileNotFoundError):
        pack(tmp_path / "nothing", tmp_path / "b.tar.gz")
    assert not list(tmp_path.glob(".*"))


def test_the_command_says_what_it_packed(tmp_path, folder):
    done = CliRunner().invoke(
        command, ["--recorder", str(folder), "-o", str(tmp_path / "c.tar.gz")], standalone_mode=False
    )
    assert done.return_value == 0
    assert "10 files" in done.output


def test_two_that_collect_to_one_place_do_not_take_away_each_others_archive(tmp_path, folder, monkeypatch):
    place = tmp_path / "a.tar.gz"
    halves = []
    learn = boxes._people

    def meanwhile(*given):
        if not halves:
            halves.append("another one")
            pack(folder, place)
            halves.append(place.read_bytes())
        return learn(*given)

    monkeypatch.setattr(boxes, "_people", meanwhile)
    with pytest.raises(FileExistsError):
        pack(folder, place)
    assert place.read_bytes() == halves[1]
    assert sorted(f.name for f in tmp_path.iterdir()) == ["a.tar.gz", "box"]


def test_a_half_archive_that_a_killed_one_left_stops_nobody(tmp_path, folder):
    (tmp_path / ".a.tar.gz.new").write_bytes(b"half")
    assert pack(folder, tmp_path / "a.tar.gz").files == 8 + 2


def test_a_file_that_goes_while_the_job_runs_stops_nothing(tmp_path, folder, monkeypatch):
    gone = folder / "run" / "node-00" / "gone.jsonl"
    names = boxes._files
    monkeypatch.setattr(boxes, "_files", lambda place: [*names(place), gone])
    assert pack(folder, tmp_path / "a.tar.gz").files == 8 + 2
