"""A process says once which rank it is and where it runs: its later lines are that rank's. A machine's own log is no task's."""

import pytest

from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose

OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
WAYS = (
    "rank {rank} of 8 on gpu-{node:02d} (local rank {local}) pid {pid}",
    "Rank {rank}/8 running on host gpu-{node:02d}",
    "Distributed init: rank={rank}, world_size=8, local_rank={local}, host=gpu-{node:02d}",
)


def raised(label):
    frame = '  File "/app/fit.py", line 3, in step'
    return [f"{label}{x}" for x in ("Traceback (most recent call last):", frame, "    loss.backward()", OUT_OF_MEMORY)]


def places(way, label="[rank{rank}]: "):
    told = []
    for rank in range(8):
        facts = {"rank": rank, "local": rank % 4, "node": rank // 4 + 1, "pid": 700 + rank}
        told.append((label + way).format(**facts))
    return told


def verdict(folder, **files):
    for name, lines in files.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return diagnose([folder]).verdict


@pytest.mark.parametrize("way", WAYS)
def test_a_rank_that_said_where_it_runs_has_its_host(way, tmp_path):
    found = verdict(tmp_path, **{"job.log": [*places(way), *raised("[rank6]: ")]})
    assert (list(found.culprits.ranks), list(found.culprits.hosts)) == ([6], ["gpu-02"])


@pytest.mark.parametrize("way", WAYS)
def test_a_worker_of_ray_that_said_its_rank_has_it_in_its_other_lines(way, tmp_path):
    label = "(RayTrainWorker pid={pid}, ip=10.0.0.{node}) "
    found = verdict(tmp_path, **{"job.log": [*places(way, label), *raised("(RayTrainWorker pid=706, ip=10.0.0.2) ")]})
    assert (list(found.culprits.ranks), list(found.culprits.hosts)) == ([6], ["gpu-02"])


def test_another_machines_process_of_the_same_number_is_another_process(tmp_path):
    told = places(WAYS[0], "(RayTrainWorker pid={pid}, ip=10.0.0.{node}) ")
    found = verdict(tmp_path, **{"job.log": [*told, *raised("(RayTrainWorker pid=706, ip=10.0.0.9) ")]})
    assert found.category is Category.GPU_CUDA
    assert not found.culprits.ranks


def test_the_files_of_workers_of_which_each_says_its_rank_are_those_ranks(tmp_path):
    lines = places("2026-03-04 10:00:00 INFO rank {rank} of 8 on gpu-{node:02d}", "")
    files = {f"worker{n}.log": [line, *(raised("") if n == 5 else ["step 1"])] for n, line in enumerate(lines)}
    found = verdict(tmp_path, **files)
    assert (list(found.culprits.ranks), list(found.culprits.hosts)) == ([5], ["gpu-02"])


@pytest.mark.parametrize("name", ["dmesg-gpu-02.txt", "dmesg-gpu-02.log"])
def test_the_number_of_a_machine_is_no_rank_of_what_its_kernel_says(name, tmp_path):
    """The tasks are the ranks there, and one of them has the machine's number."""
    told = places("step 1", "{rank}: ")
    exits = ["srun: error: gpu-02: task 7: Exited with exit code 1", "srun: error: gpu-01: tasks 0-3: Terminated"]
    places_of = places(WAYS[0], "{rank}: ")
    lost = [
        line.replace(OUT_OF_MEMORY, "RuntimeError: CUDA error: unspecified launch failure") for line in raised("7: ")
    ]
    kernel = [
        "[Wed Mar 04 10:02:10 2026] NVRM: Xid (PCI:0000:4b:00): 79, pid=707, name=python, GPU has fallen off the bus."
    ]
    found = verdict(tmp_path, **{"slurm-771.out": [*places_of, *told, *lost, *exits], name: kernel})
    assert (list(found.culprits.ranks), list(found.culprits.hosts)) == ([7], ["gpu-02"])
