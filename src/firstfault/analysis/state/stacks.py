"""Where each rank stood when its stack was taken: in a collective, in data, in a checkpoint, at a lock, or in its own code.

A pure fold over stack dumps. It says what a thread was in, not why, and not for how long.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from firstfault.model.evidence import Event, GlobalRank
from firstfault.model.lazy import lazy
from firstfault.model.stacks import StackDump, StackFrame
from firstfault.model.words import Word

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Sequence

    from firstfault.analysis.state.ranks import Roster

FRAME = "python.stack_of_thread"
"""Signature of the events that cite a line of a dump."""


class Doing(Word):
    """What a thread was in, by its innermost telling frame."""

    COLLECTIVE = "collective"
    """A collective or point-to-point call, or the wait for one."""
    RENDEZVOUS = "rendezvous"
    """The store or the set-up of a process group: a wait for other processes too."""
    DEVICE = "device"
    """A wait for the GPU, which itself may wait for a collective."""
    DATA = "data"
    CHECKPOINT = "checkpoint"
    DEBUGGER = "debugger"
    """A prompt of a debugger, which waits for somebody to type."""
    LOCK = "lock"
    """A lock that other processes hold: a file, a build."""
    CODE = "code"
    """Its own code, or a library that waits for nobody."""


WAITS = frozenset({Doing.COLLECTIVE, Doing.RENDEZVOUS, Doing.DEVICE})
"""Waits for other ranks, as far as a stack can tell."""

_OPS = (
    r"all_reduce|allreduce\w*|all_gather\w*|_all_gather_base|reduce_scatter\w*|_reduce_scatter_base|broadcast\w*|barrier|monitored_barrier|"
    r"all_to_all\w*|gather\w*|scatter\w*|reduce|send|recv|isend|irecv|batch_isend_irecv|new_group|_new_group_with_tag|split_group|"
    r"_verify_\w+|_sync_\w+|synchronize|wait|wait_tensor|_dist_allgather_fn|_communicate|_p2p_ops|recv_forward|recv_backward|send_forward\w*"
)
_TABLE: tuple[tuple[Doing, re.Pattern[str]], ...] = (
    (Doing.DEBUGGER, lazy(r"(?:^|/)(?:pdb|bdb|ipdb/\w+|pudb/\w+|IPython/(?:core|terminal)/debugger|debugpy/\S+|rpdb)\.py |\S+ (?:breakpointhook)$")),
    (Doing.RENDEZVOUS, lazy(r"distributed/rendezvous\.py |_store_based_barrier|init_process_group|TCPStore|elastic/rendezvous/|jax/_src/distributed")),
    (Doing.COLLECTIVE, lazy(
        rf"(?:distributed_c10d|_functional_collectives|deepspeed/comm/\w+|horovod/\S*mpi_ops|p2p_communication|nn/functional)\.py (?:{_OPS})$"
        r"|^\S*libnccl\S* |^\S*librccl\S* |c10d::\w*(?:Work|ProcessGroup)\w*::|partition_parameters\.py (?:wait|all_gather_coalesced)|AllGatherHandle|"
        r"ncclAll|ncclGroupEnd|mpi4py|gloo::"
    )),
    (Doing.DATA, lazy(
        r"utils/data/(?:dataloader|_utils/\w+|datapipes/\S+)\.py |(?:^|/)datasets/(?:arrow_dataset|iterable_dataset|builder|load)\.py |"
        r"webdataset/|(?:^|/)lhotse/|streaming/base/|decord/|(?:^|/)av/|PIL/|torchdata/|petastorm|tf_data|grain/"
        r"|\S+ (?:load_batch|get_batch|next_batch|__getitem__|collate\w*|tokenize\w*|_?read_(?:shard|sample|batch|record|image|audio)\w*|load_(?:data|shard|sample)\w*)$"
    )),
    (Doing.CHECKPOINT, lazy(
        r"torch/serialization\.py |distributed/checkpoint/|safetensors|checkpointing\.py |dist_checkpointing/|checkpoint_engine/"
        r"|\S+ (?:_?save_(?:checkpoint|model|pretrained|state)\w*|_?load_(?:checkpoint|state_dict)\w*|save_to_disk)$"
    )),
    (Doing.LOCK, lazy(r"file_baton\.py wait|filelock/|fasteners/|portalocker|\S+ (?:flock|lockf)$|cpp_extension\.py |_inductor/|triton/(?:runtime|compiler)/")),
    (Doing.DEVICE, lazy(
        r"^(?:\S*/)?lib(?:cuda|cudart|amdhip64|hsa-runtime64|ascendcl)\S* |^\S* (?:cu|cuda|hip)[A-Z]\w*(?:\(|$)|"
        r"cuda/(?:__init__|streams)\.py (?:synchronize|wait\w*|query)|autograd/(?:graph|__init__)\.py |clip_grad\.py |grad_scaler\.py |cudaStreamSynchronize|"
        r"cudaDeviceSynchronize|cudaEventSynchronize|cuStreamSynchronize|\S+ (?:item|_local_scalar_dense|_parse_losses)$"
    )),
)  # fmt: skip
_STANDARD = lazy(
    r"(?:^|/)(?:threading|queue|selectors|pdb|bdb|cmd|code|codeop|socket|ssl|contextlib|functools|runpy|asyncio/\w+|multiprocessing/\w+|concurrent/futures/\w+|importlib/\S+|<\S+>)\.py$|(?:^|/)(?:IPython|ipdb|pudb|debugpy)/|^<"
)
_RECORDER = "firstfault/recorder/"
"""Our own frames around the program's calls, and our own thread."""
_TORCH = lazy(r"(?:^|/)torch/(?!hub/)")
_FRAMEWORK = lazy(
    r"[/\\](?:site|dist)-packages[/\\]|(?:^|/)(?:deepspeed|mmcv|mmengine|transformers|accelerate|lightning|pytorch_lightning|megatron|nemo|torchvision|"
    r"torchaudio|apex|trl|peft|fairseq|fairscale|composer|ray|horovod|colossalai|detectron2|timm|diffusers|datasets|tqdm|click|hydra|fire)/"
)
_INSTALLED = lazy(r"[/\\](?:site|dist)-packages[/\\]|[/\\]lib(?:64)?[/\\]python\d")


class Stood(Struct, frozen=True, kw_only=True):
    """One process at the moment of its last dump."""

    rank: GlobalRank | None
    host: str | None
    title: str
    """The rank, or what else tells the process apart."""
    doing: Doing
    frame: StackFrame
    """The frame that tells what it did."""
    place: StackFrame | None
    """The innermost frame of the program itself; where none is told from libraries, the innermost outside Python and torch."""
    path: tuple[str, ...]
    """Functions of the program and frameworks from the outermost on: two processes at one place have equal ones."""
    others: tuple[StackFrame, ...]
    """Frames in which further threads of it stand in a collective, one a thread."""
    dump: StackDump
    earlier: StackDump | None = None
    """The dump of the same process before that one, taken by somebody at another time."""

    @property
    def moved(self) -> bool | None:
        """Whether it stood elsewhere in the earlier dump; None where there is none."""
        if self.earlier is None or self.earlier.main is None or self.dump.main is None:
            return None
        frames = [
            [f.frame for f in d.main.frames if not f.native] for d in (self.earlier, self.dump) if d.main is not None
        ]
        return frames[0] != frames[1]

    @property
    def did(self) -> tuple[Doing, StackFrame] | None:
        """What it was in by the earlier dump, with the frame that tells it; None where there is none."""
        return None if self.earlier is None or self.earlier.main is None else doing_of(self.earlier.main.frames)

    @property
    def call(self) -> str:
        """The collective that the program called, by the outermost Python frame of one; empty where none is told."""
        main = self.dump.main
        if self.doing is not Doing.COLLECTIVE or main is None:
            return ""
        calls = (f for f in reversed(main.frames) if not f.native and doing_of([f])[0] is Doing.COLLECTIVE)
        return next((f.frame.function.rsplit(".", 1)[-1] for f in calls), "")

    @property
    def op(self) -> str:
        """The function of the telling frame."""
        return self.frame.frame.function.rsplit(".", 1)[-1]


def stood(dumps: Iterable[StackDump], roster: Roster, world: int | None) -> tuple[Stood, ...]:
    """Where every process stood at its last dump; loaders' workers are left out, and so is who cannot be told apart.

    Args:
        dumps: all of one attempt, in order.
        roster: tells ranks by local rank and host, or by process id.
        world: the stated number of ranks.
    """
    last: dict[tuple[object, ...], StackDump] = {}
    earlier: dict[tuple[object, ...], StackDump] = {}
    for dump in dumps:
        if dump.who.worker is not None or dump.main is None:
            continue
        key = _process(dump)
        before = last.get(key)
        if before is None or not _shows_more(before, dump):
            last[key] = dump
        if before is not None and before.cause is None and dump.cause is None and _asked_again(before, dump):
            earlier[key] = before
    found = _once(
        _one_each(replace(_stood(dump, roster), earlier=earlier.get(key)) for key, dump in last.items()), world
    )
    if _one_machine(found, roster, world):
        found = [_with_rank(s, roster) for s in found]
    return tuple(sorted(found, key=lambda s: (s.rank is None, s.rank or 0, s.title)))


def _one_each(stands: Iterable[Stood]) -> list[Stood]:
    """One dump of each rank, however each tells its process: the one that was taken last.

    A process that dies dumps itself last of all; somebody looks at it when it hangs; its own timer began when it started.
    """
    found: list[Stood] = []
    best: dict[GlobalRank, Stood] = {}
    for one in stands:
        if one.rank is None:
            found.append(one)
        elif one.rank not in best or _late(one) >= _late(best[one.rank]):
            best[one.rank] = one
    return [*found, *best.values()]


def _asked_again(before: StackDump, dump: StackDump) -> bool:
    """Whether two dumps of a process are two takes, and not one that two tools wrote down, or one with more in it."""
    return before.begin.source != dump.begin.source and not (_shows_more(before, dump) or _shows_more(dump, before))


def _once(found: list[Stood], world: int | None) -> list[Stood]:
    """Stands without those of processes that a dump of another tool shows once more, where that one does not say whose it is.

    A process that is known by its number alone is the rank of that number; of dumps that say nothing of their process, there
    are no more than ranks of which none is known.
    """
    ranked = [s for s in found if s.rank is not None]
    numbers = {(s.dump.who.pid, host) for s in ranked if s.dump.who.pid is not None for host in (s.host, None)}
    kept = [s for s in found if s.rank is not None or (s.dump.who.pid, s.host) not in numbers]
    nameless = [
        s for s in kept if s.rank is None and (s.dump.who.pid, s.dump.who.local_rank, s.host) == (None, None, None)
    ]
    places = Counter((s.doing, s.op) for s in ranked)
    again = not Counter((s.doing, s.op) for s in nameless) - places
    if ranked and nameless and (again if world is None else len(kept) > world):
        return [s for s in kept if s not in nameless]
    return kept


def _late(one: Stood) -> int:
    cause = one.dump.cause
    if cause is None:
        return 1
    return 0 if cause.startswith("Timeout") else 2


def _process(dump: StackDump) -> tuple[object, ...]:
    """What tells a process apart; process ids count on one machine only, so without a rank they count in one source."""
    who, source = dump.who, dump.begin.source
    known = (who.rank, who.local_rank, who.host, who.pid)
    if known == (None, None, None, None):
        return source, dump.number
    joined = who.rank is not None or (who.local_rank is not None and who.pid is not None)
    return known, None if joined else source


def _shows_more(before: StackDump, dump: StackDump) -> bool:
    """Whether an earlier dump of the same process stands at the same place of Python and also shows what lies below it."""
    one, other = before.main, dump.main
    if one is None or other is None or not any(f.native for f in one.frames) or any(f.native for f in other.frames):
        return False
    python = [f.frame for f in one.frames if not f.native]
    return bool(python) and python == [f.frame for f in other.frames]


def _one_machine(found: Sequence[Stood], roster: Roster, world: int | None) -> bool:
    """Whether local ranks are global ones: all of 0 to n-1 are here, nothing else is stated, and one machine at most is named."""
    local = sorted(int(s.dump.who.local_rank) for s in found if s.dump.who.local_rank is not None)
    if any(s.rank is not None for s in found) or local != list(range(len(found))) or len(found) < 2:
        return False
    hosts = {h for hs in roster.source_hosts.values() for h in hs}
    return len(hosts) <= 1 and world in {None, len(found)}


def _with_rank(one: Stood, roster: Roster) -> Stood:
    local = one.dump.who.local_rank
    if local is None:
        return one
    rank = GlobalRank(int(local))
    return replace(one, rank=rank, title=f"rank {rank}", host=one.host or roster.host_of_rank(rank))


def _stood(dump: StackDump, roster: Roster) -> Stood:
    main = dump.main
    assert main is not None
    event = event_of(dump, main.frames[0])
    rank, host = roster.rank(event), roster.host(event)
    doing, frame = doing_of(main.frames)
    title = f"rank {rank}" if rank is not None else _title(dump, host)
    # Threads of libraries alone are in the middle of collectives for all others' sake: watchdogs, loops of transports.
    others = [doing_of(t.frames) for t in dump.threads if not t.main and any(not f.native for f in t.frames)]
    own = [f for f in main.frames if not f.native and not _foreign(f)]
    return Stood(
        rank=rank,
        host=host,
        title=title,
        doing=doing,
        frame=frame,
        place=next((f for f in own if not _FRAMEWORK.search(f.frame.file)), own[0] if own else None),
        path=tuple(f"{f.frame.file.rsplit('/', 1)[-1]}:{f.frame.function.rsplit('.', 1)[-1]}" for f in reversed(own)),
        others=tuple(f for what, f in others if what is Doing.COLLECTIVE),
        dump=dump,
    )


def _title(dump: StackDump, host: str | None) -> str:
    who = dump.who
    what = (
        f"local rank {who.local_rank}"
        if who.local_rank is not None
        else ""
        if who.pid is None
        else f"process {who.pid}"
    )
    if not what:
        what = f"the process of the dump at line {dump.begin.line}" if host is None else "the process"
    return what if host is None else f"{what} on {host}"


def doing_of(frames: Sequence[StackFrame]) -> tuple[Doing, StackFrame]:
    """What a thread was in, and the frame that tells it.

    Args:
        frames: innermost first.
    """
    nameless: tuple[Doing, StackFrame] | None = None
    for frame in frames:
        # Python 3.11 names a method with its class.
        function = frame.frame.function if frame.native else frame.frame.function.rsplit(".", 1)[-1]
        text = f"{frame.frame.file} {function}"
        doing = next((d for d, pattern in _TABLE if pattern.search(text)), None)
        if nameless is not None and doing is not nameless[0]:
            return nameless
        if doing is not None and not frame.frame.function.startswith("0x"):
            return doing, frame
        if doing is not None and nameless is None:
            nameless = doing, frame  # an address in a library: the call into it, further out, has a name
    if nameless is not None:
        return nameless
    python = [f for f in frames if not f.native]
    own = [f for f in python if not _foreign(f)]
    return Doing.CODE, (own or python or list(frames))[0]


def _foreign(frame: StackFrame) -> bool:
    """Whether a frame is of Python itself or of torch (or of the recorder), and so tells no place in the program."""
    file = frame.frame.file
    if _RECORDER in file:
        return True
    return bool(_STANDARD.search(file) or _TORCH.search(file) or (_INSTALLED.search(file) and "/torch/" in file))


def event_of(dump: StackDump, frame: StackFrame) -> Event:
    """A frame's line as evidence."""
    return Event(signature=FRAME, span=frame.span, text=frame.text, who=dump.who)


def refusal_of(dump: StackDump) -> Event:
    """The line that stands where a stack should be, as evidence."""
    return Event(signature=FRAME, span=dump.begin, text=dump.refused, who=dump.who)


def refused(dumps: Iterable[StackDump], stands: Iterable[Stood], roster: Roster) -> tuple[StackDump, ...]:
    """For each rank that never gave a stack when it was asked for one, the last time that it did not."""
    gave = {s.rank for s in stands}
    last: dict[GlobalRank, StackDump] = {}
    for dump in dumps:
        rank = roster.rank_of(dump.who, dump.begin.source, {})
        if dump.refused and rank is not None and rank not in gave:
            last[rank] = dump
    return tuple(last[rank] for rank in sorted(last))


def threads_in_collectives(stands: Iterable[Stood]) -> tuple[Stood, ...]:
    """Processes of which the main thread and another one stand in collectives at once."""
    return tuple(s for s in stands if s.doing is Doing.COLLECTIVE and s.others)


def busy_workers(dumps: Iterable[StackDump], one: Stood) -> tuple[tuple[StackDump, StackFrame], ...]:
    """Workers of a process's data loader that are in the middle of a sample, with the frame that they are in.

    Args:
        dumps: all of one attempt.
        one: the process; its workers are those whose dumps stand in the same source.
    """
    source = one.dump.begin.source
    found = []
    for dump in dumps:
        main = dump.main
        if dump.who.worker is None or main is None or dump.begin.source != source:
            continue
        own = [f for f in main.frames if not f.native and not _foreign(f)]
        if own:
            found.append((dump, own[0]))
    return tuple(found)


_MESSAGES = frozenset(
    {"send", "recv", "isend", "irecv", "batch_isend_irecv", "_communicate", "_p2p_ops", "recv_forward", "recv_backward"}
)
"""Waits for one other rank: ranks of different stages stand at different ones and are right to."""


def need_not_agree(stands: Sequence[Stood]) -> str | None:
    """Why ranks that wait at different places need not have gone different ways; None where they have."""
    if all(s.op in _MESSAGES for s in stands):
        return "stages of a pipeline stand at different sends and receives and are right to, and a message that does not arrive looks the same"
    # Where all wait for their GPUs, at different places, it is the program that went different ways.
    mixed = {Doing.DEVICE, Doing.COLLECTIVE} <= {s.doing for s in stands}
    return "what a GPU is waited for may be the same collective" if mixed else None
