"""A trainer that asks the engines of its own job over HTTP: what they refuse is no fault of a store."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions

STEPS = "".join(f"2026-03-04 10:00:0{n} INFO step {n}/900 loss 2.{n}\n" for n in range(6))
ENGINE = (
    "(Engine pid=71) [2026-03-04 10:01:0{n} TP{n}] Failed to update parameter online: The size of tensor a (2048) must match "
    "the size of tensor b (4096) at non-singleton dimension 0. The full weights of the ModelRunner are partially updated.\n"
)


def refused(url, status="400 Client Error: Bad Request"):
    lines = (
        "Traceback (most recent call last):",
        '  File "/srv/rl/actor.py", line 40, in update',
        "    response.raise_for_status()",
        f"requests.exceptions.HTTPError: {status} for url: {url}",
    )
    return "".join(f"(Actor pid=72) {line}\n" for line in lines)


def verdict_of(folder, text):
    (folder / "run.log").write_text(text)
    return diagnose([str(folder)], DiagnoseOptions(engine="inline")).verdict


@pytest.mark.parametrize("path", ["update_weights_from_distributed", "generate", "v1/completions", "wake_up"])
def test_an_engine_of_the_job_is_no_store(tmp_path, path):
    verdict = verdict_of(tmp_path, STEPS + refused(f"http://10.3.0.7:30011/{path}"))
    assert verdict.category is Category.SOFTWARE


def test_a_store_stays_one(tmp_path):
    verdict = verdict_of(
        tmp_path, STEPS + refused("http://10.3.0.9:51080/v1/objects/train/a.tar", "503 Server Error: Busy")
    )
    assert verdict.category is Category.STORAGE_IO


def test_what_the_engine_itself_says_comes_first(tmp_path):
    engine = "".join(ENGINE.format(n=n) for n in range(2))
    verdict = verdict_of(tmp_path, STEPS + engine + refused("http://10.3.0.7:30011/update_weights_from_tensor"))
    assert verdict.category is Category.SOFTWARE
    assert verdict.trigger is not None
    assert "Failed to update parameter online" in verdict.trigger.text


def test_an_engine_without_memory_is_told_by_its_memory(tmp_path):
    out = "(Engine pid=71) Failed to update parameter online: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    verdict = verdict_of(tmp_path, STEPS + out + refused("http://10.3.0.7:30011/update_weights_from_tensor"))
    assert verdict.category is Category.GPU_CUDA
