"""The fixed sentences of a new record, by language. Text only; which of them stands where is the renderer's business."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from firstfault.i18n import messages
from firstfault.model.words import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping

LANGUAGES = ("en", "zh")

_ENGLISH = {
    "open.symptom": "OPEN: what people saw first, and what it kept them from doing.",
    "open.cause": "OPEN: confirm or correct it, and name the layer in which it lies; then take the word Guess out.",
    "open.fix": "OPEN: what was changed, with its commit or the place where it was changed.",
    "open.verification": "OPEN: the re-run that held (`firstfault incidents verify {id} --rerun PATH --write`), or a command with its output.",
    "open.sentence": "OPEN: one sentence with facts, impact and limits.",
    "open.unknown": "OPEN: the root cause is not known.",
    "seen.form": "The job {form}{phase}.",
    "form.failed_start": "failed to start",
    "form.interrupted": "was interrupted",
    "form.hung": "hung",
    "form.slow": "was slow",
    "form.wrong_results": "gave wrong results",
    "form.silent": "ended without a word",
    "form.": "failed",
    "form.unknown": "failed or still runs: its log does not say which",
    "phase": ", in the phase {phase}",
    "first": "First sign: {line}",
    "said": "firstfault says: {summary}",
    "sure": "Category {category}, {strength}.",
    "rival": "- {category} ({strength})",
    "chain": "How it went:",
    "rivals": "Also fits:",
    "settled": "Would settle it:",
    "guess": "Guess ({strength}): {summary}",
    "proposed": "Guess, as proposed by the diagnosis:",
    "evidence.none": "No line is quoted.",
}

_CHINESE = {
    "open.symptom": "待填：最先看到了什么，影响了什么。",
    "open.cause": "待填：确认或更正，写明所在层次；确认后删去“猜测”二字。",
    "open.fix": "待填：改了什么，附提交号或修改位置。",
    "open.verification": "待填：复测仍然正常的运行（`firstfault incidents verify {id} --rerun PATH --write`），或命令及其输出。",
    "open.sentence": "待填：一句话，含事实、影响与边界。",
    "open.unknown": "待填：根因未知。",
    "seen.form": "作业{form}{phase}。",
    "form.failed_start": "启动失败",
    "form.interrupted": "中途中断",
    "form.hung": "卡住不动",
    "form.slow": "变慢",
    "form.wrong_results": "结果错误",
    "form.silent": "无声结束",
    "form.": "失败",
    "form.unknown": "失败还是仍在运行，日志没有说明",
    "phase": "，所处阶段：{phase}",
    "first": "最早的迹象：{line}",
    "said": "firstfault 的结论：{summary}",
    "sure": "类别：{category}；把握程度：{strength}。",
    "rival": "- {category}：{strength}",
    "chain": "经过：",
    "rivals": "也说得通的解释：",
    "settled": "可以定论的证据：",
    "guess": "猜测，把握程度：{strength}。{summary}",
    "proposed": "猜测，诊断给出的建议：",
    "evidence.none": "没有引用的日志行。",
}
_PHASES_ZH = {
    Phase.START_UP: "启动",
    Phase.DATA: "读取数据",
    Phase.FORWARD: "前向计算",
    Phase.BACKWARD: "反向计算",
    Phase.OPTIMIZER: "优化器更新",
    Phase.CHECKPOINT: "检查点",
    Phase.EVALUATION: "评估",
    Phase.TEARDOWN: "收尾",
    Phase.UNKNOWN: "未知",
}


def word_of(kind: Literal["category", "strength", "phase"], word: str, language: str) -> str:
    """A closed word as a record shows it: itself, in Chinese with its meaning before it.

    Raises:
        KeyError: there is no such word or language.
    """
    if language == "en":
        return f"`{word}`"
    told = _PHASES_ZH[Phase(word)] if kind == "phase" else messages(language)[f"{kind}.{word}"]
    return f"{told}（`{word}`）"


def sentences(language: str) -> Mapping[str, str]:
    """The catalogue of a language.

    Raises:
        KeyError: there is none of that language.
    """
    return {"en": _ENGLISH, "zh": _CHINESE}[language]
