"""The JSON format: the published form of a diagnosis, and of the views, for programs.

Must not add, drop or reword anything: the bytes follow the model, in its order, and are the same for the same diagnosis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    import re

    from firstfault.model.diagnosis import Published
    from firstfault.redact import Redacted

_UNSAFE = lazy(
    "[\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
    "|[\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f]"
)
"""Characters that JSON allows as they are but that can act on a terminal or hide text from a reader."""


def _escape(match: re.Match[str]) -> str:
    units = match.group().encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def escaped(text: str) -> str:
    """JSON on one line with what could act on a terminal escaped; the data stay the same."""
    return _UNSAFE.sub(_escape, text)


def neutral_json(encoded: bytes) -> str:
    """Indents JSON and escapes what could act on a terminal; the data stay the same."""
    return _UNSAFE.sub(_escape, msgspec.json.format(encoded, indent=2).decode("utf-8"))


def render_json(safe: Redacted[Published]) -> str:
    """A diagnosis or a view as JSON of the schema that it names.

    Returns:
        UTF-8 text with two blanks of indent, fields in the order of the model, keys of maps sorted, ending in a newline.
    """
    return neutral_json(msgspec.json.encode(safe.content, order="deterministic")) + "\n"
