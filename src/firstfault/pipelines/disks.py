"""Finds what the logs show of disks where one had no room: tables of `df` and `mount`, and the path last written to.

Bounded effort; what follows from it is said by the analysis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.disks import asks_for_disk, heed_disks, path_of
from firstfault.model.lazy import lazy
from firstfault.readers.disks import file_systems

if TYPE_CHECKING:
    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import Event
    from firstfault.readers.lines import TextStore

REACH = 32 * 1024
"""Bytes before an error in which the path last written to is looked for."""
_WRITES = lazy(
    rb"(?i)\b(?:sav(?:e|ing|ed)|writ(?:e|ing)|dump(?:ing)?|upload(?:ing)?|cach(?:e|ing)|download(?:ing)?|checkpoint\w*)\b"
    rb"[^\n/]{0,80}[\s'\"`=:](/[\w.@+-]+(?:/[\w.@+=-]+)+)"
)


def with_disks(scene: Scene, answer: Answer, store: TextStore) -> Answer:
    """The answer with the file system named that had no room, as far as the logs show it."""
    if not asks_for_disk(answer):
        return answer
    heads = [e for e in scene.case.events if e.signature == "storage.disk_table"]
    trigger = answer.trigger
    assert trigger is not None
    written = "" if path_of(answer) else _written(store, trigger)
    return heed_disks(scene, answer, file_systems(store, heads), written)


def _written(store: TextStore, trigger: Event) -> str:
    """The path that was last said to be written to before an error, in the same log."""
    start = max(0, trigger.span.offset - REACH)
    found = _WRITES.findall(store.read(trigger.span.source, start, trigger.span.offset - start))
    return found[-1].decode() if found else ""
