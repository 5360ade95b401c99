"""Faults held against a wait by their times: whether one came behind it, or too long before it, to be its reason.

By the clock of the machine that stamped a fault, where a line of the wait is stamped by it too. Must not choose between faults.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.clocks import Reading, elsewhere, order
from firstfault.analysis.order import comparable, exact, first
from firstfault.analysis.suspects import MACHINES, Suspect
from firstfault.analysis.zones import shifted_into
from firstfault.model.evidence import Event
from firstfault.model.words import Scope, SourceKind

if TYPE_CHECKING:
    from firstfault.analysis.case import Case
    from firstfault.analysis.hangs import Hang
    from firstfault.model.evidence import When

CLOCK_SLACK = 120.0
"""Seconds by which clocks of different logs may differ before a stated cause is held to be too late."""
GOES_ON = 3600.0
"""Seconds before a wait within which what befell one machine can have kept its ranks from coming: longer than ranks stay apart."""
SHORTLY = 300.0
"""The same where it takes another zone to bring the line there: zones lie an hour apart, so that much fits by chance."""
CLEARLY = 1.0
"""Seconds between two stamped lines from which on their order counts."""


class Opening(Struct, frozen=True, kw_only=True):
    """The first line of a wait, on each clock by which one is stamped."""

    clock: Reading = Reading()
    """Of the first line of all."""
    there: dict[str, Event] = {}
    """Machine -> the first line that is stamped by its clock; the machine of the first line of all may be missing."""

    def for_(self, suspect: Suspect, hang: Hang) -> tuple[Event, Reading]:
        """The first line by the clock that stamped a suspect, else the first of all; and the clock of it."""
        machine = suspect.clock.machine
        own = None if machine is None or not elsewhere(suspect.clock, self.clock) else self.there.get(machine)
        return (hang.first, self.clock) if own is None else (own, suspect.clock)


def after_the_hang(suspect: Suspect, hang: Hang | None, opening: Opening) -> bool:
    """Whether a suspect spoke only after somebody had already waited too long."""
    if hang is None:
        return False
    event = suspect.first
    told, clock = opening.for_(suspect, hang)
    if elsewhere(suspect.clock, clock):
        return order(told, clock, event, suspect.clock) is True
    began = hang.detected if told is hang.first else told.when.earliest
    if exact(event.when) and began is not None and comparable(event.when, told.when):
        return (event.when.earliest or 0.0) > began + CLEARLY
    return first(told, event) is True


def at_no_known_time(suspect: Suspect, hang: Hang | None, opening: Opening) -> bool:
    """Whether a stamp is missing, of a suspect or of the wait, and nothing else tells that the suspect came first.

    A kernel log reaches back for days, and a machine that nobody uses any more may still lose a card.
    """
    if hang is None:
        return False
    told, _ = opening.for_(suspect, hang)
    stamped = exact(suspect.first.when) and exact(told.when)
    return not stamped and first(suspect.first, told) is not True


def behind_by(suspect: Suspect, hang: Hang, opening: Opening) -> float:
    """Seconds by which a suspect was told after the first time-out of a hang; 0 where times do not say."""
    when = suspect.first.when
    told, _ = opening.for_(suspect, hang)
    began = hang.detected if told is hang.first else told.when.earliest
    if began is None or when.earliest is None or not exact(when) or not comparable(when, told.when):
        return 0.0
    return when.earliest - began


class Early(Enum):
    """Why a machine's line that came long before a wait is not its reason."""

    BY_FAR = "by far"
    """On whichever zones the two clocks are."""
    BY_ZONE = "by zone"
    """As its clock is read; in another zone that exists it would lie in the wait."""


def early_by(case: Case, suspect: Suspect, hang: Hang | None, opening: Opening) -> Early | None:
    """Whether a machine's line came so long before a wait that it is no reason for it; None where it did not.

    Whoever waits had come to the collective, and so had all ranks to the one before it: until shortly before the wait they went on.
    """
    if hang is None or hang.began is None or hang.detected is None or not of_a_machine(case, suspect):
        return None
    when, (told, _) = suspect.first.when, opening.for_(suspect, hang)
    if when.latest is None or told.when.earliest is None or not exact(when):
        return None
    waited = hang.detected - hang.began
    if not comparable(when, told.when):
        # One clock states its zone and the other none: what no zone at all brings near the wait is no reason for it.
        if not _zone_alone(when, told.when) or when.latest > (hang.began if told is hang.first else told.when.earliest):
            return None
        began = hang.began if told is hang.first else told.when.earliest - waited
        near = shifted_into(when.latest - began, -GOES_ON, waited + CLOCK_SLACK) or began - when.latest <= GOES_ON
        return None if near else Early.BY_FAR
    began = hang.began if told is hang.first else told.when.earliest - waited
    if began - when.latest <= GOES_ON:
        return None
    if when.zone is not None or suspect.first.span.source == told.span.source:
        return Early.BY_FAR
    return Early.BY_ZONE if shifted_into(when.latest - began, -SHORTLY, waited + CLOCK_SLACK) else Early.BY_FAR


def _zone_alone(a: When, b: When) -> bool:
    """Whether two dated times are not of one clock only because one states its zone and the other does not."""
    return a.dated and b.dated and a.yeared == b.yeared and (a.zone is None) != (b.zone is None)


def order_alone(suspect: Suspect) -> bool:
    """Whether a suspect is somebody's order to stop and nothing else, written when it was given; a lost node is told late."""
    return suspect.ordered and suspect.nature.scope is Scope.EXTERNAL


def of_a_machine(case: Case, suspect: Suspect) -> bool:
    """Whether a machine's or a platform's log tells of it, whatever it is about."""
    event = suspect.first
    return event.signature.split(".", 1)[0] in MACHINES or case.kind_of.get(event.span.source) is SourceKind.KERNEL


def long_after(case: Case, suspect: Suspect, hang: Hang | None, opening: Opening) -> bool:
    """Whether a suspect came so long after a time-out that it cannot be why somebody had waited.

    An order to stop is written when it is given. A machine's clock may be in another zone than the job's: its line is
    excluded where no difference of zones brings it into the wait.
    """
    if hang is None or not after_the_hang(suspect, hang, opening):
        return False
    if order_alone(suspect):
        return True
    behind, (told, clock) = behind_by(suspect, hang, opening), opening.for_(suspect, hang)
    if behind <= CLOCK_SLACK or elsewhere(suspect.clock, clock) or not of_a_machine(case, suspect):
        return False
    if suspect.first.when.zone is not None or suspect.first.span.source == told.span.source:
        return True
    wait = CLOCK_SLACK if hang.began is None or hang.detected is None else hang.detected - hang.began + CLOCK_SLACK
    return not shifted_into(behind, -wait, CLOCK_SLACK)
