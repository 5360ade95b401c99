import pytest
from memory_store import SOURCE, MemoryStore

import firstfault
from firstfault.model.evidence import Source
from firstfault.model.words import SourceKind
from firstfault.readers.clock import SourceClock
from firstfault.readers.identity import profile_source
from firstfault.readers.nan import nan_from


def first_of(*values, shape="step: {i} loss: {v} lr: 0.1\n"):
    data = "".join(shape.format(i=i, v=v) for i, v in enumerate(values, 1)).encode()
    store = MemoryStore(data)
    source = Source(id=SOURCE, path="train.log", kind=SourceKind.LOG)
    return nan_from(store, SOURCE, data.count(b"\n"), SourceClock(store, source, profile_source(data, "train.log")))


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (("2.1", "nan", "nan", "nan"), 2),
        (("nan", "2.1", "2.0", "1.9"), None),  # one overflow, and it went on
        (("2.1", "nan", "nan"), None),  # a step or two may be skipped
        (("2.1", "2.0"), None),
        (("nan", "nan", "nan", "2.0"), None),
    ],
)
def test_a_run_to_the_end(values, line):
    found = first_of(*values)
    assert (None if found is None else found.span.line) == line


def test_the_gradient_norm_counts_too():
    found = first_of("1", "nan", "nan", "nan", shape="{{'loss': 0.0, 'grad_norm': {v}, 'epoch': 0.{i}}}\n")
    assert found is not None
    assert found.span.line == 2
    assert found.text.startswith("{'loss'")


TABLE = "-------------------\n| lr       | 1e-4 |\n| loss     | {v}  |\n| step     | {i}00 |\n-------------------\n"


@pytest.mark.parametrize(
    ("values", "line"),
    [(("0.05", "nan", "nan", "nan"), 8), (("nan", "nan", "nan", "0.05"), None), (("0.05", "nan", "nan"), None)],
)
def test_a_table_of_metrics_for_every_so_many_steps(values, line):
    found = first_of(*values, shape=TABLE)
    assert (None if found is None else found.span.line) == line
    assert found is None or found.text.startswith("| loss")


LONE = "iteration={i}\n\t averaged_loss = {v}\n\t nan in images : False\n"


@pytest.mark.parametrize("shape", [LONE, "=== Step {i} ===\n - Loss: {v}\n", '  "total_loss": {v},\n'])
def test_a_metric_on_a_line_of_its_own(shape):
    found = first_of("2.1", "nan", "nan", "nan", shape=shape)
    assert found is not None
    assert "nan" in found.text
    assert first_of("nan", "nan", "nan", "2.0", shape=shape) is None


def test_a_loss_of_a_validation_without_samples_is_no_sign():
    assert first_of("nan", "nan", "nan", "nan", shape="epoch {i} done\nval_loss: {v}\n") is None


GOOD = [f"epoch 1 | step {n} | loss {2 - n / 1000:.4f} | gnorm 1.2" for n in range(10, 400, 10)]
BAD = ["epoch 1 | step 410 | loss inf | gnorm inf", "epoch 1 | step 420 | loss nan | gnorm nan"]
WORD = "WARNING non-finite loss for 2 consecutive logs, stopping early"


@pytest.mark.parametrize(
    ("end", "line"),
    [
        ([*BAD, WORD, "Training finished. best step: 390"], 40),
        ([*BAD, "Aborting: non-finite values in two logs"], 40),
        (BAD, None),
        ([*BAD, "Training finished."], None),
        ([WORD.replace("stopping early", "skipping them"), *BAD], None),
        ([*BAD, WORD, "epoch 1 | step 430 | loss 1.9 | gnorm 1.1"], None),
        (["epoch 1 | step 410 | loss inf | gnorm inf"] * 4, None),
    ],
)
def test_few_bad_values_count_where_the_program_stopped_for_them(tmp_path, end, line) -> None:
    (tmp_path / "a.log").write_text("\n".join([*GOOD, *end]) + "\n", encoding="utf-8")
    found = firstfault.diagnose(tmp_path).verdict
    assert (found.category == "numerical") == (line is not None)
    if line is not None:
        assert found.trigger.line == line


def test_a_metric_that_is_set_right_in_a_wide_column():
    found = first_of(" 8.9040", "    nan", "    nan", "    nan", shape="step: {i:>4}  loss: {v}  memory: 41.22GiB\n")
    assert found is not None
    assert found.span.line == 2
