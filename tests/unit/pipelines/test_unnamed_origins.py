"""Who it was where the line of the fault names nobody: the others' lines leave one rank; and ends that are another rank's."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

TRACE = "Traceback (most recent call last):"


def verdict(tmp_path, lines):
    path = tmp_path / "job.log"
    path.write_text("\n".join(lines) + "\n")
    return diagnose([path]).verdict


def waits(ranks, seq=88, op="ALLREDUCE"):
    return [
        f"[E ProcessGroupNCCL.cpp:821] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, "
        f"OpType={op}, Timeout(ms)=600000) ran for 60010{r} milliseconds before timing out."
        for r in ranks
    ]


LABEL = [
    "epoch 2 step 410 loss 0.61",
    (
        "../aten/src/ATen/native/cuda/Loss.cu:240: nll_loss_forward_reduce_cuda_kernel_2d: block: [0,0,0], thread: [9,0,0] "
        "Assertion `t >= 0 && t < n_classes` failed."
    ),
]
EMBEDDING = [
    "iteration 30/ 900 | lm loss: 7.1E+00",
    (
        "../aten/src/ATen/native/cuda/Indexing.cu:1141: indexSelectSmallIndex: block: [3,0,0], thread: [0,0,0] "
        "Assertion `srcIndex < srcSelectDimSize` failed."
    ),
    TRACE,
    '  File "train.py", line 9, in <module>',
    "    loss.backward()",
    "RuntimeError: CUDA error: device-side assert triggered",
]


@pytest.mark.parametrize("fault", [LABEL, EMBEDDING])
def test_a_fault_without_a_rank_is_that_of_the_only_one_who_does_not_wait(tmp_path, fault):
    found = verdict(tmp_path, [*fault, *waits([0, 1, 3])])
    assert found.category is Category.DATA
    assert list(found.culprits.ranks) == [2]
    assert list(found.first_failed.ranks) == [2]


@pytest.mark.parametrize("others", [waits([0, 3]), waits([0, 1, 3]) + waits([0, 1, 3], seq=512, op="BROADCAST")])
def test_nobody_is_named_where_two_are_away_or_the_numbers_may_be_of_two_groups(tmp_path, others):
    assert list(verdict(tmp_path, [*LABEL, *others]).culprits.ranks) == []


ENDS = {
    "a time of the end": "[INFO:swift] End time of running main: 2025-05-17 22:41:08.115201",
    "metrics of the trainer": "***** train metrics *****",
}
ERRORS = {
    "a link that another made": [
        "    os.symlink(best, link)",
        "FileExistsError: [Errno 17] File exists: '/x/c-9' -> '/x/best'",
    ],
    "a key of the code": ['    print(results["accuracy"])', "KeyError: 'accuracy'"],
}
DIED = (
    "E0517 22:41:10.330000 7711 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 1 "
    "(pid: 7789) of binary: /opt/env/bin/python"
)  # fmt: skip


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
def test_the_end_that_one_rank_tells_does_not_excuse_what_ended_another(tmp_path, end, error):
    lines = [TRACE, '  File "train.py", line 88, in <module>', *error, end, DIED]
    found = verdict(tmp_path, lines)
    assert found.category is Category.SOFTWARE
    assert found.trigger.line == 4


def test_where_nobody_died_the_end_excuses_what_stands_before_it(tmp_path):
    lines = [
        TRACE,
        '  File "probe.py", line 3, in <module>',
        *ERRORS["a key of the code"],
        ENDS["metrics of the trainer"],
    ]
    assert verdict(tmp_path, lines).category is Category.NONE


RAISED = [
    TRACE,
    '  File "/opt/lib/client/session.py", line 1365, in _do_call',
    "    return fn(*args)",
    "ValueError: no such node",
]


@pytest.mark.parametrize(
    "above",
    [
        "W0226 21:28:44.911220 140330 error_handling.py:135] Reraising captured error",
        "WARNING: cleaned up, re-raising the error",
    ],
)
def test_who_raises_an_error_anew_has_not_gone_on(tmp_path, above):
    assert verdict(tmp_path, [above, *RAISED]).category is Category.SOFTWARE


def test_who_warns_of_an_error_and_skips_the_batch_went_on(tmp_path):
    lines = ["WARNING: error in a batch, it is skipped", *RAISED, *(f"step {n}/900 loss 2.1" for n in range(40, 60))]
    assert verdict(tmp_path, lines).category is Category.UNKNOWN


def test_who_says_nothing_more_after_a_skip_is_not_seen_to_have_gone_on(tmp_path):
    found = verdict(tmp_path, ["WARNING: error in a batch, it is skipped", *RAISED])
    assert (found.category, found.strength) == (Category.SOFTWARE, Strength.POSSIBLE)


def asks(rank, inner=None, reason="Socket Timeout", word="RuntimeError"):
    inner = rank if inner is None else inner
    return (
        f"[rank{rank}]: {word}: [{inner}] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d "
        f"key-value store by key '0', but store->get('0') got error: {reason}"
    )


BARS = {
    "prompts": "Tokenizing Prompts (num_proc=64):  71%|#######   | 255912/359152 [16:46<14:46, 116.42 examples/s]",
    "a map": "Map (num_proc=16):  31%|###       | 3100/10000 [29:12<00:30, 230.01 examples/s]",
}


@pytest.mark.parametrize("bar", BARS.values(), ids=BARS)
def test_who_waits_for_the_communicators_id_while_data_is_prepared_waits_for_rank_0(tmp_path, bar):
    found = verdict(
        tmp_path,
        [
            bar,
            asks(2, word="torch.distributed.DistBackendError", reason="wait timeout after 1800000ms"),
            asks(1),
            asks(3),
        ],
    )
    assert found.category is Category.DATA_LOADING_STALL
    assert list(found.culprits.ranks) == [0]
    assert found.trigger.line == 1


def test_without_a_sign_of_its_work_only_who_is_said(tmp_path):
    found = verdict(tmp_path, ["start", asks(2), asks(1), asks(3)])
    assert (found.category, found.strength) == (Category.UNKNOWN, Strength.UNKNOWN)
    assert list(found.culprits.ranks) == [0]


@pytest.mark.parametrize(
    "lines",
    [
        [asks(5, inner=1), asks(6, inner=2), asks(7, inner=3)],
        [asks(1, reason="Connection reset by peer"), asks(2, reason="Connection reset by peer")],
    ],
    ids=["members of a part of the job", "the store went away"],
)
def test_rank_0_is_not_named_for_another_group_or_a_store_that_is_gone(tmp_path, lines):
    assert list(verdict(tmp_path, [BARS["prompts"], *lines]).culprits.ranks) == []


LOST = [
    TRACE,
    '  File "train.py", line 9, in <module>',
    "    dist.all_reduce(loss)",
    "torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error, NCCL version 2.21.5",
]


def listed(host, rank):
    return [
        "train.py FAILED",
        "------------------------------------------------------------",
        "Root Cause (first observed failure):",
        "[0]:",
        "  time      : 2026-03-04_10:02:14",
        f"  host      : {host}",
        f"  rank      : {rank} (local_rank: 0)",
        f"  exitcode  : 1 (pid: 70{rank})",
        "============================================================",
    ]


def test_of_the_ranks_that_the_launchers_list_some_may_only_have_lost_their_peer(tmp_path):
    """Each machine's launcher lists the first that failed there; one process prints the words of many threads."""
    fault = [EMBEDDING[0], EMBEDDING[1], EMBEDDING[1].replace("thread: [0", "thread: [1"), *EMBEDDING[2:]]
    found = verdict(tmp_path, [*fault, *LOST, *listed("na", 0), *listed("nb", 4)])
    assert found.category is Category.DATA
    assert not found.first_failed.ranks
    assert "rank" not in found.summary


def test_the_only_rank_that_is_listed_is_named_though_others_lost_their_peer(tmp_path):
    found = verdict(tmp_path, [*EMBEDDING, *LOST, *listed("nb", 4)])
    assert list(found.first_failed.ranks) == [4]
