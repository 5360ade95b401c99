"""SARIF is held against the schema of its version, and says what the diagnosis says."""

import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstfault.model.diagnosis import Classes, CoverageRow, Culprits, FirstFailed, Verdict
from firstfault.model.words import ActionKind, Category, CoverageState, Strength
from firstfault.pipelines.publish import publish

SCHEMA = Path(__file__).parents[3] / "web/node_modules/@microsoft/jest-sarif/lib/schemas/sarif-2.1.0-rtm.5.json"


def run_of(diagnosis):
    log = json.loads(publish(diagnosis, "sarif", "secrets"))
    if SCHEMA.is_file():
        jsonschema.Draft7Validator(json.loads(SCHEMA.read_text(encoding="utf-8"))).validate(log)
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    return run


def ended(build, failed, category=Category.UNKNOWN, strength=Strength.UNKNOWN):
    first = build().verdict
    return build(
        verdict=Verdict(
            failed=failed,
            category=category,
            strength=strength,
            summary="It ended.",
            culprits=Culprits(),
            first_failed=FirstFailed(),
            trigger=None,
            classes=Classes(),
            action=type(first.action)(kind=ActionKind.COLLECT_MORE),
        )
    )


def test_the_schema_is_at_hand():
    if not SCHEMA.is_file():
        pytest.skip("the schema of SARIF is not here: `npm ci --prefix web` fetches it")
    assert json.loads(SCHEMA.read_text(encoding="utf-8"))["title"].startswith(
        "Static Analysis Results Format (SARIF) Version 2.1.0"
    )


def test_the_verdict_is_the_first_result_at_its_line(build_diagnosis):
    run = run_of(build_diagnosis())
    result = run["results"][0]
    assert (result["ruleId"], result["kind"], result["level"]) == ("first-fault/data_loading_stall", "fail", "error")
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "error-4711-4.out"
    assert place["region"]["startLine"] == 1893
    assert result["properties"]["culprits"]["ranks"] == [37]
    steps = result["codeFlows"][0]["threadFlows"][0]["locations"]
    assert [s["location"]["physicalLocation"]["region"]["startLine"] for s in steps] == [1893, 20]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]


def test_a_rival_is_there_to_be_reviewed_and_is_no_alarm(build_diagnosis):
    rival = run_of(build_diagnosis())["results"][1]
    assert (rival["ruleId"], rival["kind"], rival["level"]) == ("rival/network", "review", "none")
    assert "rank 37 never enqueued it" in rival["message"]["text"]


@pytest.mark.parametrize(
    ("failed", "category", "strength", "kind", "level"),
    [
        (False, Category.NONE, Strength.ESTABLISHED, "pass", "none"),
        (None, Category.UNKNOWN, Strength.UNKNOWN, "open", "none"),
        (True, Category.UNKNOWN, Strength.UNKNOWN, "fail", "warning"),
        (True, Category.NETWORK, Strength.POSSIBLE, "fail", "warning"),
        (True, Category.NETWORK, Strength.SUPPORTED, "fail", "error"),
    ],
)
def test_only_a_failure_of_a_known_kind_is_an_error(build_diagnosis, failed, category, strength, kind, level):
    result = run_of(ended(build_diagnosis, failed, category, strength))["results"][0]
    assert (result["kind"], result["level"]) == (kind, level)


def test_what_was_not_read_is_told(build_diagnosis):
    told = run_of(build_diagnosis())["invocations"][0]["toolExecutionNotifications"]
    assert [t["message"]["text"] for t in told] == ["core.88: skipped, binary"]


@settings(max_examples=40, deadline=None)
@given(st.text(min_size=1, max_size=40))
def test_any_text_and_any_file_name_give_a_valid_log(build_diagnosis, text):
    run = run_of(build_diagnosis(text, coverage=[CoverageRow(file=text, state=CoverageState.READ)]))
    uri = run["artifacts"][0]["location"]["uri"]
    assert uri.isascii()
    assert not set(uri) & set(' <>"{}|\\^`:')


def test_the_fingerprint_is_that_of_the_kind_of_line_and_not_of_its_numbers(build_diagnosis):
    def prints(text):
        return run_of(build_diagnosis(text))["results"][0]["partialFingerprints"]

    assert prints("rank 3 failed at step 100") == prints("rank 9 failed at step 7")
    assert prints("rank 3 failed at step 100") != prints("rank 3 stalled at step 100")
