"""Sums up a memory snapshot while it is read: segments, blocks and the recorded history, each looked at once, in order.

Must not choose what matters: it keeps sums by stack. Memory grows with different stacks; of the history's entries only
columns are kept (`memory_trace`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firstfault.model.evidence import Frame
from firstfault.model.memory import Asked, DeviceMemory, Grown, Held, Oom
from firstfault.readers.memory_trace import LARGEST, Summed, Trace
from firstfault.readers.plain_pickle import GONE

if TYPE_CHECKING:
    from firstfault.readers.plain_shapes import Column

MOST_STACKS = 300_000
"""Different stacks; further ones are summed up without their frames."""
LISTED = 400
"""Stacks given, of the most bytes."""
DEEPEST = 128
"""Frames given of a stack."""
FIRST_OOMS = 8
SIZES = 40
_BLOCK = frozenset({"state", "size", "requested_size", "frames"})
NO_FRAMES = 0
"""Number of the stack without frames."""

_Frames = tuple[tuple[str, int, str], ...]


def _is_frame(value: object) -> bool:
    """Whether a value of a stranger's file has the form of a frame: file, line and function."""
    return (
        type(value) is tuple and len(value) == 3 and (type(value[0]), type(value[1]), type(value[2])) == (str, int, str)
    )


class Stacks:
    """Numbers for stacks: equal ones have one number."""

    def __init__(self) -> None:
        self.numbers: dict[_Frames, int] = {(): NO_FRAMES}
        self.frames: list[_Frames] = [()]
        self.known: dict[int, tuple[list[Any], int]] = {}
        """By the identity of a list that is kept alive here."""
        self.single: dict[tuple[str, int, str], tuple[str, int, str]] = {}
        self.beyond = False

    def number(self, frames: Any) -> int:
        """The number of a list of frames."""
        if type(frames) is not list or not frames:
            return NO_FRAMES
        known = self.known.get(id(frames))
        if known is not None:
            return known[1]
        key = tuple(f for f in frames[:DEEPEST] if _is_frame(f))
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

    def frame(self, file: str, line: int, function: str) -> tuple[str, int, str]:
        """One frame; equal ones are one object, however often a program's place comes up."""
        found = (file, line, function)
        return self.single.setdefault(found, found) if len(self.single) < MOST_STACKS else found

    def of(self, number: int) -> tuple[Frame, ...]:
        """The frames of a number, innermost first."""
        return tuple(Frame(*f) for f in self.frames[number])


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

    wanted = frozenset(
        {
            *("action", "addr", "size", "time_us", "frames", "device_free"),
            *("filename", "line", "name"),
            *("state", "requested_size", "history", "real_size"),
            *("blocks", "total_size", "device", "segment_pool_id", "is_expandable"),
            *("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"),
        }
    )

    def __init__(self) -> None:
        self.stacks = Stacks()
        self.devices: dict[int, _Device] = {}
        self.traces: dict[int, tuple[list[Any], Trace, list[Oom]]] = {}
        """By the identity of the list of entries, which is kept alive here; with the failed requests."""
        self.segments_seen = False
        self.sizeless = 0
        """Segments and failed requests whose size is none."""

    def takes(self, columns: dict[str, Column]) -> bool:
        """Whether maps with these keys are entries of a history, or blocks."""
        return "action" in columns or _BLOCK.issubset(columns)

    def many(self, columns: dict[str, Column], parent: list[Any]) -> list[Any] | None:
        """What stands in the place of entries or blocks that follow one another."""
        if "action" not in columns:
            states = columns["state"].mapped(lambda state: str(state)[:40])
            sizes = columns["size"].mapped(_whole)
            requested = columns["requested_size"].mapped(_whole)
            stacks = columns["frames"].mapped(self.stacks.number)
            return [(a, b, c or b, d) for a, b, c, d in zip(states, sizes, requested, stacks, strict=True)]
        _, trace, ooms = self._trace(parent)
        for place, stack in trace.add_many(columns, self.stacks.number):
            self._add_oom(ooms, {key: column.at(place) for key, column in columns.items()}, stack)
        return None

    def finished(self, found: dict[Any, Any], parent: list[Any] | None) -> Any:
        """What stands in the place of a finished map."""
        if "action" in found and parent is not None:
            _, trace, ooms = self._trace(parent)
            stack = self.stacks.number(found.get("frames"))
            if trace.add(found["action"], found.get("addr"), found.get("size"), stack, found.get("time_us")):
                self._add_oom(ooms, found, stack)
            return GONE
        if "filename" in found and "name" in found:
            return self.stacks.frame(str(found["filename"])[:1000], _whole(found.get("line")), str(found["name"])[:400])
        if "state" in found and "size" in found:
            return self._block(found)
        if "blocks" in found and "total_size" in found:
            self.segments_seen = True
            self.sizeless += not _whole(found.get("total_size"))
            self.devices.setdefault(_whole(found.get("device")), _Device()).add(found)
            return GONE
        return found

    def _trace(self, parent: list[Any]) -> tuple[list[Any], Trace, list[Oom]]:
        known = self.traces.get(id(parent))
        if known is None:
            known = self.traces[id(parent)] = (parent, Trace(), [])
        return known

    def _add_oom(self, ooms: list[Oom], entry: dict[str, Any], stack: int) -> None:
        """Keeps the first few failed requests and the last."""
        free, at = entry.get("device_free"), entry.get("time_us")
        self.sizeless += not _whole(entry.get("size"))
        if len(ooms) > FIRST_OOMS:
            ooms.pop()
        one = Oom(
            asked=_whole(entry.get("size")),
            free=free if type(free) is int and 0 <= free <= LARGEST else None,
            frames=self.stacks.of(stack),
            time_us=at if type(at) is int and 0 <= at <= LARGEST else None,
        )
        ooms.append(one)

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
                order[number] = self.traces[id(inner)][1:]
        return tuple(
            self._device(n, self.devices.get(n, _Device()), *order.get(n, (Trace(), [])))
            for n in sorted({*self.devices, *order})
        )

    def _device(self, number: int, device: _Device, trace: Trace, ooms: list[Oom]) -> DeviceMemory:
        at_oom, summed = trace.oom_count > 0, trace.summed()
        held = {stack: (size, count) for stack, (size, count) in device.held.items()}
        for stack, size in summed.changed.items():
            before = held.get(stack, (0, 0))
            held[stack] = (before[0] + size, before[1])
        rows = sorted(((size, count, stack) for stack, (size, count) in held.items() if size > 0), reverse=True)
        common = sorted(device.sizes.items(), key=lambda sc: (-sc[0] * sc[1], sc[0]))[:SIZES]
        return DeviceMemory(
            device=number,
            reserved=device.reserved - summed.mapped_since,
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
            held_unknown=summed.unknown,
            sizes=tuple(common),
            grown=self._grown(summed),
            asked=self._asked(summed),
            ooms=tuple(oom for oom in ooms if oom.asked),
            oom_count=trace.oom_count,
            entries=trace.entries,
            first_us=trace.first_us,
            last_us=trace.last_us,
            at_oom=at_oom,
            later=trace.entries - trace.at_oom if at_oom else 0,
        )

    def _grown(self, summed: Summed) -> tuple[Grown, ...]:
        return tuple(
            Grown(frames=self.stacks.of(stack), size=size, parts=parts) for size, parts, stack in summed.grown[:LISTED]
        )

    def _asked(self, summed: Summed) -> tuple[Asked, ...]:
        return tuple(
            Asked(frames=self.stacks.of(stack), count=count, span=span / max(summed.until, 1))
            for span, count, stack in summed.asked[:LISTED]
        )


def _whole(value: Any) -> int:
    """A whole number; 0 for anything else, as a damaged file may hold."""
    return value if type(value) is int and 0 <= value <= LARGEST else 0
