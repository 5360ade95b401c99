"""The closed words of a record: states, sections with their headings in both languages, marks of what is open or a guess.

Text only; must not read or judge a record.
"""

from __future__ import annotations

from firstfault.model.words import Word

SCHEMA = "firstfault.incident/1"


class State(Word):
    """How far an incident is understood and dealt with."""

    OPEN = "open"
    """A symptom; what is said of its cause is a guess."""
    SUPPORTED = "supported"
    """Lines speak for the root cause."""
    FIXED = "fixed"
    """A fix is written down and made; whether it holds is not shown yet."""
    VERIFIED = "verified"
    """A re-run that held, or a command with its output, is linked."""
    REJECTED = "rejected"
    """It was no incident, or another one; the reason is there."""


class Section(Word):
    """The parts of a record's text."""

    SYMPTOM = "symptom"
    DIAGNOSIS = "diagnosis"
    ROOT_CAUSE = "root_cause"
    FIX = "fix"
    VERIFICATION = "verification"
    SENTENCE = "sentence"
    EVIDENCE = "evidence"


WHOLE = (
    Section.SYMPTOM,
    Section.DIAGNOSIS,
    Section.ROOT_CAUSE,
    Section.FIX,
    Section.VERIFICATION,
    Section.SENTENCE,
)
"""The sections of a record that tells all, in order; a verified one needs them."""

HEADINGS: dict[str, dict[Section, str]] = {
    "en": {
        Section.SYMPTOM: "Symptom",
        Section.DIAGNOSIS: "Diagnosis",
        Section.ROOT_CAUSE: "Root cause",
        Section.FIX: "Fix",
        Section.VERIFICATION: "Verification",
        Section.SENTENCE: "In one sentence",
        Section.EVIDENCE: "Evidence",
    },
    "zh": {
        Section.SYMPTOM: "现象",
        Section.DIAGNOSIS: "诊断过程",
        Section.ROOT_CAUSE: "根因",
        Section.FIX: "修复",
        Section.VERIFICATION: "验证",
        Section.SENTENCE: "一句话总结",
        Section.EVIDENCE: "证据",
    },
}
"""Language -> the heading that the program writes."""

ALIASES: dict[str, Section] = {
    **{heading.lower(): section for table in HEADINGS.values() for section, heading in table.items()},
    **dict.fromkeys(
        (
            "symptoms",
            "problem",
            "error",
            "what happened",
            "症状",
            "问题",
            "问题现象",
            "问题描述",
            "报错",
            "错误现象",
            "故障现象",
            "表现",
            "错误信息",
            "报错信息",
            "错误描述",
            "故障描述",
            "error message",
            "what we saw",
            "what was seen",
            "observed",
            "observation",
            "observations",
            "issue",
            "failure",
            "description",
            "故障",
            "故障表现",
            "现象描述",
            "问题表现",
            "异常现象",
        ),
        Section.SYMPTOM,
    ),
    **dict.fromkeys(
        (
            "analysis",
            "investigation",
            "what was looked at",
            "looked at",
            "诊断",
            "排查",
            "排查过程",
            "定位",
            "定位过程",
            "分析",
            "诊断方法",
            "looked into",
            "what we checked",
            "debugging",
            "triage",
            "diagnosis steps",
            "findings",
            "排查步骤",
            "排查方法",
            "诊断步骤",
            "定位方法",
            "分析过程",
            "问题定位",
        ),
        Section.DIAGNOSIS,
    ),
    **dict.fromkeys(
        (
            "cause",
            "causes",
            "root-cause",
            "root causes",
            "root cause analysis",
            "reason",
            "why",
            "cause and layer",
            "原因",
            "根本原因",
            "原因分析",
            "根因分析",
            "问题原因",
            "故障原因",
            "错误原因",
            "成因",
            "what went wrong",
            "why it happened",
            "known cause",
            "定位结论",
            "根因定位",
            "根本原因分析",
            "原因定位",
        ),
        Section.ROOT_CAUSE,
    ),
    **dict.fromkeys(
        (
            "solution",
            "resolution",
            "workaround",
            "what was done",
            "remedy",
            "fixes",
            "fixed by",
            "how fixed",
            "处理方案",
            "处理措施",
            "处理办法",
            "处置",
            "解决措施",
            "修复措施",
            "修复方案",
            "修复方法",
            "解决",
            "解决方案",
            "解决方法",
            "解决办法",
            "处理",
            "处理方法",
            "what we did",
            "what we changed",
            "action",
            "actions",
            "action taken",
            "actions taken",
            "mitigation",
            "corrective action",
            "how we fixed it",
            "how it was fixed",
            "处置方式",
            "处置措施",
            "处理方式",
            "处理过程",
            "解决过程",
            "应对措施",
            "规避方法",
            "规避措施",
            "临时方案",
        ),
        Section.FIX,
    ),
    **dict.fromkeys(
        (
            "verified by",
            "how verified",
            "verification result",
            "验证方式",
            "验证情况",
            "verify",
            "validation",
            "proof",
            "验证方法",
            "验证结果",
            "复测",
            "回归",
            "回归验证",
            "checked",
            "verified",
            "tested",
            "how we checked",
            "how we verified",
            "confirmed by",
            "after the fix",
            "result",
            "outcome",
            "结果",
            "处理结果",
            "修复结果",
            "如何验证",
            "验证过程",
            "确认方式",
        ),
        Section.VERIFICATION,
    ),
    **dict.fromkeys(
        ("one sentence", "sentence", "summary", "一句话", "一句话描述", "总结", "小结", "面试表述", "面试话术"),
        Section.SENTENCE,
    ),
    **dict.fromkeys(("log", "logs", "lines", "日志", "日志证据", "关键日志"), Section.EVIDENCE),
}
"""Heading in small letters -> the section that it opens, also as people name it in notes of their own."""

OPEN_MARKS = ("OPEN:", "待填：", "待填:")
"""How a part begins that a person has to fill."""
GUESS_MARKS = ("Guess", "guess", "猜测")
"""Words one of which stands in what is not shown yet."""

TEXT_KEYS = (
    "schema", "id", "title", "title_zh", "state", "date", "language", "command", "revision", "image", "scope",
    "formal_results", "category", "strength", "form", "layer", "phase", "fingerprint", "signature", "op", "place",
    "message", "mask", "world_size", "ranks_at_least", "ranks_seen", "last_step", "total_steps", "framework", "rejected_because",
    "evidence_digest", "failed_at", "notes_digest",
)  # fmt: skip
"""Keys of a head that hold one text."""
LIST_KEYS = (
    "signatures", "ranks", "hosts", "hosts_seen", "devices", "shards", "versions", "fix_links", "verifications", "search_words",
    "shown_by",
)  # fmt: skip
"""Keys of a head that hold a list."""
OURS = frozenset({*TEXT_KEYS, *LIST_KEYS})
"""Keys of a head that the program knows."""
FACTS = {
    "signature": "signatures",
    "host": "hosts",
    "gpu": "devices",
    "shard": "shards",
    "version": "versions",
}
"""Field by which one may search or count -> the list that holds it."""
