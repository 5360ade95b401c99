"""What the object of a pod says (`kubectl get pod -o yaml` or `-o json`): its node, how its containers ended, its conditions.

Only places that tell of the past are looked at: what a pod tolerates, mounts or was told to run is no sign of a fault.
Names no meaning: that is what signatures are for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firstfault.model.lazy import lazy
from firstfault.readers.clock import between
from firstfault.readers.outline import leaves
from firstfault.readers.stamps import build_stamp, match_stamp

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from firstfault.model.place import Stamp
    from firstfault.readers.outline import Leaf, Path

MOST_BYTES = 32 << 20
"""Of a file of such objects that are read."""
_HEAD = lazy(rb'(?m)^ {0,12}(?:- )?(?:kind: Pod\s*$|"kind": ?"Pod",?\s*$)')
_STATUS = lazy(rb'(?m)^ {0,12}(?:"status": ?\{|status:\s*$)')
_ONE_LINE = lazy(rb'^\s*\{[^\n]{0,4000}"kind":"(?:Pod|List|PodList)"[^\n]*"containerStatuses"')
_PLACE = {
    "RANK": "pod_rank",
    "WORLD_SIZE": "pod_world",
    "PET_NPROC_PER_NODE": "pod_procs",
    "NPROC_PER_NODE": "pod_procs",
    "LOCAL_WORLD_SIZE": "pod_procs",
}
"""Of a container's environment, what tells its processes' place."""
_TOLD = frozenset({"reason", "message"})


class Said(NamedTuple):
    """One line of the status of a pod that tells how something went."""

    leaf: Leaf
    when: Stamp | None
    """When it came about, by the lines beside it."""
    last: bool
    """Whether it is of a run of a container before the present one."""
    restarted_after: float | None
    """Seconds from the end of that run to the start of the present one; None where not both are told."""


class PodObject(NamedTuple):
    """One pod."""

    name: str
    node: Leaf | None
    """The line that names its node; None where it has none yet."""
    facts: dict[str, str]
    """`gpus`, `pod_rank`, `pod_world`, `pod_procs`, as far as they are told."""
    said: tuple[Said, ...]


def is_pod_object(head: bytes, tail: bytes) -> bool:
    """Whether a file holds objects of pods with their status, a value in each line.

    Args:
        head: its first bytes.
        tail: its last bytes.
    """
    if b"kind: Pod" not in head and b'"Pod"' not in head:
        return False  # looked for first, because it is cheap and every file is asked
    return _HEAD.search(head) is not None and (_STATUS.search(head) is not None or _STATUS.search(tail) is not None)


def is_packed_object(head: bytes) -> bool:
    """Whether a file holds such objects all in one line, which nothing can be cited from."""
    return head.startswith(b"{") and _ONE_LINE.match(head) is not None


def pod_objects(data: bytes) -> Iterator[PodObject]:
    """The pods of a file, in its order."""
    pods: dict[Path, dict[Path, Leaf]] = {}
    for leaf in leaves(data):
        cut = 2 if leaf.path[0] == "items" else 1 if leaf.path[0].startswith("#") else 0
        if not _told(leaf.path[cut:]):
            continue
        pods.setdefault(leaf.path[:cut], {}).setdefault(leaf.path[cut:], leaf)
    for own in pods.values():
        kind, name = own.get(("kind",)), own.get(("metadata", "name"))
        if kind is not None and kind.value == "Pod" and name is not None:
            yield PodObject(name.value, own.get(("spec", "nodeName")), _facts(own), tuple(_said(own)))


def _told(path: Path) -> bool:
    """Whether a value is looked at; the rest of thousands of pods is not held."""
    match path:
        case ("kind",) | ("metadata", "name") | ("spec", "nodeName") | ("status", *_):
            return True
        case ("spec", "containers", _, "env" | "resources", *_):
            return True
    return False


def _facts(own: Mapping[Path, Leaf]) -> dict[str, str]:
    found: dict[str, str] = {}
    for path, leaf in own.items():
        if path[:2] != ("spec", "containers"):
            continue
        if path[3:] == ("resources", "limits", "nvidia.com/gpu"):
            found.setdefault("gpus", leaf.value)
        if len(path) == 6 and path[3] == "env" and path[5] == "name" and leaf.value in _PLACE:
            value = own.get((*path[:5], "value"))
            if value is not None:
                found.setdefault(_PLACE[leaf.value], value.value)
    return found


def _said(own: Mapping[Path, Leaf]) -> Iterator[Said]:
    for path, leaf in own.items():
        if path[0] != "status" or len(path) < 2:
            continue
        if len(path) == 2 and path[1] in _TOLD:
            yield Said(leaf, None, last=False, restarted_after=None)
        elif path[1] == "conditions" and len(path) == 4 and path[3] in {"type", *_TOLD}:
            held = own.get((*path[:3], "status"))
            kind = own.get((*path[:3], "type"))
            # `DisruptionTarget` is bad news where it holds, every other condition where it does not.
            news = (
                held is not None and kind is not None and (held.value == "True") is (kind.value == "DisruptionTarget")
            )
            if news:
                yield Said(leaf, _stamp(own, (*path[:3], "lastTransitionTime")), last=False, restarted_after=None)
        elif path[1] in {"containerStatuses", "initContainerStatuses"} and len(path) == 6:
            yield from _of_container(own, path, leaf)


def _of_container(own: Mapping[Path, Leaf], path: Path, leaf: Leaf) -> Iterator[Said]:
    """A line of `state` or `lastState` of one container."""
    state, how, what = path[3:]
    if state not in {"state", "lastState"} or how not in {"waiting", "terminated"}:
        return
    if what in _TOLD or (what == "exitCode" and how == "terminated"):
        end = _stamp(own, (*path[:5], "finishedAt"))
        begin = _stamp(own, (*path[:3], "state", "running", "startedAt"))
        last = state == "lastState"
        gap = None if not last or end is None or begin is None else between(end, begin)
        yield Said(leaf, end, last=last, restarted_after=gap)


def _stamp(own: Mapping[Path, Leaf], path: Path) -> Stamp | None:
    leaf = own.get(path)
    seen = None if leaf is None else match_stamp(leaf.value.encode(), 0)
    return None if seen is None else build_stamp(*seen)
