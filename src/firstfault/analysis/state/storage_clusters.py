"""Which daemons are of one store, where the logs of several stores were given, and which store the failure is of.

Daemons are of one store where their logs lie in one folder, where their names differ by numbers only, where lines of one name
another's node id, or where both tell of one job. It tells stores apart; it weighs no trouble.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from firstfault.analysis.state.storage import DaemonState, StorageState
    from firstfault.model.evidence import SourceId

_IDS = lazy(r"[tp]\[([\w-]+)\]|(?:\(z\))?\b(\w{6,14})<=(\w{6,14})\b|\b(\w{6,14})=>(\w{6,14})\b")
_JOBS = lazy(r"\[(x-\w+|[\w-]{9,14})\](?=[-:/ ])")


def of_the_failure(
    state: StorageState, paths: Mapping[SourceId, str], asked: str | None, failed: Iterable[str]
) -> StorageState:
    """The store whose daemons the failure is of; all of them where there is one store, or nothing tells which.

    Args:
        state: the daemons of all stores.
        paths: of the sources.
        asked: node id or name of the daemon that the client's own error names.
        failed: the same of daemons that tell of a failed batch of that time.
    """
    parts = stores(state, paths)
    if len(parts) < 2:
        return state
    told = {n for n in (asked,) if n} or set(failed)
    meant = [p for p in parts if any({d.daemon.node, d.daemon.name} & told for d in p)]
    return replace(state, daemons=tuple(d for d in state.daemons if d in meant[0])) if len(meant) == 1 else state


def stores(state: StorageState, paths: Mapping[SourceId, str]) -> list[list[DaemonState]]:
    """The daemons, parted into stores."""
    keys = [_keys(d, paths) for d in state.daemons]
    parts: list[tuple[set[tuple[str, str]], list[DaemonState]]] = []
    for daemon, own in zip(state.daemons, keys, strict=True):
        joined = [p for p in parts if p[0] & own]
        parts = [p for p in parts if not p[0] & own]
        parts.append((own.union(*(p[0] for p in joined)), [*(d for p in joined for d in p[1]), daemon]))
    return [p[1] for p in parts]


def _keys(daemon: DaemonState, paths: Mapping[SourceId, str]) -> set[tuple[str, str]]:
    """What daemons of one store have in common."""
    texts = [m.event.text for m in daemon.lines]
    found = {("id", n) for t in texts for m in _IDS.finditer(t) for n in m.groups() if n}
    found |= {("job", m[1]) for t in texts for m in _JOBS.finditer(t)}
    found |= {("folder", _folder(paths[m.event.span.source])) for m in daemon.lines if m.event.span.source in paths}
    if daemon.daemon.node:
        found.add(("id", daemon.daemon.node))
    if daemon.daemon.name:
        found.add(("name", re.sub(r"[0-9]+", "#", daemon.daemon.name)))
    return found


def _folder(path: str) -> str:
    """The folder of the outermost file."""
    return path.split("!", 1)[0].rpartition("/")[0]
