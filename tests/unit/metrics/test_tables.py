"""Tables out of whole sources: other kinds of files, order, attempts, ranges, and export."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest

from firstfault.metrics.read import read_range, read_source_steps
from firstfault.metrics.tensorboard import read_events
from firstfault.readers.open import open_inputs

if TYPE_CHECKING:
    from pathlib import Path

    from firstfault.metrics.steps import Steps


def table(folder: Path) -> Steps:
    with open_inputs([folder]) as opened:
        (found,) = [t for s in opened.sources if (t := read_source_steps(opened.store, s, workers=1)) is not None]
    return found


def test_tensorboard_records_read_together_are_what_each_is_by_itself() -> None:
    """Tags of one length, steps of one to three bytes, both forms of a number, and a damaged record among them."""
    rng = np.random.default_rng(7)
    tags = ("loss", "lr-x", "epoch", "train/loss", "grad_norm")
    data, wanted = b"", []
    for n in range(1, 301):
        step, tag, value = int(rng.integers(1, 40_000)), tags[int(rng.integers(5))], float(np.float32(rng.random()))
        whole = record(1e9 + n, step, tag, value, tensor=bool(rng.integers(2)))
        if n % 50 == 0:
            whole = whole[:12] + b"\xff" * (len(whole) - 16) + whole[-4:]
        elif tag in {"loss", "epoch", "grad_norm"}:
            wanted.append((n, tag, float(step), 1e9 + n, value))
        data += whole

    class Whole:
        def read(self, source: int, start: int, size: int) -> bytes:
            return data

    got = [
        (int(n), name, float(s), float(t), float(v))
        for part in read_events(Whole(), 0)  # type: ignore[arg-type]
        for name in sorted(set(part.columns) - {"step", "time"})
        for n, s, t, v in zip(part.line, part.columns["step"], part.columns["time"], part.columns[name], strict=True)
    ]
    assert sorted(g for g in got if g[1] != "loss") == sorted(w for w in wanted if w[1] != "loss")


def test_a_csv_with_rows_of_steps_and_rows_of_evaluations(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text(
        "epoch,step,train_loss,val_loss,lr-Adam\n0,9,1.5,,0.001\n0,19,1.4,,0.001\n0,19,,1.6,\n1,29,nan,,0.001\n",
        encoding="utf-8",
    )
    found = table(tmp_path)
    assert found.values("step").tolist() == [9, 19, 29]
    assert found.columns["loss"].there.tolist() == [True, True, True]
    assert np.isnan(found.columns["loss"].values[2])
    assert found.columns["val_loss"].there.tolist() == [False, True, False]
    assert found.line.tolist() == [2, 3, 5]


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def part(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def record(wall: float, step: int, tag: str, value: float, *, tensor: bool) -> bytes:
    told = (
        part(8, varint(8) + varint(1) + part(5, struct.pack("<f", value)))
        if tensor
        else varint(2 << 3 | 5) + struct.pack("<f", value)
    )
    event = (
        varint(9) + struct.pack("<d", wall) + varint(16) + varint(step) + part(5, part(1, part(1, tag.encode()) + told))
    )
    return struct.pack("<QI", len(event), 0) + event + b"\0\0\0\0"


@pytest.mark.parametrize("tensor", [False, True])
def test_tensorboard_events(tmp_path: Path, *, tensor: bool) -> None:
    version = varint(9) + struct.pack("<d", 1.0) + part(3, b"brain.Event:2")
    data = struct.pack("<QI", len(version), 0) + version + b"\0\0\0\0"
    for step in (10, 20, 3000):
        data += record(1_780_000_000.0 + step, step, "train/loss", 2.5, tensor=tensor)
        data += record(1_780_000_000.0 + step, step, "lm loss vs samples", 9.0, tensor=tensor)
        data += record(1_780_000_000.0 + step, step, "grad-norm", 0.5, tensor=tensor)
    (tmp_path / "events.out.tfevents.1780000000.node-01.4711.0").write_bytes(data + data[:30])
    found = table(tmp_path)
    assert found.values("step").tolist() == [10, 20, 3000]
    assert found.values("loss").tolist() == [2.5] * 3
    assert found.values("grad_norm").tolist() == [0.5] * 3
    assert found.values("time").tolist() == [1_780_000_010.0, 1_780_000_020.0, 1_780_003_000.0]


def test_lines_about_one_step_are_one_row(tmp_path: Path) -> None:
    text = "".join(
        f"[2026-08-22 12:19:{i:02d},000] [INFO] [logging.py:96:log_dist] [Rank 0] step={i}, skipped=0, lr=[1e-05], mom=[(0.9, 0.95)]\n"
        f"[2026-08-22 12:19:{i:02d},100] [INFO] [timer.py:260:stop] epoch=0/micro_step={4 * i}/global_step={i}, RunningAvgSamplesPerSec=12.3, CurrSamplesPerSec=12.5, MemAllocated=10.2GB, MaxMemAllocated=30.1GB\n"
        f"[2026-08-22 12:19:{i:02d},200] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | fwd: 1.00 | bwd: 2.00 | step: 0.5\n"
        for i in range(1, 9)
    )
    (tmp_path / "train.log").write_text(text, encoding="utf-8")
    found = table(tmp_path)
    assert found.values("step").tolist() == list(range(1, 9))
    assert found.line.tolist() == list(range(1, 25, 3))
    assert found.values("forward_time").tolist() == pytest.approx([0.001] * 8)
    assert found.values("memory").tolist() == [30.1] * 8


def test_the_trainers_table_has_the_step_of_the_bar_before_it(tmp_path: Path) -> None:
    text = "".join(
        f"\r {i}%|#   | {i}/100 [00:10<00:10, 1.00it/s]\r      \r{{'loss': {3 - i / 100}, 'grad_norm': 1.5, 'learning_rate': 1e-05, 'epoch': {i / 100}}}\n"
        for i in range(10, 100, 10)
    )
    (tmp_path / "train.log").write_text(text, encoding="utf-8")
    found = table(tmp_path)
    told = found.columns["loss"].there
    assert found.values("step")[told].tolist() == list(range(10, 100, 10))


def test_starts_are_told_apart_and_epochs_are_no_starts(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(
        "".join(f"step {i} loss: 2.0\n" for i in [*range(1, 9), *range(5, 12)]), encoding="utf-8"
    )
    assert table(tmp_path).attempt.tolist() == [1] * 8 + [2] * 7
    (tmp_path / "a.log").write_text(
        "".join(f"epoch: {e} step: {i} loss: 2.0\n" for e in range(3) for i in range(1, 5)), encoding="utf-8"
    )
    assert table(tmp_path).attempt.tolist() == [1] * 12


@pytest.mark.parametrize("size", [64, 200, 1000, 100_000])
def test_ranges_of_a_source_hold_each_line_once(tmp_path: Path, size: int) -> None:
    text = "".join(f"step {i} loss: 2.{i:03d}\n" + ("noise without numbers\n" if i % 3 else "") for i in range(1, 300))
    (tmp_path / "a.log").write_text(text, encoding="utf-8")
    with open_inputs([tmp_path]) as opened:
        (source,) = opened.sources
        steps, line, lines = [], 0, []
        for start in range(0, len(text), size):
            parts, count = read_range(opened.store, source.id, start, min(start + size, len(text)))
            for p in parts:
                steps += p.columns["step"].tolist()
                lines += (p.line + line).tolist()
            line += count
    rows = text.split("\n")
    assert sorted(steps) == list(range(1, 300))
    assert all(f"step {int(s)} " in rows[n - 1] for s, n in zip(steps, lines, strict=True))


def test_the_frame_tells_null_from_nan(tmp_path: Path) -> None:
    pytest.importorskip("polars")
    from firstfault.metrics.columns import UNITS
    from firstfault.metrics.frame import to_frame, write_frame

    (tmp_path / "a.log").write_text(
        "step 1 loss: 2.0 grad_norm: 0.5\nstep 2 loss: nan\nstep 3 loss: 2.0 grad_norm: 0.5\n", encoding="utf-8"
    )
    frame = to_frame([table(tmp_path)])
    assert frame.columns == list(UNITS)
    assert frame["loss"].is_nan().to_list() == [False, True, False]
    assert frame["grad_norm"].to_list() == [0.5, None, 0.5]
    assert frame["memory"].null_count() == 3
    for suffix in (".parquet", ".csv", ".json"):
        write_frame(frame, tmp_path / f"t{suffix}")
        assert (tmp_path / f"t{suffix}").stat().st_size > 0
    import polars as pl

    assert pl.read_parquet(tmp_path / "t.parquet").equals(frame)
    rows = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert [r["loss"] for r in rows] == [2.0, "NaN", 2.0]
    assert [r["grad_norm"] for r in rows] == [0.5, None, 0.5]
    write_frame(frame, tmp_path / "t.jsonl")
    assert [json.loads(r) for r in (tmp_path / "t.jsonl").read_text(encoding="utf-8").splitlines()] == rows
    write_frame(frame[:0], tmp_path / "t.json")
    assert json.loads((tmp_path / "t.json").read_text(encoding="utf-8")) == []
    write_frame(frame[:1], tmp_path / "t.json")
    assert [r["loss"] for r in json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))] == [2.0]
