"""The recorded history of one device of a memory snapshot: kept as columns while it is read, summed up at its end.

Must not choose what matters, and knows stacks by their numbers alone. Memory: 21 bytes for each entry, and half as much
again while it is summed up, since addresses are ordered some at a time.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

from firstfault.model.memory import PARTS
from firstfault.readers.plain_pickle import UnreadableStreamError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from firstfault.readers.plain_shapes import Column

MOST_ENTRIES = 50_000_000
"""Entries of one device; a longer history is not read."""
_OTHER, _ALLOC, _ASKED_BACK, _BACK, _OOM, _MAPPED, _UNMAPPED = range(7)
_KINDS = {
    "alloc": _ALLOC,
    "free_requested": _ASKED_BACK,
    "free_completed": _BACK,
    "free": _BACK,
    "oom": _OOM,
    "segment_alloc": _MAPPED,
    "segment_map": _MAPPED,
    "segment_free": _UNMAPPED,
    "segment_unmap": _UNMAPPED,
}
_STACKED = frozenset({_ALLOC, _OOM})
_WITH = bytes(kind in _STACKED for kind in range(256))
AT_A_TIME = 1 << 20
"""Entries, about, whose addresses are ordered at a time."""
LARGEST = 1 << 60
"""Bytes, or microseconds, beyond which a number is damage."""
_HIGHEST = (1 << 64) - 1
"""Of an address."""


class Summed(NamedTuple):
    """What a history says of the moment of interest: the last failed request, else its end."""

    until: int
    """Entries up to then."""
    changed: dict[int, int]
    """Bytes held then and not at the end, by stack, less those held at the end and not then."""
    unknown: int
    """Bytes freed since, of blocks whose stack the history does not hold."""
    mapped_since: int
    """Bytes got from the driver since, less those given back."""
    grown: list[tuple[int, tuple[int, ...], int]]
    """Bytes, blocks in each of `PARTS` parts of the history, and stack, of what was asked for in it and still held."""
    asked: list[tuple[int, int, int]]
    """Entries from first to last request, requests, and stack."""


class Trace:
    """The entries, in order."""

    def __init__(self) -> None:
        self.kinds = bytearray()
        self.addresses, self.sizes, self.stacks = array("Q"), array("Q"), array("I")
        self.oom_count = 0
        self.at_oom = 0
        """Entries up to and with the last failed request."""
        self.first_us: int | None = None
        self.last_us: int | None = None

    @property
    def entries(self) -> int:
        """Number of entries."""
        return len(self.kinds)

    def add(self, action: Any, address: Any, size: Any, stack: int, at: Any) -> bool:
        """Takes the next entry; whether it is a failed request."""
        kind = _kind(action)
        self._append(bytes((kind,)), [_number(address, _HIGHEST)], [_number(size, LARGEST)], [stack])
        self._seen(at)
        if kind == _OOM:
            self.oom_count += 1
            self.at_oom = self.entries
        return kind == _OOM

    def add_many(self, columns: dict[str, Column], number: Callable[[Any], int]) -> list[tuple[int, int]]:
        """Takes entries that follow one another.

        Args:
            columns: their values by key.
            number: gives the number of a list of frames.

        Returns:
            The places, among them, of failed requests, with the stack of each.
        """
        kinds = bytes(columns["action"].mapped(_kind))
        count, before = len(kinds), self.entries
        address, size, at = columns.get("addr"), columns.get("size"), columns.get("time_us")
        stacks = array("I", bytes(4 * count))
        if "frames" in columns:
            # Nobody asks by which stack a block was freed.
            places = [place for place, kind in enumerate(kinds) if kind in _STACKED]
            for place, stack in zip(places, columns["frames"].mapped(number, kinds.translate(_WITH)), strict=True):
                stacks[place] = stack
        self._append(
            kinds,
            [0] * count if address is None else address.numbers(0, _HIGHEST),
            [0] * count if size is None else size.numbers(0, LARGEST),
            stacks,
        )
        if at is not None:
            self._seen(at.at(0))
            self._seen(at.at(count - 1))
        failed = [(place, stacks[place]) for place, kind in enumerate(kinds) if kind == _OOM] if _OOM in kinds else []
        if failed:
            self.oom_count += len(failed)
            self.at_oom = before + failed[-1][0] + 1
        return failed

    def _append(self, kinds: bytes, addresses: list[int], sizes: list[int], stacks: Sequence[int]) -> None:
        if len(self.kinds) + len(kinds) > MOST_ENTRIES:
            raise UnreadableStreamError(f"it is longer than {MOST_ENTRIES:,} entries")
        self.kinds += kinds
        self.addresses.extend(addresses)
        self.sizes.extend(sizes)
        self.stacks.extend(stacks)

    def _seen(self, at: Any) -> None:
        if type(at) is int and 0 <= at <= LARGEST:
            self.last_us = at
            if self.first_us is None:
                self.first_us = at

    def summed(self) -> Summed:
        """The sums; the entries are gone behind it."""
        import numpy as np

        kinds, addresses = np.frombuffer(self.kinds, np.uint8), np.frombuffer(self.addresses, np.uint64)
        sizes, stacks = np.frombuffer(self.sizes, np.uint64), np.frombuffer(self.stacks, np.uint32)
        until = self.at_oom if self.oom_count else self.entries
        then, now, unasked = _held(kinds, addresses, until)
        changed = _by_stack(stacks[then], sizes[then])
        for stack, size in _by_stack(stacks[now], sizes[now]).items():
            changed[stack] = changed.get(stack, 0) - size
        behind = kinds[until:]
        mapped = int(sizes[until:][behind == _MAPPED].sum()) - int(sizes[until:][behind == _UNMAPPED].sum())
        found = Summed(
            until=until,
            changed={stack: size for stack, size in changed.items() if size},
            unknown=int(sizes[unasked].sum()),
            mapped_since=mapped,
            grown=_grown(stacks[then], sizes[then], then, until),
            asked=_asked(stacks, np.flatnonzero(kinds == _ALLOC), until),
        )
        del kinds, addresses, sizes, stacks
        self.addresses, self.sizes, self.stacks = array("Q"), array("Q"), array("I")
        return found


def _held(
    kinds: NDArray[np.uint8], addresses: NDArray[np.uint64], until: int
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Entries that asked for what was held behind `until` and at the end, and those from `until` on that give back the unknown.

    What happens at one address concerns no other: addresses are dealt out to parts, of which one is ordered at a time.
    """
    import numpy as np

    parts = len(kinds) // AT_A_TIME + 1
    # Blocks begin at multiples of 512: the bits above tell them apart, and are mixed for strides of a power of two.
    deal = np.empty(len(addresses) if parts > 1 else 0, np.uint8)
    for at in range(0, len(deal), AT_A_TIME):
        some = addresses[at : at + AT_A_TIME] >> np.uint64(9)
        deal[at : at + AT_A_TIME] = (some ^ (some >> np.uint64(7)) ^ (some >> np.uint64(15))) % np.uint64(parts)
    found: tuple[list[NDArray[np.intp]], ...] = ([], [], [])
    for part in range(parts):
        wanted = (kinds >= _ALLOC) & (kinds <= _BACK)
        if parts > 1:
            wanted &= deal == part
        blocks = _Blocks(np.flatnonzero(wanted), kinds, addresses)
        found[0].append(blocks.held(until))
        found[1].append(found[0][-1] if until == len(kinds) else blocks.held(len(kinds)))
        found[2].append(blocks.given_back_unasked(until))
    then, now, unasked = (np.sort(np.concatenate(each)) for each in found)
    return then, now, unasked


class _Blocks:
    """Requests and frees, those of one address behind one another."""

    def __init__(self, entries: NDArray[np.intp], kinds: NDArray[np.uint8], addresses: NDArray[np.uint64]) -> None:
        import numpy as np

        order = np.argsort(addresses[entries], kind="stable")
        self.entries = entries[order]
        self.kinds = kinds[self.entries]
        ordered = addresses[self.entries]
        self.same = ordered[1:] == ordered[:-1]
        """Whether one is followed by another of its address."""

    def held(self, until: int) -> NDArray[np.intp]:
        """The entries that asked for what was held behind so many entries, in order."""
        import numpy as np

        last = np.ones(len(self.entries), bool)
        last[:-1] = ~self.same | (self.entries[1:] >= until)
        found: NDArray[np.intp] = self.entries[(self.kinds == _ALLOC) & last & (self.entries < until)]
        return found

    def given_back_unasked(self, since: int) -> NDArray[np.intp]:
        """The entries, from one on, that give back what the history does not show to be held."""
        import numpy as np

        held = np.zeros(len(self.entries), bool)
        held[1:] = self.same & (self.kinds[:-1] == _ALLOC)
        found: NDArray[np.intp] = self.entries[(self.kinds == _ASKED_BACK) & ~held & (self.entries >= since)]
        return found


def _by_stack(stacks: NDArray[np.uint32], sizes: NDArray[np.uint64]) -> dict[int, int]:
    import numpy as np

    names, where = np.unique(stacks, return_inverse=True)
    sums = np.zeros(len(names), np.uint64)
    np.add.at(sums, where, sizes)
    return dict(zip(names.tolist(), sums.tolist(), strict=True))


def _grown(
    stacks: NDArray[np.uint32], sizes: NDArray[np.uint64], entries: NDArray[np.intp], until: int
) -> list[tuple[int, tuple[int, ...], int]]:
    import numpy as np

    names, where = np.unique(stacks, return_inverse=True)
    sums = np.zeros(len(names), np.uint64)
    np.add.at(sums, where, sizes)
    part = np.minimum(PARTS - 1, entries * PARTS // max(until, 1))
    parts = np.bincount(where * PARTS + part, minlength=len(names) * PARTS).reshape(len(names), PARTS)
    rows = zip(sums.tolist(), map(tuple, parts.tolist()), names.tolist(), strict=True)
    return sorted(rows, key=lambda row: (-row[0], row[2]))


def _asked(stacks: NDArray[np.uint32], entries: NDArray[np.intp], until: int) -> list[tuple[int, int, int]]:
    import numpy as np

    own = stacks[entries]
    counts = np.bincount(own)
    first, last = np.zeros(len(counts), np.int64), np.zeros(len(counts), np.int64)
    last[own] = entries + 1  # of those with one stack the last one stays
    first[own[::-1]] = entries[::-1] + 1
    names = np.flatnonzero(counts)
    rows = zip(first[names].tolist(), last[names].tolist(), counts[names].tolist(), names.tolist(), strict=True)
    return sorted(((min(b, until) - a, count, name) for a, b, count, name in rows if a <= until), reverse=True)


def _kind(action: Any) -> int:
    return _KINDS.get(action, _OTHER) if type(action) is str else _OTHER


def _number(value: Any, most: int) -> int:
    return value if type(value) is int and 0 <= value <= most else 0
