"""A small caching allocator that fails in known ways and writes snapshots in the schema of torch: synthetic, not recorded.

It follows the rules of c10's allocator that matter here: segments of 2 MiB, 20 MiB or the size asked for, the best
fitting free block, splitting, merging of neighbours, release of whole free segments before a request fails.
"""

from __future__ import annotations

import json
import pickle
from typing import Any

MIB, GIB = 1 << 20, 1 << 30
SITE = "/opt/venv/lib/python3.12/site-packages/torch"
NATIVE = ("torch::unwind::unwind()", "CapturedTraceback::gather(bool, bool, bool)")


def frame(file: str, line: int, name: str) -> dict[str, Any]:
    """One frame as torch writes it."""
    return {"filename": file, "line": line, "name": name}


def stack(*places: tuple[str, int, str], deep: int = 0) -> list[dict[str, Any]]:
    """A stack, innermost first, under the native frames that torch records."""
    native = [frame("??", 0, name) for name in NATIVE]
    below = [frame("/srv/app/main.py", 900 + n, f"level_{n}") for n in range(deep)]
    return native + [frame(*p) for p in places] + below


class Block:
    """A piece of a segment."""

    def __init__(self, address: int, size: int) -> None:
        self.address, self.size, self.asked = address, size, 0
        self.frames: list[dict[str, Any]] | None = None


class Segment:
    """What was got from the driver."""

    def __init__(self, address: int, size: int, *, small: bool, pool: tuple[int, int]) -> None:
        self.address, self.size, self.small, self.pool = address, size, small, pool
        self.blocks = [Block(address, size)]


class OutOfMemory(Exception):  # noqa: N818 - as torch names it
    """The request could not be met."""


class Allocator:
    """One device of one process."""

    def __init__(self, capacity: int, *, others: int = 0, context: int = GIB // 2, record: int | None = None) -> None:
        self.free = capacity - others - context
        self.segments: list[Segment] = []
        self.live: dict[int, tuple[Segment, Block]] = {}
        self.trace: list[dict[str, Any]] = []
        self.record = record
        self.time, self.next_address = 1_780_000_000_000_000, 0x7F0000000000
        self.recording = True

    def _note(self, action: str, size: int, frames: list[dict[str, Any]], **more: Any) -> None:
        self.time += 50
        if not self.recording:
            return
        entry = {"action": action, **({} if "device_free" in more else {"addr": 0}), "size": size, "stream": 0}
        self.trace.append({**entry, **more, "time_us": self.time, "frames": frames, "pool_id": (0, 0)})
        if self.record is not None and len(self.trace) > self.record:
            del self.trace[0]

    def alloc(self, asked: int, frames: list[dict[str, Any]], pool: tuple[int, int] = (0, 0)) -> int:
        """Address of a new block."""
        size = max(512, -(-asked // 512) * 512)
        small = size <= MIB
        found = self._fit(size, pool, small=small)
        if found is None:
            found = self._grow(size, pool, small=small, frames=frames)
        if found is None:
            self._note("oom", size, frames, device_free=self.free)
            raise OutOfMemory
        segment, block = found
        rest = block.size - size
        if rest >= (512 if small else MIB + 1):
            segment.blocks.insert(segment.blocks.index(block) + 1, Block(block.address + size, rest))
            block.size = size
        block.asked, block.frames = asked, frames if self.recording else []
        self.live[block.address] = found
        self._note("alloc", asked, frames, addr=block.address)
        return block.address

    def _fit(self, size: int, pool: tuple[int, int], *, small: bool) -> tuple[Segment, Block] | None:
        fits = [
            (b.size, b.address, s, b)
            for s in self.segments
            if s.pool == pool and s.small == small
            for b in s.blocks
            if b.frames is None and b.size >= size
        ]
        if not fits:
            return None
        best = min(fits, key=lambda f: f[:2])
        return best[2], best[3]

    def _grow(
        self, size: int, pool: tuple[int, int], *, small: bool, frames: list[dict[str, Any]]
    ) -> tuple[Segment, Block] | None:
        want = 2 * MIB if small else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
        if want > self.free:
            for segment in [s for s in self.segments if len(s.blocks) == 1 and s.blocks[0].frames is None]:
                self.segments.remove(segment)
                self.free += segment.size
                self._note("segment_free", segment.size, frames, addr=segment.address)
        if want > self.free:
            return None
        self.free -= want
        segment = Segment(self.next_address, want, small=small, pool=pool)
        self.next_address += want
        self.segments.append(segment)
        self._note("segment_alloc", want, frames, addr=segment.address)
        return segment, segment.blocks[0]

    def release(self, address: int) -> None:
        """Frees a block; the entries carry the stack of its allocation, as torch's do."""
        segment, block = self.live.pop(address)
        frames, block.frames = block.frames or [], None
        self._note("free_requested", block.asked, frames, addr=address)
        self._note("free_completed", block.asked, frames, addr=address)
        at = segment.blocks.index(block)
        for near in (at, at - 1):
            if near >= 0 and near + 1 < len(segment.blocks):
                left, right = segment.blocks[near : near + 2]
                if left.frames is None and right.frames is None:
                    left.size += right.size
                    segment.blocks.remove(right)

    def held(self) -> dict[tuple[str, int], int]:
        """Bytes asked for and held, by file and line of the innermost frame behind the native ones; the truth."""
        found: dict[tuple[str, int], int] = {}
        for _, block in self.live.values():
            frames = [f for f in block.frames or [] if f["filename"] != "??"]
            key = (frames[0]["filename"], frames[0]["line"]) if frames else ("", 0)
            found[key] = found.get(key, 0) + block.asked
        return found

    def snapshot(self, device: int = 0, *, old: bool = False) -> dict[str, Any]:
        """What `torch.cuda.memory._snapshot()` gives; `old` as torch 1.13 wrote it."""
        segments = [_segment(s, device, old=old) for s in self.segments]
        traces: list[list[dict[str, Any]]] = [[] for _ in range(device)]
        whole: dict[str, Any] = {"segments": segments, "device_traces": [*traces, list(self.trace)]}
        if not old:
            whole["allocator_settings"] = {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": False}
            whole["external_annotations"] = []
        return whole


def _segment(segment: Segment, device: int, *, old: bool) -> dict[str, Any]:
    held = [b for b in segment.blocks if b.frames is not None]
    found: dict[str, Any] = {
        "device": device,
        "address": segment.address,
        "total_size": segment.size,
        "allocated_size": sum(b.size for b in held),
        "active_size": sum(b.size for b in held),
        "stream": 0,
        "segment_type": "small" if segment.small else "large",
        "blocks": [_block(b, old=old) for b in segment.blocks],
    }
    if not old:
        found |= {"requested_size": sum(b.asked for b in held), "segment_pool_id": segment.pool, "is_expandable": False}
        found["frames"] = []
    return found


def _block(block: Block, *, old: bool) -> dict[str, Any]:
    state = "inactive" if block.frames is None else "active_allocated"
    if old:
        history = (
            [] if not block.frames else [{"addr": block.address, "frames": block.frames, "real_size": block.asked}]
        )
        return {"size": block.size, "state": state, **({"history": history} if history else {})}
    return {
        "address": block.address,
        "size": block.size,
        "requested_size": block.asked if block.frames is not None else block.size,
        "state": state,
        "frames": block.frames or [],
    }


def pickled(snapshot: dict[str, Any], protocol: int = 4) -> bytes:
    """As `_dump_snapshot` writes it."""
    return pickle.dumps(snapshot, protocol)


def as_json(snapshot: dict[str, Any]) -> bytes:
    """As people write it with `json.dump`."""
    return json.dumps(snapshot).encode()
