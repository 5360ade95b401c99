"""The table about hangs: every row of the code stands in the page, every row of the page has a test that meets it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from firstfault.analysis.questions.hang import ROWS

REPOSITORY = Path(__file__).parents[3]
PAGE = (REPOSITORY / "docs/explanation/hang-decision-table.md").read_text(encoding="utf-8")
LABELS = {
    "named": "named",
    "outside": "outside",
    "outside_many": "outside, many",
    "most_outside": "most outside",
    "frozen": "frozen",
    "gone": "gone",
    "silent": "silent",
    "behind": "behind",
    "ways": "ways",
    "inside": "inside",
    "inside_group": "inside, a group",
    "pairs": "pairs",
    "apart": "apart",
    "quiet": "quiet",
    "saving": "saving",
    "circle": "circle, not stated",
    "unaccounted": "not decided",
}
"""Rows of the code by their label in the page."""
ELSEWHERE = {
    "(before all) an earlier fault": "test_a_process_that_died_before_anybody_timed_out_makes_the_wait_an_effect",
    "mismatch": "test_another_op_at_the_same_number_names_the_odd_one_out",
    "mismatch, no numbers": "test_lines_without_numbers_show_different_ops_as_a_possibility",
    "circle": "test_two_groups_that_wait_for_each_other_are_a_mismatch_with_both_named",
    "mismatch (DETAIL)": "test_the_check_before_a_collective_names_the_rank_that_most_others_name",
    "outside, in another collective": "test_a_rank_inside_another_collective_did_not_stall_but_took_another_path",
}
"""Rows of the page that other questions answer, each with its test."""


def rows_of_the_page():
    table = PAGE[PAGE.index("| row | evidence |") :].split("\n\n", 1)[0]
    return [line.split("|")[1].strip() for line in table.splitlines()[2:]]


def test_the_page_has_the_rows_of_the_code_and_no_others():
    assert {row.name for row in ROWS} | {"unaccounted"} == set(LABELS)
    assert set(rows_of_the_page()) == set(LABELS.values()) | set(ELSEWHERE)


def texts():
    found = (REPOSITORY / "tests/unit").rglob("test_*.py")
    return [path.read_text(encoding="utf-8") for path in found if path != Path(__file__)]


@pytest.mark.parametrize("name", LABELS)
def test_every_row_has_a_test_that_expects_it(name):
    asked = re.compile(rf'(?:row|applied) == "{name}"')
    assert any(asked.search(text) for text in texts())


@pytest.mark.parametrize("test", ELSEWHERE.values())
def test_every_row_of_another_question_has_its_test(test):
    assert any(f"def {test}(" in text for text in texts())
