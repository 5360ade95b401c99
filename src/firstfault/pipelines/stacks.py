"""Where every process stood at its last stack dump: rows by place, and one tree of all main threads.

Must not choose columns or cut lists: that is how a table is shown.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from firstfault.analysis.state.stacks import WAITS, Stood, doing_of, event_of, refused, stood
from firstfault.analysis.wording import frame_text
from firstfault.model.evidence import Frame
from firstfault.model.lazy import lazy
from firstfault.model.views import StackNode, StackPlace, StackTable, StackThreads
from firstfault.pipelines.cite import Citer
from firstfault.pipelines.diagnose import concluded
from firstfault.pipelines.ranks import coverage_of
from firstfault.pipelines.verdict import verdict_in

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence
    from typing import IO

    from firstfault.analysis.conclude import Conclusion
    from firstfault.pipelines.options import DiagnoseOptions

CITED = 3
"""Processes of one place whose lines are cited."""
LINES = 4
"""Lines of one function that are told where processes stand at several."""
AGREED = 4
"""A line is where most of a function stand when all but one of so many do."""
_NUMBERS = lazy(r"\d+")


def stack_table(
    paths: Sequence[str | os.PathLike[str]], options: DiagnoseOptions, *, stdin: IO[bytes] | None = None
) -> StackTable:
    """Where every process stood, by the stack dumps of an input.

    Args:
        paths: files, folders, archives, globs, or `-` for standard input.
        options: as for a diagnosis; one attempt, not all.
        stdin: where `-` reads from; the process's own standard input where None.

    Returns:
        The table, not yet redacted: the odd places first.

    Raises:
        SignatureError: a site signature is wrong.
        PipelineError: the attempt asked for is not there.
    """
    with concluded(paths, options, stdin=stdin) as (conclusion, verifier, _):
        return stacks_of(conclusion, Citer(verifier, conclusion.scene.case.paths))


def stacks_of(conclusion: Conclusion, cite: Citer) -> StackTable:
    """The table of a conclusion, its lines cited."""
    scene = conclusion.scene
    dumps = scene.case.seen.stacks
    stands = stood(dumps, scene.roster, scene.complete.expected)
    verdict = verdict_in(conclusion.scene, conclusion.answer, cite)
    places = _places(stands, cite)
    return StackTable(
        verdict=verdict,
        attempt=scene.number,
        attempts=len(conclusion.attempts),
        coverage=coverage_of(scene),
        verification=cite.verification(),
        dumps=len(dumps),
        processes=len(stands),
        expected=scene.complete.expected,
        places=places,
        tree=_tree(stands),
        threads=_threads(stands),
        refused=sorted(
            int(rank)
            for dump in refused(dumps, stands, scene.roster)
            if (rank := scene.roster.rank_of(dump.who, dump.begin.source, {})) is not None
        ),
    )


def _places(stands: Sequence[Stood], cite: Citer) -> list[StackPlace]:
    rows = []
    for group, odd in _grouped(stands):
        first = group[0]
        events = [event_of(s.dump, s.frame) for s in group[:CITED]]
        if first.place is not None and first.place.span != first.frame.span:
            events.insert(1, event_of(first.dump, first.place))
        rows.append(
            StackPlace(
                doing=str(first.doing),
                call=_text_of([s.frame.frame for s in group]),
                called_from=None
                if first.place is None or first.place.span == first.frame.span
                else _text_of([s.place.frame for s in group if s.place is not None]),
                ranks=_ranks(group),
                others=_others(group),
                hosts=sorted({s.host for s in group if s.host is not None}),
                odd=odd,
                also=sorted({frame_text(f.frame) for s in group for f in s.others}),
                evidence=cite.events(events),
            )
        )
    return sorted(rows, key=lambda r: (not r.odd, len(r.ranks) + len(r.others), r.ranks, r.others))


def _grouped(stands: Sequence[Stood]) -> list[tuple[list[Stood], bool]]:
    """Processes by place, and whether that is an odd one.

    Who waits stands still, so each line is a place of its own. Who is at work was caught in passing: there a line is a place only
    where half of those in the function or more stand at one; else they are one group, and its lines are told. Within a function
    a line is odd where most of the others agree on one.
    """
    functions: dict[tuple[object, ...], list[Stood]] = {}
    for one in stands:
        functions.setdefault((one.doing, one.op, one.path), []).append(one)
    mixed = len({s.doing in WAITS for s in stands}) > 1
    sizes = max(map(len, functions.values()), default=0)
    found = []
    for group in functions.values():
        waits = group[0].doing in WAITS
        may = not mixed or not waits
        odd = may and 2 * len(group) < len(stands) and len(group) < sizes
        lines: dict[tuple[int, int], list[Stood]] = {}
        for one in group:
            lines.setdefault(_line(one), []).append(one)
        most = max(map(len, lines.values()))
        agreed = may and AGREED * most >= (AGREED - 1) * len(group) and 2 * most >= len(stands)
        if waits or 2 * most >= len(group):
            found += [(at, odd or (agreed and len(at) < most)) for at in lines.values()]
        else:
            found.append((group, odd))
    return found


def _line(one: Stood) -> tuple[int, int]:
    """Where it stands within a function; native code that waits turns in a loop, and its line tells nothing."""
    return 0 if one.frame.native else one.frame.frame.line, 0 if one.place is None else one.place.frame.line


def _text_of(frames: Sequence[Frame]) -> str:
    """Frames of one function as `function (file:line, line)`: a few of the lines, those of the most processes first."""
    lines = Counter(f.line for f in frames).most_common()
    if len(lines) < 2:
        return frame_text(frames[0])
    name = frame_text(Frame(file=frames[0].file, line=0, function=frames[0].function))
    if not frames[0].file:
        return name
    shown = sorted(line for line, _ in lines[:LINES] if line)
    return f"{name.removesuffix(')')}:{', '.join(map(str, shown))}{', …' if len(lines) > LINES else ''})"


def _ranks(stands: Iterable[Stood]) -> list[int]:
    return sorted(int(s.rank) for s in stands if s.rank is not None)


def _others(stands: Iterable[Stood]) -> list[str]:
    return sorted(s.title for s in stands if s.rank is None)


def _threads(stands: Iterable[Stood]) -> list[StackThreads]:
    """Threads beside the main ones: a pool of workers that wait alike is one row, whatever the number of each."""
    found: dict[tuple[str, str, str], list[Stood]] = {}
    for one in stands:
        for thread in one.dump.threads:
            if not thread.main:
                doing, frame = doing_of(thread.frames)
                name = _NUMBERS.sub("#", thread.name or "")
                found.setdefault((name, str(doing), frame_text(frame.frame)), []).append(one)
    rows = [
        StackThreads(
            name=name,
            doing=doing,
            call=call,
            threads=len(group),
            ranks=sorted(set(_ranks(group))),
            others=sorted(set(_others(group))),
        )
        for (name, doing, call), group in found.items()
    ]
    return sorted(rows, key=lambda r: (r.threads, r.name, r.call))


class _Node:
    """A frame with those that stand in it."""

    def __init__(self) -> None:
        self.stands: list[Stood] = []
        self.frames: list[Frame] = []
        self.below: dict[tuple[str, str], _Node] = {}


def _tree(stands: Sequence[Stood]) -> list[StackNode]:
    """All main threads as one tree; native frames only of processes of which nothing of Python is shown."""
    root = _Node()
    for one in stands:
        main = one.dump.main
        node = root
        frames = [] if main is None else [f.frame for f in main.frames if not f.native]
        if main is not None and not frames:
            frames = [f.frame for f in main.frames if not f.frame.function.startswith("0x")]
        for frame in reversed(frames):
            node = node.below.setdefault((frame.function, frame.file.replace("\\", "/").rsplit("/", 1)[-1]), _Node())
            node.stands.append(one)
            node.frames.append(frame)
    rows: list[StackNode] = []
    _walk(root, 0, rows)
    return rows


def _walk(node: _Node, depth: int, rows: list[StackNode]) -> None:
    # An own stack: a program may recurse as deep as a dump goes.
    waiting = [(n, depth) for n in _least_first(node)]
    while waiting:
        inner, level = waiting.pop()
        text = _text_of(inner.frames)
        rows.append(StackNode(depth=level, frame=text, ranks=_ranks(inner.stands), others=_others(inner.stands)))
        waiting.extend((n, level + 1) for n in _least_first(inner))


def _least_first(node: _Node) -> list[_Node]:
    """What stands in a node, by number of processes; of equally many those of the lowest ranks last, as they are shown first."""
    return sorted(node.below.values(), key=lambda n: -len(n.stands))[::-1]
