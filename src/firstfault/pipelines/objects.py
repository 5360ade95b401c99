"""Turns objects of a cluster's tools into the events that the same facts give as their text; infers nothing.

Pods are read as `kubectl describe` would have shown them, jobs as `scontrol show job`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.evidence import EARLIER, Event, Span, When
from firstfault.model.lazy import lazy
from firstfault.model.words import SourceKind
from firstfault.readers.events import NEW_RUN
from firstfault.readers.job_object import is_job_object, job_objects
from firstfault.readers.pod_object import MOST_BYTES, is_pod_object, pod_objects
from firstfault.readers.sniff import HEAD, TAIL
from firstfault.readers.who import join_fields
from firstfault.signatures.match import Matcher

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.model.evidence import Source, Who
    from firstfault.readers.clock import SourceClock
    from firstfault.readers.identity import SourceProfile
    from firstfault.readers.outline import Leaf
    from firstfault.readers.pod_object import Said
    from firstfault.readers.store import Store
    from firstfault.signatures.library import Library

ASSIGNED, EXIT = "kubernetes.pod_assigned", "kubernetes.exit_code"
JOB = "slurm.job_"
ROOMS = ("kubernetes.", "container.")
"""Domains of the signatures that know what the status of a pod says."""
_CODE = lazy(r"[1-9]\d{0,2}")


def holds_objects(store: Store, source: Source) -> bool:
    """Whether a source holds such objects, so that it is to be walked and not to be searched for lines."""
    if source.kind is not SourceKind.SCHEDULER:
        return False
    head = store.head(source.id, HEAD)
    return is_job_object(head) or is_pod_object(head, store.tail(source.id, TAIL))


def read_objects(
    store: Store, source: Source, library: Library, profile: SourceProfile, clock: SourceClock
) -> list[Event]:
    """Events of a file of pods or jobs, by place: where each runs, and what its status tells of its end."""
    data = store.read(source.id, 0, MOST_BYTES)
    if is_job_object(data[:HEAD]):
        found = _of_jobs(data, source, library, profile)
    else:
        found = _of_pods(data, source, library, profile, clock)
    return sorted(found, key=lambda e: (e.span, e.signature))


def _of_jobs(data: bytes, source: Source, library: Library, profile: SourceProfile) -> list[Event]:
    known = [(s.id, Matcher(s.spec)) for s in library.signatures if s.id.startswith(JOB)]
    events = []
    for job in job_objects(data):
        said = f"JobState={job.state} Reason={job.reason}".encode()
        for name, matcher in known:
            for match in matcher.find(said)[:1]:
                told = {**match.fields, "row_job": job.id}
                events.append(_event(name, source, job.line, profile.who, job.end, told))
    return events


def _of_pods(data: bytes, source: Source, library: Library, profile: SourceProfile, clock: SourceClock) -> list[Event]:
    known = [(s.id, Matcher(s.spec)) for s in library.signatures if s.id.startswith(ROOMS)]
    events: list[Event] = []
    for pod in pod_objects(data):
        if pod.node is not None:
            told = {**pod.facts, "pod": pod.name, "host": pod.node.value}
            events.append(_event(ASSIGNED, source, pod.node, profile.who, When(), told))
        for said in pod.said:
            when = When() if said.when is None else clock.event_time(said.when, said.leaf.offset, said.leaf.line)
            for name, fields in _meanings(said, known):
                told = {**fields, "pod": pod.name}
                if said.last and (said.restarted_after or 0.0) > NEW_RUN:
                    told[EARLIER] = "last state"
                events.append(_event(name, source, said.leaf, profile.who, when, told))
    return events


def _meanings(said: Said, known: Iterable[tuple[str, Matcher]]) -> list[tuple[str, dict[str, str]]]:
    """Signatures of one line, with its fields."""
    if said.leaf.path[-1] == "exitCode":
        return [(EXIT, {"exit_code": said.leaf.value})] if _CODE.fullmatch(said.leaf.value) else []
    return [(name, hits[0].fields) for name, matcher in known if (hits := matcher.find(said.leaf.text))]


def _event(  # noqa: PLR0917
    signature: str, source: Source, leaf: Leaf, who: Who, when: When, fields: dict[str, str]
) -> Event:
    indent = len(leaf.text) - len(leaf.text.lstrip())
    return Event(
        signature=signature,
        span=Span(source.id, leaf.offset + indent, len(leaf.text) - indent, leaf.line, indent + 1),
        text=leaf.text.decode("utf-8", "backslashreplace"),
        who=join_fields(who, fields, about=False),
        when=when,
        fields=fields,
    )
