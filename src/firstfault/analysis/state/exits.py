"""Exits that launchers and schedulers report: which processes ended by themselves, and which were told to.

A fold over lines and lists of exits; it does not say why.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.analysis.order import comparable, exact, sort_key
from firstfault.model.evidence import Event, GlobalRank, When
from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from firstfault.analysis.state.ranks import Roster
    from firstfault.model.evidence import Failure, SourceId

SIGNALS = {"SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGILL": 4, "SIGTRAP": 5, "SIGABRT": 6, "SIGBUS": 7, "SIGFPE": 8,
           "SIGKILL": 9, "SIGUSR1": 10, "SIGSEGV": 11, "SIGUSR2": 12, "SIGPIPE": 13, "SIGALRM": 14, "SIGTERM": 15,
           "SIGXCPU": 24}  # fmt: skip
SPOKEN = {"hangup": 1, "interrupt": 2, "illegal instruction": 4, "aborted": 6, "bus error": 7, "floating point exception": 8,
          "killed": 9, "user defined signal 1": 10, "segmentation fault": 11, "user defined signal 2": 12, "terminated": 15}  # fmt: skip
TOLD = frozenset({1, 2, 10, 12, 15})
"""Signals by which somebody tells a process to stop; schedulers warn by USR1 or USR2 before a limit."""
SIGABRT = 6
OWN_CRASH = frozenset({4, 6, 7, 8, 11})
"""Signals that a process brings on itself."""
POLL = 5.0
"""Seconds between two looks of torch's agent at its processes, in the versions that look least often."""
MOST_TASKS = 100_000
"""Numbers taken from one list: a longer one is damage, and each number costs memory."""
PLAIN = 19
"""Digits of a number that needs no second look."""
_INTEGER = lazy(r"-?[0-9]{1,19}")
_RANGE = lazy(r"(\d+)(?:-(\d+))?")


class Exit(Struct, frozen=True, kw_only=True, gc=False):
    """One process (or task) that is reported to have ended badly."""

    rank: GlobalRank | None
    host: str | None
    signal: int | None
    """By which it ended; None where it exited by itself or it is not said."""
    event: Event | None = None
    when: When = When()

    @property
    def own(self) -> bool:
        """Whether it ended by an error of its own: neither told to stop nor killed."""
        return self.signal is None or self.signal not in TOLD | {9}


def of_a_task(event: Event) -> bool:
    """Whether a line is a scheduler's word on a task, a step or a node: it names their machine, not its speaker's."""
    host = event.who.host
    return host is not None and event.signature.startswith("slurm.") and event.fields.get("host") == host


@lru_cache(maxsize=1 << 16)
def integer(text: str | None) -> int | None:
    """A field as a whole number; None where it is missing or is none."""
    if text is None:
        return None
    if len(text) < PLAIN and text.isascii() and text.isdigit():
        return int(text)
    return int(text) if _INTEGER.fullmatch(text) else None


def count_of(fields: Mapping[str, str], name: str) -> int | None:
    """A number, 0 or more, that a field holds; None where it holds none."""
    value = integer(fields.get(name))
    return value if value is not None and value >= 0 else None


def signal_of(event: Event) -> int | None:
    """Signal by which a process is reported to have ended; None where it exited by itself or it is not said."""
    name = event.fields.get("signal", "")
    upper = name.upper()
    if upper in SIGNALS:
        return SIGNALS[upper]
    if f"SIG{upper}" in SIGNALS:
        return SIGNALS[f"SIG{upper}"]
    spoken = SPOKEN.get(name.lower().removesuffix(" (core dumped)").strip())
    if spoken is not None:
        return spoken
    number = integer(name)
    if number is not None:
        return number
    return signal_of_code(event.fields.get("exit_code", ""))


def signal_name(number: int) -> str:
    """`SIGKILL` for 9; `signal 42` for a number without a name here."""
    return next((name for name, known in SIGNALS.items() if known == number), f"signal {number}")


def signal_of_code(code: str) -> int | None:
    """Signal number in an exit code: `-9`, `137`, `0:9`; None where there is none."""
    if ":" in code:
        status, _, by = code.partition(":")
        code = f"-{by}" if by.isdecimal() and int(by) > 0 else status
    number = integer(code)
    if number is None:
        return None
    if -64 <= number < 0:
        return -number
    return number - 128 if 128 < number <= 128 + 64 else None


def numbers(text: str) -> list[int]:
    """Numbers of a list such as `3,8-15`; a range with which the list would be too long is left out."""
    found: list[int] = []
    for low, high in _RANGE.findall(text):
        last = int(high) if high else int(low)
        if last - int(low) + len(found) < MOST_TASKS:
            found.extend(range(int(low), last + 1))
    return found


def tasks_of(event: Event) -> list[int]:
    """Task numbers that a line about task exits names."""
    return numbers(event.fields.get("tasks") or event.fields.get("task") or "")


def tasks_told(deaths: Iterable[Event]) -> dict[SourceId, set[int]]:
    """Tasks whose end is reported, by source: where they are several, it is the launcher's file and no task's own."""
    told: dict[SourceId, set[int]] = {}
    for event in deaths:
        told.setdefault(event.span.source, set()).update(tasks_of(event))
    return told


def exits(roster: Roster, deaths: Iterable[Event], failures: Iterable[Failure]) -> tuple[Exit, ...]:
    """All reported exits, those with a line first in order of time."""
    found: list[Exit] = []
    for event in sorted(deaths, key=sort_key):
        signal = signal_of(event)
        host = event.fields.get("host") or event.who.host
        tasks = tasks_of(event)
        if tasks and roster.tasks_are_ranks:
            found.extend(
                Exit(rank=GlobalRank(t), host=host, signal=signal, event=event, when=event.when) for t in tasks
            )
        else:
            found.append(Exit(rank=roster.rank(event), host=host, signal=signal, event=event, when=event.when))
    for failure in failures:
        code = failure.exit_code
        rank = roster.rank_of(failure.who, failure.span.source, {})
        by = None if code is None else signal_of_code(str(code))
        found.append(Exit(rank=rank, host=failure.who.host, signal=by, when=failure.when))
    return tuple(found)


def turns(exits: Iterable[Exit], stops: Iterable[Event]) -> dict[GlobalRank, int]:
    """The turn in which the tasks of ranks exited by an error of their own, 0 for the first, as srun reported them.

    One srun writes down the end of each task as it comes, which needs no clock. Empty where several speak, or where a task was
    killed, or all were told to stop, before the first such exit.

    Args:
        exits: all that are reported.
        stops: lines that say that somebody ordered the job to stop.
    """
    told = [
        (e, e.event)
        for e in exits
        if e.event is not None and e.event.signature.startswith("slurm.task_") and e.signal not in TOLD
    ]
    if len({event.span.source for _, event in told}) != 1:
        return {}
    told.sort(key=lambda pair: pair[1].span)
    start = told[0][1].span
    if not told[0][0].own or any(s.span.source == start.source and s.span < start for s in stops):
        return {}
    lines = sorted({event.span for _, event in told})
    found: dict[GlobalRank, int] = {}
    for one, event in told:
        if one.own and one.rank is not None:
            found.setdefault(one.rank, lines.index(event.span))
    return found


def earliest(own: Sequence[Exit]) -> list[Exit]:
    """Those of some exits that no other clearly came before, where every rank's exit has a time; else all of them.

    Each node's launcher looks at its processes now and then, so exits less than `POLL` apart have no order; but a rank
    that exited by an error before another aborted itself did not wait for it.
    """
    ranks = {e.rank for e in own if e.rank is not None}
    timed = [e for e in own if e.rank is not None and exact(e.when) and e.when.earliest is not None]
    if {e.rank for e in timed} != ranks or not timed or any(not comparable(e.when, timed[0].when) for e in timed):
        return list(own)
    at: dict[GlobalRank | None, float] = {}
    for one in timed:
        at[one.rank] = min(at.get(one.rank, one.when.earliest or 0.0), one.when.earliest or 0.0)
    start = min(at.values())
    kept = {r for r, when in at.items() if when - start <= POLL}
    plain = [at[e.rank] for e in timed if e.signal is None and e.rank in kept]
    if plain:
        aborted = {e.rank for e in timed if e.signal == SIGABRT}
        kept -= {r for r in aborted if at[r] >= min(plain) + 1.0}
    return [e for e in own if e.rank is None or e.rank in kept]
