"""Whose process srun saw end first, by an error of its own, met its error before what that end brought about elsewhere."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

LOADER = """{stamp}[rank{rank}]: Traceback (most recent call last):
[rank{rank}]:   File "/srv/tts/main.py", line 88, in <module>
[rank{rank}]:   File "/opt/venv/lib/python3.11/site-packages/lhotse/ais/batch_loader.py", line 212, in __call__
[rank{rank}]: lhotse.ais.batch_loader.AISBatchLoaderError: Batch result iterator exhausted prematurely. Expected more objects for manifests with URLs.
"""
OWN = """{stamp}[rank{rank}]: Traceback (most recent call last):
[rank{rank}]:   File "/srv/tts/main.py", line 91, in <module>
[rank{rank}]:   File "/srv/tts/model.py", line 41, in forward
[rank{rank}]: {error}
"""
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which "
    "1.02 GiB is free."
)
EXIT = "srun: error: gn031: task {task}: Exited with exit code 1\n"
END = "slurmstepd: error: *** STEP 71.0 ON gn031 CANCELLED AT 2026-03-14T12:40:00 ***\nsrun: error: gn031: tasks 0-3: Terminated\n"


def start(ranks):
    return "".join(f"Initializing distributed: GLOBAL_RANK: {r}, MEMBER: {r + 1}/8\n" for r in ranks)


def verdict(folder, srun, *, error=OOM, one_file=False, stamps=("", "")):
    first = OWN.format(rank=3, error=error, stamp=stamps[0])
    second = LOADER.format(rank=6 if not one_file else 2, stamp=stamps[1])
    if one_file:
        (folder / "error-71-gn031.out").write_text(start(range(8)) + first + second)
    else:
        (folder / "error-71-gn031.out").write_text(start(range(4)) + first)
        (folder / "error-71-gn032.out").write_text(start(range(4, 8)) + second)
    (folder / "slurm-71.out").write_text(srun)
    return diagnose([folder]).verdict


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (OOM, Category.GPU_CUDA),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", Category.GPU_CUDA),
        ("KeyError: 'tokens_lens'", Category.SOFTWARE),
    ],
)
def test_the_rank_whose_task_exited_first_failed_first(tmp_path, error, category):
    found = verdict(tmp_path, EXIT.format(task=3) + END, error=error)
    assert (found.category, found.first_failed.ranks) == (category, [3])
    assert max(found.strength.level, found.culprits.strength.level) <= Strength.SUPPORTED.level


@pytest.mark.parametrize(
    "srun",
    [
        END,
        END + EXIT.format(task=3),
        "srun: error: gn031: task 0: Killed\n" + EXIT.format(task=3) + END,
        EXIT.format(task=6).replace("gn031", "gn032") + EXIT.format(task=3) + END,
    ],
)
def test_nothing_follows_from_exits_upon_an_order_or_upon_another_end(tmp_path, srun):
    assert verdict(tmp_path, srun).first_failed.ranks != [3]


def test_stamps_that_speak_against_it_leave_it_open(tmp_path):
    stamps = ("2026-03-14 12:39:50,000 ERROR step failed\n", "2026-03-14 12:39:10,000 ERROR loader\n")
    late = "2026-03-14 12:39:12,000 INFO gone\n"
    verdict(tmp_path, EXIT.format(task=3) + END, stamps=stamps)
    with (tmp_path / "error-71-gn032.out").open("a") as out:
        out.write(late)
    assert diagnose([tmp_path]).verdict.strength is Strength.POSSIBLE


STAMPS = (
    "2026-03-14 12:39:{0},000 ERROR step failed\n",
    "2026-03-14 12:39:{0},000 INFO gone\n2026-03-14 12:39:{1},000 ERROR loader\n",
)


@pytest.mark.parametrize(("later", "rank"), [(58, [3]), (33, [])])
def test_stamps_on_both_sides_order_two_tracebacks_of_one_file(tmp_path, later, rank):
    stamps = (STAMPS[0].format(30), STAMPS[1].format(31, later))
    found = verdict(tmp_path, END, one_file=True, stamps=stamps)
    assert found.culprits.ranks == rank
    assert found.category is (Category.GPU_CUDA if rank else Category.STORAGE_IO)


def test_the_chain_is_in_order_of_time_and_no_end_comes_before_the_failure(tmp_path):
    stamps = (STAMPS[0].format(30), STAMPS[1].format(31, 58))
    found = tmp_path / "job"
    found.mkdir()
    verdict(found, EXIT.format(task=3) + END.replace("12:40:00", "12:39:33"), one_file=True, stamps=stamps)
    chain = [link.what for link in diagnose([found]).chain]
    assert "out of memory" in chain[0]
    assert next(i for i, what in enumerate(chain) if "told to stop" in what) < next(
        i for i, what in enumerate(chain) if "Lhotse" in what
    )
