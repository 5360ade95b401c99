"""The kinds of abnormal points, what one holds, and the thresholds of each kind.

Each threshold stands here with its reason; how often each raises a false alarm on healthy series is measured by
`bench/metrics/quality.py` and told in `docs/how-to/read-training-metrics.md`.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Kind(str, Enum):
    """What is abnormal."""

    NAN = "nan"
    LOSS_SPIKE = "loss_spike"
    LOSS_RISE = "loss_rise"
    GRAD_SPIKE = "grad_spike"
    SCALE_FLOOR = "loss_scale_floor"
    SKIPPED = "skipped_steps"
    STEP_TIME = "step_time_shift"
    TAIL = "step_time_tail"
    THROUGHPUT = "throughput_drop"
    STALL = "stall"
    SLOW_RANK = "slow_rank"
    RANKS_DIFFER = "ranks_differ"
    LEAK = "memory_leak"
    MEMORY_JUMP = "memory_jump"
    DATA_SHARE = "data_share"
    CHECKPOINT_PAUSE = "checkpoint_pause"
    EVALUATION_PAUSE = "evaluation_pause"

    def __str__(self) -> str:
        return self.value


ORDINARY = frozenset({Kind.CHECKPOINT_PAUSE, Kind.EVALUATION_PAUSE})
"""Kinds that are told and are no sign of trouble."""


class Point(NamedTuple):
    """One abnormal point."""

    kind: Kind
    column: str
    source: str
    """As shown."""
    line: int
    """Of the first abnormal step."""
    step: float | None
    """First abnormal step; None where the source names none."""
    time: float | None
    rank: int | None
    attempt: int
    value: float
    """What it came to: the peak, or the new level."""
    usual: float
    """The level before."""
    rows: int
    """Rows that are abnormal."""
    lasts: bool
    """Whether it goes on to the end."""
    before: tuple[str, ...] = ()
    """What came in the steps before, in words."""
    epoch: float | None = None
    """As printed: a whole one, since the step may be counted within it; a fraction where no step is told."""
    place: int | None = None
    r"""Which piece of its line, parted by `\r`, it is, from 0; None where no line of the source is parted."""
    derived: bool = False
    """Whether the step is not printed, and follows from the epoch."""


WINDOW = 48
"""Rows by which the usual level of a row is measured: fewer make the deviation itself uncertain, more follow a falling loss too late."""
FEWEST = 24
"""Rows below which a series tells no usual level."""
FEW, SHORT_RATIO = 3, 20.0
"""Of an excerpt of few rows only the last is judged: the gradient norm by this ratio to the largest before it."""
SPIKE_SIGMA, SPIKE_SHARE = 9.0, 0.12
"""A loss is a spike so many robust deviations, and by such a share, above its usual level: batches of real data give
single values of 5 to 6 deviations in 100,000 rows."""
SKEW_SIGMA = 6.0
"""The same of the loss's logarithm: losses of single small batches are skewed, and near their end spread over powers of ten."""
POSITIVE_SHARE = 0.9
"""From this share of losses above 0 on the others are steps that printed none, and not losses that go below 0."""
BRIEF_ROWS, BRIEF_SHARE = 2, 0.55
"""A spike of so few rows that are one step each is a batch unlike others, not an unstable run, where it is less far above the usual:
in long healthy runs that print every step such batches reach half as much again, and the next step is as before."""
BRIEF_COUNT = 3
"""So many of them in one run are how its batches are, however far above."""
RISE_SIGMA, RISE_SHARE = 4.0, 0.08
"""A lasting rise of the loss: of the median over `RISE_ROWS` rows, which varies a fifth of what single rows do."""
RISE_ROWS = 12
RESUME_ROWS, MOST_BEFORE = 25, 20_000
"""Rows around a step that tell its level before a restart, and rows before the restart among which they are looked for."""
GRAD_SIGMA, GRAD_RATIO = 8.0, 4.0
"""The gradient norm is judged by its logarithm, since it is skewed."""
SHIFT_SHARE, SHIFT_SIGMA = 0.12, 2.0
"""A step time that lasts so much longer; less is seen between healthy halves of one run on shared networks."""
SHIFT_ROWS = 8
WANDER_TIMES = {3: 4.0, SHIFT_ROWS: 3.6}
"""A rate falls at once, or it wanders: rows on each side -> how many times the usual change between two such stretches the fall is, by its
logarithm. Texts of all lengths make rates scatter, and a course of them makes their level drift."""
GROWTH_SHARE, GROWTH_STAIRS, GROWTH_REACH = 0.2, 3, 16
"""A step time that grows bit by bit: so many changes in a row that go up, by this share in all; it begins within so many rows
of a first guess."""
TAIL_RATIO, TAIL_SHARE, TAIL_COUNT = 1.5, 0.05, 8
"""A tail: so many rows that take so much longer than usual, at least this share of those behind its begin."""
TAIL_BEFORE = 8.0
"""Slow rows that would have come before its begin at the share that they have behind it, or it is how all steps are."""
EVEN_RATE = 0.15
"""Share of the usual level within which three of four rows stay where a rate is even enough to tell a tail."""
STALL_RATIO, STALL_SECONDS = 8.0, 30.0
"""A stall: one row that takes so many times the usual, and so long, and is none of the pauses that come at regular steps."""
SLOW_SHARE, SLOW_ROWS = 0.15, 6
"""A slow rank: its time above the median of the ranks by this share in 5 of 6 rows in a row, whoever else is slow."""
SLOW_FEW = 3
"""Rows that are enough where the time is twice the median, and longer by a quarter of a step: timers are printed seldom."""
AGREE, DIFFER = 1e-6, 1e-4
"""Ranks agree on a value up to the first share in all of their first rows, and differ from the second on."""
LEAK_SHARE, LEAK_BLOCKS = 0.05, 16
"""A leak: memory that rises in all but one of so many blocks of rows behind its begin, by this share in all."""
JUMP_SHARE = 0.10
DATA_SHARE, DATA_TIMES = 0.15, 2.0
"""Waiting for data takes this share of a step, and twice what it did."""
REGULAR = 3
"""Pauses at regular steps from which on they are planned."""
PAUSE_RATIO = 4.0
"""A planned pause that takes so many times what the others take is a stall at the step of a pause."""
ROUND_STEPS, ROUND_ALONE = (50, 100, 200, 250, 500, 1000), 100
"""Logging intervals between pauses that are planned if the row at every multiple is slow; from the second on a single one is."""
ROUND_PAUSE = 300.0
"""Seconds up to which the only pauses, all of them at such steps, are taken for checkpoints where no line tells of them."""
WARM_UP = 3
"""Rows at each start that are slow by themselves: compilation, caches, the first allocation."""
