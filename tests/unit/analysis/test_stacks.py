"""What follows from where the ranks stood: nobody is called stuck for being seen once, and nobody is named by chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

if TYPE_CHECKING:
    from pathlib import Path

    from firstfault.model.diagnosis import Verdict

WAIT = [
    "all_reduce (torch/distributed/distributed_c10d.py:3252)",
    "wrapper (torch/distributed/c10d_logger.py:83)",
    "step (train.py:40)",
]
SYNC = ["synchronize (torch/cuda/__init__.py:892)", "step (train.py:41)"]
DATA = [
    "wait (threading.py:324)",
    "get (queue.py:180)",
    "_try_get_data (torch/utils/data/dataloader.py:1133)",
    "epoch (train.py:30)",
]
SAVE = ["save (torch/serialization.py:628)", "save_all (train.py:70)"]
BATON = ["wait (torch/utils/file_baton.py:42)", "load (torch/utils/cpp_extension.py:1308)", "build (train.py:10)"]
OTHER = ["barrier (torch/distributed/distributed_c10d.py:4100)", "evaluate (train.py:90)"]
PACE = ["_helper (mylib/work.py:3)", "step (train.py:44)"]
STOPPED = "srun: interrupt (one more within 1 sec to abort)\nsrun: sending Ctrl-C to StepId=77120.0\n"


def spy(pid: int, frames: list[str], more: list[str] | None = None) -> str:
    text = (
        f'Process {pid}: python train.py\nPython v3.11.7 (/usr/bin/python3.11)\n\nThread {pid} (idle): "MainThread"\n'
    )
    text += "".join(f"    {f}\n" for f in [*frames, "<module> (train.py:99)"])
    if more:
        text += f'Thread {pid + 1} (active): "saver"\n' + "".join(f"    {f}\n" for f in more)
    return text


def verdict(folder: Path, stacks: dict[int, str], log: str = STOPPED) -> Verdict:
    (folder / "job.out").write_text("step 10/100 loss 2.1\nstep 20/100 loss 2.0\n" + log, encoding="utf-8")
    for rank, text in stacks.items():
        (folder / f"rank{rank}.txt").write_text(text, encoding="utf-8")
    return diagnose([folder]).verdict


def test_one_rank_in_its_loader_while_the_rest_wait(tmp_path: Path) -> None:
    found = verdict(tmp_path, {r: spy(100 + r, DATA if r == 2 else SYNC if r == 3 else WAIT) for r in range(8)})
    assert (found.category, found.strength) == (Category.DATA_LOADING_STALL, Strength.SUPPORTED)
    assert found.culprits.ranks == [2]


def test_a_checkpoint_on_one_rank_names_it_and_claims_no_reason(tmp_path: Path) -> None:
    found = verdict(tmp_path, {r: spy(100 + r, SAVE if r == 0 else WAIT) for r in range(4)})
    assert found.culprits.ranks == [0]
    assert found.strength is Strength.POSSIBLE


def test_two_threads_in_collectives(tmp_path: Path) -> None:
    found = verdict(tmp_path, {r: spy(100 + 10 * r, OTHER, WAIT) for r in range(2)})
    assert (found.category, found.strength) == (Category.SOFTWARE, Strength.POSSIBLE)
    assert found.culprits.ranks == []


@pytest.mark.parametrize(("odd", "named"), [({3}, [3]), ({2, 3}, [])])
def test_different_calls_are_a_mismatch(tmp_path: Path, odd: set[int], named: list[int]) -> None:
    found = verdict(tmp_path, {r: spy(100 + r, OTHER if r in odd else WAIT) for r in range(4)})
    assert (found.category, found.strength) == (Category.COLLECTIVE_MISMATCH, Strength.POSSIBLE)
    assert found.culprits.ranks == named


def test_all_at_one_lock(tmp_path: Path) -> None:
    found = verdict(tmp_path, {r: spy(100 + r, BATON) for r in range(4)})
    assert (found.category, found.strength) == (Category.SOFTWARE, Strength.POSSIBLE)
    assert found.culprits.ranks == []


def test_all_in_one_call_tells_nobody_apart(tmp_path: Path) -> None:
    found = verdict(tmp_path, {r: spy(100 + r, WAIT) for r in range(4)}, log="")
    assert found.category is Category.UNKNOWN
    assert found.culprits.ranks == []


def test_somebody_looked_at_a_job_that_computes(tmp_path: Path) -> None:
    found = verdict(tmp_path, {r: spy(100 + r, PACE) for r in range(4)}, log="")
    assert found.category is Category.UNKNOWN
    assert found.failed is None


def test_an_error_of_its_own_stays_the_first_fault(tmp_path: Path) -> None:
    log = '[rank1]: Traceback (most recent call last):\n[rank1]:   File "train.py", line 12, in <module>\n[rank1]: ValueError: bad shape\n'
    plain = verdict(tmp_path / "a", {}, log) if (tmp_path / "a").mkdir() is None else None
    beside = (
        verdict(tmp_path / "b", {r: spy(100 + r, DATA if r == 2 else WAIT) for r in range(4)}, log)
        if (tmp_path / "b").mkdir() is None
        else None
    )
    assert plain is not None
    assert beside is not None
    assert (beside.category, beside.culprits.ranks) == (plain.category, plain.culprits.ranks)


def test_a_single_dump_names_nobody(tmp_path: Path) -> None:
    assert verdict(tmp_path, {2: spy(102, DATA)}).culprits.ranks == []


NCCL = [
    "0x7f51c0b2ed7f (libcuda.so.570.1)",
    "cuStreamSynchronize (libcuda.so.570.1)",
    "cudaStreamSynchronize (libcudart.so.12)",
    "release (weights.py:7)",
]


def test_one_rank_at_its_device_while_the_rest_stand_in_a_barrier(tmp_path: Path) -> None:
    found = verdict(tmp_path, {r: spy(100 + r, NCCL if r == 2 else OTHER) for r in range(4)})
    assert found.category is Category.UNKNOWN
    assert (found.culprits.ranks, found.culprits.strength) == ([2], Strength.POSSIBLE)
    assert "cuStreamSynchronize" in found.summary


def test_a_native_dump_of_the_same_process_is_not_another_rank(tmp_path: Path) -> None:
    stacks = {r: spy(100 + r, OTHER if r != 2 else ["release (weights.py:7)"]) for r in range(4)}
    stacks = {r: t.replace("python train.py", f"sglang::scheduler_TP{r}") for r, t in stacks.items()}
    (tmp_path / "stacks").mkdir()
    for r, text in stacks.items():
        (tmp_path / "stacks" / f"tp{r}.txt").write_text(text, encoding="utf-8")
    native = spy(102, NCCL).replace("python train.py", "sglang::scheduler_TP2")
    (tmp_path / "stacks" / "tp2-native.txt").write_text(native, encoding="utf-8")
    found = verdict(tmp_path, {})
    assert found.culprits.ranks == [2]
    assert "Stacks of 4 processes" in found.summary
    two_axes = {r: t.replace("scheduler_TP", "scheduler_DP0_TP") for r, t in stacks.items()}
    for r, text in two_axes.items():
        (tmp_path / "stacks" / f"tp{r}.txt").write_text(text, encoding="utf-8")
    (tmp_path / "stacks" / "tp2-native.txt").unlink()
    assert verdict(tmp_path, {}).culprits.ranks == []


def test_threads_of_libraries_are_not_in_collectives_of_the_program(tmp_path: Path) -> None:
    def gdb(pid: int) -> str:
        return (
            f'Thread 2 (Thread 0x7f01 (LWP {pid + 1}) "pt_nccl_watchdg"):\n'
            "#0  0x00007f01 in pthread_cond_wait () from /lib/libc.so.6\n"
            "#1  0x00007f02 in c10d::ProcessGroupNCCL::ncclCommWatchdog() () from /opt/torch/lib/libtorch_cuda.so\n\n"
            f'Thread 1 (Thread 0x7f02 (LWP {pid}) "python"):\n'
            "#0  0x00007f03 in pthread_cond_wait () from /lib/libc.so.6\n"
            "#1  0x00007f04 in c10d::Work::wait(long) () from /opt/torch/lib/libtorch_cpu.so\n"
            "#2  0x00007f05 in _PyEval_EvalFrameDefault () from /opt/lib/libpython3.11.so\n"
        )

    found = verdict(tmp_path, {r: gdb(4000 + 10 * r) for r in range(4)})
    assert found.category is not Category.SOFTWARE  # which it would be with two threads in collectives
    assert found.culprits.ranks == []


def test_a_rank_that_does_not_answer_is_named_at_most_as_possible(tmp_path: Path) -> None:
    body = 'Thread 0x00007fec1c7f1b80 (most recent call first):\n  File "/opt/torch/distributed/distributed_c10d.py", line 3252 in all_reduce\n  File "train.py", line 9 in <module>\n'
    text = "PARTIAL DATA: 3/4 workers responded\n  Rank 3: Timeout: read timed out\n\n" + "\n".join(
        f"=== Rank {r}: http://n{r}:4{r}001/handler/dump_traceback? ===\n{'Error: 408' if r == 3 else body}"
        for r in range(4)
    )
    (tmp_path / "stacks_20260101_101010.txt").write_text(text, encoding="utf-8")
    found = verdict(tmp_path, {})
    assert (found.category, found.culprits.ranks, found.culprits.hosts) == (Category.UNKNOWN, [3], ["n3"])
    assert found.culprits.strength is Strength.POSSIBLE


def hung(folder: Path, stack: str | None) -> Verdict:
    """Eight ranks of which the third never comes to all_reduce 912, by the lines of the others."""
    lines = []
    for r in range(8):
        if r == 3:
            continue
        head = f"[rank{r}]:[E609 10:41:0{r}.123456789 ProcessGroupNCCL.cpp:683] [Rank {r}] "
        work = "WorkNCCL(SeqNum=912, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000)"
        lines.append(
            f"{head}Watchdog caught collective operation timeout: {work} ran for 600010 milliseconds before timing out."
        )
        pg = f"[PG ID 0 PG GUID 0(default_pg) Rank {r}]"
        lines.append(
            f"[rank{r}]:[E609 10:41:0{r}.223456789 ProcessGroupNCCL.cpp:2241] {pg}  failure detected by watchdog at work sequence id: "
            "912 PG status: last enqueued work: 912, last completed work: 911"
        )
    log = "world_size: 8\n" + "\n".join(lines) + "\n"
    return verdict(folder, {} if stack is None else {3: stack}, log)


def test_the_one_stack_of_the_silent_rank_says_what_it_did(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "c").mkdir()
    without, beside = hung(tmp_path / "a", None), hung(tmp_path / "b", spy(77, DATA))
    assert without.culprits.ranks == beside.culprits.ranks == [3]
    assert without.category is Category.UNKNOWN
    assert (beside.category, beside.strength) == (Category.DATA_LOADING_STALL, Strength.SUPPORTED)
    assert "_try_get_data" in beside.summary
    against = hung(tmp_path / "c", spy(77, WAIT))
    assert against.culprits.strength.level <= Strength.POSSIBLE.level
    assert "But its stack" in against.summary


GATHER = [
    "all_gather (torch/distributed/distributed_c10d.py:3600)",
    "wrapper (torch/distributed/c10d_logger.py:83)",
    "step (train.py:39)",
]
BACKWARD = [
    "_engine_run_backward (torch/autograd/graph.py:825)",
    "backward (torch/_tensor.py:581)",
    "step (train.py:36)",
]


@pytest.mark.parametrize(
    "call",
    [
        "all_gather (torch/distributed/distributed_c10d.py:3600)",
        "broadcast (torch/distributed/distributed_c10d.py:2700)",
    ],
)
def test_two_calls_of_one_function_are_two_places(tmp_path: Path, call: str) -> None:
    found = verdict(tmp_path, {r: spy(100 + r, [call, *GATHER[1:]] if r == 1 else WAIT) for r in range(4)})
    assert (found.category, found.culprits.ranks) == (Category.COLLECTIVE_MISMATCH, [1])


@pytest.mark.parametrize("timer", ["Timeout (0:00:20)!", "Timeout (0:05:00)!"])
def test_what_a_timer_wrote_early_yields_to_the_dump_that_was_asked_for(tmp_path: Path, timer: str) -> None:
    for rank in range(4):
        text = f'{timer}\nThread 0x00007f00 (most recent call first):\n  File "train.py", line 5 in build\n  File "train.py", line 99 in <module>\n'
        (tmp_path / f"fault_rank{rank}.txt").write_text(text, encoding="utf-8")
    found = verdict(tmp_path, {r: spy(100 + r, DATA if r == 2 else WAIT) for r in range(4)})
    assert (found.category, found.culprits.ranks) == (Category.DATA_LOADING_STALL, [2])
    assert "Rank 2 is reading data" in found.summary or "rank 2 is reading data" in found.summary
    assert "Stacks of 4 processes" in found.summary


def test_one_that_waits_for_its_gpu_is_in_no_other_call(tmp_path: Path) -> None:
    found = verdict(tmp_path, {r: spy(100 + r, BACKWARD if r == 4 else WAIT) for r in range(8)})
    assert found.category is not Category.COLLECTIVE_MISMATCH
    assert found.culprits.ranks == []
    assert "does not make" not in found.summary


@pytest.mark.parametrize("ops", [("recv", "recv"), ("send", "recv"), ("batch_isend_irecv", "recv")])
def test_stages_of_a_pipeline_are_at_different_messages_and_right_to(tmp_path: Path, ops: tuple[str, str]) -> None:
    sides = [
        [
            f"{op} (torch/distributed/distributed_c10d.py:2400)",
            f"recv_{way} (stages.py:{line})",
            f"run_{way} (train.py:{line})",
        ]
        for op, way, line in zip(ops, ("forward", "backward"), (80, 120), strict=True)
    ]
    found = verdict(tmp_path, {r: spy(100 + r, sides[r // 4]) for r in range(8)})
    assert found.category is not Category.COLLECTIVE_MISMATCH
    assert found.culprits.ranks == []
    assert "does not make" not in found.summary


@pytest.mark.parametrize("file", ["pdb.py:361", "/usr/lib/python3.11/pdb.py:361", "IPython/terminal/debugger.py:90"])
def test_the_prompt_of_a_debugger_is_told(tmp_path: Path, file: str) -> None:
    prompt = [f"readline ({file})", f"cmdloop ({file})", "step (train.py:33)"]
    found = verdict(tmp_path, {r: spy(100 + r, prompt if r == 1 else WAIT) for r in range(4)})
    assert (found.category, found.culprits.ranks) == (Category.SOFTWARE, [1])
    assert "debugger: step (train.py:33)" in found.summary


def takes(folder: Path, first: dict[int, list[str]], second: dict[int, list[str]], log: str = STOPPED) -> Verdict:
    for name, stacks in (("0600", first), ("0601", second)):
        for rank, frames in stacks.items():
            (folder / f"{name}-rank{rank}.txt").write_text(spy(100 + rank, frames), encoding="utf-8")
    return verdict(folder, {}, log)


def test_a_rank_at_the_same_line_in_two_dumps_is_surer_and_no_second_dump_is_asked_for(tmp_path: Path) -> None:
    stood = {r: DATA if r == 2 else WAIT for r in range(8)}
    (tmp_path / "one").mkdir()
    once = verdict(tmp_path / "one", {r: spy(100 + r, f) for r, f in stood.items()})
    (tmp_path / "two").mkdir()
    twice = takes(tmp_path / "two", stood, stood)
    assert once.culprits.ranks == twice.culprits.ranks == [2]
    assert twice.culprits.strength.level > once.culprits.strength.level
    assert twice.strength.level >= once.strength.level
    assert "same line in both dumps" in twice.summary


def test_a_rank_that_moved_between_two_dumps_is_slow(tmp_path: Path) -> None:
    other = [*DATA[:-1], "epoch (train.py:31)"]
    found = takes(
        tmp_path, {r: DATA if r == 2 else WAIT for r in range(8)}, {r: other if r == 2 else WAIT for r in range(8)}
    )
    assert found.culprits.ranks == [2]
    assert "moved: slow there" in found.summary


def test_where_another_rank_was_apart_before_nobody_is_stuck(tmp_path: Path) -> None:
    first = {r: DATA if r == 2 else WAIT for r in range(8)}
    found = takes(tmp_path, first, {r: DATA if r == 5 else WAIT for r in range(8)})
    assert not found.culprits.ranks
    assert "The job moved between the two dumps" in found.summary


def faulthandler(frames: list[str]) -> str:
    rows = [f.partition(" (") for f in frames]
    places = [(n, p.rstrip(")").rpartition(":")) for n, _, p in rows]
    return "Current thread 0x00007f1a2c000740 (most recent call first):\n" + "".join(
        f'  File "{file}", line {line} in {name}\n' for name, (file, _, line) in places
    )


def test_a_process_that_two_tools_show_counts_once(tmp_path: Path) -> None:
    stood = {r: DATA if r == 2 else WAIT for r in range(4)}
    log = "".join(f"[rank{r}]: Initializing distributed: GLOBAL_RANK: {r}, MEMBER: {r + 1}/4\n" for r in range(4))
    log += "".join(faulthandler(f) + "\n" for f in stood.values()) + STOPPED
    found = verdict(tmp_path, {r: spy(100 + r, f) for r, f in stood.items()}, log)
    assert found.culprits.ranks == [2]
    assert "4 of 4 ranks" in found.summary


def test_calls_from_different_lines_of_one_function_are_told_and_nobody_is_named(tmp_path: Path) -> None:
    lines = {0: 40, 1: 40, 2: 40, 3: 38, 4: 38, 5: 36}
    stacks = {r: spy(100 + r, [*WAIT[:2], f"step (train.py:{line})"]) for r, line in lines.items()}
    found = verdict(tmp_path, stacks, log="")
    assert (found.category, found.culprits.ranks) == (Category.UNKNOWN, [])
    assert "ranks 0-2 from step (train.py:40); ranks 3-4 from step (train.py:38); rank 5 from" in found.summary


def test_several_ranks_in_code_of_their_own_are_spoken_of_as_several(tmp_path: Path) -> None:
    found = verdict(tmp_path, {r: spy(100 + r, PACE if r < 2 else WAIT) for r in range(8)})
    assert "Ranks 0-1 are in their own code" in found.summary
    assert "why ranks 0-1 stay in" in found.action.steps[0]
