"""Plain heartbeats are read at once; the rows are those of the way that reads any record."""

import json

import numpy as np
import pytest

from firstfault.metrics import beats, boxes
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
    at_once = boxes.read_beats
    monkeypatch.setattr(boxes, "read_beats", lambda data: asked.append(at_once(data)) or asked[-1])
    told = rows(tmp_path, lines)
    assert [found is not None for found in asked] == [fast]
    monkeypatch.setattr(boxes, "read_beats", lambda _: None)
    assert told == rows(tmp_path, lines)
    assert told


MANY = [beat(n % 60, rank=n % 4, step=90 + n, phase=["forward", "backward", "data"][n % 3]) for n in range(200)]
LAST = MANY[-1]


@pytest.mark.parametrize(
    ("change", "fast"),
    [
        (lambda line: line, True),
        (lambda line: line.replace('"rank":3,', '"rank":0,'), True),
        (lambda line: line.replace("21:00:", "00:00:"), True),
        (lambda line: line.replace("+02:00", "+05:30"), True),
        (lambda line: line.replace("+02:00", "-11:45"), True),
        (lambda line: line.replace("+02:00", "+00:00"), True),
        (lambda line: line.replace("+02:00", "Z"), True),
        (lambda line: line.replace(".500", ".123456"), True),
        (lambda line: line.replace(".500", ""), True),
        (lambda line: line.replace(".500", ".1234567"), False),
        (lambda line: line.replace("node-01", "node-07"), True),
        (lambda line: line.replace("node-01", 'no\\"step\\":5'), True),
        (lambda line: line.replace('"pid":4711', '"pid":null'), True),
        (lambda line: line.replace('"step":289', '"step":null'), True),
        (lambda line: line.replace('"pid":4711', '"pid":0711'), False),
        (lambda line: line.replace('"step":289', '"step":089'), False),
        (lambda line: line.replace('"step":289', '"step":99999999'), False),
        (lambda line: line.replace('"step":289', '"step":2.9'), False),
        (lambda line: line.replace('"step":289', '"step":1,"step":2'), True),
        (lambda line: line.replace("2026-05-09", "2026-13-09"), False),
        (lambda line: line.replace("2026-05-09", "2026-02-30"), False),
        (lambda line: line.replace("2026-05-09", "0000-05-09"), False),
        (lambda line: line.replace("21:00:", "24:00:"), False),
        (lambda line: line.replace("+02:00", "+02:70"), False),
        (lambda line: line.replace("+02:00", ""), False),
        (lambda line: line.replace('"heartbeat"', '"header"'), False),
        (lambda line: line[:-1], False),
        (lambda line: line + " ", True),
    ],
)
@pytest.mark.parametrize("often", [1, 20])
def test_many_beats_read_as_each_by_itself(tmp_path, monkeypatch, change, fast, often):
    lines = [*MANY[:-1], *[change(LAST)] * often]
    monkeypatch.setattr(beats, "PIECE", 9000)
    told, asked = rows(tmp_path, lines), []
    at_once = boxes.read_beats
    monkeypatch.setattr(boxes, "read_beats", lambda data: asked.append(at_once(data)) or asked[-1])
    assert told == rows(tmp_path, lines)
    assert [found is not None for found in asked] == [fast]
    monkeypatch.setattr(boxes, "read_beats", lambda _: None)
    assert told == rows(tmp_path, lines)
    assert told
