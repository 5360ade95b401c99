"""What a translation must carry over whole: quotations, code, an exception's own words, spans of time, collectives.

Each is put behind one character of its own while a sentence is translated, so that no template can cut it, and put back
at the end. Holds no prose of any language; knows nothing of templates.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

FIRST, LAST = 0xE000, 0xF8FF
"""The characters that stand for what is carried over: for private use, so that no text of ours holds them."""
ATOM = re.compile(f"[{chr(FIRST)}-{chr(LAST)}]")
_QUOTED = re.compile(
    r"“[^”]*”|(?<!\w)'[^'\s]*[()][^'\s]*'(?!\w)|(?<![\w.])(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception)\([\w.]+\)(?!:)"
)
"""Quotations, a word in quotes whose brackets may be half ones, and an exception that names the one that it hands on: `ray.exceptions.RayTaskError(ValueError)`."""
_RAISED = re.compile(
    r"(?<![\w.(])(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning)(?:\([\w.]*\))?: \S.*?"
    r"(?=,? on ranks? \d|,? on [\w.-]+(?: \([^()]*\))?(?: may have come before it|[.]?$|\. (?:Ranks? \d|[A-Z]\w+ ))"
    r"| may have come before it|,? and it is not nearer|\.? Ranks? [\d, -]+ only waited|\.?$)"
)
"""An exception and its message, up to where our own sentence goes on."""
_NUMBERS = re.compile(r"\d+(?:[.:]\d+)*")


class Atoms:
    """The texts that are carried over, each with the character that stands for it.

    Args:
        said: pattern of what has a fixed form in the other language -> that form.
    """

    def __init__(self, said: Mapping[str, str]) -> None:
        self._said = tuple((re.compile(pattern), form) for pattern, form in said.items())
        self._of: dict[str, str] = {}
        self._texts: list[str] = []

    @property
    def full(self) -> bool:
        """Whether hardly a character is left: then a new one is to be made."""
        return len(self._texts) > LAST - FIRST - 2000

    def hold(self, text: str) -> str:
        """The character that stands for a text; the text itself where there is none left."""
        found = self._of.get(text)
        if found is None:
            if len(self._texts) > LAST - FIRST:
                return text
            found = self._of[text] = chr(FIRST + len(self._texts))
            self._texts.append(text)
        return found

    def quoted(self, text: str) -> str:
        """The text with its quotations, and what exceptions said, held."""
        return self._held(_RAISED, self._held(_QUOTED, text, lambda m: m.group()), lambda m: m.group())

    def phrased(self, text: str) -> str:
        """The text with what has a fixed form in the other language held in that form."""
        for pattern, form in self._said:
            text = self._held(pattern, text, lambda m, form=form: m.expand(form))  # type: ignore[misc]
        return text

    def released(self, text: str) -> str:
        """The text with everything that is held put back."""
        while ATOM.search(text):
            text = ATOM.sub(lambda m: self._texts[ord(m.group()) - FIRST], text)
        return text

    def _held(self, pattern: re.Pattern[str], text: str, make: Callable[[re.Match[str]], str]) -> str:
        return pattern.sub(lambda m: self.hold(make(m)), text)


def lost(text: str, said: str) -> bool:
    """Whether a number or a piece of code of the text is not in the translation as often."""
    return _short(_NUMBERS.findall(text), _NUMBERS.findall(said)) or _short(_code(text), _code(said))


def _code(text: str) -> list[str]:
    return text.split("`")[1::2]


def _short(wanted: Iterable[str], there: Iterable[str]) -> bool:
    left = list(there)
    for one in wanted:
        if one not in left:
            return True
        left.remove(one)
    return False
