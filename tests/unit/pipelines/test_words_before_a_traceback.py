"""Words before a traceback acquit it only where the same speaker goes on: each made-up job does what its files say."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

STEPS = "".join(f"2026-03-02 10:0{m}:00,000 INFO step {m}/90 loss 2.1\n" for m in range(1, 6))
ENDED = "step 90/90 loss 1.2\nTraining complete.\n"
WORDS = {
    "a counter": "2026-03-02 10:06:00,000 INFO step 6/90 loss 2.1 skipped=0",
    "deepspeed": "[2026-03-02 10:06:00,000] [INFO] [logging.py:96:log_dist] [Rank 1] step=6, skipped=0, lr=[1e-05], mom=[(0.9, 0.95)]",
    "c10d": "[W302 10:06:00.000000001 socket.cpp:204] [c10d] retrying to connect to node-b",
    "fall back": "2026-03-02 10:06:00,000 WARNING could not resume, falling back to scratch",
    "last attempt": "2026-03-02 10:06:00,000 WARNING retry 3/3 writing /ckpt/step6",
    "samples": "2026-03-02 10:06:00,000 INFO skipped 3 of 100 samples so far",
}
ERRORS = {
    "an allocation": ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB.", Category.GPU_CUDA),
    "a full disk": ("OSError: [Errno 28] No space left on device: '/ckpt/step6'", Category.STORAGE_IO),
}


def trace(last, label=""):
    lines = ["Traceback (most recent call last):", '  File "/srv/fit/loop.py", line 20, in go', "    turn()", last]
    return "".join(f"{label}{line}\n" for line in lines)


def verdict_of(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.log").write_text(text, encoding="utf-8")
    return diagnose([folder]).verdict


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("error", ERRORS)
def test_another_rank_that_ended_acquits_no_last_words(tmp_path, words, error):
    last, category = ERRORS[error]
    verdict = verdict_of(tmp_path, rank0=STEPS + ENDED, rank1=f"{STEPS}{WORDS[words]}\n{trace(last)}")
    assert (verdict.failed, verdict.category) == (True, category)


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize(
    "behind",
    [
        "",
        "2026-03-02 10:06:01,000 ERROR exiting with 1\n",
        "srun: error: n1: task 0: Exited with exit code 1\n",
        "wandb: You can sync this run later\n",
        "[rank0]:[W302 10:06:02.000000001 ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed\n",
    ],
)
def test_what_stands_where_a_process_ends_is_no_going_on(tmp_path, words, behind):
    last, category = ERRORS["an allocation"]
    verdict = verdict_of(tmp_path, train=f"{STEPS}{WORDS[words]}\n{trace(last)}{behind}")
    assert (verdict.failed, verdict.category) == (True, category)


@pytest.mark.parametrize(
    "warning",
    [
        "2026-03-02 10:06:00.123456: W tensorflow/core/framework/op_kernel.cc:1839] OP_REQUIRES failed: No space left on device",
        "2026-03-02 10:06:00,000 WARNING disk check: No space left on device",
    ],
)
def test_a_warning_of_the_same_kind_before_it_acquits_it_no_more(tmp_path, warning):
    last, category = ERRORS["a full disk"]
    verdict = verdict_of(tmp_path, rank0=STEPS + ENDED, rank1=f"{STEPS}{warning}\n{trace(last)}")
    assert (verdict.failed, verdict.category) == (True, category)


@pytest.mark.parametrize(
    "words",
    [
        "2026-03-02 10:06:00,000 WARNING could not send metrics, continuing",
        "2026-03-02 10:06:00,000 WARNING could not write, attempt 1/5",
    ],
)
def test_a_promise_to_go_on_that_nobody_is_seen_to_keep_leaves_the_end_open(tmp_path, words):
    verdict = verdict_of(
        tmp_path,
        rank0="step 90/90 loss 1\nTraining complete.\n",
        rank1=f"step 6/90\n{words}\n{trace('OSError: [Errno 5] x')}",
    )
    assert verdict.failed is not False
    assert "no error," not in verdict.summary


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("error", ERRORS)
def test_a_rank_that_goes_on_to_its_own_end_survived(tmp_path, words, error):
    last, _ = ERRORS[error]
    on = "2026-03-02 10:07:00,000 INFO step 7/90 loss 2.0\n2026-03-02 10:08:00,000 INFO step 8/90 loss 2.0\n"
    rank1 = f"{STEPS}{WORDS[words]}\n{trace(last)}{on}2026-03-02 10:30:00,000 INFO Training complete.\n"
    verdict = verdict_of(tmp_path, rank0=STEPS + "2026-03-02 10:30:00,000 INFO Training complete.\n", rank1=rank1)
    assert (verdict.failed, verdict.category, verdict.strength) == (False, Category.NONE, Strength.ESTABLISHED)


@pytest.mark.parametrize(
    "behind", ["2026-03-02 10:06:09,000 INFO saved /ckpt/step6", "2026-03-02 10:06:09,000 INFO step 7/90 loss 2.0"]
)
def test_a_speaker_that_goes_on_had_caught_it(tmp_path, behind):
    words = "2026-03-02 10:06:00,000 WARNING could not write, will retry"
    verdict = verdict_of(tmp_path, train=f"{STEPS}{words}\n{trace(ERRORS['a full disk'][0])}{behind}\n")
    assert verdict.failed is None
