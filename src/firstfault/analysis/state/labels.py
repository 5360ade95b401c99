"""What the label before a line says of its speaker: a scheduler's task or a process by its index. Knows no other line of the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.evidence import GlobalRank
from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from firstfault.model.evidence import Who

_TASK = lazy(r"task (\d+)")
_PROCESS = lazy(r"process (\d+)")
_FAR = lazy(r"\(?[^()\n]{0,80}\bpid=(\d{1,9}), ip=([\w.:-]{2,64})\)")


def task_of_label(who: Who) -> int | None:
    """The scheduler's task by which a line is labelled, as `srun --label` does; None for any other label."""
    found = None if who.label is None else _TASK.fullmatch(who.label)
    return None if found is None else int(found[1])


def process_of_label(who: Who) -> GlobalRank | None:
    """The index of the process by which a line is labelled, `[p8]`; it is a rank where the program numbers its processes so."""
    found = None if who.label is None else _PROCESS.fullmatch(who.label)
    return None if found is None else GlobalRank(int(found[1]))


def process_far(text: str) -> tuple[str, int] | None:
    """The address and the process by which Ray labels a line of another machine, `(Worker pid=20467, ip=10.0.0.2)`.

    What the line itself says of its host stands beside that address: other lines of the process have the address alone.
    """
    found = _FAR.match(text.lstrip())
    return None if found is None else (found[2], int(found[1]))
