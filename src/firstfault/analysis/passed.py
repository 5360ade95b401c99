"""Words of an error that ended nothing: quoted inside another program's sentence, or in a log that went on and shows no failure.

A log of a job that trains an agent, evaluates code or skips bad samples holds such words as its data. Judges the place of
the words in their line and what stands behind them; it knows no kind of error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.suspects import MACHINES, OWN_WORD
from firstfault.model.lazy import lazy
from firstfault.model.words import Mark, SourceKind

if TYPE_CHECKING:
    from firstfault.analysis.case import Case
    from firstfault.model.evidence import Event

_DAEMON = lazy(r"\b(?:slurmstepd|srun|slurmctld|slurmd|kernel|NVRM):")
"""How lines of the kernel and of SLURM begin, behind what a collector puts in front of them."""
_COLLECTOR = lazy(
    r"(?i)^\W*(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mon|tue|wed|thu|fri|sat|sun|info|warn(?:ing)?|error|err|stderr|stdout|[a-z]*utc|f|p|kern)\W*$"
)
"""Words without a digit that collectors put in front of a line: a day, a level, a stream."""
_RECORD = lazy(
    r"^\s*\{[^\n]*[\"'](?:message|MESSAGE|msg|log|line|textPayload|body|event|record)[\"'] ?: ?[\"']|\b(?:msg|message|log)=[\"']?"
)
"""What a collector that keeps records puts in front of a line: the fields before it, and the name of the one that holds it."""
_FIELD = lazy(r"^[\w.@-]{1,40}=")
_DIGIT = lazy(r"\d")
FOREIGN = 1
"""Words without a digit before a line's own begin that may be a host, a unit or a stream; more are a sentence."""


_QUOTABLE = ("kernel.", "slurm.")


def may_be_quoted(case: Case) -> frozenset[str]:
    """Signatures of lines that `quoted` looks at."""
    return frozenset(s for s in case.signatures if s.startswith(_QUOTABLE))


def quoted(case: Case, event: Event) -> bool:
    """Whether the words of the kernel or of SLURM stand inside another program's sentence in a job's log."""
    if not event.signature.startswith(_QUOTABLE) or case.kind_of.get(event.span.source) is not SourceKind.LOG:
        return False
    found = _DAEMON.search(event.text)
    return found is not None and _sentence(event.text[: found.start()])


def _sentence(before: str) -> bool:
    """Whether what stands before a line's own words is more than what collectors put there."""
    record = _RECORD.search(before)
    said = before if record is None else before[record.end() :]
    words = [w for w in said.split() if not (_DIGIT.search(w) or _COLLECTOR.match(w) or _FIELD.match(w))]
    return len([w for w in words if any(c.isalpha() for c in w)]) > FOREIGN


def stepped_past(case: Case, event: Event) -> bool:
    """Whether a program's plain line about an error has a further step behind it: alone it is no sign that the job failed.

    Runtimes and machines are believed: theirs is no talk. So is a traceback, which is a program's last word. Of a line with
    a rank, only that rank's own step counts.
    """
    if event.exception is not None and event.exception.frames:
        return False
    room = event.signature.split(".", 1)[0]
    if room in MACHINES or room in OWN_WORD - {"python", "process"}:
        return False
    if case.has(event, Mark.RUNTIME_WORD) and not _sentence(event.text[: max(0, _start(event))]):
        return False
    track = case.tracks.get(event.span.source)
    return track is not None and track.stepped_after(event.span.offset, event.who.rank)


_KIND = lazy(r"[\w.]*(?:Error|Exception|Fault)\b|CUDA|HIP|RESOURCE_EXHAUSTED")


def _start(event: Event) -> int:
    found = _KIND.search(event.text)
    return 0 if found is None else found.start()


STARTED = "kubernetes.container_started"
_UNTIL_START = frozenset(
    {"kubernetes.container_failed", "kubernetes.image_pull", "kubernetes.unschedulable", "storage.mount_failed"}
)
"""Signatures of what keeps a pod from starting, which the kubelet and the scheduler try again by themselves."""
_POD = lazy(r"\bpods?/([\w.-]+)")


def came_up(case: Case, event: Event) -> bool:
    """Whether a pod that could not be started yet was started afterwards, by a later event of the same list."""
    if event.signature not in _UNTIL_START:
        return False
    pod = _pod(event)
    return any(
        e.span.source == event.span.source and e.span.offset > event.span.offset and _pod(e) == pod
        for e in case.of({STARTED})
    )


def _pod(event: Event) -> str | None:
    """The pod of a line of `kubectl get events`; None in a description of one pod, which names it elsewhere."""
    found = _POD.search(event.text)
    return None if found is None else found[1]
