"""`firstfault checkpoint`: exit codes, formats, what is refused, and that what a stranger wrote is neutral."""

import json
import pickle
import struct
import zipfile

import jsonschema
import pytest

from firstfault.cli.main import run
from firstfault.i18n.glossary import WORDS
from firstfault.model import checkpoint
from firstfault.report.schema import published


@pytest.fixture
def weights(tmp_path):
    """Two files of safetensors that differ in one element."""

    def write(name, numbers, tensor="layer.weight"):
        header = json.dumps({tensor: {"dtype": "F32", "shape": [len(numbers)], "data_offsets": [0, 4 * len(numbers)]}})
        raw = header.encode()
        file = tmp_path / name
        file.write_bytes(struct.pack("<Q", len(raw)) + raw + struct.pack(f"<{len(numbers)}f", *numbers))
        return str(file)

    return write


def test_exit_codes_of_verify(weights, tmp_path, capsysbinary):
    good = weights("good.safetensors", [1.0, 2.0])
    assert run(["checkpoint", "verify", good]) == 0
    assert capsysbinary.readouterr().out.startswith(b"COMPLETE")
    assert run(["checkpoint", "verify", weights("bad.safetensors", [1.0, float("nan")])]) == 1
    assert b"nan  bad.safetensors 1 elements of its weights are NaN" in capsysbinary.readouterr().out
    (tmp_path / "empty").mkdir()
    assert run(["checkpoint", "verify", str(tmp_path / "empty")]) == 2
    error = capsysbinary.readouterr().err
    assert b"no checkpoint was found there" in error
    assert b"what to do" in error
    assert run(["checkpoint", "verify", str(tmp_path / "nowhere")]) == 2


def test_exit_codes_of_compare(weights, capsysbinary):
    one, same = weights("a.safetensors", [1.0, 2.0]), weights("b.safetensors", [1.0, 2.0])
    other = weights("c.safetensors", [1.0, 2.5])
    assert run(["checkpoint", "compare", one, same]) == 0
    assert run(["checkpoint", "compare", one, other]) == 1
    out = capsysbinary.readouterr().out.decode()
    assert "differs in 1 of 2 elements, first at [1]: 2 in the first and 2.5 in the second" in " ".join(out.split())


@pytest.mark.parametrize("name", ["checkpoint", "checkpoint-compare"])
def test_json_follows_its_schema(weights, capsysbinary, name):
    one, other = weights("a.safetensors", [1.0, 2.0]), weights("c.safetensors", [1.0, 2.5])
    words = ["verify", one] if name == "checkpoint" else ["compare", one, other]
    run(["checkpoint", *words, "--format", "json"])
    jsonschema.validate(json.loads(capsysbinary.readouterr().out), json.loads(published(name)))


def test_names_of_a_stranger_are_neutral_and_secrets_go(weights, capsysbinary):
    key = "hf_" + "aB3dE5fG7h" * 3 + "Xyz9"
    file = weights("x.safetensors", [float("nan")], tensor=f"\x1b[31m {key}")
    run(["checkpoint", "verify", file])
    out = capsysbinary.readouterr().out.decode()
    assert "\x1b" not in out
    assert key not in out
    assert "\\x1b" in out


def test_a_checkpoint_is_not_written_over(weights):
    file = weights("a.safetensors", [1.0])
    assert run(["checkpoint", "verify", file, "--output", file]) == 2
    assert run(["checkpoint", "verify", file]) == 0


class Act:
    def __reduce__(self):
        return (open, ("ran", "w"))


def test_nothing_of_a_pickle_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with zipfile.ZipFile(tmp_path / "bad.pt", "w") as archive:
        archive.writestr("bad/data.pkl", pickle.dumps({"model": Act(), "step": 4}, 2))
        archive.writestr("bad/version", "3")
    assert run(["checkpoint", "verify", "bad.pt"]) == 1  # damaged: it would run something
    assert not (tmp_path / "ran").exists()


def test_every_word_is_explained():
    assert set(WORDS["checkpoint problem"]) == set(checkpoint.ProblemKind.__args__)
    assert set(WORDS["checkpoint comparison"]) == set(checkpoint.Sameness.__args__)
