"""What the memory of one device was made of, by the place in the program that asked for it. A pure fold of one snapshot.

Must not say what explains a failure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.model.lazy import lazy
from firstfault.model.memory import PARTS, DeviceMemory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.model.evidence import Frame

LIBRARY = lazy(
    r"site-packages/|dist-packages/|lib/python3\.\d+/|/torch/|/deepspeed/|^<|/torchinductor_|^torch_compile_debug|\.pyx$"
)
"""Files of frames that are no code of the job's own."""
_NATIVE = lazy(r"^\?\?$|\.(?:so(?:\.[\d.]+)?|cpp|cc|cxx|c|h|hpp|cu|cuh)$|^lib\w+|^$")
_BACKWARD = lazy(r"autograd::(?:Engine|Node|python::PythonEngine)|torch/autograd/__init__\.py|_engine_run_backward")
_GRADIENTS = lazy(r"AccumulateGrad|accumulate_?[gG]rad")
_OPTIMIZER = lazy(
    r"/(?:torch/optim|torch/nn/utils/clip_grad|torch/(?:cuda/)?amp/grad_scaler|apex/optimizers|deepspeed/ops/adam|bitsandbytes/optim|transformer_engine/\w+/optimizers)[/.]"
)
ENDS = frozenset({"gradients", "backward", "optimizer"})
"""What a step does after its forward pass."""
LONG = 0.4
"""Share of the history over which such work recurs where it spans several steps."""
NO_FRAMES = "before the recording began"
EVEN = 6
"""Parts of the history, of `PARTS`, in which a place asked for what it still holds, from which on it keeps growing."""
SEVERAL = 12
"""Blocks from which on that can be told."""


class Place(Struct, frozen=True):
    """Where memory was asked for."""

    text: str
    """`forward (model.py:41)`, or what it is where no frame of the program is there."""
    through: str = ""
    """Innermost function of a library in Python, behind the place: `linear`."""
    part: str = ""
    """`gradients`, `backward` or `optimizer`, where the stack tells it."""
    line: str = ""
    """`/srv/app/model.py:41`; empty where no frame of the program is there."""


class Share(Struct, frozen=True, kw_only=True):
    """What one place held."""

    place: Place
    size: int
    count: int


class Growth(Struct, frozen=True, kw_only=True):
    """What one place asked for within the history and still held."""

    place: Place
    size: int
    count: int
    parts: tuple[int, ...]
    """Blocks asked for in each part of the history."""

    @property
    def steady(self) -> bool:
        """Whether it asked all along and gave nothing back: a step's own memory is of the end alone."""
        return self.count >= SEVERAL and sum(1 for n in self.parts if n) >= EVEN and self.parts[-1] > 0


class MemoryState(Struct, frozen=True, kw_only=True):
    """One device of one snapshot."""

    device: DeviceMemory
    shares: tuple[Share, ...]
    """Largest first."""
    growth: tuple[Growth, ...]
    """Largest first."""
    held: int
    """Bytes asked for and held, at the moment of interest."""
    several_steps: bool
    """Whether the history shows backward passes or optimizers again and again; memory kept over that outlives its step."""
    nameless: int
    """Of it, by no known stack."""


def memory_state(device: DeviceMemory) -> MemoryState:
    """The state of a device, places summed up."""
    shares: dict[Place, list[int]] = {}
    for one in device.held:
        row = shares.setdefault(place_of(one.frames), [0, 0])
        row[0] += one.size
        row[1] += one.count
    growth: dict[Place, list[int]] = {}
    for grown in device.grown:
        row = growth.setdefault(place_of(grown.frames), [0] * (PARTS + 1))
        row[PARTS] += grown.size
        for part, number in enumerate(grown.parts):
            row[part] += number
    nameless = device.held_beyond + device.held_unknown + sum(h.size for h in device.held if not h.frames)
    return MemoryState(
        device=device,
        shares=tuple(
            Share(place=place, size=size, count=count)
            for place, (size, count) in sorted(shares.items(), key=lambda ps: (-ps[1][0], ps[0].text))
        ),
        growth=tuple(
            Growth(place=place, size=row[PARTS], count=sum(row[:PARTS]), parts=tuple(row[:PARTS]))
            for place, row in sorted(growth.items(), key=lambda pr: (-pr[1][PARTS], pr[0].text))
        ),
        held=sum(h.size for h in device.held) + device.held_beyond + device.held_unknown,
        several_steps=any(a.count >= 3 and a.span >= LONG and _part(a.frames) in ENDS for a in device.asked),
        nameless=nameless,
    )


def place_of(frames: Sequence[Frame]) -> Place:
    """The innermost frame of the program itself, with what the frames of libraries behind it tell.

    Args:
        frames: innermost first.
    """
    if not frames:
        return Place(NO_FRAMES)
    part = _part(frames)
    python = [f for f in frames if not _native(f)]
    own = next((f for f in python if not LIBRARY.search(f.file)), None)
    through = next((f.function for f in python if f is not own), "") if own is None or python[0] is not own else ""
    if own is not None:
        name = own.file.replace("\\", "/").rsplit("/", 1)[-1]
        return Place(f"{own.function} ({name}:{own.line})", through, part, f"{own.file}:{own.line}")
    if part:
        return Place({"backward": "backward, outside Python", "gradients": "gradients"}.get(part, part), through, part)
    if python:
        return Place(f"{through} of a library", through)
    return Place("native code")


def _part(frames: Sequence[Frame]) -> str:
    for frame in frames:
        if _GRADIENTS.search(frame.function):
            return "gradients"
        if _OPTIMIZER.search(frame.file.replace("\\", "/")):
            return "optimizer"
        if _BACKWARD.search(frame.function) or _BACKWARD.search(frame.file.replace("\\", "/")):
            return "backward"
    return ""


def _native(frame: Frame) -> bool:
    return frame.line == 0 or _NATIVE.search(frame.file) is not None
