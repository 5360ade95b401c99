"""Lines of machines and platforms about what is no part of the job: other pods, other programs on its machines."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions

DASHES = "-" * 60


def entry(rank, host, at, code, note=""):
    return (
        f"[{rank}]:\n  time      : {at}\n  host      : {host}\n  rank      : {rank} (local_rank: {rank % 4})\n"
        f"  exitcode  : {code} (pid: {700 + rank}){note}\n  error_file: <N/A>\n  traceback : Signal received\n"
    )


def banner(host, ranks, at, *, root, code="1", rest="-15"):
    others = "".join(entry(r, host, at, rest, "  (SIGTERM)") for r in ranks if r != root)
    return (
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n" + "=" * 60 + "\npretrain.py FAILED\n"
        f"{DASHES}\nFailures:\n{others}{DASHES}\nRoot Cause (first observed failure):\n"
        + entry(root, host, at, code)
        + "=" * 60
        + "\n"
    )


def watchdog(rank):
    return (
        f"[rank{rank}]:[E304 11:30:00.250000000 ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=77, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600041 "
        "milliseconds before timing out.\n"
    )


def stuck(folder, hosts, silent):
    for n, host in enumerate(hosts):
        ranks = range(4 * n, 4 * n + 4)
        head = "".join(
            f"{host}:{700 + r}:{700 + r} [{r % 4}] NCCL INFO comm 0x5{r} rank {r} nranks 8 cudaDev {r % 4} busId {r}000 - Init COMPLETE\n"
            for r in ranks
        )
        text = head + "".join(watchdog(r) for r in ranks if r != silent)
        (folder / host).mkdir()
        (folder / host / "job.out").write_text(
            text + banner(host, ranks, "2026-03-04_11:31:00", root=4 * n, code="-6", rest="-6")
        )


def crashed(folder):
    raised = (
        'Traceback (most recent call last):\n  File "/srv/tune.py", line 9, in <module>\n    fit()\n'
        "TypeError: forward() got an unexpected keyword argument 'cache_impl'\n"
    )
    text = "".join(f"[rank2]: {x}\n" for x in raised.splitlines())
    (folder / "job.err").write_text(text + banner("gn7", range(4), "2026-03-04_12:00:00", root=2))


def verdict_of(folder):
    return diagnose([str(folder)], DiagnoseOptions(engine="inline")).verdict


POD = """Name:         {pod}
Namespace:    {space}
Node:         {node}/10.9.4.5
Containers:
  {pod}:
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
      Started:      Wed, 04 Mar 2026 10:00:00 +0000
      Finished:     Wed, 04 Mar 2026 11:20:30 +0000
"""


@pytest.mark.parametrize(
    ("pod", "space"), [("grafana-0", "observability"), ("fluentbit-x7k2p", "logging"), ("jupyter-ana", "hub")]
)
def test_a_pod_that_runs_no_rank_is_no_culprit(tmp_path, pod, space):
    stuck(tmp_path, ["gn1", "gn2"], silent=5)
    (tmp_path / "pods.txt").write_text(POD.format(pod=pod, space=space, node="misc-3"))
    found = verdict_of(tmp_path)
    assert (found.category, list(found.culprits.ranks)) == (Category.UNKNOWN, [5])


@pytest.mark.parametrize(
    ("pod", "node", "hosts"),
    [
        ("moe-worker-1", "pool-7", ["moe-worker-0", "moe-worker-1"]),  # the pod's own name is the host of ranks
        ("x-1", "gn2", ["gn1", "gn2"]),  # its node is
        ("moe-launcher", "pool-9", ["moe-worker-0", "moe-worker-1"]),  # it serves the job
    ],
)
def test_a_pod_of_the_job_still_counts(tmp_path, pod, node, hosts):
    stuck(tmp_path, hosts, silent=5)
    (tmp_path / "pods.txt").write_text(POD.format(pod=pod, space="train", node=node))
    assert verdict_of(tmp_path).category is Category.INFRASTRUCTURE


DMESG = "[Wed Mar  4 {at} 2026] NVRM: Xid (PCI:0000:9b:00): {code}, pid=991, name={name}, {what}\n"


@pytest.mark.parametrize(
    ("code", "name", "what"),
    [
        (13, "blender", "Graphics Exception: ESR 0x50c730=0x0"),
        (31, "Xorg", "Ch 0000000b, intr 00000000. MMU Fault"),
        (43, "ffmpeg", "Ch 00000010"),
    ],
)
def test_what_another_program_did_on_its_gpu_is_no_fault_of_the_job(tmp_path, code, name, what):
    crashed(tmp_path)
    (tmp_path / "dmesg_gn7.txt").write_text(
        DMESG.format(at="07:00:00", code=code, name=name, what=what)
        + "[Wed Mar  4 11:54:00 2026] Out of memory: Killed process 812 (jupyter-lab) total-vm:81234kB, anon-rss:61234567kB, "
        "file-rss:0kB, shmem-rss:0kB, UID:1003 pgtables:1kB oom_score_adj:0\n"
    )
    assert verdict_of(tmp_path).category is Category.SOFTWARE


@pytest.mark.parametrize(
    ("code", "name", "what"),
    [
        (79, "blender", "GPU has fallen off the bus."),  # the card's own fault, whoever was on it
        (31, "pt_main_thread", "Ch 0000000b, intr 00000000. MMU Fault"),
        (31, "<unknown>", "Ch 0000000b, intr 00000000. MMU Fault"),
    ],
)
def test_a_fault_of_the_card_or_of_an_own_program_still_counts(tmp_path, code, name, what):
    crashed(tmp_path)
    (tmp_path / "dmesg_gn7.txt").write_text(DMESG.format(at="11:59:58", code=code, name=name, what=what))
    assert verdict_of(tmp_path).category is Category.GPU_CUDA


def test_a_program_of_any_name_is_the_jobs_own_where_its_process_is_a_rank(tmp_path):
    crashed(tmp_path)
    line = DMESG.format(at="11:59:58", code=31, name="axolotl", what="Ch 0000000b, intr 00000000. MMU Fault")
    (tmp_path / "dmesg_gn7.txt").write_text(line)
    assert verdict_of(tmp_path).category is Category.SOFTWARE
    (tmp_path / "dmesg_gn7.txt").write_text(line.replace("pid=991", "pid=702"))
    assert verdict_of(tmp_path).category is Category.GPU_CUDA


def complained(folder, error):
    """Rank 0 fails with an error about a connection; the launcher lists it alone."""
    raised = f'Traceback (most recent call last):\n  File "/srv/rl.py", line 9, in <module>\n    step()\n{error}\n'
    text = "".join(f"[rank0]: {x}\n" for x in raised.splitlines())
    (folder / "trainer.log").write_text(text + banner("gn7", [0], "2026-03-04_12:00:20", root=0))


ENGINE = (
    "(EngineCore_1 pid=8120) ERROR 03-04 11:59:58 [core.py:632] {line}\n",
    "[2026-03-04 11:59:58 TP0] {line}\n",
    "2026-03-04 11:59:58 ERROR reward: {line}\n",
)
OUT_OF_MEMORY = (
    "Traceback (most recent call last):",
    '  File "/srv/serve.py", line 5, in <module>',
    "    generate()",
    (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which "
        "1.02 GiB is free. Including non-PyTorch memory, this process has 78.08 GiB memory in use. Of the allocated memory 75.12 GiB "
        "is allocated by PyTorch, and 1.41 GiB is reserved by PyTorch but unallocated."
    ),
)


@pytest.mark.parametrize("shape", ENGINE)
@pytest.mark.parametrize(
    "error",
    [
        "requests.exceptions.ConnectionError: HTTPConnectionPool(host='gen-0', port=8000): Max retries exceeded with url: /generate/",
        "httpx.ConnectError: [Errno 111] Connection refused",
        "grpc._channel._InactiveRpcError: <_InactiveRpcError of RPC that terminated with: status = StatusCode.UNAVAILABLE>",
    ],
)
def test_what_a_server_beside_the_job_wrote_is_not_given_to_the_rank_that_complains(tmp_path, shape, error):
    complained(tmp_path, error)
    (tmp_path / "serve.log").write_text("".join(shape.format(line=x) for x in OUT_OF_MEMORY))
    found = verdict_of(tmp_path)
    assert (list(found.culprits.ranks), list(found.culprits.hosts)) == ([], [])
    assert "OutOfMemoryError) on rank 0" not in found.summary


def test_the_process_of_a_server_is_named(tmp_path):
    complained(tmp_path, "httpx.ConnectError: [Errno 111] Connection refused")
    (tmp_path / "serve.log").write_text("".join(ENGINE[0].format(line=x) for x in OUT_OF_MEMORY))
    assert "EngineCore_1 (process 8120)" in verdict_of(tmp_path).summary


def test_a_rank_that_says_nothing_of_a_connection_still_owns_the_only_error(tmp_path):
    (tmp_path / "trainer.log").write_text(banner("gn7", [0], "2026-03-04_12:00:20", root=0))
    (tmp_path / "stderr.txt").write_text("".join(x + "\n" for x in OUT_OF_MEMORY))
    assert list(verdict_of(tmp_path).culprits.ranks) == [0]


def stale(folder, line):
    errors = "".join(
        f'[rank{r}]: Traceback (most recent call last):\n[rank{r}]:   File "/srv/t.py", line 5, in <module>\n[rank{r}]:     main()\n'
        f"[rank{r}]: OSError: [Errno 116] Stale file handle: '/scratch/data/train.bin'\n"
        for r in range(4)
    )
    (folder / "job.err").write_text(errors)
    (folder / "messages").write_text(line + "\n")


@pytest.mark.parametrize(
    ("line", "hosts"),
    [
        ("Mar  4 11:59:58 gn7 kernel: mmfs: Disk failure. Volume scratch. rc = 5. Physical volume nsd12.", []),
        ("Mar  4 11:59:58 gn7 kernel: mmfs: [E] Disk data07 of file system scratch is marked down.", []),
        (
            "Mar  4 11:59:58 gn7 kernel: mmfs: [E] The node has been expelled from cluster gpfs.example due to expired lease.",
            ["gn7"],
        ),
    ],
)
def test_a_disk_of_a_shared_volume_is_not_the_fault_of_the_client_that_tells_of_it(tmp_path, line, hosts):
    stale(tmp_path, line)
    found = verdict_of(tmp_path)
    assert (found.category, list(found.culprits.hosts)) == (Category.STORAGE_IO, hosts)
