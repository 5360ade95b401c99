"""The cache of compiled databases: private, and never a reason to fail or to trust what is odd."""

from __future__ import annotations

import os

import pytest

from firstfault.scan import cache, engines
from firstfault.scan.engines import make_engine
from firstfault.signatures.library import load_library

LIBRARY = load_library()


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "firstfault"


def test_what_was_saved_is_loaded_and_private(home):
    cache.save("a.db", b"body")
    assert cache.load("a.db") == b"body"
    assert home.stat().st_mode & 0o777 == 0o700
    assert (home / "a.db").stat().st_mode & 0o777 == 0o600
    assert [f.name for f in home.iterdir()] == ["a.db"]


def test_a_changed_file_is_ignored(home):
    cache.save("a.db", b"body")
    (home / "a.db").write_bytes((home / "a.db").read_bytes()[:-1] + b"X")
    assert cache.load("a.db") is None


@pytest.mark.parametrize("what", ["folder", "file"])
def test_what_others_may_write_is_ignored(home, what):
    cache.save("a.db", b"body")
    (home if what == "folder" else home / "a.db").chmod(0o777)
    assert cache.load("a.db") is None


def test_links_are_ignored(home, tmp_path):
    cache.save("a.db", b"body")
    (home / "b.db").symlink_to(home / "a.db")
    assert cache.load("b.db") is None


def test_what_belongs_to_another_user_is_ignored(home, monkeypatch):
    cache.save("a.db", b"body")
    mine = os.geteuid()
    monkeypatch.setattr(cache.os, "geteuid", lambda: mine + 1)
    assert cache.load("a.db") is None


def test_no_place_to_write_is_fine(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    cache.save("a.db", b"body")
    assert cache.load("a.db") is None


def test_old_ones_go(home):
    for number in range(20):
        cache.save(f"{number}.db", b"body")
        os.utime(home / f"{number}.db", (number, number))
    assert len(list(home.iterdir())) == 16


def test_a_database_is_compiled_once(home, monkeypatch):
    pytest.importorskip("hyperscan")
    make_engine("hyperscan", LIBRARY.plan)
    monkeypatch.setattr(engines, "_compile", None)
    text = bytearray(b"CUDA out of memory. Tried to allocate 2 GiB\n")
    assert make_engine("hyperscan", LIBRARY.plan).propose(text, len(text))


def test_a_database_of_another_build_is_made_again(home):
    pytest.importorskip("hyperscan")
    make_engine("hyperscan", LIBRARY.plan)
    (name,) = [f.name for f in home.iterdir() if not f.name.startswith("signatures-")]
    body = cache.load(name)
    cache.save(name, body[: len(body) // 2])
    text = bytearray(b"CUDA out of memory. Tried to allocate 2 GiB\n")
    assert make_engine("hyperscan", LIBRARY.plan).propose(text, len(text))


def test_an_engine_that_loses_words_is_not_used(home, monkeypatch):
    pytest.importorskip("hyperscan")
    pytest.importorskip("re2")
    monkeypatch.setattr(engines, "_trial", lambda words: (b"nothing of it", [(0, len(words[0]))]))
    assert make_engine("auto", LIBRARY.plan).name == "re2"
    with pytest.raises(engines.EngineError, match="loses"):
        make_engine("hyperscan", LIBRARY.plan)
