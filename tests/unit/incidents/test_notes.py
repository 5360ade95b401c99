"""Notes of people become records that claim no more than they show; records leave as a page, as HTML and as JSON lines."""

import contextlib
import html
import re
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from incident_text import PROVED, text_of

from firstfault.cli.main import run
from firstfault.incidents.errors import IncidentError
from firstfault.incidents.importing import lines_left, noted_hosts, read_notes, record_text
from firstfault.incidents.lint import lint
from firstfault.incidents.record import parse
from firstfault.incidents.store import Store
from firstfault.incidents.trends import trends
from firstfault.incidents.words import Section, State
from firstfault.pipelines.incidents import pseudonym
from firstfault.pipelines.incidents_over import copy_records, import_notes, plain
from firstfault.report.incident_list import render_html, render_page

ENGLISH = """# Error log

Some words first.

## E001: pull ends in EOF (2026-03-02)

**Symptom**: the image does not arrive.
Second line.

**Root cause:** registry link

- Fix: pin the digest
- Verification: image starts

```text
## Fix: not a heading
```

## A chapter without an incident

Nothing here. Note: really nothing.

## E002 — disk full

### Symptom

No space left.

### Cause

Old checkpoints.
"""
CHINESE = """# 错误记录

## [E003] 训练卡住

- 日期：2026年3月5日
- 现象：第 100 步后不再前进
- 原因：3 号 rank 在读数据
- 解决方案：加超时
- 验证：重跑 2000 步正常
"""
TABLE = """| id | symptom | what was looked at | cause and layer | fix | verified by |
|---|---|---|---|---|---|
| T1 | dies with `a \\| b` | logs | storage: full | clean | re-run |
| T2 | hangs | stacks | - | | |

| name | size |
|---|---|
| x | 1 |
"""


def test_an_english_log_is_read():
    one, two = read_notes(ENGLISH)
    assert (one.name, one.title, one.date) == ("E001", "pull ends in EOF (2026-03-02)", "2026-03-02")
    assert one.parts[Section.SYMPTOM] == "the image does not arrive.\nSecond line."
    assert one.parts[Section.ROOT_CAUSE] == "registry link"
    assert one.parts[Section.FIX] == "pin the digest"
    assert "not a heading" in one.parts[Section.VERIFICATION]
    assert (two.name, two.title) == ("E002", "disk full")
    assert two.parts == {Section.SYMPTOM: "No space left.", Section.ROOT_CAUSE: "Old checkpoints."}


def test_a_chinese_log_is_read():
    (one,) = read_notes(CHINESE)
    assert (one.name, one.title, one.date) == ("E003", "训练卡住", "2026-03-05")
    assert one.parts == {
        Section.SYMPTOM: "第 100 步后不再前进",
        Section.ROOT_CAUSE: "3 号 rank 在读数据",
        Section.FIX: "加超时",
        Section.VERIFICATION: "重跑 2000 步正常",
    }


def test_a_table_is_read_where_its_head_names_parts():
    one, two = read_notes(TABLE)
    assert (one.name, one.parts[Section.SYMPTOM], one.parts[Section.FIX]) == ("T1", "dies with `a | b`", "clean")
    assert two.parts == {Section.SYMPTOM: "hangs", Section.DIAGNOSIS: "stacks"}


def test_a_table_with_two_columns_of_one_part_loses_neither():
    table = (
        "| Error | Symptom | Cause | Fix |\n|---|---|---|---|\n"
        "| NFS hang | `cat` blocks | server down | remount |\n| disk full | - | logs | clean | kept `a` too |\n"
    )
    one, two = read_notes(table)
    assert one.title == "NFS hang"
    assert one.parts[Section.SYMPTOM] == "NFS hang\n`cat` blocks"
    assert (two.parts[Section.SYMPTOM], two.loose) == ("disk full", "kept `a` too")


def test_a_table_with_a_column_of_the_day_and_one_of_the_hour_tells_the_day():
    (note,) = read_notes(
        "| 标题 | 名称 | 日期 | 时间 | 现象 | 原因 |\n|-|-|-|-|-|-|\n| 掉卡 | xid | 2026-11-02 | 10:33 | 停了 | 供电 |\n"
    )
    assert (note.title, note.date, note.loose) == ("掉卡", "2026-11-02", "xid")


def test_a_page_without_incidents_gives_none():
    assert read_notes("# Readme\n\nNothing: here.\n") == []


@pytest.mark.parametrize("text", [ENGLISH, CHINESE, TABLE])
def test_what_is_imported_claims_no_more_than_the_notes_show(text):
    for number, note in enumerate(read_notes(text)):
        record = parse(record_text(note, f"n{number}"))
        assert record.state is State.OPEN
        assert [c for c in lint([record]) if c.level == "error"] == []
        assert record.one("language") == ("zh" if text == CHINESE else "en")
        for section, said in note.parts.items():
            assert said in record.sections[section]
        assert note.name in record.all("search_words")


def test_what_returns_is_told_with_its_dates():
    records = [
        parse(text_of(id="a", date="2026-03-01", **{k: v for k, v in PROVED.items() if k != "date"})),
        parse(text_of(id="b", date="2026-04-01")),
        parse(text_of(id="c", date="2026-05-01", host="host-ffffffffff", fingerprint='"ff1:aaaaaaaaaa:bbbbbbbbbb:-"')),
        parse(text_of(id="d", state="rejected")),
    ]
    found = {(t.kind, t.value): t for t in trends(records)}
    assert found["signature", "gpu.out_of_memory"].incidents == ("a", "b", "c")
    assert found["signature", "gpu.out_of_memory"].dates == ("2026-03-01", "2026-04-01", "2026-05-01")
    assert found["host", "host-0a1b2c3d4e"].incidents == ("a", "b")
    assert ("host", "host-ffffffffff") not in found
    same = found["fingerprint", "ff1:0123456789:0123456789"]
    assert same.incidents == ("a", "b")
    assert same.after_fix == ("b",)


def test_an_incident_that_was_written_down_twice_came_once():
    digest = "title: a\nevidence_digest: 0123456789abcdef"
    texts = [
        text_of(id=name, date=day).replace("title:", f"{digest}\ntitle_of:", 1)
        for name, day in (("a", "2026-03-01"), ("b", "2026-03-01"))
    ]
    assert trends(map(parse, texts)) == []
    other = texts[1].replace("0123456789abcdef", "fedcba9876543210")
    assert {t.incidents for t in trends(map(parse, [texts[0], other]))} == {("a", "b")}


def test_a_re_run_that_recurred_counts_as_a_return():
    record = parse(text_of(verifications='\n  - "rerun 2026-03-09 recurred: x"'))
    found = {t.kind: t for t in trends([record])}
    assert found["host"].recurred == 1
    assert found["host"].dates == ("2026-03-02", "2026-03-09")


HOSTILE = "<script>alert(1)</script> \x1b[31m ]]> {{7*7}}"


def test_the_html_page_holds_no_markup_of_a_record_and_loads_nothing():
    text = (
        text_of(title="<img src=x onerror=y>", cause=f"Guess: {HOSTILE}")
        .replace('title: "', "title: '")
        .replace('y>"', "y>'")
    )
    page = render_html([parse(text)])
    assert "<script" not in page
    assert "<img" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;" in page
    assert not re.search(r"(?:src|href)=['\"](?!#)", page)


def test_one_page_holds_every_record_with_its_headings_below_its_own():
    page = render_page([parse(text_of(id="a")), parse(text_of(id="b", **PROVED))])
    assert page.count("\n## ") == 2
    assert page.count("### Symptom") == 2
    assert "\x1b" not in render_page([parse(text_of(cause=f"Guess: {HOSTILE}"))])


def test_a_page_holds_all_that_a_record_tells_and_leaves_its_code_alone():
    text = text_of(id="a", **PROVED).replace("## Fix\n", "## Fix\n\n```bash\n# restart it\n## twice\n```\n", 1)
    record = parse(text + "\n## What we learned\n\nAsk first.\n\n### Later\n\n旧笔记\n")
    assert record.own == "## What we learned\n\nAsk first.\n\n### Later\n\n旧笔记"
    page = render_page([record])
    assert "\n# restart it\n## twice\n" in page
    assert "\n### What we learned\n\nAsk first.\n\n#### Later\n" in page
    for item in (*record.all("fix_links"), *record.all("verifications")):
        assert f"- `{item}`" in page
    told = render_html([record])
    assert "Ask first." in told
    assert all(html.escape(item) in told for item in (*record.all("fix_links"), *record.all("verifications")))
    assert plain(record)["sections"]["own"] == record.own
    assert "own" not in plain(parse(text_of(id="a")))["sections"]


def test_a_table_inside_code_is_no_incident():
    table = "| Symptom | Cause | Fix |\n|---|---|---|\n| a | b | c |\n"
    assert len(read_notes(table)) == 1
    assert read_notes(f"```\n{table}```\n") == []


PIECES = (
    "---",
    "\n",
    "id: a\n",
    "state: open\n",
    "- x",
    "# T",
    "## Fix",
    "```",
    "| a | b |",
    ":",
    "：",
    '"',
    "[",
    "]",
    " ",
    "原因",
    "\r",
    "\u2028",
    "\\",
)


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_no_text_breaks_the_readers(text):
    for note in read_notes(text):
        assert parse(record_text(note, "a")).state is State.OPEN
    with contextlib.suppress(IncidentError):
        assert parse(text).text == text


def test_secrets_in_notes_do_not_reach_a_record(tmp_path, store):
    notes = tmp_path / "notes.md"
    notes.write_text(
        ENGLISH
        + "\n## E9 login failed\n\nSymptom: 401\nCause: password=Tr0ub4dor-9x was old, and Tr0ub4dor-9x again\nFix: new\n"
    )
    made, _ = import_notes(notes, store, date(2026, 3, 2))
    assert len(made) == len(read_notes(notes.read_text()))
    assert "login failed" in made[-1].read_text()
    assert not [path for path in made if "Tr0ub4dor" in path.read_text()]


def test_names_in_notes_become_the_pseudonyms_of_all_records(tmp_path, store):
    notes = tmp_path / "notes.md"
    notes.write_text(
        ENGLISH + "\n## E9 link lost\n\nSymptom: node cn-0385 lost its link, seen from host dgx-b7; node 3 did not.\n"
        "Cause: see /home/zhangwei/exp/run1 at 10.1.2.3\nFix: cn-0385 drained\n"
        "\n## [E10] 训练卡住\n\n- 现象：主机 gpu-node-17（10.1.2.3）卡住，密码：Hush8899zz\n- 原因：节点：gpu-node-17 的磁盘\n- 解决方案：用户 zhangwei 清理\n"
    )
    key = b"0123456789abcdef" * 2
    texts = [path.read_text() for path in import_notes(notes, store, date(2026, 3, 2), key)[0]]
    gone = ("cn-0385", "dgx-b7", "zhangwei", "10.1.2.3", "gpu-node-17", "Hush8899zz")
    assert [name for name in gone if any(name in text for text in texts)] == []
    assert texts[-2].count(pseudonym("host", "cn-0385", key)) == 2
    assert "node 3 did not" in texts[-2]
    assert pseudonym("host", "gpu-node-17", key) in texts[-1]


@pytest.mark.parametrize("day", ["../x-03-02", "/tmp", "20a6-03-02"])
def test_the_date_of_a_copied_record_names_no_folder_outside_the_store(tmp_path, store, day):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "a.md").write_text(text_of(id="a").replace("date: ", f"date: {day} # ", 1))
    made, left = copy_records(Store(theirs), store)
    assert left == []
    assert [path.parent for path in made] == [store.folder]


def test_a_page_that_grew_is_imported_again_without_doubles(tmp_path, store):
    notes = tmp_path / "notes.md"
    one = "# NaN at gpu-n017\n\n- Symptom: loss is NaN\n- Cause: fp16 on node gpu-n017\n"
    notes.write_text(one, encoding="utf-8")
    key = b"k" * 32
    made, known = import_notes(notes, store, date(2026, 3, 2), key)
    assert (len(made), known) == (1, [])
    notes.write_bytes(("above\n\n" + one + "\n# Disk\n\n- Symptom: full\n- Fix: more\n").replace("\n", "\r\n").encode())
    later, there = import_notes(notes, store, date(2026, 3, 9), key)
    assert (len(later), there) == (1, [str(made[0])])
    assert len(store.records()[0]) == 2


def test_line_ends_of_a_file_show_nowhere(put, store, capsys):
    path = put(id="crlf")
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    for command in (
        ["show", "crlf"],
        ["show", "crlf", "--format", "json"],
        ["export"],
        ["export", "--format", "jsonl"],
    ):
        assert run(["incidents", *command, "--dir", str(store.folder)]) == 0
        out = capsys.readouterr().out
        assert "The job was interrupted." in out
        assert "x0d" not in out
        assert "\\r" not in out
    assert b"\r\n" in path.read_bytes()


def test_the_records_of_a_repository_are_found_from_a_folder_below(put, store, capsys, monkeypatch):
    put(id="mine")
    below = store.folder.parent / "src" / "deep"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    search = ["incidents", "search", "long", "sample", "interrupted"]
    run(search)
    assert "mine" not in capsys.readouterr().out
    (store.folder.parent / ".git").mkdir()
    assert run(search) == 0
    assert "mine" in capsys.readouterr().out


MESSY = """\
# Errors of the team

written down by many

## Disk full
seen on two nodes

Symptom
-------
OSError 28 while saving

**原因**　没有清理
Fix: keep three
Date: Jan 9, 2026

### Later
nothing

| ID | Symptom | Cause |
|----|---------|-------|
| E9 | NaN | overflow |
"""


def test_what_stands_in_no_part_is_kept_or_told():
    one, two = read_notes(MESSY)
    assert (one.title, one.date, one.loose) == ("Disk full", "2026-01-09", "seen on two nodes")
    assert one.parts == {"symptom": "OSError 28 while saving", "root_cause": "没有清理", "fix": "keep three"}
    assert two.name == "E9"
    assert "seen on two nodes" in record_text(one, "20260109-aaaaaaaaaa")
    lines = MESSY.split("\n")
    assert [lines[n - 1] for n in lines_left(MESSY)] == [
        "# Errors of the team",
        "written down by many",
        "### Later",
        "nothing",
    ]


@pytest.mark.parametrize(
    "body",
    [
        "**Symptom**\n\nhang\n\n**Root cause**\n\nloader\n\n**Fix**\n\npin it",
        "1. Symptom\n   hang\n2. Root cause\n   loader\n3. Fix\n   pin it",
        "Symptom\n: hang\n\nRoot cause\n: loader\n\nFix\n: pin it",
        "> **Symptom:** hang\n> **Root cause:** loader\n> **Fix:** pin it",
        "【现象】 hang\n【原因】loader\n【修复】：pin it",
        "[现象] hang\n[根因] loader\n[处理方案] pin it",
        "What happened: hang\nRoot cause analysis: loader\nRemedy: pin it",
        "错误信息：hang\n故障原因：loader\n解决措施：pin it",
    ],
)
def test_labels_as_people_write_them(body):
    (note,) = read_notes(f"# E7: a hang\n\n{body}\n")
    assert {str(s): text.strip() for s, text in note.parts.items()} == {
        "symptom": "hang",
        "root_cause": "loader",
        "fix": "pin it",
    }


def test_lines_of_a_log_in_a_note_are_no_labels():
    body = "**Symptom:** it ends\n[error] worker died\n> quoted line\n- Log\n\n**Fix:** pin it\nError\n"
    (note,) = read_notes(f"# a crash\n\n{body}")
    assert {str(s): text for s, text in note.parts.items()} == {
        "symptom": "it ends\n[error] worker died\n> quoted line\n- Log",
        "fix": "pin it\nError",
    }


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("step time 2x on gpu-n022, gpu-n022 again", ["gpu-n022"]),
        ("gpu-n017 上 NCCL_SOCKET_IFNAME 指向 docker0", ["gpu-n017"]),
        ("dgx03 and node-0012 and compute17.cluster.example", ["dgx03", "node-0012", "compute17.cluster.example"]),
        ("gpu0, gpu-1, node 3, worker-0, rank12, sm-90, h100-80, gpt-125, cuda-12", []),
        ("path /data/node0012/x and v1.node12", []),
    ],
)
def test_what_looks_like_a_machine_is_taken_for_one(page, names):
    assert noted_hosts(page) == names


@pytest.mark.parametrize(
    ("heading", "title", "date"),
    [
        ("1. 2026年1月20日 节点掉卡", "节点掉卡", "2026-01-20"),
        ("2. 【2026-02-02】数据集读取超时", "数据集读取超时", "2026-02-02"),
        ("2026-01-14 — writes stall", "writes stall", "2026-01-14"),
        ("一、检查点保存失败", "检查点保存失败", ""),
        ("2.7.0 breaks the loader", "2.7.0 breaks the loader", ""),
        ("3.5 times slower", "3.5 times slower", ""),
        ("2026-01-14", "2026-01-14", "2026-01-14"),
    ],
)
def test_a_title_is_what_stands_behind_number_and_date(heading, title, date):
    (note,) = read_notes(f"## {heading}\n\nSymptom: x\nCause: y\n")
    assert (note.title, note.date) == (title, date)


@pytest.mark.parametrize(
    "body",
    [
        "**What we saw:** hang\n**Looked into:** dmesg\n**Why:** loader\n**What we did:** pin it\n**Checked:** ran",
        "Issue: hang\nDebugging: dmesg\nWhat went wrong: loader\nMitigation: pin it\nOutcome: ran",
        "【故障】hang\n【问题定位】dmesg\n【定位结论】loader\n【处置方式】pin it\n【结果】ran",
        "- 异常现象：hang\n- 排查步骤：dmesg\n- 原因定位：loader\n- 规避措施：pin it\n- 验证过程：ran",
    ],
)
def test_all_parts_are_known_by_what_teams_call_them(body):
    (note,) = read_notes(f"# a hang\n\n{body}\n")
    assert [text.strip() for text in note.parts.values()] == ["hang", "dmesg", "loader", "pin it", "ran"]


def test_rows_of_a_table_that_are_incidents_stand_in_no_other_one():
    table = "| 编号 | 故障 | 原因 | 处置方式 |\n|---|---|---|---|\n| A-01 | 显存不足 | 样本过长 | 截断 |\n"
    other = "| 指标 | 之前 |\n|---|---|\n| 剩余 | 0 |\n"
    first, second = read_notes(f"# hang\n\nSymptom: x\nCause: y\n\n{other}\n{table}")
    assert (first.title, second.title, second.name) == ("hang", "显存不足", "A-01")
    assert "A-01" not in str(first.parts)
    assert "剩余" in str(first.parts)


def test_a_copied_record_without_a_date_lies_in_the_year_of_its_id(tmp_path):
    first, second = Store(tmp_path / "a"), Store(tmp_path / "b")
    name = "20260302-120xb9cqbg"
    text = re.sub(r"(?m)^date:.*$", "date:", text_of(id=name))
    first.create(name, text, "2026")
    second.folder.mkdir()
    copy_records(first, second)
    assert [path for path, _ in second.files()] == [path for path, _ in first.files()] == [f"2026/{name}.md"]


def test_columns_of_no_known_name_are_kept_with_their_row():
    table = (
        "| 编号 | 故障 | 原因 | 备注 | 机房 |\n|---|---|---|---|---|\n| A-01 | 显存不足 | 样本过长 | 周末又来一次 | |\n"
    )
    (note,) = read_notes(table)
    assert note.loose == "备注: 周末又来一次"
    assert "周末又来一次" in record_text(note, "20260101-0000000000")
