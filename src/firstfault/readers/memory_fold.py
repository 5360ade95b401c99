"""Sums up a memory snapshot while it is read: segments, blocks and the recorded history, each looked at once, in order.

Must not choose what matters: it keeps sums by stack. Memory grows with different stacks and with blocks held at a time, not
with the length of the history.
"""

from __future__ import annotations

from typing import Any

from firstfault.model.evidence import Frame
from firstfault.model.memory import PARTS, Asked, DeviceMemory, Grown, Held, Oom
from firstfault.readers.plain_pickle import GONE

MOST_STACKS = 300_000
"""Different stacks; further ones are summed up without their frames."""
MOST_LIVE = 3_000_000
"""Blocks held at a time."""
MOST_UNDONE = 2_000_000
"""Entries behind the last failed request that can be undone."""
LISTED = 400
"""Stacks given, of the most bytes."""
DEEPEST = 128
"""Frames given of a stack."""
FIRST_OOMS = 8
SIZES = 40
_FREES = frozenset({"free_requested", "free_completed", "free"})
_MAPS = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
NO_FRAMES = 0
"""Number of the stack without frames."""

_Frames = tuple[tuple[str, int, str], ...]


class Stacks:
    """Numbers for stacks: equal ones have one number."""

    def __init__(self) -> None:
        self.numbers: dict[_Frames, int] = {(): NO_FRAMES}
        self.frames: list[_Frames] = [()]
        self.known: dict[int, tuple[list[Any], int]] = {}
        """By the identity of a list that is kept alive here."""
        self.beyond = False

    def number(self, frames: Any) -> int:
        """The number of a list of frames."""
        if type(frames) is not list or not frames:
            return NO_FRAMES
        known = self.known.get(id(frames))
        if known is not None:
            return known[1]
        key = tuple(f for f in frames[:DEEPEST] if type(f) is tuple)
        number = self.numbers.get(key)
        if number is None:
            if len(self.frames) >= MOST_STACKS:
                self.beyond = True
                return NO_FRAMES
            number = self.numbers[key] = len(self.frames)
            self.frames.append(key)
        if len(self.known) < MOST_STACKS:
            self.known[id(frames)] = (frames, number)
        return number

    def of(self, number: int) -> tuple[Frame, ...]:
        """The frames of a number, innermost first."""
        return tuple(Frame(*f) for f in self.frames[number])


class Trace:
    """The recorded history of one device, entry by entry."""

    def __init__(self) -> None:
        self.live: dict[int, tuple[int, int, int]] = {}
        """Address -> size, stack and number of the entry, of blocks asked for in the history and not freed."""
        self.asked: dict[int, list[int]] = {}
        """Stack -> requests, first and last entry of one."""
        self.entries = 0
        self.ooms: list[Oom] = []
        self.oom_count = 0
        self.at_oom = 0
        """Number of the entry of the last failed request."""
        self.undo: list[tuple[int, tuple[int, int, int] | None, int]] | None = None
        """Behind it: address, what was held there before, and bytes freed of a block whose stack is not known."""
        self.undone = True
        self.mapped_since = 0
        self.first_us: int | None = None
        self.last_us: int | None = None

    def add(self, entry: dict[str, Any], stacks: Stacks) -> None:
        """Takes the next entry."""
        self.entries += 1
        action, size = entry.get("action"), _whole(entry.get("size"))
        at = entry.get("time_us")
        if type(at) is int:
            self.last_us = at
            if self.first_us is None:
                self.first_us = at
        if type(action) is not str:
            return
        if action == "alloc":
            address = _whole(entry.get("addr"))
            stack = stacks.number(entry.get("frames"))
            self._change(address, (size, stack, self.entries), 0)
            seen = self.asked.get(stack)
            if seen is None:
                self.asked[stack] = [1, self.entries, self.entries]
            else:
                seen[0] += 1
                seen[2] = self.entries
        elif action in _FREES:
            address = _whole(entry.get("addr"))
            if address in self.live:
                self._change(address, None, 0)
            elif action == "free_requested":
                self._change(address, None, size)
        elif action == "oom":
            self._oom(entry, size, stacks)
        elif action in _MAPS:
            self.mapped_since += _MAPS[action] * size

    def _change(self, address: int, now: tuple[int, int, int] | None, unknown: int) -> None:
        before = self.live.get(address)
        if now is None:
            self.live.pop(address, None)
        elif before is not None or len(self.live) < MOST_LIVE:
            self.live[address] = now
        if self.undo is not None:
            if len(self.undo) < MOST_UNDONE:
                self.undo.append((address, before, unknown))
            else:
                self.undone = False

    def _oom(self, entry: dict[str, Any], size: int, stacks: Stacks) -> None:
        free = entry.get("device_free")
        one = Oom(
            asked=size,
            free=free if type(free) is int else None,
            frames=stacks.of(stacks.number(entry.get("frames"))),
            time_us=entry.get("time_us") if type(entry.get("time_us")) is int else None,
        )
        self.oom_count += 1
        if len(self.ooms) > FIRST_OOMS:
            self.ooms.pop()
        self.ooms.append(one)
        self.at_oom, self.undo, self.undone, self.mapped_since = self.entries, [], True, 0

    def back(self) -> tuple[dict[int, int], int]:
        """Goes back to the last failed request; what changed since, by stack (bytes to add), and what is known of no stack."""
        changed: dict[int, int] = {}
        unknown = 0
        for address, before, freed in reversed(self.undo or ()):
            now = self.live.pop(address, None)
            if now is not None:
                changed[now[1]] = changed.get(now[1], 0) - now[0]
            if before is not None:
                self.live[address] = before
                changed[before[1]] = changed.get(before[1], 0) + before[0]
            unknown += freed
        self.undo = None
        return changed, unknown


class _Device:
    """Sums over the segments of one device."""

    def __init__(self) -> None:
        self.reserved = self.allocated = self.requested = self.awaiting = 0
        self.inactive = self.largest = self.pool_reserved = self.pool_inactive = self.segments = 0
        self.expandable = False
        self.held: dict[int, list[int]] = {}
        self.sizes: dict[int, int] = {}

    def add(self, segment: dict[str, Any]) -> None:
        total = _whole(segment.get("total_size"))
        pool = segment.get("segment_pool_id")
        private = isinstance(pool, (tuple, list)) and any(pool)
        self.segments += 1
        self.reserved += total
        self.pool_reserved += total if private else 0
        self.expandable |= segment.get("is_expandable") is True
        blocks = segment.get("blocks")
        for block in blocks if type(blocks) is list else ():
            if type(block) is tuple and len(block) == 4:
                self._block(block, private=private)

    def _block(self, block: tuple[str, int, int, int], *, private: bool) -> None:
        state, size, requested, stack = block
        if state == "active_allocated":
            self.allocated += size
            self.requested += requested
            held = self.held.setdefault(stack, [0, 0])
            held[0] += requested
            held[1] += 1
            self.sizes[requested] = self.sizes.get(requested, 0) + 1
        elif state in {"active_awaiting_free", "active_pending_free"}:
            self.awaiting += size
        elif private:
            self.pool_inactive += size
        else:
            self.inactive += size
            self.largest = max(self.largest, size)


class SnapshotFolder:
    """Takes the maps of a snapshot as they are finished; see `firstfault.readers.plain_pickle.Folder`."""

    def __init__(self) -> None:
        self.stacks = Stacks()
        self.devices: dict[int, _Device] = {}
        self.traces: dict[int, tuple[list[Any], Trace]] = {}
        """By the identity of the list of entries, which is kept alive here."""
        self.segments_seen = False

    def finished(self, found: dict[Any, Any], parent: list[Any] | None) -> Any:
        """What stands in the place of a finished map."""
        if "action" in found and parent is not None:
            known = self.traces.get(id(parent))
            if known is None:
                known = self.traces[id(parent)] = (parent, Trace())
            known[1].add(found, self.stacks)
            return GONE
        if "filename" in found and "name" in found:
            return (str(found["filename"])[:1000], _whole(found.get("line")), str(found["name"])[:400])
        if "state" in found and "size" in found:
            return self._block(found)
        if "blocks" in found and "total_size" in found:
            self.segments_seen = True
            self.devices.setdefault(_whole(found.get("device")), _Device()).add(found)
            return GONE
        return found

    def _block(self, found: dict[Any, Any]) -> tuple[str, int, int, int]:
        size = _whole(found.get("size"))
        history = found.get("history")
        if type(history) is list and history and type(history[0]) is dict:  # torch 1.12 to 2.0
            frames, requested = history[0].get("frames"), _whole(history[0].get("real_size"))
        else:
            frames, requested = found.get("frames"), _whole(found.get("requested_size", size))
        return (str(found["state"])[:40], size, requested or size, self.stacks.number(frames))

    def result(self, traces: Any) -> tuple[DeviceMemory, ...]:
        """The devices.

        Args:
            traces: the list of lists of entries, one for each device, as it stands in the snapshot.
        """
        order = {}
        for number, inner in enumerate(traces if type(traces) is list else ()):
            if id(inner) in self.traces:
                order[number] = self.traces[id(inner)][1]
        return tuple(
            self._device(n, self.devices.get(n, _Device()), order.get(n, Trace()))
            for n in sorted({*self.devices, *order})
        )

    def _device(self, number: int, device: _Device, trace: Trace) -> DeviceMemory:
        later = trace.entries - trace.at_oom if trace.oom_count else 0
        at_oom = trace.oom_count > 0 and trace.undone
        changed, unknown = trace.back() if at_oom else ({}, 0)
        until = trace.at_oom if at_oom else trace.entries
        held = {stack: (size, count) for stack, (size, count) in device.held.items()}
        for stack, size in changed.items():
            before = held.get(stack, (0, 0))
            held[stack] = (before[0] + size, before[1])
        rows = sorted(((size, count, stack) for stack, (size, count) in held.items() if size > 0), reverse=True)
        common = sorted(device.sizes.items(), key=lambda sc: (-sc[0] * sc[1], sc[0]))[:SIZES]
        return DeviceMemory(
            device=number,
            reserved=device.reserved - (trace.mapped_since if at_oom else 0),
            allocated=device.allocated,
            requested=device.requested,
            awaiting=device.awaiting,
            inactive=device.inactive,
            largest_inactive=device.largest,
            pool_reserved=device.pool_reserved,
            pool_inactive=device.pool_inactive,
            segments=device.segments,
            expandable=device.expandable,
            held=tuple(Held(frames=self.stacks.of(k), size=size, count=count) for size, count, k in rows[:LISTED]),
            held_beyond=sum(size for size, _, _ in rows[LISTED:]),
            held_unknown=unknown,
            sizes=tuple(common),
            grown=self._grown(trace, until),
            asked=self._asked(trace, until),
            ooms=tuple(trace.ooms),
            oom_count=trace.oom_count,
            entries=trace.entries,
            first_us=trace.first_us,
            last_us=trace.last_us,
            at_oom=at_oom,
            later=later,
        )

    def _grown(self, trace: Trace, until: int) -> tuple[Grown, ...]:
        sums: dict[int, list[int]] = {}
        for size, stack, entry in trace.live.values():
            row = sums.setdefault(stack, [0] * (PARTS + 1))
            row[PARTS] += size
            row[min(PARTS - 1, (entry - 1) * PARTS // max(until, 1))] += 1
        rows = sorted(sums.items(), key=lambda ks: (-ks[1][PARTS], ks[0]))[:LISTED]
        return tuple(
            Grown(frames=self.stacks.of(stack), size=row[PARTS], parts=tuple(row[:PARTS])) for stack, row in rows
        )

    def _asked(self, trace: Trace, until: int) -> tuple[Asked, ...]:
        rows = [
            (min(last, until) - first, count, stack)
            for stack, (count, first, last) in trace.asked.items()
            if first <= until
        ]
        rows.sort(reverse=True)
        return tuple(
            Asked(frames=self.stacks.of(stack), count=count, span=span / max(until, 1))
            for span, count, stack in rows[:LISTED]
        )


def _whole(value: Any) -> int:
    """A whole number; 0 for anything else, as a damaged file may hold."""
    return value if type(value) is int and value >= 0 else 0
