"""With `--share` no view of any command lets a planted name of a person or a machine through, in content, folders or names of files."""

import re
import shutil
from pathlib import Path

import pytest

from firstfault.cli.main import run
from firstfault.privacy.file_names import names_in

EXAMPLES = Path(__file__).parents[3] / "examples"
PEOPLE = ("alicewu", "bobtan", "carolz", "davidp", "erikk", "frankl", "gracem", "hannahq")
MACHINES = ("gpu-n017", "gpu-n018", "nid003344", "pod-x7", "quokka")
_ROW = (
    " iteration {step:8}/    1000 | consumed samples: {step} | elapsed time per iteration (ms): 200.0 | learning rate: 1.0E-04"
    " | global batch size: 8 | lm loss: {loss} | grad norm: 1.0 | number of skipped iterations: 0 | number of nan iterations: 0 |\n"
)


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """A failed job whose files are named after people and machines, some of which nothing else names."""
    root = tmp_path_factory.mktemp("job")
    files = {
        "alicewu_run/gpu-n017.out": "".join(
            _ROW.format(step=n, loss="2.0E+00" if n < 9 else "NAN") for n in range(1, 12)
        ),
        "alicewu_run/pdsh (erikk) 2.log": "nid003344: [rank1]: Traceback (most recent call last):\n"
        'nid003344: [rank1]:   File "/home/carolz/x/train.py", line 3, in <module>\nnid003344: [rank1]: ValueError: bad\n',
        "deep/davidp/gpu-n018_metrics.jsonl": '{"step":1,"loss":1.0,"host":"gpu-n018"}\n{"step":2,"loss":NaN,"host":"gpu-n018"}\n',
        "deep/davidp/frankl.csv": "step,loss\n1,2.0\n2,nan\n",
        "deep/stack_bobtan_quokka_rank0.txt": "Thread 0x00007f0000000000 (most recent call first):\n"
        '  File "/home/carolz/x/train.py", line 10 in forward\n  File "/home/carolz/x/train.py", line 20 in <module>\n',
        "deep/gracem-notes.log": "[rank0]: see gracem-notes.log and deep/davidp/frankl.csv\n[rank0]: RuntimeError: no\n",
    }
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    shutil.copy(EXAMPLES / "memory" / "rank1_memory_snapshot.pickle", root / "deep" / "hannahq_pod-x7_rank1.pickle")
    return root


def _told(text):
    return sorted(name for name in (*PEOPLE, *MACHINES) if re.search(name, text, re.IGNORECASE))


@pytest.mark.parametrize(
    ("command", "forms"),
    [
        ("diagnose", ["text", "markdown", "html", "json", "sarif", "junit"]),
        ("ranks", ["text", "csv", "json"]),
        ("timeline", ["text", "csv", "json"]),
        ("metrics", ["text", "json"]),
        ("stacks", ["text", "json"]),
        ("memory", ["text", "json"]),
        ("batch", ["text", "csv", "json"]),
    ],
)
def test_no_view_tells_a_name(command, forms, job, capsys, monkeypatch):
    monkeypatch.chdir(job)
    for form in forms:
        for language in ("en", "zh"):
            assert run([command, ".", "--share", "--format", form, "--exit-zero", "--lang", language]) == 0
            told = capsys.readouterr().out
            assert told.strip()
            assert _told(told) == [], (form, language)


def test_without_it_the_names_are_there(job, capsys, monkeypatch):
    """Else the test above would hold of anything."""
    monkeypatch.chdir(job)
    seen = set()
    for command in ("diagnose", "timeline", "metrics", "stacks", "memory"):
        assert run([command, ".", "--format", "json", "--exit-zero"]) == 0
        seen.update(_told(capsys.readouterr().out))
    assert seen == {*PEOPLE, *MACHINES}


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("slurm-12345_3.out", []),
        ("worker_rank12.stderr.log", []),
        ("attempt_0-rank3.stdout", []),
        ("events.out.tfevents.1717171717.gpu-n017.4242.0", ["gpu-n017"]),
        ("train_alicewu-2024-05-06.log", ["alicewu-2024-05-06"]),
        ("modeling_alicewu.py", []),
        ("nccl_trace_rank_17", []),
        ("20240506T101112Z_gpus8.log.gz", []),
        ("日志_王.log", ["日志", "王"]),
    ],
)
def test_what_of_a_file_name_is_a_name(name, names):
    assert names_in(name) == names
