"""A program that breaks in its work and then says that it ended has not shown that the work was done."""

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

BROKEN = """ERROR: Unexpected segmentation fault encountered in worker.
Training crashed at epoch 17
Traceback (most recent call last):
  File "/home/u/tr/lib/train/trainers/base_trainer.py", line 85, in train
    self.train_epoch()
  File "/home/u/env/lib/python3.8/site-packages/torch/utils/data/_utils/signal_handling.py", line 66, in handler
    _error_if_any_worker_fails()
RuntimeError: DataLoader worker (pid 346942) is killed by signal: Segmentation fault.
"""
STEP = "[train: {epoch}, {step} / 1000] FPS: 250.8 (389.1)  ,  Loss/total: 1.08  ,  IoU: 0.756\n"
END = "Restarting training from last epoch ...\nFinished training!\n"


def judged(folder, text):
    (folder / "train.log").write_text(text)
    return diagnose([folder]).verdict


def test_without_a_step_behind_it_the_end_is_possible_at_most(tmp_path):
    found = judged(tmp_path, STEP.format(epoch=17, step=600) + BROKEN + END)
    assert found.strength.level <= Strength.POSSIBLE.level
    assert found.trigger is None or found.category is not Category.NONE


def test_where_no_step_is_told_at_all_too(tmp_path):
    assert judged(tmp_path, BROKEN + END).strength.level <= Strength.POSSIBLE.level


def test_with_steps_behind_it_the_run_came_through(tmp_path):
    more = "".join(STEP.format(epoch=17, step=step) for step in range(50, 1001, 50))
    found = judged(tmp_path, STEP.format(epoch=17, step=600) + BROKEN + more + END)
    assert found.category is Category.NONE
    assert found.strength.level >= Strength.SUPPORTED.level
