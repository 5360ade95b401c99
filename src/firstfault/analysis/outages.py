"""Outages of the kernel's clients of shared file systems that cannot be why the job failed: over again, or long before it.

A client that waits for its server says so, and says when it answers again; what comes between is all that such lines explain.
An error that somebody met in reading or writing keeps them. Judges no errors of programs but by whether they can come of a read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.order import comparable, exact
from firstfault.analysis.suspects import nature_of
from firstfault.analysis.zones import shifted_into
from firstfault.model.lazy import lazy
from firstfault.model.words import Category, Mark, SourceKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.analysis.case import Case
    from firstfault.analysis.hangs import Hang
    from firstfault.model.evidence import Event, When

BRIEF = 120.0
"""Seconds: an outage that was over so soon held nobody up for long."""
RECOVERY = 60.0
"""Seconds after the end of an outage in which what waited for it goes on."""
LONG_BEFORE = 3600.0
"""Seconds before the failure from which on a client's complaint, never repeated since, has nothing to do with it."""
SHARE = 0.5
"""Part of a wait that an outage must have lasted to be its reason."""
_TARGETS = lazy(
    r"nfs: server (\S+)|([\w]+-(?:OST|MDT)[0-9a-fA-F]{4})|([\w.:-]+@(?:o2ib|tcp)\d*)|\b((?:mds|osd|mon)\d+)\b|(\S+ \[ID: \d+\])"
)
"""How such lines name the server that is meant."""
_OF_READING = lazy(
    r"(?i)time.?out|timed out|\beof\b|end of file|\bOSError|\bIOError|FileNotFound|FileExists|Permission|Directory|Errno|unpickl|decode|zip"
    r"|\btar|safetensor|corrupt|truncat|stale|\b(?:read|write|open|load|save)(?:ing)?\b|checkpoint|dataset|connection|killed|terminated"
)
"""Words of errors that a read or write which failed, hung or came short may bring about."""


def of_reading(event: Event) -> bool:
    """Whether an error may have come of a read or write; so may all that is no traceback with a message of its own."""
    exception = event.exception
    if exception is None or not exception.frames:
        return True
    return _OF_READING.search(f"{exception.kind}: {exception.message}") is not None


def no_reason(case: Case, hang: Hang | None, guilty: Sequence[Event], outage: Event) -> bool:
    """Whether an outage is none of the reasons for a failure.

    Args:
        case: of the attempt.
        hang: the wait of the job, where there was one.
        guilty: fatal errors; one that comes of outages by a stated relation keeps this one.
        outage: an event with mark `outage`.
    """
    if any(
        case.library.explains(outage.signature, e.signature) or nature_of(case, e).category is Category.STORAGE_IO
        for e in guilty
    ):
        return False
    over = _over(case, outage)
    lasted = None if over is None else _between(outage.when, over.when)
    wait = None if hang is None or hang.waited_ms is None else hang.waited_ms / 1000
    if lasted is not None and (lasted < SHARE * wait if wait is not None else hang is None and lasted <= BRIEF):
        return True
    began = _began(case, hang, outage.when)
    if began is None or outage.when.latest is None:
        return False
    until = outage.when.latest + LONG_BEFORE if over is None else over.when.latest
    if until is None or (over is not None and not comparable(outage.when, over.when)):
        return False
    ahead = began - until - (RECOVERY if over is not None else 0.0)
    if ahead < 0:
        return False
    # The machine's clock may be in another zone than the job's.
    reach = BRIEF + (wait or 0.0)
    return outage.when.zone is not None or not shifted_into(outage.when.latest - began, -LONG_BEFORE, reach)


def _over(case: Case, outage: Event) -> Event | None:
    """The line that closes an outage: the next of the same log that names the same server; None where it stayed open."""
    wanted = _targets(outage)
    for event in case.marked(Mark.OUTAGE_OVER):
        if event.span.source != outage.span.source or event.span.offset <= outage.span.offset:
            continue
        named = _targets(event)
        if not wanted or not named or wanted & named:
            return event
    return None


def _targets(event: Event) -> set[str]:
    return {name for found in _TARGETS.findall(event.text) for name in found if name}


def _between(a: When, b: When) -> float | None:
    if not (exact(a) and exact(b) and comparable(a, b)) or a.earliest is None or b.earliest is None:
        return None
    return b.earliest - a.earliest


def _began(case: Case, hang: Hang | None, clock: When) -> float | None:
    """The earliest time, on the clock of a line, at which the failure can have begun; None where it may be any."""
    begun: list[float] = []
    for event in case.events:
        if event.exception is None or case.kind_of.get(event.span.source) is not SourceKind.LOG:
            continue
        if event.when.earliest is None or not comparable(event.when, clock):
            return None
        begun.append(event.when.earliest)
    if hang is not None:
        if hang.began is None or not comparable(hang.first.when, clock):
            return None
        begun.append(hang.began)
    return min(begun, default=None)
