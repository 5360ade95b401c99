"""Records and their folder: reading, sections in both languages, writers that do not collide, edits that keep bytes."""

import contextlib
import os
import threading
from datetime import date

import pytest
from incident_text import text_of

from firstfault.incidents.errors import IncidentError
from firstfault.incidents.frontmatter import set_value
from firstfault.incidents.ids import new_id
from firstfault.incidents.record import LARGEST, is_open, parse
from firstfault.incidents.store import Store
from firstfault.incidents.words import HEADINGS, Section, State


def test_sections_are_known_by_their_headings_in_both_languages():
    for table in HEADINGS.values():
        body = "".join(f"## {heading}\n\ntext of {section}\n\n" for section, heading in table.items())
        record = parse(f"---\nid: a\nstate: open\n---\n\n# T\n\n{body}")
        assert record.sections == {section: f"text of {section}" for section in Section}
        assert record.title == "T"


def test_a_heading_inside_code_is_text_and_an_unknown_one_ends_a_section():
    body = "## Symptom\n\n```text\n## Fix\n```\n\n### detail\n\nx\n\n## Notes of ours\n\nnot a symptom\n"
    record = parse(f"---\nid: a\nstate: open\n---\n{body}")
    assert "## Fix" in record.sections[Section.SYMPTOM]
    assert record.sections[Section.SYMPTOM].endswith("x")
    assert Section.FIX not in record.sections


@pytest.mark.parametrize("text", ["", "  ", "OPEN: x", "> OPEN: x", "**OPEN:** x", "a\n\n待填：x", "- OPEN: later"])
def test_a_part_that_waits_for_a_person_is_open(text):
    assert is_open(text)
    assert not is_open("It was the OPENING of the file.")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("---\nschema: firstfault.incident/9\nid: a\nstate: open\n---\n", "schema"),
        ("---\nid: a b\nstate: open\n---\n", "no `id`"),
        ("---\nid: a\nstate: done\n---\n", "state"),
        ("---\nid: a\n---\n", "state"),
    ],
)
def test_what_is_no_record_is_refused(text, said):
    with pytest.raises(IncidentError, match=said):
        parse(text)


def test_ids_of_one_day_differ_in_their_chance_and_sort_by_day():
    assert new_id(date(2026, 3, 2), b"\0" * 7) == "20260302-0000000000"
    assert new_id(date(2026, 3, 2), b"\0" * 6 + b"\1") == "20260302-1000000000"
    assert len({new_id(date(2026, 3, 2), bytes([i, j, 0, 0, 0, 0, 0])) for i in range(4) for j in range(256)}) == 1024


def test_many_writers_of_one_name_leave_one_whole_file(store):
    won, lost = [], []

    def write(number):
        try:
            won.append((number, store.create("same", text_of(id="same", title=f"writer {number}"))))
        except IncidentError:
            lost.append(number)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert len(lost) == 7
    assert [name for name, _ in store.files()] == ["same.md"]
    assert store.read("same.md").title == f"writer {won[0][0]}"


def test_a_change_keeps_every_other_byte_and_refuses_a_file_that_somebody_else_changed(store):
    text = text_of().replace("\n", "\r\n").replace("interrupted.", "interrupted.  \ttrailing\u3000")
    path = store.folder / "20260302-aaaaaaaaaa.md"
    path.write_bytes(text.encode())
    record = store.read(path.name)
    changed = Store.change(record, lambda t: set_value(t, "state", "rejected"))
    assert changed.state is State.REJECTED
    assert path.read_bytes() == text.replace("state: open", "state: rejected").encode()
    with pytest.raises(IncidentError, match="meanwhile"):
        Store.change(record, lambda t: set_value(t, "state", "fixed"))
    assert [name for name, _ in store.files()] == [path.name]


def test_of_two_changes_at_once_one_is_kept_and_the_other_is_told(store, put, monkeypatch):
    record = store.read(put().name)
    both = threading.Barrier(2)
    plain = os.urandom

    def slow(size):
        # Between the look at the file and its replacement; who is alone there goes on.
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.5)
        return plain(size)

    monkeypatch.setattr("firstfault.incidents.store.os.urandom", slow)
    won, lost = [], []

    def change(title):
        try:
            won.append(Store.change(record, lambda t: set_value(t, "title", title)).title)
        except IncidentError:
            lost.append(title)

    threads = [threading.Thread(target=change, args=(title,)) for title in ("one", "other")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 1)
    assert store.read(record.path.name).title == won[0]


def test_a_record_is_never_written_larger_than_one_is_read(store, put):
    record = store.read(put().name)
    with pytest.raises(IncidentError, match="more than a page"):
        Store.change(record, lambda t: t + "x" * LARGEST)
    with pytest.raises(IncidentError, match="more than a page"):
        store.create("large", text_of(id="large") + "x" * LARGEST)
    assert store.records()[0] == [record]
    assert {p.name for p in store.folder.iterdir()} == {record.path.name}


def test_a_change_that_would_make_no_record_is_refused(store, put):
    record = store.read(put().name)
    before = record.path.read_bytes()
    with pytest.raises(IncidentError):
        Store.change(record, lambda t: t.replace("state: open", "state: whatever"))
    assert record.path.read_bytes() == before


def test_folders_links_and_other_pages_are_told_apart(store, put, tmp_path):
    put()
    (store.folder / "2026").mkdir()
    (store.folder / "2026" / "b.md").write_text(text_of(id="b"), encoding="utf-8")
    (store.folder / "README.md").write_text("# about\n", encoding="utf-8")
    (store.folder / "broken.md").write_text("no head\n", encoding="utf-8")
    (tmp_path / "secret.md").write_text(text_of(id="secret"), encoding="utf-8")
    (store.folder / "link.md").symlink_to(tmp_path / "secret.md")
    records, wrong = store.records()
    assert sorted(r.id for r in records) == ["20260302-aaaaaaaaaa", "b"]
    assert [e.where.endswith("broken.md") for e in wrong] == [True]


@pytest.mark.parametrize(
    "own", ["owner:\n  team: infra\n  rota: [a, b]\n", "more: {a: 1}\n", "note: |\n  long\n  text\n"]
)
def test_what_a_team_keeps_under_keys_of_its_own_is_kept_and_no_hindrance(store, put, own):
    path = put()
    before = path.read_text(encoding="utf-8").replace("date:", f"{own}date:", 1)
    path.write_text(before, encoding="utf-8")
    record = store.read(path.name)
    assert record.one("date") == "2026-03-02"
    Store.change(record, lambda t: set_value(t, "state", "rejected"))
    assert path.read_text(encoding="utf-8") == before.replace("state: open", "state: rejected")


@pytest.mark.parametrize("ours", ["title: {a: 1}\n", "verifications:\n  - a: b\n", "state: open\n  more\n"])
def test_a_key_of_ours_has_to_be_a_text_or_a_list_of_texts(ours):
    state = "" if ours.startswith("state") else "state: open\n"
    with pytest.raises(IncidentError, match=r"needs quotes|neither"):
        parse(f"---\nid: x\n{state}{ours}---\n")
