"""Asks the driver's library for cards and the programs on them and prints JSON: run as a program of its own, because a dying card stops who asks.

Standard library only. Serial numbers are not asked for.
"""

import ctypes
import json
import sys
from ctypes import byref, c_char_p, c_uint, c_ulonglong, c_void_p
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
_MORE = 7
"""NVML_ERROR_INSUFFICIENT_SIZE: the list was too short."""


class Old(ctypes.Structure):
    """A program, as drivers before 510 tell it."""

    _fields_ = (("pid", c_uint), ("used", c_ulonglong))


class New(ctypes.Structure):
    """A program, with its part of a card that is cut into several."""

    _fields_ = (("pid", c_uint), ("used", c_ulonglong), ("part", c_uint), ("inner", c_uint))


class Memory(ctypes.Structure):
    """Memory of a card."""

    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class Rates(ctypes.Structure):
    """How busy a card was."""

    _fields_ = (("gpu", c_uint), ("memory", c_uint))


def programs(library: Any, card: Any) -> list[dict[str, int | None]] | None:
    """Programs that compute on a card; None where the driver does not tell."""
    for name, kind in (("_v3", New), ("_v2", New), ("", Old)):
        call = getattr(library, f"nvmlDeviceGetComputeRunningProcesses{name}", None)
        if call is None:
            continue
        for room in (64, 4096):
            count, held = c_uint(room), (kind * room)()
            code = call(card, byref(count), held)
            if code == 0:
                return [
                    {"pid": one.pid, "mb": one.used >> 20 if one.used < 1 << 60 else None}
                    for one in held[: count.value]
                ]
            if code != _MORE:
                break
    return None


def number(library: Any, name: str, *given: Any, kind: Any = c_uint) -> int | None:
    """One number that the library tells; None where it does not."""
    call, held = getattr(library, name, None), kind()
    return int(held.value) if call is not None and call(*given, byref(held)) == 0 else None


def look() -> dict[str, Any]:
    """All cards.

    Raises:
        OSError: there is no such library.
        RuntimeError: the driver does not answer as it should.
    """
    library: Any = ctypes.CDLL(LIBRARY)
    code = library.nvmlInit_v2()
    if code != 0:
        library.nvmlErrorString.restype = c_char_p
        raise RuntimeError((library.nvmlErrorString(code) or b"").decode("ascii", "replace") or f"NVML error {code}")
    count = number(library, "nvmlDeviceGetCount_v2")
    if count is None:
        raise RuntimeError("NVML tells no number of cards")
    cards: list[dict[str, Any]] = []
    for index in range(count):
        card = c_void_p()
        if library.nvmlDeviceGetHandleByIndex_v2(c_uint(index), byref(card)) != 0:
            cards.append({"index": index, "programs": None})
            continue
        memory, rates = Memory(), Rates()
        has_memory = library.nvmlDeviceGetMemoryInfo(card, byref(memory)) == 0
        cards.append({
            "index": index,
            "used_mb": memory.used >> 20 if has_memory else None,
            "busy": rates.gpu if library.nvmlDeviceGetUtilizationRates(card, byref(rates)) == 0 else None,
            "clock": number(library, "nvmlDeviceGetClockInfo", card, c_uint(1)),
            "temperature": number(library, "nvmlDeviceGetTemperature", card, c_uint(0)),
            "throttle": number(library, "nvmlDeviceGetCurrentClocksThrottleReasons", card, kind=c_ulonglong),
            "programs": programs(library, card),
        })  # fmt: skip
    return {"cards": cards}


if __name__ == "__main__":
    try:
        found = look()
    except (OSError, RuntimeError, AttributeError) as error:
        found = {"trouble": str(error)[:200], "absent": isinstance(error, OSError)}
    json.dump(found, sys.stdout)
