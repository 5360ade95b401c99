"""Calls of torch.distributed: makes them known, asks torch how many were begun, and takes the rank once it is known.

Nothing is put around a call that a step makes. What DDP and FSDP issue from C++ is not seen: a rank in there is in its backward
pass; but torch counts it.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from firstfault.recorder import api, looking
from firstfault.recorder import format as layout

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = (
    "all_reduce", "all_reduce_coalesced", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "all_gather_coalesced",
    "gather", "scatter", "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "barrier",
    "monitored_barrier", "send", "recv", "batch_isend_irecv", "all_gather_object", "gather_object", "broadcast_object_list",
    "scatter_object_list", "send_object_list", "recv_object_list", "new_group", "destroy_process_group",
)  # fmt: skip


def apply(module: Any) -> None:
    """Takes the calls for what they are, and wraps the one that begins a group, where others have taken it from this module too."""
    for name in NAMES:
        looking.know(getattr(module, name, None), name, call=True)
    looking.asked.calls_begun = counter(module)
    looking.asked.waits_seen = waits_seen(module)
    original = getattr(module, "init_process_group", None)
    if original is not None:
        looking.know(original, "init_process_group", call=True)
        wrapped = _first(original, module)
        module.init_process_group = wrapped
        above = sys.modules.get("torch.distributed")
        if above is not None and getattr(above, "init_process_group", None) is original:
            above.init_process_group = wrapped  # type: ignore[attr-defined]
    adopt(module)


def counter(module: Any) -> Callable[[], int]:
    """What asks torch how many calls were begun in all groups of this process; -1 where there is none, or it does not say."""

    def calls_begun() -> int:
        groups = list(module._world.pg_map)  # noqa: SLF001 - torch offers no public place
        return sum(int(g._get_sequence_number_for_group()) for g in groups) if groups else -1  # noqa: SLF001

    return calls_begun


_HOLD = frozenset({"gloo", "mpi"})
"""Backends whose collectives hold the thread that waits for them, in a call or in the backward pass; those of devices only queue."""


def waits_seen(module: Any) -> Callable[[], int]:
    """What asks torch whether all groups of this process are of backends that hold the thread that waits."""

    def asked() -> int:
        # Told by device: `cpu:gloo,cuda:nccl`, also of a group that was made without a word on it.
        told = list(module._world.pg_backend_config.values())  # noqa: SLF001 - torch offers no public place
        parts = [part.lower().partition(":") for one in told for part in str(one).split(",")]
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        idle = cuda is not None and not cuda.is_initialized()
        names = {name or device for device, _, name in parts if not (name and device == "cuda" and idle)}
        if not told or not names:
            return layout.UNASKED
        return layout.WAITS_SEEN if names <= _HOLD else layout.WAITS_ELSEWHERE

    return asked


def _first(original: Any, module: Any) -> Any:
    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        recorder = api.current()
        if recorder is None:
            return original(*args, **kwargs)
        recorder.ring.phase(layout.START_UP)
        result = original(*args, **kwargs)
        adopt(module)
        return result

    return init_process_group


def adopt(module: Any) -> None:
    """Takes the rank from torch, where no launcher has said it."""
    recorder = api.current()
    if recorder is None or recorder.who.rank is not None or not module.is_initialized():
        return
    recorder.adopt(int(module.get_rank()), int(module.get_world_size()))
