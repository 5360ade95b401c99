"""CUDA out of memory: the allocation history is switched on, and the allocator's observer writes a snapshot when it happens.

It is written before the exception, so also where the program catches that. Without CUDA nothing is touched.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from firstfault.recorder import api
from firstfault.recorder import format as layout
from firstfault.recorder.files import replace_file

ENTRIES = 100_000
"""Allocations that torch keeps; each costs some hundred bytes."""
SNAPSHOTS = 2
"""Out-of-memory errors of one process that leave a snapshot."""


def apply(module: Any) -> None:
    """Waits for CUDA to be initialised; `module` is `torch.cuda.memory`."""
    recorder = api.current()
    torch = sys.modules["torch"]
    if recorder is None or not recorder.settings.memory or not hasattr(torch._C, "_cuda_attach_out_of_memory_observer"):  # noqa: SLF001
        return
    torch.cuda._lazy_call(lambda: _switch_on(module, torch))  # noqa: SLF001 - called once CUDA is there


def _switch_on(module: Any, torch: Any) -> None:
    recorder = api.current()
    if recorder is None:
        return
    try:
        module._record_memory_history(  # noqa: SLF001 - the name under which torch documents it
            enabled="all", context="alloc", stacks="python", max_entries=ENTRIES
        )
        torch._C._cuda_attach_out_of_memory_observer(Observer(module))  # noqa: SLF001
    except Exception as problem:  # noqa: BLE001 - an old torch has other arguments
        recorder.fault(problem)


class Observer:
    """What the allocator calls when it has no memory to give."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._seen = 0

    def __call__(self, device: int, wanted: int, total: int, free: int) -> None:
        """Writes the snapshot, a summary beside it, and a record.

        Args:
            device: ordinal of the card as this process sees it.
            wanted: bytes asked for.
            total: bytes of the card.
            free: bytes free on it.
        """
        recorder = api.current()
        if recorder is None or os.getpid() != recorder.pid:
            return
        try:
            self._seen += 1
            fields: dict[str, Any] = {
                "device": device,
                "wanted": wanted,
                "total": total,
                "free": free,
                "number": self._seen,
            }
            if self._seen <= SNAPSHOTS:
                stem = os.path.join(recorder.settings.node, f"{recorder.stem}.oom-{self._seen}")
                self._snapshot(stem, device)
                fields["snapshot"] = os.path.basename(stem + layout.MEMORY)
            recorder.write(layout.OOM, fields)
        except Exception as problem:  # noqa: BLE001 - the allocator goes on to raise its own error
            recorder.fault(problem)

    def _snapshot(self, stem: str, device: int) -> None:
        self._module._dump_snapshot(stem + layout.MEMORY)  # noqa: SLF001 - documented under this name
        summary = self._module.memory_summary(device)
        replace_file(f"{stem}.memory.txt", str(summary).encode("utf-8", "replace"))
