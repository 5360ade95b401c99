"""Reads CUDA memory snapshots of torch 1.12 to 2.13, as pickle (`torch.cuda.memory._dump_snapshot`) or JSON, in one pass.

Of a pickle nothing is run and only sums are kept (see `plain_pickle` and `memory_fold`); JSON has to be held as a whole and
is therefore read up to a size. What explains a failure is not said here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firstfault.model.memory import MemorySnapshot
from firstfault.readers.memory_fold import SnapshotFolder
from firstfault.readers.plain_pickle import UnreadableStreamError, read_stream
from firstfault.readers.sourcename import read_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from firstfault.model.evidence import SourceId

BLOCK = 4 << 20
LARGEST = 8 << 30
"""Bytes of a pickle beyond which it is not read: that takes minutes."""
LARGEST_JSON = 256 << 20
"""Bytes of JSON beyond which it is not read: its values are held all at once, ten bytes for each of the file."""


class UnreadableSnapshotError(ValueError):
    """The bytes are no memory snapshot that can be used; its text says why."""


def read_snapshot(read: Callable[[int, int], bytes], size: int, source: SourceId, path: str) -> MemorySnapshot:
    """The snapshot of one file.

    Args:
        read: gives bytes from an offset, of a length; fewer at the end.
        size: bytes of the file.
        source: its id.
        path: as shown; the rank is told by it alone.

    Raises:
        UnreadableSnapshotError: it is damaged, too large, or no snapshot.
    """
    folder = SnapshotFolder()
    notes: list[str] = []
    if read(0, 1) == b"\x80":
        if size > LARGEST:
            raise UnreadableSnapshotError(f"larger than {LARGEST >> 30} GiB")
        try:
            whole = read_stream(_blocks(read, size), folder)
        except UnreadableStreamError as error:
            if not folder.traces or not folder.segments_seen:
                raise UnreadableSnapshotError(str(error)) from error
            # Segments stand before the history: they are whole where the history has begun.
            whole, notes = None, [f"the recorded history is lost: {error}"]
    else:
        whole = _json(read, size, folder)
    traces = whole.get("device_traces") if type(whole) is dict else None
    devices = folder.result(traces)
    if not devices and not folder.segments_seen and type(traces) is not list:
        raise UnreadableSnapshotError("it holds neither segments nor a recorded history")
    if not any(device.segments or device.entries for device in devices):
        raise UnreadableSnapshotError("it is empty: its process had used no device when it was taken")
    if folder.sizeless and not any(device.reserved for device in devices):
        raise UnreadableSnapshotError("its segments and requests hold no sizes that can be true")
    settings = whole.get("allocator_settings") if type(whole) is dict else None
    return MemorySnapshot(
        source=source,
        path=path,
        who=read_name(path).who,
        devices=devices,
        settings=_settings(settings),
        notes=tuple(notes + _notes(folder)),
    )


def _blocks(read: Callable[[int, int], bytes], size: int) -> Iterator[bytes]:
    for at in range(0, size, BLOCK):
        yield read(at, BLOCK)


def _json(read: Callable[[int, int], bytes], size: int, folder: SnapshotFolder) -> Any:
    """The value of JSON, its maps handed to the folder from the inside out as a pickle's are."""
    import msgspec

    if size > LARGEST_JSON:
        raise UnreadableSnapshotError(
            f"JSON larger than {LARGEST_JSON >> 20} MiB, which cannot be read in bounded memory: give the pickle"
        )
    try:
        return _folded(msgspec.json.decode(read(0, size)), None, folder)
    except RecursionError as error:
        raise UnreadableSnapshotError("its values are nested too deep") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableSnapshotError(f"it is damaged or cut off: {str(error)[:120]}") from error


def _folded(value: Any, parent: list[Any] | None, folder: SnapshotFolder) -> Any:
    from firstfault.readers.plain_pickle import GONE

    if type(value) is list:
        inside = [_folded(v, value, folder) for v in value]
        value[:] = [v for v in inside if v is not GONE]
        return value
    if type(value) is dict:
        for key, held in value.items():
            value[key] = _folded(held, None, folder)
        return folder.finished(value, parent)
    return value


def _settings(found: Any) -> str:
    if type(found) is not dict:
        return ""
    given = found.get("PYTORCH_CUDA_ALLOC_CONF") or found.get("PYTORCH_ALLOC_CONF")
    return str(given)[:400] if given else ""


def _notes(folder: SnapshotFolder) -> list[str]:
    notes = []
    if folder.stacks.beyond:
        notes.append(f"stacks beyond the first {len(folder.stacks.frames):,} are summed up without their frames")
    if folder.sizeless:
        notes.append(f"segments or failed requests without a size that can be true, left out: {folder.sizeless:,}")
    return notes
