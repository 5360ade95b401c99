"""The head of a record: the dialect, and edits that touch nothing else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.incidents.errors import IncidentError
from firstfault.incidents.frontmatter import append_item, read_head, scalar_text, set_value, write_entry

TEXT = """---
# a comment of ours
state:   fixed   # agreed on Monday
title: "A: b # c"
note: 'it''s'
day: 2026-03-02
signatures:
  - gpu.out_of_memory   # the first

  # and the second
  - "nccl: x"
flow: [a, "b, c", 'd']
empty:
---

body  \r
with odd   ends
"""


def values(text):
    return {key: entry.value for key, entry in read_head(text).entries.items()}


def test_a_head_is_read_as_it_stands_without_types():
    assert values(TEXT) == {
        "state": "fixed",
        "title": "A: b # c",
        "note": "it's",
        "day": "2026-03-02",
        "signatures": ("gpu.out_of_memory", "nccl: x"),
        "flow": ("a", "b, c", "d"),
        "empty": "",
    }


def test_setting_a_key_changes_its_line_alone_and_keeps_its_comment():
    changed = set_value(TEXT, "state", "verified")
    assert changed == TEXT.replace("state:   fixed   # agreed", "state: verified   # agreed")
    assert set_value(TEXT, "state", "fixed") == TEXT


def test_an_item_is_added_behind_the_last_one_and_comments_between_stay():
    changed = append_item(TEXT, "signatures", "torch.x")
    assert changed == TEXT.replace('  - "nccl: x"\n', '  - "nccl: x"\n  - torch.x\n')


@pytest.mark.parametrize(("key", "item"), [("flow", "e"), ("empty", "e"), ("absent", "e"), ("state", "e")])
def test_an_item_is_added_to_what_is_no_block_list_too(key, item):
    before = values(TEXT).get(key, ())
    held = before if isinstance(before, tuple) else (before,) if before else ()
    changed = append_item(TEXT, key, item)
    assert values(changed) == {**values(TEXT), key: (*held, item)}
    assert changed.endswith("body  \r\nwith odd   ends\n")


def test_line_ends_of_the_file_are_kept():
    text = TEXT.replace("\r\n", "\n").replace("\n", "\r\n")
    changed = append_item(set_value(text, "state", "open"), "signatures", "x.y")
    assert "\n" not in changed.replace("\r\n", "")
    assert values(changed)["signatures"] == ("gpu.out_of_memory", "nccl: x", "x.y")


@given(st.text(max_size=60), st.lists(st.text(min_size=1, max_size=40), max_size=4))
def test_what_is_written_is_read_back(value, items):
    # A head holds no empty item: an empty text and an absent one are the same.
    text = "---\n" + write_entry("one", value) + write_entry("many", tuple(items)) + "---\n"
    read = values(text)
    assert read["one"] == value
    assert read["many"] == (tuple(items) if items else "")


@pytest.mark.parametrize(
    "value", ["no", "true", "12", "1e5", "2026-03-02", "12:30", "~x", "- a", "a: b", "x #y", " a", "null", "0x1F", ""]
)
def test_a_text_that_yaml_takes_for_something_else_is_quoted(value):
    assert scalar_text(value) == (json.dumps(value) if value else "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("state: open\n", "does not begin"),
        ("---\nstate: open\n", "has no end"),
        ("---\nstate: open\nstate: fixed\n---\n", "twice"),
        ("---\n\tstate: open\n---\n", "neither"),
        ("---\nState: open\n---\n", "neither"),
        ("---\nx: {a: b}\n---\n", "needs quotes"),
        ("---\nx: a: b\n---\n", "needs quotes"),
        ('---\nx: "a" b\n---\n', "behind the closing quote"),
        ("---\nx: [a\n---\n", "end on its line"),
    ],
)
def test_what_is_outside_the_dialect_is_refused_with_its_line(text, said):
    with pytest.raises(IncidentError, match=said) as caught:
        read_head(text, "a.md")
    assert "a.md" in caught.value.where
    assert caught.value.fix


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("list:   # none yet", 'list:   # none yet\n  - "rerun: x"'),
        ("list: []   # none", 'list: ["rerun: x"]   # none'),
        ("list: [\"command: a => b\", 'it''s # so']  # two", "list: [\"command: a => b\", 'it''s # so', \"rerun: x\"]  # two"),
        ("list: [a, b, ]", 'list: [a, b, "rerun: x"]'),
        ('list: "one: 1"   # one', 'list:   # one\n  - "one: 1"\n  - "rerun: x"'),
        ("list:\n      - deep\n      # end", 'list:\n      - deep\n      - "rerun: x"\n      # end'),
        ("other: 1", 'other: 1\nlist:\n  - "rerun: x"'),
    ],
)  # fmt: skip
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_item_is_added_and_no_comment_or_other_item_is_touched(line, after, end):
    text = f"---\nstate: open\n{line}\n---\n\n# T\n".replace("\n", end)
    changed = append_item(text, "list", "rerun: x")
    assert changed == f"---\nstate: open\n{after}\n---\n\n# T\n".replace("\n", end)
    assert read_head(changed).entries["list"].value[-1] == "rerun: x"


def test_a_list_that_is_set_keeps_the_comment_of_its_line():
    assert "list:   # two\n  - c\n" in set_value("---\nlist: [a, 'b]']   # two\n---\n", "list", ("c",))
