"""What a check is: a name, what it is good for, and a pure function of a machine.

Must not look at anything itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from firstfault.model.checks import CheckResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from firstfault.model.checks import CheckState
    from firstfault.preflight.machine import Machine

Place = Literal["rank", "node"]
"""Whether a check may answer otherwise on each rank, or is asked once on a machine."""


class Seen(NamedTuple):
    """One answer of a check."""

    state: CheckState
    text: str
    fix: str = ""


class Check(NamedTuple):
    """One check."""

    id: str
    title: str
    """What is looked at."""
    why: str
    prevents: tuple[str, ...]
    """Signatures and recorded incidents."""
    look: Callable[[Machine], Seen | Iterable[Seen]]
    place: Place = "node"


def ok(text: str) -> Seen:
    """Nothing is wrong."""
    return Seen("ok", text)


def warn(text: str, fix: str) -> Seen:
    """Something to look at: the job may run, worse or not for sure."""
    return Seen("warn", text, fix)


def fail(text: str, fix: str) -> Seen:
    """The job would fail."""
    return Seen("fail", text, fix)


def unknown(text: str) -> Seen:
    """It cannot be looked at here; the text says why."""
    return Seen("not_checkable", text)


def run_check(check: Check, machine: Machine) -> list[CheckResult]:
    """The results of a check on a machine, one at least; a fault of ours is a check that could not be made."""
    try:
        found = check.look(machine)
        answers: Sequence[Seen] = [found] if isinstance(found, Seen) else list(found)
    except Exception as error:  # noqa: BLE001 - what we do not foresee of a machine must not stop the other checks
        answers = [unknown(f"the check itself failed: {type(error).__name__}: {error}")]
    worse = [a for a in answers if a.state in {"warn", "fail"}]
    answers = worse or list(dict.fromkeys(answers))  # what is in order beside a problem is not what anybody asks
    return [
        CheckResult(
            id=check.id,
            state=one.state,
            seen=one.text,
            fix=one.fix,
            why=check.why,
            prevents=list(check.prevents),
        )
        for one in answers or [ok("nothing to look at")]
    ]
