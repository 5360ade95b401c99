"""A run that met the fault of an incident and went on says so in its own words; what is no such line leaves it comparable."""

import pytest
from incident_text import text_of

from firstfault.incidents.passed_over import became_smaller, passed_over
from firstfault.incidents.record import parse


def incident(category, signature, message, form="interrupted"):
    text = (
        text_of().replace("category: gpu_cuda", f"category: {category}").replace("form: interrupted", f"form: {form}")
    )
    head, _, rest = text.partition("\nsignature: gpu.out_of_memory\n")
    return parse(f"{head}\nsignature: {signature}\n{rest}".replace("OutOfMemoryError: CUDA out of memory", message, 1))


MEMORY = incident("gpu_cuda", "gpu.out_of_memory", "OutOfMemoryError: CUDA out of memory")
NAN = incident("numerical", "numerics.nan_loss", "FloatingPointError: loss is nan at step #", "wrong_results")
STALE = incident("storage_io", "storage.stale_handle", "OSError: [Errno 116] Stale file handle: '<path>.tar'")
SAMPLE = incident("software", "python.exception", "KeyError: 'tokens of sample #'")
HANG = incident("data_loading_stall", "rank.last_words", "[INFO] gpu-n# init", "hung")
OWN = incident("software", "python.exception", "TokenBudgetExceeded: budget of the packed row exceeded")


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (MEMORY, "[WARNING] OOM at step 310 on rank 6; this batch is dropped"),
        (MEMORY, "RuntimeError: HIP error: out of memory (ignored, attempt 2)"),
        (MEMORY, "caught OutOfMemoryError, micro batch 8 -> 4"),
        (MEMORY, "[rank2] 显存溢出，重试"),
        (MEMORY, "[ERROR] rank 2: CUDA out of memory in backward"),
        (NAN, "grad norm is inf at iteration 88, update skipped"),
        (NAN, "WARNING loss=nan; rolling back to the last checkpoint"),
        (NAN, "number of skipped iterations: 1 | number of nan iterations: 1 |"),
        (STALE, "open of part-0007.tar: Stale file handle, trying again"),
        (STALE, "OSError on part-0007.tar, reopened"),
        (SAMPLE, "ignoring row 12: KeyError('tokens')"),
        (HANG, "all-reduce timed out on rank 5, process group re-created"),
        (HANG, "rank 5 无响应，重启通信组"),
        (OWN, "skipped row: budget of the packed row exceeded"),
    ],
)
def test_a_fault_of_the_kind_that_was_passed_over(record, line):
    around = ["2026-03-05 step 1 loss 2.1", line, "2026-03-05 step 2 loss 2.0"]
    assert passed_over(record, around) == line


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (MEMORY, "retrying the download of part-0007.tar"),
        (MEMORY, "skip_oom_batches: true"),
        (MEMORY, "args: skip_on_oom=False retry=3"),
        (MEMORY, "room for 3 more, skipping warmup"),
        (NAN, "iteration 10/ 90 | number of skipped iterations:   0 | number of nan iterations:   0 |"),
        (NAN, "check_for_nan_in_loss: True, continue_on_error: False"),
        (NAN, "loss 2.1, information ignored"),
        (STALE, "skipping validation at step 10"),
        (SAMPLE, "skipping bad sample 17: ValueError('shape')"),
        (HANG, "NCCL_IB_TIMEOUT=22 NCCL_IB_RETRY_CNT=7"),
        (HANG, "process group ready, timeout 1800 s, continuing"),
    ],
)
def test_a_line_that_tells_no_such_fault(record, line):
    assert passed_over(record, ["2026-03-05 step 1 loss 2.1", line, "2026-03-05 step 2 loss 2.0"]) == ""


def test_what_became_of_it_may_stand_on_the_next_line():
    lines = ["WARNING CUDA out of memory in forward", "WARNING this batch is skipped"]
    assert passed_over(MEMORY, lines) == lines[0]
    assert passed_over(MEMORY, [lines[0], "step 2", lines[1]]) == ""


@pytest.mark.parametrize(
    ("line", "smaller"),
    [
        ("elastic: world scaled down, rank 6 has left", True),
        ("new world: nodes from 4 to 3", True),
        ("world size 16 -> 15 after a fault", True),
        ("world size 8 -> 16, new nodes joined", False),
        ("continuing with 7 ranks", True),
        ("节点 gpu-n017 被剔除", True),
        ("rank 3 left padding is 12", False),
        ("step 4 loss 2.0", False),
    ],
)
def test_a_job_that_goes_on_with_fewer_ranks(line, smaller):
    assert became_smaller(line) is smaller
