"""What the scheduler's own record in the evidence says of the job's end: a row of accounting, a report, an exit status.

A pure fold. Takes only what is stated of this job: tables list other jobs of a user too. Draws no conclusion from it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, structs

from firstfault.analysis.case import position
from firstfault.analysis.job_state import COMPLETED_STATES, OPEN_STATES, known_state
from firstfault.model.evidence import Event
from firstfault.model.lazy import lazy
from firstfault.model.words import SourceKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from firstfault.analysis.case import Case
    from firstfault.model.evidence import SourceId

STATE, EXIT = "job_state", "job_exit"
"""Job facts of signatures that state how the job ended; a site's own may have them too."""
NAMED, ROW = "slurm.job_named", "slurm.job_row"
STEP, GOOD = "slurm.step_row", frozenset({"slurm.job_completed", ROW})
BELOW = 6
"""Lines below the head of a job within which its state stands."""
_OUTPUT = lazy(r"^slurm-(\d{1,12})(?:_(\d{1,8}))?(?=[-_.])")
"""The name that SLURM gives an output file: job, and task of an array."""
_NUMBER = lazy(r"(?<![\d.])\d{4,12}(?![\d])")
_CELLS = lazy(
    r"^\s*\d{4,12}(?:_\d+|\+\d+)?[ |,].*[ |,][A-Z_]{6,}\+?(?: by \d+)?(?: *[|,] *| +)\d{1,3}:\d{1,3}(?:[ |,]|\s*$)"
)
"""A job's number and its state beside its exit code: a row of a table even without the head of one."""
_EXIT = lazy(r"(-?\d{1,5})(?::(\d{1,3}))?", re.ASCII)


class Record(Struct, frozen=True):
    """How the job ended, by the scheduler's record."""

    state: str | None
    exit_code: int | None
    """Minus the signal number where a signal ended the job; None where no failing status is stated."""
    event: Event
    """The line that says so."""


class _Job(NamedTuple):
    number: str
    task: str | None


def record(case: Case, events: Iterable[Event]) -> Record | None:
    """What the record says of the end; None where there is none, or where two records contradict each other.

    Of several rows of one job in one table the last counts: a job that was put back into the queue has a row for each start.

    Args:
        case: knows the signatures.
        events: of one attempt, without the rows of other jobs.
    """
    last: dict[tuple[SourceId, str], tuple[Event, str | None, int | None]] = {}
    specs = case.library.by_id
    rows = {s for s in case.signatures if s in specs and (STATE in specs[s].facts or EXIT in specs[s].facts)}
    for event in sorted((e for e in events if e.signature in rows), key=position):
        spec = case.spec(event)
        if spec is None or not (STATE in spec.facts or EXIT in spec.facts) or not _is_row(case, event):
            continue
        state, code = (
            known_state(_fact(event, spec.facts.get(STATE)) or ""),
            _status(_fact(event, spec.facts.get(EXIT))),
        )
        if state in OPEN_STATES:
            state = code = None
        if state in COMPLETED_STATES:
            code = None
        if state is not None or code is not None:
            last[event.span.source, STATE if state is not None else EXIT] = (event, state, code)
    if not last:
        return None
    states = [s for _, s, _ in last.values() if s is not None]
    codes = [c for _, _, c in last.values() if c is not None]
    good = [s for s in states if s in COMPLETED_STATES]
    if good and (codes or len(good) < len(states)):
        return None
    event = next((e for e, s, _ in last.values() if s is not None), next(iter(last.values()))[0])
    return Record(states[-1] if states else None, codes[0] if codes else None, event)


def _is_row(case: Case, event: Event) -> bool:
    """Whether what looks like a row is one: in a table of the scheduler, or by its cells; a log may count failed tests too."""
    if event.signature != ROW or case.kind_of.get(event.span.source) is SourceKind.SCHEDULER:
        return True
    return _CELLS.match(event.text) is not None


def of_this_job(events: Sequence[Event], names: Mapping[SourceId, str]) -> tuple[Event, ...]:
    """Events without the rows of a scheduler's tables that are of other jobs than this one, or of nobody knows which.

    A table of one job is this one's, unless the logs state another. Of several, the job counts whose number the logs or
    the names of their files state.

    Args:
        events: of one attempt.
        names: paths of the sources of that attempt.
    """
    events = _headed(events)
    rows: dict[SourceId, set[_Job]] = {}
    for event in events:
        if "row_job" in event.fields and (job := _row(event)) is not None:
            rows.setdefault(event.span.source, set()).add(job)
    if not rows:
        return tuple(events)
    files = [name.rsplit("/", 1)[-1].rsplit("!", 1)[-1] for source, name in names.items() if source not in rows]
    own = {j for e in events if (j := e.fields.get("job_id")) is not None and "row_job" not in e.fields}
    outputs = [m for f in files if (m := _OUTPUT.match(f)) is not None]
    tasks = {(m[1], m[2]) for m in outputs if m[2] is not None}
    own |= {m[1] for m in outputs}
    numbers = {n for f in files for n in _NUMBER.findall(f)}
    kept = {source: _own_rows(jobs, own, tasks, numbers) for source, jobs in rows.items()}
    mine = tuple(e for e in events if (job := _row(e)) is None or job in kept[e.span.source])
    hidden = _hidden(mine)
    return tuple(e for e in mine if not (e.signature in GOOD and (e.span.source, _row(e)) in hidden and _good(e)))


def _hidden(events: Sequence[Event]) -> set[tuple[SourceId, _Job | None]]:
    """Jobs whose last step failed: their script did more after it, so that its good status says nothing of the training."""
    last: dict[tuple[SourceId, _Job | None], Event] = {}
    for event in sorted(events, key=lambda e: e.span.line):
        if event.signature == STEP:
            last[event.span.source, _row(event)] = event
    return {key for key, event in last.items() if event.fields.get("step_state") not in COMPLETED_STATES}


def _good(event: Event) -> bool:
    return event.fields.get("row_state", "COMPLETED") in COMPLETED_STATES


def _own_rows(jobs: set[_Job], own: set[str], tasks: set[tuple[str, str]], numbers: set[str]) -> set[_Job]:
    """The one row's job that is this one; none where that cannot be told."""
    if own:
        mine = {j for j in jobs if j.number in own}
        exact = {j for j in mine if j.task is not None and (j.number, j.task) in tasks}
        if not mine and len(jobs) == 1:
            # Each task of an array has a number of its own, which its rows do not show.
            mine = {j for j in jobs if j.task is not None}
        found = exact or mine
    else:
        found = jobs if len(jobs) == 1 else {j for j in jobs if j.number in numbers}
    return found if len(found) == 1 else set()


def _headed(events: Sequence[Event]) -> Sequence[Event]:
    """Gives the state below the head of a job that job's number."""
    if not any(e.signature == NAMED for e in events):
        return events
    heads: dict[SourceId, list[Event]] = {}
    for event in events:
        if event.signature == NAMED:
            heads.setdefault(event.span.source, []).append(event)
    changed: list[Event] = []
    for event in events:
        near = [h for h in heads.get(event.span.source, ()) if 0 < event.span.line - h.span.line <= BELOW]
        if near and event.signature.startswith("slurm.job_") and "row_job" not in event.fields:
            job = max(near, key=lambda h: h.span.line).fields["row_job"]
            event = structs.replace(event, fields={**event.fields, "row_job": job})  # noqa: PLW2901
        changed.append(event)
    return changed


def _row(event: Event) -> _Job | None:
    number = event.fields.get("row_job")
    return None if number is None else _Job(number, event.fields.get("row_task"))


def _fact(event: Event, source: str | None) -> str | None:
    if source is None:
        return None
    return source[1:] if source.startswith("=") else event.fields.get(source)


def _status(text: str | None) -> int | None:
    """A failing exit status, minus the signal number where one ended the job; None for a good one and for none."""
    found = None if text is None else _EXIT.fullmatch(text)
    if found is None:
        return None
    status, signal = int(found[1]), int(found[2] or 0)
    return (-signal if signal else status) or None
