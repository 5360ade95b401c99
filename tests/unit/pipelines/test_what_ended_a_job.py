"""What ended a job: a cancel and what comes after it, a pod that came up in the end, an error in another file than the good end.

The truth is what the made-up job did.
"""

from __future__ import annotations

import pytest

from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose


@pytest.fixture
def job(tmp_path):
    def write(**files):
        for name, lines in files.items():
            (tmp_path / f"{name}.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return diagnose([tmp_path]).verdict

    return write


STEPS = [f"step {n}/900 loss {3 - n / 500:.3f}" for n in range(10, 200, 10)]
LATE = {
    "cuda": [
        "terminate called after throwing an instance of 'c10::Error'",
        "  what():  CUDA error: driver shutting down",
    ],
    "peer": ["[rank1]: ConnectionResetError: [Errno 104] Connection reset by peer"],
    "daemon": [
        "slurmstepd: error: *** STEP 771.0 STEPD TERMINATED ON c3 AT 2023-02-01T10:09:10 DUE TO JOB NOT ENDING WITH SIGNALS ***"
    ],
}


@pytest.mark.parametrize("late", LATE)
def test_what_comes_after_a_cancel_is_the_way_the_job_ended(job, late):
    order = "slurmstepd: error: *** STEP 771.0 ON c2 CANCELLED AT 2023-02-01T10:08:10 ***"
    verdict = job(run=[*STEPS, order, *LATE[late]])
    assert verdict.category is Category.INFRASTRUCTURE
    assert verdict.culprits.hosts == []
    assert verdict.trigger is not None
    assert "CANCELLED AT" in verdict.trigger.text


def test_a_cancel_with_a_reason_of_its_own_is_not_taken_for_somebodys_order(job):
    order = "slurmstepd: error: *** STEP 771.0 ON c2 CANCELLED AT 2023-02-01T10:08:10 DUE TO TASK FAILURE ***"
    verdict = job(run=[*STEPS, order, *LATE["peer"]])
    assert verdict.trigger is None or "CANCELLED AT" not in verdict.trigger.text


DEADLINE = "2m    Warning   DeadlineExceeded   job/tune   Job was active longer than specified deadline"
PENDING = {
    "volume": 'Warning   FailedMount   pod/{pod}   MountVolume.SetUp failed for volume "cfg" : timed out waiting for the condition',
    "volumes": "Warning   FailedMount   pod/{pod}   Unable to attach or mount volumes: unmounted volumes=[data]",
    "sandbox": "Warning   FailedCreatePodSandBox   pod/{pod}   Failed to create pod sandbox: context deadline exceeded",
}


@pytest.mark.parametrize("kind", PENDING)
def test_what_kept_a_pod_from_starting_is_over_when_it_has_started(job, kind):
    events = [
        "5h    " + PENDING[kind].format(pod="tune-0"),
        "5h    Normal   Started   pod/tune-0   Started container main",
    ]
    verdict = job(events=[*events, DEADLINE], pod=STEPS)
    assert verdict.trigger is not None
    assert "DeadlineExceeded" in verdict.trigger.text


@pytest.mark.parametrize("kind", PENDING)
def test_another_pod_that_started_excuses_nothing(job, kind):
    events = [
        "5h    " + PENDING[kind].format(pod="tune-1"),
        "5h    Normal   Started   pod/tune-0   Started container main",
    ]
    verdict = job(events=events, pod=["waiting for 2 workers"])
    assert verdict.category is Category.INFRASTRUCTURE


END = ["epoch 10 done", "INFO: Training finished", "Training completed."]
LOST = {
    "rendezvous": [
        "WARNING:torch.distributed.elastic.rendezvous.dynamic_rendezvous:The node 'a_1_0' has failed to shutdown the rendezvous 'x' due to an error of type RendezvousConnectionError.",
        "Traceback (most recent call last):",
        '  File "/e/torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py", line 113, in _call_store',
        "    return getattr(self._store, store_op)(*args, **kwargs)",
        "RuntimeError: Broken pipe",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        "Traceback (most recent call last):",
        '  File "/e/bin/torchrun", line 33, in <module>',
        "    sys.exit(main())",
        "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed. See inner exception for details.",
    ],
    "reset": [
        "Traceback (most recent call last):",
        '  File "serve.py", line 33, in <module>',
        "    main()",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
    ],
}


@pytest.mark.parametrize("kind", LOST)
def test_a_good_end_of_one_file_does_not_excuse_an_uncaught_error_of_another(job, kind):
    verdict = job(first=END, second=["step 10/900 loss 2.1", *LOST[kind]])
    assert verdict.category is not Category.NONE
    assert verdict.failed


def test_an_error_before_the_end_of_its_own_file_stays_excused(job):
    assert job(first=[*LOST["reset"], *END]).category is Category.NONE


def report(rank, local, code):
    return [
        f"E0608 14:41:12.140000 4181 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: {code}) local_rank: {local} (pid: 4241) of binary: /srv/env/bin/python",
        "Root Cause (first observed failure):",
        "[0]:",
        "  time      : 2025-06-08_14:41:11",
        "  host      : bench-3",
        f"  rank      : {rank} (local_rank: {local})",
        f"  exitcode  : {code} (pid: 4241)",
        "  error_file: <N/A>",
        "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
    ]


@pytest.mark.parametrize(("code", "first"), [(1, [9]), (-15, [])])
def test_a_process_that_ended_with_a_code_on_the_machine_at_fault_is_its_victim(tmp_path, code, first):
    (tmp_path / "dmesg-bench-3.txt").write_text(
        "[   41.9] NVRM: The NVIDIA GPU 0000:3b:00.0\n               NVRM: fallen off the bus and is not responding to commands.\n"
    )
    (tmp_path / "job.log").write_text("\n".join([*STEPS, *report(9, 1, code)]) + "\n")
    verdict = diagnose([tmp_path]).verdict
    assert verdict.culprits.hosts == ["bench-3"]
    assert verdict.first_failed.ranks == first


REMOTE = {
    "nccl": "[rank9]: torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.hpp:268, remote process exited or there was a network error, NCCL version 2.21.5",
    "gloo": "[rank9]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.2.0.7]:20411",
}


@pytest.mark.parametrize("kind", REMOTE)
def test_a_process_that_says_that_it_lost_a_peer_ended_for_that(job, kind):
    trace = [
        "[rank9]: Traceback (most recent call last):",
        '[rank9]:   File "/srv/a.py", line 8, in <module>',
        "[rank9]:     run()",
    ]
    verdict = job(node=[*STEPS, *trace, REMOTE[kind], *report(9, 1, 1)])
    assert verdict.category is Category.UNKNOWN
    assert "lost the connection to a peer" in verdict.summary
    assert verdict.culprits.ranks == []
    assert verdict.trigger.text == REMOTE[kind]  # the first sign; it accuses nobody
