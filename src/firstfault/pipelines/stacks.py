"""Where every process stood at its last stack dump: rows by place, and one tree of all main threads.

Must not choose columns or cut lists: that is how a table is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.state.stacks import WAITS, Stood, doing_of, event_of, refused, stood
from firstfault.analysis.wording import frame_text
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
    with concluded(paths, options, stdin=stdin) as (conclusion, verifier):
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
    found: dict[tuple[object, ...], list[Stood]] = {}
    for one in stands:
        found.setdefault((one.doing, one.op, one.path), []).append(one)
    most = max(map(len, found.values()), default=0)
    mixed = len({s.doing in WAITS for s in stands}) > 1
    rows = []
    for group in found.values():
        first = group[0]
        odd = 2 * len(group) < len(stands) and len(group) < most and (not mixed or first.doing not in WAITS)
        events = [event_of(s.dump, s.frame) for s in group[:CITED]]
        if first.place is not None and first.place.span != first.frame.span:
            events.insert(1, event_of(first.dump, first.place))
        rows.append(
            StackPlace(
                doing=str(first.doing),
                call=frame_text(first.frame.frame),
                called_from=None
                if first.place is None or first.place.span == first.frame.span
                else frame_text(first.place.frame),
                ranks=_ranks(group),
                others=_others(group),
                hosts=sorted({s.host for s in group if s.host is not None}),
                odd=odd,
                also=sorted({frame_text(f.frame) for s in group for f in s.others}),
                evidence=cite.events(events),
            )
        )
    return sorted(rows, key=lambda r: (not r.odd, len(r.ranks) + len(r.others), r.ranks, r.others))


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
        self.frames: set[str] = set()
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
            node.frames.add(frame_text(frame))
    rows: list[StackNode] = []
    _walk(root, 0, rows)
    return rows


def _walk(node: _Node, depth: int, rows: list[StackNode]) -> None:
    # An own stack: a program may recurse as deep as a dump goes.
    waiting = [(n, k, depth) for k, n in _least_first(node)]
    while waiting:
        inner, (function, file), level = waiting.pop()
        text = next(iter(inner.frames)) if len(inner.frames) == 1 else f"{function} ({file})"
        rows.append(StackNode(depth=level, frame=text, ranks=_ranks(inner.stands), others=_others(inner.stands)))
        waiting.extend((n, k, level + 1) for k, n in _least_first(inner))


def _least_first(node: _Node) -> list[tuple[tuple[str, str], _Node]]:
    """What stands in a node, by number of processes; of equally many those of the lowest ranks last, as they are shown first."""
    return sorted(node.below.items(), key=lambda kn: -len(kn[1].stands))[::-1]
