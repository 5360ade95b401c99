"""Chinese: the catalogues lie beside this file, a template and its translation a line; these are its punctuation marks.

Text only.
"""

from __future__ import annotations

FULL_STOP = "。"

JOINTS = (
    ("; ", "；"),
    (": ", "："),
    (", ", "，"),
    (" and ", " 和 "),
    (" or ", " 或 "),
    (" (", " ("),
)
"""What separates the parts of a sentence in English -> in Chinese, the loosest first."""

_CALL = r"(_?[A-Z][A-Z_]{2,}(?: \d+)?|a collective)"
_GROUP = r"(?: \((?:[\w ,-]+)\))?"
PHRASES: dict[str, str] = {
    rf"\b{_CALL} of the default group\b": r"默认进程组的 \1",
    rf"\b{_CALL} of group (\w+{_GROUP})": r"进程组 \2 的 \1",
    r"\b(\d+) s\b(?!/)": r"\1 秒",
    r"\b(\d+) min\b": r"\1 分钟",
    r"\b(\d+(?:\.\d+)?) h\b": r"\1 小时",
    r"\b(\d+(?:\.\d+)?) days\b": r"\1 天",
}
"""Phrases of a fixed form that stand in many sentences -> their form in Chinese."""
