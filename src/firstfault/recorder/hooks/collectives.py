"""Notes calls of torch.distributed: which one is entered, its number, and whether it came back; and the rank, once it is known.

What DDP and FSDP issue from C++ is not seen here: a rank in there is in its backward pass.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from firstfault.recorder import api

NAMES = (
    "all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "gather", "scatter", "reduce_scatter",
    "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "barrier", "monitored_barrier", "send", "recv", "batch_isend_irecv",
    "all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list", "new_group", "destroy_process_group",
)  # fmt: skip


def apply(module: Any) -> None:
    """Wraps the calls, in this module and where others have taken them from it."""
    above = sys.modules.get("torch.distributed")
    remaps = _remaps()
    for name in (*NAMES, "init_process_group"):
        original = getattr(module, name, None)
        if original is None:
            continue
        wrapped = _first(original, module) if name == "init_process_group" else _wrapped(original, name)
        setattr(module, name, wrapped)
        if above is not None and getattr(above, name, None) is original:
            setattr(above, name, wrapped)
        if original in remaps:
            remaps[wrapped] = remaps[original]
    adopt(module)


def _remaps() -> dict[Any, Any]:
    """The table by which the compiler knows the calls, by the functions themselves, where it is made already."""
    table = getattr(sys.modules.get("torch.distributed._functional_collectives"), "traceable_collective_remaps", None)
    return table if isinstance(table, dict) else {}


def _wrapped(original: Any, name: str) -> Any:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        recorder = api.current()
        if recorder is None:
            return original(*args, **kwargs)
        recorder.ring.call(name)
        result = original(*args, **kwargs)
        recorder.ring.called()
        return result

    return call


def _first(original: Any, module: Any) -> Any:
    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        recorder = api.current()
        if recorder is None:
            return original(*args, **kwargs)
        recorder.ring.phase("start_up")
        recorder.ring.call("init_process_group")
        result = original(*args, **kwargs)
        recorder.ring.called()
        adopt(module)
        return result

    return init_process_group


def adopt(module: Any) -> None:
    """Takes the rank from torch, where no launcher has said it."""
    recorder = api.current()
    if recorder is None or recorder.who.rank is not None or not module.is_initialized():
        return
    recorder.adopt(int(module.get_rank()), int(module.get_world_size()))
