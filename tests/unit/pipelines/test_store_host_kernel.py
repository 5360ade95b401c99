"""The kernel of a storage host kills a daemon of the store: no end of a rank of the job."""

import pytest

from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose

JOB = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "/w/t.py", line 5, in <module>
[rank0]: aistore.sdk.obj.obj_file.errors.ObjectFileReaderMaxResumeError: ObjectFileReader exceeded max number of stream resumptions: 6
E0914 12:00:00.000000 3900 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 4800) of binary: /opt/venv/bin/python
"""
KILL = "Sep 14 11:59:30 stor-5 kernel: Out of memory: Killed process 8123 ({name}) total-vm:81234kB, anon-rss:161234567kB, file-rss:0kB, shmem-rss:0kB, UID:0\n"


@pytest.mark.parametrize(("name", "told"), [("aisnode", False), ("python", True), ("pt_main_thread", True)])
def test_a_killed_daemon_of_the_store_is_not_the_end_of_a_rank(tmp_path, name, told):
    (tmp_path / "job.out").write_text(JOB)
    (tmp_path / "stor-5.log").write_text(KILL.format(name=name))
    found = diagnose([tmp_path])
    said = [link.what for link in found.chain for e in link.evidence if e.file == "stor-5.log"]
    assert bool(said) is told
    if not told:
        assert found.verdict.category is Category.STORAGE_IO
        assert "aisnode" in found.verdict.summary
        assert "stor-5" not in found.verdict.culprits.hosts


@pytest.mark.parametrize("placed", [True, False])
def test_a_storage_host_is_no_machine_of_the_job_where_all_ranks_are_placed(tmp_path, placed):
    for rank in range(2):
        host = f"host: gpu-a{rank} rank {rank} of 2\n" if placed else f"rank {rank} of 2\n"
        (tmp_path / f"rank{rank}.log").write_text(host + "2026-03-04 10:00:09,118 INFO step 4 loss 2.5\n")
    (tmp_path / "storage").mkdir()
    (tmp_path / "storage" / "kern-stor9.log").write_text(
        "Mar  4 09:59:00 stor9 kernel: mlx5_core 0000:9a:00.0 ens9: Link down\n"
    )
    seen = diagnose([tmp_path]).ranks.seen_nodes
    assert seen == (2 if placed else 1)
