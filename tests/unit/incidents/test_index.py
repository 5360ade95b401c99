"""The index: it follows the files, survives two processes, a killed one and a damaged file, and finds both languages."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from incident_text import PROVED, text_of

from firstfault.incidents import index as index_module
from firstfault.incidents.errors import IncidentError
from firstfault.incidents.index import Index, columns, facts
from firstfault.incidents.record import parse
from firstfault.incidents.search import Query, search
from firstfault.incidents.store import Store
from firstfault.incidents.tokens import all_of, any_of, tokens


def ids(index, text="", **rest):
    index.refresh()
    return [hit.record.id for hit in search(index, Query(text=text, **rest)).hits]


@pytest.fixture
def index(store):
    with closing(Index(store)) as opened:
        yield opened


def test_words_are_cut_in_both_languages():
    assert tokens("grad_norm_mean: KeyError") == ["grad", "norm", "mean", "keyerror"]
    assert tokens("拉取镜像EOF卡住") == ["拉取", "取镜", "镜像", "eof", "卡住"]
    assert tokens("卡") == ["卡"]
    assert tokens("Ｆｕｌｌ　ｗｉｄｔｈ") == ["full", "width"]
    assert all_of("镜像 EOF") == '"镜像" * AND "eof" *'
    assert any_of("the of 镜像") == '"镜像"'
    assert all_of("::: --") == ""


def test_the_index_follows_the_files(store, put, index):
    path = put(id="a", cause="Guess: a zebra ate the cable.")
    assert ids(index, "zebra") == ["a"]
    path.write_text(text_of(id="a", cause="Guess: a walrus ate the cable."), encoding="utf-8")
    assert ids(index, "zebra") == []
    assert ids(index, "walrus") == ["a"]
    path.rename(store.folder / "b.md")
    put(id="c", cause="Guess: a walrus again.")
    assert sorted(ids(index, "walrus")) == ["a", "c"]
    (store.folder / "b.md").unlink()
    assert ids(index, "walrus") == ["c"]


def test_a_file_that_changes_twice_within_one_tick_is_read_again(put, index):
    path = put(id="a", cause="Guess: aaaa1111 ate it.")
    stamp = path.stat()
    assert ids(index, "aaaa1111") == ["a"]
    path.write_text(text_of(id="a", cause="Guess: bbbb2222 ate it."), encoding="utf-8")
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert ids(index, "bbbb2222") == ["a"]


def test_a_damaged_or_foreign_index_is_made_anew(store, put, own_folders):
    put(id="a")
    with closing(Index(store)) as first:
        first.refresh()
    (place,) = (own_folders / "cache" / "firstfault").glob("*.sqlite")
    for damage in (b"this is no database" * 500, b""):
        for end in ("-wal", "-shm"):
            place.with_name(place.name + end).unlink(missing_ok=True)
        place.write_bytes(damage)
        with closing(Index(store)) as again:
            assert ids(again, "memory")[:1] == ["a"]
    base = sqlite3.connect(place)
    base.execute("PRAGMA user_version = 99")
    base.close()
    with closing(Index(store)) as other:
        assert ids(other, "memory")[:1] == ["a"]


def test_two_versions_with_other_forms_leave_each_other_their_index(store, put, own_folders, monkeypatch):
    put(id="a")
    with closing(Index(store)) as now:
        assert ids(now, "memory")[:1] == ["a"]
        with monkeypatch.context() as patch:
            patch.setattr(index_module, "FORM", 99)
            with closing(Index(store)) as other:
                assert ids(other, "memory")[:1] == ["a"]
        assert ids(now, "memory")[:1] == ["a"]
    with closing(Index(store)) as again:
        assert again.base.execute("SELECT count(*) FROM files WHERE name NOT GLOB 'ships:*'").fetchone() == (1,)
    assert len(list((own_folders / "cache" / "firstfault").glob("*.sqlite"))) == 2


def test_without_a_cache_folder_it_lives_in_memory(store, put, monkeypatch, tmp_path):
    put(id="a")
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with closing(Index(store)) as index:
        assert ids(index, "memory")[:1] == ["a"]


BUSY = """
import sys
from contextlib import closing
from pathlib import Path
from firstfault.incidents.index import Index
from firstfault.incidents.search import Query, search
from firstfault.incidents.store import Store
store = Store(Path(sys.argv[1]))
for turn in range(int(sys.argv[3])):
    text = Path(sys.argv[2]).read_text(encoding="utf-8").replace("NAME", f"{sys.argv[4]}{turn}")
    store.create(f"{sys.argv[4]}{turn}", text)
    with closing(Index(store)) as index:
        index.refresh()
        assert search(index, Query(text="memory")).hits
    print(turn, flush=True)
"""


def start(store, template, turns, name):
    return subprocess.Popen(
        [sys.executable, "-c", BUSY, str(store.folder), str(template), str(turns), name],
        stdout=subprocess.PIPE,
        text=True,
    )


def test_two_processes_write_and_search_at_once(store, tmp_path):
    template = tmp_path / "template.md"
    template.write_text(text_of(id="NAME"), encoding="utf-8")
    both = [start(store, template, 8, name) for name in ("one", "two")]
    assert [p.wait(timeout=120) for p in both] == [0, 0]
    for process in both:
        process.stdout.close()
    with closing(Index(store)) as index:
        index.refresh()
        found = search(index, Query(text="memory", limit=100))
        assert {f"{n}{t}" for n in ("one", "two") for t in range(8)} <= {h.record.id for h in found.hits}
        assert index.base.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


def test_a_killed_process_leaves_an_index_that_works(store, tmp_path):
    template = tmp_path / "template.md"
    template.write_text(text_of(id="NAME"), encoding="utf-8")
    process = start(store, template, 10_000, "k")
    for _ in range(3):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=300)
    process.stdout.close()
    with closing(Index(store)) as index:
        index.refresh()
        whole = {Path(name).stem for name, _ in store.files()}
        found = search(index, Query(text="memory", limit=1000))
        assert {h.record.id for h in found.hits} >= whole
        assert index.base.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


def test_a_large_folder_is_not_looked_through_each_time_and_shows_nothing_that_is_gone(store, put, monkeypatch):
    monkeypatch.setattr(index_module, "EACH_TIME", 2)
    for name in "abcd":
        put(id=name)
    with closing(Index(store)) as index:
        assert index.refresh() == 4
        looked = []
        monkeypatch.setattr(Store, "files", lambda self: looked.append(self) or iter(()))
        index.refresh()
        assert looked == []
        monkeypatch.undo()
        monkeypatch.setattr(index_module, "EACH_TIME", 2)
        put(id="b", cause="Guess: changed in place.")
        # The time of the folder did not move; what is shown is read from the file, and all is looked at when asked for.
        shown = {h.record.id: h.record.text for h in search(index, Query(text="interrupted", limit=9)).hits}
        assert "changed in place" in shown["b"]
        (store.folder / "c.md").unlink()
        assert "c" not in ids(index, "interrupted", limit=9)
        index.refresh(full=True)
        assert ids(index, "changed in place")[:1] == ["b"]


def test_a_clock_that_was_set_back_makes_it_look_again(store, put, monkeypatch):
    monkeypatch.setattr(index_module, "EACH_TIME", 0)
    put(id="a")
    with closing(Index(store)) as index:
        index.refresh()
        monkeypatch.setattr(time, "time", lambda: 1.0)
        looked = []
        monkeypatch.setattr(Store, "files", lambda self: looked.append(self) or iter(()))
        index.refresh()
        assert looked


def test_facts_and_columns_tell_what_the_record_says():
    record = parse(text_of(**PROVED))
    told = set(facts(record))
    assert {("state", "verified"), ("signature", "gpu.out_of_memory"), ("fp_kind", "ff1:0123456789")} <= told
    title, symptom, _, cause, fix, rest = columns(record)
    assert "Out of memory" in title
    assert symptom == "The job was interrupted."
    assert cause == "A sample is longer than the others."
    assert fix == "Samples are cut at 8192."
    assert "One long sample" in rest


def test_an_index_that_may_not_be_written_is_kept_in_memory(store, put, own_folders):
    put(id="a")
    with closing(Index(store)) as first:
        first.refresh()
    put(id="b")
    with closing(Index(store)) as index:
        index.base.execute("PRAGMA query_only = ON")
        assert {"a", "b"} <= set(ids(index, "interrupted", limit=9))


def test_a_cache_folder_that_others_may_write_is_not_used(store, put, own_folders):
    put(id="a")
    place = own_folders / "cache" / "firstfault"
    place.mkdir(parents=True)
    place.chmod(0o777)
    with closing(Index(store)) as index:
        assert ids(index, "memory")[:1] == ["a"]
    assert list(place.iterdir()) == []


def test_an_edition_is_what_shipped_records_say_and_not_when_they_were_installed(tmp_path, monkeypatch):
    folder = tmp_path / "library"
    folder.mkdir()
    record = folder / "E001.md"
    record.write_text("one")
    monkeypatch.setattr(index_module, "FOLDER", folder)
    before = index_module.edition()
    os.utime(record, (1, 1))
    assert index_module.edition() == before
    record.write_text("two")
    assert index_module.edition() != before


def test_without_hard_links_a_taken_name_is_told_and_no_half_record_stays(store, monkeypatch):
    def refuse(source, target):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", refuse)
    assert store.create("a", text_of(id="a")).read_text(encoding="utf-8") == text_of(id="a")
    with pytest.raises(IncidentError, match="of that name"):
        store.create("a", text_of(id="a"))
    plain = Path.open

    class Full:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *rest):
            self.file.close()

        def write(self, data):
            self.file.write(data[:3])
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(
        Path,
        "open",
        lambda path, mode="r", **rest: Full(plain(path, mode, **rest)) if mode == "xb" else plain(path, mode, **rest),
    )
    with pytest.raises(OSError, match="No space"):
        store.create("b", text_of(id="b"))
    assert [f.name for f in store.folder.iterdir()] == ["a.md"]
