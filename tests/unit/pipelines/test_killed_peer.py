"""A process that the kernel killed takes its peers' connections with it, whether or not their lines tell a machine."""

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose

KILLED = "[Fri Sep 26 10:11:02 2025] Out of memory: Killed process 52211 (python) total-vm:401223344kB, anon-rss:250113344kB, file-rss:12kB, shmem-rss:0kB, UID:1000 pgtables:512000kB oom_score_adj:0\n"
LOST = """[rank{r}]: torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:2006, remote process exited or there was a network error, NCCL version 2.20.5
[rank{r}]: Last error:
[rank{r}]: NET/IB : Got completion from peer 10.1.2.2<33021> with status=12 opcode=0 len=0 vendor err 129 (Recv) localGid fe80:: remoteGids fe80::
"""
ENDED = """E0926 10:11:05.260000 52190 site-packages/torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: -9) local_rank: 1 (pid: 52211) of binary: /opt/conda/bin/python
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
pretrain.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2025-09-26_10:11:05
  host      : nid002
  rank      : {rank} (local_rank: 1)
  exitcode  : -9 (pid: 52211)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 52211
============================================================
"""


def judged(folder, rank, *, known=True):
    """Eight ranks of nid001 lost a peer, at a time that no line tells; on nid002 the kernel killed a process."""
    for name, text in {
        "nid001/agent.log": "".join(LOST.format(r=r) for r in range(8)),
        "nid002/agent.log": ENDED.format(rank=rank) if known else "start\n",
        "nid002/dmesg.txt": KILLED,
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return diagnose([folder]).verdict


def test_the_silent_peer_is_the_one_that_was_killed(tmp_path):
    found = judged(tmp_path, 9)
    assert found.category is Category.INFRASTRUCTURE
    assert found.strength.level >= Strength.SUPPORTED.level
    assert found.culprits.ranks == [9]


def test_a_process_that_nobody_knows_may_have_been_killed_later(tmp_path):
    assert judged(tmp_path, 9, known=False).strength.level <= Strength.POSSIBLE.level
