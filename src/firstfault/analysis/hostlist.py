"""Hosts as a SLURM hostlist: `node[001-003,007]`; keeps zero padding."""

from __future__ import annotations

from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING

from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Iterable

_TAIL = lazy(r"^(.*?)(\d+)$")


@lru_cache(maxsize=1 << 14)
def short_host(host: str) -> str:
    """A host's name without its domain; an address stays whole, since its parts are no names."""
    return host if ":" in host or host.replace(".", "").isdecimal() else host.split(".", maxsplit=1)[0]


def compress(hosts: Iterable[str]) -> str:
    """The shortest common form of some host names; names without a number stand alone."""
    plain: list[str] = []
    numbered: dict[tuple[str, int], list[int]] = {}
    for host in sorted(set(hosts)):
        short = short_host(host)
        found = _TAIL.match(short)
        if found is None or "." in short or ":" in short:
            plain.append(short)
        else:
            numbered.setdefault((found.group(1), len(found.group(2))), []).append(int(found.group(2)))
    parts = [_part(prefix, width, sorted(set(values))) for (prefix, width), values in sorted(numbered.items())]
    return ",".join([*parts, *plain])


def _part(prefix: str, width: int, values: list[int]) -> str:
    if len(values) == 1:
        return f"{prefix}{values[0]:0{width}d}"
    runs = []
    for _, run in groupby(enumerate(values), key=lambda pair: pair[1] - pair[0]):
        numbers = [value for _, value in run]
        low, high = f"{numbers[0]:0{width}d}", f"{numbers[-1]:0{width}d}"
        runs.append(low if low == high else f"{low}-{high}")
    return f"{prefix}[{','.join(runs)}]"
