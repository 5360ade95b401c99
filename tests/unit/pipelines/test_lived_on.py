"""Errors that their program got over, beside the one that ended the job: each made-up job does what its files say."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions

DAY = "2026-06-04"


def diagnosed(folder, files):
    for name, lines in files.items():
        (folder / name).write_text("".join(f"{x}\n" for x in lines), encoding="utf-8")
    return diagnose([str(folder)], DiagnoseOptions(engine="inline"))


def steps(minutes=4):
    return [
        f"{DAY} 11:{10 + s // 60:02d}:{s % 60:02d} INFO step {s // 5} loss 2.{s}" for s in range(5, 60 * minutes, 5)
    ]


def trace(last, function):
    return [
        "Traceback (most recent call last):",
        f'  File "/srv/fit/{function}.py", line 20, in {function}',
        "    go()",
        last,
    ]


MISSING = "FileNotFoundError: [Errno 2] No such file or directory: '/cache/index.json'"
KEY = trace("KeyError: 'caption'", "<module>")
LOST = trace("torch.distributed.DistBackendError: NCCL communicator was aborted.", "<module>")


def job(early, *, late=KEY):
    """Four ranks: rank 2 with an early traceback, rank 3 with what ended it; who met no error lost a peer, rank 0 tells the steps."""
    return {
        "rank0.log": [*steps(), *LOST],
        "rank1.log": LOST,
        "rank2.log": [*early, *(LOST if late is KEY else [])],
        "rank3.log": [f"{DAY} 11:10:02 INFO start", *late],
    }


@pytest.mark.parametrize("title", [[], ["no index yet, making one"], [f"{DAY} 11:10:03 ERROR index: cannot be read"]])
def test_steps_made_long_after_a_line_behind_it_acquit_an_error(tmp_path, title):
    early = [*title, *trace(MISSING, "load"), f"{DAY} 11:10:09 INFO index made, 18233 entries"]
    verdict = diagnosed(tmp_path, job(early)).verdict
    assert verdict.first_failed.ranks == [3]
    assert verdict.trigger.text.strip() == "KeyError: 'caption'"


@pytest.mark.parametrize(
    "behind",
    [
        f"{DAY} 11:10:09 prefetch queue 3",
        f"{DAY} 11:10:09 ERROR giving up",
        f"{DAY} 11:10:09 INFO shutting down",
    ],
)
def test_what_a_buffer_gave_up_at_the_end_and_words_of_parting_acquit_nothing(tmp_path, behind):
    verdict = diagnosed(tmp_path, job([*trace(MISSING, "load"), behind], late=LOST)).verdict
    assert verdict.first_failed.ranks == [2]
    assert verdict.trigger.text.strip() == MISSING


def test_an_error_that_a_handler_printed_last_of_all_stays_a_possibility(tmp_path):
    told = [*trace("KeyError: 'caption'", "run"), f"{DAY} 11:14:03 INFO writing what is left"]
    verdict = diagnosed(tmp_path, job(told, late=LOST)).verdict
    assert verdict.culprits.ranks == [2] or verdict.first_failed.ranks == [2]
    assert verdict.strength is Strength.POSSIBLE


@pytest.mark.parametrize(
    "hint",
    [
        'INFO LIMIT_TIMEOUT is 14; more may avoid "Watchdog caught collective operation timeout" errors',
        "WARNING consider more workers if loading fails",
        "WARNING a larger value could prevent errors later on",
    ],
)
def test_a_hint_above_a_traceback_does_not_say_that_it_was_caught(tmp_path, hint):
    told = [f"{DAY} 11:10:02 {hint}", *trace("KeyError: 'caption'", "run"), f"{DAY} 11:14:03 INFO writing what is left"]
    verdict = diagnosed(tmp_path, job(told, late=LOST)).verdict
    assert verdict.first_failed.ranks == [2]


RETRY = (
    f"{DAY} 11:10:04 WARNING download failed (ConnectionResetError: [Errno 104] Connection reset by peer), retry 1/5"
)
WAIT = (
    "[rank{r}]:[E604 11:24:05.10020030{r} ProcessGroupNCCL.cpp:629] [Rank {r}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)=600000) ran for 600031 milliseconds before timing out."
)


def test_a_connection_that_came_back_is_no_link_of_the_chain(tmp_path):
    found = diagnosed(tmp_path, job([RETRY, f"{DAY} 11:10:06 INFO downloaded"]))
    assert found.verdict.first_failed.ranks == [3]
    assert all("retry 1/5" not in e.text for link in found.chain for e in link.evidence)


def test_a_rank_spoke_last_behind_the_connection_that_came_back(tmp_path):
    told = [
        *(f"[rank{r}]: {DAY} 11:10:01 INFO hello" for r in range(4)),
        f"[rank1]: {RETRY}",
        *(f"[rank0]: {line}" for line in steps()),
        f"[rank3]: {DAY} 11:14:01 INFO tokenizing chunk 5 of 900",
        *(WAIT.format(r=r) for r in (0, 1, 2)),
    ]
    found = diagnosed(tmp_path, {"train.log": told})
    assert found.verdict.culprits.ranks == [3]
    assert "tokenizing chunk 5" in found.verdict.summary


def test_a_process_that_left_by_itself_is_named_and_quoted_where_all_others_lost_a_peer(tmp_path):
    peer = "RuntimeError: [/build/gloo/transport/tcp/pair.cc:537] Connection closed by peer [10.0.0.4]:3264"
    entries = [
        line
        for n, (rank, code) in enumerate([(0, 1), (1, 1), (3, 1), (2, 3)])
        for line in (
            *(["Root Cause (first observed failure):"] if rank == 2 else []),
            f"[{(n + 1) % 4}]:",
            "  time      : 2026-06-04_11:14:08",
            "  host      : v1",
            f"  rank      : {rank} (local_rank: {rank})",
            f"  exitcode  : {code} (pid: {700 + rank})",
            "  error_file: <N/A>",
            "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
        )
    ]
    told = [
        *(f"[rank0]: {line}" for line in steps()),
        f"[rank2]: {DAY} 11:14:01 ERROR fatal: no licence, exiting with code 3",
        *(f"[rank{r}]: {line}" for r in (0, 1, 3) for line in trace(peer, "<module>")),
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
        "=" * 60,
        "fit.py FAILED",
        "-" * 60,
        "Failures:",
        *entries,
        "=" * 60,
    ]
    verdict = diagnosed(tmp_path, {"train.log": told}).verdict
    assert verdict.category is Category.UNKNOWN
    assert (verdict.culprits.ranks, verdict.culprits.strength) == ([2], Strength.POSSIBLE)
    assert "no licence" in verdict.summary
    assert "no licence" in verdict.trigger.text


def test_labels_of_pods_and_local_ranks_name_the_rank_that_states_both(tmp_path):
    told = [
        *(
            f"[pod/fit-worker-{r // 2}/main] [default{r % 2}]:Initializing distributed: GLOBAL_RANK: {r}, MEMBER: {r + 1}/4"
            for r in range(4)
        ),
        *(f"[pod/fit-worker-0/main] [default0]:{line}" for line in steps()),
        *(f"[pod/fit-worker-1/main] [default0]:{line}" for line in KEY),
    ]
    assert diagnosed(tmp_path, {"pods.log": told}).verdict.first_failed.ranks == [2]


def test_tasks_whose_lines_were_folded_are_named_too(tmp_path):
    """Of sixteen lines of srun six are kept; the tasks and hosts of all are known."""
    files = {f"fit-77-{r}.out": [*(steps() if r == 0 else []), *LOST] for r in range(16)}
    files["slurm-77.out"] = [f"srun: error: v{r // 8 + 1}: task {r}: Exited with exit code 1" for r in range(16)]
    for r in range(8, 16):
        files[f"fit-77-{r}.out"] = trace("socket.gaierror: [Errno -2] Name or service not known", "<module>")
    found = diagnosed(tmp_path, files)
    assert found.verdict.first_failed.ranks == list(range(8, 16))
    assert any("ranks 0-15" in link.what for link in found.chain)


def test_an_early_line_without_a_stamp_is_not_the_last_error(tmp_path):
    told = [*trace(MISSING, "load"), f"{DAY} 11:10:09 INFO index made, 18233 entries"]
    found = diagnosed(tmp_path, job(told))
    assert all(MISSING not in (n.evidence.text if n.evidence else "") for n in found.naive)
