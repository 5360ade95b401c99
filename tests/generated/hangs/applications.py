"""What the training program itself prints: who it is, its steps, checkpoints, errors, retries and its end.

Each entry gives (stream, text, facts, whether the text names the global rank); a fact is (what, rank, value).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .engine import Record
    from .lines import Voice

Said = tuple[str, str, tuple[tuple[Any, ...], ...], bool]
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.31 GiB. GPU {gpu} has a total capacity of 79.15 GiB of "
    "which 188.75 MiB is free. Including non-PyTorch memory, this process has 78.95 GiB memory in use. Of the allocated "
    "memory 75.40 GiB is allocated by PyTorch, and 1.61 GiB is reserved by PyTorch but unallocated."
)


def _log(voice: Voice, record: Record, words: str, level: str = "INFO") -> str:
    assert record.node is not None
    moment = voice.clocks[record.node].at(record.time)
    stamp = f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d}"
    return f"{stamp} - {level} - [rank {record.rank}] {words}"


def _noise(voice: Voice, rank: int) -> Iterator[Said]:
    """What many a job prints at its start, and what means nothing."""
    if (rank * 7 + voice.job.seed) % 3 == 0:
        where = "/opt/venv/lib/python3.11/site-packages/torch/cuda/__init__.py:61"
        yield (
            "err",
            f"{where}: FutureWarning: The pynvml package is deprecated. Please install nvidia-ml-py instead.",
            (),
            False,
        )
        yield "err", "  import pynvml  # type: ignore[import]", (), False
    if (rank * 5 + voice.job.seed) % 4 == 0:
        words = f"[c10d] The client socket has failed to connect to [{voice.job.shape.hosts[0]}]:29500 (errno: 111 - Connection refused)."
        yield (
            "err",
            f"[W socket.cpp:663] {words}" if not voice.version.clock else "NCCL version 2.21.5+cuda12.4",
            (),
            False,
        )


def _start(voice: Voice, record: Record) -> Iterator[Said]:
    shape, rank = voice.job.shape, record.rank
    assert rank is not None
    here = (("here", rank, None),)
    yield from _noise(voice, rank)
    if voice.job.style == "nemo":
        facts = (*here, ("world", None, shape.world))
        yield "err", f"Initializing distributed: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/{shape.world}", facts, True
        if rank == 0:
            yield "err", "-" * 100, (), False
            yield "err", "distributed_backend=nccl", (), False
            words = f"All distributed processes registered. Starting with {shape.world} processes"
            yield "err", words, (("world", None, shape.world),), False
    words = f"rank={rank} local_rank={shape.local(rank)} world_size={shape.world} local_world_size={shape.per_node}"
    yield "out", _log(voice, record, words), (*here, ("world", None, shape.world)), True
    if voice.job.style == "megatron" and rank == 0:
        yield from _layout(voice)


def _communicator(voice: Voice, record: Record) -> Iterator[Said]:
    """The line with which NCCL builds the communicator of all ranks, where NCCL_DEBUG=INFO is set."""
    if not voice.nccl_info:
        return
    shape, rank, version = voice.job.shape, record.rank, voice.version.number
    assert rank is not None
    pid, local = voice.pid(rank), shape.local(rank)
    comm = f"comm 0x{0x55D000000000 + rank * 78928:x} rank {rank} nranks {shape.world} cudaDev {local}"
    bus = f"busId {('1b', '43', '52', '61', '9d', 'c3', 'd1', 'df')[local % 8]}000"
    if version < (2, 0):
        words = f"{comm} {bus} - Init COMPLETE"
    else:
        function = "" if version < (2, 4) else "ncclCommInitRank " if version < (2, 8) else "ncclCommInitRankConfig "
        words = f"{function}{comm} nvmlDev {local} {bus} commId 0x{voice.job.seed:08x}57f0a1c4 - Init START"
    facts = (("here", rank, None), ("host", rank, None), ("world", None, shape.world))
    yield "out", f"{shape.host(rank)}:{pid}:{pid + 214} [{local}] NCCL INFO {words}", facts, True


def _layout(voice: Voice) -> Iterator[Said]:
    shape = voice.job.shape
    words = (
        f"using world size: {shape.world}, data-parallel size: {shape.dp}, context-parallel size: 1, "
        f"hierarchical context-parallel sizes: None, tensor-model-parallel size: {shape.tp}, "
        f"pipeline-model-parallel size: {shape.pp}"
    )
    yield "out", words, (("world", None, shape.world),), False
    yield "out", "------------------------ arguments ------------------------", (), False
    for name, value in (
        ("expert_model_parallel_size", shape.ep),
        ("pipeline_model_parallel_size", shape.pp),
        ("tensor_model_parallel_size", shape.tp),
        ("world_size", shape.world),
    ):
        yield "out", f"  {name} {'.' * (47 - len(name))} {value}", (), False
    yield "out", "-------------------- end of arguments ---------------------", (), False


def _step(voice: Voice, record: Record) -> Iterator[Said]:
    job, fields = voice.job, record.fields
    step, loss = fields["step"], fields["loss"]
    facts = (("step", record.rank, step), *((("finished", None, None),) if step == job.total_steps else ()))
    if job.style == "megatron":
        assert record.node is not None
        stamp = voice.clocks[record.node].iso(record.time, "%Y-%m-%d %H:%M:%S.%f")
        words = (
            f" [{stamp}] iteration {step:8d}/{job.total_steps:8d} | consumed samples: {step * 256:12d} | elapsed time per "
            f"iteration (ms): 2143.5 | learning rate: 1.500000E-04 | global batch size:   256 | lm loss: {loss:.6E} | "
            "loss scale: 1.0 | grad norm: 0.987 | number of skipped iterations:   0 | number of nan iterations:   0 |"
        )
        yield "out", words, facts, False
        return
    words = f"step {step}/{job.total_steps} loss {loss:.4f} lr 1.5e-04"
    yield "out", _log(voice, record, words), facts, True


def _saving(voice: Voice, record: Record) -> Iterator[Said]:
    step = record.fields["step"]
    facts = (("saving", record.rank, None),)
    if voice.job.style == "megatron":
        assert record.node is not None
        stamp = voice.clocks[record.node].iso(record.time, "%Y-%m-%d %H:%M:%S.%f")
        yield (
            "out",
            f"[{stamp}] saving checkpoint at iteration {step:7d} to /ckpt/run7 in torch_dist format",
            facts,
            False,
        )
    else:
        yield "out", _log(voice, record, f"saving checkpoint to /ckpt/run7/step-{step}"), facts, True


def _words(pattern: str, what: str = "doing", level: str = "INFO") -> Callable[[Voice, Record], Iterator[Said]]:
    def say(voice: Voice, record: Record) -> Iterator[Said]:
        words = pattern.format(**record.fields)
        yield "out", _log(voice, record, words, level), ((what, record.rank, None),), True

    return say


def _raise(voice: Voice, record: Record) -> Iterator[Said]:
    rank, error = record.rank, record.fields["error"]
    assert rank is not None
    prefix = f"[rank{rank}]: " if voice.version.rank_prefix else ""
    rows = [
        "Traceback (most recent call last):",
        '  File "/workspace/train/pretrain.py", line 188, in <module>',
        "    main()",
        '  File "/workspace/train/loop.py", line 97, in main',
    ]
    if error == "oom":
        error = OOM.format(gpu=voice.job.shape.local(rank))
        if voice.version.number < (2, 4):
            error = error.replace("torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError")
        rows += ["    loss = model(batch)", "           ^^^^^^^^^^^^"]
    elif error.startswith("PIL"):
        rows += ["    image = Image.open(io.BytesIO(sample))", "            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^"]
    else:
        rows += ['    ids = sample["input_ids"]', "          ~~~~~~^^^^^^^^^^^^^"]
    for row in rows:
        yield "err", prefix + row, (), False
    yield "err", prefix + error, (("why", rank, "crash"),), bool(prefix)


def _ib_error(voice: Voice, record: Record) -> Iterator[Said]:
    shape, rank = voice.job.shape, record.rank
    assert rank is not None
    peer = record.fields["peer"]
    pid = voice.pid(rank)
    address = f"10.{11 + peer // 250}.7.{peer % 250 + 2}"
    if voice.version.number < (2, 3):
        words = (
            f"NET/IB : Got completion from peer {address}<51402> with error 12, opcode 0, len 0, vendor err 129 (Send)"
        )
    else:
        words = (
            f"NET/IB : Got completion from peer {address}<51402> with status=12 opcode=0 len=0 vendor err 129 (Send) "
            "localGid fe80::a288:c203:ab:51 remoteGidsfe80::a288:c203:ab:a1"
        )
    head = f"{shape.host(rank)}:{pid}:{pid + 214} [{shape.local(rank)}] transport/net_ib.cc:1295 NCCL WARN "
    yield "err", head + words, (("why", rank, "transport"),), False


def _retry(voice: Voice, record: Record) -> Iterator[Said]:
    left = record.fields["left"]
    words = (
        f"Retrying (Retry(total={left}, connect=None, read=None, redirect=None, status=None)) after connection broken by "
        "'ReadTimeoutError(\"HTTPSConnectionPool(host='store.example.net', port=443): Read timed out. (read timeout=60)\")'"
        ": /shards/000412.tar"
    )
    yield "out", _log(voice, record, words, "WARNING"), (), True


def _flap(voice: Voice, record: Record) -> Iterator[Said]:
    """A port goes down and comes back within the retries of the transport."""
    shape, rank = voice.job.shape, record.rank
    assert rank is not None
    pid = voice.pid(rank)
    head = f"{shape.host(rank)}:{pid}:{pid + 231} [{shape.local(rank)}] transport/net_ib.cc:96 NCCL WARN NET/IB : "
    yield "out", f"{head}mlx5_2:1 Got non-fatal async event: {record.fields['event']}", (), False


def _finished(voice: Voice, record: Record) -> Iterator[Said]:
    step = record.fields["step"]
    assert record.node is not None
    if voice.job.style == "megatron":
        stamp = voice.clocks[record.node].iso(record.time, "%Y-%m-%d %H:%M:%S.%f")
        yield "out", f"[exiting program at iteration {step}] datetime: {stamp} ", (("finished", None, None),), False
    elif voice.job.style == "nemo":
        yield "err", f"`Trainer.fit` stopped: `max_steps={step}` reached.", (("finished", None, None),), False
    else:
        words = f"training finished after {step} of {voice.job.total_steps} steps"
        yield "out", _log(voice, record, words), (("finished", None, None),), True


TEXTS: dict[str, Callable[[Voice, Record], Iterator[Said]]] = {
    "start": _start,
    "communicator": _communicator,
    "step": _step,
    "saving": _saving,
    "reading": _words("step {step}: reading shard-{shard:05d}.tar"),
    "evaluating": _words("step {step}: evaluation batch {batch}/3"),
    "exhausted": _words("no more samples after step {step}, leaving the loop", "exhausted"),
    "done_alone": _words("worker is done, closing", "exhausted"),
    "raise": _raise,
    "ib_error": _ib_error,
    "retry": _retry,
    "flap": _flap,
    "finished": _finished,
}
