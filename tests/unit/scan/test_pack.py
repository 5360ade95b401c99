"""A pack of signatures is used where it was made from these very files, and nowhere else."""

from __future__ import annotations

import os
import shutil

import pytest

from firstfault.signatures import library, pack
from firstfault.signatures.loader import HERE, read_folder, read_tables

DIGEST_OF = pack.digest_of


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    place = tmp_path / "signatures"
    shutil.copytree(HERE / "gpu", place / "gpu")
    shutil.copytree(HERE / "tables", place / "tables")
    return place


def read(place):
    return read_folder(place), read_tables(place)


def never(_place):
    raise AssertionError("the files were read again")


def test_a_pack_beside_the_files_is_used(folder):
    target = pack.write_pack(folder, read)
    assert target.name == "packed.bin"
    found = pack.load_pack(folder, never)
    assert (found.signatures, found.tables) == read(folder)


def test_without_one_the_cache_is_filled_and_used(folder):
    first = pack.load_pack(folder, read)
    assert pack.load_pack(folder, never) == first


@pytest.mark.parametrize("change", ["edit", "add", "remove", "rename"])
def test_any_change_of_the_files_makes_it_stale(folder, change):
    pack.write_pack(folder, read)
    file = folder / "gpu" / "out_of_memory.toml"
    if change == "edit":
        file.write_text(file.read_text().replace("depth = 62", "depth = 63"))
    elif change == "add":
        shutil.copy(file, folder / "gpu" / "another.toml")
    elif change == "remove":
        file.unlink()
    else:
        file.rename(folder / "gpu" / "other.toml")
    assert pack.load_pack(folder, read).signatures == read(folder)[0]


@pytest.fixture
def long_ago(folder, monkeypatch):
    """The folder as it is some time after its files were written: its digest is remembered."""
    monkeypatch.setattr(pack, "SETTLED", -3600.0)
    first = pack.load_pack(folder, read)
    monkeypatch.setattr(pack, "digest_of", never)
    return folder, first


def test_files_that_nobody_touched_are_not_read_for_their_digest(long_ago):
    folder, first = long_ago
    assert pack.load_pack(folder, never) == first


def test_an_edit_that_keeps_size_and_time_is_noticed(long_ago, monkeypatch):
    folder, _first = long_ago
    monkeypatch.setattr(pack, "digest_of", DIGEST_OF)
    file = folder / "gpu" / "out_of_memory.toml"
    before = file.stat()
    file.write_text(file.read_text().replace("depth = 62", "depth = 63"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size
    assert pack.load_pack(folder, read).signatures == read(folder)[0]


def test_files_that_were_just_written_are_read(folder, monkeypatch):
    first = pack.load_pack(folder, read)
    asked = []
    monkeypatch.setattr(pack, "digest_of", lambda place: asked.append(place) or first.digest)
    pack.load_pack(folder, never)
    assert asked == [folder]


def test_a_damaged_pack_is_ignored(folder):
    target = pack.write_pack(folder, read)
    target.write_bytes(target.read_bytes()[:-20])
    assert pack.load_pack(folder, read).signatures == read(folder)[0]


def test_the_library_is_the_same_with_and_without(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    fresh, cached = library.load_library(), library.load_library()
    assert fresh.signatures == cached.signatures == tuple(read_folder(HERE))
    assert fresh.tables == cached.tables
