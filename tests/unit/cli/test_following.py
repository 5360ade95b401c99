"""What `diagnose --follow` prints."""

import json

import pytest

from firstfault.cli.main import run
from firstfault.pipelines import follow

LOG = (
    "step 1 loss 2.0\n"
    "[rank1]: Traceback (most recent call last):\n"
    '[rank1]:   File "/w/train.py", line 3, in <module>\n'
    "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """No time is spent waiting."""
    monkeypatch.setattr(follow.time, "sleep", lambda _: None)
    monkeypatch.setattr(follow.followed, "__kwdefaults__", {**follow.followed.__kwdefaults__, "sleep": lambda _: None})


def test_the_change_is_told_and_the_report_comes_last(tmp_path, capsys):
    (tmp_path / "run.log").write_text(LOG)
    assert run(["diagnose", str(tmp_path), "--follow"]) == 1
    shown = capsys.readouterr()
    assert shown.out.startswith("FAILED")
    assert shown.err.count("CUDA out of memory") == 1


def test_json_is_a_line_for_each_change(tmp_path, capsys):
    (tmp_path / "run.log").write_text(LOG)
    assert run(["diagnose", str(tmp_path), "--follow", "--format", "json", "--every", "1s"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["verdict"]["category"] for line in lines] == ["gpu_cuda"]


def test_a_file_gets_the_report(tmp_path, capsys):
    (tmp_path / "run.log").write_text(LOG)
    target = tmp_path.parent / "report.md"
    assert run(["diagnose", str(tmp_path), "--follow", "--format", "markdown", "-o", str(target)]) == 1
    assert "CUDA out of memory" in target.read_text()
    assert capsys.readouterr().out == ""
    target.unlink()


def test_a_wrong_interval_is_told(tmp_path, capsys):
    assert run(["diagnose", str(tmp_path), "--follow", "--every", "0"]) == 2
    assert "more than 0" in capsys.readouterr().err
