"""A long source of steps gives the same rows whether it is read by one process or by several."""

import numpy as np

from firstfault.metrics import read
from firstfault.metrics.read import read_source_steps
from firstfault.readers.open import open_inputs

STEP = "step {i} | loss: {x:.3f} | grad_norm: 0.5 | lr: 1e-4\n"
WORDS = "worker {i} opens shard number {i}\n"


def _asked(tmp_path, monkeypatch, line, size):
    """Whether processes are started for a source of a size, and its rows."""
    path = tmp_path / "train.log"
    path.write_text("".join(line.format(i=i, x=2 + i % 7 / 8) for i in range(1, 4001)))
    monkeypatch.setattr(read, "SPLIT", size // 2)
    monkeypatch.setattr(read, "LARGE_SPLIT", size)
    monkeypatch.setattr(read, "SHARE", 1 << 15)
    asked = []
    by_processes = read._by_processes
    monkeypatch.setattr(read, "_by_processes", lambda *given: asked.append(1) or by_processes(*given))
    with open_inputs([str(path)]) as opened:
        steps = read_source_steps(opened.store, opened.sources[0], workers=2)
    return steps, bool(asked)


def test_rows_are_the_same_and_processes_start_only_where_they_pay(tmp_path, monkeypatch):
    size = sum(len(STEP.format(i=i, x=2 + i % 7 / 8)) for i in range(1, 4001))
    alone, started = _asked(tmp_path, monkeypatch, STEP, size + 1)
    assert not started
    shared, started = _asked(tmp_path, monkeypatch, STEP, size)
    assert started
    assert np.array_equal(alone.line, shared.line)
    assert np.array_equal(alone.values("loss"), shared.values("loss"))
    assert _asked(tmp_path, monkeypatch, WORDS, size)[1]  # half the size, of lines that are read one by one
