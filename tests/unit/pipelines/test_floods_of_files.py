"""A flood of small files keeps no more steps than one large file does, and loses neither the last step nor what came after an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from firstfault.pipelines import read
from firstfault.pipelines.diagnose import concluded
from firstfault.pipelines.options import DiagnoseOptions
from firstfault.pipelines.read import ALL_STEPS, largest_whole
from firstfault.readers.progress import MOST_BYTES

if TYPE_CHECKING:
    from pathlib import Path

FILES, STEPS = 70, 200


def test_the_steps_of_all_files_together_are_bounded() -> None:
    assert largest_whole([MOST_BYTES] * 24) == MOST_BYTES
    assert largest_whole([1 << 30, 100]) == MOST_BYTES
    assert largest_whole([]) == MOST_BYTES
    flood = largest_whole([2000] * 100_000)
    assert flood * 100_000 <= ALL_STEPS


@pytest.mark.parametrize("engine", ["inline", "processes"])
def test_what_is_kept_in_a_flood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    for rank in range(FILES):
        lines = [f"[rank{rank}] step {n}/1000 | loss: 2.{n % 10} | lr: 1e-4 |" for n in range(1, STEPS + 1)]
        if rank == 3:
            lines.insert(100, f"[rank{rank}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
        (tmp_path / f"rank{rank}.log").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def kept() -> dict[int | None, list[int | None]]:
        with concluded([tmp_path], DiagnoseOptions(engine=engine)) as found:
            steps: dict[int | None, list[int | None]] = {}
            for sample in found.conclusion.scene.case.seen.progress:
                steps.setdefault(sample.rank, []).append(sample.step)
            return steps

    whole = kept()
    assert {len(steps) for steps in whole.values()} == {STEPS}
    monkeypatch.setattr(read, "ALL_STEPS", 1 << 16)
    few = kept()
    assert sum(map(len, few.values())) < 2 * FILES
    assert {steps[-1] for steps in few.values()} == {STEPS}
    assert {100, 101, 102} <= set(few[3])
