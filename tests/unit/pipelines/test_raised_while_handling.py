"""What a program raises while it handles a wait that ran out is no first fault: the wait was, and somebody else caused it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from firstfault.pipelines.diagnose import diagnose

if TYPE_CHECKING:
    from pathlib import Path

    from firstfault.model.diagnosis import Verdict

GLOO = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 25000ms for recv operation to complete"
LOST = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.3]:33144"
JOINTS = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)


def raised(last: str, *, place: str = "train", line: int = 30) -> list[str]:
    return [
        "Traceback (most recent call last):",
        f'  File "/srv/app/{place}.py", line {line}, in {place}',
        "    run()",
        last,
    ]


def verdict(folder: Path, chains: dict[int, list[str]]) -> Verdict:
    lines = [f"[rank{rank}]: step {step} loss 2.{step}" for step in range(3) for rank in range(4)]
    lines += [f"[rank{rank}]: {line}".rstrip() for rank, chain in chains.items() for line in chain]
    (folder / "job.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return diagnose([folder]).verdict


@pytest.mark.parametrize("first", [GLOO, LOST])
@pytest.mark.parametrize("joint", JOINTS)
@pytest.mark.parametrize(
    "later",
    [
        "TypeError: write() argument must be str, not bytes",
        "PermissionError: [Errno 13] Permission denied: '/srv/out/emergency.pt'",
    ],
)
def test_it_follows_from_the_wait(tmp_path: Path, first: str, joint: str, later: str) -> None:
    chain = [*raised(first), "", joint, "", *raised(later, place="rescue", line=7)]
    found = verdict(tmp_path, {0: chain, 1: chain, 2: chain})
    assert found.failed
    assert later.partition(":")[0] not in found.summary
    assert "rescue" not in found.summary
    assert found.culprits.ranks in ([], [3])


@pytest.mark.parametrize("joint", JOINTS)
def test_where_the_chain_begins_with_another_error_that_one_counts(tmp_path: Path, joint: str) -> None:
    chain = [*raised("ValueError: bad sample 7"), "", joint, "", *raised(GLOO, place="rescue", line=7)]
    waited = raised(GLOO)
    found = verdict(tmp_path, {0: waited, 1: waited, 2: waited, 3: chain})
    assert found.failed
    assert set(found.culprits.ranks) <= {3}
