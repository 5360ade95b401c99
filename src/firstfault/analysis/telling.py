"""What a reader is told beside the verdict: the lines worth quoting, the moments that matter, who was seen at all.

Must not judge: who is at fault and why comes with the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.order import clock_of, exact, sort_key
from firstfault.analysis.state.groups import hang_state
from firstfault.analysis.state.stacks import stood
from firstfault.analysis.state.standing import standing
from firstfault.analysis.suspects import nature_of
from firstfault.analysis.wording import CPP
from firstfault.model.evidence import Event, GlobalRank, ProgressSample, Who
from firstfault.model.lazy import lazy
from firstfault.model.words import Blame, Category, Mark, Role, Scope, Strength

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene

_FOLDER = lazy(r"^(.*(?:^|/))attempt[_-]\d{1,4}/(\d{1,4})/(?:stdout|stderr|error)[^/]*$")
"""Files of one process, as torchrun lays them out: run, attempt, local rank."""
MOST = 1_000_000
"""A number of ranks from here on is a misread one."""


class Moments(Struct, frozen=True, kw_only=True):
    """The last signs of life of an attempt."""

    step: ProgressSample | None = None
    """The furthest step that a line states."""
    checkpoint: Event | None = None
    """The last line that says that a checkpoint was written to the end."""
    last: Event | None = None
    """The last line with a time of its own about how the attempt ended."""


class Present(Struct, frozen=True, kw_only=True):
    """The ranks of which there is anything, and how many there are at least."""

    seen: tuple[GlobalRank, ...]
    at_least: int
    silent: tuple[GlobalRank, ...] = ()
    """Expected ranks of which no line at all is here, not even one of a step."""


def key_events(scene: Scene, answer: Answer) -> tuple[Event, ...]:
    """The lines to quote, most telling first: the proof, a wait and an exit; what says nothing by itself comes last."""
    told = [e for e in answer.proof if not _empty(scene, e)]
    waits = () if scene.hang is None or answer.failed is not True else scene.hang.events[:1]
    dead = min((e.event for e in scene.exits if e.event is not None), key=sort_key, default=None)
    exits = () if dead is None or answer.failed is not True or _empty(scene, dead) else (dead,)
    return (*told, *waits, *exits, *(e for e in answer.proof if _empty(scene, e)))


def _empty(scene: Scene, event: Event) -> bool:
    """Whether a line tells nobody anything by itself: a bare class name, or a launcher's heading."""
    if event.exception is not None and not event.exception.message.strip():
        return True
    head = event.signature.startswith("launcher.") and nature_of(scene.case, event).role is Role.EFFECT
    return head and not any(c.isdecimal() for c in event.text)


def moments(scene: Scene) -> Moments:
    """The furthest step, the last checkpoint and the last timed line about the end of an attempt."""
    steps = [t.last for t in scene.case.tracks.values() if t.last.step is not None]
    saved = scene.marked(Mark.CHECKPOINT_END)
    ends: Iterable[Event] = (
        *scene.deaths,
        *scene.teardown,
        *scene.effects,
        *scene.marked(Mark.ABORT),
        *(() if scene.outcome.event is None else (scene.outcome.event,)),
        *(() if scene.hang is None else scene.hang.events),
    )
    timed = [e for e in ends if exact(e.when)]
    last = max(timed, key=_when, default=None)
    if last is not None and len({clock_of(e.when) for e in timed}) > 1:
        last = None
    return Moments(
        step=max(steps, key=lambda s: (s.step or 0, -s.source), default=None),
        checkpoint=max(saved, key=sort_key, default=None),
        last=last,
    )


def _when(event: Event) -> tuple[float, int, int]:
    return (event.when.latest or 0.0, -event.span.source, -event.span.offset)


def present(scene: Scene, answer: Answer) -> Present:
    """Ranks of which anything was read, also by a launcher's folder alone, and a lower bound of their number.

    For showing only: what decides a verdict counts ranks by itself.
    """
    seen = {*scene.complete.seen, *stepped(scene), *_by_folder(scene), *(rank for rank, _ in answer.said)}
    if scene.case.seen.stacks:
        stands = stood(scene.case.seen.stacks, scene.roster, scene.complete.expected)
        seen |= {s.rank for s in stands if s.rank is not None}
    least = [scene.complete.at_least, *(int(r) + 1 for r in seen)]
    least += [n for e in scene.marked(Mark.IDENTITY) if (n := _number(e.fields.get("size", ""))) is not None]
    if scene.hang is not None:
        state = hang_state(scene)
        where = standing(state)
        seen |= {*where.waiting, *where.outside, *state.own}
        least.append(where.total)
        trigger = answer.trigger
        if answer.question == "hang" and trigger is not None and not scene.case.has(trigger, Mark.HANG):
            # The line of a late rank, whose it is by what it speaks of.
            seen |= set(answer.culprits.ranks)
    return Present(seen=tuple(sorted(seen)), at_least=max(least))


def counted(scene: Scene, answer: Answer) -> Present:
    """As `present`; where the number of ranks is stated, those seen are the ones that are not called silent."""
    here, complete = present(scene, answer), scene.complete
    world = complete.expected
    if world is None:
        return here
    said = (rank for rank, _ in answer.said)
    seen = {*complete.seen, *stepped(scene), *(r for r in (*left_by(scene), *said) if r < world)}
    return Present(
        seen=tuple(sorted(seen)),
        at_least=here.at_least,
        silent=tuple(r for r in complete.silent if r not in seen),
    )


def stepped(scene: Scene) -> set[GlobalRank]:
    """Ranks whose steps are here: a rank that only trains prints nothing else, and is there all the same."""
    world = scene.complete.expected
    who = {(s.rank, s.source) for s in scene.case.seen.progress}
    ranks = (scene.roster.rank_of(Who(rank=rank), source, {}) for rank, source in who)
    return {r for r in ranks if r is not None and r < (MOST if world is None else world)}


def left_by(scene: Scene) -> frozenset[GlobalRank]:
    """Ranks of which a dump or a stack is here: something of them is seen, though no line of a log may be."""
    seen = scene.case.seen
    stacks = (scene.roster.rank_of(d.who, d.begin.source, {}) for d in seen.stacks if d.main is not None)
    dumps = (d.rank for d in seen.dumps)
    return frozenset(r for r in (*stacks, *dumps) if r is not None)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < len(str(MOST)) else None


def _by_folder(scene: Scene) -> set[GlobalRank]:
    """Ranks by the folders of a launcher on one machine, where a local rank is the rank."""
    found = [m for s in scene.case.seen.sources if (m := _FOLDER.search(s.path)) is not None]
    if len({m[1] for m in found}) != 1 or len(scene.complete.hosts) > 1 or (scene.complete.expected_nodes or 1) > 1:
        return set()
    ranks = {GlobalRank(int(m[2])) for m in found}
    world = scene.complete.expected
    # Of several machines only some folders may be here: then ranks beyond their number were stated.
    if any(r > max(ranks) for r in scene.complete.seen) or (world is not None and world > len(ranks)):
        return set()
    return ranks


def shared(scene: Scene, answer: Answer) -> bool:
    """Whether nobody is named because the fault lies in what all share, and not because no line tells whose it is."""
    if answer.culprits.anybody or answer.failed is not True or answer.category is Category.UNKNOWN:
        return False
    if answer.category is Category.COLLECTIVE_MISMATCH:
        return False  # some ranks differed from others: which were wrong is not known
    if answer.rivals and not answer.first_failed.ranks and answer.question == "first_fault":
        return False  # several faults that nothing orders: whose was the first is not known
    if answer.question == "exit_hang" or answer.classes.scope in {Scope.ALL, Scope.EXTERNAL}:
        return True
    if answer.question == "hang":
        return answer.category is Category.NETWORK
    event = answer.trigger if answer.fault is None else answer.fault
    if event is None or nature_of(scene.case, event).role is not Role.CAUSE:
        return False
    nature = nature_of(scene.case, event)
    # Of an exception that no signature knows, or of which one says no more than what it may be, one rank's alone, nobody
    # knows whether all would raise it.
    sure = nature.strength is not Strength.POSSIBLE and not nature.key.startswith(("python.", CPP))
    known = sure and nature.blame in {Blame.NOBODY, Blame.STORE}
    return known or len(answer.first_failed.ranks) > 1
