"""What stands above the order to stop in one file came before it, whatever other files repeat of that order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose

if TYPE_CHECKING:
    from pathlib import Path

ERROR = """[rank1]: Traceback (most recent call last):
[rank1]:   File "/srv/tts/main.py", line 88, in <module>
[rank1]:   File "/srv/tts/corpus.py", line 41, in __getitem__
[rank1]: {error}
"""
ORDER = "slurmstepd: error: *** {what} ON rig-01 CANCELLED AT 2026-03-14T12:47:20 DUE TO TIME LIMIT ***\n"
TABLE = """JobID           JobName      State ExitCode    Elapsed               Start                 End        NodeList
------------ ---------- ---------- -------- ---------- ------------------- ------------------- ---------------
71516               tts    TIMEOUT      0:0   03:40:00 2026-03-14T09:07:20 2026-03-14T12:47:20       rig-[01-02]
71516.0          python  CANCELLED     0:15   03:40:00 2026-03-14T09:07:20 2026-03-14T12:47:20       rig-[01-02]
"""
STEPS = "".join(f"2026-03-14 11:{m:02d}:00,000 INFO train: step {m * 20} loss 2.5\n" for m in range(10, 47))


@pytest.mark.parametrize("what", ["JOB 71516", "STEP 71516.0"])
@pytest.mark.parametrize("error", ["KeyError: 'speaker'", "IndexError: list index out of range", "KeyError: 17"])
def test_the_error_above_the_time_limit_is_the_first_fault(tmp_path: Path, what: str, error: str) -> None:
    text = STEPS + ERROR.format(error=error) + ORDER.format(what=what)
    (tmp_path / "rig-01.log").write_text(text, encoding="utf-8")
    (tmp_path / "sacct.txt").write_text(TABLE, encoding="utf-8")
    found = diagnose([tmp_path]).verdict
    assert found.category in {Category.DATA, Category.SOFTWARE}
    assert found.first_failed.ranks == [1]


def test_without_an_error_the_time_limit_stays(tmp_path: Path) -> None:
    (tmp_path / "rig-01.log").write_text(STEPS + ORDER.format(what="JOB 71516"), encoding="utf-8")
    (tmp_path / "sacct.txt").write_text(TABLE, encoding="utf-8")
    assert diagnose([tmp_path]).verdict.category is Category.INFRASTRUCTURE
