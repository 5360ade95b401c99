"""Whether a regular expression sees which digit stands in a text, or only that one does.

Lines of a thousand ranks differ in their numbers alone: what an expression of the second kind makes of one of them it makes
of all. Judges the text of an expression, on the safe side; it matches nothing.
"""

from __future__ import annotations

import re

_PIECES = re.compile(r"\[(?:\\.|[^\]\\])+\]|\{\d*(?:,\d*)?\}|\\x[0-9a-fA-F]{2}|\\.|\(\?P=|.", re.DOTALL)
_CODE = re.compile(r"\\x([0-9a-fA-F]{2})")
_ALL_DIGITS = re.compile(r"0-9")
_CLASS_OF_DIGITS = re.compile(r"\[\^?[^\[\]\\\d]*0-9[^\[\]\\\d]*\]")
_COUNT = re.compile(r"(?<!\\)\{\d*(?:,\d*)?\}")
_COUNT_IN_CLASS = re.compile(r"\[[^\]]*\{")
_SEEN = re.compile(r"[0-9]|\(\?P=")


def blind(pattern: str) -> bool:
    """Whether an expression of the shared dialect matches a text just as it matches it with other digits in their places.

    A digit that it names, a range that ends at one and a repetition of what matched before all speak against it.
    """
    # Nearly all have digits in their counts alone; that is seen without going through them piece by piece.
    if not _COUNT_IN_CLASS.search(pattern) and not _SEEN.search(_CLASS_OF_DIGITS.sub("", _COUNT.sub("", pattern))):
        return True
    for found in _PIECES.finditer(pattern):
        piece = _CODE.sub(_character, found.group())
        if piece[0] == "[":
            piece = _ALL_DIGITS.sub("", piece)
        elif piece[0] == "{" and len(piece) > 1:
            continue
        if piece == "(?P=" or any(c in "0123456789" for c in piece):
            return False
    return True


def _character(code: re.Match[str]) -> str:
    return chr(int(code[1], 16))
