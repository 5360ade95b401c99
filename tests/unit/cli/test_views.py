"""The commands `ranks` and `timeline`: exit codes, formats, refusals."""

import io
import json
import re
from pathlib import Path

import hung_job
import jsonschema
import pytest

from firstfault.cli.main import run
from firstfault.report.schema import DOCUMENTS, generate, published


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    return str(hung_job.write(tmp_path_factory.mktemp("hung") / "logs"))


@pytest.mark.parametrize("command", ["ranks", "timeline"])
def test_a_view_ends_like_the_diagnosis_of_the_same_input(job, tmp_path, capsys, command):
    assert run([command, job]) == 1
    assert run([command, job, "--exit-zero"]) == 0
    (tmp_path / "a.log").write_text("nothing to see\n", encoding="utf-8")
    assert run([command, str(tmp_path)]) == 3
    (tmp_path / "a.log").write_bytes(b"")
    assert run([command, str(tmp_path)]) == 2
    assert "nothing there could be read" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["ranks", "timeline"])
def test_its_json_follows_its_schema(job, capsys, command):
    run([command, job, "--format", "json"])
    out = json.loads(capsys.readouterr().out)
    jsonschema.validate(out, json.loads(published(command)))
    assert out["schema"] == f"firstfault.{command}/1"
    assert out["redaction"] == "secrets"
    assert run(["schema", command]) == 0
    assert capsys.readouterr().out == published(command)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_published_schemas_are_those_of_the_model_and_are_printed(name, capsys):
    assert published(name) == generate(name)
    assert run(["schema", name]) == 0
    assert capsys.readouterr().out == published(name)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ranks", "--attempt", "all"], "a table shows one"),
        (["ranks", "--attempt", "7"], "there is no attempt 7"),
        (["ranks", "--rank", "3-1"], "is no rank"),
        (["ranks", "--rank", "x"], "is no rank"),
        (["ranks", "--part", "guilty"], "guilty"),
        (["ranks", "--group", "nope"], "`default`"),
        (["ranks", "--share", "--raw"], "choose one"),
        (["timeline", "--role", "guilty"], "guilty"),
        (["timeline", "--since", "2026-13-01"], "is no time"),
    ],
)
def test_wrong_use_is_2_and_says_what_would_be_right(job, capsys, words, said):
    assert run([words[0], job, *words[1:]]) == 2
    assert said in capsys.readouterr().err


def test_filters_reach_the_table(job, capsys):
    run(["ranks", job, "--rank", "0,2-3", "--host", "cn-08", "--part", "notified", "--format", "csv"])
    assert [line.split(",")[0] for line in capsys.readouterr().out.splitlines()] == ["rank", "2"]
    run(["ranks", job, "--outliers", "--evidence"])
    assert "Received a dump" in capsys.readouterr().out


def test_a_view_can_be_written_to_a_file(job, tmp_path, capsys):
    out = tmp_path / "ranks.csv"
    assert run(["ranks", job, "--format", "csv", "-o", str(out)]) == 1
    assert out.read_text(encoding="utf-8").startswith("rank,local_rank,")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("command", ["ranks", "timeline"])
def test_raw_says_so(job, capsys, command):
    run([command, job, "--raw"])
    assert "SECRETS ARE NOT REMOVED" in capsys.readouterr().out


DEMO = str(Path(__file__).resolve().parents[3] / "examples" / "incident" / "logs")


@pytest.mark.parametrize(
    "words", [["timeline", "--rank", "37"], ["timeline", "--host", "nowhere"], ["ranks", "--rank", "37"]]
)
def test_filters_that_leave_nothing_say_so(words, capsys):
    assert run([*words, DEMO]) == 1
    told = capsys.readouterr().err
    assert f"nothing in this input matches {words[1]}" in told
    assert "firstfault ranks" in told
    assert run([words[0], "--rank", "0", DEMO]) == 1
    assert capsys.readouterr().err == ""


def test_evidence_names_the_columns_that_the_reader_sees(capsys):
    assert run(["ranks", "--evidence", DEMO]) == 1
    out = capsys.readouterr().out
    assert "stuck in, elements" in out
    assert "groups.0" not in out
    assert "numel_in" not in out


COMMANDS = ["diagnose", "ranks", "timeline", "metrics", "stacks", "memory", "flight-recorder"]


@pytest.mark.parametrize("command", COMMANDS)
def test_all_views_say_the_same_of_an_input_that_is_not_there(command, tmp_path, capsys, monkeypatch):
    (tmp_path / "empty").mkdir()
    (tmp_path / "hollow.log").touch()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    expected = {
        str(tmp_path / "gone"): ("gone", "no such file or folder"),
        str(tmp_path / "empty"): ("empty", "no file was found"),
        str(tmp_path / "hollow.log"): ("hollow.log", "empty"),
        "-": ("<stdin>", "empty"),
    }
    for path, (where, why) in expected.items():
        assert run([command, path]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert "nothing there could be read" in said.err
        assert where in said.err
        assert f"why: {why}" in said.err or f", {why}" in said.err
        assert "what to do: Give the job's log files" in said.err
    assert run([command]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"firstfault: firstfault {command}: no PATH was given")
    assert "`-` reads standard input" in said


@pytest.mark.parametrize("command", ["metrics", "flight-recorder"])
def test_a_view_that_finds_nothing_of_its_own_does_not_say_that_nothing_was_read(command, tmp_path, capsys):
    (tmp_path / "a.log").write_text("RuntimeError: CUDA error: an illegal memory access was encountered\n")
    assert run([command, str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "nothing there could be read" not in said
    assert "there could be used" in said
    assert "what to do: Give" in said


@pytest.mark.parametrize(("command", "what"), [("ranks", "3 of 4 ranks"), ("timeline", r"\d+ events")])
def test_a_filter_says_how_much_it_hides_in_every_format(command, what, job, capsys):
    run([command, job, "--rank", "0"])
    assert re.search(f"^{what} are left out by the filters", capsys.readouterr().out, re.MULTILINE)
    run([command, job, "--rank", "0", "--format", "csv"])
    assert re.search(r"\d+ \w+ are left out by --rank", capsys.readouterr().err)
    run([command, job, "--rank", "0", "--format", "json"])
    assert json.loads(capsys.readouterr().out)["left_out"] > 0
    run([command, job])
    assert "left out by the filters" not in capsys.readouterr().out
