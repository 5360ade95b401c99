"""Which suspect is the first fault: what explains what, what is left, and how sure that is.

"Explains" is no order of all suspects: it need not hold between two of them in either direction, and it may run in a
circle. So the root is found in two steps that depend on nothing but the suspects themselves: those that no other explains
are left (all of them where a circle leaves nobody), and of these the deepest is taken, of equally deep ones the best proven,
of equally proven ones the first where lines or clocks tell it. Names and order of files decide nothing.
What is left beside the root is a rival; a fatal one makes the answer a possibility (see `sureness`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.beside_waits import (
    CLEARLY,
    CLOCK_SLACK,
    Early,
    Opening,
    after_the_hang,
    behind_by,
    early_by,
    long_after,
    order_alone,
)
from firstfault.analysis.clocks import elsewhere, order
from firstfault.analysis.devices import from_outside, other_device
from firstfault.analysis.order import comparable, exact, first
from firstfault.analysis.same_line import said_with, same_line
from firstfault.analysis.suspects import EXCEPTIONS, Suspect, mentioned
from firstfault.model.lazy import lazy
from firstfault.model.words import Blame, Category, Domain, Mark, Strength

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.analysis.case import Case
    from firstfault.analysis.hangs import Hang
    from firstfault.model.evidence import When

NEAR = 200
"""Lines: unstamped events of one source nearer than this are one burst, in which depth decides."""
STOPPED = frozenset({-15, -2, -9, 143, 130, 137, None})
"""Exit codes of a process that somebody may have stopped."""
BURST = 60.0
"""Seconds between the stamps around two lines from which on these are not of one burst, however near they stand."""
SHORT = 10.0
"""The same where the earlier of the two is a traceback between stamps that are no more than `CLOSE` apart: a line that a
program logs may be of an error that it deals with."""
CLOSE = 5.0
_OWN = frozenset({Category.GPU_CUDA, Category.SOFTWARE, Category.DATA, Category.STORAGE_IO})
"""Categories of errors that end the process that meets them first; a lost peer or a wait is told by those who live on."""
BARE = frozenset({"RuntimeError", "Exception", "SystemExit"})
"""Exceptions whose class says no more than that something failed."""
_NO_DEVICE = frozenset({Category.SOFTWARE, Category.DATA, Category.STORAGE_IO})
"""Categories of errors that no device which fails brings about in a program."""
_LEVEL = lazy(r"\b(?:ERROR|FATAL|CRITICAL)\b")


class Choice(Struct, frozen=True, kw_only=True):
    """The chosen root, what follows from it, and what could not be ruled out."""

    root: Suspect
    why: str
    """By what it was chosen."""
    explained: tuple[tuple[Suspect, str], ...] = ()
    """Suspects that follow from the root, each with the reason."""
    rivals: tuple[Suspect, ...] = ()
    undated: tuple[Suspect, ...] = ()
    """Rivals of any time (see `_of_any_time`): these do not take from the rank what its own error says."""
    behind: tuple[Suspect, ...] = ()
    """Those that the clocks, as they are read, put behind the wait that the root would explain, or long before it."""

    @property
    def late(self) -> bool:
        """Whether the root is one of those that the clocks put behind the wait."""
        return self.is_behind(self.root)

    def is_behind(self, suspect: Suspect) -> bool:
        """Whether the clocks put a suspect behind the wait."""
        return any(s is suspect for s in self.behind)

    @property
    def contested(self) -> bool:
        """Whether another fault is as near to the root, and nothing but its place made this one the choice."""
        return any(
            r.nature.depth >= self.root.nature.depth and precedes(self.root, r) is None
            for r in self.rivals
            if all(r is not u for u in self.undated)
        )


def choose(case: Case, suspects: Sequence[Suspect], hang: Hang | None, opening: Opening | None = None) -> Choice | None:
    """Chooses the first fault among suspects; None where there are none.

    The answer does not depend on the order in which suspects are given.

    Args:
        case: of the attempt.
        suspects: all that may be the first fault.
        hang: the wait of others, where somebody waited too long.
        opening: by which clocks the first lines of the hang are stamped.
    """
    opening = opening or Opening()
    ordered = sorted(suspects, key=_rank)
    early = {id(s): e for s in ordered if (e := early_by(case, s, hang, opening)) is not None}
    candidates = [s for s in ordered if id(s) not in early and not after_the_hang(s, hang, opening)]
    if not candidates:
        candidates = [s for s in ordered if early.get(id(s)) is Early.BY_ZONE]
    if not candidates:
        # Lines that only seem to come behind the wait, since clocks differ, may still tell of its reason.
        candidates = [s for s in ordered if id(s) not in early and not long_after(case, s, hang, opening)]
    if not candidates:
        return None
    reasons: dict[str, str] = {}
    left: list[Suspect] = []
    for suspect in candidates:
        by = next((r for o in candidates if o is not suspect and (r := explains(case, o, suspect)) is not None), None)
        if by is None:
            left.append(suspect)
        else:
            reasons[suspect.nature.key] = by
    left = left or candidates
    loose = [s for s in left if _of_any_time(case, s, candidates)]
    root = _foremost(_telling(case, [s for s in left if s not in loose] or left, candidates))
    explained = []
    rivals: list[Suspect] = []
    for suspect in ordered:
        if suspect is root:
            continue
        why = explains(case, root, suspect)
        if why is not None:
            explained.append((suspect, why))
        elif suspect.nature.key in reasons:
            explained.append((suspect, reasons[suspect.nature.key]))
        elif same_fault(root, suspect):
            explained.append((suspect, "it tells of the same fault"))
        elif after_the_hang(suspect, hang, opening):
            explained.append((suspect, "it was said only after the watchdogs had begun to end the job"))
        elif early.get(id(suspect)) is Early.BY_FAR:
            explained.append((suspect, "it came long before the wait, and all ranks had gone on until then"))
        elif not any(same_line(r, suspect) for r in rivals):
            rivals.append(suspect)
    return Choice(
        root=root,
        why=_why(root, explained, rivals),
        explained=tuple(explained),
        rivals=tuple(rivals),
        undated=tuple(r for r in rivals if r in loose),
        behind=tuple(
            s for s in ordered if id(s) in early or (hang is not None and behind_by(s, hang, opening) > CLOCK_SLACK)
        ),
    )


def same_fault(root: Suspect, suspect: Suspect) -> bool:
    """Whether two suspects of one category, that nothing orders, are of one line, rank or host: lines about one thing."""
    if suspect.nature.category is not root.nature.category or precedes(root, suspect) is not None:
        return False
    return same_line(root, suspect) or bool(
        set(root.everyone) & set(suspect.everyone) or set(root.hosts) & set(suspect.hosts)
    )


def _of_any_time(case: Case, suspect: Suspect, others: Sequence[Suspect]) -> bool:
    """Whether a kernel's line without a time, of any day since its machine started, explains nothing that was raised.

    Beside it a rank raised an error that says itself what went wrong, and that no device brings about.
    """
    event = suspect.first
    if not event.signature.startswith("kernel.") or event.exception is not None or event.when.earliest is not None:
        return False
    if any(case.library.explains(_plain(suspect), _plain(o)) for o in others if o.first.exception is not None):
        return False
    return any(_says_itself(o) for o in others)


def _says_itself(suspect: Suspect) -> bool:
    exception = suspect.first.exception
    if exception is None or not exception.frames or not suspect.everyone or not exception.message.strip():
        return False
    return exception.kind.rsplit(".", 1)[-1] not in BARE and suspect.nature.category in _NO_DEVICE


def _rank(suspect: Suspect) -> tuple[int, int, str]:
    """Sort key of suspects that nothing orders: depth, then strength; the key of their kind only makes it total."""
    return (-suspect.nature.depth, -suspect.nature.strength.level, suspect.nature.key)


def _foremost(left: Sequence[Suspect]) -> Suspect:
    """The deepest suspect, of these the best proven; of equal ones that came first where lines or clocks tell it at all.

    The best proven stands for the claim, so that a claim without its own lines is never surer than with them.
    """
    ordered = sorted(left, key=_rank)
    best = ordered[0]
    for suspect in ordered[1:]:
        if (
            _rank(suspect)[:2] == _rank(best)[:2]
            and order(suspect.first, suspect.clock, best.first, best.clock) is True
        ):
            best = suspect
    return best


def _telling(case: Case, left: Sequence[Suspect], others: Sequence[Suspect]) -> Sequence[Suspect]:
    """All but faults of a device that cannot have brought about what ended a program, where another fault can, or is just that."""
    raised = [o for o in others if o.nature.fatal and not from_outside(o)]
    known = [s for s in left if any(case.library.explains(_plain(s), _plain(o)) for o in raised)]
    told = known or [s for s in left if s in raised]
    beside = [s for s in left if s not in told and told and all(other_device(s, t) for t in told)]
    return [s for s in left if s not in beside]


def _why(root: Suspect, explained: Sequence[tuple[Suspect, str]], rivals: Sequence[Suspect]) -> str:
    """By what a root was chosen, as far as it is true: being the earliest line is said only where it is."""
    others = [s for s, _ in explained] + list(rivals)
    if not others:
        return "no other line of this failure names a cause"
    if any(by_exits_alone(root, s) for s in others) and not rivals:
        return "its process was the first that ended by an error of its own"
    if all(precedes(root, s) for s in others):
        return "it is the earliest line that shows the root cause"
    unordered = [r for r in rivals if precedes(root, r) is None]
    if any(r.nature.depth >= root.nature.depth for r in unordered):
        return "it is one of several faults that nothing orders; another of them may be the first"
    if unordered:
        return "it is nearer to the root than the faults that nothing orders before or after it"
    return "the other errors follow from it, or came later"


def related(a: Suspect, b: Suspect) -> bool:
    """Whether two suspects can have to do with each other: a common rank or host, or a fault that is everywhere."""
    if a.nature.blame in {Blame.NOBODY, Blame.STORE}:
        return True
    if set(a.everyone) & set(b.everyone):
        return True
    if set(a.hosts) & set(b.hosts):
        return True
    return not a.hosts or not b.hosts


def explains(case: Case, cause: Suspect, effect: Suspect) -> str | None:
    """Why `effect` follows from `cause`; None where it does not, or where that cannot be told."""
    before = precedes(cause, effect)
    if said_with(cause, effect):
        return "the same line says it, and more exactly what went wrong"
    if said_with(effect, cause):
        return None
    if case.library.explains(_plain(cause), _plain(effect)) and related(cause, effect):
        if before is not False or not _much_later(cause, effect):
            return f"{cause.nature.title} is a known reason for it"
        return None
    if case.library.explains(_plain(effect), _plain(cause)) and related(cause, effect):
        return None
    if raised_upon(case, cause, effect):
        return "its program logged that and raised this right below it"
    if raised_upon(case, effect, cause):
        return None
    if of_its_own(case, cause) and from_outside(effect) and _ended_above(case, cause, effect):
        return "its process had ended by itself before that was told"
    if of_its_own(case, effect) and from_outside(cause) and _ended_above(case, effect, cause):
        return None
    if before is not False and _took_the_peer(case, cause, effect):
        return "a machine or process that fails stops answering its peers"
    if effect.ordered and not cause.ordered and cause.nature.fatal and _over_before(case, effect):
        return "the job had ended before it was told to stop"
    if cause.ordered and not effect.ordered and effect.nature.fatal and _over_before(case, cause):
        return None
    if before is not False and effect.ordered and _stood_still(case, cause, effect):
        return "the job made no step after it until it was told to stop"
    if before is not True and cause.ordered and _stood_still(case, effect, cause):
        return None
    if mentioned(case, effect.first) and not mentioned(case, cause.first) and cause.first.exception is not None:
        return "its program only mentioned it and went on; this exception ended it"
    if mentioned(case, cause.first) and not mentioned(case, effect.first) and effect.first.exception is not None:
        return None
    if other_device(cause, effect):
        return None
    if before is True:
        return _later(cause, effect)
    if order_alone(effect) and of_its_own(case, cause) and _above(cause, effect):
        return "its program had failed before it was told to stop"
    if before is None and of_its_own(case, effect) and from_outside(cause):
        return None
    if before is None and cause.nature.depth > effect.nature.depth and _one_failure(case, cause, effect):
        return "it is a consequence of the same failure, further from its root"
    return None


def of_its_own(case: Case, suspect: Suspect) -> bool:
    """Whether a fault is one that a program meets by itself: an exception of its logic, or more memory asked than there is."""
    if suspect.ordered or not suspect.nature.fatal:
        return False
    exception = suspect.first.exception
    if suspect.nature.domain is Domain.MEMORY and suspect.nature.category is Category.GPU_CUDA:
        return True
    row = None if exception is None else case.library.row(EXCEPTIONS, exception.kind.rsplit(".", 1)[-1])
    return row is not None and Mark.OWN_LOGIC in row.marks


def _ended_above(case: Case, own: Suspect, outside: Suspect) -> bool:
    """Whether a file reports the exit of the process of an error above the line of a machine or a scheduler.

    Who writes such a file writes down what comes as it comes, with or without a time. A task's number that is none of the
    ranks with the error tells of another process.
    """
    told = outside.first.span
    for end in case.marked(Mark.DEATH):
        code, task = end.fields.get("exit_code", ""), end.fields.get("task", "")
        if end.span.source != told.source or end.span.line >= told.line or not code.isdecimal():
            continue
        itself = int(code) not in {0, *STOPPED}
        if itself and (not own.everyone or not task.isdecimal() or int(task) in own.everyone):
            return True
    return False


def _above(a: Suspect, b: Suspect) -> bool:
    """Whether the first line of one stands above all those of the other in its file, where there are any."""
    one, others = a.first.span, [e.span.line for e in b.events if e.span.source == a.first.span.source]
    return bool(others) and one.line < min(others)


def raised_upon(case: Case, line: Suspect, raised: Suspect) -> bool:
    """Whether a program logged a fatal error and then raised an exception that names no reason of its own.

    The traceback has to begin right below the line, so that nothing went on in between; an exception that says more than
    that something failed (a key, a path, a value) is an error of its own, however near it stands.
    """
    event, exception = line.first, raised.first.exception
    if (
        exception is None
        or event.exception is not None
        or not mentioned(case, event)
        or _LEVEL.search(event.text) is None
    ):
        return False
    if not line.nature.fatal or line.nature.strength.level < Strength.SUPPORTED.level:
        return False
    if not raised.nature.key.startswith("python.") or exception.kind.rsplit(".", 1)[-1] not in BARE:
        return False
    below = raised.first.span.line - event.span.line
    # A frame has its place, its source and maybe a row of carets; above them stands the heading.
    return raised.first.span.source == event.span.source and 0 < below <= 3 * len(exception.frames) + 2


def by_exits_alone(a: Suspect, b: Suspect) -> bool:
    """Whether `a` is held to have come before `b` because its process ended before, and no time and no place says it."""
    return _by_exits(a, b) is True and _by_lines(a, b) is None


def _later(cause: Suspect, effect: Suspect) -> str:
    """What is true of a suspect that came clearly later: of the same rank or host, or merely later."""
    if by_exits_alone(cause, effect):
        return "the process of the first fault had ended before its own"
    if set(cause.everyone) & set(effect.everyone):
        return "it came later, on a rank that had failed already"
    if set(cause.hosts) & set(effect.hosts):
        return "it came later, on a host that had failed already"
    if any(e.fields.get("peer_host") in cause.hosts for e in effect.events):
        return "it came later, and names a host that had failed already as its peer"
    return "it came later; nothing else ties it to the first fault"


def _one_failure(case: Case, cause: Suspect, effect: Suspect) -> bool:
    """Whether two suspects that nothing orders tell of one failure, so that the deeper one is nearer to its root.

    A common rank, or neighbouring lines of which not both are known to be of different ranks. Who only says that a peer
    went away is no origin for an error that a program raised by itself: it may be that peer's.
    """
    if set(cause.everyone) & set(effect.everyone):
        return True
    if not _near(cause, effect) or (cause.everyone and effect.everyone):
        return False
    return not (speaks_of_peer(case, cause) and effect.first.exception is not None and effect.everyone)


def speaks_of_peer(case: Case, suspect: Suspect) -> bool:
    """Whether the lines of a suspect say that a peer stopped answering: the speaker is a victim of what became of it."""
    return case.has(suspect.first, Mark.PEER_LOST) or any(e.fields.get("peer_host") for e in suspect.events)


def _took_the_peer(case: Case, cause: Suspect, effect: Suspect) -> bool:
    """Whether a machine's fault, or a kill, can be what became of the peer of which another machine says that it is silent."""
    if not speaks_of_peer(case, effect) or speaks_of_peer(case, cause) or cause.nature.depth <= effect.nature.depth:
        return False
    machines = cause.nature.category in {Category.GPU_CUDA, Category.INFRASTRUCTURE} and cause.nature.fatal
    if not machines:
        return False
    if cause.hosts and effect.hosts:
        return not set(cause.hosts) & set(effect.hosts)
    # Who says that of a peer whose machine nobody names is another process than the one that it took.
    return bool(cause.ranks) and bool(effect.ranks) and not set(cause.ranks) & set(effect.ranks)


def _over_before(case: Case, stop: Suspect) -> bool:
    """Whether a launcher reported a process that ended by itself, clearly before an order to stop."""
    told = stop.first.when
    if told.earliest is None:
        return False
    ends = [f.when.latest for f in case.seen.failures if f.exit_code not in STOPPED and comparable(f.when, told)]
    known = [e for e in ends if e is not None]
    return bool(known) and told.earliest - min(known) > BURST


def _stood_still(case: Case, error: Suspect, stop: Suspect) -> bool:
    """Whether a fault was told before an order to stop that came when no step had been made for long.

    Had the order brought it about, steps would have been made until the order: the order only ended a wait.
    """
    if not error.nature.fatal or error.ordered or first(error.first, stop.first) is False:
        return False
    return case.stood_still(stop.first) is not None


def precedes(a: Suspect, b: Suspect) -> bool | None:
    """True where the first event of `a` clearly came before that of `b`, False where after, None where not clear."""
    told = _by_lines(a, b)
    return _by_exits(a, b) if told is None else told


def _by_lines(a: Suspect, b: Suspect) -> bool | None:
    """The same by times and places of the lines."""
    ea, eb = a.first, b.first
    came = order(ea, a.clock, eb, b.clock)
    if came is None or elsewhere(a.clock, b.clock):
        return came
    if exact(ea.when) and exact(eb.when) and comparable(ea.when, eb.when):
        gap = abs((eb.when.earliest or 0.0) - (ea.when.earliest or 0.0))
        return came if gap > CLEARLY else None
    if ea.span.source == eb.span.source and abs(ea.span.line - eb.span.line) <= NEAR:
        told = order_alone(a) or order_alone(b)
        raised = ea.exception if came else eb.exception
        ended = raised is not None and not raised.ignored
        apart = (told and _apart(ea.when, eb.when, BURST)) or (ended and _apart(ea.when, eb.when, SHORT))
        return came if apart else None
    return came


def _by_exits(a: Suspect, b: Suspect) -> bool | None:
    """Which of two faults came first, by the order in which srun saw the processes end: the first that ended by itself.

    Its own error ended it. One that somebody else's end brings about in another process (a lost peer, a batch that is given
    up, since its reader has gone) ends that process later.
    """
    if a.turn is None or b.turn is None or a.turn == b.turn or 0 not in {a.turn, b.turn}:
        return None
    ended, other = (a, b) if a.turn == 0 else (b, a)
    if (
        ended.ordered
        or not ended.nature.fatal
        or ended.nature.category not in _OWN
        or from_outside(a)
        or from_outside(b)
    ):
        return None
    if comparable(ended.first.when, other.first.when) and other.first.when.before(ended.first.when):
        return None  # stamps of two machines prove no order, but these speak against it: a process may take long to end
    return ended is a


def _apart(a: When, b: When, seconds: float) -> bool:
    """Whether two intervals of one clock, open or not, lie so far from each other that they are no one burst.

    For less than `BURST` the earlier one has to stand between two stamps that are close to each other.
    """
    if not comparable(a, b) or a.earliest is None or b.earliest is None:
        return False
    before, after = (a, b) if a.earliest <= b.earliest else (b, a)
    if before.latest is None or before.earliest is None or after.earliest is None:
        return False
    close = seconds >= BURST or before.latest - before.earliest <= CLOSE
    return close and after.earliest - before.latest > seconds


def _near(a: Suspect, b: Suspect) -> bool:
    ea, eb = a.first.span, b.first.span
    return ea.source == eb.source and abs(ea.line - eb.line) <= NEAR


def _much_later(cause: Suspect, effect: Suspect) -> bool:
    a, b = cause.first.when, effect.first.when
    if elsewhere(cause.clock, effect.clock):
        return precedes(cause, effect) is False
    if not comparable(a, b) or a.earliest is None or b.latest is None:
        return first(cause.first, effect.first) is False and not _near(cause, effect)
    return a.earliest > b.latest + CLOCK_SLACK


def _plain(suspect: Suspect) -> str:
    """Signature id without the row of a vendor table or the shape of an exception."""
    return suspect.nature.key.split("#", 1)[0].split(":", 1)[0]
