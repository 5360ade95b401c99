"""Why one rank stayed away, by lines that no signature of a fault holds: work left out, no data, a question, a compiler, another collective."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions


def told(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return diagnose([str(folder)], DiagnoseOptions(engine="inline")).verdict


def waits(rank, seq=812, op="ALLREDUCE", at="08:28:20"):
    head = f"[rank{rank}]:[E1112 {at}.01446230{rank % 10} ProcessGroupNCCL.cpp:"
    work = f"WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn=33554432, NumelOut=33554432, Timeout(ms)=600000)"
    return (
        f"{head}629] [Rank {rank}] Watchdog caught collective operation timeout: {work} ran for {600010 + rank} milliseconds before timing out.\n"
        f"{head}2168] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected by watchdog at work sequence id: {seq} PG status: "
        f"last enqueued work: {seq}, last completed work: {seq - 1}\n"
    )


def idle(rank, done=811):
    return (
        f"[rank{rank}]:[E1112 08:28:21.014462300 ProcessGroupNCCL.cpp:1746] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Received a dump "
        "signal due to a collective timeout from  rank 0 and we will try our best to dump the debug info. Last enqueued NCCL work: "
        f"{done}, last completed NCCL work: {done}.This is most likely caused by incorrect usages of collectives\n"
    )


BEGIN = "2026-11-12 08:17:01 INFO fit: step 270 loss 1.31\n"


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-12 08:18:19 WARNING loader: dropping utterance fsh_1142: shorter than 8 frames\n",
        "2026-11-12 08:18:19 | data | micro-batch 3 skipped, no target tokens\n",
        "2026-11-12 08:18:19 WARNING trainer: loss is not finite on this rank, skipping the backward of step 271\n",
    ],
)
def test_a_rank_that_leaves_something_out_may_have_issued_fewer_collectives(tmp_path, line):
    files = {f"rank{r}.log": BEGIN + waits(r) for r in range(3)}
    found = told(tmp_path, files | {"rank3.log": BEGIN + line + idle(3)})
    assert found.culprits.ranks == [3]
    assert (found.category, found.strength) == (Category.COLLECTIVE_MISMATCH, Strength.POSSIBLE)
    assert found.trigger is not None
    assert found.trigger.text.strip() == line.strip()


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-12 08:18:19 INFO amp: Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0\n",
        "2026-11-12 08:18:19 INFO loader: skipped 0 samples\n",
        "2026-11-12 08:18:19 INFO resume: skipping the first 270 batches that were seen already\n",
    ],
)
def test_what_all_ranks_leave_out_alike_tells_nothing(tmp_path, line):
    files = {f"rank{r}.log": BEGIN + waits(r) for r in range(3)}
    found = told(tmp_path, files | {"rank3.log": BEGIN + line + idle(3)})
    assert found.culprits.ranks == [3]
    assert found.category is not Category.COLLECTIVE_MISMATCH


@pytest.mark.parametrize(
    ("some", "none"),
    [
        ("rank {r}: num_samples=2048\n", "rank {r}: num_samples=0\n"),
        ("[rank={r}] assigned 12 shards\n", "[rank={r}] assigned 0 shards\n"),
        ("reader of rank {r} found 96 training files\n", "reader of rank {r} found no training files\n"),
    ],
)
def test_the_one_rank_without_data_is_told_by_the_line_that_says_so(tmp_path, some, none):
    split = "".join((none if r == 2 else some).format(r=r) for r in range(4))
    world = "world_size: 4\n"
    log = world + split + "".join(waits(r) for r in (0, 1, 3))
    found = told(tmp_path, {"train.log": log})
    assert found.culprits.ranks == [2]
    assert (found.category, found.strength) == (Category.DATA, Strength.POSSIBLE)
    assert found.trigger is not None
    assert found.trigger.text.strip() == none.format(r=2).strip()


def test_a_number_that_is_nothing_on_all_ranks_is_no_share(tmp_path):
    split = "".join(f"rank {r}: num_samples=0\n" for r in range(4))
    found = told(tmp_path, {"train.log": "world_size: 4\n" + split + "".join(waits(r) for r in (0, 1, 3))})
    assert found.culprits.ranks == [2]
    assert found.category is Category.UNKNOWN


STORE = (
    "[rank{r}]: torch.distributed.DistBackendError: [{r}] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d "
    "key-value store by key '0', but store->get('0') got error: wait timeout after 600000ms, keys: /default_pg/0//cuda//0\n"
)


@pytest.mark.parametrize(
    "line",
    [
        "The remote code of this model may be executed. Do you wish to run it? [y/N] \n",
        "Enter the passphrase of the key '/home/ci/.ssh/id_ed25519': \n",
        "(Pdb) \n",
    ],
)
def test_a_question_that_nobody_answers_is_that_of_the_rank_for_which_the_others_wait(tmp_path, line):
    found = told(
        tmp_path, {"train.log": "world_size: 3\nstarting\n" + line + "".join(STORE.format(r=r) for r in (1, 2))}
    )
    assert found.culprits.ranks == [0]
    assert (found.category, found.strength) == (Category.DATA_LOADING_STALL, Strength.POSSIBLE)
    assert found.trigger is not None
    assert found.trigger.line == 3


def test_a_statement_with_a_colon_is_no_question(tmp_path):
    log = "world_size: 3\nusing the token of the environment:\n" + "".join(STORE.format(r=r) for r in (1, 2))
    assert told(tmp_path, {"train.log": log}).category is Category.UNKNOWN


@pytest.mark.parametrize(
    "line",
    [
        "Autotuning kernel _attn_fwd with config BLOCK_M: 128\n",
        "compiling kernel flash_fwd_hdim128 for sm_90a (41 of 96)\n",
    ],
)
def test_unsigned_lines_of_a_file_with_one_rank_are_its_last_words(tmp_path, line):
    lost = (
        "[rank1]:[E1112 08:28:26.771230441 ProcessGroupNCCL.cpp:552] [Rank 1] Collective WorkNCCL(SeqNum=812, OpType=ALLREDUCE, "
        "NumelIn=33554432, NumelOut=33554432, Timeout(ms)=600000) raised the following async exception: NCCL error: remote process exited "
        "or there was a network error, NCCL version 2.27.5\nncclRemoteError: A call failed possibly due to a network error or a remote "
        "process exiting prematurely.\nLast error:\nsocketProgress: Connection closed by remote peer box-a<43310>\n"
    )
    found = told(tmp_path, {"a.log": "world_size: 2\n" + waits(0), "b.log": "world_size: 2\n" + line + lost})
    assert found.culprits.ranks == [1]
    assert (found.category, found.strength) == (Category.DATA_LOADING_STALL, Strength.POSSIBLE)
    assert found.trigger is not None
    assert found.trigger.text.strip() == line.strip()


@pytest.mark.parametrize(("own", "others"), [("ALLREDUCE", "_ALLGATHER_BASE"), ("_REDUCE_SCATTER_BASE", "ALLREDUCE")])
def test_a_number_that_the_others_have_passed_holds_another_collective_than_theirs(tmp_path, own, others):
    log = "world_size: 4\n" + waits(1, 400, own) + "".join(waits(r, 403, others) for r in (0, 2, 3))
    found = told(tmp_path, {"train.log": log})
    assert found.culprits.ranks == [1]
    assert (found.category, found.strength) == (Category.COLLECTIVE_MISMATCH, Strength.POSSIBLE)


@pytest.mark.parametrize(("seq", "own"), [(402, "ALLREDUCE"), (400, "BROADCAST"), (400, "_ALLGATHER_BASE")])
def test_one_number_less_a_broadcast_or_the_same_call_shows_no_other_collective(tmp_path, seq, own):
    log = "world_size: 4\n" + waits(1, seq, own) + "".join(waits(r, 403, "_ALLGATHER_BASE") for r in (0, 2, 3))
    assert told(tmp_path, {"train.log": log}).category is not Category.COLLECTIVE_MISMATCH


BAR = "Epoch 8: 100%|##########| 38/38 [00:03<00:00, 12.62it/s]\n"


@pytest.mark.parametrize(
    "line",
    [
        "2026-09-10 20:42:31,004 - Executor - ERROR - task fit failed: EXECUTION_EXCEPTION\n",
        "[2026-09-10 20:42:31] CRITICAL runner: training aborted\n",
    ],
)
def test_a_bar_at_its_end_is_no_good_end_where_the_log_says_that_the_run_failed(tmp_path, line):
    assert told(tmp_path / "well", {"train.log": BAR}).category is Category.NONE
    found = told(tmp_path / "badly", {"train.log": BAR + line})
    assert found.failed is True
    assert found.category is not Category.NONE


def test_a_warning_behind_the_last_step_leaves_the_good_end(tmp_path):
    line = "2026-09-10 20:42:31,004 - sync - WARNING - upload of the plots failed, will retry\n"
    assert told(tmp_path, {"train.log": BAR + line}).category is Category.NONE


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-12 08:18:19 DEBUG sync: Waiting for broadcasts/step_271/READY\n",
        "2026-11-12 08:18:19 INFO waits for the reward server at 10.1.2.3:8000\n",
        "2026-11-12 08:18:19 INFO waiting until /shared/ckpt/lock is free\n",
    ],
)
def test_a_rank_that_waits_for_something_else_is_on_its_cpu_side(tmp_path, line):
    files = {f"rank{r}.log": BEGIN + waits(r) for r in range(3)}
    found = told(tmp_path, files | {"rank3.log": BEGIN + line})
    assert found.culprits.ranks == [3]
    assert (found.category, found.strength) == (Category.DATA_LOADING_STALL, Strength.POSSIBLE)


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-12 08:18:19 DEBUG waiting for all ranks\n",
        "2026-11-12 08:18:19 DEBUG waiting for the barrier of step 271\n",
        "2026-11-12 08:18:19 DEBUG waiting on broadcast from rank 0\n",
        "2026-11-12 08:18:19 INFO waiting for the main process\n",
        "2026-11-12 08:18:19 INFO Waiting for rank 0\n",
    ],
)
def test_a_rank_that_waits_for_its_peers_is_not_seen_at_work(tmp_path, line):
    files = {f"rank{r}.log": BEGIN + waits(r) for r in range(3)}
    found = told(tmp_path, files | {"rank3.log": BEGIN + line})
    assert found.category is not Category.DATA_LOADING_STALL
