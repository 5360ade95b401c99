"""A log whose end says in plain words of no known form that the program failed, and neighbours that say no such thing."""

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

STEPS = "".join(f"INFO trainer: step {n} loss 2.{n}\n" for n in range(10, 60, 10))


def said(folder, *lines, name="job.log", head=STEPS):
    (folder / name).write_text(head + "".join(f"{line}\n" for line in lines))
    return diagnose([folder]).verdict


@pytest.mark.parametrize(
    ("category", "lines"),
    [
        # host memory
        ("infrastructure", ["[hpcwrap 08:07:01] rank=3 host=gx06 STATUS=DEAD reason='exceeded memory allotment (RSS 251G > 250G)'"]),
        ("infrastructure", ["forrtl: severe (41): insufficient virtual memory", "Image   PC   Routine   Line   Source"]),
        ("infrastructure", ["ERROR simcore: ENOMEM in pool_grow, giving up", "simcore: exited with code 12"]),
        # disk
        ("storage_io", ["forrtl: No space left on device", "forrtl: severe (38): error during write, unit 21"]),
        ("storage_io", ["2026-11-12 08:12:41 ERROR ingest-1: shard /mnt/ds/p.h5 unreadable (EIO: Input/output error); giving up"]),
        ("storage_io", ["qshim[rank 5]: E: stripe 4 of /vol/ds/a.bin: server q-07 answered ENOTCONN (6/6), read abandoned"]),
        ("storage_io", ["CRITICAL snapshotter: EDQUOT while writing /home/u/ckpt.9", "job over, code 3"]),
        # access and paths
        ("software", ["chown: changing ownership of '/workspace/run': Operation not permitted", "vendorctl: container exited early with status 126"]),
        ("software", ["make: mlxcc: No such file or directory", "make: *** [Makefile:13: helpers] Error 127", "ERROR:helpers:build failed, exiting"]),
        ("data", ["Fortran runtime error: Cannot open file 'f.nc': No such file or directory", "ERROR tearing down"]),
        # devices
        ("gpu_cuda", ["ERROR TDRV:poll encountered uncorrectable memory error on Neuron Device 3. Terminating."]),
        ("gpu_cuda", ["FATAL xrt: device lost: accelerator 2 does not answer"]),
        ("gpu_cuda", ["ERROR NRT:alloc RESOURCE_EXHAUSTED: tensor of 4 GB on NC 1", "runner: quit with 9"]),
        # crashes and checks
        ("software", ["thread 'main' panicked at src/loss.rs:88:9:", "assertion failed: label < num_classes"]),
        ("software", ["E: invariant batch_order violated", "stage 2 ended, status=FAILED(14)"]),
        # connections
        ("network", ["|CCL_ERROR| atl_ofi.cpp:912 fi_cq_readerr: err: 110, Connection timed out", "ERROR aborting"]),
        ("network", ["[gxmpi:3] E: no route to host 10.2.3.4", "[gxmpi:3] cannot continue, leaving with 77"]),
        # a named exception inside another's report
        ("software", ["toolkit ERROR    Reporting training FAILURE", "ErrorMessage \"ValueError: could not convert string to float: 'N/A'\""]),
    ],
)  # fmt: skip
def test_the_family_of_a_line_of_no_known_form_is_a_possibility(tmp_path, category, lines):
    verdict = said(tmp_path, *lines)
    assert verdict.failed is True
    assert verdict.category == Category(category)
    assert verdict.strength == Strength.POSSIBLE
    assert verdict.trigger is not None
    assert verdict.trigger.text in lines


@pytest.mark.parametrize(
    "line",
    [
        "ERROR raylike: a worker died, giving up. Potential root causes: (1) killed by the OOM killer (2) no space left on device",
        "FATAL hub: process gone; this may be an out of memory kill",
        "E: stage ended, status=FAILED(14), usually because of permission denied",
    ],
)
def test_a_text_that_lists_what_it_can_come_from_tells_no_reason(tmp_path, line):
    verdict = said(tmp_path, line)
    assert verdict.failed is True
    assert verdict.category == Category.UNKNOWN


def test_rank_and_host_that_the_line_names_are_named_as_a_possibility(tmp_path):
    line = "[wrap] rank=3 host=gx06 STATUS=DEAD reason='exceeded memory allotment', process ended by site policy"
    verdict = said(tmp_path, line, "[wrap] tearing down 7 remaining ranks")
    assert (verdict.culprits.ranks, verdict.culprits.hosts) == ([3], ["gx06"])
    assert verdict.culprits.strength == Strength.POSSIBLE


@pytest.mark.parametrize(
    "line",
    [
        "[gxmpi:3] peer went away mid-message, cannot continue, leaving with 77",
        "INFO supervisor: phase: FAILED",
        "batchd: job 7712 ended, status=FAILED(14)",
        "F1112 08:15:01.008135 4002 runner.cc:1501] Taking the process down to keep data consistent.",
    ],
)
def test_a_plain_end_without_a_reason_is_a_failure_and_no_category(tmp_path, line):
    verdict = said(tmp_path, line)
    assert verdict.failed is True
    assert verdict.category == Category.UNKNOWN
    assert "no error" not in verdict.summary
    assert verdict.trigger is not None
    assert verdict.trigger.text == line


def test_an_error_that_does_not_say_that_it_ended_the_run_is_shown_and_no_failure(tmp_path):
    line = "ERROR telemetry: could not reach the collector"
    verdict = said(tmp_path, line)
    assert verdict.failed is None
    assert "no error, " not in verdict.summary
    assert line in verdict.summary


@pytest.mark.parametrize(
    "line",
    [
        "WARNING metrics: memory quota reached, giving up on this upload",
        "ERROR uploader: connection refused, retrying in 5 s",
        "INFO supervisor: worker 3 exited with code 1, restarting it",
        "cat: /sys/fs/cgroup/memory.max: No such file or directory",
        "fatal: not a git repository (or any of the parent directories): .git",
        "ERROR logger: /var/log/run.txt: Permission denied",
        "DEBUG http: request returned with status 200",
        "INFO ECC: 0 uncorrectable errors on GPU 3",
        "INFO validation error: 0.31",
        "mean error: nan of 3 bins",
        "INFO loader: shutting down 4 workers",
        "ERROR cache: out of memory in the pinned pool, falling back to pageable",
    ],
)
def test_a_line_that_programs_go_on_after_makes_no_failure(tmp_path, line):
    verdict = said(tmp_path, line)
    assert verdict.failed is None
    assert verdict.category == Category.UNKNOWN


def test_a_run_that_went_on_after_it_did_not_fail(tmp_path):
    more = "".join(f"INFO trainer: step {n} loss 1.{n}\n" for n in range(60, 100, 10))
    head = STEPS + "FATAL sidecar: device lost: accelerator 2\n" + more
    verdict = said(tmp_path, "INFO saving", head=head)
    assert verdict.failed is None
    assert "device" not in verdict.summary


def test_progress_of_a_form_that_nobody_knows_is_life_too(tmp_path):
    verdict = said(
        tmp_path,
        "E: worker 3 ended, status=FAILED(14)",
        *(f"sweep: finished batch no {n} of this shift" for n in range(4)),
        head="starting\n",
    )
    assert verdict.failed is None


def test_a_finished_run_stays_finished(tmp_path):
    verdict = said(tmp_path, "Training completed.", "sidecar: exited early with status 126", "ERROR sidecar: aborting")
    assert verdict.failed is False


def test_a_known_fault_is_never_outranked(tmp_path):
    verdict = said(
        tmp_path,
        "forrtl: No space left on device",
        "Traceback (most recent call last):",
        '  File "train.py", line 9, in <module>',
        "    main()",
        "KeyError: 'caption'",
    )
    assert "plain words" not in verdict.summary


def test_of_two_logs_a_consequence_gives_way_to_a_root(tmp_path):
    (tmp_path / "rank0.log").write_text(STEPS + "ERROR link: no route to host\nrank 0 left with code 77\n")
    (tmp_path / "rank1.log").write_text(STEPS + "ERROR io: EIO on /mnt/a/b\nrank 1 left with code 5\n")
    verdict = diagnose([tmp_path]).verdict
    assert verdict.category == Category.STORAGE_IO
    assert verdict.first_failed.ranks == [1]


@pytest.mark.parametrize(
    "message",
    [
        "Bad StatusOr access: RESOURCE_EXHAUSTED: tensor allocation failed: NRT_RESOURCE",
        "backend: failed to allocate 4 GB on device 2 (HBM)",
        "runtime: accelerator 3: uncorrectable memory error",
    ],
)
def test_a_common_exception_whose_words_tell_of_a_device_is_one_of_a_device(tmp_path, message):
    verdict = said(tmp_path, f"RuntimeError: {message}")
    assert (verdict.category, verdict.strength) == (Category.GPU_CUDA, Strength.POSSIBLE)


@pytest.mark.parametrize("message", ["shapes (3, 4) and (5,) do not match", "bad header in /mnt/a/part-3"])
def test_a_common_exception_of_other_words_is_software(tmp_path, message):
    assert said(tmp_path, f"RuntimeError: {message}").category == Category.SOFTWARE


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: The Inner error is reported as above. The process exits for this inner error.",
        "RuntimeError: worker failed, see the error message above",
        "RuntimeError: the original exception was printed above",
    ],
)
def test_an_exception_that_points_to_a_line_above_is_not_the_first_fault(tmp_path, line):
    verdict = said(
        tmp_path,
        line,
        "[ERROR] 2026-11-12-08:11:02 (PID:4005, Device:5, RankID:5) ERR00100 PTA call failed",
        "EZ9999: Inner Error!",
    )
    assert verdict.category == Category.GPU_CUDA
