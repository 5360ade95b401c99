"""Entries of flight-recorder dumps in words, and where they stand in the bytes of their file; judges nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.lazy import lazy
from firstfault.model.recorder import Stage

if TYPE_CHECKING:
    from firstfault.model.evidence import Frame
    from firstfault.model.recorder import Call, GroupLog, RankDump

_INSTALLED = lazy(
    r"[/\\](?:site|dist)-packages[/\\]|[/\\]lib(?:64)?[/\\]python\d|[/\\]torch[/\\](?:distributed|nn|autograd|utils|_\w+)[/\\]"
    r"|^<|\.(?:cpp|h|hpp|c)$|^\?\?"
)


def entry_text(dump: RankDump, log: GroupLog, at: int) -> str:
    """One entry in words, as evidence shows it."""
    call = dump.calls[log.call[at]]
    number = "p2p" if log.p2p else "collective"
    state = "completed" if log.stage[at] == Stage.COMPLETED else "started" if log.started[at] else "scheduled"
    state = "retired" if log.stage[at] == Stage.RETIRED else state
    sizes = f" {_shape(call.input_sizes)} {' '.join(dict.fromkeys(call.input_dtypes))}".rstrip()
    peer = f" {call.own}{'->' if call.op == 'send' else '<-'}{call.peer}" if call.peer is not None else ""
    text = f"{_of(dump)}entry {log.entry[at]}: {call.op}{peer}{sizes}, {number} {log.seq[at]} of {_group(log.group, log.desc)}, {state}"
    frame = call_frame(dump, call)
    return text + (f", at {frame.file}:{frame.line} ({frame.function})" if frame is not None else "")


def counters_text(dump: RankDump, group: str) -> str:
    """What a dump says of a group without showing an entry of it."""
    desc = next((g.desc for g in dump.groups if g.name == group), "")
    text = f"{_of(dump)}no unfinished entry of {_group(group, desc)}"
    row = dump.counters.get(group)
    return text if row is None else f"{text}; last enqueued {row.enqueued}, last completed {row.completed}"


def _of(dump: RankDump) -> str:
    return "" if dump.rank is None else f"rank {dump.rank} "


def _group(name: str, desc: str) -> str:
    return f"group {name}" + (f" ({desc})" if desc else "")


def _shape(sizes: tuple[tuple[int, ...], ...]) -> str:
    shown = " ".join("[" + ", ".join(map(str, s[:8])) + "]" for s in sizes[:4])
    return shown + (" …" if len(sizes) > 4 else "")


def call_frame(dump: RankDump, call: Call) -> Frame | None:
    """The innermost frame of a call that is the user's own code; None where no stack is there."""
    frames = dump.frames[call.frames]
    return next((f for f in frames if not _INSTALLED.search(f.file)), frames[0] if frames else None)


def entry_place(raw: bytes, dump: RankDump, index: int | None) -> tuple[int, int]:
    """Where an entry stands in the bytes of its file: offset and length of its time stamp.

    Args:
        raw: the whole file.
        dump: what was read from it.
        index: the entry's index in the file; None for the file as a whole.

    Returns:
        The start of the file where the place cannot be told.
    """
    for log in dump.logs:
        for at, entry in enumerate(log.entry):
            if entry == index and log.created[at]:
                written = str(log.created[at]).encode()
                if raw[:64].lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in {b"{", b"["}:
                    size = log.created[at].bit_length() // 8 + 1
                    written = bytes((0x8A, size)) + log.created[at].to_bytes(size, "little")
                found = raw.find(written)
                return (found, len(written)) if found >= 0 else (0, min(len(raw), 64))
    return 0, min(len(raw), 64)
