"""What was given and not looked at is said, not passed over."""

import pickle

from firstfault.model.words import CoverageState
from firstfault.pipelines.diagnose import diagnose


def test_a_dump_that_no_reader_takes_anything_from_is_not_called_read(tmp_path):
    dump = {"version": "2.4", "pg_config": {"0": {"ranks": "[0, 1]"}}, "entries": [{"collective_seq_id": 1}]}
    (tmp_path / "nccl_trace_rank_0").write_bytes(pickle.dumps(dump))
    (tmp_path / "train.log").write_text("step 1\nstep 2\n", encoding="utf-8")
    rows = {row.file: row for row in diagnose([tmp_path]).coverage}
    assert rows["nccl_trace_rank_0"].state is CoverageState.SKIPPED
    assert "flight-recorder" in rows["nccl_trace_rank_0"].reason
    assert rows["train.log"].state is CoverageState.READ
