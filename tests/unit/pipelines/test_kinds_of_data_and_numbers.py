"""Damaged data and values that are no numbers, in the words of several frameworks; the same words that ended nothing say nothing."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions

STEPS = "".join(f"2026-03-04 10:00:0{n} INFO step {n}/900 loss 2.{n}\n" for n in range(6))
MORE = "".join(f"2026-03-04 10:01:0{n} INFO step {10 + n}/900 loss 2.{n}\n" for n in range(6))


def trace(last, rank="[rank1]: "):
    lines = (
        "Traceback (most recent call last):",
        '  File "/srv/train.py", line 40, in <module>',
        "    main()",
        '  File "/srv/train.py", line 31, in main',
        "    run()",
    )
    return "".join(f"{rank}{line}\n" for line in (*lines, last))


def verdict_of(folder, text):
    (folder / "run.log").write_text(text)
    return diagnose([str(folder)], DiagnoseOptions(engine="inline")).verdict


@pytest.mark.parametrize(
    "last",
    [
        "RuntimeError: (PreconditionNotMet) There are NAN or INF (num_nan=3, num_inf=0, num_zero=0) in [device=gpu:5, op=softmax].",
        "tensorflow.python.framework.errors_impl.InvalidArgumentError: LossTensor is inf or nan : Tensor had NaN values [Op:CheckNumerics]",
        "RuntimeError: Function 'DivBackward0' returned nan values in its 0th output.",
        "FloatingPointError: invalid value (nan) encountered in jit(train_step)",
    ],
)
def test_a_check_that_finds_no_number_is_numerical(tmp_path, last):
    assert verdict_of(tmp_path, STEPS + trace(last)).category is Category.NUMERICAL


@pytest.mark.parametrize(
    "last",
    [
        "ValueError: Checksum failure: /scratch/mds/shard.00007.mds",
        "datasets.utils.info_utils.NonMatchingChecksumError: Checksums didn't match for dataset source files:",
        "tensorflow_datasets.core.download.download_manager.NonMatchingChecksumError: Artifact https://data.example/a.tar, downloaded to /data/a.tar, has wrong checksum:",
        "RuntimeError: The computed hash 1f38 of /data/wiki.tar does not match the expected hash 7b8b. Delete the file manually and retry.",
        'RuntimeError: invalid hash value (expected "1f38", got "7b8b7b8b")',
    ],
)
def test_data_that_does_not_fit_its_checksum_is_data(tmp_path, last):
    assert verdict_of(tmp_path, STEPS + trace(last)).category is Category.DATA


@pytest.mark.parametrize(
    "line",
    [
        "2026-03-04 10:00:30 WARNING Checksum failure: shard.00007.mds, skipping it",
        "2026-03-04 10:00:30 WARNING There are NAN or INF (num_nan=3, num_inf=0, num_zero=0), skipping the step",
    ],
)
def test_what_the_run_went_on_after_is_no_failure(tmp_path, line):
    done = "2026-03-04 10:02:00 INFO Training completed successfully.\n"
    assert verdict_of(tmp_path, STEPS + line + "\n" + MORE).failed is None
    assert verdict_of(tmp_path, STEPS + line + "\n" + MORE + done).failed is False


DIVERGED = "".join(f"[rank0]: 2026-03-04 10:02:0{n} INFO step {20 + n}/900 loss:     nan\n" for n in range(4))


@pytest.mark.parametrize(
    "last", ["RuntimeError: training diverged", "ValueError: loss has not been finite for 4 steps"]
)
def test_an_error_for_values_that_are_none_began_with_the_first_of_them(tmp_path, last):
    verdict = verdict_of(tmp_path, STEPS + DIVERGED + trace(last, "[rank0]: "))
    assert verdict.category is Category.NUMERICAL
    assert verdict.trigger is not None
    assert "loss:     nan" in verdict.trigger.text
    assert "step 20/900" in verdict.trigger.text


def test_an_error_of_another_kind_after_them_speaks_for_itself(tmp_path):
    verdict = verdict_of(tmp_path, STEPS + DIVERGED + trace("KeyError: 'labels'", "[rank0]: "))
    assert verdict.category is not Category.NUMERICAL
