"""A machine's log beside black boxes: what ended a process before the first rank had begun ended none of the ranks."""

import pytest
from tests.unit.pipelines.box_folder import Box, at

from firstfault.pipelines.diagnose import diagnose
from firstfault.recorder import format as layout

LINES = (
    "python[25113]: segfault at 0 ip 00007fb623974219 sp 00007fff96e0b748 error 4 in libc.so.6[156219,7fb623844000+156000]",
    "Out of memory: Killed process 25113 (python) total-vm:99120kB, anon-rss:90112kB, file-rss:0kB, shmem-rss:0kB",
)


def job(folder, kernel, seconds, *, missing=()):
    """Rank 2 raises at 100 s; the kernel of its node tells of a process at a time of its own."""
    box = Box(folder, world=4)
    box.raised(2, 100, "RuntimeError", "shape mismatch in the head")
    box.node(2, layout.DEATH, 101, how="exited with code 1", exit_code=1, step=7, phase="forward", world=4)
    for rank in missing:
        for file in box.folder.rglob(f"rank-{rank:05d}*"):
            file.unlink()
    place = folder / "node" / "node-00"
    place.mkdir(parents=True)
    (place / "kernel.txt").write_text(f"{at(seconds).replace('.', ',')} {kernel}\n", encoding="utf-8")
    return diagnose([folder])


@pytest.mark.parametrize("kernel", LINES)
def test_a_process_that_ended_before_all_ranks_began_is_neither_cause_nor_effect(tmp_path, kernel):
    found = job(tmp_path, kernel, -350)
    assert "RuntimeError" in found.verdict.summary
    assert list(found.verdict.first_failed.ranks) == [2]
    assert not any("kernel.txt" in e.file for link in found.chain for e in link.evidence)


@pytest.mark.parametrize("kernel", LINES)
@pytest.mark.parametrize(("seconds", "missing"), [(-350, [1]), (-20, []), (99, [])])
def test_it_counts_where_it_may_have_been_one_of_the_ranks(tmp_path, kernel, seconds, missing):
    found = job(tmp_path, kernel, seconds, missing=missing)
    told = [found.verdict.summary, *(e.file for link in found.chain for e in link.evidence)]
    assert any("kernel.txt" in text or "native code" in text or "memory" in text for text in told)
