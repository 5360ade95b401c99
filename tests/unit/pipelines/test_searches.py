"""A search over trials survives a trial's error: what it caught is no fault of the job; what it did not survive is."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions

TRACE = (
    'Traceback (most recent call last):\n  File "/srv/tune.py", line 40, in <module>\n    main()\n'
    '  File "/srv/tune.py", line 31, in objective\n    train(trial)\n{last}\n'
)
MEMORY = TRACE.format(
    last="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.02 GiB is free."
)
VALUE = TRACE.format(last="ValueError: lr must be positive")
KEY = TRACE.format(last="KeyError: 'best'")
OPTUNA = (
    "[I 2026-02-03 10:00:00,000] Trial 0 finished with value: 0.71 and parameters: {'bs': 32}.\n"
    "[W 2026-02-03 10:10:00,000] Trial 1 failed with parameters: {'bs': 512} because of the following error: OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 GiB').\n"
    f"{MEMORY}[W 2026-02-03 10:10:00,100] Trial 1 failed with value None.\n"
    "[I 2026-02-03 10:20:00,000] Trial 2 finished with value: 0.69 and parameters: {'bs': 64}. Best is trial 0 with value: 0.71.\n"
)
TUNE = (
    "2026-02-03 10:00:00,000\tERROR tune_controller.py:1331 -- Trial task failed for trial objective_a1_00003\n"
    + TRACE.format(
        last="ray.exceptions.RayTaskError(ValueError): ray::ImplicitFunc.train() (pid=77, ip=10.0.0.5)\nValueError: lr must be positive"
    )
    + "2026-02-03 10:20:00,000\tINFO tune.py:1041 -- Total run time: 1212.10 seconds (1211.04 seconds for the tuning loop).\n"
)
HYDRA = "[2026-02-03 10:10:00,000][HYDRA] Job #3 failed\n" + VALUE


@pytest.mark.parametrize(
    "text",
    [
        OPTUNA + "Study statistics: \n  Number of finished trials:  3\n",
        OPTUNA + "Number of finished trials: 3\nBest trial:\n  Value: 0.69\n",
        TUNE + "Best trial config: {'lr': 0.01}\nBest trial final validation loss: 0.31\n",
        TUNE + "Best hyperparameters found were:  {'lr': 0.01}\n",
        HYDRA + "[2026-02-03 10:20:00,000][HYDRA] Best parameters: {'lr': 0.01}\n",
    ],
)
def test_a_search_that_came_to_a_result_is_no_failure(tmp_path, text):
    assert verdict_of(tmp_path, text).category is Category.NONE


@pytest.mark.parametrize(
    ("text", "category"),
    [
        (OPTUNA + MEMORY, Category.GPU_CUDA),
        (OPTUNA + KEY, Category.SOFTWARE),
        (OPTUNA + "Study statistics: \n  Number of finished trials:  3\n" + KEY, Category.SOFTWARE),
        (TUNE + "Best trial config: {'lr': 0.01}\n" + MEMORY, Category.GPU_CUDA),
        (TUNE, Category.SOFTWARE),
    ],
)
def test_what_is_raised_behind_it_is(tmp_path, text, category):
    found = verdict_of(tmp_path, text)
    assert (found.failed, found.category) == (True, category)


def test_a_study_that_merely_stops_after_a_caught_trial_is_not_known(tmp_path):
    assert verdict_of(tmp_path, OPTUNA).failed is None


SITE = """title = "Our sweeper goes on without a run"
tier = "context"
role = "context"
depth = 0
fatal = false
marks = ["caught"]
together = ["*"]
patterns = ['sweeper: run \\d{1,6} given up']
meaning = "The sweeper caught the error of one run."
not_proof = "That the sweep came to its end."
[[sources]]
what = "our sweeper"
date = "2026-11"
[[match]]
line = "sweeper: run 3 given up"
[[no_match]]
line = "sweeper: run 3 done"
why = "it came through"
"""


def test_a_sites_own_signature_may_say_that_an_error_was_caught(tmp_path):
    (tmp_path / "own" / "site").mkdir(parents=True)
    (tmp_path / "own" / "site" / "sweeper.toml").write_text(SITE)
    (tmp_path / "logs").mkdir()
    text = "sweeper: run 3 given up\n" + VALUE + "sweeper: run 4 starts\n"
    (tmp_path / "logs" / "run.log").write_text(text)
    for signatures, failed in (((), True), ((tmp_path / "own",), None)):
        options = DiagnoseOptions(engine="inline", signatures=signatures)
        assert diagnose([str(tmp_path / "logs")], options).verdict.failed is failed


def verdict_of(folder, text):
    (folder / "run.log").write_text(text)
    return diagnose([str(folder)], DiagnoseOptions(engine="inline")).verdict
