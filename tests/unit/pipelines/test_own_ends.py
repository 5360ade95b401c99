"""An end marker proves its own rank; what is said where other ranks' own files leave their end open, and where they need not."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions

STEPS = [f"2026-03-04 10:{n:02d}:00 INFO train: step {n}/30 loss=2.4 lr=3e-4\n" for n in range(1, 31)]
START = "2026-03-04 10:00:30 INFO train: model built\n"
ENDED = "".join(STEPS) + "Training completed\n"
WHOLE = "".join(STEPS)


def strength(folder, files, **options):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = diagnose([folder], DiagnoseOptions(**options)).verdict
    assert found.category is Category.NONE
    return found.strength


@pytest.mark.parametrize(
    "other",
    ["", START[:20], "".join(STEPS[:12]), "".join(STEPS[:29]) + STEPS[29][:25]],
    ids=["empty", "cut in its first line", "stops early", "cut in its last line"],
)
@pytest.mark.parametrize("name", ["rank{r}.log", "log_rank_{r}.txt", "none_x1/attempt_0/{r}/stdout.log"])
def test_a_file_of_another_rank_that_leaves_its_end_open_is_heard(tmp_path, other, name):
    files = {name.format(r=0): ENDED, name.format(r=1): other}
    assert strength(tmp_path, files) is Strength.POSSIBLE


def test_a_missing_file_of_several_is_heard(tmp_path):
    files = {f"rank{r}.log": WHOLE for r in (1, 2, 4, 5)} | {"rank0.log": ENDED}
    assert strength(tmp_path, files) is Strength.POSSIBLE


@pytest.mark.parametrize(
    "files",
    [
        {"train.log": ENDED},
        {"rank0.log": ENDED},
        {"rank0.log": ENDED, "rank1.log": WHOLE},
        {"rank0.log": ENDED, "rank1.log": START},
        {"rank0.log": ENDED, "rank1.log": ENDED, "rank2.log": START},
        {"rank0.log": ENDED, **{f"rank{r}.log": "" for r in range(1, 8)}},
        {"job.out": ENDED, "rank0.err": "", "rank1.err": ""},
        {"job-7.out": ENDED, "job-7.err": ""},
        {"rank0.out": ENDED, "rank1.out": START, "rank0.err": "", "rank1.err": ""},
        {
            f"none_x1/attempt_0/{r}/{n}.log": t
            for r, t in ((0, ENDED), (1, START))
            for n, t in (("stdout", ""), ("stderr", t))
        },
        {"job.out": ENDED, "rank0.log": START, "rank1.log": ""},
    ],
    ids=[
        "one file",
        "one rank's file",
        "all steps",
        "no steps",
        "two ends",
        "only rank 0 prints",
        "errors apart",
        "slurm",
        "both apart",
        "torchrun",
        "a word for all",
    ],
)
def test_usual_layouts_of_a_run_that_ended_well_stay_sure(tmp_path, files):
    assert strength(tmp_path, files) is Strength.ESTABLISHED


@pytest.mark.parametrize("word", [{"exit_code": 0}, {"job_state": "COMPLETED"}], ids=str)
def test_the_schedulers_good_word_is_everybodys(tmp_path, word):
    assert strength(tmp_path, {"rank0.log": ENDED, "rank1.log": ""}, **word) is Strength.ESTABLISHED
