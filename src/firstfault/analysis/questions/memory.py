"""What explains an out-of-memory: the figures of its message, and the memory snapshot of that process where one is there.

Adds sentences and steps to an answer that others gave; must not choose the first fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.memory_reading import read_memory
from firstfault.analysis.oom_message import Account, Figures, Kind, account, figures, share_text
from firstfault.analysis.oom_refusals import refusal
from firstfault.analysis.state.memory import memory_state
from firstfault.analysis.wording import size_text
from firstfault.model.words import Mark

if TYPE_CHECKING:
    from firstfault.analysis.scene import Scene
    from firstfault.analysis.suspects import Suspect
    from firstfault.model.memory import DeviceMemory, MemorySnapshot

MESSAGES = "gpu.out_of_memory"
"""Signature of the allocators' message that gives figures."""
CLONES = "gpu.state_clone_failed"
"""Signature of FSDP's warning that a copy of the state did not fit."""
REFUSALS = frozenset({"gpu.xla_out_of_memory", "gpu.memory_taken", "gpu.kv_cache_too_small"})
"""Signatures of refusals whose figures are of other kinds."""


MORE = 1.15
"""Times what others hold from which on a rank holds more than they."""


class Explained(Struct, frozen=True, kw_only=True):
    """What is added to the answer."""

    sentences: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    settled: bool = False
    """Whether a snapshot answers already what would else be asked for."""
    shared: bool = False
    """Whether what ran full is no rank's own: processes of this job filled its device, or another device was full as well."""


TWO_DECIMALS = 0.006
"""Share by which a size with two decimals may be off."""
SEGMENT, ROUNDED = 20 << 20, 2 << 20
"""Bytes of the segment of small requests, and to which larger ones are rounded, by PyTorch's caching allocator."""


def explained(scene: Scene, root: Suspect) -> Explained:
    """What explains the out-of-memory that is the root; nothing where it is something else or nothing tells."""
    if root.first.signature in REFUSALS:
        refused = refusal(root.first.text)
        return Explained() if refused is None else Explained(sentences=(refused.sentence,), steps=(refused.step,))
    if root.first.signature != MESSAGES:
        return Explained()
    known = figures(root.first.text)
    told = None if known is None else account(known)
    ours = None if known is None or told is None or told.kind is not Kind.OTHERS else _of_this_job(scene, known)
    told = ours or told
    shared = ours is not None or _others_refused(scene, root)
    sentences = [] if told is None else [told.sentence]
    steps = [] if told is None else [told.step]
    chosen = _snapshot_of(scene, root)
    if chosen is None:
        return Explained(sentences=tuple(sentences), steps=tuple(steps), shared=shared)
    snapshot, device = chosen
    reading = read_memory(memory_state(device), None if known is None else known.capacity)
    # The message above already tells of the request: what held the memory comes first.
    held = reading.sentences[1:] + reading.sentences[:1]
    sentences.append(f"Its memory snapshot ({snapshot.path}): {' '.join(held)}")
    sentences += _beside_others(scene, snapshot, device)
    return Explained(sentences=tuple(sentences), steps=(*reading.steps, *steps), settled=True, shared=shared)


def _others_refused(scene: Scene, root: Suspect) -> bool:
    """Whether another device of the job was full too, though its program went on: then the limit is not one rank's."""
    own = {e.fields.get("device") for e in root.events} - {None, ""}
    others = {e.fields.get("device") for e in scene.case.of({MESSAGES, CLONES})} - {None, ""}
    return bool(own) and not others <= own


def _of_this_job(scene: Scene, known: Figures) -> Account | None:
    """What explains it where most of what others hold is held by processes of this job; None where they are not known as such."""
    job = _processes(scene)
    own = [(pid, size) for pid, size in known.others if pid in job]
    held, whole = sum(size for _, size in own), known.capacity
    if not own or whole is None or 2 * held <= sum(size for _, size in known.others):
        return None
    names = ", ".join(str(pid) for pid, _ in own[:8])
    return Account(
        kind=Kind.OTHERS,
        sentence=f"Other processes of this job (PID {names}) hold {share_text(held, whole)} of the same device: without them the "
        "request would have fitted, so the code puts what is theirs on one GPU.",
        step="Let every process use its own GPU only: set the device before anything is put on one (torch.cuda.set_device, or "
        "CUDA_VISIBLE_DEVICES for each process), and load checkpoints with map_location (the CPU, or the process's own GPU).",
    )


def _processes(scene: Scene) -> set[int]:
    """Ids of the processes of this job, by lines that state them: who speaks as a rank, whom a launcher starts, ends or lists."""
    found = {e.who.pid for e in scene.events if e.who.pid is not None and scene.roster.rank(e) is not None}
    found |= {f.who.pid for f in scene.failures if f.who.pid is not None}
    for event in scene.marked(Mark.IDENTITY, Mark.CHILD, Mark.DEATH):
        pid = event.fields.get("pid", "")
        if pid.isdecimal():
            found.add(int(pid))
    return found


def _beside_others(scene: Scene, snapshot: MemorySnapshot, device: DeviceMemory) -> list[str]:
    """How this rank's tensors compare with those in the snapshots of other ranks, which did not run out."""
    others = [
        memory_state(d).held
        for s in scene.case.seen.snapshots
        if s.who.rank is not None and s.who.rank != snapshot.who.rank
        for d in s.devices
        if not d.ooms
    ]
    held = memory_state(device).held
    if snapshot.who.rank is None or not held or not others or not max(others):
        return []
    least, most = size_text(min(others)), size_text(max(others))
    spread = most if least == most else f"{least} to {most}"
    who = "that of another rank" if len(others) == 1 else f"those of {len(others)} other ranks"
    if held > MORE * max(others):
        return [f"Its tensors hold {size_text(held)}, {who} {spread}: this rank alone needed more."]
    if held * MORE < min(others):
        return [f"Its tensors hold {size_text(held)}, {who} {spread}: not its tensors set it apart, but its device."]
    return [f"Its tensors hold {size_text(held)}, {who} {spread}: by its tensors it is like the others."]


def _may_be(told: int, asked: int) -> bool:
    """Whether a message's request may be the one that a snapshot shows as failed; both in bytes.

    The message tells what the allocator would have taken from the device for it, to two decimals: small requests share a
    segment of 20 MiB, larger ones are rounded up to 2 MiB.
    """
    cut = told * TWO_DECIMALS
    return asked - cut <= told <= max(asked, SEGMENT) + ROUNDED + cut


def _snapshot_of(scene: Scene, root: Suspect) -> tuple[MemorySnapshot, DeviceMemory] | None:
    """The snapshot of the process that ran out, and the device on which a request failed; None where it cannot be told.

    By the rank of the first line; a snapshot whose name tells no rank counts only where it is the one with a failed request.
    """
    known = figures(root.first.text)
    failed = [
        (s, d)
        for s in scene.case.seen.snapshots
        for d in s.devices
        if d.ooms and (known is None or any(_may_be(known.asked, oom.asked) for oom in d.ooms))
    ]
    rank = root.first.who.rank
    if rank is None and len(root.ranks) == 1:
        rank = root.ranks[0]
    own = [(s, d) for s, d in failed if rank is not None and s.who.rank == rank]
    if len(own) == 1:
        return own[0]
    if len(failed) == 1 and failed[0][0].who.rank is None and len(root.events) == 1:
        return failed[0]
    return None
