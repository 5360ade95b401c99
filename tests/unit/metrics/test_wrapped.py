"""Step lines that a printer of 80 columns wrapped: the step stands in the first row, the measurements below it."""

import math

import numpy as np
import pytest

from firstfault.metrics.blocks import Shapes, read_block
from firstfault.metrics.read import read_source_steps
from firstfault.readers.open import open_inputs


def rows(count, broken=None):
    told = []
    for n in range(1, count + 1):
        loss = "nan" if broken is not None and n >= broken else f"{9 - n / 100:.5f}"
        told += [
            f"[2026-09-03 07:{n // 60:02d}:{n % 60:02d}] INFO trainer step={n * 50}/20000",
            f"                            loss={loss} grad_norm={0.8 + n % 7 / 10:.4f} lr=1.500e-05",
            f"                            step_time={1.2 + n % 3 / 10:.3f}s mem=41.20GiB",
        ]
    return told


@pytest.mark.parametrize("count", [3, 40, 400])
def test_the_step_is_that_of_the_row_above(count, tmp_path):
    (tmp_path / "run.log").write_text("\n".join(["start", *rows(count, broken=count - 1)]) + "\n")
    with open_inputs([tmp_path / "run.log"]) as opened:
        steps = read_source_steps(opened.store, opened.sources[0], workers=1)
    assert steps is not None
    assert steps.columns["step"].values.tolist() == [n * 50 for n in range(1, count + 1)]
    loss = steps.columns["loss"].values
    assert [math.isnan(x) for x in loss] == [False] * (count - 2) + [True, True]
    assert steps.line.tolist() == [2 + 3 * n for n in range(count)]


def test_both_ways_give_the_same_numbers():
    data = ("\n".join([*rows(200), "        indented words of another kind", "plain"]) + "\n").encode()
    told = []
    for fast in (True, False):
        parts = read_block(data, 1, Shapes(), fast=fast)
        found = sorted((int(n), float(v)) for p in parts for n, v in zip(p.line, p.columns["loss"], strict=True))
        told.append(found)
    assert told[0] == told[1]
    assert len(told[0]) == 200
    assert np.isfinite([v for _, v in told[0]]).all()
