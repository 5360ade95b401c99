"""What was given and not looked at is said, not passed over."""

import pickle

from firstfault.model.words import CoverageState
from firstfault.pipelines.diagnose import diagnose


def test_a_dump_is_called_read_and_what_no_reader_takes_anything_from_is_not(tmp_path):
    dump = {"version": "2.4", "pg_config": {"0": {"ranks": "[0, 1]"}}, "entries": [{"collective_seq_id": 1}]}
    (tmp_path / "nccl_trace_rank_0").write_bytes(pickle.dumps(dump))
    block = {"size": 2097152, "requested_size": 2000000, "address": 1 << 30, "state": "active_allocated", "frames": []}
    segment = {
        "device": 0,
        "address": 1 << 30,
        "total_size": 2097152,
        "allocated_size": 2097152,
        "active_size": 2097152,
    }
    segment |= {"stream": 0, "segment_type": "small", "requested_size": 2000000, "blocks": [block], "frames": []}
    snapshot = {"segments": [segment], "device_traces": [[]], "allocator_settings": {}}
    (tmp_path / "oom_rank_1.pickle").write_bytes(pickle.dumps(snapshot))
    (tmp_path / "runs.csv").write_text("step,loss\n" + "".join(f"{n},{9 - n}\n" for n in range(8)), encoding="utf-8")
    (tmp_path / "train.log").write_text("step 1\nstep 2\n", encoding="utf-8")
    rows = {row.file: row for row in diagnose([tmp_path]).coverage}
    assert rows["nccl_trace_rank_0"].state is CoverageState.READ
    assert rows["oom_rank_1.pickle"].state is CoverageState.READ
    assert rows["runs.csv"].state is CoverageState.SKIPPED
    assert "metrics" in rows["runs.csv"].reason
    assert rows["train.log"].state is CoverageState.READ
