"""A fault that a job came past by a checkpoint of its own, and the error of the start behind it in the same log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose

if TYPE_CHECKING:
    from pathlib import Path

    from firstfault.model.diagnosis import Diagnosis

NAN = (
    "WARNING:megatron.core.rerun_state_machine:Unexpected result tensor(nan, device='cuda:1') on rank 9 at iteration #700 "
    "invocation #1 (message='found NaN in local forward loss calculation')"
)
ECC = "[rank3]: RuntimeError: CUDA error: uncorrectable ECC error encountered"
SAVED = "  successfully saved checkpoint from iteration     {step} to /ckpt/run [ t 1/1, p 1/1 ]"
LOADS = " loading distributed checkpoint from /ckpt/run at iteration 699"
ERRORS = [
    "[rank{r}]: Traceback (most recent call last):",
    '[rank{r}]:   File "/opt/job/train.py", line 40, in main',
    "[rank{r}]: ValueError: unknown optimizer part 'step_of_group'",
]


def _of(folder: Path, fault: str, step: int) -> Diagnosis:
    lines = [fault, SAVED.format(step=step), LOADS, *(line.format(r=r) for r in (0, 1, 2, 3) for line in ERRORS)]
    (folder / "job.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return diagnose([folder])


@pytest.mark.parametrize("fault", [NAN, ECC])
def test_the_new_start_is_what_failed(tmp_path: Path, fault: str) -> None:
    found = _of(tmp_path, fault, 699).verdict
    assert found.category is Category.SOFTWARE
    assert found.trigger is not None
    assert "ValueError" in found.trigger.text


@pytest.mark.parametrize("fault", [NAN, ECC])
def test_a_load_of_another_save_is_no_new_start(tmp_path: Path, fault: str) -> None:
    assert _of(tmp_path, fault, 650).verdict.category is not Category.SOFTWARE
