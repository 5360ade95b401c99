"""What is told where no log of the job was given, only what tells of a moment: stacks, memory snapshots, dumps, kernel logs.

It is shown as it is, with the command that shows it whole. It decides nothing: a program can survive a request for memory that
failed, and whether the job ended by it only a log tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.answer import Answer
from firstfault.analysis.memory_reading import Reading, read_memory
from firstfault.analysis.state.memory import memory_state
from firstfault.analysis.state.stacks import Doing, event_of, stood
from firstfault.analysis.wording import frame_text
from firstfault.model.words import ActionKind, Category, SourceKind, Strength

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import Event
    from firstfault.model.memory import DeviceMemory, MemorySnapshot

NO_LOGS = {
    SourceKind.MEMORY_SNAPSHOT: "memory snapshots",
    SourceKind.FLIGHT_RECORDER: "flight-recorder dumps",
    SourceKind.STACKS: "stacks",
    SourceKind.BLACK_BOX: "the black box",
    SourceKind.AISTORE: "logs of storage daemons",
    SourceKind.KERNEL: "kernel logs",
    SourceKind.CONFIG: "settings and documents",
    SourceKind.BINARY: "files that are no text",
    SourceKind.EMPTY: "empty files",
}
"""What tells of a moment or of others, and not of how a job went and ended."""
NEED_ALL = ("the logs of every rank and node, from the start of the attempt to its end",)
SHOWN = 2
"""Processes, or devices, of which a sentence is said."""
COMMANDS = {
    SourceKind.STACKS: "All stacks as one tree: `firstfault stacks PATH`",
    SourceKind.MEMORY_SNAPSHOT: "What held the memory, place by place: `firstfault memory PATH`",
    SourceKind.FLIGHT_RECORDER: "Where every rank stood in every process group: `firstfault flight-recorder PATH`",
}
"""By kind, the view of it alone."""
_DOES = {
    Doing.DATA: "reads data", Doing.CHECKPOINT: "is in a checkpoint", Doing.LOCK: "is at a lock or a build",
    Doing.CODE: "is in its own code", Doing.DEBUGGER: "is at the prompt of a debugger", Doing.COLLECTIVE: "waits in a collective",
    Doing.RENDEZVOUS: "waits at the rendezvous", Doing.DEVICE: "waits for the GPU",
}  # fmt: skip


def answer_without_logs(scene: Scene) -> Answer:
    """The answer where none of the sources is a log of the job."""
    refused = [(s, d) for s in scene.case.seen.snapshots for d in s.devices if d.ooms]
    return _out_of_memory(scene, refused) if refused else _shown(scene)


def only_others(scene: Scene) -> bool:
    """Whether no source is a log of the job."""
    return set(scene.case.kind_of.values()) <= set(NO_LOGS)


def _told(scene: Scene) -> str:
    """That no log is here, and what is."""
    kinds = set(scene.case.kind_of.values())
    given = ", ".join(sorted(NO_LOGS[kind] for kind in kinds))
    only = f", only {given}" if given else ""
    return f"No log of the job was read{only}: whether and how it failed, its logs tell."


def _shown(scene: Scene) -> Answer:
    """Nothing failed in what is here: it is told where it stood."""
    stands = stood(scene.case.seen.stacks, scene.roster, scene.complete.expected)[:SHOWN]
    said = [f"{s.title} {_DOES[s.doing]}: {frame_text(s.frame.frame)}." for s in stands]
    if len(stands) == 1:
        said.append("One process alone tells nobody apart.")
    devices = [(s, d) for s in scene.case.seen.snapshots for d in s.devices]
    for snapshot, device in devices[:SHOWN]:
        held = " ".join(read_memory(memory_state(device)).sentences)
        said.append(f"{snapshot.path}, device {device.device}: no request failed. {held}".rstrip())
    return _open(scene, said, proof=tuple(event_of(s.dump, s.frame) for s in stands))


def _open(scene: Scene, said: Iterable[str], *, proof: tuple[Event, ...] = (), steps: Iterable[str] = ()) -> Answer:
    return Answer(
        question="nothing",
        failed=None,
        category=Category.UNKNOWN,
        strength=Strength.UNKNOWN,
        summary=" ".join((_told(scene), *(_start(s) for s in said))),
        proof=proof,
        action=ActionKind.COLLECT_MORE,
        steps=(*steps, "Give the logs of the job together with these files.", *_commands(scene)),
        collect=NEED_ALL,
    )


def _start(text: str) -> str:
    return text[:1].upper() + text[1:]


def _commands(scene: Scene) -> tuple[str, ...]:
    kinds = set(scene.case.kind_of.values())
    return tuple(told for kind, told in COMMANDS.items() if kind in kinds)


def _out_of_memory(scene: Scene, refused: list[tuple[MemorySnapshot, DeviceMemory]]) -> Answer:
    """Processes that asked for device memory and got none: what held it is told, and that a program can survive this."""
    readings = [_read(snapshot, device) for snapshot, device in refused[:SHOWN]]
    more = len(refused) - len(readings)
    said = [text for text, _ in readings]
    if more:
        said.append(f"{more} more device{'s' if more > 1 else ''} ran full too.")
    return _open(scene, said, steps=dict.fromkeys(step for _, reading in readings for step in reading.steps))


def _read(snapshot: MemorySnapshot, device: DeviceMemory) -> tuple[str, Reading]:
    """What one snapshot says of its device, with whose it is."""
    reading = read_memory(memory_state(device))
    whose = f"rank {snapshot.who.rank}" if snapshot.who.rank is not None else "a process"
    said = f"Device {device.device} of {whose} ran out of memory ({snapshot.path})."
    return " ".join((said, *reading.sentences)), reading
