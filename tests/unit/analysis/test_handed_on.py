"""An error that a loader's worker handed on is cited where the worker's own traceback says what it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from firstfault.pipelines.diagnose import diagnose

if TYPE_CHECKING:
    from pathlib import Path

FORM = """[rank1]: Traceback (most recent call last):
[rank1]:   File "/opt/job/train.py", line 90, in <module>
[rank1]:     for batch in loader:
[rank1]: {kind}: Caught {kind} in DataLoader worker process 2.
[rank1]: Original Traceback (most recent call last):
[rank1]:   File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", line 349, in _worker_loop
[rank1]:     data = fetcher.fetch(index)
[rank1]:   File "/opt/job/data.py", line 41, in __getitem__
[rank1]:     return self.read(index)
[rank1]: {kind}: {said}
"""


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("ImportError", "cannot import name 'Reader' from 'shards.io' (/opt/venv/lib/python3.11/site-packages/shards/io.py)"),
        ("KeyError", "'caption_en'"),
        ("FileNotFoundError", "[Errno 2] No such file or directory: '/data/train/000417.tar'"),
    ],
)  # fmt: skip
def test_the_workers_own_line_is_cited(tmp_path: Path, kind: str, said: str) -> None:
    (tmp_path / "job.log").write_text(FORM.format(kind=kind, said=said), encoding="utf-8")
    found = diagnose([tmp_path]).verdict
    assert found.trigger is not None
    assert found.trigger.line == 10
    assert said in found.trigger.text
