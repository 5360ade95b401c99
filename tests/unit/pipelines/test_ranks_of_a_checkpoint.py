"""A distributed checkpoint lists all ranks that met an error in it, and every rank prints the tracebacks of all."""

from __future__ import annotations

import pytest

from firstfault.pipelines.diagnose import diagnose

HEAD = "torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([{ranks}])"
FRAME = '  File "/venv/lib/python3.12/site-packages/torch/distributed/checkpoint/filesystem.py", line 355, in _write_files_from_queue\n    stream.write(data)'


def told(folder, speakers, ranks, shown, error, own=()):
    lines = ["iteration 400/ 5000 | lm loss: 2.09", "saving checkpoint at iteration 400 to /lustre/x"]
    for rank in speakers:
        text = [
            HEAD.format(ranks=", ".join(map(str, ranks))),
            f"Traceback (most recent call last): (RANK {shown})",
            FRAME,
            error,
        ]
        lines += [f"[rank{rank}]: {line}" for part in text for line in part.split("\n")]
    for rank in own:
        lines += [
            f"[rank{rank}]: Traceback (most recent call last):",
            *(f"[rank{rank}]: {x}" for x in FRAME.split("\n")),
            f"[rank{rank}]: {error}",
        ]
    (folder / "job.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return diagnose([folder]).verdict


@pytest.mark.parametrize(
    "error",
    [
        "OSError: [Errno 5] Input/output error",
        "OSError: [Errno 28] No space left on device",
        "OSError: [Errno 14] Bad address",
    ],
)
def test_who_prints_the_error_of_another_did_not_meet_it(tmp_path, error):
    verdict = told(tmp_path, (0, 1, 7), (5, 6), 5, error)
    assert verdict.first_failed.ranks == [5, 6]
    assert not {0, 1, 7} & set(verdict.culprits.ranks)


def test_a_rank_that_is_not_listed_and_fails_by_itself_is_not_passed_over(tmp_path):
    verdict = told(tmp_path, (0,), (5, 6), 5, "OSError: [Errno 5] Input/output error", own=(3,))
    assert 3 in verdict.first_failed.ranks
