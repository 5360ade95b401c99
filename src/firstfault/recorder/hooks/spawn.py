"""Processes of torch.multiprocessing.spawn: their exceptions go to the parent by a file and reach no hook, so they are noted here."""

from __future__ import annotations

import importlib
from typing import Any

from firstfault.recorder import api

_original: Any = None


def apply(module: Any) -> None:
    """Puts our function in the place of the one that a new process runs; it is found again there by its name."""
    global _original  # noqa: PLW0603 - the one function of torch
    _original = module._wrap  # noqa: SLF001 - torch's own entry of a child
    module._wrap = _wrap  # noqa: SLF001


def _wrap(fn: Any, i: int, args: Any, error_file: Any) -> None:
    """What a spawned process runs: torch's function over the program's, with its exception noted."""
    api.start()
    original = _original
    if original is None:
        # Where our hook could not be applied it is still torch's; `torch.multiprocessing.spawn` as a name is its function.
        original = importlib.import_module("torch.multiprocessing.spawn")._wrap  # noqa: SLF001
    original(_Noted(fn), i, args, error_file)


class _Noted:
    """The program's function; an exception of it is written before torch takes it."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def __call__(self, *args: Any) -> Any:
        try:
            return self._function(*args)
        except BaseException as error:
            recorder = api.current()
            if recorder is not None:
                recorder.raised_in(error, "MainThread")
            raise
