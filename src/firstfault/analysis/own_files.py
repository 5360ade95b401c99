"""Files that a library writes and reads back for itself: a metric's collected values, a compiler's cache.

A torn one is no data that was given to the job: processes that keep it under one name write over each other, or the write
failed. Knows names of files and functions; judges nothing else and reads no log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    import re

    from firstfault.model.evidence import PythonException


class _Keeper(NamedTuple):
    what: str
    file: re.Pattern[str]
    function: re.Pattern[str]


_ANY = lazy(r"\w+|<\w+>")
_KEEPERS = (
    _Keeper(
        "the metric",
        lazy(r"[/\\](?:nlp|datasets)[/\\]metric\.py|[/\\]evaluate[/\\]module\.py"),
        lazy(r"compute|_?finalize|_?init_writer|_check_\w+|add(?:_batch)?"),
    ),
    _Keeper("the kernel compiler", lazy(r"[/\\]triton[/\\](?:runtime|compiler)[/\\]\w+\.py"), _ANY),
    _Keeper("the graph compiler", lazy(r"[/\\]torch[/\\]_(?:inductor|dynamo|functorch)[/\\]\w*cache\w*\.py"), _ANY),
    _Keeper("the compiler of numba", lazy(r"[/\\]numba[/\\]core[/\\]caching\.py"), _ANY),
    _Keeper("the compilation cache of JAX", lazy(r"[/\\]jax[/\\]_src[/\\](?:compilation_cache|lru_cache)\.py"), _ANY),
)
_NEAR = 8
"""Frames from the innermost in which the keeper stands: between it and the error are only readers of its format."""


def keeper_of(exception: PythonException) -> str | None:
    """Who wrote the file for itself that could not be read; None where the frames name nobody."""
    for frame in reversed(exception.frames[-_NEAR:]):
        for keeper in _KEEPERS:
            if keeper.file.search(frame.file) and keeper.function.fullmatch(frame.function):
                return keeper.what
    return None
