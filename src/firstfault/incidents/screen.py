"""What the lines of a run tell against its good end: a fault that was passed over, ranks that were lost, a new beginning.

All lines are asked, and almost all of them differ from others in their digits alone: what a line may tell is found out once
for each form, so that a log of gigabytes costs little more than its reading. Must not read files or give a result.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from firstfault.incidents.hints import hints_of
from firstfault.incidents.one_piece import PATTERNS, became_smaller, began_anew, may_tell
from firstfault.incidents.passed_over import (
    LONGEST,
    counters_of,
    counts_of,
    is_caught,
    is_error,
    is_hedged,
    is_mishap,
    is_of_kind,
    is_serious,
    is_setting,
    kind_of,
)
from firstfault.model.words import Category, Form
from firstfault.readers.steplines import TRAINING, read_progress

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.incidents.record import Record

_DIGITS = b"0123456789"
_ONES = bytes.maketrans(b"0", b"1")
_MOST_FORMS = 65_536
_ZERO = b"0. \t"
_NUMBER = re.compile(rb"(\d{1,18})(?: ?/ {0,9}(\d{1,18}))?")
_TIME = re.compile(rb"(?<![\d:])(\d\d):([0-5]\d):([0-5]\d)(?![\d:])")
_STAMPED, _DAY = 80, 86_400
LONG, MUCH_LONGER, LEAST_GAPS = 240, 20, 4
"""Seconds between two steps, how many times the usual it is, and steps beside them, from which on a run stood still."""
_WAITS = frozenset({Category.DATA_LOADING_STALL, Category.NETWORK, Category.STORAGE_IO, Category.COLLECTIVE_MISMATCH})
"""Categories whose faults make a job wait; where it waits no longer than its limit, no line tells of it."""
FAR_BACK = 2
"""Distances between two step lines from which on a step that goes back is a new beginning."""


class _Form(NamedTuple):
    """What lines of one form may tell; they differ in their digits alone."""

    kind: bool
    """A fault of the incident's kind."""
    whole: bool
    """That the run did not go through in one piece."""
    step: bytes | None
    """The text before the number of a step of training that was done; empty where none stands there in all of them."""
    counters: tuple[bytes, ...]
    """Texts before the counters of such a fault."""
    only_counters: bool
    """Whether nothing but these counters names the fault: where all are zero there is none."""
    error: bool
    """That it is an error, of whatever kind, or tells that something went wrong and was passed over."""


_NOTHING = _Form(kind=False, whole=False, step=None, counters=(), only_counters=False, error=False)


class Screen:
    """Takes the lines of a run, source by source, and keeps the first of each kind that tells something against its end."""

    def __init__(self, record: Record) -> None:
        self.passed_over = ""
        """A line by which it met a fault of the incident's kind and went on."""
        self.smaller = ""
        """A line by which it went on with fewer ranks."""
        self.anew = ""
        """A line by which it, or a part of it, failed and was begun anew."""
        self.error = ""
        """A line amid its steps that calls itself an error, or tells of something wrong that was passed over, in words of no kind that is known."""
        self.back: tuple[int, int] | None = None
        """Two steps, of which the second follows the first and lies well before it."""
        self._kind, self._loose = kind_of(record), kind_of(record, any_number=True)
        self._of_kind = hints_of(() if self._loose is None else (self._loose, counters_of(self._loose)))
        self._of_whole = hints_of(PATTERNS)
        self._forms: dict[bytes, _Form] = {}
        self.stood: Stood | None = None
        """The one long time between two steps, where the incident was one of waiting."""
        self._waits = record.one("form") == Form.HUNG or record.one("category") in _WAITS
        self._before = self._unsure = ""
        self._steps = _Steps()

    def source(self, lines: Iterable[bytes]) -> bool:
        """Takes all lines of a source, in their order; whether nothing more is to be asked."""
        self._before = self._unsure = ""
        self._steps = _Steps()
        forms = self._forms
        for line in lines:
            form = forms.get(line.translate(None, _DIGITS))
            if form is None:
                form = self._look(line)
            if (form is not _NOTHING or self._before) and self._take(line, form):
                return True
        self.stood = self.stood or self._steps.stood()
        return False

    def _look(self, line: bytes) -> _Form:
        """Finds out what lines of the form of this one may tell."""
        text, low = _text(line), line[: 4 * LONGEST].lower()
        kind, counters, only = False, [], False
        if self._loose is not None and self._of_kind.search(low) is not None:
            counters = counts_of(text, self._loose)
            kind = bool(counters) or self._loose.search(text) is not None
            rest = text
            for label, number in counters:
                rest = rest.replace(f"{label}{number}", " ").replace(label, " ")
            only = bool(counters) and self._loose.search(rest) is None
        step = _step_of(line)
        form = _Form(
            kind,
            self._of_whole.search(low) is not None and may_tell(text),
            step,
            tuple(label.encode() for label, _ in counters),
            only,
            step is None and (is_error(text) or is_mishap(text)),
        )
        if not (form.kind or form.whole or form.error or form.step is not None):
            form = _NOTHING
        if len(self._forms) >= _MOST_FORMS:
            self._forms.clear()
        self._forms[line.translate(None, _DIGITS)] = form
        return form

    def _take(self, line: bytes, form: _Form) -> bool:
        if form.step is not None:
            self._step(line, form.step)
        elif form.error and self._steps.begun and not self.error:
            self._unsure = self._unsure or _text(line)
        counted = bool(form.counters) and not all(_is_zero(line, label) for label in form.counters)
        asked = form.kind and (counted or not form.only_counters)
        if not (asked or form.whole or self._before):
            return False
        text = _text(line)
        if not self.passed_over:
            self._ask(text, asked=asked, counted=counted)
        if form.whole:
            self.smaller = self.smaller or (text if became_smaller(text) else "")
            self.anew = self.anew or (text if began_anew(text) else "")
        return bool(self.passed_over)

    def _ask(self, text: str, *, asked: bool, counted: bool) -> None:
        """Whether a line, or this one with that before it, tells of a fault that was passed over."""
        before, self._before = self._before, ""
        if before and is_caught(text):
            self.passed_over = before
        if self.passed_over or not asked or self._kind is None:
            return
        # Before the first step a number is a setting.
        if counted and self._steps.begun and any(number for _, number in counts_of(text, self._kind)):
            self.passed_over = text
        elif is_of_kind(text, self._kind):
            # Amid the steps of a run that goes on, a bare name of the fault is the fault.
            if is_serious(text) or is_caught(text) or (self._steps.begun and not is_hedged(text)):
                self.passed_over = text
            # What became of it is often told on the next line.
            elif not is_setting(text):
                self._before = text

    def _step(self, line: bytes, label: bytes) -> None:
        at = line.find(label) if label else -1
        number = None if at < 0 else _NUMBER.match(line, at + len(label))
        total: int | None = None
        if number is not None:
            step, total = int(number[1]), None if number[2] is None else int(number[2])
        else:
            shape = read_progress(line)
            if shape is None or shape.step is None:
                return
            step, total = shape.step, shape.total
        if not step:
            return
        if self._waits:
            self._steps.timed(step, _clock(line))
        if self._unsure and self._steps.goes_on(step):
            # What is said behind the last step belongs to the end, where much is loud and nothing is lost.
            self.error, self._unsure = self.error or self._unsure, ""
        self.back = self._steps.add(step, total) or self.back


def _step_of(line: bytes) -> bytes | None:
    """The text before the number of a step of training, in this line or in one that differs in its digits alone; None where none stands there.

    A step 0 was not done, and its line is none of a step; others of its form are.
    """
    for probe in (line, line.translate(_ONES)):
        shape = read_progress(probe)
        if shape is not None and shape.kind == TRAINING and shape.step is not None:
            return _label(probe, shape.step)
    return None


def _label(line: bytes, step: int) -> bytes:
    """The text before the number of a step, by which lines of one form are read quickly; empty where it is not sure."""
    found = re.search(rb"([A-Za-z][A-Za-z_ :=\[#'\"]{3,30})0*%d(?!\d)" % step, line)
    return found[1] if found is not None and line.find(found[1]) == found.start() else b""


def _clock(line: bytes) -> int | None:
    """The seconds of the day, or of the run, that a step line tells first; None where it tells none."""
    found = _TIME.search(line, 0, _STAMPED)
    return None if found is None else 3600 * int(found[1]) + 60 * int(found[2]) + int(found[3])


class Stood(NamedTuple):
    """Two steps between which a run stood still."""

    seconds: int
    before: int
    after: int


class _Steps:
    """The steps of one source as they follow each other."""

    def __init__(self) -> None:
        self._at: tuple[int, int] | None = None
        self._longest = Stood(0, 0, 0)
        self._second = self._spent = self._gaps = 0
        self.begun = False
        self._last = 0
        self._apart = 0
        self._fell: tuple[int, int] | None = None
        self._rose = False

    def goes_on(self, step: int) -> bool:
        """Whether a step is another one than the last: several ranks print one step each."""
        return self.begun and step > self._last

    def timed(self, step: int, seconds: int | None) -> None:
        """Takes the time of a step."""
        if seconds is None:
            return
        before, self._at = self._at, (step, seconds)
        if before is None or before[0] == step:
            return
        gap = seconds - before[1]
        gap = gap + _DAY if gap < -_DAY // 2 else gap
        if gap < 0:
            return  # the lines of two processes cross
        self._gaps, self._spent = self._gaps + 1, self._spent + gap
        if gap > self._longest.seconds:
            self._second, self._longest = self._longest.seconds, Stood(gap, before[0], step)
        else:
            self._second = max(self._second, gap)

    def stood(self) -> Stood | None:
        """The longest time between two steps, where no other is near it: what comes again, as an evaluation, is no standstill."""
        longest, others = self._longest, self._gaps - 1
        if others < LEAST_GAPS or longest.seconds < LONG:
            return None
        usual = (self._spent - longest.seconds) / others
        alone = longest.seconds > 2 * self._second and longest.seconds > MUCH_LONGER * usual
        return longest if alone else None

    def add(self, step: int, total: int | None) -> tuple[int, int] | None:
        """Two steps between which the run began anew, once it has come past the first of them; None else.

        A step that falls back and at once is ahead again is another process; steps of epochs never come past their end.
        """
        last, self._last, begun, self.begun = self._last, step, self.begun, True
        if self._fell is not None and (self._rose or step <= self._fell[0]):
            self._rose = self._rose or step > self._fell[1]
            return self._fell if step > self._fell[0] + self._apart else None
        self._fell = None
        if not begun:
            return None
        if step > last:
            self._apart = min(self._apart or step - last, step - last)
        elif self._apart and last - step >= FAR_BACK * self._apart and (total is None or last + self._apart <= total):
            self._fell, self._rose = (last, step), False
        return None


def passed_over(record: Record, lines: Iterable[str]) -> str:
    """The first line that tells of a fault of an incident's kind and of its being passed over; empty where there is none."""
    screen = Screen(record)
    screen.source(line.encode("utf-8", "backslashreplace") for line in lines)
    return screen.passed_over


def _text(line: bytes) -> str:
    return line[:LONGEST].decode("utf-8", "replace").strip()


def _is_zero(line: bytes, label: bytes) -> bool:
    at = line.find(label)
    value = line[at + len(label) : at + len(label) + 12].lstrip() if at >= 0 else b"1"
    return not value.split(None, 1)[0].strip(_ZERO + b",|;)") if value else False
