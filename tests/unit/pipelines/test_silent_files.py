"""A silent rank whose own file lies beside those of the others: what its name tells, and when it tells nothing."""

from __future__ import annotations

import pytest
from test_survived_errors import waits

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

NAMES = (
    "rank{r}.log",
    "log_rank_{r}.txt",
    "worker-{r}.log",
    "none_x1/attempt_0/{r}/stderr.log",
    "error-4711-{r}.out",
    "train_r{r}.err",
    "run-2026/log.{r:03d}",
)
NOTHING = {"an empty file": [], "one line": ["warming up"], "steps": [f"step {n} loss 2.{n}" for n in range(4)]}


def verdict_of(folder, name, files):
    for number, lines in files.items():
        path = folder / name.format(r=number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{x}\n" for x in lines), encoding="utf-8")
    return diagnose([folder])


@pytest.mark.parametrize("said", NOTHING)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("silent", [5, 2, 0])
def test_the_file_of_a_silent_rank_names_it(tmp_path, name, said, silent):
    files = {r: waits(r) for r in range(6) if r != silent} | {silent: NOTHING[said]}
    found = verdict_of(tmp_path, name, files)
    assert found.verdict.culprits.ranks == [silent]
    assert found.verdict.culprits.strength is Strength.POSSIBLE
    assert found.verdict.category is Category.UNKNOWN


@pytest.mark.parametrize("name", NAMES[2:])
def test_names_that_lines_contradict_tell_nothing(tmp_path, name):
    # The numbers are those of tasks in another order: file 1 is rank 2's, file 2 is rank 1's.
    files = {0: waits(0), 1: waits(2), 2: waits(1), 3: waits(3), 4: []}
    assert verdict_of(tmp_path, name, files).verdict.culprits.ranks == []


@pytest.mark.parametrize("name", NAMES[2:3] + NAMES[4:])
def test_one_file_of_each_node_is_no_file_of_a_rank(tmp_path, name):
    files = {n: [*waits(2 * n), *waits(2 * n + 1)] for n in range(3)} | {3: []}
    assert verdict_of(tmp_path, name, files).verdict.culprits.ranks == []


@pytest.mark.parametrize("extra", [range(3, 8), (3, 5), (40,)])
def test_what_a_larger_job_left_behind_is_no_silent_rank(tmp_path, extra):
    files = {r: waits(r) for r in range(3)} | {r: [] for r in extra}
    assert verdict_of(tmp_path, "job-{r}.out", files).verdict.culprits.ranks == []


def test_a_stated_number_of_ranks_counts_more_than_a_file(tmp_path):
    world = "Initializing distributed: GLOBAL_RANK: {r}, MEMBER: {m}/4"
    files = {r: [world.format(r=r, m=r + 1), *waits(r)] for r in range(4)} | {4: []}
    found = verdict_of(tmp_path, "job-{r}.out", files)
    assert found.verdict.culprits.ranks == []


BARS = (
    "Tokenizing dataset (num_proc=1):  43%|####3     | 430000/1000000 [29:40<39:20, 241.5 examples/s]",
    "Running tokenizer on dataset (num_proc=8):  12%|#2        | 1200/10000 [00:12<01:28, 99.10 examples/s]",
    "Map (num_proc=16):  31%|###       | 3100/10000 [00:12<00:30, 230.01 examples/s]",
    "Generating train split: 41%|####1     | 410000/1000000 [12:40<18:20, 536.0 examples/s]",
    "Converting format of dataset (num_proc=8):  12%|#2        | 12000/100000 [00:12<01:28, 991.0 examples/s]",
    "> building shuffle index with split [0, 80000000) and [80000000, 80000100) ...",
    "Grouping texts in chunks of 4097:   7%|7         | 662000/9318447 [02:18<30:20, 4754.19 examples/s]",
)


@pytest.mark.parametrize("bar", BARS)
@pytest.mark.parametrize("name", ["log_{r}.txt", "rank{r}.log", "none_x1/attempt_0/{r}/stderr.log"])
def test_a_bar_of_data_preparation_as_the_last_line_of_the_one_who_is_away_is_a_stall(tmp_path, bar, name):
    first = bar.replace("###", "#").replace("0/", "1/", 1)
    files = {r: waits(r, seq=1, numel=1) for r in range(1, 6)} | {0: [f"{first}\r{bar}"]}
    verdict = verdict_of(tmp_path, name, files).verdict
    assert verdict.category is Category.DATA_LOADING_STALL
    assert verdict.strength in {Strength.POSSIBLE, Strength.SUPPORTED}
    assert verdict.culprits.ranks == [0]
    assert verdict.trigger is not None
    assert bar[:12] in verdict.trigger.text


def test_a_bar_of_a_rank_that_waits_itself_is_no_stall(tmp_path):
    files = {r: waits(r, seq=1, numel=1) for r in range(1, 5)} | {0: [BARS[0], *waits(0, seq=1, numel=1)]}
    assert verdict_of(tmp_path, "log_{r}.txt", files).verdict.category is not Category.DATA_LOADING_STALL


def test_a_bar_of_training_is_no_preparation(tmp_path):
    bar = "Epoch 0:  41%|####      | 4100/10000 [00:12<00:18, 322.10it/s]"
    files = {r: waits(r, seq=1, numel=1) for r in range(1, 5)} | {0: [bar]}
    assert verdict_of(tmp_path, "log_{r}.txt", files).verdict.category is Category.UNKNOWN
