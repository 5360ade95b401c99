"""The forms of lines that prove that a step was done: bars, tables and step lines of trainers. Reads one line and knows no file.

Bars of downloads, tokenising or loading are kept apart as preparation, those of validation as evaluation: neither is training.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from firstfault.model.lazy import lazy
from firstfault.readers.json_prefix import spoken
from firstfault.readers.shape import shape_of
from firstfault.readers.step_forms import COUNTED, EVENT_KEY, EVENT_STEP, LOGGED_BAR, NAMED, SIZES

TRAINING, PREPARATION, EVALUATION = "training", "preparation", "evaluation"
TRIGGERS = (
    b"%|", b"it [", b"iter", b"Iter", b"tep", b"poch", b"'loss'", b"[batch=", b" [=", b" [>", b"\xe2\x94\x81", b"num_updates", b"Train: ", b"Test: ", b"Eval", b"Val", b" Batch ", b":::MLLOG", b"[train: ", b"[val: ", b"Progress on:", b"\xe6\xad\xa5", b"\xe8\xbf\xad\xe4\xbb\xa3",
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
_K2 = lazy(rb"\bEpoch (\d{1,6}), batch (\d{1,9}), (?:\w+_)?loss\[")
_ESPNET = lazy(rb"(\d{1,6})epoch:(train|valid):\d{1,9}-(\d{1,9})batch:")
_WENET = lazy(rb"\b(TRAIN|CV) (?:\|[^|\n]{0,60}\| ?)?Batch (\d{1,6})/(\d{1,9}) loss ")
_ITER = lazy(rb"\bIter\((train|val|test)\) {0,3}\[ {0,9}(\d{1,9})/(\d{1,9})\]")
_TRACKER = lazy(rb"^\[(train|val): (\d{1,6}), {1,9}(\d{1,9}) / (\d{1,9})\] FPS: ")
_COMPOSER = lazy(rb"(?:\[epoch=(\d{1,6})(?:/\d{1,6})?\])?\[batch=(\d{1,9})(?:/(\d{1,9}))?\]")
_PLAIN = lazy(
    rb"(?i)(?<![\w.-])(?P<name>global[_ ]?steps?|total[_ ]step|current_steps|completed steps?|train(?:ing)?[_ ]?steps?|optimizer[_ ]steps?|"
    rb"steps?|iter(?:ation)?s?|updates?|num_updates)['\"]?(?: (?:is|no\.?))?[ :=#\[]{1,6}['\"]?(?P<step>\d{1,9})(?![\d.])(?: ?(?:/|of) ?(?P<total>\d{1,9}))?",
)
_METRIC = lazy(
    rb"(?i)loss|\blr\b|learning.?rate|\bgrad(?:ients?)?[ _.-]?(?:norm|scale|clip)|\bgrad ?[:=]|\bgnorm|\btok|sample|throughput|it/s|s/it|steps?/s|\bppl|\bacc|mfu|t?flops|\beta\b|elapsed|"
    rb"consumed|speed|\bwps\b|seconds|\btime\b|ms\b",
)
_SETTING = lazy(rb"(?i)(?:accum\w*|warm-?up|save|saving|logging|max\w*|total|every|per|num|number of|decay)[ -]\Z")
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
_COLOUR = lazy(rb"\x1b\[[0-9;?]*[A-Za-z]")


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
    text = spoken(segment) if segment[:1] == b"{" else None
    # What a collector writes beside the text (a stream's level, a pod's name) says nothing of the step.
    shape = (None if text is None else _shape_of(text)) or _shape_of(segment)
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
    return None if keras is None else Shape(TRAINING, int(keras[1]), int(keras[2]), None, KERAS_BAR)


KERAS_BAR = "bar of an epoch"
EPOCH_LINE = 64 * 1024
"""Bytes before a bar in which the line that heads its epoch is looked for."""


def of_run(data: bytes, start: int, shape: Shape) -> Shape:
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
        epoch, total = (None if number is None else int(number) for number in found.group(1, 3))
        return Shape(TRAINING, int(found[2]), total, epoch, "batch")
    recipe = _of_recipe(segment) or _told_apart(segment)
    if recipe is not None:
        return recipe
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


def _of_recipe(segment: bytes) -> Shape | None:
    """Lines of speech toolkits, OpenMMLab and object trackers that count batches within an epoch, or iterations without one."""
    found = _TRACKER.search(segment)
    if found is not None:
        kind = TRAINING if found[1] == b"train" else EVALUATION
        return Shape(kind, int(found[3]), int(found[4]), int(found[2]), "epoch")
    found = _K2.search(segment)
    if found is not None:
        return Shape(TRAINING, int(found[2]), None, int(found[1]), "epoch")
    found = _ESPNET.search(segment)
    if found is not None:
        return Shape(TRAINING if found[2] == b"train" else EVALUATION, int(found[3]), None, int(found[1]), "epoch")
    found = _WENET.search(segment)
    if found is not None:
        return Shape(TRAINING if found[1] == b"TRAIN" else EVALUATION, int(found[3]), None, int(found[2]), "epoch")
    found = _ITER.search(segment)
    if found is not None:
        return Shape(TRAINING if found[1] == b"train" else EVALUATION, int(found[2]), int(found[3]), None, "iteration")
    return None


_CHINESE_METRIC = lazy(
    "(?:损失|学习率|吞吐|梯度|耗时|用时|速度|显存|准确率)".encode()
    + rb"[\x80-\xff]{0,18}[ :=]{0,12}(?:[-+]?\d|nan|inf)"
)
_CHINESE_NOT_DONE = lazy("加载|恢复|续训|跳过|失败|错误|异常|超时|预热|间隔|每隔|中断".encode())
_CHINESE_EVALUATION = lazy("验证|评估|测试".encode())


def _told_apart(segment: bytes) -> Shape | None:
    """Events of MLPerf, bars that a logger writes, and steps in Chinese words."""
    if b":::MLLOG" in segment:
        key, step = EVENT_KEY.search(segment), EVENT_STEP.search(segment)
        if key is None or b"loss" not in key["key"]:
            return None
        # What it counts as a rule is samples, and those are no steps.
        kind = EVALUATION if key["key"].startswith((b"eval", b"val")) else TRAINING
        return Shape(kind, None if step is None else int(step[1]), None, None, "loss event")
    if b"Progress on:" in segment:
        bar = LOGGED_BAR.search(segment)
        if bar is None:
            return None
        total = None if bar["total"] is None else round(float(bar["total"]) * SIZES[bar["total_size"].lower()])
        kind = TRAINING if bar["of"] == b"train" else EVALUATION
        return Shape(kind, round(float(bar["value"]) * SIZES[bar["size"].lower()]), total, None, "logged bar")
    return None if segment.isascii() else _chinese(segment)


def _chinese(segment: bytes) -> Shape | None:
    """`第 120 步 损失: 2.1` and `步数：120/4000，损失：2.1`: a step and a measurement, and no word of failure or loading."""
    step = next((c for c in COUNTED.finditer(segment) if c["of"].decode() in {"步", "次迭代"}), None)
    step = step or NAMED.search(segment)
    if step is None or _CHINESE_NOT_DONE.search(segment) or _NOT_DONE.search(segment, 0, step.start() + 200):
        return None
    if _CHINESE_METRIC.search(segment) is None and _METRIC.search(segment) is None:
        return None
    kind = EVALUATION if _CHINESE_EVALUATION.search(segment) else TRAINING
    return Shape(kind, int(step["value"]), None if step["total"] is None else int(step["total"]), None, "step")


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
    kind = (
        EVALUATION
        if re.search(rb"(?i)\b(?:val(?:id\w*)?|eval\w*|test)\b(?!: n/a)", segment[: best.end() + 60])
        else TRAINING
    )
    return _Plain(kind, best.span("step"), best.span("total"))


def _rank_of(name: bytes) -> int:
    """Which of several step numbers of one line is meant: the one over the whole run."""
    word = name.lower()
    return 2 if word.startswith((b"global", b"total", b"completed", b"optimizer", b"num_up")) else 1
