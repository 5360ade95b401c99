"""`firstfault check-config` as it is called: exit codes, formats, command lines as files, redaction."""

import json

import pytest

from firstfault.cli.main import run
from firstfault.report.schema import generate, published

GOOD = '{"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}}'
BAD = '{"train_batch_size": 33,\n "train_micro_batch_size_per_gpu": 4}'


@pytest.fixture
def file(tmp_path):
    def write(text, name="ds_config.json"):
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def test_exit_codes(file, tmp_path, capsys):
    assert run(["check-config", file(GOOD)]) == 0
    assert run(["check-config", file(BAD), "--world-size", "8"]) == 1
    assert run(["check-config", file("a: 1\n", "x.yaml")]) == 3
    assert run(["check-config", str(tmp_path / "absent.json")]) == 2
    assert run(["check-config", str(tmp_path)]) == 2
    assert run(["check-config"]) == 2
    (tmp_path / "b").write_bytes(b"\0\1\2")
    assert run(["check-config", str(tmp_path / "b")]) == 2
    assert "binary" in capsys.readouterr().err


def test_text_names_place_message_and_what_to_do(file, capsys):
    path = file(BAD)
    assert run(["check-config", path, "--world-size", "8"]) == 1
    said = capsys.readouterr().out
    assert said.startswith("WOULD FAIL")
    assert "ds_config.json:1" in "".join(said.split())
    assert "Check batch related parameters" in " ".join(said.split())
    assert "software.batch_arithmetic" in said
    assert run(["check-config", file(GOOD), "--all"]) == 0
    assert capsys.readouterr().out.startswith("NOTHING WRONG FOUND")


def test_chinese_keeps_numbers_names_and_messages(file, capsys):
    path = file(BAD)
    assert run(["check-config", path, "--world-size", "8", "--lang", "zh"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("会失败")
    assert "train_batch_size 33 不等于 4 (micro batch) x 1 (累积) x 8 (rank)，即 32" in said
    assert "Check batch related parameters" in said
    assert "software.batch_arithmetic" in said


def test_chinese_json_has_the_same_words_of_the_contract(file, capsys):
    path = file(BAD)
    run(["check-config", path, "--world-size", "8", "--format", "json"])
    english = json.loads(capsys.readouterr().out)
    run(["check-config", path, "--world-size", "8", "--format", "json", "--lang", "zh"])
    chinese = json.loads(capsys.readouterr().out)
    assert chinese["state"] == english["state"] == "fail"
    names = ("check", "state", "line", "message", "signature")
    assert [[f[n] for n in names] for f in chinese["findings"]] == [[f[n] for n in names] for f in english["findings"]]
    assert chinese["findings"][0]["why"] == "DeepSpeed 在第一个 step 之前停住"


def test_json_follows_its_schema(file, capsys):
    import jsonschema

    assert run(["check-config", file(BAD), "--world-size", "8", "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, json.loads(published("check-config")))
    assert document["schema"] == "firstfault.config-check/1"
    assert (document["state"], document["world_size"], document["world_size_from"]) == ("fail", 8, "--world-size")
    (finding,) = [f for f in document["findings"] if f["state"] == "fail"]
    assert (finding["check"], finding["line"]) == ("deepspeed.batch", 1)
    assert published("check-config") == generate("check-config")


def test_a_command_line_is_a_file(capsys):
    assert run(["check-config", "torchrun --nproc_per_node 8 t.py --output_dir o --per_device_train_batch_size 2 --fp16 --bf16"]) == 1  # fmt: skip
    assert "<command>:1" in capsys.readouterr().out


def test_secrets_and_identities_do_not_leave(file, capsys):
    text = "#!/bin/bash\n#SBATCH --hf-token=hf_abcdefghijklmnopqrstuvwxyzabcdefgh\n#SBATCH --mail-usr=maria@lab.example.org\npython x.py\n"
    path = file(text, "job.sh")
    run(["check-config", path])
    assert "hf_abcdefghijklmnop" not in capsys.readouterr().out
    run(["check-config", path, "--share"])
    assert "maria" not in capsys.readouterr().out


def test_a_file_that_is_checked_is_not_written_over(file):
    path = file(GOOD)
    assert run(["check-config", path, "--output", path]) == 2


def test_terminal_escapes_in_settings_stay_harmless(file, capsys):
    run(["check-config", file('{"train_batch_size": 1, "zero_optimization": {"stage": 1, "x\\u001b[31m": 2}}')])
    assert "\x1b" not in capsys.readouterr().out
