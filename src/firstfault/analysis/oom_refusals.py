"""The arithmetic of refusals that are not in the words of PyTorch's allocator: XLA, and engines that reserve at their start.

Pure: text in, one account out. Where a message says only how much was asked for it explains nothing, and nothing is said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.oom_message import Account, Kind, share_text
from firstfault.analysis.wording import size_text
from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

_GIB = 1 << 30
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_N = r"(\d{1,9}(?:\.\d{1,6})?)([KMGT]?)(?:i?B)?"
_XLA_PROGRAM = lazy(rf"Ran out of memory in memory space (\w+)\. Used {_N} of {_N} \w+")
_XLA_FREE = lazy(
    rf"Attempting to (?:reserve|allocate) {_N}(?: at the bottom of memory)?\. That was not possible\. There are {_N} free"
)
_AT_START = lazy(
    r"Free memory on device (?:\S+ )?\((\d+(?:\.\d+)?)/(\d+(?:\.\d+)?) GiB\) on startup is less than desired GPU memory "
    r"utilization \((\d?\.?\d+), (\d+(?:\.\d+)?) GiB\)"
)
_CACHE = lazy(
    r"\(?(\d+(?:\.\d+)?) GiB KV cache is needed, which is larger than the available KV cache memory \((-?\d+(?:\.\d+)?) GiB\)"
    r"(?:\. Based on the available memory, the estimated maximum model length is (\d+))?"
)
_TOKENS = lazy(
    r"max seq len \((\d+)\) is larger than the maximum number of tokens that can be stored in KV cache \((\d+)\)"
)


def refusal(text: str) -> Account | None:
    """What the figures of a refusal explain; None where it is of another kind or its figures are too few."""
    for pattern, told in _KINDS:
        match = pattern.search(text)
        if match is not None:
            return told(match)
    return None


def _program(match: re.Match[str]) -> Account | None:
    used, whole = _size(match[2], match[3]), _size(match[4], match[5])
    if not whole or used <= whole:
        return None
    return Account(
        kind=Kind.IMPOSSIBLE,
        sentence=f"The compiled program needs {size_text(used)} of the {size_text(whole)} {match[1]} that one device has, before "
        "anything ran.",
        step="Shard the program over more devices, recompute activations (remat), or lower the batch: freeing memory cannot help.",
    )


def _beside_free(match: re.Match[str]) -> Account | None:
    asked, free = _size(match[1], match[2]), _size(match[3], match[4])
    if free >= asked:
        return None
    return Account(
        kind=Kind.MIXED,
        sentence=f"{size_text(asked)} were asked for with {size_text(free)} free; the message does not tell what holds the rest.",
        step="Lower what the step needs, or find what else is on that device (another program, arrays kept from before).",
    )


def _at_start(match: re.Match[str]) -> Account | None:
    free, whole, wanted = (round(float(match[n]) * _GIB) for n in (1, 2, 4))
    if not whole or free >= wanted:
        return None
    return Account(
        kind=Kind.OTHERS,
        sentence=f"{share_text(whole - free, whole)} were held already when the engine began; it wants {size_text(wanted)} "
        f"({match[3]} of the device) and found {size_text(free)}.",
        step="Run nvidia-smi on that host: end what is left over there, or lower the engine's share to below what is free.",
    )


def _cache(match: re.Match[str]) -> Account | None:
    needed, there = round(float(match[1]) * _GIB), round(float(match[2]) * _GIB)
    if there >= needed:
        return None
    left = f" ({match[3]} tokens would fit)" if match[3] else ""
    return Account(
        kind=Kind.OWN,
        sentence=f"One request of the longest length needs {size_text(needed)} of cache, and {size_text(max(there, 0))} were left "
        f"beside the weights{left}.",
        step="Lower the longest length that the engine serves, raise its share of the device's memory, or use more devices.",
    )


def _tokens(match: re.Match[str]) -> Account | None:
    wanted, there = int(match[1]), int(match[2])
    if there >= wanted:
        return None
    return Account(
        kind=Kind.OWN,
        sentence=f"One request of the longest length needs cache for {wanted} tokens, and there was room for {there}.",
        step="Lower the longest length that the engine serves, raise its share of the device's memory, or use more devices.",
    )


_KINDS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Account | None]], ...] = (
    (_XLA_PROGRAM, _program),
    (_XLA_FREE, _beside_free),
    (_AT_START, _at_start),
    (_CACHE, _cache),
    (_TOKENS, _tokens),
)


def _size(number: str, unit: str) -> int:
    return round(float(number) * _UNITS[unit])
