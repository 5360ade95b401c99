"""Faults of one machine among several: a path that only its ranks miss, and a version that only it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

if TYPE_CHECKING:
    from pathlib import Path

    from firstfault.model.diagnosis import Verdict


def job(folder: Path, failing: set[int], machines: int = 2, each: int = 4) -> Verdict:
    for node in range(machines):
        lines = []
        for local in range(each):
            rank = node * each + local
            lines.append(f"Initializing distributed: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/{machines * each}")
            lines.append(
                f"cn{node:03d}:{4000 + local}:{4100 + local} [{local}] NCCL INFO comm 0x55d0 rank {rank} nranks {machines * each} cudaDev {local} nvmlDev {local} busId {local}0 commId 0x1 - Init START"
            )
        for local in range(each):
            rank = node * each + local
            if rank in failing:
                lines += [
                    f"[rank{rank}]: Traceback (most recent call last):",
                    f'[rank{rank}]:   File "/app/train.py", line 7, in <module>',
                    f"[rank{rank}]: FileNotFoundError: [Errno 2] No such file or directory: '/scratch/data/index.json'",
                ]
        (folder / f"cn{node:03d}.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return diagnose([folder]).verdict


def test_all_ranks_of_one_machine_alone(tmp_path: Path) -> None:
    found = job(tmp_path, {4, 5, 6, 7})
    assert (found.category, found.strength) == (Category.STORAGE_IO, Strength.POSSIBLE)
    assert (found.culprits.ranks, found.culprits.hosts) == ([], ["cn001"])


@pytest.mark.parametrize(
    "failing", [{0, 1, 2, 3, 4, 5, 6, 7}, {4, 5}, {3, 4, 5, 6, 7}], ids=["all", "half of one", "one and a bit"]
)
def test_otherwise_no_machine_is_named(tmp_path: Path, failing: set[int]) -> None:
    assert job(tmp_path, failing).culprits.hosts == []


def start(folder: Path, versions: list[str], *, stepped: bool = False) -> Verdict:
    for node, version in enumerate(versions):
        text = f"cn{node:03d}:4000:4100 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.{node}<0>\nNCCL version {version}+cuda12.4\n"
        if stepped:
            text += "".join(f"step {n}/100 loss 2.{n}\n" for n in range(1, 9))
        text += f"cn{node:03d}:4000:4101 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer cn000<41266>\n"
        text += (
            "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1691, remote process exited or there was a network error, NCCL version "
            + version
            + "\nncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n"
        )
        (folder / f"cn{node:03d}.log").write_text(text, encoding="utf-8")
    return diagnose([folder]).verdict


def test_the_machine_with_another_nccl(tmp_path: Path) -> None:
    found = start(tmp_path, ["2.21.5", "2.21.5", "2.20.5", "2.21.5"])
    assert (found.category, found.strength) == (Category.SOFTWARE, Strength.SUPPORTED)
    assert found.culprits.hosts == ["cn002"]


def test_of_two_versions_on_two_machines_neither_is_the_odd_one(tmp_path: Path) -> None:
    found = start(tmp_path, ["2.21.5", "2.20.5"])
    assert (found.category, found.strength) == (Category.SOFTWARE, Strength.POSSIBLE)
    assert found.culprits.hosts == []


@pytest.mark.parametrize(("versions", "stepped"), [(["2.21.5"] * 3, False), (["2.21.5", "2.21.5", "2.20.5"], True)])
def test_equal_versions_and_jobs_that_trained_say_nothing(
    tmp_path: Path, versions: list[str], *, stepped: bool
) -> None:
    assert start(tmp_path, versions, stepped=stepped).category is not Category.SOFTWARE
