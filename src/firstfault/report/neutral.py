"""Makes log text harmless: terminal escapes, control and invisible characters, Markdown and HTML.

Must not shorten what it is given unless asked; it changes how text is shown, never what is cited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    import re

_ACTING = lazy(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff]"
    "|[\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Control, direction, joining, filler and tag characters, and lone surrogates: they act, hide or do not print."""
_MARKUP = lazy(r"([\\`*_{}\[\]()<>#+!|~&$^=:@-])")


def neutral(text: str, *, keep: str = "") -> str:
    r"""The text on one line with every acting or invisible character spelt out as `\\xNN` or `\\uNNNN`.

    Args:
        text: anything.
        keep: characters to let through, such as a newline.

    Returns:
        Text that a terminal only prints; a tab becomes a blank.
    """

    def spell(match: re.Match[str]) -> str:
        char = match.group()
        if char in keep:
            return char
        if char == "\t":
            return " "
        code = ord(char)
        if code < 0x100:
            return f"\\x{code:02x}"
        return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

    return _ACTING.sub(spell, text)


def shorten(text: str, limit: int, *, keep_at: int = 0) -> str:
    """The text in at most `limit` characters, with `…` where something was cut off.

    Args:
        text: anything.
        limit: characters, at least 3.
        keep_at: index that has to stay visible; text before it is cut first.
    """
    if len(text) <= limit:
        return text
    start = max(0, min(keep_at - limit // 3, len(text) - limit + 1))
    if start == 0:
        return text[: limit - 1] + "…"
    body = text[start + 1 :]
    return "…" + (body if len(body) <= limit - 1 else body[: limit - 2] + "…")
