"""Notes saving and loading of checkpoints: `torch.save`, `torch.load`, and those of torch.distributed.checkpoint."""

from __future__ import annotations

import functools
import sys
from typing import Any

from firstfault.recorder import api
from firstfault.recorder.looking import mark


def apply(module: Any) -> None:
    """Wraps what the module has, also where the package above has taken the name over."""
    above = sys.modules.get(module.__name__.rpartition(".")[0])
    for name in ("save", "load", "async_save"):
        original = getattr(module, name, None)
        if original is None:
            continue
        wrapped = _wrapped(original)
        setattr(module, name, wrapped)
        if above is not None and getattr(above, name, None) is original:
            setattr(above, name, wrapped)


def _wrapped(original: Any) -> Any:
    @functools.wraps(original)
    def inside(*args: Any, **kwargs: Any) -> Any:
        recorder = api.current()
        if recorder is None or not recorder.looker.follows():
            return original(*args, **kwargs)
        before = recorder.ring.begin("checkpoint", mark(sys._getframe()))  # noqa: SLF001 - this function's own
        target = next(
            (a for a in (*args[:2], *kwargs.values()) if isinstance(a, str) or hasattr(a, "__fspath__")), None
        )
        named = target is not None and recorder.worker is None
        if named:
            api.item(target)
        try:
            result = original(*args, **kwargs)
        except BaseException:
            recorder.ring.leave(before, failed=True, item=named)
            raise
        if named:
            api.item(None)
        recorder.ring.leave(before, failed=False)
        return result

    return inside
