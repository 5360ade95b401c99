"""What training metrics add to an answer: the first bad step, or what was wrong long before the run was ended or hung.

Reads step lines for such answers alone.

It adds words to an answer; category, strength, culprits and first sign stay as they are.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.analysis.gpu_evidence import heat_of
from firstfault.model.evidence import GlobalRank, ProgressSample
from firstfault.model.findings import Link
from firstfault.model.lazy import lazy
from firstfault.model.words import Category, Form, Scope, SourceKind

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene
    from firstfault.metrics.points import Point
    from firstfault.metrics.steps import Steps
    from firstfault.model.evidence import SourceId
    from firstfault.readers.store import Store

LARGEST = 64 << 20
"""Bytes of a file from which on it is left to `firstfault metrics`."""


LOOK_BACK = 8192
"""Bytes before the first sign in which a step is looked for."""
_STEP = lazy(
    r"(?i)(?<![\w/.-])(global[_ ]?step|iteration|iter|step|batch)(?:\s*[=:#|]\s*#?|\s+#?)(\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?!\w|\.\d| ?(?:ms|s|sec)\b)"
)
"""A step that a line names by a word: `at iteration=805!`, `step 61243`, `| step          | 1.32e+05 |`."""

_BAR = lazy(r"(?:^|[^\d./])(\d{1,9})/(\d{1,9})\b[^/]{0,80}?(?:\[[=>.]{4}|\u2501{2}|\| \d)")
"""A step that a bar draws: `61/200 ━━━━━━`."""
_NAN_LINE = lazy(rb"(?i)[^\r\n]{0,4000}[=:] {0,4}[-+]?nan\b[^\r\n]{0,4000}")
_NAN = lazy(r"(?i)(?<![\w./-])(?P<name>[a-z][\w/.-]{0,40}(?: [a-z][\w/.-]{0,40})?)['\"]?\s{0,4}[=:]\s{0,4}[-+]?nan\b")
_DRAWN = lazy(
    r"(?:^|[\r\n])\s*(?P<title>[^\r\n|]{0,80}?):?\s{0,4}\d{1,3}%\|[^|\r\n]{0,200}\|\s{0,12}(?P<at>\d{1,9})/(?P<of>\d{1,9}) \["
)
"""A bar of tqdm with its title: `Train epoch [1/5]:   4%|▍  | 3/80 [`."""
MOST_NANS = 64
"""Lines with a NaN at the start of a log that are looked at."""
MOST_LOGS = 32
HEAD = 4096
"""Bytes by which a document is known to hold a history."""
_TO_THE_END = "it went on to the end of the metrics; that it is the reason is not shown"

MUCH = 1.5
"""A pace that is worth a word where something else ended the run: so many times as slow as before."""


def heed_numbers(scene: Scene, answer: Answer, store: Store) -> Answer:
    """The same answer, with what the metrics tell of it.

    Where numbers went wrong, the first bad step, if the cited files tell it. Where the run was ended from outside or hung, what
    had been wrong with its numbers or its pace until then: a slow hour before a time limit is the window that matters.
    """
    if answer.category is Category.NUMERICAL and answer.proof:
        return _first_bad_step(scene, answer, store)
    if answer.failed and not scene.case.seen.progress:
        answer = _last_recorded(scene, answer, store)
    ended = answer.classes.scope is Scope.EXTERNAL and answer.classes.form is Form.INTERRUPTED
    if not (ended or answer.classes.form is Form.HUNG) or not answer.proof:
        return answer
    return _long_before(scene, answer, store, cited_only=not ended)


def _tables(scene: Scene, store: Store, wanted: Collection[SourceId]) -> list[Steps]:
    """Step tables, and those of timers, of some sources."""
    # What few jobs come to is loaded only for these.
    from firstfault.metrics.read import read_source_steps
    from firstfault.metrics.timers import read_timers

    tables = []
    for source in scene.case.seen.sources:
        if source.id in wanted and store.size(source.id) <= LARGEST:
            table = read_source_steps(store, source, workers=1)
            if table is not None:
                tables += [t for t in (table, read_timers(store, source)) if t is not None]
    return tables


def _first_bad_step(scene: Scene, answer: Answer, store: Store) -> Answer:
    from firstfault.metrics.points import Kind, find_points

    wrong = {Kind.NAN, Kind.SCALE_FLOOR, Kind.LOSS_RISE}
    cited = {e.span.source for e in answer.proof}
    # What is well again was not what ended the run.
    points = [p for p in find_points(_tables(scene, store, cited)) if p.kind in wrong and p.lasts]
    points = points or _of_other_logs(scene, store, cited)
    stepped = [p for p in points if p.step is not None]
    if stepped and any(s.path == stepped[0].source and s.kind is not SourceKind.LOG for s in scene.case.seen.sources):
        said = f"First bad step {stepped[0].step:g}, by the records of `{stepped[0].source}`: {_words(stepped[0])}"
    elif stepped:
        said = f"First bad step {stepped[0].step:g}: {_words(stepped[0])}"
    elif points:
        said = f"The first bad row: {_words(points[0])}"
    else:
        said = _step_by_words(scene, answer, store)
    told = (stepped or points)[:1]
    return replace(
        answer,
        summary=f"{answer.summary} {said}".rstrip(),
        course=_links(scene, store, told, "the numbers are wrong from this line on"),
    )


def _of_other_logs(scene: Scene, store: Store, cited: Collection[SourceId]) -> list[Point]:
    """What lasts in all logs that are not cited and tell of it at all: one that is well may be the run, and the others of an older one."""
    from firstfault.metrics.points import Kind, find_points

    logs = [s.id for s in scene.case.seen.sources if s.kind is SourceKind.LOG and s.id not in cited][:MOST_LOGS]
    tables = _tables(scene, store, [*logs, *_records(scene, store)])
    # Each by itself: what all ranks tell of one step would else be told of one log alone.
    found = [p for table in tables for p in find_points([table])]
    points = [p for p in found if p.kind in {Kind.NAN, Kind.SCALE_FLOOR} and p.lasts]
    for column in {p.column for p in points}:
        bad = {p.source for p in points if p.column == column}
        if any(column in t.columns and t.source not in bad for t in tables):
            return []
    return sorted(points, key=lambda p: (p.step is None, p.step or 0.0))


def _records(scene: Scene, store: Store) -> list[SourceId]:
    """Tables, event files and histories of the run."""
    from firstfault.metrics.histories import is_history

    return [
        s.id
        for s in scene.case.seen.sources
        if s.kind is SourceKind.METRICS
        or (s.kind is SourceKind.CONFIG and s.path.endswith(".json") and is_history(store.head(s.id, HEAD)))
    ][:MOST_LOGS]


def _last_recorded(scene: Scene, answer: Answer, store: Store) -> Answer:
    """The answer with the last step that tables, event files or histories tell, where no line of a log tells one."""
    if not (wanted := _records(scene, store)):
        return answer
    ends = [
        (float(step.values[step.there][-1]), table.source)
        for table in _tables(scene, store, wanted)
        if (step := table.columns.get("step")) is not None and step.there.any()
    ]
    if not ends:
        return answer
    last, file = max(ends)
    said = f"The last step that the records of `{file}` tell is {last:g}."
    return replace(answer, summary=f"{answer.summary} {said}".lstrip())


def _step_by_words(scene: Scene, answer: Answer, store: Store) -> str:
    """The step that the first sign names itself, else the last one that is printed before it, or by any log; empty where none is."""
    sign = answer.trigger or answer.proof[0]
    for source in dict.fromkeys(e.span.source for e in (sign, *answer.proof)):
        if store.size(source) <= LARGEST and (said := _other_nan(store.read(source, 0, store.size(source)))):
            return said
    named = _STEP.search(sign.text)
    if named is not None:
        return f"First bad {named[1].lower()} {named[2]}, by that line's own words."
    bar = _BAR.search(sign.text)
    if bar is not None:
        return f"First bad step {bar[1]} of {bar[2]}, by the bar in that line."
    own = _printed(store, sign.span.source, sign.span.offset)
    others = [p.step for p in scene.case.seen.progress if p.step is not None and p.source != sign.span.source]
    if others and (own is None or not own[2].isdecimal() or max(others) > int(own[2])):
        return f"The last step that the logs print is {max(others)}."
    if own is not None:
        return f"The last {own[1].lower()} that is printed before it is {own[2]}."
    logs = [s for s in scene.case.seen.sources if s.kind is SourceKind.LOG][:MOST_LOGS]
    found = [m for s in logs if (m := _printed(store, s.id, store.size(s.id))) is not None and m[2].isdecimal()]
    if len({m[1].lower() for m in found}) != 1:
        return ""
    return f"The last {found[0][1].lower()} that the logs print is {max(int(m[2]) for m in found)}."


def _other_nan(data: bytes) -> str:
    """The step at which a value of any other name (`reward=nan`) became NaN for good; empty where none did that was a number before."""
    for n, line in enumerate(_NAN_LINE.finditer(data)):
        if n >= MOST_NANS:
            break
        text = line[0].decode("utf-8", "replace")
        drawn, named = _DRAWN.search(text), _STEP.search(text)
        if drawn is None and named is None:
            continue
        for value in _NAN.finditer(text):
            name = value["name"]
            told = rb"(?<![\w./-])" + re.escape(name.encode()) + rb"['\"]?\s{0,4}[=:]\s{0,4}[-+]?(?:(nan\b)|\.?\d)"
            every = list(re.finditer(told, data, re.IGNORECASE))
            first = next((m for m in every if m[1] is not None), None)
            if first is None or first is every[0] or first.start() < line.start() or every[-1][1] is None:
                continue
            if drawn is not None:
                return f"First bad step {drawn['at']} of {drawn['of']} in the bar “{drawn['title'].strip()}”: {name} is NaN from there on."
            if named is not None:
                return f"First bad {named[1].lower()} {named[2]}: {name} is NaN from there on."
    return ""


def _printed(store: Store, source: SourceId, end: int) -> re.Match[str] | None:
    """The last step that is named before a place."""
    start = max(0, end - LOOK_BACK)
    found = list(_STEP.finditer(store.read(source, start, end - start).decode("utf-8", "replace")))
    return found[-1] if found else None


def _long_before(scene: Scene, answer: Answer, store: Store, *, cited_only: bool) -> Answer:
    """The answer with what lasted to the end of the metrics: no numbers, one slow rank, a pace far below what it was."""
    from firstfault.metrics.points import Kind, find_points

    cited = {e.span.source for e in answer.proof}
    wanted = [
        s.id
        for s in scene.case.seen.sources
        if s.id in cited or (not cited_only and s.kind in {SourceKind.LOG, SourceKind.METRICS})
    ]
    order = (Kind.NAN, Kind.SLOW_RANK, Kind.STEP_TIME, Kind.THROUGHPUT)
    points = [
        p
        for p in find_points(_tables(scene, store, wanted))
        if p.kind in order and p.lasts and p.step is not None and _is_much(p)
    ]
    if not points:
        return answer
    points.sort(key=lambda p: order.index(p.kind))
    told = [p for n, p in enumerate(points) if p.kind not in {q.kind for q in points[:n]}]
    if told[0].kind is not Kind.NAN and len(told) > 1 and told[-1].kind is Kind.THROUGHPUT:
        told.pop()  # the other side of the step time
    words = " ".join(_words(p) for p in told[:2])
    rank = next((p.rank for p in told[:2] if p.kind is Kind.SLOW_RANK), None)
    hot = None if rank is None else heat_of(scene, GlobalRank(rank))
    heat = (
        ()
        if hot is None
        else (Link(what=hot[0], why="heat slows steps; that it is the reason is not shown", events=(hot[1],)),)
    )
    return replace(
        answer,
        summary=f"{answer.summary} Before that: {words}{'' if hot is None else f' {hot[0]}'}",
        course=_links(
            scene, store, told[:2], "it went on to the end of the metrics; that it is the reason is not shown"
        )
        + heat,
        steps=(
            "Find out first what went wrong with the numbers or the pace before it: `firstfault metrics` shows where.",
            *answer.steps,
        ),
    )


def _links(scene: Scene, store: Store, points: Sequence[Point], why: str) -> tuple[Link, ...]:
    """Points as links of the chain, each by the line of its first row."""
    from firstfault.metrics.words import summary_of
    from firstfault.pipelines.lines import lines_of

    ids = {s.path: s.id for s in scene.case.seen.sources}
    links = []
    for point in points:
        if b"\0" in store.head(ids[point.source], 16):
            continue  # an event file has no lines to show
        line = lines_of(store, ids[point.source], [point.line]).get(point.line)
        if line is not None:
            sample = ProgressSample(ids[point.source], point.line, line.at_place(point.place).offset)
            links.append(Link(what=summary_of(point), why=why, samples=(sample,)))
    return tuple(links)


def _is_much(point: Point) -> bool:
    """Whether a point is worth a word beside what ended the run."""
    from firstfault.metrics.points import Kind

    low, high = sorted((point.value, point.usual))
    return point.kind is Kind.NAN or high >= MUCH * low


def _words(point: Point) -> str:
    from firstfault.metrics.words import summary_of

    before = f" Before: {'; '.join(point.before)}." if point.before else ""
    return f"{summary_of(point)}{before}"
