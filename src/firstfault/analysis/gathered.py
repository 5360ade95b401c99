"""Objects that ranks hand to each other: whether an exception is of bytes that a collective brought, not of a file.

A rank that reads garbage as a pickled object has not met a damaged file where the frames show that the bytes came out of a
gather or a broadcast: then the ranks were not in the same call. Knows names of functions; judges nothing else and reads no log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from firstfault.model.evidence import PythonException

_GARBAGE = lazy(
    r"(?i)invalid load key|pickle data was truncated|unpickling stack underflow|could not find MARK|Ran out of input|pickle exhausted"
    r"|unsupported pickle protocol|unregistered extension code"
)
_EXCHANGE = lazy(
    r"_?(?:all_?gather|gather|broadcast|scatter|recv|receive)_?\w*(?:obj|list|results|pickl|any)\w*|_tensor_to_object"
    r"|all_?gather|_?collect_results(?:_gpu|_device)?"
)
"""Functions that make a tensor of an object on one rank and an object of the tensor on others.

A program collects lists of files too, and `collect_results_cpu` hands its parts over in files of a shared folder.
"""
_NEAR = 4
"""Frames from the innermost in which such a function stands: between it and the error is only the unpickler."""


def out_of_a_collective(exception: PythonException) -> bool:
    """Whether an exception is that of an unpickler on bytes that other ranks sent."""
    if _GARBAGE.search(exception.message) is None:
        return False
    return any(_EXCHANGE.fullmatch(f.function) for f in exception.frames[-_NEAR:])
