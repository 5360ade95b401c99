"""Counts steps of torch optimizers, by the hook that torch offers for all of them: the one call of ours within a step."""

from __future__ import annotations

import time
import weakref
from threading import get_ident
from typing import TYPE_CHECKING, Any

from firstfault.recorder import api
from firstfault.recorder import format as layout
from firstfault.recorder.looking import know
from firstfault.recorder.ring import LIVE, Live

if TYPE_CHECKING:
    from collections.abc import Callable

_counted: weakref.ref[Any] | None = None
"""The optimizer whose steps are counted."""


def apply(module: Any) -> None:
    """Registers with `torch.optim.optimizer` (since torch 2.0), and makes known what runs an optimizer's step."""
    module.register_optimizer_step_post_hook(after_step)
    wrap = getattr(getattr(module, "Optimizer", None), "profile_hook_step", None)
    if wrap is not None:
        # What torch puts around the step of every optimizer is one function, made anew for each.
        know(_bare(wrap(_nothing)), "optimizer")


def _nothing() -> None:
    """Stands for the step of an optimizer; is never called."""


def _bare(wrapped: Any) -> Any:
    """The function itself, without the word of what it wraps."""
    vars(wrapped).pop("__wrapped__", None)
    return wrapped


def after_step(
    optimizer: Any,
    args: Any,
    kwargs: Any,
    _live: Live = LIVE,
    _now: Callable[[], int] = time.monotonic_ns,
    _first: int = layout.HISTORY,
    _last: int = layout.LAST_ENTRY,
) -> None:
    """A step of an optimizer was done: as `Ring.step`, of which it is the inner part, without one more call."""
    del args, kwargs
    # Known by its own table of hooks, which torch has just looked at: to compare ids takes a third of all that this costs.
    try:
        if optimizer._optimizer_step_post_hooks is not _live.owner:  # noqa: SLF001
            _first_or_other(optimizer)
            return
    except AttributeError:
        return  # whoever calls torch's hooks with something else than an optimizer of torch
    _live.beats = beats = _live.beats + 1
    words, entry = _live.words, _live.entry
    words[entry] = beats
    words[entry + 1] = _now()
    _live.entry = entry + 2 if entry < _last else _first


def _first_or_other(optimizer: Any) -> None:
    """The first optimizer that steps in a process counts; with several (GANs, groups) others are parts of the same step."""
    global _counted  # noqa: PLW0603 - one of a process
    recorder = api.current()
    if recorder is None or recorder.counted_elsewhere:
        return
    counted = None if LIVE.owner is None or _counted is None else _counted()
    if counted is not None and counted is not optimizer:
        return
    _counted = weakref.ref(optimizer, _gone)
    LIVE.owner = optimizer._optimizer_step_post_hooks  # noqa: SLF001 - torch offers no public place
    recorder.looker.follow(get_ident())
    recorder.step(None)


def _gone(optimizer: weakref.ref[Any]) -> None:
    """The optimizer that was counted is no more: the next one that steps is, and its hooks are let go."""
    if optimizer is _counted:
        LIVE.owner = None
