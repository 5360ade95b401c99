"""Plain heartbeats are read at once; the rows are those of the way that reads any record."""

import json

import numpy as np
import pytest

from firstfault.metrics import boxes
from firstfault.pipelines.metrics import tables_of
from firstfault.readers.open import open_inputs


def beat(second, **fields):
    told = {
        "firstfault": "record/1", "kind": "heartbeat", "time": f"2026-05-09T21:00:{second:02d}.500+02:00", "host": "node-01",
        "pid": 4711, "rank": 3, "local_rank": 3, "step": 10 + second, "phase": "forward", **fields,
    }  # fmt: skip
    return json.dumps({k: v for k, v in told.items() if v is not ...}, separators=(",", ":"))


def rows(tmp_path, lines):
    path = tmp_path / "box" / "run" / "node-01" / "heartbeat.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with open_inputs([str(tmp_path / "box")]) as opened:
        tables, _ = tables_of(opened.store, opened.sources)
    return [(t.line.tolist(), {n: str(np.asarray(c).tolist()) for n, c in sorted(t.columns.items())}) for t in tables]


PLAIN = [beat(n, rank=n % 2) for n in range(6)]


@pytest.mark.parametrize(
    ("lines", "fast"),
    [
        (PLAIN, True),
        ([*PLAIN, beat(7, rank=...)], True),
        ([*PLAIN, beat(7, step=None), beat(8, worker=1)], True),
        ([*PLAIN, beat(7, kind="state")], False),
        ([*PLAIN, beat(7, time="yesterday")], False),
        ([*PLAIN, beat(7, rank=-4)], False),
        ([*PLAIN, beat(7)[:40], beat(8)], False),
        ([*PLAIN, beat(7, metrics=[{"step": 3, "loss": 2.5}])], False),
        ([*PLAIN, "", beat(8)], False),
    ],
)
def test_the_rows_are_the_same_by_either_way(tmp_path, monkeypatch, lines, fast):
    asked = []
    at_once = boxes._beats
    monkeypatch.setattr(boxes, "_beats", lambda data: asked.append(at_once(data)) or asked[-1])
    told = rows(tmp_path, lines)
    assert [found is not None for found in asked] == [fast]
    monkeypatch.setattr(boxes, "_beats", lambda _: None)
    assert told == rows(tmp_path, lines)
    assert told
