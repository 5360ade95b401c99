"""Which faults came only after the job had been told to stop from outside: these follow from the order, whatever they say.

Processes that leave one after another break the links of those that stay: peers report a lost link, a lost GPU, a failed
collective. Says nothing of why the job was told to stop, and excuses nothing that may be the reason for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.beside_waits import CLEARLY
from firstfault.analysis.clocks import order, reading
from firstfault.analysis.order import comparable, exact
from firstfault.analysis.state.attempts import GRACE, STEPS
from firstfault.analysis.suspects import MACHINES
from firstfault.model.words import Category, Domain, Mark, Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from firstfault.analysis.scene import Scene
    from firstfault.analysis.suspects import Suspect
    from firstfault.model.evidence import Event

UPON_STOP = "it came only after the job had been told to stop"
"""What is said of such a fault."""
OUTLIVED = "the job made steps for long after it"
"""What is said of an order to stop that it was not that ended the job."""
_FOLLOWS = frozenset(
    {
        Category.GPU_CUDA,
        Category.NETWORK,
        Category.SOFTWARE,
        Category.DATA,
        Category.COLLECTIVE_MISMATCH,
        Category.DATA_LOADING_STALL,
    }
)
"""What the end of peers can look like. A scheduler, a kernel that kills for memory, or a store may be why it was told to stop."""


def upon_stop(scene: Scene, suspects: Sequence[Suspect]) -> tuple[Suspect, ...]:
    """The suspects that clearly came after an order to stop from outside the job; none where nothing orders them.

    A machine's line on a clock that nothing joins goes with the errors of the job that it brought about: a lost link or
    device is met at once by the processes on it, so that they would have failed before the order too.
    """
    orders = _from_outside(scene)
    able = [s for s in suspects if s.nature.category in _FOLLOWS and s.nature.domain is not Domain.MEMORY]
    able = [s for s in able if not s.ordered]
    late = [s for s in able if any(_after(scene, o, s) for o in orders)]
    early = [s for s in suspects if s not in late]
    met = [
        s for s in early if s in able and s.first.signature.split(".", 1)[0] in MACHINES and _brought(scene, s, late)
    ]
    met = [
        s
        for s in met
        if all(order(s.first, s.clock, o, reading(scene.roster, o)) is not True for o in orders)
        and not any(o not in met and _brought(scene, s, [o]) for o in early if o is not s)
    ]
    return (*late, *met, *_on_the_way_out(scene, [s for s in suspects if s not in late and s not in met]))


def outlived(scene: Scene, suspects: Sequence[Suspect]) -> tuple[Suspect, ...]:
    """Orders to stop after which steps went on for longer than any grace time, until a fault of another kind ended them.

    They ended another step of the job, or were not carried out. A link or a peer that was lost in the end is no such fault:
    that is how an order is met in the end.
    """
    own = [s for s in suspects if not s.ordered and s.nature.fatal and s.nature.category is not Category.NETWORK]
    return tuple(
        s
        for s in suspects
        if s.ordered and own and all(any(_made_steps(scene, e, o.first) for o in own) for e in s.events)
    )


def _made_steps(scene: Scene, stop: Event, fault: Event) -> bool:
    """Whether a file shows steps for longer than a grace time between an order to stop and a fault below it."""
    track = scene.case.tracks.get(stop.span.source)
    if track is None or fault.span.source != stop.span.source:
        return False
    between = [s.when for s in track.samples if stop.span.offset < s.offset < fault.span.offset and exact(s.when)]
    above = track.before(stop.span.offset)
    told = stop.when if exact(stop.when) else None if above is None else above.when
    if told is None or len(between) < STEPS or not comparable(told, between[-1]):
        return False
    return (between[-1].earliest or 0.0) - (told.latest or 0.0) > GRACE


def _on_the_way_out(scene: Scene, suspects: Sequence[Suspect]) -> tuple[Suspect, ...]:
    """Errors of which every line stands below the one with which its own process says that it was told to stop.

    Whatever they are: the process had its order before. Only where somebody from outside is known to have given one, since a
    launcher gives it too, when another process has failed.
    """
    obeyed = scene.marked(Mark.OBEYS)
    if not obeyed or not any(s.ordered for s in suspects):
        return ()
    rooms = MACHINES - {"launcher"}
    return tuple(
        s
        for s in suspects
        if not s.ordered
        and s.first.signature.split(".", 1)[0] not in rooms
        and all(any(_of_one_process(scene, told, e) for told in obeyed) for e in s.events)
    )


def _of_one_process(scene: Scene, told: Event, event: Event) -> bool:
    """Whether a line stands below another of the same rank, in one file."""
    if told.span.source != event.span.source or told.span.offset >= event.span.offset:
        return False
    rank = scene.roster.rank(event)
    return rank is not None and scene.roster.rank(told) == rank


def _brought(scene: Scene, machine: Suspect, errors: Iterable[Suspect]) -> bool:
    """Whether a machine's line is about what brought one of some errors about: known as its reason, or of the same device's kind."""
    name = machine.first.signature
    return any(
        bool(set(machine.hosts) & set(e.hosts))
        and (machine.nature.category is e.nature.category or scene.case.library.explains(name, e.first.signature))
        for e in errors
    )


def _from_outside(scene: Scene) -> list[Event]:
    """Lines of a launcher's agent that it was itself told to stop; what it then tells its own processes is no such line."""
    return [
        e
        for e in scene.teardown
        if scene.case.has(e, Mark.STOP_SIGNAL)
        and scene.case.has(e, Mark.OUTSIDE)
        and scene.case.role(e) is Role.TEARDOWN
    ]


def _after(scene: Scene, told: Event, suspect: Suspect) -> bool:
    event, clock = suspect.first, reading(scene.roster, told)
    if order(told, clock, event, suspect.clock) is not True:
        return False
    if told.span.source != event.span.source and (clock.machine is None or clock.machine != suspect.clock.machine):
        # Another machine, or another start of the job, that was told nothing.
        return False
    if exact(told.when) and exact(event.when) and comparable(told.when, event.when):
        return (event.when.earliest or 0.0) - (told.when.earliest or 0.0) > CLEARLY
    return told.span.source == event.span.source
