"""What a time limit is worth where the job had printed nothing for long before it: the limit ended it, a hang may have come first.

The pipeline gives the times of the lines; this weighs them. It only ever takes strength away from the limit.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from firstfault.analysis.order import exact
from firstfault.analysis.wording import duration
from firstfault.model.words import ActionKind, Category, Form, Strength

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.analysis.answer import Answer
    from firstfault.analysis.scene import Scene
    from firstfault.model.evidence import Event

LIMITS = frozenset({"slurm.time_limit", "process.batch_time_limit", "kubernetes.deadline"})
"""Signatures of limits of time that a job reaches by running on, and reaches just so where it hangs."""
LEAST = 1800.0
"""Seconds below which nothing is made of a silence."""
LONGER = 5.0
"""How many times as long as the longest silence before it must be."""
FEWEST = 10
"""Stamped lines from which on it is known how often the job prints."""
SEVERAL = 4
"""Lines of one kind at the end that are taken for those of several processes."""
ZONE_STEP = 1800.0
"""Clocks of one file may differ by a zone: a silence that is whole half hours and a usual pause may be no silence."""


class Spoken(Struct, frozen=True):
    """When the job printed, up to the stop."""

    first: float
    last: float
    longest: float
    """The longest time between two stamped lines."""
    lines: int
    whole: bool
    """Whether these are all its lines, and not only the ends of its files."""
    together: bool
    """Whether several processes ended with one and the same line, past which they had come before."""


def limited(scene: Scene, answer: Answer) -> Event | None:
    """The line of a time limit with a stamp of its own, where it is all that the answer rests on."""
    line = answer.trigger
    if answer.question != "first_fault" or line is None or line.signature not in LIMITS or not exact(line.when):
        return None
    if line.signature == "kubernetes.deadline" and "eadline" not in line.text:
        return None  # its limit of attempts is none of time
    # Where steps are told, they say whether it stood still.
    return None if any(track.pace is not None for track in scene.case.tracks.values()) else line


def silence(spoken: Spoken, stop: float) -> float | None:
    """Seconds of silence before the stop; None where it is no longer than a pause may be."""
    still = stop - spoken.last
    usual = max(spoken.longest, 60.0)
    if spoken.lines < FEWEST or still <= max(LEAST, LONGER * spoken.longest) or still % ZONE_STEP <= 2 * usual:
        return None
    return still


def stand_together(files: Sequence[Sequence[str]]) -> bool:
    """Whether the last lines are of one kind that came before too, and went on: several of one file, or one of each file.

    Args:
        files: the words of each file's lines, numbers left out.
    """
    ends = {words[-1] for words in files if words}
    if len(ends) != 1:
        return False
    (end,) = ends
    runs = [len(list(takewhile(end.__eq__, reversed(words)))) for words in files]
    again = all(end in words[: len(words) - run] for words, run in zip(files, runs, strict=True))
    return again and max(sum(runs), len(files)) >= SEVERAL


def after_quiet(answer: Answer, spoken: Spoken, still: float) -> Answer:
    """The answer about a limit that ended a job which had been silent for long."""
    # Silent for longer than it ever ran, and all at one place: the limit is where the hang ended, and nothing else speaks for it.
    # Silence alone may be lines that were never flushed.
    mostly = spoken.whole and spoken.together and still > spoken.last - spoken.first
    long = duration(round(still * 1000))
    return replace(
        answer,
        question="stopped",
        category=Category.UNKNOWN if mostly else answer.category,
        strength=Strength.UNKNOWN if mostly else answer.strength.at_most(Strength.POSSIBLE),
        summary=f"{answer.summary} Nothing had been printed for {long} before: the job may have hung first, and no line says why.",
        classes=replace(answer.classes, form=Form.HUNG) if mostly else answer.classes,
        action=ActionKind.COLLECT_MORE if mostly else answer.action,
        collect=("stacks of all ranks during such a silence (`py-spy dump`)", *answer.collect),
    )


def standstill_text(seconds: float | None) -> str:
    """A sentence on the time without a step before an order to stop; empty where steps went on until it."""
    if seconds is None:
        return ""
    return f" No step had been made for {duration(round(seconds * 1000))} before: the job hung first, and no line says why."
