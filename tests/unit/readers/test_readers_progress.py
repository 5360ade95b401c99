import pytest
from memory_store import SOURCE, MemoryStore

from firstfault.readers.identity import SourceProfile, profile_source
from firstfault.readers.progress import Anchor, find_progress, last_progress, progress_after, progress_before
from firstfault.readers.steplines import EVALUATION, PREPARATION, TRAINING, read_progress

PLAIN = SourceProfile()


@pytest.mark.parametrize(
    ("line", "kind", "step", "total"),
    [
        (" 50%|█████     | 10/20 [00:00<00:00, 40.90it/s]", TRAINING, 10, 20),
        ("Epoch 1:  50%|█████     | 4/8 [00:00<00:00, 82.71it/s, v_num=0]", TRAINING, 4, 8),
        ("Epoch 0: : 1830it [13:02, v_num=3-10, train_step_timing in s=0.413]", TRAINING, 1830, None),
        ("300it [07:24,  1.48s/it, loss=3.99]", TRAINING, 300, None),
        ("Epoch 1/1  ━━━━━━━━━━ 4/4 0:00:00 • 0:00:00 82.71it/s train_loss: 0.588", TRAINING, 4, 4),
        (
            " [2026-08-22 15:22:22] iteration      100/  500000 | consumed samples: 25600 | lm loss: 2E+00 |",
            TRAINING,
            100,
            500000,
        ),
        ("Training epoch 0, iteration 527/999 | lr: 0.0001758 | reduced_train_loss: 2.792", TRAINING, 527, 999),
        (
            "[2026-08-22 12:19:04,123] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, lr=[1e-05]",
            TRAINING,
            10,
            None,
        ),
        ("{'loss': 3.5534, 'grad_norm': 1.41, 'learning_rate': 2.04e-06, 'epoch': 0.01}", TRAINING, None, None),
        ("{'loss': '1.143', 'grad_norm': '1.931', 'learning_rate': '4e-05', 'epoch': '0.3125'}", TRAINING, None, None),
        ("[titan] 2026-05-09 21:41:33,123 - root - INFO - step: 10  loss:  7.1234  mfu: 35.4%", TRAINING, 10, None),
        (
            "2020-08-01 12:24:16 | INFO | train_inner | epoch 001:   1205 / 6535 loss=0.4, num_updates=1200, lr=2e-06",
            TRAINING,
            1200,
            None,
        ),
        ("[epoch=1][batch=10/625]: loss 2", TRAINING, 10, 625),
        ("Epoch: [0][ 100/5004]\tTime  0.1 Loss 2", TRAINING, 100, 5004),
        ("Epoch: [0]  [ 100/5004]  eta: 0:01:00  loss: 3", TRAINING, 100, 5004),
        ("Train: [3/300][10/1251]\teta 0:10:00 loss 3", TRAINING, 10, 1251),
        ("iter 10: loss 2.3, time 12ms", TRAINING, 10, None),
        ("step 12 | grad norm 0.31", TRAINING, 12, None),
        ("iters: 40 gradient_norm=1.2", TRAINING, 40, None),
        ("100/1875 [====>.........] - ETA: 3s - loss: 0.3", TRAINING, 100, 1875),
        (
            "[2024-08-11 22:17:22,411][root][INFO] - train, rank: 2, step_in_epoch: 5, total step: 32700, (loss_avg_rank: 0.790)",
            TRAINING,
            32700,
            None,
        ),
        ('{"step": 10, "loss": 2.1}', TRAINING, 10, None),
        ("iteration: 10 / 1000 | consumed_tokens: 1.2M | lm_loss: 3", TRAINING, 10, 1000),
        ("Loading checkpoint shards:  50%|##    | 1/2 [00:01<00:01, 1.1s/it]", PREPARATION, 1, 2),
        ("Downloading shards:  50%|##    | 1/2 [00:01<00:01, 1.1s/it]", PREPARATION, 1, 2),
        ("Map:  50%|##   | 5000/10000 [00:01<00:01, 4821.03 examples/s]", PREPARATION, 5000, 10000),
        (
            "Grouping texts in chunks of 2049:   7%|7  | 662000/9318447 [02:18<30:20, 4754.19 examples/s]",
            PREPARATION,
            662000,
            9318447,
        ),
        ("model.safetensors:  12%|#   | 524M/4.98G [00:05<00:40, 110MB/s]", PREPARATION, 524_000_000, 4_980_000_000),
        ("Validation DataLoader 0:  14%|#  | 1/7 [00:00<00:03,  1.92it/s]", EVALUATION, 1, 7),
        ("Sanity Checking DataLoader 0: 100%|##| 2/2 [00:00<00:00,  9.10it/s]", EVALUATION, 2, 2),
        ("Test: [10/98] Loss 3", EVALUATION, 10, 98),
        ("{'eval_loss': 1.2, 'epoch': 1.0}", EVALUATION, None, None),
    ],
)
def test_lines_that_show_progress(line, kind, step, total):
    shape = read_progress(line.encode())
    assert shape is not None
    assert (shape.kind, shape.step, shape.total) == (kind, step, total)
    (found,) = find_progress(line.encode(), SOURCE)
    assert (found.kind, found.sample.step) == (kind, step)


@pytest.mark.parametrize(
    "line",
    [
        "  0%|          | 0/412 [00:00<?, ?it/s]",
        "loading checkpoint at step 1000, elapsed time 3",
        "saved step 10",
        "RuntimeError: failed at step 10, loss is nan",
        "Training starts at step 1, with local batch size 1, total steps 1000",
        "Step Time : 7.13s GPU utilization: 1033.0TFLOP/s/GPU",
        "[rank0]: step   0 | compiling model",
        'File "/app/step.py", line 10, in iter_10',
        "  Gradient Accumulation steps = 8",
        "warmup steps: 2000 learning rate 3e-4",
        "num steps: 500 loss function mse",
    ],
)
def test_lines_that_show_none(line):
    assert read_progress(line.encode()) is None


def log(steps: range) -> bytes:
    return b"".join(b"step %d loss: 1.0 lr: 2\nnoise without any number\n" % s for s in steps)


def test_lines_and_offsets_are_exact():
    data = (
        log(range(1, 4)) + b"a\r 50%|##| 5/10 [00:01<00:01, 1.0it/s]\r 60%|##| 6/10 [00:01<00:01, 1.0it/s][rank2]: x\n"
    )
    found = find_progress(data, SOURCE, base=Anchor(1000, 11))
    assert [(p.sample.line, p.sample.step) for p in found] == [(11, 1), (13, 2), (15, 3), (17, 5), (17, 6)]
    assert data[found[3].sample.offset - 1000 :].startswith(b" 50%|")


def test_before_and_after_an_anchor():
    data = log(range(1, 2000))
    store = MemoryStore(data)
    at = data.index(b"step 1000 ")
    anchor = Anchor(at, data.count(b"\n", 0, at) + 1)
    before = progress_before(store, SOURCE, anchor, PLAIN)
    after, *_ = progress_after(store, SOURCE, anchor, PLAIN)
    assert before is not None
    assert (before.sample.step, before.sample.line) == (999, 1997)
    assert (after.sample.step, after.sample.line) == (1001, 2001)
    assert [p.sample.step for p in progress_after(store, SOURCE, anchor, PLAIN, most=3)] == [1001, 1002, 1003]
    assert progress_after(store, SOURCE, Anchor(len(data), 4000), PLAIN) == []
    assert progress_before(store, SOURCE, Anchor(0, 1), PLAIN) is None


@pytest.mark.parametrize("end", [b"", b"\n", b"end without progress\n" * 5000])
def test_the_last_step_of_a_source(end):
    data = log(range(1, 500)) + b"step 500 loss: 1.0" + end
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    found = last_progress(MemoryStore(data), SOURCE, lines, PLAIN)
    assert found is not None
    assert (found.sample.step, found.sample.line) == (500, 999)


def test_the_last_step_on_one_endless_line():
    data = b"\r".join(
        b"Epoch 0: %3d%%|####     | %d/30000 [00:00<00:00, 82.71it/s]" % (i // 300, i) for i in range(30000)
    )
    found = last_progress(MemoryStore(data), SOURCE, 1, PLAIN)
    assert found is not None
    assert (found.sample.step, found.sample.line) == (29999, 1)
    first = progress_after(MemoryStore(data), SOURCE, Anchor(0, 1), PLAIN)
    assert first[0].sample.step == 1


def test_preparation_is_not_taken_for_training():
    data = b"step 5 loss: 1\n" + b"Map:  50%|##   | 5000/10000 [00:01<00:01, 4821.03 examples/s]\n"
    found = last_progress(MemoryStore(data), SOURCE, 2, PLAIN)
    assert found is not None
    assert found.sample.step == 5
    other = last_progress(MemoryStore(data), SOURCE, 2, PLAIN, kind=PREPARATION)
    assert other is not None
    assert other.sample.step == 5000


def test_the_rank_of_a_step_line():
    data = (
        b"[rank3]: step 7 loss: 1\n[rank4]: 10%|#| 1/10 [00:01<00:01, 1.0it/s]\r 20%|#| 2/10 [00:01<00:01, 1.0it/s]\n"
    )
    found = find_progress(data, SOURCE, profile=profile_source(data, "x"))
    assert [p.sample.rank for p in found] == [3, 4, 4]
