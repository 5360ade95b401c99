"""Step lines whose numbers stand away from their names: MLPerf's events, bars that a logger writes, Chinese words."""

import pytest

from firstfault.model.evidence import SourceId
from firstfault.readers.progress import find_progress
from firstfault.readers.steplines import EVALUATION, TRAINING, read_progress

EVENT = ':::MLLOG {"namespace": "", "time_ms": 1775725581676, "event_type": "POINT_IN_TIME", "key": "%s", "value": %s, "metadata": {"samples_count": 5120}}'


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (EVENT % ("train_loss", "11.8"), (TRAINING, None, None)),  # samples are no steps
        (EVENT % ("train_loss", "NaN"), (TRAINING, None, None)),
        (EVENT % ("eval_loss", "3.25"), (EVALUATION, None, None)),
        (':::MLLOG {"key": "train_loss", "value": 2.5, "metadata": {"step": 40}}', (TRAINING, 40, None)),
        ("INFO :: Progress on:train 1.25kit/10.0kit rate:1.2s/it postfix:loss=2.34", (TRAINING, 1250, 10_000)),
        ("INFO :: Progress on:train 7it/400it rate:1.2s/it postfix:loss=2.34", (TRAINING, 7, 400)),
        ("INFO :: Progress on:eval 3it/10it rate:1.2s/it", (EVALUATION, 3, 10)),
        ("第 120/4000 步 损失: 2.1", (TRAINING, 120, 4000)),
        ("步数：120/4000，损失：2.1，学习率：3e-4", (TRAINING, 120, 4000)),
        ("迭代 20 损失=nan 吞吐=333", (TRAINING, 20, None)),
        ("第 3 轮 第 20 步 损失 2.3", (TRAINING, 20, None)),
        ("[验证] 第 200 步 损失: 2.3", (EVALUATION, 200, None)),
    ],
)
def test_a_step_is_read(line, wanted):
    shape = read_progress(line.encode())
    assert shape is not None
    assert (shape.kind, shape.step, shape.total) == wanted
    assert [p.kind for p in find_progress(f"begin\n{line}\n".encode(), SourceId(0))] == [wanted[0]]


@pytest.mark.parametrize(
    "line",
    [
        EVENT % ("opt_base_learning_rate", "0.1"),
        ':::MLLOG {"key": "run_start", "value": null, "metadata": {}}',
        "从第 1200 步恢复训练，损失 2.1",
        "加载检查点：第 100 步 损失 2.1",
        "总步数：4000，学习率：3e-4",
        "预热步数：100，学习率：3e-4",
        "步骤 3：检查损失函数",
        "第 2 步：安装依赖",
        "第 300 步出现异常，损失 2.1",
        "第 3 轮 损失 2.1",
    ],
)
def test_what_is_no_step_that_was_done_is_none(line):
    assert read_progress(line.encode()) is None


def test_a_long_line_ends():
    for text in ("第 1 步 ", "步数：", "Progress on:train 1it/", '"key": "train_loss", '):
        read_progress((":::MLLOG " if '"' in text else "").encode() + text.encode() * 60_000)
