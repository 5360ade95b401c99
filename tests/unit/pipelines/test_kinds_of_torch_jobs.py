"""Kinds of failures of PyTorch jobs, each in wordings of several frameworks, and what looks like them and is not."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose


@pytest.fixture
def say(tmp_path):
    """The verdict on files given as name and text; one text alone is one log."""

    def run(text="", **files):
        for name, body in (files or {"train": text}).items():
            (tmp_path / f"{name}.log").write_text(body.strip("\n") + "\n", encoding="utf-8")
        return diagnose([tmp_path]).verdict

    return run


def traceback(*frames, last, rank=None):
    lines = ["Traceback (most recent call last):"]
    for file, number, function, code in frames:
        lines += [f'  File "{file}", line {number}, in {function}', f"    {code}"]
    label = "" if rank is None else f"[rank{rank}]: "
    return "\n".join(label + line for line in [*lines, last])


MAIN = ("/srv/job/train.py", 80, "<module>", "main()")
TORCH = "/opt/venv/lib/python3.10/site-packages/torch"

OUT_OF_GATHER = {
    "an object of torch's own gather": traceback(
        MAIN,
        ("/srv/job/evaluate.py", 41, "evaluate", "dist.all_gather_object(parts, mine)"),
        (f"{TORCH}/distributed/distributed_c10d.py", 2330, "all_gather_object", "object_list[i] = _tensor_to_object(t, n)"),
        (f"{TORCH}/distributed/distributed_c10d.py", 2100, "_tensor_to_object", "return _unpickler(io.BytesIO(buf)).load()"),
        last="_pickle.UnpicklingError: invalid load key, '\\x00'.",
        rank=2,
    ),
    "results of an evaluation": traceback(
        MAIN,
        ("/opt/venv/lib/python3.8/site-packages/det/apis/test.py", 97, "multi_gpu_test", "collect_results_gpu(results, n)"),
        ("/opt/venv/lib/python3.8/site-packages/det/apis/test.py", 171, "collect_results_gpu", "pickle.loads(recv[:n])"),
        last="_pickle.UnpicklingError: pickle data was truncated",
        rank=1,
    ),
    "an empty buffer": traceback(
        MAIN,
        ("/srv/job/comm.py", 60, "all_gather", "return [pickle.loads(b) for b in buffers]"),
        last="EOFError: Ran out of input",
        rank=0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", OUT_OF_GATHER.values(), ids=OUT_OF_GATHER)
def test_garbage_out_of_a_collective_is_no_damaged_file(say, text):
    said = say(text)
    assert (said.category, said.strength) == (Category.COLLECTIVE_MISMATCH, Strength.POSSIBLE)
    assert not said.culprits.ranks


@pytest.mark.parametrize(
    "last",
    ["_pickle.UnpicklingError: invalid load key, '\\x00'.", "_pickle.UnpicklingError: pickle data was truncated"],
)
def test_garbage_out_of_a_file_is_a_damaged_file(say, last):
    frames = (
        MAIN,
        ("/srv/job/io.py", 12, "resume", "torch.load(path)"),
        (f"{TORCH}/serialization.py", 1246, "_legacy_load", "magic = pickle_module.load(f)"),
    )
    assert say(traceback(*frames, last=last, rank=2)).category is Category.STORAGE_IO


@pytest.mark.parametrize(
    "frame",
    [
        ("/srv/job/data.py", 33, "collect_shard_list", "return pickle.load(f)"),
        ("/opt/venv/lib/python3.8/site-packages/det/apis/test.py", 140, "collect_results_cpu", "part = pickle.load(f)"),
    ],
)
def test_garbage_out_of_files_that_are_collected_is_no_difference_of_collectives(say, frame):
    said = say(traceback(MAIN, frame, last="_pickle.UnpicklingError: pickle data was truncated", rank=1))
    assert said.category is not Category.COLLECTIVE_MISMATCH


DONE = "2025-09-04 10:50:11,118 - root - INFO - step: 1000 loss: 3.4\n2025-09-04 10:50:33,110 - root - INFO - Training completed\n"
COMMAND = "'['/opt/venv/bin/python', 'worker.py']'"
IGNORED = {
    "callback at the end": "Exception ignored in atexit callback: <function shutdown_compile_workers at 0x7f88>",
    "a destructor": "Exception ignored in: <function Pool.__del__ at 0x7f2d>",
    "functions at the end": "Error in atexit._run_exitfuncs:",
}


@pytest.mark.parametrize("head", IGNORED.values(), ids=IGNORED)
@pytest.mark.parametrize(
    "last",
    [
        f"subprocess.TimeoutExpired: Command {COMMAND} timed out after 300 seconds",
        f"subprocess.CalledProcessError: Command {COMMAND} returned non-zero exit status 1.",
    ],
)
def test_a_command_that_failed_in_an_ignored_exception_ended_nothing(say, head, last):
    frames = (("/opt/venv/lib/python3.12/subprocess.py", 1264, "wait", "return self._wait(timeout=timeout)"),)
    said = say(DONE + head + "\n" + traceback(*frames, last=last))
    assert (said.failed, said.category) == (False, Category.NONE)


def test_a_command_that_failed_and_was_not_ignored_counts(say):
    said = say(
        traceback(MAIN, last=f"subprocess.CalledProcessError: Command {COMMAND} returned non-zero exit status 1.")
    )
    assert said.failed


FULL = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 502.00 MiB. GPU {gpu} has a total capacity of 31.74 GiB of which 88.94 MiB is free."
WORLD = "".join(f"[rank{r}]: rank={r} world_size=8 host=box-1\n" for r in range(8))
CLONE = (
    "/opt/venv/lib/python3.10/site-packages/torch/distributed/fsdp/_state_dict_utils.py:312: UserWarning: Failed to clone() tensor "
    "with name lm_head.weight on rank {r}. This may mean that this state_dict entry could point to invalid memory regions after "
    "returning from state_dict() call. Error: CUDA out of memory. Tried to allocate 250.00 MiB. GPU {r} has a total capacity of 31.74 GiB"
)


@pytest.mark.parametrize(
    "other",
    [CLONE.format(r=1), "[rank1]: WARNING skipped one batch: " + FULL.format(gpu=1).partition(": ")[2]],
    ids=["copy of the state", "a batch that was skipped"],
)
def test_a_second_full_gpu_clears_the_rank_that_ended(say, other):
    said = say(WORLD + other + "\n" + traceback(MAIN, last=FULL.format(gpu=3), rank=3))
    assert said.category is Category.GPU_CUDA
    assert said.culprits.ranks == []
    assert 3 in said.first_failed.ranks


def test_one_full_gpu_alone_names_its_rank(say):
    said = say(WORLD + CLONE.format(r=3) + "\n" + traceback(MAIN, last=FULL.format(gpu=3), rank=3))
    assert said.culprits.ranks == [3]


STOPS = {
    "2.5 and later": "W0409 07:28:49.530000 1359 torch/distributed/elastic/agent/server/api.py:719] Received 15 death signal, shutting down workers",
    "2.1": "[2026-04-09 07:28:49,530] torch.distributed.elastic.agent.server.api: [WARNING] Received Signals.SIGTERM death signal, shutting down workers",
}
EXITS = {
    "2.5 and later": "E0409 07:28:{s}.317000 2204 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 2210) of binary: /usr/bin/python3",
    "2.1": "[2026-04-09 07:28:{s},317] torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: 1) local_rank: 0 (pid: 2210) of binary: /usr/bin/python3",
}
LOST = {
    "gloo": "[rank0]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.9.0.22]:38120",
    "store": "[rank0]: torch.distributed.DistNetworkError: Connection reset by peer",
}


@pytest.mark.parametrize("version", STOPS)
@pytest.mark.parametrize("lost", LOST.values(), ids=LOST)
def test_a_stop_of_one_launcher_comes_before_the_exits_of_those_that_lost_it(say, version, lost):
    said = say(a=f"{lost}\n{EXITS[version].format(s=52)}", b=STOPS[version])
    assert (said.category, said.strength) == (Category.INFRASTRUCTURE, Strength.POSSIBLE)
    assert not said.culprits.ranks
    assert said.trigger is not None
    assert said.trigger.file == "b.log"


@pytest.mark.parametrize("version", STOPS)
def test_an_exit_before_the_stop_is_not_explained_by_it(say, version):
    said = say(a=f"{LOST['gloo']}\n{EXITS[version].format(s=41)}", b=STOPS[version])
    assert said.category is Category.UNKNOWN


@pytest.mark.parametrize("version", STOPS)
def test_an_exit_of_a_process_that_lost_nobody_is_not_explained_by_a_stop_elsewhere(say, version):
    assert say(a=EXITS[version].format(s=52), b=STOPS[version]).category is Category.UNKNOWN


IDS = {
    "2.9": "[rank{r}]: torch.distributed.DistBackendError: [{r}] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d "
    "key-value store by key '0', but store->get('0') got error: wait timeout after 1800000ms, keys: /default_pg/0//cuda//0",
    "1.13": "[rank{r}]: RuntimeError: [{r}] is setting up NCCL communicator and retreiving ncclUniqueId from [0] via c10d key-value store by key '0', "
    "but store->get('0') got error: Socket Timeout",
}
RANKS = "".join(f"[rank{r}]: rank={r} world_size=4\n" for r in range(4))
BARS = {
    "shards": "Loading checkpoint shards:  72%|#######   | 85/118 [28:20<11:02, 20.1s/it]",
    "weights": "Loading weights:  41%|####      | 300/730 [29:11<41:02, 5.8s/it]",
}


def absent(wording, before, rank_of=(3, 1, 2)):
    return RANKS + before + "\n" + "\n".join(IDS[wording].format(r=r) for r in rank_of)


@pytest.mark.parametrize("wording", IDS)
@pytest.mark.parametrize("bar", BARS.values(), ids=BARS)
def test_the_rank_that_reads_the_weights_for_all_keeps_the_others_waiting(say, wording, bar):
    said = say(absent(wording, bar))
    assert (said.category, said.culprits.ranks) == (Category.DATA_LOADING_STALL, [0])


@pytest.mark.parametrize("wording", IDS)
def test_who_never_published_the_id_is_known_where_why_is_not(say, wording):
    said = say(
        absent(
            wording, f"{BARS['shards']}\nLoading checkpoint shards: 100%|##########| 118/118 [40:00<00:00, 20.1s/it]"
        )
    )
    assert (said.category, said.culprits.ranks) == (Category.UNKNOWN, [0])


def test_a_broken_link_to_the_store_is_no_late_rank(say):
    text = absent("2.9", BARS["shards"]).replace(
        "wait timeout after 1800000ms, keys: /default_pg/0//cuda//0", "Connection reset by peer"
    )
    assert say(text).category is not Category.DATA_LOADING_STALL


def test_a_rank_of_a_sub_group_is_not_taken_for_its_number_in_the_group(say):
    lines = [IDS["2.9"].format(r=r).replace(f": [{r}] is", f": [{r - 4}] is") for r in (5, 6, 7)]
    said = say("".join(f"[rank{r}]: rank={r} world_size=8\n" for r in range(8)) + "\n".join(lines))
    assert said.culprits.ranks == []


XID = "NVRM: Xid (PCI:0000:{bus}:00): 145, RLW_REMAP Nonfatal XC1 i0 Link {link} (0x004a8185 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)"
CLEANED = "NVRM: Xid (PCI:0000:{bus}:00): 45, pid=88114, name=python3, Ch 00000001 caused by previous Xid 145"


@pytest.mark.parametrize("stamp", ["[904411.{n}00111] ", "Sep 10 14:16:5{n} node-9 kernel: "])
def test_the_line_of_an_xid_comes_before_the_clean_up_that_names_it(say, stamp):
    lines = [
        XID.format(bus="66", link="00"),
        XID.format(bus="76", link="00"),
        CLEANED.format(bus="66"),
        CLEANED.format(bus="76"),
    ]
    said = say("\n".join(stamp.format(n=n) + line for n, line in enumerate(lines)))
    assert said.category is Category.GPU_CUDA
    assert said.trigger is not None
    assert said.trigger.line == 1
    assert "nothing orders" not in said.summary
