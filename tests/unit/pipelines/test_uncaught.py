"""Errors that libraries often print and survive: where nobody caught one it ended its rank, and elsewhere it is no failure."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose

STEPS = "".join(f"2026-05-04 10:0{n}:00,000 INFO step {n} loss 2.1 lr 0.1\n" for n in range(1, 6))
LATER = "".join(f"2026-05-04 10:1{n}:00,000 INFO step {n + 5} loss 2.1 lr 0.1\n" for n in range(1, 6))
FRAMES = ("Traceback (most recent call last):", '  File "/proj/run.py", line 61, in fit', "    batch = next(loader)")
SURVIVED = [
    ("requests.exceptions.ConnectionError: HTTPConnectionPool(host='10.7.0.5', port=80): Max retries exceeded with url: /v1/a.tar", Category.STORAGE_IO),
    ("urllib.error.HTTPError: HTTP Error 503: Service Unavailable", Category.STORAGE_IO),
    ("fsspec.exceptions.FSTimeoutError", Category.STORAGE_IO),
    ("httpx.ConnectError: [Errno 111] Connection refused", Category.STORAGE_IO),
    ("huggingface_hub.errors.HfHubHTTPError: 503 Server Error: Service Unavailable for url: https://huggingface.co/m", Category.STORAGE_IO),
    ("wandb.errors.CommError: Run initialization has timed out after 90.0 sec", Category.SOFTWARE),
]  # fmt: skip


def trace(error, prefix=""):
    return "".join(f"{prefix}{line}\n" for line in (*FRAMES, error))


def verdict_of(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.log").write_text(text, encoding="utf-8")
    return diagnose([folder]).verdict


@pytest.mark.parametrize(("error", "category"), SURVIVED)
@pytest.mark.parametrize("prefix", ["", "[rank1]: "])
def test_at_the_end_of_its_log_it_is_the_failure(tmp_path, error, category, prefix):
    verdict = verdict_of(tmp_path, train_rank1=STEPS + trace(error, prefix))
    assert verdict.failed is True
    assert verdict.category is category
    assert "no error" not in verdict.summary


@pytest.mark.parametrize(("error", "category"), SURVIVED)
def test_what_torch_hook_printed_is_the_failure_though_other_ranks_speak_behind_it(tmp_path, error, category):
    other = "[rank0]:[W504 10:20:00.000000001 socket.cpp:200] a warning of another rank\n"
    verdict = verdict_of(tmp_path, train=STEPS + trace(error, "[rank1]: ") + other)
    assert verdict.category is category
    assert verdict.first_failed.ranks == [1]


@pytest.mark.parametrize(("error", "category"), SURVIVED)
@pytest.mark.parametrize("prefix", ["", "[rank1]: "])
def test_steps_behind_it_acquit_it(tmp_path, error, category, prefix):
    del category
    verdict = verdict_of(tmp_path, train_rank1=STEPS + trace(error, prefix) + LATER)
    assert verdict.failed is None


@pytest.mark.parametrize(("error", "category"), SURVIVED)
def test_the_end_of_the_run_behind_it_acquits_it(tmp_path, error, category):
    del category
    end = "2026-05-04 10:20:00,000 INFO Training completed.\n"
    assert verdict_of(tmp_path, train=STEPS + trace(error) + LATER + end).failed is False


@pytest.mark.parametrize(("error", "category"), SURVIVED)
def test_more_of_the_same_program_behind_it_leaves_it_open(tmp_path, error, category):
    """A program that labels all its lines prints what it caught behind the label too; and the wording denies no error."""
    del category
    before = "[rank1]: 3 mirrors are known\n"
    more = "[rank1]: reading shard 7 from the mirror\n"
    verdict = verdict_of(tmp_path, train_rank1=STEPS + before + trace(error, "[rank1]: ") + more)
    assert verdict.failed is None
    assert "no error," not in verdict.summary


@pytest.mark.parametrize(
    "before",
    [
        "2026-05-04 10:06:00,000 WARNING could not send metrics, continuing",
        "Exception ignored in: <function Client.__del__ at 0x7f>",
    ],
)
def test_what_a_line_says_to_have_been_caught_is_none(tmp_path, before):
    text = STEPS + before + "\n" + trace(SURVIVED[0][0])
    assert verdict_of(tmp_path, train_rank1=text).failed is None


def test_an_exception_of_a_thread_is_not_the_last_word_of_its_process(tmp_path):
    thread = (
        trace(SURVIVED[0][0])
        .replace("/proj/run.py", "/usr/lib/python3.12/threading.py")
        .replace("in fit", "in _bootstrap_inner")
    )
    assert verdict_of(tmp_path, train_rank1=STEPS + "Exception in thread sender:\n" + thread).failed is None


def test_a_rank_with_such_an_error_is_not_called_silent(tmp_path):
    wait = (
        "[rank{r}]:[E504 10:20:00.000000001 ProcessGroupNCCL.cpp:629] [Rank {r}] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=88, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) ran for 600048 milliseconds before timing out.\n"
    )
    files = {f"rank{r}": STEPS + wait.format(r=r) for r in (0, 1, 3)}
    files["rank2"] = STEPS + trace(SURVIVED[0][0], "[rank2]: ")
    for name, text in files.items():
        (tmp_path / f"{name}.log").write_text(text, encoding="utf-8")
    told = diagnose([tmp_path])
    assert told.verdict.first_failed.ranks == [2]
    assert not any("silent" in link.what for link in told.chain)
