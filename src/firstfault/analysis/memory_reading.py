"""What a memory snapshot says about a failed request: which kind of use explains it, in sentences with figures.

Pure; must not name ranks or hosts to blame, and says nothing of other processes, which a snapshot does not show.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.oom_message import LARGE, MUCH, share_text
from firstfault.analysis.wording import size_text

if TYPE_CHECKING:
    from firstfault.analysis.state.memory import Growth, MemoryState, Place

FILLS = 0.75
"""Share of what a process could have from which on its tensors alone fill the device."""
SHOWN = 3
"""Places named in a sentence."""


class Use(Enum):
    """What explains a failed request, as far as the process itself goes."""

    GROWING = "growing"
    """One place keeps what it asks for, all along the history."""
    FRAGMENTED = "fragmented"
    POOLS = "pools"
    LARGE = "large"
    """The one request is the largest thing about it."""
    ELSEWHERE = "elsewhere"
    """The allocator holds far less than another snapshot or message shows the device to have."""
    OWN = "own"
    """Its tensors, without one place that grows."""


class Reading(Struct, frozen=True, kw_only=True):
    """What the snapshot of one device says."""

    use: Use | None
    """None where the snapshot holds no failed request."""
    sentences: tuple[str, ...]
    steps: tuple[str, ...]


def read_memory(state: MemoryState, capacity: int | None = None) -> Reading:
    """What a snapshot says.

    Args:
        state: of one device.
        capacity: of the device, where something else tells it.
    """
    device = state.device
    made = _made_of(state)
    grown = _growing(state)
    if not device.ooms:
        growing = () if grown is None else (_growth_text(grown, state),)
        return Reading(use=None, sentences=(*made, *growing), steps=())
    oom = device.ooms[-1]
    asked = f"The request that failed was {size_text(oom.asked)}{_at(oom.frames)}"
    if oom.free is not None:
        asked += f", with {size_text(oom.free)} free on the device"
    use, said, steps = _why(state, grown, capacity)
    unsure = () if device.at_oom else ("The sums are those of the dump, which came long after the failed request.",)
    return Reading(use=use, sentences=(asked + ".", *said, *made, *unsure), steps=steps)


def _why(
    state: MemoryState, grown: Growth | None, capacity: int | None
) -> tuple[Use, tuple[str, ...], tuple[str, ...]]:
    device, oom = state.device, state.device.ooms[-1]
    free = oom.free or 0
    whole = device.reserved + free
    if capacity is not None and whole < capacity * (1 - 2 * MUCH) and oom.asked <= capacity - device.reserved:
        rest = share_text(capacity - whole, capacity)
        return (
            Use.ELSEWHERE,
            (f"{rest} of the device is held outside this process's allocator: by other processes or libraries.",),
            (
                "Run nvidia-smi on that host: a process left over, or another rank on the same GPU, is the usual reason.",
            ),
        )
    if grown is not None and state.several_steps:
        return (
            Use.GROWING,
            (_growth_text(grown, state),),
            (
                (
                    f"Look at {grown.place.line or grown.place.text}: something keeps what is made there (a list of losses or outputs "
                    "with their graph, a cache without bound); detach, or drop it after use."
                ),
            ),
        )
    if oom.asked >= LARGE * whole:
        return (
            Use.LARGE,
            (_large_text(oom.asked, whole),),
            ("Look at the sizes of the call that asked: batch, sequence length, or a wrong dimension.",),
        )
    if device.pool_inactive >= MUCH * whole and device.pool_inactive >= oom.asked - free > 0:
        return (
            Use.POOLS,
            (f"Private pools hold {share_text(device.pool_inactive, whole)} that is free in them, for nobody else.",),
            ("Let CUDA graphs share one pool, or capture fewer sizes.",),
        )
    if device.inactive >= MUCH * whole and device.inactive + free >= oom.asked > device.largest_inactive:
        return (
            Use.FRAGMENTED,
            (
                (
                    f"Fragmentation: {share_text(device.inactive, whole)} is free inside segments, the largest piece "
                    f"{size_text(device.largest_inactive)}."
                ),
            ),
            ("Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and avoid sizes that differ at every step.",),
        )
    kept = () if grown is None else (_growth_text(grown, state),)
    filled = f"Its own tensors hold {share_text(state.held, max(whole, 1))}"
    filled += (
        ": they fill the device." if state.held >= FILLS * whole else "; no other cause stands out in the snapshot."
    )
    return Use.OWN, (filled, *kept), ("Lower what the largest of these places need, or shard them.",)


def _large_text(asked: int, whole: int) -> str:
    if asked > whole:
        return f"That one request is larger than all that the process could have, which is {size_text(whole)}."
    return f"That one request is {100 * asked / max(whole, 1):.0f} % of the {size_text(whole)} that the process could have."


def _growing(state: MemoryState) -> Growth | None:
    """The place that grew all along, where it holds a good part of everything."""
    steady = [g for g in state.growth if g.steady and g.size >= MUCH * max(state.held, 1)]
    return steady[0] if steady else None


def _growth_text(grown: Growth, state: MemoryState) -> str:
    held = f"{grown.count} blocks, {share_text(grown.size, max(state.held, 1))} held"
    if state.several_steps:
        return f"{grown.place.text} keeps growing: {held}, asked for all along the recorded history and never freed."
    return (
        f"{grown.place.text} asked all along the recorded history and gave nothing back ({held}); no second step is seen in it, "
        "so this may be what one step needs."
    )


def _made_of(state: MemoryState) -> tuple[str, ...]:
    named = [s for s in state.shares if s.place.line or s.place.part]
    if not state.held:
        return ()
    said = []
    if named:
        parts = ", ".join(f"{place_text(s.place)} {size_text(s.size)}" for s in named[:SHOWN])
        whole = size_text(state.held)
        if named[0].size == state.held:
            said.append(f"All {whole} held by tensors were asked for at {place_text(named[0].place)}.")
        else:
            said.append(f"Of {whole} held by tensors the most was asked for at {parts}.")
    if not state.device.entries:
        said.append(
            "It holds no history: with torch.cuda.memory._record_memory_history() at the start it would tell what asked and when."
        )
    if state.nameless >= MUCH * state.held:
        said.append(
            f"{share_text(state.nameless, state.held)} has no stack: it was asked for before the recording began, or its entry is "
            "gone."
        )
    return tuple(said)


def place_text(place: Place) -> str:
    """A place with what it is part of."""
    return f"{place.text} [{place.part}]" if place.part and place.line else place.text


def _at(frames: object) -> str:
    from firstfault.analysis.state.memory import place_of

    if not isinstance(frames, tuple) or not frames:
        return ""
    place = place_of(frames)
    return f" at {place.text}" if place.line else ""
