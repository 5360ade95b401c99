"""Counts steps of torch optimizers, by the hook that torch offers for all of them: the one call of ours within a step.

torch puts that hook around `step` of each class by itself. A class above another one, as Horovod makes them, is hooked twice then, and
one step comes here twice: of such an optimizer the outermost call alone counts, for which the stack is looked through.
"""

from __future__ import annotations

import functools
import sys
import time
import weakref
from threading import get_ident
from typing import TYPE_CHECKING, Any

from firstfault.recorder import api
from firstfault.recorder import format as layout
from firstfault.recorder.looking import know, outwards
from firstfault.recorder.ring import LIVE, Live

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

_counted: weakref.ref[Any] | None = None
"""The optimizer whose steps are counted."""
_AGAIN, _TWICE = object(), object()
"""In the place of what the counted optimizer has for itself alone: it is to be looked at anew; each call of it is to be."""
_around: CodeType | None = None
"""What torch puts around the step of every optimizer."""
_alone: tuple[object, int, int] = (None, 0, 0)
"""Another optimizer, by its hooks: the steps counted when it stepped last, and how often it has since one was."""
_INSTEAD = 20
"""Steps of another optimizer without one of the counted: then that is of a stage of the program which is over."""


def apply(module: Any) -> None:
    """Registers with `torch.optim.optimizer` (since torch 2.0), and makes known what runs an optimizer's step."""
    global _around  # noqa: PLW0603 - the one function of torch
    module.register_optimizer_step_post_hook(after_step)
    wrap = getattr(getattr(module, "Optimizer", None), "profile_hook_step", None)
    if wrap is None:
        return
    # What torch puts around the step of every optimizer is one function, made anew for each.
    inner = _bare(wrap(_nothing))
    know(inner, "optimizer")
    _around = getattr(inner, "__code__", None)

    @functools.wraps(wrap)
    def profile_hook_step(function: Any) -> Any:
        if LIVE.owner is not None:
            LIVE.owner = _AGAIN  # a class is hooked: from now on two may be, one above the other
        return wrap(function)

    module.Optimizer.profile_hook_step = staticmethod(profile_hook_step)


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
    own = optimizer._optimizer_step_post_hooks  # noqa: SLF001 - torch offers no public place
    if counted is not optimizer and getattr(counted, "_optimizer_step_post_hooks", None) is not own:
        if (counted is not None and not _instead(own)) or _within_another(own):
            return
        _counted = weakref.ref(optimizer, _gone)
        recorder.looker.follow(get_ident())
        LIVE.owner = _AGAIN
    inside = _inside(own)
    if LIVE.owner is not _TWICE:
        LIVE.owner = _TWICE if inside or _may_be_inside(type(optimizer)) else own
    if not inside:
        recorder.step(None)


def _instead(own: object) -> bool:
    """Whether another optimizer, by its hooks, is to be counted from now on: it goes on alone."""
    global _alone  # noqa: PLW0603 - one of a process
    known, beats, times = _alone
    times = times + 1 if known is own and beats == LIVE.beats else 1
    _alone = (own, LIVE.beats, times)
    return times >= _INSTEAD


def _may_be_inside(kind: type) -> bool:
    """Whether steps of more than one class of an optimizer are hooked: one may call the other, if only at times."""
    return sum(getattr(vars(c).get("step"), "hooked", False) is True for c in kind.__mro__) > 1


def _inside(own: object) -> bool:
    """Whether this call of our hook is within another step of the same optimizer, for which it is called too."""
    found = 0
    for frame in outwards(sys._getframe(2)):  # noqa: SLF001 - the caller's, of `after_step`
        if frame.f_code is _around:
            found += getattr(frame.f_locals.get("self"), "_optimizer_step_post_hooks", None) is own
            if found > 1:
                return True
    return False


def _within_another(own: object) -> bool:
    """Whether this call of our hook is within the step of another optimizer, which steps this one as often as it likes: that one counts."""
    around = (f for f in outwards(sys._getframe(2)) if f.f_code is _around)  # noqa: SLF001 - the caller's, of `after_step`
    others = (getattr(f.f_locals.get("self"), "_optimizer_step_post_hooks", own) for f in around)
    return any(other is not own for other in others)


def _gone(optimizer: weakref.ref[Any]) -> None:
    """The optimizer that was counted is no more: the next one that steps is, and its hooks are let go."""
    if optimizer is _counted:
        LIVE.owner = None
