"""Tables for a terminal, and CSV that a spreadsheet cannot run."""

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstfault.report.tabular import aligned, separated
from firstfault.report.text import columns


@pytest.mark.parametrize(
    "cell",
    ["=1+2", "+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\t=1", "  =1", "\uff1d1", "|x", "%0A=1"],
)
def test_a_text_that_could_be_a_formula_is_none(cell):
    (row,) = list(csv.reader(io.StringIO(separated(["a"], [[cell]]))))[1:]
    assert row[0].startswith("'")


def test_numbers_and_plain_texts_stay_as_they_are():
    text = separated(["a", "b", "c", "d"], [[-9, "rank 3", None, 'a,"b"']])
    assert list(csv.reader(io.StringIO(text)))[1] == ["-9", "rank 3", "", 'a,"b"']


@settings(max_examples=80)
@given(st.lists(st.lists(st.text(max_size=60), min_size=4, max_size=4), max_size=6), st.integers(40, 120))
def test_no_line_is_wider_than_the_page_and_no_cell_is_lost(rows, width):
    lines = aligned(["one", "two", "three", "four"], rows, width)
    assert all(columns(line) <= width for line in lines)
    shown = "".join("".join(lines).split())
    for row in rows:
        for cell in row:
            for word in cell.split():
                if word.isascii() and word.isalnum():
                    assert word in shown


def test_columns_without_content_are_left_out():
    assert aligned(["rank", "host", "step"], [["0", "", "7"]], 80) == ["rank  step", "0     7"]
