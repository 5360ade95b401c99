"""Cases in the wrappings in which collectors, containers and people hand logs on: nothing gets lost, nobody is blamed anew."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import casefolder
import disguise
from firstfault.pipelines.diagnose import diagnose
from judge import Line, judge

HERE = Path(__file__).parent
NAMES = (
    "accelerate-sdxl-error-in-epoch-two",
    "fsdp-reduce-vs-allgather",
    "label-out-of-range-srun-label",
    "lightning-slurm-time-limit",
    "nemo-sft-second-node-memory-map-missing",
    "healthy-fairseq-overflow-rescale",
)
"""Launchers and kinds of failure that differ from each other."""
LOSSY = {"cut at 160 columns", "wrapped at 120 columns"}
"""Here evidence is lost: nothing bold may come of it, and that is all."""


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", disguise.WRAPS)
def test_a_disguise_changes_no_verdict(name: str, kind: str) -> None:
    case = casefolder.load(HERE / name)
    suffix, moved = disguise.RENAMED.get(kind, ""), disguise.MOVED.get(kind, 0)
    with TemporaryDirectory() as folder:
        paths = case.copy(Path(folder), lambda _, data: disguise.WRAPS[kind](data))
        for file in [f for path in paths for f in path.rglob("*") if suffix and f.is_file()]:
            file.rename(file.with_name(file.name + suffix))
        trigger = tuple(Line(t.file + suffix, t.line + moved, t.must_contain) for t in case.expected.trigger)
        judged = judge(diagnose(paths), dataclasses.replace(case.expected, trigger=trigger))
    assert not judged.confidently_wrong
    assert not judged.must_not
    if kind not in LOSSY:
        assert judged.acceptable
        assert judged.culprits_exact is not False
