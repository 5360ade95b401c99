"""Errors that their own ranks had survived, beside errors that ended a rank: each made-up job does what its files say."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

WORK = "WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={numel}, NumelOut={numel}, Timeout(ms)=600000) ran for 600031 milliseconds before timing out."
TORCH = {
    "2.1": "[rank{r}]:[E ProcessGroupNCCL.cpp:475] [Rank {r}] Watchdog caught collective operation timeout: " + WORK,
    "2.3": "[rank{r}]:[E ProcessGroupNCCL.cpp:563] [Rank {r}] Watchdog caught collective operation timeout: " + WORK,
    "2.6": "[rank{r}]:[E604 11:20:05.10020030{r} ProcessGroupNCCL.cpp:629] [Rank {r}] Watchdog caught collective operation timeout: "
    + WORK,
}
STATE = (
    "[rank{r}]:[E604 11:20:05.20020030{r} ProcessGroupNCCL.cpp:2168] [PG ID 0 PG GUID 0(default_pg) Rank {r}]  failure detected by "
    "watchdog at work sequence id: {seq} PG status: last enqueued work: {seq}, last completed work: {before}"
)


def waits(rank, version="2.6", *, seq=41, op="ALLREDUCE", numel=4096):
    lines = [TORCH[version].format(r=rank, seq=seq, op=op, numel=numel)]
    return [*lines, STATE.format(r=rank, seq=seq, before=seq - 1)] if version == "2.6" else lines


def trace(last, call="flush", level="2026-06-04 11:09:30,111 ERROR hooks: could not finish"):
    frames = [
        "Traceback (most recent call last):",
        f'  File "/srv/fit/{call}.py", line 20, in {call}',
        "    go()",
        last,
    ]
    return [*([level] if level else []), *frames]


def verdict_of(folder, files):
    for name, lines in files.items():
        (folder / name).write_text("".join(f"{x}\n" for x in lines), encoding="utf-8")
    return diagnose([folder]).verdict


def job(version, erring, *, silent=3, others=(0, 1)):
    """Four ranks: rank 2 with its own lines, the silent one with a line of its work only, the others in the all-reduce."""
    files = {f"rank{r}.log": waits(r, version) for r in others}
    return files | {"rank2.log": erring, f"rank{silent}.log": [f"2026-06-04 11:09:40,000 INFO rank {silent} step 5"]}


ERRORS = {
    "lightning": trace("PermissionError: [Errno 13] Permission denied: '/shared/metrics.csv'", "csv_logger"),
    "deepspeed": trace("OSError: [Errno 28] No space left on device: '/shared/ds/events.out'", "monitor"),
    "hugging face": trace("KeyError: 'labels'", "callback"),
    "an allocation": trace("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "probe"),
    "its prefix": [f"[rank2]: {x}" for x in trace("ValueError: no such metric", "report", level="")],
}


@pytest.mark.parametrize("version", TORCH)
@pytest.mark.parametrize("error", ERRORS)
def test_a_rank_that_came_to_the_collective_had_survived_its_error(tmp_path, version, error):
    verdict = verdict_of(tmp_path, job(version, [*ERRORS[error], *waits(2, version)]))
    assert verdict.category in {Category.UNKNOWN, Category.DATA_LOADING_STALL}
    assert verdict.strength in {Strength.UNKNOWN, Strength.POSSIBLE}
    assert verdict.culprits.ranks == [3]
    assert 2 not in verdict.first_failed.ranks


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_behind_the_time_out_of_its_own_rank_is_an_effect(tmp_path, error):
    lines = [x.replace("11:09:30", "11:21:30") for x in ERRORS[error]]
    verdict = verdict_of(tmp_path, job("2.6", [*waits(2), *lines]))
    assert verdict.category in {Category.UNKNOWN, Category.DATA_LOADING_STALL}
    assert verdict.culprits.ranks == [3]


@pytest.mark.parametrize("error", ["lightning", "deepspeed", "hugging face", "an allocation"])
def test_with_nobody_known_to_be_absent_the_survived_error_is_not_the_cause_either(tmp_path, error):
    files = {f"rank{r}.log": waits(r) for r in (0, 1)} | {"rank2.log": [*ERRORS[error], *waits(2)]}
    verdict = verdict_of(tmp_path, files)
    assert verdict.category in {Category.UNKNOWN, Category.NETWORK}
    assert verdict.strength in {Strength.UNKNOWN, Strength.POSSIBLE}
    assert verdict.first_failed.ranks != [2]


@pytest.mark.parametrize(
    ("error", "category"),
    [
        ("lightning", Category.SOFTWARE),
        ("deepspeed", Category.STORAGE_IO),
        ("hugging face", Category.SOFTWARE),
        ("an allocation", Category.GPU_CUDA),
        ("its prefix", Category.SOFTWARE),
    ],
)
def test_an_error_of_a_rank_that_never_came_stays_the_cause(tmp_path, error, category):
    files = {f"rank{r}.log": waits(r) for r in (0, 1, 3)} | {"rank2.log": ERRORS[error]}
    verdict = verdict_of(tmp_path, files)
    assert verdict.category is category
    assert verdict.first_failed.ranks == [2]


def test_of_two_ranks_with_one_error_the_one_that_never_came_is_left(tmp_path):
    files = job("2.6", [*ERRORS["hugging face"], *waits(2)]) | {"rank3.log": ERRORS["hugging face"]}
    verdict = verdict_of(tmp_path, files)
    assert verdict.category is Category.SOFTWARE
    assert verdict.first_failed.ranks == [3]


def test_a_device_may_fail_while_its_rank_is_inside(tmp_path):
    error = trace("RuntimeError: CUDA error: an illegal memory access was encountered", "step")
    verdict = verdict_of(tmp_path, job("2.6", [*error, *waits(2)]))
    assert verdict.category is Category.GPU_CUDA
    assert verdict.first_failed.ranks == [2]


@pytest.mark.parametrize("other", [{"numel": 1}, {"op": "BROADCAST"}, {"seq": 42}])
def test_a_rank_in_another_call_than_the_others_may_have_left_theirs_out_for_its_error(tmp_path, other):
    files = {f"rank{r}.log": waits(r) for r in (0, 1, 3)} | {"rank2.log": [*ERRORS["hugging face"], *waits(2, **other)]}
    before = verdict_of(tmp_path, files)
    assert before.category in {Category.SOFTWARE, Category.COLLECTIVE_MISMATCH}
