"""What a cluster says of the pods of an object store: facts of the store, whose own logs tell them, and no fault of the job's pods.

Only names decide: a pod is the store's where a log of one of its daemons carries the same name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.lazy import lazy
from firstfault.model.words import SourceKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.model.evidence import Event, Source

_POD = lazy(r"(?<![\w-])((?:[a-z0-9]+-)*(?:target|proxy)-\d+)(?![\w-])")
_PLATFORMS = ("kubernetes.", "container.")


def without_store_pods(events: tuple[Event, ...], sources: Iterable[Source]) -> tuple[Event, ...]:
    """The events without those that a cluster tells of the pods of the store whose daemons' logs are here."""
    names = {name for s in sources if s.kind is SourceKind.AISTORE for name in _POD.findall(s.path)}
    if not names:
        return events
    return tuple(e for e in events if not (e.signature.startswith(_PLATFORMS) and e.fields.get("pod") in names))
