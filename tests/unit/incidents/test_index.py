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
from firstfault.incidents import search as search_module
from firstfault.incidents.index import Index, columns, facts
from firstfault.incidents.record import parse
from firstfault.incidents.search import Query, search
from firstfault.incidents.shipped import shipped
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


LIBRARY = {
    "E001": ["docker pull EOF", "image pull stalls", "拉取镜像 EOF", "镜像拉取卡住"],
    "E002": ["externally-managed-environment", "pip install PEP 668", "pip 安装失败 容器", "系统 Python 虚拟环境"],
    "E003": ["CUDA_HOME nvcc deepspeed", "DeepSpeed nvcc not found", "找不到 nvcc", "没有 nvcc 算子编译"],
    "E004": ["KeyError grad_norm_mean", "report missing field", "报告 字段缺失", "可选字段"],
    "E005": ["megatron mock data helpers", "helpers_cpp", "Megatron 编译 helper", "模拟数据 构建工具"],
    "E006": ["transformer engine apex fallback", "unfused kernels", "融合算子 回退环境", "未融合"],
    "E007": ["json.loads stdout banner", "JSONDecodeError banner", "横幅 标准输出", "探测 解析失败"],
    "E008": ["foreign process GPU", "contaminated trial", "外来进程", "显卡被占用"],
    "E009": ["topology matrix interrupted", "partial results overwritten", "拓扑 中断", "部分结果 原子发布"],
    "E010": ["FSDP sharded state digest", "DCP resume checksum", "分片状态 摘要", "断点续训 不一致"],
    "E011": ["current_stream out of memory gloo", "CPU test CUDA OOM", "CPU 测试 显存", "检查点测试 显存不足"],
}


@pytest.mark.parametrize(("wanted", "texts"), LIBRARY.items())
def test_the_shipped_records_are_found_by_what_people_type(index, wanted, texts):
    for text in texts:
        assert ids(index, text, limit=3)[:1] == [wanted], text


def test_every_shipped_record_is_asked_for_in_both_languages():
    assert set(LIBRARY) == {r.id for r in shipped()}


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


def test_search_by_what_stands_in_the_head(put, index):
    put(id="a", host="host-1111111111", date="2026-03-01")
    put(id="b", host="host-2222222222", date="2026-03-02", **{**PROVED, "title": "Another"})
    assert ids(index, facts=(("host", "host-1111111111"),)) == ["a"]
    assert ids(index, facts=(("signature", "gpu.out_of_memory"),), limit=9) == ["b", "a", "E011"]
    assert ids(index, facts=(("signature", "gpu.out*"), ("state", "open"))) == ["a"]
    assert ids(index, "memory", facts=(("host", "host-2222222222"),)) == ["b"]
    assert sorted(ids(index, "memory", facts=(("signature", "gpu.out*"), ("state", "verified")), limit=9)) == [
        "E011",
        "b",
    ]
    assert ids(index, facts=(("host", "host-3333333333"),)) == []


def test_search_in_one_part_of_the_record(put, index):
    put(id="a", cause="Guess: quagga.", fix="OPEN: x")
    put(id="b", cause="Guess: zebra.", fix="Guess: take the quagga out.")
    assert ids(index, "quagga", fields=("fix",)) == ["b"]
    assert ids(index, "quagga", fields=("cause",)) == ["a"]
    assert sorted(ids(index, "quagga")) == ["a", "b"]


@pytest.mark.parametrize(
    "text", ['"', "a OR", "NEAR(", "title:", "*", "-x", "'; DROP TABLE files;", "{", "\x00", "AND", "^a"]
)
def test_no_text_is_a_query_of_its_own(put, index, text):
    put(id="a")
    ids(index, text)
    assert ids(index, facts=(("host", f"{text}x"),)) == []
    assert ids(index, "memory")


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
    process.wait(timeout=30)
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


def test_a_value_that_many_records_hold_gives_the_newest(put, index, monkeypatch):
    monkeypatch.setattr(search_module, "MANY", 2)
    for number in range(1, 6):
        put(id=f"r{number}", date=f"2026-03-0{number}")
    assert ids(index, facts=(("state", "open"),), limit=2) == ["r5", "r4"]
    assert ids(index, facts=(("state", "op*"), ("signature", "gpu.out*")), limit=2) == ["r5", "r4"]
    index.refresh()
    found = search(index, Query(text="interrupted", limit=2))
    assert found.unranked
    assert found.more
