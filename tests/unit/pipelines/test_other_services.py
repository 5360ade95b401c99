"""What clouds, other accelerators, mounts and launchers say of an end, in words that several of them use."""

from __future__ import annotations

import pytest

from firstfault.pipelines.diagnose import diagnose

STEPS = "".join(f"2026-03-04 10:{i:02d}:00 step {i} loss 2.{90 - i}\n" for i in range(40))
"""A run that made a step a minute, to 10:39."""


def told(folder, **files):
    for name, text in files.items():
        (folder / name.replace("__", ".").replace("_", "-")).write_text(text)
    return diagnose([folder]).verdict


def raised(*errors, frame="run"):
    trace = 'Traceback (most recent call last):\n  File "/proj/train.py", line 61, in {}\n    go()\n{}\n'
    between = "\nThe above exception was the direct cause of the following exception:\n\n"
    return between.join(trace.format(frame, error) for error in errors)


@pytest.mark.parametrize(
    ("error", "category"),
    [
        ("RuntimeError: CUDA error: an illegal memory access was encountered", "gpu_cuda"),
        ("OSError: [Errno 28] No space left on device: '/ckpt/step_40'", "storage_io"),
    ],
)
@pytest.mark.parametrize("stop", ["trainer.errors.StopTraining: giving up", "voir.tools.StopProgram: 40 observations"])
def test_a_stop_raised_out_of_an_error_is_no_planned_end(tmp_path, error, category, stop):
    verdict = told(tmp_path, train__log=STEPS + raised(error, stop))
    assert verdict.failed
    assert verdict.category == category


@pytest.mark.parametrize("end", ["StopIteration", "KeyboardInterrupt"])
def test_a_stop_raised_at_the_end_of_the_data_or_by_a_person_is_one(tmp_path, end):
    assert not told(tmp_path, train__log=STEPS + raised(end, "trainer.errors.StopTraining: out of data")).failed


def test_the_word_of_a_preemption_alone_is_not_a_planned_end(tmp_path):
    verdict = told(tmp_path, train__log=STEPS + "Training stopped: Job is preempted.\n")
    assert verdict.failed is not False
    assert verdict.category != "none"


@pytest.mark.parametrize(
    "record",
    [
        '{\n  "TrainingJobName": "fit-3",\n  "TrainingJobStatus": "Stopped",\n  "FailureReason": "Spot interruption notice received"\n}\n',
        '{\n  "name": "projects/1/customJobs/2",\n  "state": "JOB_STATE_FAILED",\n  "error": {\n    "code": 10,\n    "message": "Workers were preempted: workerpool1-0"\n  }\n}\n',
        '{\n  "status": "FAILED",\n  "statusReason": "Host EC2 (instance i-04) terminated: instance was preempted"\n}\n',
    ],
)
def test_a_services_record_of_the_run_is_read(tmp_path, record):
    verdict = told(tmp_path, train__log=STEPS, record__json=record)
    assert verdict.category == "infrastructure"
    assert verdict.trigger is not None
    assert verdict.trigger.file == "record.json"


@pytest.mark.parametrize(
    "settings", ['{\n  "status": "completed",\n  "error": {"code": 0}\n}\n', '{\n  "state": "failed"\n}\n']
)
def test_a_record_without_failure_or_reason_is_not_a_log(tmp_path, settings):
    (tmp_path / "train.log").write_text(STEPS)
    (tmp_path / "record.json").write_text(settings)
    states = {c.file: c.state for c in diagnose([tmp_path]).coverage}
    assert states["record.json"] == "skipped"


@pytest.mark.parametrize(
    "lines",
    [
        "Mar  4 10:40:02 vm-3 systemd-logind[712]: Power key pressed.\nMar  4 10:40:02 vm-3 systemd-logind[712]: Powering Off...\n",
        "Mar  4 10:40:02 vm-3 systemd-logind[712]: System is rebooting.\nMar  4 10:40:05 vm-3 systemd[1]: Reached target Reboot.\n",
        "Mar  4 10:40:02 vm-3 agent[81]: Metadata Service says termination is imminent\n",
    ],
)
def test_a_machine_that_is_switched_off_ends_a_run_without_a_word(tmp_path, lines):
    verdict = told(tmp_path, train__log=STEPS + "2026-03-04 10:40:00 step 40 lo", syslog__txt=lines)
    assert verdict.category == "infrastructure"
    assert verdict.culprits.ranks == []


def test_a_restart_hours_before_the_run_is_not_its_end(tmp_path):
    boot = "Mar  4 06:40:02 vm-3 systemd-logind[712]: System is rebooting.\nMar  4 06:44:05 vm-3 systemd[1]: Started Session 1 of user me.\n"
    verdict = told(tmp_path, train__log=STEPS + raised("KeyError: 'image'", frame="<module>"), syslog__txt=boot)
    assert verdict.category != "infrastructure"


@pytest.mark.parametrize(
    ("daemon", "error"),
    [
        ("gcsfuse", "OSError: [Errno 107] Transport endpoint is not connected: '/gcs/tok/412.bin'"),
        ("juicefs", "OSError: [Errno 107] Transport endpoint is not connected: '/jfs/ckpt/latest'"),
    ],
)
def test_a_dead_mount_is_explained_by_the_kill_of_its_daemon(tmp_path, daemon, error):
    kernel = f"Mar  4 10:40:02 gn-7 kernel: Memory cgroup out of memory: Killed process 4411 ({daemon}) total-vm:2511232kB, anon-rss:517300kB, file-rss:0kB, shmem-rss:0kB, UID:0\n"
    log = STEPS + "2026-03-04 10:40:09 ERROR reading failed\n" + raised(error, frame="<module>")
    verdict = told(tmp_path, gn_7__log=log, gn_7__journal=kernel)
    assert verdict.category == "infrastructure"
    assert verdict.culprits.ranks == []
    assert daemon in verdict.trigger.text


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)",
        "RuntimeError: level_zero backend failed with error: 40 (UR_RESULT_ERROR_OUT_OF_RESOURCES)",
        "RuntimeError: oneCCL: ze_call.cpp:43 do_call: EXCEPTION: ze error at zeCommandListCreate, code: ZE_RESULT_ERROR_DEVICE_LOST",
    ],
)
def test_result_codes_of_level_zero(tmp_path, line):
    verdict = told(tmp_path, train__log=STEPS + raised(line, frame="<module>"))
    assert verdict.category == "gpu_cuda"
    assert verdict.strength != "unknown"


HALT = "jax.errors.JaxRuntimeError: INTERNAL: Core halted unexpectedly: INTERNAL: Accelerator device halted prematurely, perhaps due to an on-device check-failure. Node 0 halted unexpectedly at tag:pc TensorCoreSequencer:1:0x309 (from TensorCoreSequencer:1:0x4f1): scheckne:"


@pytest.mark.parametrize(
    "text",
    [
        f"{HALT} An unexpected leader shows up in the launch group with a different launch id than the current group leader.",
        f"{HALT} \n***************\nAn unexpected peer shows up in the launch group with a different launch id than the current group leader. If using multi-controller backends, non-determinism of the model code may also cause this",
    ],
)
def test_launches_that_do_not_fit_are_a_mismatch_and_no_broken_core(tmp_path, text):
    verdict = told(tmp_path, host0__log=STEPS + raised(text, frame="<module>"))
    assert verdict.category == "collective_mismatch"


def test_a_core_that_halts_for_another_reason_stays_a_fault_of_the_accelerator(tmp_path):
    verdict = told(tmp_path, host0__log=STEPS + raised(f"{HALT} no debugging message", frame="<module>"))
    assert verdict.category == "gpu_cuda"


@pytest.mark.parametrize(
    "fault",
    [
        "nvidia 0000:21:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0026 address=0x3d000000 flags=0x0020]",
        "amdgpu 0000:2f:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x001a address=0xec68053da00 flags=0x0010]",
    ],
)
def test_blocked_transfers_between_cards_explain_a_hang(tmp_path, fault):
    waits = "".join(
        f"[rank{r}]:[E304 10:31:00.118213 ProcessGroupNCCL.cpp:632] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=BROADCAST, NumelIn=8, NumelOut=8, Timeout(ms)=1800000) ran for 1800041 milliseconds before timing out.\n"
        for r in (0, 1)
    )
    log = "2026-03-04 10:00:50 rank 0 of 2 ready\n2026-03-04 10:00:50 rank 1 of 2 ready\n" + waits
    verdict = told(tmp_path, gn_7__log=log, gn_7__dmesg=f"Mar  4 10:01:00 gn-7 kernel: [ 433.2] {fault}\n")
    assert verdict.category == "gpu_cuda"
    assert verdict.culprits.ranks == []


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("MOAB_INFO:  job 41 exceeded MEM usage hard limit (51240 > 50688)", "memory"),
        ("MOAB_INFO:  job exceeded wallclock limit", "time limit"),
    ],
)
def test_a_limit_stands_above_the_word_that_the_job_was_deleted(tmp_path, line, text):
    mail = f"PBS Job Id: 41.pbs\nJob deleted at request of root@pbs\n{line}\n"
    verdict = told(tmp_path, job__log=STEPS, mail__txt=mail)
    assert text in verdict.summary


@pytest.mark.parametrize(
    "line",
    [
        "Error: failed to run torchrun --nproc_per_node=8 --nnodes=2 --node_rank=1 train.py on gn-8, is localhost: False, exception: No authentication methods available",
        "paramiko.ssh_exception.AuthenticationException: Authentication failed.",
    ],
)
def test_a_node_that_the_launcher_could_not_log_in_to(tmp_path, line):
    late = raised(
        "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 8/16 clients joined."
    )
    verdict = told(tmp_path, console__log=f"{line}\n{late}")
    assert verdict.category == "infrastructure"
    assert verdict.trigger is not None
    assert verdict.trigger.line == 1
