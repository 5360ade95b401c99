"""Lines that prove that a step was done: bars, tables and step lines of trainers. Says how far, never whether that is enough.

Bars of downloads, tokenising or loading are kept apart as preparation, those of validation as evaluation: neither is training.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from firstfault.model.evidence import ProgressSample, When, Who
from firstfault.model.lazy import lazy
from firstfault.readers.identity import locate
from firstfault.readers.shape import shape_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.model.evidence import SourceId
    from firstfault.readers.clock import SourceClock
    from firstfault.readers.identity import SourceProfile
    from firstfault.readers.lines import TextStore

TRAINING, PREPARATION, EVALUATION = "training", "preparation", "evaluation"
MOST_BYTES = 4 * 1024 * 1024
"""How far from an anchor progress is looked for, each way."""
FIRST_CHUNK = 16 * 1024
CHUNK = 256 * 1024
LONGEST_SEGMENT = 4096

_TRIGGERS = (
    b"%|", b"it [", b"iter", b"Iter", b"tep", b"poch", b"'loss'", b"[batch=", b" [=", b" [>", b"\xe2\x94\x81", b"num_updates", b"Train: ", b"Test: ", b"Eval", b"Val",
)  # fmt: skip
"""Text without which no line is looked at; searched as bytes, since expressions are slow on lines that hold none."""
_NUMBER = rb"\d[\d,]*(?:\.\d+)?[kMG]?"
_BAR = lazy(rb"(\d{1,3})%\|[^|\n]{0,400}\| {0,12}(" + _NUMBER + rb") ?/ ?(" + _NUMBER + rb"|\?) ?\[([^\]\n]{0,400})")
_OPEN_BAR = lazy(rb"(?<![\d.])(" + _NUMBER + rb")(?:it|ex|step|steps|batch|batches) \[\d{1,3}:\d\d([^\]\n]{0,400})")
_RICH = lazy(rb"Epoch (\d{1,6})(?:/-?\d{1,6})? +(?:\xe2\x94[\x80-\xbf]|\xe2\x95[\x80-\xbf]| )+ ?(\d{1,9})/(\d{1,9}) ")
_KERAS = lazy(rb"(?:^|[^\d.])(\d{1,9})/(\d{1,9}) (?:\[[=>.]{5,60}\]|(?:\xe2\x94\x81){5,})")
_MEGATRON = lazy(rb"\biteration:? {0,9}(\d{1,9}) ?/ {0,9}(\d{1,9}) ?\|")
_NEMO = lazy(rb"Training epoch (\d{1,6}), iteration (\d{1,9})/(\d{1,9})")
_DEEPSPEED = lazy(rb"\bstep=(\d{1,9}), skipped=|/global_step=(\d{1,9}), RunningAvg")
_HF = lazy(rb"\{'loss': '?(?:[\d.e+-]+|nan|inf)'?.{0,400}'epoch': '?([\d.]+)")
_HF_EVAL = lazy(rb"\{'eval_loss': ")
_FAIRSEQ = lazy(rb"epoch (\d{1,6}): {1,9}(\d{1,9}) ?/ ?(\d{1,9})(?:.{0,600}num_updates[=:] ?(\d{1,9}))?")
_BRACKETS = lazy(
    rb"(?:(?P<kind>[Ee]poch|Train(?:ing)?|Test|Val(?:id\w*)?|Eval\w*)(?:\((?P<mode>\w{2,10})\))?:?) {0,3}"
    rb"(?:\[? {0,6}(?P<epoch>\d{1,6})(?:/\d{1,6})?\]? {0,3})?[\[(] {0,9}(?P<step>\d{1,9}) ?/ ?(?P<total>\d{1,9})\b",
)
_EPOCH_OF = lazy(rb"(?i)\bepoch:? ?\[? ?(\d{1,6}) ?/ ?(\d{1,6})\b")
_KERAS_EPOCH = lazy(rb"Epoch (\d{1,6})/(\d{1,6})\s")
_COMPOSER = lazy(rb"\[epoch=(\d{1,6})(?:/\d{1,6})?\]\[batch=(\d{1,9})(?:/(\d{1,9}))?\]")
_PLAIN = lazy(
    rb"(?i)(?<![\w.-])(?P<name>global[_ ]?steps?|total[_ ]steps?|completed steps?|train(?:ing)?[_ ]?steps?|optimizer[_ ]steps?|"
    rb"steps?|iter(?:ation)?s?|updates?|num_updates)['\"]?(?: (?:is|no\.?))?[ :=#\[]{1,6}(?P<step>\d{1,9})(?![\d.])(?: ?(?:/|of) ?(?P<total>\d{1,9}))?",
)
_METRIC = lazy(
    rb"(?i)loss|\blr\b|learning.?rate|\bgrad(?:ients?)?[ _.-]?(?:norm|scale|clip)|\bgrad ?[:=]|\bgnorm|\btok|sample|throughput|it/s|s/it|steps?/s|\bppl|\bacc|mfu|t?flops|\beta\b|elapsed|"
    rb"consumed|speed|\bwps\b|seconds|\btime\b|ms\b",
)
_SETTING = lazy(rb"(?i)(?:accum\w*|warm-?up|save|saving|logging|max\w*|every|per|num|number of|decay)[ -]\Z")
"""Words that make the number of steps behind them a setting: none of these steps was done."""
_NOT_DONE = lazy(
    rb"(?i)\bload|resum|restor|skipp|start(?:s|ing)? (?:at|from)|warm.?up|total steps|max_steps|error|fail|timeout|abort|exception"
)
_PREPARATION = lazy(
    rb"(?i)download|loading|checkpoint shard|\bmap\b|mapping|generating|grouping|filter|tokeni[sz]|preprocess|pre-process|processing|"
    rb"resolving|fetching|upload|extract|\bsaving|shuffl|index|packing|creating|building|concat|convert|casting|flatten|estimat|"
    rb"reading|caching|capturing|compil|scanning|init|cach|prepar|import|unpack|verif|render|quantiz|calibrat",
)
_EVALUATION = lazy(rb"(?i)\bval|valid|eval|sanity|\btest|predict|inference|generat(?:e|ion)|processed prompts|rollout")
_PREPARED_UNITS = lazy(rb"(?i)\d ?(?:[kMGT]i?)?B/s|examples?/s|files?/s|shards?/s|tokens?/s|rows?/s|docs?/s")


class Progress(Struct, frozen=True):
    """One sign of progress."""

    kind: str
    """training, preparation or evaluation."""
    sample: ProgressSample
    epoch: int | None = None
    """As printed; may count from 0 or 1."""
    what: str = ""
    """Description of the bar, or the shape of the line."""


class Anchor(NamedTuple):
    """A place from which lines are counted."""

    offset: int
    """Byte offset; the end of the source is one too."""
    line: int
    """Number of the line that holds it."""


START = Anchor(0, 1)
"""Where every source begins."""


class Shape(NamedTuple):
    """What one line shows: kind, step, total, epoch, and the form of the line."""

    kind: str
    step: int | None
    total: int | None
    epoch: int | None
    what: str


class _Plain(NamedTuple):
    """What a plain step line shows, by the places of its numbers."""

    kind: str
    step: tuple[int, int]
    total: tuple[int, int]
    """Before the line where it has none."""

    def shape(self, segment: bytes) -> Shape:
        """What a line shows that has its numbers in these places."""
        (a, b), (c, d) = self.step, self.total
        return Shape(self.kind, int(segment[a:b]), None if c < 0 else int(segment[c:d]), None, "step")


def read_progress(segment: bytes) -> Shape | None:
    r"""Reads one `\r` part of a line.

    Returns:
        What it shows; None where it shows no step that was done (a bar at 0 does not).
    """
    if b"\x1b" in segment:
        # Bars are drawn in colours that stand between their numbers and the bar itself.
        segment = _COLOUR.sub(b"", segment)
    shape = _shape_of(segment)
    if shape is None or (shape.step == 0 and shape.what not in {"NeMo", "loss table"}):
        return None
    if shape.total is not None and shape.step == shape.total and _more_epochs(segment):
        return shape._replace(total=None)
    return shape


_MOST_KNOWN = 4096
_known_plain: dict[bytes, _Plain | None] = {}
"""Where the numbers of plain step lines stand, by the line with zeros for its digits; None for lines that are of no form.
Whether a line is of any form does not hang on what its digits are; a job's step lines differ in little else."""


def _shape_of(segment: bytes) -> Shape | None:
    bare = shape_of(segment)
    if bare in _known_plain:
        plain = _known_plain[bare]
    else:
        shape = _bar(segment) or _table(segment)
        if shape is not None:
            return shape
        plain = _plain(segment)
        if len(_known_plain) >= _MOST_KNOWN:
            _known_plain.clear()
        _known_plain[bare] = plain
    return None if plain is None else plain.shape(segment)


def _more_epochs(segment: bytes) -> bool:
    """Whether a line that ends an epoch says that others are to come: they count from 0 or from 1."""
    found = _EPOCH_OF.search(segment)
    return found is not None and int(found[1]) < int(found[2]) - 1


def _bar(segment: bytes) -> Shape | None:
    if b"%|" in segment:
        bars = list(_BAR.finditer(segment))
        for n in range(len(bars) - 1, -1, -1):
            found = bars[n]
            begin = bars[n - 1].end() + 1 if n else 0
            step, total = _count(found[2]), None if found[3] == b"?" else _count(found[3])
            return _described(segment[begin : found.start()], found[4], step, total)
    if (
        b"it [" in segment
        or b"ex [" in segment
        or b"step [" in segment
        or b"steps [" in segment
        or b"batches [" in segment
    ):
        open_bars = list(_OPEN_BAR.finditer(segment))
        if open_bars:
            found = open_bars[-1]
            begin = open_bars[-2].end() + 1 if len(open_bars) > 1 else 0
            return _described(segment[begin : found.start()], found[2], _count(found[1]), None)
    if b"\xe2\x94" in segment:
        found_rich = _RICH.search(segment)
        if found_rich is not None:
            return Shape(TRAINING, int(found_rich[2]), int(found_rich[3]), int(found_rich[1]), "Epoch")
    keras = _KERAS.search(segment) if b"[=" in segment or b"[>" in segment or b"\xe2\x94\x81" in segment else None
    return None if keras is None else Shape(TRAINING, int(keras[1]), int(keras[2]), None, _KERAS_BAR)


_KERAS_BAR = "bar of an epoch"
EPOCH_LINE = 64 * 1024
"""Bytes before a bar in which the line that heads its epoch is looked for."""


def _of_run(data: bytes, start: int, shape: Shape) -> Shape:
    """A bar of Keras: its total is that of an epoch, and ends the run only where the line above it names the last one."""
    at = data.rfind(b"Epoch ", max(0, start - EPOCH_LINE), start)
    found = None if at < 0 else _KERAS_EPOCH.match(data, at)
    if found is None:
        return shape
    last = found[1] == found[2]
    return shape._replace(epoch=int(found[1]), total=shape.total if last else None)


def _described(before: bytes, after: bytes, step: int | None, total: int | None) -> Shape:
    """A bar with its kind, by the text before it and the unit behind it."""
    label = before[-160:].rsplit(b"]", 1)[-1].strip(b" :\t")
    kind = TRAINING
    if _PREPARATION.search(label):
        kind = PREPARATION
    elif _EVALUATION.search(label):
        kind = EVALUATION
    elif _PREPARED_UNITS.search(after) and not re.search(rb"(?i)train|epoch|step|iter", label):
        kind = PREPARATION
    epoch = re.search(rb"(?i)epoch:? ?\[?(\d{1,6})", label)
    return Shape(
        kind, step, total, None if epoch is None else int(epoch[1]), label.decode("utf-8", "replace")[-80:] or "bar"
    )


def _count(text: bytes) -> int | None:
    """Number as bars print it, `1.2k` and `9,318` included."""
    digits = text.replace(b",", b"")
    scale = {b"k": 1_000, b"M": 1_000_000, b"G": 1_000_000_000}.get(digits[-1:], 1)
    if scale != 1:
        digits = digits[:-1]
    if not digits or len(digits) > 15:
        return None
    return round(float(digits) * scale)


def _table(segment: bytes) -> Shape | None:
    """Step lines of trainers that have a form of their own."""
    found = _NEMO.search(segment)
    if found is not None:
        return Shape(TRAINING, int(found[2]), int(found[3]), int(found[1]), "NeMo")
    found = _MEGATRON.search(segment)
    if found is not None:
        return Shape(TRAINING, int(found[1]), int(found[2]), None, "iteration")
    found = _DEEPSPEED.search(segment)
    if found is not None:
        return Shape(TRAINING, int(found[1] or found[2]), None, None, "DeepSpeed step")
    found = _COMPOSER.search(segment)
    if found is not None:
        return Shape(TRAINING, int(found[2]), None if found[3] is None else int(found[3]), int(found[1]), "batch")
    if _HF_EVAL.search(segment) is not None:
        return Shape(EVALUATION, None, None, None, "loss table")
    found = _HF.search(segment)
    if found is not None:
        return Shape(
            TRAINING,
            None,
            None,
            int(float(found[1])) if found[1].replace(b".", b"", 1).isdigit() else None,
            "loss table",
        )
    if b"num_updates" in segment or b" / " in segment:
        found = _FAIRSEQ.search(segment)
        if found is not None:
            updates = found[4] is not None
            return Shape(
                TRAINING, int(found[4] or found[2]), None if updates else int(found[3]), int(found[1]), "epoch"
            )
    return _bracketed(segment)


def _bracketed(segment: bytes) -> Shape | None:
    found = _BRACKETS.search(segment)
    if found is None or not _METRIC.search(segment):
        return None
    word = (found["mode"] or found["kind"]).lower()
    kind = EVALUATION if word.startswith((b"test", b"val", b"eval")) else TRAINING
    return Shape(
        kind, int(found["step"]), int(found["total"]), None if found["epoch"] is None else int(found["epoch"]), "epoch"
    )


def _plain(segment: bytes) -> _Plain | None:
    """`step: 10 loss: …` in any of its spellings: a step number and a measurement in one line, and no word of failure or loading."""
    best = None
    for found in _PLAIN.finditer(segment):
        if _SETTING.search(segment[max(0, found.start() - 20) : found.start()]):
            continue
        if best is None or _rank_of(found["name"]) > _rank_of(best["name"]):
            best = found
    if best is None or not _METRIC.search(segment) or _NOT_DONE.search(segment, 0, best.start() + 200):
        return None
    kind = EVALUATION if re.search(rb"(?i)\b(?:val(?:id\w*)?|eval\w*|test)\b", segment[: best.end() + 60]) else TRAINING
    return _Plain(kind, best.span("step"), best.span("total"))


def _rank_of(name: bytes) -> int:
    """Which of several step numbers of one line is meant: the one over the whole run."""
    word = name.lower()
    return 2 if word.startswith((b"global", b"total", b"completed", b"optimizer", b"num_up")) else 1


def find_progress(
    data: bytes,
    source: SourceId,
    *,
    base: Anchor = START,
    profile: SourceProfile | None = None,
    clock: SourceClock | None = None,
) -> list[Progress]:
    """Every sign of progress in a stretch of a source, by offset; the last one of each line's bar redrawn by carriage returns too.

    Args:
        data: the bytes.
        source: where they come from.
        base: offset and line number of their first byte.
        profile: of the source; without it no rank is told.
        clock: of the source; without it no time is told.
    """
    return list(_signs(data, source, base, profile, clock))


def _signs(
    data: bytes, source: SourceId, base: Anchor, profile: SourceProfile | None, clock: SourceClock | None
) -> Iterator[Progress]:
    line, counted = base.line, 0
    for start, end in _candidates(data):
        segment = data[start:end]
        shape = read_progress(segment)
        if shape is None:
            continue
        if shape.what == _KERAS_BAR:
            shape = _of_run(data, start, shape)
        line += data.count(b"\n", counted, start)
        counted = start
        who, when = _who_when(data, start, segment, line, base, profile, clock)
        sample = ProgressSample(
            source, line, base.offset + start, shape[1], shape[2], who.rank, when, who.host, who.pid
        )
        yield Progress(shape[0], sample, shape[3], shape[4])


def _last_sign(data: bytes, source: SourceId, base: Anchor, kind: str) -> Progress | None:
    """The last sign of one kind in a stretch, without rank and time; lines before it are not read."""
    end = len(data)
    while end > 0:
        # Some whole lines at a time: as a rule one of the very last is a sign.
        begin = data.rfind(b"\n", 0, max(0, end - _LOOK_BACK)) + 1
        for left, right in reversed(list(_candidates(data[begin:end]))):
            start = begin + left
            shape = read_progress(data[start : begin + right])
            if shape is not None and shape.kind == kind:
                shape = _of_run(data, start, shape) if shape.what == _KERAS_BAR else shape
                line = base.line + data.count(b"\n", 0, start)
                sample = ProgressSample(source, line, base.offset + start, shape.step, shape.total, None, When())
                return Progress(kind, sample, shape.epoch, shape.what)
        end = begin
    return None


_LOOK_BACK = 1024
_NOBODY = Who()


def _candidates(data: bytes) -> Iterator[tuple[int, int]]:
    r"""Start and end of the lines (or `\r` parts) that hold a trigger, ascending."""
    seen = 0
    ahead = [(at, text) for text in _TRIGGERS if (at := data.find(text)) >= 0]
    while ahead:
        at = min(ahead)[0]
        low = max(seen, at - LONGEST_SEGMENT)
        start = max(data.rfind(b"\n", low, at) + 1, data.rfind(b"\r", low, at) + 1, low)
        seen = max(_segment_end(data, at), at + 1)
        yield start, seen
        ahead = [(next_at, text) for at, text in ahead if (next_at := at if at >= seen else data.find(text, seen)) >= 0]


_COLOUR = lazy(rb"\x1b\[[0-9;?]*[A-Za-z]")
_END = lazy(rb"[\r\n]")


def _segment_end(data: bytes, at: int) -> int:
    """Where the line or its part ends, at most `LONGEST_SEGMENT` on."""
    most = min(len(data), at + LONGEST_SEGMENT)
    found = _END.search(data, at, most)
    return most if found is None else found.start()


def _who_when(  # noqa: PLR0917
    data: bytes,
    start: int,
    segment: bytes,
    line: int,
    base: Anchor,
    profile: SourceProfile | None,
    clock: SourceClock | None,
) -> tuple[Who, When]:
    if profile is None:
        return _NOBODY, When()
    place = locate(segment, 0, profile)
    who = place.who
    begin = data.rfind(b"\n", 0, start) + 1
    if who.rank is None and begin < start:
        who = locate(data[begin : min(start, begin + 200)].split(b"\r", 1)[0], 0, profile).who
    return who, When() if clock is None else clock.event_time(place.stamp, base.offset + begin, line)


def progress_before(
    store: TextStore,
    source: SourceId,
    anchor: Anchor,
    profile: SourceProfile,
    *,
    kind: str = TRAINING,
    limit: int = MOST_BYTES,
    clock: SourceClock | None = None,
) -> Progress | None:
    """The last sign of progress before a line; None where the `limit` bytes before it hold none."""
    for data, base in _backwards(store, source, anchor, limit):
        found = _last_sign(data, source, base, kind)
        if found is not None:
            return _told(found, data, base, profile, clock)
    return None


def progress_after(
    store: TextStore,
    source: SourceId,
    anchor: Anchor,
    profile: SourceProfile,
    *,
    kind: str = TRAINING,
    most: int = 1,
    limit: int = MOST_BYTES,
) -> list[Progress]:
    r"""The first signs of progress after the line (or `\r` part) that holds an anchor, at most `most`, within `limit` bytes."""
    found: list[Progress] = []
    skip = store.read(source, anchor.offset, LONGEST_SEGMENT + 1)
    cut = _segment_end(skip, 0) + 1
    at, line, rest = anchor.offset + cut, anchor.line + (skip[cut - 1 : cut] == b"\n"), b""
    end = anchor.offset + limit
    step = FIRST_CHUNK
    while at < end and len(found) < most:
        want = min(step, end - at)
        block = store.read(source, at, want)
        if not block:
            break
        step = min(CHUNK, step * 4)
        data = rest + block
        cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1 if len(block) == want else len(data)
        cut = cut or len(data)
        base = Anchor(at - len(rest), line)
        signs = (p for p in _signs(data[:cut], source, base, None, None) if p.kind == kind)
        found += [_told(p, data, base, profile, None) for p in islice(signs, most - len(found))]
        line += data.count(b"\n", 0, cut)
        rest = data[cut:]
        at += len(block)
    return found


def last_progress(
    store: TextStore,
    source: SourceId,
    lines: int,
    profile: SourceProfile,
    *,
    kind: str = TRAINING,
    limit: int = MOST_BYTES,
) -> Progress | None:
    """The last sign of progress of a source.

    Args:
        store: of the sources.
        source: which one.
        lines: number of its lines, an unterminated last one counted.
        profile: of the source.
        kind: of progress.
        limit: bytes before the end that are looked at.
    """
    size = store.size(source)
    if size == 0:
        return None
    ended = store.read(source, size - 1, 1) == b"\n"
    return progress_before(store, source, Anchor(size, lines + 1 if ended else lines), profile, kind=kind, limit=limit)


def _backwards(store: TextStore, source: SourceId, anchor: Anchor, limit: int) -> Iterator[tuple[bytes, Anchor]]:
    """Stretches of whole lines (or bar segments) before an anchor, the nearest first."""
    end, line = anchor
    first = max(0, anchor.offset - limit)
    step = FIRST_CHUNK
    while end > first:
        start = max(first, end - step)
        step = min(CHUNK, step * 4)
        data = store.read(source, start, end - start)
        if not data:
            return
        if start > 0:
            cut = max(data.find(b"\n"), data.find(b"\r")) if b"\n" not in data else data.find(b"\n")
            if 0 <= cut < len(data) - 1:
                start, data = start + cut + 1, data[cut + 1 :]
        line -= data.count(b"\n")
        yield data, Anchor(start, line)
        end = start


def _told(found: Progress, data: bytes, base: Anchor, profile: SourceProfile, clock: SourceClock | None) -> Progress:
    """The same sign with its rank and time."""
    start = found.sample.offset - base.offset
    segment = data[start : _segment_end(data, start)]
    who, when = _who_when(data, start, segment, found.sample.line, base, profile, clock)
    old = found.sample
    sample = ProgressSample(old.source, old.line, old.offset, old.step, old.total, who.rank, when, who.host, who.pid)
    return Progress(found.kind, sample, found.epoch, found.what)
