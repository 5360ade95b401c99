"""Tells a line that says something from one that only quotes it: settings, help, shell traces, prose in quotation marks.

A job prints its settings, its command and its help long before anything fails, and programs put the words of errors into
their own sentences. Rules about the form of a line only; none of them knows a signature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Sequence

_WARNING = lazy(
    rb"\b(?:Future|Deprecation|User|Runtime|PendingDeprecation|Resource|Syntax|Import|Experimental|Possible)Warning: "
)
"""Head of a Python warning: what stands behind it in a line is quoted, however much it sounds like an error."""
_ECHO = lazy(
    rb"(?:export |declare -[a-z]+ |setenv )?[A-Z][A-Z0-9_]{2,60}=(?! )"
    rb"|\s*-{1,2}[a-zA-Z][\w.-]*(?:[ =,\t]|$)"
    rb"|\+{1,6} (?!Exception Group )\S"
    rb"|#(?:SBATCH|PBS|BSUB|\$|PJM) "
    rb"|(?:> )?\s*raise [A-Za-z_][\w.]*\("
)
"""Whole bodies that are never speech: an environment variable (`NAME=value`), an option or its help (`--flag …`), a command
traced by the shell (`+ command`), a scheduler's directive, source that would raise an error (`raise Error(…`, also as pytest shows it)."""
_SETTING_VALUE = lazy(
    rb"[\w.-]*[\"']?\s{0,40}(?::(?=\s)|=|\.{3,60})\s{0,20}[\"']?"
    rb"([Tt]rue|TRUE|[Ff]alse|FALSE|[Nn]one|[Nn]ull|nil|yes|no|on|off|-?\d[\d.:_-]*(?:e[+-]?\d+)?(?: ?(?:s|ms|sec|secs|seconds|min|minutes|h|hours|days))?)"
    rb"[\"']?\s{0,3}(?:[,;)}\]]|$|\s#|\s[\w.-]+=)"
)
"""What follows a name that is a setting: the rest of the name, a sign, and a plain value at the end of its field."""
_ASSIGNED = lazy(rb"[\w.-]*\s+=\s")
_NEGATIVE = lazy(rb"(?i)false|none|null|nil|no|off|0(?!\d)")
_NUMERAL = frozenset(bytes([c]) for c in b"-0123456789")
_WORD = lazy(rb"[A-Za-z][\w.-]*")
_SNAKE = lazy(rb"[a-z0-9_.-]+")
_KEY = lazy(rb"[\"']?([A-Za-z_][\w.-]{0,80})[\"']?\s?[:=]\s?(?:[\[({]\s?)?(?:[\"'][^\"'\n]{0,200}[\"'],\s?){0,20}$")
_LISTED = lazy(
    rb"(?:^|[_.-])(?:on|retry|retry_?on|retri\w*|ignored?|ignore_\w+|allow(?:ed)?|skip\w*|expect\w*|patterns?|match\w*|filters?"
    rb"|white_?list|black_?list|allow_?list|deny_?list|regex\w*|regexp|known|transient|recoverable|handled?|trigger\w*|keywords?"
    rb"|action|policy|notify|alerts?|rules?|if|when|fatal_errors|error_patterns)(?:[_.-]|$)"
)
"""Names of settings that hold texts of errors to look out for."""
_ITEM = lazy(rb"\s*- ([\"'])[^\"'\n]{1,200}\1\s*$")
"""A list item of YAML that is one quoted text."""
_PROSE = lazy(rb" [a-z]{1,12}(?: [a-z]|[.!?]?\s*$)")
"""How a sentence goes on behind a closing quotation mark."""


def quoted(segment: bytes, start: int, end: int, starts: Sequence[int], *, in_warnings: bool) -> bool:
    """Whether the words from `start` to `end` are only quoted in their line.

    Args:
        segment: the line.
        start: of the words, in bytes.
        end: of the words.
        starts: positions at which a message may begin (after stream prefixes).
        in_warnings: whether a Python warning may say these words for itself.
    """
    if not in_warnings and _WARNING.search(segment, 0, start) is not None:
        return True
    body = segment[max((s for s in starts if s <= start), default=0) :]
    if _ECHO.match(body) is not None or _ITEM.match(body) is not None:
        return True
    return _names_setting(segment, start, end) or _listed(segment, start) or _cited(segment, start, end)


def _names_setting(segment: bytes, start: int, end: int) -> bool:
    """Whether the words are (part of) the name of a setting whose value follows: `node_failure: 3`, `OOMKilled: false`.

    A name in CamelCase with a value that is not a denial is an API's word for a state, and counts.
    """
    if _WORD.fullmatch(segment, start, end) is None:
        return False
    found = _SETTING_VALUE.match(segment, end)
    if found is None:
        return False
    assigned = _ASSIGNED.match(segment, end) is not None
    return assigned or _SNAKE.fullmatch(segment, start, end) is not None or _NEGATIVE.match(found[1]) is not None


def hangs_on_number(segment: bytes, start: int, end: int) -> bool:
    """Whether the value of a number decides if the words from `start` to `end` are only quoted: `OOMKilled: 0` denies."""
    if _WORD.fullmatch(segment, start, end) is None:
        return False
    found = _SETTING_VALUE.match(segment, end)
    return found is not None and found[1][:1] in _NUMERAL


def _listed(segment: bytes, start: int) -> bool:
    """Whether the words are a text, in quotation marks, of a setting that lists texts to look out for."""
    opening = max(segment.rfind(b'"', 0, start), segment.rfind(b"'", 0, start))
    if opening < 0:
        return False
    key = _KEY.search(segment, max(0, opening - 2000), opening)
    return key is not None and _LISTED.search(key[1].lower()) is not None


def _cited(segment: bytes, start: int, end: int) -> bool:
    """Whether the words stand in quotation marks inside a sentence that goes on behind them in prose.

    `the model answered "CUDA out of memory" to question 3` cites; `write failed: "No space left on device"`,
    `OSError(28, 'No space left on device')` and `msg="…" path=…` say it.
    """
    for mark in (b'"', b"'", b"`"):
        opening = _opening(segment, mark, start)
        if opening is None or segment.find(mark, start, end) >= 0:
            continue
        closing = segment.find(mark, end)
        before = segment[:opening].rstrip()[-1:]
        if closing > 0 and (before.isalpha() or before == b":") and _PROSE.match(segment, closing + 1) is not None:
            return True
    return False


def _opening(segment: bytes, mark: bytes, start: int) -> int | None:
    """Position of the quotation mark that is open at a place; None where none is."""
    position, opened = 0, None
    while True:
        position = segment.find(mark, position)
        if position < 0 or position >= start:
            return opened
        if opened is None:
            # An apostrophe inside a word opens nothing.
            if (
                segment[position - 1 : position] in {b" ", b"(", b"", b"\t"}
                and segment[position + 1 : position + 2].strip()
            ):
                opened = position
        elif not segment[position + 1 : position + 2].isalnum():
            opened = None
        position += 1
