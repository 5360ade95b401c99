"""A run that met the fault of an incident and went on says so in its own words; what is no such line leaves it comparable."""

import re

import pytest
from incident_text import text_of

from firstfault.incidents.hints import hints_of
from firstfault.incidents.one_piece import became_smaller, began_anew
from firstfault.incidents.passed_over import kind_of
from firstfault.incidents.record import parse
from firstfault.incidents.screen import Screen, passed_over


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
        (MEMORY, "the card ran full at step 6, giving it a smaller microbatch"),
        (MEMORY, "could not fit the batch, splitting in two"),
        (MEMORY, "第 6 步显卡装不下，改成 bs=2"),
        (NAN, "gradient had bad values at step 6, step thrown away"),
        (STALE, "mount went away for a moment, reading shard 12 from the mirror"),
        (STALE, "共享盘闪断，从备份读取"),
        (HANG, "loader worker 2 silent for 300 s, it was killed and a new one took over"),
        (HANG, "batch 812 never came; worker torn down and set up again"),
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
        (MEMORY, "Decreasing batch size to: 4."),
        (MEMORY, "Batch size 16 failed, trying batch size 8"),
        (MEMORY, "skipped 3 batches due to memory"),
        (MEMORY, "gpu_oom_retries: 2"),
        (MEMORY, "num_ooms 2 | tokens/s 1200"),
        (MEMORY, "oom_events=3"),
        (MEMORY, "oom_skips: 3"),
        (MEMORY, "[rank3] 显存爆了，丢掉这个 batch"),
        (MEMORY, "rank 2: allocation of 3.1 GiB did not fit, sequence was split in two"),
        (MEMORY, "[rank3] OOMObserver: memory snapshot written to oom_rank3.pickle"),
        (MEMORY, "[rank3] not enough GPU memory for this sequence; truncating it to 4096 tokens"),
        (MEMORY, "[rank3] OOM!"),
        (MEMORY, "WARNING: micro-batch lowered from 8 to 4 after memory error"),
        (MEMORY, "cudaErrorMemoryAllocation on device 3, spilled to host"),
        (MEMORY, "memory pressure: dropped the longest sample of the batch"),
        (MEMORY, "Out of GPU memory on rank 3 -> activation checkpointing switched on"),
        (MEMORY, "显存占用过高，自动减小 batch size 到 4"),
        (HANG, "NCCL communicator aborted and re-created after timeout"),
        (HANG, "barrier took too long; watchdog killed rank 5 and it rejoined"),
        (HANG, "collective timeout on group tp, group rebuilt"),
        (NAN, "skip update: non finite grads"),
        (STALE, "stale handle: remount and go on"),
        (NAN, "number of skipped iterations: 0 | number of nan iterations: 3 |"),
        (NAN, "loss spike detected, rolling back to step 200"),
        (NAN, "[loss_scaler] OVERFLOW! Skipping step. Attempted loss scale: 65536, reducing to 32768"),
        (STALE, "读取 /mnt/data/part-0007.tar 失败，5 秒后重试"),
        (STALE, "/venv/webdataset/handlers.py:34: UserWarning: OSError(116, 'Stale file handle')"),
        (STALE, "remounted /mnt/data after ESTALE"),
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
        (MEMORY, "oom_events=0"),
        (MEMORY, "oom_retry_limit=3 max_ooms=5"),
        (MEMORY, "OOM guard enabled"),
        (MEMORY, "max memory reserved 76.2 GiB (96%)"),
        (MEMORY, "memory timeline written to mem.html"),
        (HANG, "heartbeat ok: 8 of 8 ranks"),
        (NAN, "grad norm 0.8 finite"),
        (MEMORY, "memory (MB) | allocated: 1223.0 | max allocated: 71230.1 | reserved: 77000.0"),
        (NAN, "nan check passed: 0 NaNs in 412 tensors"),
        (NAN, "iteration 10/ 90 | elapsed: 2 | number of skipped iterations: 0 | number of nan iterations: 0 |"),
    ],
)
def test_a_line_that_tells_no_such_fault(record, line):
    assert passed_over(record, ["2026-03-05 step 1 loss 2.1", line, "2026-03-05 step 2 loss 2.0"]) == ""


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (MEMORY, "activations go to CPU: offload=True"),
        (MEMORY, "free VRAM 12.1 GiB after warm-up"),
        (MEMORY, "evaluation again every 500 steps, with a smaller batch"),
        (NAN, "loss 2.31, went down for 12 steps"),
        (STALE, "copied shard 12 from the mirror to local disk"),
        (HANG, "worker 3 done with its epoch, a new one took over"),
        (HANG, "checkpoint 500 saved, old one thrown away"),
        (HANG, "all ranks joined, new process group of ranks 0-3 made"),
    ],
)
def test_words_of_remedy_alone_tell_no_fault(record, line):
    assert passed_over(record, ["step 5/100 loss 2.2", line, "step 6/100 loss 2.1"]) == ""


def timed(*gaps, begin=23 * 3600 + 3000):
    """Step lines that lie so many seconds apart, past midnight among them."""
    lines, at = [], begin
    for step, gap in enumerate(gaps):
        at += gap
        hour, minute = at // 3600 % 24, at // 60 % 60
        lines.append(f"2026-03-02 {hour:02}:{minute:02}:{at % 60:02} step {step}/100 loss 2.1".encode())
    return lines


@pytest.mark.parametrize(
    ("record", "gaps", "stood"),
    [
        (HANG, [5] * 10 + [1860] + [5] * 10, (1860, 9, 10)),
        (STALE, [5] * 10 + [250] + [5] * 9, (250, 9, 10)),
        # Its steps tell nothing of a fault that ends a job at once.
        (MEMORY, [5] * 10 + [1860] + [5] * 10, None),
        # Evaluations come again; slow steps are slow; a few steps show no usual time.
        (HANG, [5] * 10 + [400] + [5] * 10 + [380] + [5] * 9, None),
        (HANG, [60] * 10 + [400] + [60] * 10, None),
        (HANG, [5, 5, 900, 5], None),
        (HANG, [5] * 30, None),
        (HANG, [5] * 10 + [-2] + [5] * 10, None),
    ],
)
def test_a_run_that_stood_still_between_two_steps(record, gaps, stood):
    screen = Screen(record)
    screen.source(timed(*gaps))
    assert screen.stood == stood


def test_a_step_0_hides_no_other_step_of_its_form():
    screen = Screen(MEMORY)
    screen.source([b"step 0/100 loss 9", *steps(range(10, 250, 10), range(210, 510, 10))])
    assert screen.back == (240, 210)


def test_what_became_of_it_may_stand_on_the_next_line():
    lines = ["WARNING CUDA out of memory in forward", "WARNING this batch is skipped"]
    assert passed_over(MEMORY, lines) == lines[0]
    assert passed_over(MEMORY, [lines[0], "step 2", lines[1]]) == ""


def test_a_counter_before_the_first_step_is_a_setting():
    assert passed_over(MEMORY, ["oom_retries: 2", "2026-03-05 step 1 loss 2.1"]) == ""
    assert passed_over(MEMORY, ["2026-03-05 step 1 loss 2.1", "oom_retries: 2"]) == "oom_retries: 2"


def test_a_counter_is_seen_in_whichever_line_of_a_form_it_is_no_longer_zero():
    row = "iteration {:4d}/ 900 | lm loss: 2.{} | number of skipped iterations: 0 | number of nan iterations: {} |"
    lines = [row.format(n, n % 10, 0 if n < 800 else 1) for n in range(1, 901)]
    assert passed_over(NAN, lines) == lines[799]


@pytest.mark.parametrize(
    ("line", "anew"),
    [
        ("Attempt 1 failed with exit code 1, retrying in 30 s", True),
        ("[default] worker group failed; will restart worker group (1/3 attempts remain)", True),
        ("supervisor: no progress for 600 s, killing and relaunching from last checkpoint", True),
        ("Heartbeat lost for rank 3; hot-swapping node gpu-n017", True),
        ("Restarting hung workers on gpu-n017", True),
        ("[torchft] replica group 2 left quorum; continuing with 3 groups", True),
        ("  restart_count=1", True),
        ("检测到训练卡死，自动拉起新进程", True),
        ("loss 异常，回滚到第 200 步", True),
        ("step 231 was repeated by the launcher after a crash of rank 3", True),
        ("elastic agent: rank 3 died with exit code 137, new rendezvous", True),
        ("job 4711 requeued due to node failure", True),
        ("node gpu-n017 drained, continuing on spare gpu-n099", True),
        ("job restarted (attempt 2)", True),
        ("resubmitted by the watchdog after a hang", True),
        ("logger restarted file rotation", False),
        ("node gpu-n017 joined", False),
        ("rank 3 exited with code 0", False),
        ("prefetch queue restarted at the epoch end", False),
        ("  restart_count=0", False),
        ("  max_restarts     : 3", False),
        ("[default] starting workers for entrypoint: train.py", False),
        ("if a worker failed, the launcher restarts it", False),
        ("resuming from checkpoint at step 200", False),
        ("wandb: Network error (ConnectionError), entering retry loop.", False),
        ("restart_on_failure: True", False),
        ("restarting data loader workers", False),
        ("step 200 loss 2.1", False),
    ],
)
def test_a_job_of_which_a_part_failed_and_was_begun_anew(line, anew):
    assert began_anew(line) is anew


def steps(*spans):
    return [f"2026-03-05 step {step} loss 2.1".encode() for span in spans for step in span]


@pytest.mark.parametrize(
    ("lines", "back"),
    [
        (steps(range(10, 250, 10), range(210, 510, 10)), (240, 210)),
        (steps(range(10, 250, 10), range(10, 510, 10)), (240, 10)),
        (steps(range(10, 510, 10)), None),
        # Epochs count from the start again, and never come past their own end.
        (steps(range(10, 110, 10), range(10, 110, 10), range(10, 110, 10)), None),
        # Processes without names write in turns, one of them a little late.
        (steps(*[(n, n - 10) for n in range(20, 300, 10)]), None),
    ],
)
def test_a_run_whose_steps_go_back_and_come_past_the_place_began_anew(lines, back):
    screen = Screen(MEMORY)
    screen.source(lines)
    assert screen.back == back


def test_sources_are_apart_in_their_steps():
    screen = Screen(MEMORY)
    screen.source(steps(range(10, 250, 10)))
    screen.source(steps(range(10, 510, 10)))
    assert screen.back is None


@pytest.mark.parametrize("record", [MEMORY, NAN, STALE, SAMPLE, HANG, OWN])
def test_the_words_that_are_asked_first_stand_in_every_line_that_a_pattern_matches(record):
    kind = kind_of(record)
    assert hints_of([kind]).pattern, "some part of the pattern needs no word, so that every line is asked"
    told = test_a_fault_of_the_kind_that_was_passed_over.pytestmark[0].args[1]
    lines = [line for _, line in told if kind.search(line)]
    assert lines
    assert [line for line in lines if not hints_of([kind]).search(line.encode().lower())] == []


def test_alternatives_inside_groups_and_classes_are_not_taken_apart():
    found = hints_of([re.compile(r"(?:alpha|beta)gamma|[|(]delta\|epsilon|zeta")])
    hits = [word for word in (b"alphagamma", b"betagamma", b"|delta|epsilon", b"zeta", b"eta") if found.search(word)]
    assert hits == [b"alphagamma", b"betagamma", b"|delta|epsilon", b"zeta"]
    assert hints_of([re.compile(r"\d+|zeta")]).search(b"nothing of it")
    assert not hints_of([]).search(b"nothing of it")


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


STEP = b" iteration %8d/    2000 | consumed samples: 64 | lm loss: 2.5E+00 | number of nan iterations:   0 |"


def error_of(*lines, last=3):
    screen = Screen(MEMORY)
    steps = [STEP % (100 * n) for n in range(1, last + 1)]
    screen.source([*steps[:2], *(line.encode() for line in lines), *steps[2:]])
    assert not screen.passed_over
    return screen.error


@pytest.mark.parametrize(
    "line",
    [
        "2026-10-07 08:10:00 ERROR worker exited unexpectedly; a fresh one was spawned",
        "[rank2]: Traceback (most recent call last):",
        '{"level":"error","msg":"the thing went bang"}',
        "E1007 08:20:00.123456 4411 foo.cc:12] bang",
        "2026-10-07 08:10:50 \x1b[31mERROR\x1b[0m went bang",
        "2026-10-07 08:10:00 任务出现异常，但已自愈",
    ],
)
def test_an_error_amid_the_steps_is_told_whatever_its_words_are(line):
    assert error_of(line) == line
    assert error_of(line, last=2) == "", "what is said behind the last step belongs to the end"


@pytest.mark.parametrize(
    "line",
    [
        "index of shard 0041 disagrees by 12 bytes; moving on to 0042",
        "分片 0041 长度不符，已跳过",
        "bad shard dropped (1 so far)",
        "reader: record 9912 could not be parsed, using the next one",
        "tar index wrong for part 7 - left out",
        "sensor batch inconsistent (len 3 vs 4), carrying on",
        "第 7 个文件读不出来，已忽略",
    ],
)
def test_what_went_wrong_and_was_passed_over_is_told_without_a_level(line):
    assert error_of(line) == line


@pytest.mark.parametrize(
    "line",
    [
        "skip_bad_batches: true",
        "will skip bad samples if any",
        "0 failed, 12 skipped",
        "no bad records dropped",
        "warmup skipped, cache present",
        "epoch 3 done, moving on",
        "Unexpected keys dropped from state dict: ['x']",
        "wandb: error sending, retrying",
        "OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",
        "wandb: ERROR Error while calling W&B API: internal (<Response [500]>)",
        "2026-10-07 08:10:00 INFO num_errors: 0, ERROR rate 0",
        "NCCL_ASYNC_ERROR_HANDLING=1 TORCH_NCCL_BLOCKING_WAIT=0",
        "2026-10-07 08:10:00 WARNING slow loader, 3 workers",
        "--on-error=ERROR",
    ],
)
def test_what_is_no_error_of_the_run_is_none(line):
    assert error_of(line) == ""


def test_an_error_before_the_first_step_is_no_sign():
    screen = Screen(MEMORY)
    screen.source([b"2026-10-07 08:10:00 ERROR no plugin, falling back", *(STEP % (100 * n) for n in range(1, 4))])
    assert screen.error == ""
