"""`firstfault diff`: two diagnoses that were kept as JSON, the second with the log of the missing node."""

import json

import hung_job
import jsonschema
import pytest

from firstfault.cli.main import run
from firstfault.report.schema import published


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("diff")
    logs = hung_job.write(folder / "logs")
    made = {}
    for name, inputs in (("half", [logs / "error-77-0.out"]), ("whole", sorted(logs.iterdir()))):
        made[name] = folder / f"{name}.json"
        run(["diagnose", *map(str, inputs), "--format", "json", "--output", str(made[name])])
    return made


def test_the_log_that_arrived_later_is_named_as_the_reason(kept, capsys):
    assert run(["diff", str(kept["half"]), str(kept["whole"])]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "- unknown + data_loading_stall" in out
    assert "+ rank 2, cn-08" in out
    assert "error-77-1.out:9, a file that the first diagnosis had not read" in out


def test_equal_diagnoses_end_with_0(kept, capsys):
    assert run(["diff", str(kept["whole"]), str(kept["whole"])]) == 0
    assert capsys.readouterr().out.startswith("The two verdicts are the same.")


def test_json_follows_its_schema(kept, capsys):
    assert run(["diff", str(kept["half"]), str(kept["whole"]), "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, json.loads(published("diff")))
    assert found["schema"] == "firstfault.diff/1"
    assert found["after"]["culprits"]["ranks"] == [2]


@pytest.mark.parametrize("text", ["", "{}", "[1]", "step 3 loss 1.0", '{"schema": "firstfault.ranks/1"}'])
def test_what_is_no_diagnosis_is_refused_with_what_to_do(kept, tmp_path, capsys, text):
    file = tmp_path / "x.json"
    file.write_text(text, encoding="utf-8")
    assert run(["diff", str(kept["whole"]), str(file)]) == 2
    assert "--format json" in capsys.readouterr().err


def test_names_are_not_compared_with_pseudonyms(kept, tmp_path, capsys):
    told = json.loads(kept["whole"].read_text(encoding="utf-8"))
    shared = tmp_path / "shared.json"
    shared.write_text(json.dumps({**told, "redaction": "identities"}), encoding="utf-8")
    assert run(["diff", str(kept["whole"]), str(shared)]) == 2
    assert "pseudonyms" in capsys.readouterr().err


def test_neither_diagnosis_is_overwritten(kept, capsys):
    before = kept["whole"].read_text(encoding="utf-8")
    assert run(["diff", str(kept["half"]), str(kept["whole"]), "--output", str(kept["whole"])]) == 2
    assert "would destroy it" in capsys.readouterr().err
    assert kept["whole"].read_text(encoding="utf-8") == before
