"""A full bar is the end of a run only where no bar of an evaluation stands open behind it."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category
from firstfault.pipelines import read
from firstfault.pipelines.diagnose import diagnose

STEPS = "".join(
    f"Epoch 0: {s}%|#####| {s * 10}/1000 [21:{s % 60:02},  1.30s/it, loss=3.11]\n" for s in (96, 97, 98, 100)
)
HALF = "Validation DataLoader 0:  97%|#####| 60/62 [00:41<00:01,  1.44it/s]\n"
WHOLE = "Validation DataLoader 0: 100%|#####| 62/62 [00:42<00:00,  1.44it/s]\n"


def category(folder, text):
    (folder / "train.log").write_text(text, encoding="utf-8")
    return diagnose([folder]).verdict.category


@pytest.mark.parametrize("whole", [True, False])
def test_an_open_evaluation_behind_the_last_step_is_no_end(tmp_path, monkeypatch, whole):
    if not whole:
        monkeypatch.setattr(read, "ALL_STEPS", 0)
    assert category(tmp_path, STEPS + HALF) is Category.UNKNOWN


@pytest.mark.parametrize(
    "behind", ["", HALF + WHOLE, HALF + STEPS[-64:].split("\n", 1)[1] + STEPS.splitlines()[-1] + "\n"]
)
def test_a_full_bar_is_one_where_the_evaluation_is_through_or_drawn_over(tmp_path, behind):
    assert category(tmp_path, STEPS + behind) is Category.NONE
