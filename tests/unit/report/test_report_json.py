import json

import jsonschema
import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from firstfault.model.diagnosis import Diagnosis
from firstfault.pipelines.publish import publish
from firstfault.report import schema

TOP = ["schema", "redaction", "verdict", "job", "attempts", "chain", "rivals"]


def test_the_published_schema_is_what_the_model_says():
    assert schema.published() == schema.generate(), "run tools/generate_docs.py"


def test_the_schema_is_valid_and_every_report_follows_it(build_diagnosis):
    held = json.loads(schema.published())
    jsonschema.Draft202012Validator.check_schema(held)
    validator = jsonschema.Draft202012Validator(held)
    for level in ("none", "secrets", "identities"):
        validator.validate(json.loads(publish(build_diagnosis(), "json", level)))


def test_the_schema_describes_the_fields():
    parts = json.loads(schema.published())["$defs"]
    assert parts["Verdict"]["properties"]["failed"]["description"] == "None where the log merely stops."
    assert all("description" in part for part in parts.values())


def test_the_fixed_part_stands_first_and_absent_is_null(build_diagnosis):
    out = publish(build_diagnosis(), "json", "secrets")
    assert list(json.loads(out))[: len(TOP)] == TOP
    read = json.loads(out)
    assert read["schema"] == "firstfault.diagnosis/1"
    assert read["ranks"]["table"][0]["last_step"] is None
    assert read["redaction"] == "secrets"


def test_map_order_does_not_reach_the_bytes(build_diagnosis):
    one = build_diagnosis()
    two = build_diagnosis(job=dict(reversed(list(one.job.items()))))
    assert publish(one, "json", "secrets") == publish(two, "json", "secrets")


@settings(max_examples=80)
@given(st.text(max_size=100))
def test_a_reader_gets_back_what_was_said(build_diagnosis, text):
    out = publish(build_diagnosis(text), "json", "none")
    assert msgspec.json.decode(out, type=Diagnosis).verdict.trigger.text == text
