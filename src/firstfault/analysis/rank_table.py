"""What is true of every rank at the end of one attempt, one entry a rank: a pure fold for tables.

Joins what other folds say. It judges nothing: who is at fault comes with the answer that is handed in.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from firstfault.analysis.classes import phase_of_exception
from firstfault.analysis.hang_words import rank_notes
from firstfault.analysis.order import sort_key
from firstfault.analysis.state.exits import TOLD, integer
from firstfault.analysis.state.groups import Cell, Group, hang_state
from firstfault.analysis.state.nodes import hosts_of
from firstfault.analysis.state.parts import Part
from firstfault.analysis.suspects import nature_of
from firstfault.analysis.telling import stepped
from firstfault.model.evidence import Event, GlobalRank, LocalRank, NodeRank, ProgressSample, Who
from firstfault.model.words import Mark, Phase, Role, Word

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene
    from firstfault.analysis.state.exits import Exit

LAST_WORDS = "rank.last_words"
"""Signature of the last line of a late rank, as the pipeline finds it."""


class State(Word):
    """How a rank ended; the words of the diagnosis' rank table."""

    FAILED = "failed"
    LATE = "late"
    TIMED_OUT = "timed_out"
    LOST_PEER = "lost_peer"
    STOPPED = "stopped"
    SEEN = "seen"
    SILENT = "silent"


class InGroup(Struct, frozen=True):
    """One rank in one process group in which somebody is stuck."""

    group: Group
    cell: Cell


class Entry(Struct, frozen=True, kw_only=True):
    """One rank at the end of the attempt."""

    rank: GlobalRank
    state: State
    part: Part | None
    """What it did in the hang; without a hang only whether it died or was ended, else None."""
    outlier: bool
    """Whether it failed, said nothing while most spoke, or stands elsewhere than most."""
    host: str | None = None
    local_rank: LocalRank | None = None
    node_rank: NodeRank | None = None
    named: dict[str, Event] = {}
    """`host`, `local_rank`, `node_rank` -> the line that states it; nothing for what was inferred."""
    groups: tuple[InGroup, ...] = ()
    """Groups in which somebody is stuck and of which it has a cell, sorted by name; numbers first."""
    step: ProgressSample | None = None
    """Its last sign of progress with a step number."""
    phase: Phase | None = None
    phase_event: Event | None = None
    note: str = ""
    """Its own error, its exit, or that nothing of it is there."""
    note_event: Event | None = None
    own_error: bool = False
    """Whether the note is an error of its own or its last words, and not only how it ended."""


def rank_entries(scene: Scene, answer: Answer) -> tuple[Entry, ...]:
    """Every rank that was expected or seen: those that failed, those that ended as few did, other outliers, the rest.

    Args:
        scene: the attempt.
        answer: what was found out about it; who failed first comes from here.
    """
    fold = _Fold(scene, answer)
    whole = [fold.entry(rank) for rank in fold.ranks]
    ends = [e for e, n in Counter((e.state, e.part) for e in whole).most_common(1) if 2 * n > len(whole)]
    # Many a program lets a few ranks speak for all: that most say nothing sets none of them apart, nor those that speak.
    quiet = any(state is State.SILENT for state, _ in ends)
    heard = [e for e in whole if e.state is not State.SILENT] if quiet else whole
    usual = [s for s, n in Counter(map(_standing, heard)).most_common(1) if 2 * n > len(heard)]
    behind = _behind(whole)
    ranked = []
    for entry in whole:
        order = 0 if entry.rank in fold.failed else _order(entry)
        if order is None or (order > 0 and (entry.state, entry.part) in ends):
            unheard = quiet and entry.state is State.SILENT
            odd = bool(usual) and not unheard and _standing(entry) != usual[0]
            order = 2 if odd or entry.rank in behind else 3
        ranked.append((order, entry.rank, replace(entry, outlier=order < 3)))
    return tuple(entry for _, _, entry in sorted(ranked, key=lambda r: r[:2]))


def _order(entry: Entry) -> int | None:
    """Place of a rank that is an outlier by itself; None where only the others can tell."""
    if entry.state is State.FAILED:
        return 0
    if entry.state is State.SILENT or entry.part is Part.DIED:
        return 1
    return None


def _standing(entry: Entry) -> tuple[object, ...]:
    """What is equal for ranks that ended alike."""
    return (entry.state, entry.part, tuple((g.group.name, *at_work(g.cell)) for g in entry.groups), entry.phase)


def at_work(cell: Cell) -> tuple[object, ...]:
    """What a cell says: counters, then op, number and sizes of the stuck work."""
    work = cell.work
    told = () if work is None else (work.op, work.seq, work.numel_in, work.numel_out)
    return (cell.enqueued, cell.completed, cell.pending, *told)


def _behind(entries: Iterable[Entry]) -> set[GlobalRank]:
    """The few ranks whose last step is below the most frequent one."""
    steps = {e.rank: e.step.step for e in entries if e.step is not None and e.step.step is not None}
    if not steps:
        return set()
    votes = Counter(steps.values())
    usual = max(votes, key=lambda step: (votes[step], step))
    behind = {rank for rank, step in steps.items() if step < usual}
    return behind if len(behind) == 1 or 4 * len(behind) <= len(steps) else set()


class _Fold:
    """Indexes of one attempt, by rank."""

    def __init__(self, scene: Scene, answer: Answer) -> None:
        self.scene = scene
        self.answer = answer
        self.hang = hang_state(scene)
        self.failed = {*answer.first_failed.ranks, *answer.culprits.ranks}
        self.waited = set() if scene.hang is None else set(scene.hang.waiters)
        self.lost = self._with(Mark.PEER_LOST)
        self.stopped = self._with(Mark.STOP_SIGNAL)
        trained = stepped(scene) | {rank for rank, _ in answer.said}
        self.silent = set(scene.complete.silent) - trained
        self.exits = self._exits()
        self.errors = self._errors()
        self.frozen = self._frozen()
        self.steps = self._steps()
        self.phases = self._phases()
        self.named = self._named()
        self.stuck = self.hang.stuck
        self.waiting = self.hang.waiting
        stuck = {rank for group in self.stuck for rank in group.cells}
        self.ranks = sorted({*scene.complete.seen, *trained, *self.silent, *self.hang.parts, *stuck, *self.failed})
        self.hosts = hosts_of(scene, (r for r in self.ranks if r not in self.silent))

    def entry(self, rank: GlobalRank) -> Entry:
        """What is true of one rank."""
        phase = self.phases.get(rank)
        note, line, own = self._note(rank)
        named = self.named.get(rank, {})
        local = self.scene.roster.local_of.get(rank)
        return Entry(
            rank=rank,
            state=self._state(rank),
            part=self._part(rank),
            outlier=False,
            host=self.hosts.get(rank),
            local_rank=local,
            node_rank=named["node_rank"].who.node_rank if "node_rank" in named else None,
            named=named,
            groups=tuple(InGroup(g, g.cells[rank]) for g in self.stuck if rank in g.cells),
            step=self.steps.get(rank),
            phase=None if phase is None else phase[0],
            phase_event=None if phase is None else phase[1],
            note=note,
            note_event=line,
            own_error=own,
        )

    def _with(self, mark: Mark) -> set[GlobalRank]:
        told = (e for e in self.scene.marked(mark) if id(e) not in self.scene.got_over)
        return {r for e in told if (r := self.scene.roster.rank(e)) is not None}

    def _state(self, rank: GlobalRank) -> State:
        if rank in self.failed and (own := self._at_fault(rank)) is not None:
            return own
        if rank in self.silent:
            return State.SILENT
        if rank in self.waited or rank in self.waiting:
            return State.TIMED_OUT
        if rank in self.lost:
            return State.LOST_PEER
        told = self.exits.get(rank)
        if rank in self.stopped or (told is not None and told.signal in TOLD):
            return State.STOPPED
        if rank in self.errors or (told is not None and told.own):
            return State.FAILED  # not known to be among the first, but its own lines or its exit say that it failed
        return State.SEEN

    def _at_fault(self, rank: GlobalRank) -> State | None:
        """How a rank ended with which the fault began; None where only others tell of it."""
        told = self.exits.get(rank)
        died = rank in self.errors or self.hang.parts.get(rank) is Part.DIED
        if not died and told is None and rank in self.silent:
            return None
        hung = self.scene.hang is not None or bool(self.stuck)
        waited = rank in self.waited or rank in self.waiting
        return State.LATE if hung and not died and not waited else State.FAILED

    def _part(self, rank: GlobalRank) -> Part | None:
        if self.scene.hang is not None:
            # Whoever said that it waited too long spoke for itself, whatever the transport calls it.
            return Part.INITIATOR if self._waited_itself(rank) else self.hang.parts.get(rank)
        if rank in self.errors:
            return Part.DIED
        told = self.exits.get(rank)
        if told is not None and told.own:
            return Part.DIED
        return Part.TERMINATED if rank in self.stopped or told is not None else None

    def _waited_itself(self, rank: GlobalRank) -> bool:
        return rank in self.waited and self.hang.parts.get(rank) in {None, Part.SILENT, Part.TERMINATED}

    def _exits(self) -> dict[GlobalRank, Exit]:
        """The first reported exit of each rank; one with a line before one of a list."""
        found: dict[GlobalRank, Exit] = {}
        for one in self.scene.exits:
            if one.rank is not None:
                found.setdefault(one.rank, one)
        return found

    def _errors(self) -> dict[GlobalRank, Event]:
        """The first error of its own of each rank."""
        found: dict[GlobalRank, Event] = {}
        for suspect in self.scene.suspects:
            for event in suspect.events:
                rank = self.scene.roster.rank(event)
                if rank is not None and (rank not in found or sort_key(event) < sort_key(found[rank])):
                    found[rank] = event
        return found

    def _frozen(self) -> dict[GlobalRank, Event]:
        """Of each rank whose own watchdog or interpreter was stuck, the first line that says so."""
        found: dict[GlobalRank, Event] = {}
        for event in sorted(self.scene.marked(Mark.FROZEN), key=sort_key):
            rank = self.scene.roster.rank(event)
            if rank is not None:
                found.setdefault(rank, event)
        return found

    def _note(self, rank: GlobalRank) -> tuple[str, Event | None, bool]:
        trigger = self.answer.trigger
        if trigger is not None and trigger.signature == LAST_WORDS and self.scene.roster.rank(trigger) == rank:
            return "last words before the wait", trigger, True
        error = self.errors.get(rank)
        if error is not None:
            return nature_of(self.scene.case, error).title, error, True
        if rank in self.frozen:
            return nature_of(self.scene.case, self.frozen[rank]).title, self.frozen[rank], False
        told = self.exits.get(rank)
        if told is not None:
            return _exit_text(told), told.event, False
        if rank not in self.silent:
            return "", None, False
        unheard = "no line names it" if self.hang.unplaced else "no line of it is in these files"
        return unheard, None, False

    def _steps(self) -> dict[GlobalRank, ProgressSample]:
        """The last sign of progress of each rank: of several files the one that got furthest."""
        last: dict[tuple[GlobalRank, int], ProgressSample] = {}
        for sample in self.scene.case.seen.progress:
            rank = self.scene.roster.rank_of(Who(rank=sample.rank), sample.source, {})
            if rank is not None and sample.step is not None:
                known = last.get((rank, sample.source))
                if known is None or sample.offset > known.offset:
                    last[rank, sample.source] = sample
        found: dict[GlobalRank, ProgressSample] = {}
        for (rank, _), sample in sorted(last.items()):
            known = found.get(rank)
            if known is None or known.step is None or (sample.step is not None and sample.step > known.step):
                found[rank] = sample
        return found

    def _phases(self) -> dict[GlobalRank, tuple[Phase, Event]]:
        """What each rank was last seen doing, where a line of its own says so and no end of it follows."""
        found: dict[GlobalRank, tuple[Phase, Event]] = {}
        case = self.scene.case
        none = {s for s in case.uniform if self._phase(case.one_of(s)) is None}
        for event in sorted(case.of({s for s in case.signatures if s not in none}), key=sort_key):
            phase = self._phase(event)
            if phase is None:
                continue
            rank = self.scene.roster.rank(event)
            if rank is None:
                continue
            if phase is Phase.UNKNOWN:
                found.pop(rank, None)
            elif rank not in found or event.exception is None:
                found[rank] = (phase, event)
        return found

    def _phase(self, event: Event) -> Phase | None:
        """The phase of which a line speaks; `unknown` where it ends one, None where it speaks of none."""
        case = self.scene.case
        if event.exception is not None:
            phase = phase_of_exception(event.exception)
            return None if phase is Phase.UNKNOWN else phase
        if case.has(event, Mark.CHECKPOINT_BEGIN) or case.has(event, Mark.CHECKPOINT_LOAD):
            return Phase.CHECKPOINT
        if case.has(event, Mark.EVALUATION):
            return Phase.EVALUATION
        if case.has(event, Mark.CHECKPOINT_END) or case.has(event, Mark.PROGRESS):
            return Phase.UNKNOWN
        nature = nature_of(case, event)
        return nature.phase if nature.role is Role.CAUSE and nature.phase is not Phase.UNKNOWN else None

    def _named(self) -> dict[GlobalRank, dict[str, Event]]:
        """The first line of each rank that states its host, its local rank or its node."""
        found: dict[GlobalRank, dict[str, Event]] = {}
        joining = self.scene.case.signatures_with(Mark.IDENTITY)
        for event in self.scene.events:
            who = event.who
            # A line that joins rank and host states the rank as a field.
            joins = event.signature in joining
            rank = self.scene.roster.rank(event) if joins else who.rank
            if rank is None:
                continue
            stated = found.setdefault(rank, {})
            if who.host is not None or (joins and "host" in event.fields):
                stated.setdefault("host", event)
            if who.local_rank is not None:
                stated.setdefault("local_rank", event)
            if who.node_rank is not None:
                stated.setdefault("node_rank", event)
        return found


def _exit_text(told: Exit) -> str:
    if told.signal is not None:
        return f"signal {told.signal}"
    code = integer(None if told.event is None else told.event.fields.get("exit_code"))
    return "its exit was reported" if code is None else f"exit code {code}"


def notes_of(scene: Scene, entries: Iterable[Entry]) -> dict[GlobalRank, str]:
    """What is known of each rank in one sentence: its part and its stuck groups where there was a hang, its own error."""
    hang = {} if scene.hang is None else rank_notes(hang_state(scene))
    return {e.rank: "; ".join(text for text in (hang.get(e.rank, ""), e.note) if text) for e in entries}


def lines_of(entry: Entry) -> tuple[Event, ...]:
    """The lines of one rank, most telling first, each once."""
    told: list[Event | None] = [e for g in entry.groups for e in g.cell.events]
    told.insert(0 if entry.own_error else len(told), entry.note_event)
    told += [entry.phase_event, *entry.named.values()]
    kept: dict[tuple[int, int], Event] = {}
    for event in told:
        if event is not None:
            kept.setdefault((event.span.source, event.span.offset), event)
    return tuple(kept.values())
