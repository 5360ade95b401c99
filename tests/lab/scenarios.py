"""The jobs of the lab: what is put into each, how it is run, and the truth about it.

The truth is the fault that was put in, by the labelling rule of the cases; it is never taken from a diagnosis.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from typing import TYPE_CHECKING

from register import Scenario, scenario
from stage import LIMIT, folders, free_port, host_name, may_unshare, python, torchrun
from starts import OTHER, plain_processes, two_nodes

if TYPE_CHECKING:
    from pathlib import Path

    from stage import Stage

# A rank's own data


@scenario(
    "data",
    "software",
    ranks=[1],
    hosts=[host_name()],
    first=[1],
    never=["network"],
    trigger=["label 9 is outside [0, 4)"],
)
def bad_label_on_one_rank(stage: Stage) -> None:
    """A label out of range reaches rank 1 of 3; everything in one interleaved console."""
    stage.samples(24, {13: {"label": 9}})
    assert stage.run(torchrun("train.py", stage.config(ddp=True), 3)) != 0


@scenario(
    "data", ranks=[1], hosts=[host_name()], first=[1], never=["network"], trigger=["BadGzipFile", "CRC check failed"]
)
def corrupt_sample_in_worker(stage: Stage) -> None:
    """A flipped byte in a gzip sample of rank 1, met by a DataLoader worker; one folder a rank."""
    damaged = stage.samples(24)[9]
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 0xFF
    damaged.write_bytes(content)
    command = torchrun("train.py", stage.config(workers=2), 2, *folders(stage, "--redirects=3"))
    assert stage.run(command) != 0


@scenario("data", "software", ranks=[1], hosts=None, first=[1], never=["network"], trigger=["KeyError: 'target'"])
def column_missing_under_spawn(stage: Stage) -> None:
    """The table of process 1 has no target column; started by torch.multiprocessing.spawn."""
    for rank, head in enumerate(["id,target", "id,label"]):
        (stage.work / "data" / f"table-{rank}.csv").write_text(f"{head}\n1,2.0\n2,3.5\n", encoding="utf-8")
    assert stage.run(python("spawn.py", stage.config(world=2, port=free_port()))) != 0


@scenario(
    "numerical",
    "data",
    ranks=[0],
    hosts=[host_name()],
    first=[0],
    never=["network"],
    trigger=["FloatingPointError: loss is"],
)
def infinite_feature_on_rank_0(stage: Stage) -> None:
    """One sample of rank 0 holds an infinity: its loss is NaN and the job's own check stops it; console with prefixes."""
    stage.samples(24, {8: {"features": [float("inf")] * 8}})
    config = stage.config(log_format="[%(asctime)s][rank RANK] %(levelname)s %(message)s", all_ranks_log=True)
    assert stage.run(torchrun("train.py", config, 2, *folders(stage, "--tee=3"))) != 0


@scenario(
    "data",
    "storage_io",
    ranks=[3],
    hosts=[host_name(OTHER)],
    first=[3],
    never=["network"],
    namespaces=True,
    trigger=["FileNotFoundError"],
)
def shard_missing_on_second_node(stage: Stage) -> None:
    """Two nodes, a log for each; a shard of global rank 3, local rank 1 of the second node, is not there."""
    stage.shards(4, 4)
    stage.shard(3, 3).rename(stage.shard(3, 5))
    assert all(node.wait(timeout=LIMIT) != 0 for node in two_nodes(stage))


@scenario(
    "data",
    "software",
    ranks=[1],
    hosts=[host_name()],
    first=[1],
    never=["network", "collective_mismatch"],
    trigger=["JSONDecodeError"],
)
def half_a_record_in_detail(stage: Stage) -> None:
    """A shard of rank 1 of 3 ends in half a record; the debug level makes the others miss rank 1 in a barrier."""
    stage.shards(3, 4)
    stage.shard(1, 3).write_text('{"value": 1.0}\n{"val', encoding="utf-8")
    command = torchrun("stream.py", stage.config(timeout_s=6), 3)
    assert stage.run(command, environment={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}) != 0


# A rank's own process


@scenario(
    "software",
    ranks=[1],
    hosts=[host_name()],
    first=[1],
    never=["network", "gpu_cuda"],
    trigger=["MemoryError"],
)
def memory_limit_of_the_shell(stage: Stage) -> None:
    """Under `ulimit -v` the far too large index of rank 1 does not fit: MemoryError; one folder a rank."""
    stage.samples(8)
    for rank, size in enumerate([4096, 1 << 40]):
        file = stage.work / f"samples-{rank}.idx"
        file.touch()
        os.truncate(file, size)
    config = stage.config(index=stage.work)
    command = torchrun("train.py", config, 2, *folders(stage, "--redirects=3"))
    assert stage.run(command, before="ulimit -v 64000000") != 0


@scenario(
    "software",
    "data",
    ranks=[2],
    hosts=[host_name()],
    first=[2],
    never=["network", "gpu_cuda"],
    trigger=["Segmentation fault", "exitcode: -11", "(SIGSEGV)"],
)
def null_text_in_native_code(stage: Stage) -> None:
    """C code gets a null pointer on rank 2 of 3 and the process dies of SIGSEGV; faulthandler is on."""
    stage.samples(24, {14: {"text": None}})
    command = torchrun("train.py", stage.config(tokenizer="native"), 3)
    assert stage.run(command, environment={"PYTHONFAULTHANDLER": "1"}) != 0


@scenario(
    "infrastructure",
    "software",
    ranks=[1],
    hosts=[host_name()],
    first=[1],
    at_most="possible",
    never=["network"],
    trigger=["exitcode: -9", "(SIGKILL)"],
)
def rank_killed_from_outside(stage: Stage) -> None:
    """Rank 1 of 2 gets SIGKILL from somebody who leaves no trace; one folder a rank."""
    stage.samples(24)
    command = torchrun("train.py", stage.config(), 2, *folders(stage, "--redirects=3"))
    job = stage.start(command, gate="rank-1-step-4")
    os.kill(stage.at_gate(job), signal.SIGKILL)
    assert job.wait(timeout=LIMIT) != 0


@scenario(
    "infrastructure",
    "software",
    ranks=[0],
    hosts=[host_name()],
    first=[0],
    at_most="possible",
    never=["network"],
    trigger=["is killed by signal: Killed"],
)
def worker_killed_from_outside(stage: Stage) -> None:
    """A DataLoader worker of rank 0 gets SIGKILL; console with prefixes."""
    stage.samples(24)
    command = torchrun("train.py", stage.config(workers=2), 2, *folders(stage, "--tee=3"))
    job = stage.start(command, gate="sample-12")
    os.kill(stage.at_gate(job), signal.SIGKILL)
    assert job.wait(timeout=LIMIT) != 0


# Who is late or elsewhere


@scenario(
    "collective_mismatch",
    "software",
    ranks=[1],
    hosts=[host_name()],
    never=["network"],
    trigger=["Detected mismatch between collectives", "part 2: 0 scores"],
)
def other_collective_on_one_rank(stage: Stage) -> None:
    """Rank 1 of 3 has an empty part and takes another branch; the debug level names the mismatch."""
    _empty_part(stage)
    command = torchrun("evaluate.py", stage.config(parts=2, timeout_s=10), 3)
    assert stage.run(command, environment={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}) != 0


@scenario(
    "data_loading_stall",
    "storage_io",
    "unknown",
    ranks=[2],
    hosts=[host_name()],
    never=["network"],
    trigger=["shard-2-003.jsonl"],
)
def read_that_never_returns(stage: Stage) -> None:
    """A shard of rank 2 of 3 never delivers, the others time out in the collective; one folder a rank."""
    stage.shards(3, 4)
    _never_delivers(stage, 2)
    command = torchrun("stream.py", stage.config(timeout_s=4), 3, *folders(stage, "--redirects=3"))
    assert stage.run(command) != 0


@scenario(
    "data_loading_stall",
    "storage_io",
    "unknown",
    ranks=[2],
    hosts=[host_name()],
    never=["network", "collective_mismatch"],
    trigger=["shard-2-003.jsonl", "Ranks 2 failed to pass monitoredBarrier", "Rank 2 failed to pass monitoredBarrier"],
)
def read_that_never_returns_in_detail(stage: Stage) -> None:
    """The same with the debug level that checks every collective: rank 0 names who did not come; one console."""
    stage.shards(3, 4)
    _never_delivers(stage, 2)
    command = torchrun("stream.py", stage.config(timeout_s=4), 3)
    assert stage.run(command, environment={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}) != 0


@scenario(
    "data_loading_stall",
    "storage_io",
    "unknown",
    ranks=[3],
    hosts=None,
    never=["network", "collective_mismatch"],
    trigger=["shard-3-003.jsonl"],
)
def pair_waits_for_its_second(stage: Stage) -> None:
    """Rank 3 never gets its shard; rank 2 waits for it in their pair, ranks 0 and 1 for those in their columns; a log each."""
    _pairs(stage, {})


@scenario(
    "data_loading_stall",
    "storage_io",
    "unknown",
    ranks=[3],
    hosts=None,
    never=["network", "collective_mismatch"],
    trigger=["shard-3-003.jsonl", "Ranks 1 failed to pass monitoredBarrier", "Rank 1 failed to pass monitoredBarrier"],
)
def pair_waits_for_its_second_in_detail(stage: Stage) -> None:
    """The same with the debug level: rank 2 says that rank 1 of its pair, which is rank 3 of the job, did not come."""
    _pairs(stage, {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"})


@scenario(
    "collective_mismatch",
    "software",
    "data",
    "unknown",
    ranks=[1],
    hosts=[host_name()],
    never=["network"],
    trigger=["part 2: 0 scores", "dist.broadcast(counts, src=0)", "dist.all_reduce(counts)"],
)
def other_collective_without_debug_level(stage: Stage) -> None:
    """Rank 1 of 3 has an empty part and takes another branch; only the stacks of those that fail show it."""
    _empty_part(stage)
    assert stage.run(torchrun("evaluate.py", stage.config(parts=3, timeout_s=6), 3)) != 0


@scenario(
    "collective_mismatch",
    "data",
    "data_loading_stall",
    ranks=[1],
    hosts=[host_name()],
    never=["network"],
    trigger=["rank 1: step 3 mean", "dist.monitored_barrier(", "Rank 1 successfully reached monitoredBarrier"],
)
def fewer_shards_on_one_rank(stage: Stage) -> None:
    """Rank 1 of 2 has a shard less and stands in the final barrier while rank 0 is in the collective."""
    stage.shards(2, 4)
    stage.shard(1, 4).unlink()
    command = torchrun("stream.py", stage.config(timeout_s=4, final_check=True), 2, *folders(stage, "--tee=3"))
    assert stage.run(command) != 0


@scenario(
    "infrastructure",
    "software",
    ranks=[0],
    hosts=None,
    at_most="possible",
    # A killed server's sockets are closed, or reset where something lay in them unread: both are what the others see of it.
    trigger=[
        "shard-0-003.jsonl",
        "Did the remote server shutdown or crash?",
        "Failed to recv, got 0 bytes",
        "Connection reset by peer",
    ],
)
def holder_of_the_store_killed(stage: Stage) -> None:
    """Plain processes, a log for each: rank 0, which holds the store, is killed; the others only see the store vanish."""
    stage.shards(3, 4)
    jobs = plain_processes(stage, 3, stage.config(turns=True), {}, gate="rank-0-step-3")
    os.kill(stage.at_gate(jobs[0]), signal.SIGKILL)
    assert all(job.wait(timeout=LIMIT) != 0 for job in jobs)


# What all ranks share


@scenario("software", never=["network"], trigger=["TypeError: "])
def text_for_a_number_in_the_configuration(stage: Stage) -> None:
    """The learning rate is a text: TypeError on all ranks; console with prefixes."""
    stage.samples(8)
    assert stage.run(torchrun("train.py", stage.config(lr="1e-3"), 2, *folders(stage, "--tee=3"))) != 0


@scenario("infrastructure", never=["network"], namespaces=True, trigger=["unable to allocate shared memory(shm)"])
def shared_memory_too_small(stage: Stage) -> None:
    """/dev/shm has 1 MB, the batches of all ranks do not fit."""
    stage.samples(32)
    command = torchrun("train.py", stage.config(workers=2, repeat=16384), 2)
    assert stage.run(command, before="mount -t tmpfs -o size=1m tmpfs /dev/shm") != 0


@scenario("infrastructure", never=["network"], trigger=["EADDRINUSE"])
def master_port_taken(stage: Stage) -> None:
    """Somebody else listens on the port of the job's store."""
    with socket.socket(socket.AF_INET6) as taken:
        taken.bind(("::", 0))
        taken.listen()
        where = ["--nnodes=1", "--master-addr=127.0.0.1", f"--master-port={taken.getsockname()[1]}"]
        assert stage.run(torchrun("stream.py", stage.config(), 2, *where)) != 0


@scenario("infrastructure", "network", "unknown", first=[], trigger=["RendezvousTimeoutError"])
def second_node_never_joins(stage: Stage) -> None:
    """Two nodes are wanted, only one comes to the rendezvous."""
    where = ["--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{free_port()}", "--rdzv-id=4711"]
    limit = "--rdzv-conf=join_timeout=4,last_call_timeout=1,is_host=1"
    assert stage.run(torchrun("stream.py", stage.config(), 2, *where, limit)) != 0


@scenario(
    "storage_io",
    suspect_hosts=[host_name()],
    first=[0],
    never=["network"],
    namespaces=True,
    trigger=["basic_ios::clear: iostream error", "unexpected pos"],
)
def disk_full_while_saving(stage: Stage) -> None:
    """The file system of the checkpoints has 64 KB; PyTorch's writer does not say why it fails."""
    stage.samples(24)
    config = stage.config(hidden=4096, save_at=3)
    mount = f"mount -t tmpfs -o size=64k tmpfs '{stage.work}/checkpoints'"
    assert stage.run(torchrun("train.py", config, 2), before=mount) != 0


@scenario("storage_io", "data", never=["network"], trigger=["PytorchStreamReader failed reading zip archive"])
def checkpoint_cut_short(stage: Stage) -> None:
    """The checkpoint to resume from is only half there."""
    stage.samples(8)
    file = _checkpoint(stage, {"0.weight": (16, 8), "0.bias": (16,), "2.weight": (4, 16), "2.bias": (4,)})
    os.truncate(file, file.stat().st_size // 2)
    assert stage.run(torchrun("train.py", stage.config(resume=file), 2, *folders(stage, "--tee=3"))) != 0


@scenario(
    "software",
    never=["network", "storage_io"],
    trigger=["Error(s) in loading state_dict", "Missing key(s) in state_dict", "Unexpected key(s) in state_dict"],
)
def checkpoint_of_another_model(stage: Stage) -> None:
    """The checkpoint has other names than the model."""
    stage.samples(8)
    file = _checkpoint(stage, {"encoder.weight": (16, 8), "encoder.bias": (16,), "head.weight": (4, 16)})
    assert stage.run(torchrun("train.py", stage.config(resume=file), 2)) != 0


# What is done to the job from outside


@scenario(
    "infrastructure", first=[], never=["network", "software"], trigger=["Received 15 death signal", "got signal: 15"]
)
def launcher_told_to_stop(stage: Stage) -> None:
    """SIGTERM to torchrun in the middle of the run, as a scheduler sends it."""
    stage.samples(24)
    job = stage.start(torchrun("train.py", stage.config(), 2), gate="rank-0-step-5")
    stage.at_gate(job)
    os.kill(job.pid, signal.SIGTERM)
    assert job.wait(timeout=LIMIT) != 0


@scenario(
    "infrastructure",
    "network",
    suspect_ranks=[2, 3],
    suspect_hosts=[host_name(OTHER)],
    at_most="possible",
    namespaces=True,
    trigger=["shard-2-004.jsonl", "shard-3-004.jsonl", "Connection closed by peer", "Connection reset by peer"],
)
def second_node_dies(stage: Stage) -> None:
    """Everything on the second of two nodes is gone at once; the first only sees its connections close."""
    stage.shards(4, 5)
    nodes = two_nodes(stage, gate="rank-2-step-4")
    stage.at_gate(nodes[1])
    stage.kill_tree(nodes[1])
    assert nodes[0].wait(timeout=LIMIT) != 0


# No failure


@scenario("none", attempts=("failed", "completed"))
def second_start_succeeds(stage: Stage) -> None:
    """Rank 1 finds a damaged cache, takes it away and fails; the launcher starts again and the run ends well."""
    stage.samples(16)
    (stage.work / "cache" / "features-1.json.gz").write_bytes(b"\x1f\x8b\x08\x00\x00\x00")
    config = stage.config(cache=stage.work / "cache")
    command = torchrun("train.py", config, 2, *folders(stage, "--tee=3"), "--max-restarts=2")
    # A store of its own for each start: in a store that outlives the workers they would find the addresses of the dead.
    assert stage.run(command, environment={"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}) == 0


@scenario("none")
def healthy_with_frightening_lines(stage: Stage) -> None:
    """A hub that refuses connections, a traceback in the log, a warning with an error's name in it; and a good end."""
    stage.samples(16)
    words = stage.work / "vocabulary.txt"
    words.write_text("one two three\n", encoding="utf-8")
    address = f"http://127.0.0.1:{free_port()}/vocabulary.txt"
    config = stage.config(workers=2, amp=True, save_at=4, vocabulary_url=address, vocabulary_file=words)
    assert stage.run(torchrun("train.py", config, 2)) == 0


def _never_delivers(stage: Stage, rank: int) -> None:
    """The third shard of a rank becomes a pipe into which nobody writes."""
    stage.shard(rank, 3).unlink()
    os.mkfifo(stage.shard(rank, 3))


def _empty_part(stage: Stage) -> None:
    """Parts 1 to 3 for three ranks; the second of rank 1 is empty."""
    for part in (1, 2, 3):
        for rank in range(3):
            scores = [] if (part, rank) == (2, 1) else [1, 0, 1]
            (stage.work / "data" / f"part-{part}-{rank}.json").write_text(json.dumps(scores), encoding="utf-8")


def _pairs(stage: Stage, environment: dict[str, str]) -> None:
    """Four plain processes in two pairs, of which rank 3 never gets its third shard; the others end by their time-outs."""
    stage.shards(4, 4)
    _never_delivers(stage, 3)
    jobs = plain_processes(stage, 4, stage.config(timeout_s=4, pairs=True), environment)
    assert all(job.wait(timeout=LIMIT) != 0 for job in jobs[:3])
    stage.kill_tree(jobs[3])


def _checkpoint(stage: Stage, shapes: dict[str, tuple[int, ...]]) -> Path:
    import torch

    file = stage.work / "checkpoints" / "step-500.pt"
    torch.save({"model": {name: torch.zeros(shape) for name, shape in shapes.items()}, "step": 500}, file)
    return file


def runnable(wanted: Scenario) -> bool:
    """Whether this machine can perform it."""
    return may_unshare() or not wanted.needs_namespaces
