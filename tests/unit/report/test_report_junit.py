"""JUnit: one case a check, well formed whatever stands in it."""

from xml.etree import ElementTree as ET

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_report_sarif import ended

from firstfault.model.diagnosis import AttemptSummary, CoverageRow, Ranks, Verification, Withdrawn
from firstfault.model.words import Category, CoverageState, Strength
from firstfault.pipelines.publish import publish


def suite_of(diagnosis):
    return ET.fromstring(publish(diagnosis, "junit", "secrets").encode()).find("testsuite")


def results(diagnosis):
    """Group -> name -> how the case ended."""
    found = {}
    for case in suite_of(diagnosis).iter("testcase"):
        group = case.get("classname").removeprefix("firstfault.")
        found.setdefault(group, {})[case.get("name")] = case[0].tag if len(case) else "passed"
    return found


def test_a_failed_job_is_a_failed_case_that_says_why(build_diagnosis):
    case = next(c for c in suite_of(build_diagnosis()).iter("testcase") if c.get("classname") == "firstfault.verdict")
    assert case[0].tag == "failure"
    assert case[0].get("type") == "data_loading_stall"
    assert case[0].get("message").startswith("Rank 37 (node-04) never entered")
    assert "error-4711-4.out:1893: [rank37]: tokenizing shard 12 of 40" in case[0].text.splitlines()


def test_every_input_attempt_and_check_is_a_case(build_diagnosis):
    found = results(build_diagnosis())
    assert found["inputs"] == {"error-4711-0.out": "passed", "core.88": "skipped"}
    assert list(found["attempts"].values()) == ["passed", "failure"]
    assert list(found["completeness"].values()) == ["failure"]
    assert list(found["verification"].values()) == ["passed"]


@pytest.mark.parametrize(
    ("failed", "category", "strength", "result"),
    [
        (False, Category.NONE, Strength.ESTABLISHED, "passed"),
        (None, Category.UNKNOWN, Strength.UNKNOWN, "error"),
        (True, Category.UNKNOWN, Strength.UNKNOWN, "failure"),
    ],
)
def test_what_is_not_decidable_is_an_error_and_no_failure(build_diagnosis, failed, category, strength, result):
    assert list(results(ended(build_diagnosis, failed, category, strength))["verdict"].values()) == [result]


def test_the_counts_are_those_of_the_cases(build_diagnosis):
    gone = [Withdrawn(file="a", line=1, why="the bytes at that place are different now")]
    suite = suite_of(
        build_diagnosis(
            verification=Verification(claims=2, reread=1, withdrawn=gone),
            ranks=Ranks(expected=2, seen=2),
            attempts=[AttemptSummary(number=1, ended="failed", diagnosed=True)],
        )
    )
    cases = [c[0].tag if len(c) else "passed" for c in suite.iter("testcase")]
    assert int(suite.get("tests")) == len(cases)
    assert int(suite.get("failures")) == cases.count("failure") == 2
    assert int(suite.get("skipped")) == cases.count("skipped") == 1
    assert int(suite.get("errors")) == cases.count("error") == 0


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60))
@example("]]></failure><x/>\x00\ufffe\uffff\ud800")
def test_any_text_gives_well_formed_xml(build_diagnosis, text):
    suite = suite_of(build_diagnosis(text, coverage=[CoverageRow(file=text, state=CoverageState.MISSING, reason=text)]))
    assert {e.tag for e in suite.iter()} <= {
        "testsuite",
        "properties",
        "property",
        "testcase",
        "failure",
        "error",
        "skipped",
    }


def test_names_of_cases_hold_no_language_outcome_or_count(build_diagnosis):
    def names(diagnosis, language="en"):
        root = ET.fromstring(publish(diagnosis, "junit", "secrets", language=language).encode())
        return [(c.get("classname"), c.get("name")) for c in root.iter("testcase")]

    ended_otherwise = [AttemptSummary(number=n, ended="failed", diagnosed=n == 2) for n in (1, 2)]
    more = build_diagnosis(verification=Verification(claims=99, reread=98), attempts=ended_otherwise)
    assert names(build_diagnosis()) == names(build_diagnosis(), "zh") == names(more)


def test_of_many_inputs_those_that_were_not_read_have_a_case_and_the_rest_is_counted(build_diagnosis):
    read = [CoverageRow(file=f"node-{n:04d}.log", state=CoverageState.READ, bytes=1) for n in range(2500)]
    torn = CoverageRow(file="node-9999.log", state=CoverageState.DAMAGED, bytes=1, reason="the archive ends early")
    diagnosis = build_diagnosis(coverage=[*read, torn])
    found = results(diagnosis)["inputs"]
    assert found["node-9999.log"] == "failure"
    assert len(found) == 2001
    rest = next(c for c in suite_of(diagnosis).iter("testcase") if c.get("name") == "Further inputs")
    assert "501" in rest[0].text
    assert suite_of(diagnosis).get("tests") == str(len(list(suite_of(diagnosis).iter("testcase"))))
