"""What clients of stores and file systems print, by version (`clients.toml`): repeated is no fault, given up is the store's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checks import tomllib
from firstfault.model.words import Category, Role
from firstfault.pipelines.diagnose import diagnose
from firstfault.signatures.library import load_library
from firstfault.signatures.match import Matcher

DATA = Path(__file__).with_name("clients.toml")
LINES = [
    pytest.param(line, id=f"{client['name']}-{number}")
    for client in tomllib.loads(DATA.read_text(encoding="utf-8"))["client"]
    for number, line in enumerate(client["line"])
]
JOB = [line for line in LINES if line.values[0]["says"] != "kernel"]
KERNEL = [line for line in LINES if line.values[0]["says"] == "kernel"]
TOP = """Traceback (most recent call last):
  File "/app/train.py", line 91, in <module>
    main()
  File "/app/train.py", line 60, in main
    batch = next(batches)
"""
CATEGORIES = {
    "retried": {Category.SOFTWARE},
    "gave_up": {Category.STORAGE_IO},
    "refused": {Category.STORAGE_IO, Category.SOFTWARE},
}


def steps(first: int, last: int) -> str:
    return "".join(
        f"2026-02-11 09:{10 + i // 6:02d}:{i % 6 * 10:02d} INFO train: step {i}/1000 loss={3 - i / 1000:.4f} lr=3.0e-04\n"
        for i in range(first, last)
    )


def job_log(line: dict[str, Any]) -> str:
    """The log of a job that met the line: it goes on to another error, or ends with the line."""
    said = "\n".join(line["text"].split("|")) + "\n"
    if line["says"] == "retried":
        return steps(0, 30) + said + steps(30, 42) + TOP + "KeyError: 'audio_lens'\n"
    if "by" not in line:
        return steps(0, 30) + said + "srun: error: gpu-a14: task 0: Exited with exit code 1\n"
    package = f'  File "/opt/venv/lib/python3.11/site-packages/{line["by"]}", line 118, in _go\n    return self._call(*args)\n'
    return steps(0, 30) + TOP + package + said


@pytest.mark.parametrize("line", JOB)
def test_what_a_client_says_is_judged_as_what_it_is(line: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(job_log(line), encoding="utf-8")
    verdict = diagnose([tmp_path]).verdict
    assert verdict.category in CATEGORIES[line["says"]]
    # A shared store is nobody's, and these lines name no machine.
    assert (verdict.culprits.ranks, verdict.culprits.hosts) == ([], [])
    if line["says"] == "gave_up":
        assert verdict.trigger is not None
        assert line["text"].split("|")[0][:60] in verdict.trigger.text or len(line["text"].split("|")) > 1


@pytest.mark.parametrize("line", KERNEL)
def test_what_a_kernel_says_of_a_file_system_is_a_cause_that_ends_nothing_by_itself(line: dict[str, Any]) -> None:
    library = load_library()
    known = [s.spec for s in library.signatures if Matcher(s.spec).find(line["text"].encode())]
    assert any(spec.role is Role.CAUSE and spec.category is Category.STORAGE_IO for spec in known)
