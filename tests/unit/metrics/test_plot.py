"""Pictures of metrics: well-formed, the same each time, and what a log wrote stays text."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from firstfault.pipelines.metrics import draw, metrics_of
from firstfault.pipelines.publish import safe_metrics

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("matplotlib", reason="the extra `plots`")


def run(folder: Path) -> Path:
    path = folder / "a$x_1$<script>&.log"
    path.write_text(
        "".join(
            f"step {n} | loss: {9.0 if n == 150 else 2.0 + n % 7 / 100:.3f} | grad_norm: 0.{n % 9 + 1} | lr: 1e-4 |\n"
            for n in range(1, 201)
        ),
        encoding="utf-8",
    )
    return path


def test_a_picture_as_svg(tmp_path: Path) -> None:
    safe = safe_metrics(metrics_of([run(tmp_path)]).view, "secrets")
    first, second = tmp_path / "one.svg", tmp_path / "two.svg"
    draw(safe, first)
    draw(safe, second)
    assert first.read_bytes() == second.read_bytes()
    root = ET.fromstring(first.read_text(encoding="utf-8"))
    names = {e.tag.rsplit("}", 1)[-1] for e in root.iter()}
    assert "path" in names
    assert "script" not in names
    words = {"".join(e.itertext()).strip() for e in root.iter() if e.tag.endswith("}text")}
    assert {"loss", "grad_norm", "lr", "step", "loss_spike"} <= words


def test_a_picture_as_png(tmp_path: Path) -> None:
    target = tmp_path / "one.png"
    draw(safe_metrics(metrics_of([run(tmp_path)]).view, "secrets"), target)
    assert target.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert target.stat().st_size > 5000
