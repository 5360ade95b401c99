"""The arithmetic of an out-of-memory message: which of its figures explains that the request failed.

Pure: text in, figures and sentences out. It must not say who is to blame; a message that lacks figures explains nothing.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from firstfault.analysis.wording import size_text
from firstfault.model.lazy import lazy

_SIZE = r"(-?\d{1,12}(?:\.\d{1,6})?) ?([KMGTP]?i?B|bytes)"
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_ASKED = lazy(rf"Tried to allocate {_SIZE}")
_FIGURES = {
    "capacity": lazy(rf"(?:has a total capac(?:i)?ty of {_SIZE}|{_SIZE} total capacity)"),
    "free": lazy(rf"(?:of which {_SIZE} is free|; {_SIZE} free[;)])"),
    "limit": lazy(rf"{_SIZE} allowed;"),
    "allocated": lazy(rf"(?:Of the allocated memory {_SIZE} is allocated by|; {_SIZE} already allocated)"),
    "pools": lazy(rf"with {_SIZE} allocated in private pools"),
    "unallocated": lazy(rf"(?:and {_SIZE} is reserved by PyTorch but unallocated|; {_SIZE} cached\))"),
    "own": lazy(rf"this process has {_SIZE} memory in use"),
}
_RESERVED = lazy(rf"{_SIZE} reserved in total")
_PROCESS = lazy(rf"Process (\d+) has {_SIZE} memory in use")
_SHARED = lazy(
    rf"MPS backend out of memory \(MPS allocated: {_SIZE}, other allocations: {_SIZE}, max allowed: {_SIZE}\)\. "
    rf"Tried to allocate {_SIZE}"
)
"""Of a device that has its memory from the host: what it may use at most stands for its capacity."""
MUCH = 0.1
"""Share of the device from which on memory that is lost to one cause is more than what every process loses."""
NOTED = 0.02
"""Share of the device from which on a loss is worth a word beside a real need."""
LARGE = 0.25
"""Share of the device from which on one request is the thing to look at."""
_SMALL_REQUEST = 1 << 20
_SEGMENT = 2 << 20
CONTEXT = 4 << 30
"""Bytes that a process may well use beside its allocator: CUDA context, workspaces, NCCL's buffers."""


class Kind(Enum):
    """What explains that a request failed."""

    IMPOSSIBLE = "impossible"
    """The request alone is larger than the device."""
    LIMIT = "limit"
    """The process reached the share of the device that it was allowed."""
    LARGE = "large"
    """One large request, on a device that was not full."""
    OWN = "own"
    """The process's own tensors fill the device."""
    FRAGMENTED = "fragmented"
    """Enough is reserved and unallocated, in pieces."""
    POOLS = "pools"
    """Private pools, as of CUDA graphs, hold memory that others may not use."""
    OTHERS = "others"
    """Other processes hold the memory."""
    OUTSIDE = "outside"
    """The process itself holds it outside the caching allocator."""
    BESIDE = "beside"
    """It is held outside the allocator, by this process or by others: the message does not tell which."""
    ROOM = "room"
    """The device had more than was asked for: the amount of memory does not explain the refusal."""
    MIXED = "mixed"
    """No cause alone; several together."""


class Figures(Struct, frozen=True, kw_only=True):
    """What a message states, in bytes; None where it does not state it."""

    asked: int
    capacity: int | None = None
    free: int | None = None
    limit: int | None = None
    """What the process is allowed, where that is less than the device."""
    allocated: int | None = None
    """Held by tensors; without free memory of private pools."""
    pools: int | None = None
    """Free memory of private pools."""
    unallocated: int | None = None
    """Reserved by the allocator and not allocated."""
    own: int | None = None
    """All that the process uses, by the driver's count."""
    others: tuple[tuple[int, int], ...] = ()
    """Process id and bytes of each further process that the message names."""
    itself: int | None = None
    """Process id under which the message names this very process, as it does in containers."""


class Account(Struct, frozen=True, kw_only=True):
    """Which of the figures explains the failure."""

    kind: Kind
    sentence: str
    step: str


def figures(text: str) -> Figures | None:
    """The figures of a message; None where it does not even say how much was asked for.

    Args:
        text: the line or message of an allocator of torch 0.4 to 2.13 (CUDA, HIP, XPU, NPU).
    """
    shared = _SHARED.search(text)
    if shared is not None:
        held, _, most, wanted = (_number(shared[n], shared[n + 1]) for n in (1, 3, 5, 7))
        return Figures(asked=wanted, capacity=most, allocated=held)
    asked = _ASKED.search(text)
    if asked is None:
        return None
    text = text[asked.start() :]
    found = {name: _bytes(pattern.search(text)) for name, pattern in _FIGURES.items()}
    reserved, allocated, pools = _bytes(_RESERVED.search(text)), found["allocated"], found["pools"]
    if found["unallocated"] is None and reserved is not None and allocated is not None and reserved >= allocated:
        found["unallocated"] = reserved - allocated
    if allocated is not None and pools is not None:
        found["allocated"] = max(0, allocated - pools)
    if not found["own"]:
        found["own"] = None  # `0 bytes` is what the driver says where it does not know the process
    known = Figures(
        asked=_bytes(asked) or 0,
        capacity=found["capacity"],
        free=found["free"],
        limit=found["limit"],
        allocated=found["allocated"],
        pools=found["pools"],
        unallocated=found["unallocated"],
        own=found["own"],
    )
    return _who_is_who(known, [(int(m[1]), _number(m[2], m[3])) for m in _PROCESS.finditer(text)])


def _who_is_who(known: Figures, processes: list[tuple[int, int]]) -> Figures:
    """In a container the message names this very process among the others: the one whose use fits what it holds."""
    from msgspec.structs import replace

    if known.own is not None or known.allocated is None:
        return replace(known, others=tuple(processes))
    held = known.allocated + (known.unallocated or 0) + (known.pools or 0)
    fits = [p for p in processes if held * 0.98 <= p[1] <= held + CONTEXT]
    if len(fits) != 1 or not held:
        return replace(known, others=tuple(processes))
    return replace(known, own=fits[0][1], itself=fits[0][0], others=tuple(p for p in processes if p != fits[0]))


def account(known: Figures) -> Account | None:
    """Which figure explains the failure; None where the message holds too few of them."""
    whole = known.capacity if known.limit is None or known.capacity is None else min(known.capacity, known.limit)
    if whole is None or not whole:
        return None
    if known.asked > whole:
        return _impossible(known, whole)
    if known.limit is None and known.free is not None and known.free >= _from_driver(known.asked):
        return _refused(known, known.free)
    if known.allocated is None:
        return None
    short = known.asked - _room(known, whole)
    all_losses = _losses(known)
    losses = {kind: size for kind, size in all_losses.items() if size >= MUCH * whole}
    if known.allocated + known.asked <= whole and losses:
        # Without what is lost it would have fitted; the largest loss that makes the difference alone is the answer.
        enough = {kind: size for kind, size in losses.items() if size >= short}
        if enough:
            kind = max(enough, key=lambda k: enough[k])
            return _lost(known, kind, enough[kind], whole)
        return _mixed(known, losses, whole)
    if known.asked >= LARGE * whole:
        return _large(known, whole)
    if known.limit is not None and known.free is not None and known.free >= known.asked:
        return _limited(known, known.limit)
    slack = {
        k: size
        for k, size in all_losses.items()
        if size >= max(short, NOTED * whole) and (k not in _NEEDED or size > CONTEXT)
    }
    return _own(known, whole, slack)


def _from_driver(asked: int) -> int:
    """Bytes that the allocator asks the driver for where it has no block: segments of 2 or 20 MiB, or of the size asked for."""
    if asked < _SMALL_REQUEST:
        return _SEGMENT
    return 10 * _SEGMENT if asked < 10 * _SMALL_REQUEST else -(-asked // _SEGMENT) * _SEGMENT


def _refused(known: Figures, free: int) -> Account:
    return Account(
        kind=Kind.ROOM,
        sentence=f"By the driver's count {size_text(free)} of the device were free, more than the {size_text(known.asked)} asked "
        "for: the amount of memory does not explain the refusal.",
        step="Watch that device for what comes and goes on it (nvidia-smi at short intervals); look in the kernel log for errors of "
        "the driver, and at limits of its own (vm.max_map_count, the largest size of one allocation).",
    )


def _room(known: Figures, whole: int) -> int:
    """Bytes that the allocator could still get from the device."""
    room = known.free if known.free is not None else 0
    if known.limit is not None and known.allocated is not None:
        room = min(room, whole - known.allocated - (known.unallocated or 0) - (known.pools or 0))
    return max(room, 0)


def _losses(known: Figures) -> dict[Kind, int]:
    """Bytes that neither tensors hold nor a request can have, by what holds them."""
    held = (known.allocated or 0) + (known.unallocated or 0) + (known.pools or 0)
    lost = {Kind.FRAGMENTED: known.unallocated or 0, Kind.POOLS: known.pools or 0}
    if known.limit is not None and known.free is not None and known.free >= known.asked:
        return lost  # the process's own limit refused: what others hold makes no difference
    others = sum(size for _, size in known.others)
    if known.own is not None:
        lost[Kind.OTHERS] = others
        lost[Kind.OUTSIDE] = known.own - held
    if known.capacity is not None and known.free is not None:
        rest = known.capacity - known.free - (held if known.own is None else known.own + others)
        lost[Kind.BESIDE] = rest
    return lost


def share_text(part: int, whole: int) -> str:
    """`12.00 GiB (15 % of 80.00 GiB)`; without the share where the whole, told of another moment, is smaller than the part."""
    if part > whole:
        return size_text(part)
    return f"{size_text(part)} ({100 * part / whole:.0f} % of {size_text(whole)})"


def _impossible(known: Figures, whole: int) -> Account:
    what = "that the process is allowed" if known.limit == whole and whole != known.capacity else "that the device has"
    return Account(
        kind=Kind.IMPOSSIBLE,
        sentence=f"The one request of {size_text(known.asked)} is larger than the {size_text(whole)} {what}: "
        "freeing memory cannot help.",
        step="Look at the call that asked and at the sizes that it was given (a wrong dimension, an outer product, an attention "
        "mask of a very long sequence); split it or shard it.",
    )


def _large(known: Figures, whole: int) -> Account:
    held = "" if known.allocated is None else f", beside {share_text(known.allocated, whole)} that its tensors hold"
    return Account(
        kind=Kind.LARGE,
        sentence=f"One request asked for {share_text(known.asked, whole)}{held}.",
        step="Look at the call that asked: a single request of that size is mostly a batch or a sequence longer than the "
        "others, logits over a large vocabulary, or an attention matrix that is not computed in blocks.",
    )


def _own(known: Figures, whole: int, enough: dict[Kind, int]) -> Account:
    """Its own need; `enough` are the losses that alone would have made room for this one request."""
    held = known.allocated or 0
    said = f"The process's own tensors hold {share_text(held, whole)}"
    if held + known.asked > whole:
        said += f": even with nothing lost elsewhere {size_text(known.asked)} more would not have fitted."
    elif not enough:
        said += f", and {size_text(known.asked)} more did not fit."
    else:
        kind = max(enough, key=lambda k: enough[k])
        said += (
            f": mainly a real need, though the {size_text(enough[kind])} {_NAMES[kind]} would have been enough for this one "
            "request."
        )
    return Account(
        kind=Kind.OWN,
        sentence=said,
        step="Lower what the step needs (micro batch, sequence length, activation checkpointing, sharding), or find what keeps "
        "growing: a memory snapshot tells which lines hold the memory.",
    )


def _limited(known: Figures, limit: int) -> Account:
    return Account(
        kind=Kind.LIMIT,
        sentence=f"The process reached the {size_text(limit)} that it is allowed, while {size_text(known.free or 0)} of the device "
        "were free.",
        step="Raise or remove the limit (torch.cuda.set_per_process_memory_fraction, per_process_memory_fraction), or lower "
        "what the step needs.",
    )


def _lost(known: Figures, kind: Kind, size: int, whole: int) -> Account:
    part = share_text(size, whole)
    match kind:
        case Kind.FRAGMENTED:
            said = (
                f"Fragmentation: {part} is reserved by the allocator and not allocated, but in pieces too small for the "
                f"{size_text(known.asked)} asked for."
            )
            step = (
                "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (or max_split_size_mb on older versions), and avoid "
                "sizes that differ at every step."
            )
        case Kind.POOLS:
            said = f"Private pools (CUDA graphs) hold {part} that is free in them and that no other request may use."
            step = "Let graphs share one pool, capture fewer sizes, or capture the largest first."
        case Kind.OTHERS:
            names = ", ".join(str(pid) for pid, _ in known.others[:4])
            said = f"Other processes (PID {names}) hold {part}: without them the request would have fitted."
            step = (
                "Find those processes on that host (nvidia-smi; PIDs are the host's): left over from an earlier job, another "
                "rank on the same GPU, or another user. Two ranks on one GPU: check CUDA_VISIBLE_DEVICES and set_device."
            )
        case Kind.OUTSIDE:
            said = f"This process itself holds {part} outside PyTorch's allocator: without that the request would have fitted."
            step = (
                "Look for what allocates beside the allocator: NCCL's buffers (many process groups), cuBLAS workspaces, other "
                "libraries (JAX, CuPy, TensorRT); leave room for them."
            )
        case _:
            said = (
                f"{part} is used outside this process's allocator, by other processes or by libraries in this one; the message "
                "does not tell which. Without that the request would have fitted."
            )
            step = (
                "Run nvidia-smi on that host (inside containers it hides the processes of others): a process left over, or "
                "another rank on the same GPU, is the usual reason."
            )
    return Account(kind=kind, sentence=said, step=step)


_NEEDED = frozenset({Kind.OUTSIDE, Kind.BESIDE})
"""Where every process uses something: its context."""
_NAMES = {
    Kind.FRAGMENTED: "reserved but unallocated",
    Kind.POOLS: "free in private pools",
    Kind.OTHERS: "of other processes",
    Kind.OUTSIDE: "of this process outside the allocator",
    Kind.BESIDE: "outside this process's allocator",
}


def _mixed(known: Figures, losses: dict[Kind, int], whole: int) -> Account:
    parts = ", ".join(f"{size_text(losses[k])} {_NAMES[k]}" for k in sorted(losses, key=lambda k: -losses[k]))
    return Account(
        kind=Kind.MIXED,
        sentence=f"Tensors hold {share_text(known.allocated or 0, whole)}; lost are {parts}: none of it alone is the "
        f"{size_text(known.asked)} asked for.",
        step="Win back the largest of these first.",
    )


def _number(number: str, unit: str) -> int:
    return round(float(number) * _UNITS[unit[0] if unit[0] in "KMGTP" else ""])


def _bytes(match: object) -> int | None:
    """The one size that a pattern with alternatives found."""
    import re

    if not isinstance(match, re.Match):
        return None
    groups = [g for g in match.groups() if g is not None]
    return max(0, _number(groups[0], groups[1]))
