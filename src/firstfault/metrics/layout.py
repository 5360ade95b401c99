"""What the numbers of one step line mean, by the names beside them. Lines of one shape share a layout, so few are read here.

Must not read a file, and judges no value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firstfault.metrics.columns import ALIASES, LAST, MEMORY_UNITS, NUMBERS, PREFERRED, RECIPROCAL
from firstfault.metrics.forms import is_table_row, told_apart
from firstfault.metrics.names import alternatives
from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    import re

_DIGITS = b"0123456789.+- #"
_DROPPED = bytes(b for b in range(256) if b >= 128) + _DIGITS
_CHINESE = lazy(rb"[\xe3-\xe9][\x80-\xbf]{2}")
_DRAWN = lazy(rb"(?:\xe2[\x80-\xbf]{2})+")
"""What bars are drawn with."""
_WIDE = {"：".encode(): b":  ", "，".encode(): b",  ", "＝".encode(): b"=  ", "（".encode(): b"(  ", "）".encode(): b")  ", "｜".encode(): b"|  "}  # fmt: skip
"""Marks of the full width -> those that stand for them, in as many bytes."""
_TRIGGERS = (b"step", b"=>", b"\xe2\x94\x81", b"iter", b"loss", b"epoch", b"it/s", b"s/it", b"%|", b"it [", b"| time (ms)", b"overflow", b"update", b"samplespersec", b"[batch=", b" train ", b":::mllog", "步".encode(), "损失".encode(), "迭代".encode())  # fmt: skip
"""Any of these, in lower case, makes a line worth a closer look."""
_ALONE_WORDS = (
    b"%|",
    b"it [",
    b"\xe2\x94",
    b"\xe2\x95",
    b"gpu, memory",
    b"overflow",
    b"time (ms)",
    b"[batch=",
    b"[step=",
)
"""Without any of these, in lower case, a line that names no metric tells nothing."""
_EVALUATION_WORDS = (b"val", b"test", b"sanity", b"cv batch", "验证".encode(), "评估".encode(), "测试集".encode())
"""One of these, in lower case, stands in each line of an evaluation."""
NUMBER = rb"[-+]?\d+(?:,\d{3}(?!\d))*(?:\.\d*)?(?:[eE][-+]?\d+)?"
_NUMBER = lazy(NUMBER)
_VALUE = rb"(?P<value>[-+]?(?:\d+(?:,\d{3}(?!\d))*(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+|nan\b|inf(?:inity)?\b))"
_PAIR = lazy(
    rb"(?<![\w.])(?<![a-z]/)(?P<key>"
    + alternatives(name for name in ALIASES if name.isascii()).encode()
    + rb"|(?<![\x80-\xff])"
    + alternatives(name for name in ALIASES if not name.isascii()).encode()
    + rb")(?![a-z_\x80-\xff])['\"]?(?: {0,2}\((?P<unit>[^()\n]{1,24})\)['\"]?| \[(?P<unit2>[a-z/]{1,12})\])?"
    rb"(?:(?P<equal>\s{0,12}[:=]\s{0,14}|\]\[?\s?)|\s{1,12})['\"\[(]{0,2} {0,9}"
    + _VALUE
    + rb"(?=(?P<after>[ ]?[a-z%/]{0,8}))"
)
"""A name with its value; for lines in lower case, which are looked through many times as fast as with letters of both cases."""
_BAR = lazy(
    rb"(\d{1,3})%\|[^|\n]{0,400}\| {0,12}(\d[\d,]*) ?/ ?(\d[\d,]*|\?) ?\[[\d:]{4,12}<[^,\]\n]{1,20}, {0,3}(?:(?P<rate>[\d.]+)(?P<unit>it/s|s/it))?"
)
_OPEN_BAR = lazy(rb"(?<![\d.])(\d[\d,]*)it \[[\d:]{4,12}, {0,3}(?:(?P<rate>[\d.]+)(?P<unit>it/s|s/it))?")
_HEADED = lazy(rb"\[(?:batch|step)=(\d[\d,]{0,12})/\d[\d,]{0,12}(?:,[^\]\n]{0,80})?\](?:\x1b\[0?m)?:?\s*$")
_BELOW = lazy(
    rb"\s*Train [\w/.-]{1,60}: \S+\s*$|\s{2,8}(?:train|optim|throughput|System)/[\w/ ().-]{1,60}=[-+\w.,]{1,24}\s*$"
)
"""Composer and OLMo name the step in a line of its own, and each metric in one below it: `[batch=10/100]:`,
`   Train loss/train/total: 10.1`; `[step=2/739328]`, `    train/CrossEntropyLoss=10.73`."""
_RATE = lazy(rb"(?P<rate>\d+(?:\.\d+)?) ?(?P<unit>it/s|s/it)\b")
_SLASHED = lazy(
    rb"(?i)\b(?:Epoch|Train|Iter)(?:\(train\))?(?:\s|:)[^/\n]{0,40}?[\[(|] {0,9}(\d{1,9}) ?/ {0,9}\d{1,9}\b|"
    rb"(?:^|[^\d./])(\d{1,9})/\d{1,9} (?: {3,23})?(?:\[[=>.]{5,60}\]|(?:\xe2\x94[\x80-\xbf] {0,12}){5,})|"
    rb"(?:\xe2[\x94\x95][\x80-\xbf] ?){5,}(\d{1,9})/\d{1,9} "
)
_NAMED = lazy(
    rb"(\d{1,6})epoch:train:\d{1,9}-(\d{1,9})batch:|\bTRAIN (?:\|[^|\n]{0,60}\| ?)?Batch (\d{1,6})/(\d{1,9}) "
)
"""Epoch and batch within it, as ESPnet (`1epoch:train:1-100batch:`) and WeNet (`TRAIN Batch 1/100 loss 12.3`) print them."""
_BATCH = lazy(
    rb"(?i)\bepoch[\s:=]{0,3}\d{1,6}\b[^\n\d/]{0,16}?\bbatch(?:[_ ]?(?:idx|id|index))?[\s:=]{1,3}(\d{1,9})\b(?![./%])"
)
"""A batch within an epoch, as k2's recipes count: `Epoch 1, batch 3000, loss[loss=7.4, …`."""
_DATE = lazy(rb"(\d{4})[-/](\d\d)[-/](\d\d)[ T_](\d\d):(\d\d):(\d\d(?:[.,]\d{1,9})?)")
_US_DATE = lazy(rb"(\d\d)/(\d\d)/(\d{4}) (\d\d):(\d\d):(\d\d)")
_RANK = lazy(rb"(?i)\[?\brank[\s:=]{0,2}(\d{1,6})\b|\.py:\d{1,6}\] \((\d{1,6})/\d{1,6}\) ")
"""The second as k2's recipes print it: `INFO [train.py:1072] (0/4) Epoch 2, batch 50`."""
_GPU_MEMORY = lazy(
    rb"\bGPU, memory: usage: [\d.]{1,12} GB, peak: (?P<peak>[\d.]{1,12}) GB(?:, cache: (?P<cache>[\d.]{1,12}) GB)?"
)
"""FunASR's words for it."""
_OVERFLOW = lazy(
    rb"(?i)overflow[^\n]{0,80}?Attempted loss scale:? ?(?P<from>\d[\d.eE+]*)(?:, but|, reducing to (?P<to>\d[\d.eE+]*))?"
)
_EVALUATION = lazy(
    rb"(?i)\b(?:validation|validate|evaluat\w*|eval|sanity|test(?:ing)?)\b|epoch:valid:|(?-i:\bCV Batch )|"
    + "验证|评估|测试集".encode()
)
_SECONDS = frozenset({"s", "sec", "secs", "seconds"})
_POINT = lazy(rb"\d\.\d")
_COMMA = lazy(
    rb"(?i)(?:loss|lr|norm|rate|" + "损失|学习率|范数".encode() + rb")[\s:=|'\"]{0,12}-?(?:\d{1,6},(?:\d\d?|\d{4,20})|0,\d{3})(?![\d,])"
)  # fmt: skip
"""A metric with a comma in it that parts no thousands."""
_METER = lazy(rb" {1,3}\( {0,6}\d")
"""The mean behind a value: `Time  0.512 (  0.987)`."""
_PER_STEP = lazy(rb"(?i)\bdata(?:_time)?(?::| {1,3}\d)|ms, mfu\b")
"""What stands in lines whose `time` is that of a step, and not since the start."""
_CLOCK = lazy(rb":\d\d")
"""What stands behind the hour of a time of day, or of one spent."""
_ASIDE = frozenset({"val", "valid", "test"})
"""What OpenMMLab writes behind `Iter` where it counts other steps than those of training."""
_THOUSANDS = {b"K": 1e3, b"M": 1e6, b"B": 1e9, b"G": 1e9}
"""What large rates and counts are shortened by."""
_SETTING = lazy(rb"(?i)(?:warm-?up|accum\w*|save|log\w*|eval\w*|max|num|total|per|every|decay)[ _-]$")
_SINCE_EPOCH, _MILLISECONDS = lazy(rb"[12]\d{9}(?:\.\d{0,9})?|[12]\d{12}"), 13
"""Seconds or milliseconds since 1970, and how many digits the latter have."""
_OTHER_SCALE = lazy(rb"(?i)(?<![a-z])(?!(?:loss|grad|gradient|amp|fp16|current|new) $)[a-z]{2,16} $")
"""A word that makes a scale one of something else: `Logit Scale: 14.2`."""
_COLOUR = lazy(rb"\x1b\[[0-9;]{0,32}m")
_NOT_DONE = lazy(rb"(?i)\b(?:load|resum|restor|error|exception|timeout|abort|saving|saved|checkpoint)")
_TIMERS = lazy(rb"\btime \(ms\) \|")
_ALONE = lazy(rb"\bRunningAvgSamplesPerSec=")
"""What DeepSpeed prints in a line of its own, in older versions without a step."""


class Slot(NamedTuple):
    """Where the value of a column stands."""

    number: int
    """Index among the numbers of the line; -1 where the value is a word."""
    factor: float = 1.0
    constant: float = float("nan")
    """The value, where it is a word (`nan`, `inf`)."""


class Layout(NamedTuple):
    """What the numbers of all lines of one shape mean."""

    slots: dict[str, Slot]
    numbers: int
    """How many numbers a line holds."""
    stamp: tuple[int, ...]
    """Indices of year, month, day, hour, minute, second; empty where there is no date."""
    stamp_at: int
    """Byte offset of the date in this line; -1 where there is none."""

    def is_of_words(self) -> bool:
        """Whether all that it tells is a word: `loss: nan`."""
        return not self.stamp and all(slot.number < 0 for slot in self.slots.values())


def shape_key(line: bytes) -> bytes:
    """A line without its digits, signs, points, blanks and bars: lines of one layout have one."""
    if not line.isascii() and _CHINESE.search(line) is not None:
        return _DRAWN.sub(b"", line).translate(None, _DIGITS)
    return line.translate(None, _DROPPED)


def has_decimal_commas(line: bytes) -> bool:
    """Whether a line writes its numbers as `0,123`."""
    return _POINT.search(line) is None and _COMMA.search(line) is not None


def is_rest_of_line(layout: Layout, line: bytes) -> bool:
    """Whether a line that tells measurements is the rest of one that a printer of tables and colours wrapped."""
    return "step" not in layout.slots and line[:_INDENT].isspace()


def _holds(line: bytes, words: tuple[bytes, ...]) -> bool:
    for word in words:  # noqa: SIM110 - twice as fast as `any`, and asked of every line of free text
        if word in line:
            return True
    return False


def read_layout(line: bytes) -> Layout | None:
    """The layout of a line; None where it tells no step and no metric of training."""
    if len(line) > 8192 or b"train_runtime" in line:
        return None
    low = line.lower()
    if not _holds(low, _TRIGGERS) and not is_table_row(low) and not (low[:2].isspace() and _BELOW.match(line)):
        return None
    marked = line
    if b"\x1b" in line:
        # Its letters stand right before a name; the digits in it are numbers of the line all the same.
        line = _COLOUR.sub(lambda colour: b" " * len(colour[0]), line)
        low = line.lower()
    if not low.isascii():
        for mark, plain in _WIDE.items():
            low = low.replace(mark, plain)
    pairs = list(_PAIR.finditer(low))
    apart = list(told_apart(low))
    if not pairs and not apart and not _holds(low, _ALONE_WORDS):
        return None
    starts = [m.start() for m in _NUMBER.finditer(marked)]
    at = {start: n for n, start in enumerate(starts)}
    found: dict[str, tuple[int, Slot]] = {}
    evaluation = _holds(low, _EVALUATION_WORDS) and _EVALUATION.search(line) is not None
    for pair in pairs:
        _take(pair, line, at, found, evaluation=evaluation)
    for column, start, value, factor in apart:
        if column != "step" or "step" not in found:
            found[column] = (9, _slot(start, value, at, factor if column[:6] != "memory" else _size(value)))
    if _METRICS.isdisjoint(found) and not apart and not _holds(low, _ALONE_WORDS):
        return None
    _bars(line, at, found, evaluation=evaluation)
    memory = _GPU_MEMORY.search(line) if b"GPU, memory" in line else None
    for name, group in (("memory", "peak"), ("memory_reserved", "cache")):
        if memory is not None and memory[group] is not None:
            found[name] = (9, _slot(memory.start(group), memory[group], at, 1.0))
    overflow = _OVERFLOW.search(line) if b"overflow" in low else None
    if overflow is not None:
        scale = "to" if overflow["to"] is not None else "from"
        found["loss_scale"] = (9, _slot(overflow.start(scale), overflow[scale], at, 1.0))
        found["skipped"] = (9, Slot(-1, 1.0, 1.0))
    slots = {
        name: slot
        for name, (_, slot) in found.items()
        if slot.number >= 0 or slot.constant == slot.constant or name in _WORDY
    }
    if not (apart and is_table_row(low)) and not _told(slots, line, overflow is not None):
        return None
    rank = _RANK.search(line)
    if rank is not None and (place := rank.start(rank.lastindex or 0)) in at:
        slots["rank"] = Slot(at[place])
    stamp, where = _stamp(line, at)
    return Layout({name: slots[name] for name in NUMBERS if name in slots}, len(starts), stamp, where)


_INDENT = 8
"""Blanks before the rest of a line that a printer of tables and colours wrapped."""
_WORDY = frozenset({"loss", "val_loss", "grad_norm", "loss_scale", "lr"})
_METRICS = frozenset(NUMBERS) - {"rank", "time", "step", "epoch", "batch_size", "samples", "queue"}


def _told(slots: dict[str, Slot], line: bytes, overflow: bool) -> bool:
    """Whether what was found is a line of training: a measurement with a step or epoch, or one of the forms that stand alone."""
    if overflow or _TIMERS.search(line) is not None or ("step" in slots and _HEADED.search(line) is not None):
        return True
    measured = _METRICS.intersection(slots)
    if not measured:
        return False
    if _ALONE.search(line) is not None or _BELOW.match(line) is not None:
        return True
    if ("step" in slots or "epoch" in slots) and not ("loss" not in slots and _NOT_DONE.search(line) is not None):
        return True
    if len(measured) > 1 and line[:_INDENT].isspace():
        return True  # the rest of a line that was too long for the terminal
    return "loss" in slots and len(measured) > 1


def _take(
    pair: re.Match[bytes], line: bytes, at: dict[int, int], found: dict[str, tuple[int, Slot]], *, evaluation: bool
) -> None:
    key = pair["key"].lower().decode()
    column, factor = ALIASES.get(key) or ALIASES[key.replace("_", " ")]
    column = _meant(key, column, line)
    if not column or _CLOCK.match(line, pair.end()) is not None:
        return
    if key == "scale" and _OTHER_SCALE.search(line, max(0, pair.start() - 24), pair.start()) is not None:
        return
    if column == "time":
        if _SINCE_EPOCH.fullmatch(pair["value"]) is None:
            return
        factor = 0.001 if len(pair["value"]) == _MILLISECONDS else 1.0
    timed = column.endswith("_time")
    equal = pair["equal"] is not None or (timed and _METER.match(line, pair.end()) is not None)
    after = pair["after"].strip().lower().decode()
    if not equal and timed and after in _SECONDS and key.endswith("time"):
        equal = True  # `step_time 11.9s`
    if not equal and column[:6] == "memory" and len(after) > 1 and after in MEMORY_UNITS:
        equal = True  # `Peak mem 45.300 GB`
    if not equal and key.endswith(("/s", "/sec")) and not line[: pair.start()].rstrip()[-1:].isdigit():
        equal = True  # `tokens/s 8123`, and not `8123 tokens/s 12 samples/s`
    if not equal and column not in {"step", "epoch", "loss", "lr", "grad_norm", "rank", "loss_scale"} and key != "time":
        return
    if column == "step" and _SETTING.search(line, max(0, pair.start() - 16), pair.start()):
        return
    if column == "step" and key == "step" and _TIMERS.search(line) is not None:
        column, timed = "optimizer_time", True
    if column == "loss" and evaluation and (b"train" not in line.lower() or b"epoch:valid:" in line):
        column = "val_loss"
    unit = (pair["unit"] or pair["unit2"] or b"").strip().lower().decode("ascii", "replace")
    letter = line[pair.end() : pair.end() + 1]
    shortened = _THOUSANDS.get(letter, 1.0) if not line[pair.end() + 1 : pair.end() + 3].isalpha() else 1.0
    if timed:
        timers = _TIMERS.search(line) is not None
        if unit in {"ms", "msec"} or after in {"ms", "msec"} or (timers and not unit):
            factor = 0.001
        if not equal and after != "ms":
            return
        factor *= shortened if letter == b"K" else 1.0
    elif column in {"memory", "memory_reserved"}:
        if after.endswith("%") or after == "%":
            return
        factor = MEMORY_UNITS.get(after) or MEMORY_UNITS.get(unit) or _size(pair["value"])
    elif column in {"throughput", "samples"}:
        factor *= shortened
    elif column == "step" and (after.startswith(("/s", "%")) or _is_part(pair["value"]) or unit in _ASIDE):
        return
    rank = _weight(key, column, line, pair.start())
    if column in found and found[column][0] >= rank:
        return
    found[column] = (rank, _slot(pair.start("value"), pair["value"], at, factor))


def _meant(key: str, column: str, line: bytes) -> str:
    """The column that a name stands for in this line; none of them where it is of no use there."""
    if key in {"iter_time", "iter time"} and b"train_time=" in line:
        return "data_time"  # of ESPnet: until the batch was there
    if key == "train_time":
        return "step_time" if b"iter_time=" in line else ""
    if key == "time":
        return "step_time" if _PER_STEP.search(line) is not None else ""
    if key == "seconds":
        return "step_time" if b"completed step" in line else ""
    return column


def _weight(key: str, column: str, line: bytes, start: int) -> int:
    """Which of several values for one column counts: that of the largest weight, the first of them."""
    if key in LAST or (key == "loss" and _QUALIFIED.search(line, max(0, start - 42), start) is not None):
        return -1
    return 0 if key not in PREFERRED.get(column, ()) else 9 - PREFERRED[column].index(key)


_QUALIFIED = lazy(rb"(?<!\w)[A-Za-z_]\w{0,40} $")
"""What stands before `loss` where it is the second word of a name: `mtp_1 loss`, `aux loss`."""


def _is_part(value: bytes) -> bool:
    """Whether a number is a fraction: no count of steps."""
    return value.partition(b".")[2].strip(b"0") != b"" and b"e" not in value.lower()


def _size(value: bytes) -> float:
    """Factor of memory without a unit: GiB where it fits a GPU, else MiB or bytes."""
    digits = value.replace(b",", b"").lstrip(b"+-")
    amount = float(digits) if digits[:1].isdigit() else 0.0
    return 1.0 if amount < 1000 else 1 / 1024 if amount < 4e6 else 1 / 1024**3


def _slot(start: int, value: bytes, at: dict[int, int], factor: float) -> Slot:
    if start in at:
        return Slot(at[start], factor)
    word = value.lower().lstrip(b"+-")
    if word.startswith((b"nan", b"inf")):
        return Slot(-1, 1.0, float(value))
    return Slot(-1, 1.0)


def _bars(line: bytes, at: dict[int, int], found: dict[str, tuple[int, Slot]], *, evaluation: bool) -> None:
    """Step and pace of a bar drawn by tqdm, and `[10/500]` behind an epoch."""
    bar = None
    if b"%|" in line:
        for bar in _BAR.finditer(line):  # noqa: B007 - the last one counts
            pass
    number = None if bar is None else bar.start(2)
    if bar is None and b"it [" in line:
        bar = _OPEN_BAR.search(line)
        number = None if bar is None else bar.start(1)
    if bar is not None and number in at and not evaluation:
        # A bar counts within its epoch; a step that the line names counts over the run, but may be a rounded `1.00e+04`.
        named = found.get("step")
        if named is None or _is_rounded(line, named[1], number, at):
            found["step"] = (0, Slot(at[number]))
        rate = bar if bar["rate"] is not None else _RATE.search(line, bar.start())
        if rate is not None and rate.start("rate") in at:
            factor = RECIPROCAL if rate["unit"] == b"it/s" else 1.0
            found.setdefault("step_time", (0, Slot(at[rate.start("rate")], factor)))
    if "step" not in found:
        slashed = _SLASHED.search(line) if b"/" in line else None
        low = line.lower()
        batch, within = (_BATCH.search(line), _NAMED.search(line)) if b"batch" in low else (None, None)
        start = -1 if slashed is None else slashed.start(slashed.lastindex or 0)
        start = start if batch is None else batch.start(1)
        headed = _HEADED.search(line)
        start = start if headed is None else headed.start(1)
        if within is not None and (epoch := within.start((within.lastindex or 0) - 1)) in at:
            start = within.start(within.lastindex or 0)
            found["epoch"] = (0, Slot(at[epoch]))
        if start not in at and start - 1 in at:
            found["step"] = (0, Slot(at[start - 1], -1.0))  # the stroke of `1-100` is no sign
        if start in at and not evaluation:
            found["step"] = (0, Slot(at[start]))
            rate = _RATE.search(line, start) if b"\xe2\x94" in line else None
            if rate is not None and rate.start("rate") in at and "step_time" not in found:
                found["step_time"] = (0, Slot(at[rate.start("rate")], RECIPROCAL if rate["unit"] == b"it/s" else 1.0))


def read_stamp(line: bytes) -> tuple[int, ...]:
    """Indices, among the numbers of a line, of year, month, day, hour, minute, second; empty where there is no date."""
    return _stamp(line, {m.start(): n for n, m in enumerate(_NUMBER.finditer(line))})[0]


def _is_rounded(line: bytes, slot: Slot, count: int, at: dict[int, int]) -> bool:
    """Whether a step of few digits and a power of ten is a bar's count, rounded: with gradients accumulated they count other things."""
    start = next((start for start, number in at.items() if number == slot.number), None)
    token, exact = None if start is None else _NUMBER.match(line, start), _NUMBER.match(line, count)
    if token is None or exact is None or b"e" not in token[0].lower():
        return False
    places = len(token[0].lower().split(b"e")[0].partition(b".")[2])
    return float(b"%.*e" % (places, float(exact[0].replace(b",", b"")))) == float(token[0])


def _stamp(line: bytes, at: dict[int, int]) -> tuple[tuple[int, ...], int]:
    found = _DATE.search(line, 0, 200)
    order = (1, 2, 3, 4, 5, 6)
    if found is None:
        found, order = _US_DATE.search(line, 0, 200), (3, 1, 2, 4, 5, 6)
    if found is None:
        return (), -1
    # The sign of `-08` belongs to the number that is found there.
    places = []
    for group in order:
        start = found.start(group)
        number = at.get(start, at.get(start - 1))
        if number is None:
            return (), -1
        places.append(number)
    return tuple(places), found.start() if order[0] == 1 else -1
