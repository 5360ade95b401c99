"""What a store of records answers, a folder of files and a database alike: each test runs over both."""

import threading
from contextlib import closing

import pytest
from incident_text import PROVED, text_of

from firstfault.cli.main import run
from firstfault.incidents import search as search_module
from firstfault.incidents.errors import IncidentError
from firstfault.incidents.fingerprint import Traits, fingerprint
from firstfault.incidents.frontmatter import set_value
from firstfault.incidents.places import index_at, store_at
from firstfault.incidents.record import parse
from firstfault.incidents.search import Query, search
from firstfault.incidents.shipped import shipped
from firstfault.incidents.similar import known_again, similar


class Kept:
    """A store with its index, opened anew for each question as a command does."""

    def __init__(self, place):
        self.place = place

    def put(self, **parts):
        text = text_of(**parts)
        with closing(store_at(self.place)) as store:
            return store.create(parse(text).id, text)

    def search(self, query):
        with closing(index_at(self.place)) as index:
            index.refresh()
            return search(index, query)

    def asked(self, question):
        with closing(index_at(self.place)) as index:
            index.refresh()
            return question(index)

    def one(self, name):
        with closing(store_at(self.place)) as store:
            return next(r for r in store.records()[0] if r.id == name)


@pytest.fixture(params=["files", pytest.param("server", marks=pytest.mark.server)])
def kept(request, tmp_path):
    if request.param == "server":
        return Kept(request.getfixturevalue("database"))
    return Kept(tmp_path / "incidents")


def ids(kept, text="", **rest):
    return [hit.record.id for hit in kept.search(Query(text=text, **rest)).hits]


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
def test_the_shipped_records_are_found_by_what_people_type(kept, wanted, texts):
    for text in texts:
        assert ids(kept, text, limit=3)[:1] == [wanted], text


def test_every_shipped_record_is_asked_for_in_both_languages():
    assert set(LIBRARY) == {r.id for r in shipped()}


def test_search_by_what_stands_in_the_head(kept):
    kept.put(id="a", host="host-1111111111", date="2026-03-01")
    kept.put(id="b", host="host-2222222222", date="2026-03-02", **{**PROVED, "title": "Another"})
    assert ids(kept, facts=(("host", "host-1111111111"),)) == ["a"]
    assert ids(kept, facts=(("signature", "gpu.out_of_memory"),), limit=9) == ["b", "a", "E011"]
    assert ids(kept, facts=(("signature", "gpu.out*"), ("state", "open"))) == ["a"]
    assert ids(kept, "memory", facts=(("host", "host-2222222222"),)) == ["b"]
    assert sorted(ids(kept, "memory", facts=(("signature", "gpu.out*"), ("state", "verified")), limit=9)) == [
        "E011",
        "b",
    ]
    assert ids(kept, facts=(("host", "host-3333333333"),)) == []


def test_search_in_one_part_of_the_record(kept):
    kept.put(id="a", cause="Guess: quagga.", fix="OPEN: x")
    kept.put(id="b", cause="Guess: zebra.", fix="Guess: take the quagga out.")
    assert ids(kept, "quagga", fields=("fix",)) == ["b"]
    assert ids(kept, "quagga", fields=("cause",)) == ["a"]
    assert sorted(ids(kept, "quagga")) == ["a", "b"]


@pytest.mark.parametrize(
    "text", ['"', "a OR", "NEAR(", "title:", "*", "-x", "'; DROP TABLE files;", "{", "\x00", "AND", "^a"]
)
def test_no_text_is_a_query_of_its_own(kept, text):
    kept.put(id="a")
    ids(kept, text)
    assert ids(kept, facts=(("host", f"{text}x"),)) == []
    assert ids(kept, "memory")


def test_a_value_that_many_records_hold_gives_the_newest(kept, monkeypatch):
    monkeypatch.setattr(search_module, "MANY", 2)
    for number in range(1, 6):
        kept.put(id=f"r{number}", date=f"2026-03-0{number}")
    assert ids(kept, facts=(("state", "open"),), limit=2) == ["r5", "r4"]
    assert ids(kept, facts=(("state", "op*"), ("signature", "gpu.out*")), limit=2) == ["r5", "r4"]
    found = kept.search(Query(text="interrupted", limit=2))
    assert found.unranked
    assert found.more


def test_words_are_found_by_their_begin_in_other_forms_and_without_accents(kept):
    kept.put(id="a", cause="Guess: the naïve zebras were truncated, 显存碎片化.")
    kept.put(id="b", cause="Guess: nothing of that kind.")
    for text in ("naive zebra", "naïve zebra", "zebra", "zebr", "碎片", "显存碎片化", "ZEBRAS"):
        assert [hit.record.id for hit in kept.search(Query(text=text)).hits if hit.every] == ["a"], text
    assert ids(kept, "碎显") == []


def test_a_word_comes_before_those_that_begin_with_it_however_many_they_are(kept):
    kept.put(id="one", cause="Guess: quagga7 wrote it.")
    for number in range(70, 76):
        kept.put(id=f"m{number}", title=f"quagga{number}", cause=f"Guess: quagga{number} quagga{number} wrote it.")
    found = kept.search(Query(text="quagga7", limit=3))
    assert [hit.record.id for hit in found.hits][:1] == ["one"]
    assert (len(found.hits), found.more) == (3, True)
    assert len(kept.search(Query(text="quagga7")).hits) == 7


def test_a_phrase_does_not_reach_from_one_part_into_the_next(kept):
    kept.put(id="a", cause="Guess: it was the zebra", fix="Guess: quagga_fence")
    assert ids(kept, "quagga-fence") == ["a"]
    # The last word of the cause and the first of the fix stand beside each other in no part.
    assert [hit.every for hit in kept.search(Query(text="zebra-guess")).hits] == [False]


def test_rare_words_weigh_more_and_so_does_the_title(kept):
    for number in range(6):
        kept.put(id=f"r{number}", cause="Guess: the loader waits for a lock.", title="Slow loader")
    kept.put(id="rare", cause="Guess: the walrus waits.", title="Another")
    assert ids(kept, "loader walrus")[:1] == ["rare"]
    kept.put(id="title", title="Gnu in the loader", cause="Guess: x.")
    kept.put(id="body", title="Other", cause="Guess: x.", sentence="OPEN: gnu.")
    assert ids(kept, "gnu") == ["title", "body"]


def test_the_nearest_and_the_known_again_are_found(kept):
    traits = Traits(
        category="gpu_cuda",
        form="interrupted",
        signature="gpu.out_of_memory",
        message="OutOfMemoryError: CUDA out of memory",
    )
    kept.put(id="same", fingerprint=f'"{fingerprint(traits)}"')
    kept.put(id="other", fingerprint='"ff1:0123456789:9876543210:-"')
    assert [one.record.id for one in kept.asked(lambda index: known_again(index, traits))] == ["same"]
    near = kept.asked(lambda index: similar(index, traits))
    assert [(one.record.id, one.same) for one in near][:2] == [("same", True), ("other", False)]


def test_rules_of_the_store_itself_are_given_and_not_those_that_ship(kept):
    assert kept.asked(lambda index: index.own_rules()) == []
    text = set_value(text_of(id="a"), "shown_by", ("text:zebra", "frame:loop.py"))
    with closing(store_at(kept.place)) as store:
        store.create("a", text)
    rules = kept.asked(lambda index: index.own_rules())
    assert [rule for rule, _ in rules] == ["frame:loop.py", "text:zebra"]
    ((_, record),) = kept.asked(lambda index: list(index.records_of({number for _, number in rules})))
    assert record.id == "a"


def test_a_name_is_taken_once(kept):
    kept.put(id="a")
    with pytest.raises(IncidentError, match="of that name"):
        kept.put(id="a", title="Another")
    assert kept.one("a").title != "Another"


def test_every_byte_that_a_change_is_not_about_stays_and_the_index_follows(kept):
    text = text_of(id="a", cause="Guess: zebra.").replace("\n", "\r\n") + "\r\n<!-- my own　note -->   \r\n"
    with closing(store_at(kept.place)) as store:
        store.create("a", text)
    record = kept.one("a")
    assert record.text == text
    with closing(store_at(kept.place)) as store:
        store.change(record, lambda t: set_value(t, "state", "rejected"))
    assert kept.one("a").text == text.replace("state: open", "state: rejected")
    assert ids(kept, "zebra", facts=(("state", "rejected"),)) == ["a"]
    assert ids(kept, "zebra", facts=(("state", "open"),)) == []


def test_a_change_of_what_somebody_else_changed_is_refused(kept):
    kept.put(id="a")
    mine, theirs = kept.one("a"), kept.one("a")
    with closing(store_at(kept.place)) as store:
        store.change(theirs, lambda t: set_value(t, "command", "train.py"))
        with pytest.raises(IncidentError, match="meanwhile"):
            store.change(mine, lambda t: set_value(t, "command", "other.py"))
        with pytest.raises(IncidentError, match="state"):
            store.change(kept.one("a"), lambda t: t.replace("state: open", "state: whatever"))
    assert kept.one("a").one("command") == "train.py"


def test_a_record_that_ships_is_not_changed(kept):
    with closing(store_at(kept.place)) as store, pytest.raises(IncidentError, match="ships"):
        store.change(shipped()[0], lambda t: set_value(t, "command", "x"))


def test_records_come_out_as_the_files_that_they_are(kept, tmp_path, capsys):
    texts = {
        "a": text_of(id="a", date="2026-03-02", cause="Guess: 显存 — zebra.").replace("\n", "\r\n"),
        "b": text_of(id="b", date="2025-01-02").replace("state:", "my_key: [1, 2]  # mine\nstate:"),
    }
    with closing(store_at(kept.place)) as store:
        for name, text in texts.items():
            store.create(name, text, text.partition("date: ")[2].strip('"')[:4])
    out = tmp_path / "out"

    def export():
        assert run(["incidents", "export", "--dir", str(kept.place), "--format", "files", "--output", str(out)]) == 0
        return capsys.readouterr()

    export()
    assert {p.stem: p.read_bytes() for p in out.rglob("*.md")} == {name: text.encode() for name, text in texts.items()}
    # And back into an empty store, from where they come out again as the same bytes.
    again = tmp_path / "again"
    assert run(["incidents", "import", str(out), "--dir", str(again)]) == 0
    assert {p.stem: p.read_bytes() for p in again.rglob("*.md")} == {
        name: text.encode() for name, text in texts.items()
    }
    capsys.readouterr()
    assert export().out == ""  # nothing is new
    mine = next(out.rglob("a.md"))
    mine.write_bytes(texts["a"].encode() + b"mine\r\n")
    assert run(["incidents", "export", "--dir", str(kept.place), "--format", "files", "--output", str(out)]) == 2
    assert "with another text" in capsys.readouterr().err
    assert mine.read_bytes().endswith(b"mine\r\n")


@pytest.mark.parametrize("more", [[], ["--output", "FILE"], ["--output", "new", "--library"]])
def test_files_need_a_folder(store, put, tmp_path, more):
    put()
    (tmp_path / "FILE").touch()
    more = [str(tmp_path / m) if m == "FILE" else m for m in more]
    assert run(["incidents", "export", "--dir", str(store.folder), "--format", "files", *more]) == 2


def test_the_records_of_a_folder_are_copied_byte_for_byte_and_never_over_others(kept, tmp_path, capsys):
    folder = tmp_path / "from" / "2026"
    folder.mkdir(parents=True)
    text = text_of(id="a", cause="Guess: zebra.").replace("\n", "\r\n")
    (folder / "a.md").write_bytes(text.encode())
    (folder / "b.md").write_text(text_of(id="b"), encoding="utf-8")
    (folder / "c.md").write_text("no record", encoding="utf-8")
    kept.put(id="b", title="Theirs")
    assert run(["incidents", "import", str(tmp_path / "from"), "--dir", str(kept.place)]) == 0
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 1
    assert "b.md: there is a record of that name" in said.err
    assert "c.md" in said.err
    assert kept.one("a").text == text
    assert kept.one("b").title == "Theirs"
    assert ids(kept, "zebra") == ["a"]


def test_many_writers_at_once_lose_nothing_and_take_each_name_once(kept):
    kept.put(id="first")
    won, failed = [], []

    def write(writer):
        for turn in range(6):
            kept.put(id=f"w{writer}-{turn}")
            try:
                kept.put(id=f"same-{turn}", title=f"writer {writer}")
                won.append(turn)
            except IncidentError:
                failed.append(turn)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert sorted(won) == list(range(6))
    assert len(failed) == 30
    names = {hit.record.id for hit in kept.search(Query(text="interrupted", limit=200)).hits}
    assert {f"w{n}-{t}" for n in range(6) for t in range(6)} | {f"same-{t}" for t in range(6)} <= names
