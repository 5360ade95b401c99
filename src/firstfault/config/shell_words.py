"""Cuts a shell script into its commands: raw words, operators, arrays and here-documents, each with its line. Runs and expands nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterator

_ARRAY = re.compile(r"([A-Za-z_]\w*)(\+?)=\(")
_OPERATOR = re.compile(r"&&|\|\||;;|\|&|<<<|<<-?|\d*>>?&?\d?|&>>?|<&?|[;|&()]|\n")
_BREAKS = frozenset(" \t\n;|&()<>")


class Raw(Struct, frozen=True):
    """One piece of a script as it is written."""

    kind: Literal["word", "operator", "array", "here"]
    text: str
    line: int
    items: tuple[Raw, ...] = ()
    """Words of an array."""
    more: bool = False
    """Of an array: whether it is added to; of a here-document: whether its text is taken as it is."""


class Cutter(Struct):
    """A script and how far it is cut."""

    text: str
    at: int = 0
    line: int = 1
    waiting: list[tuple[str, bool]] = field(default_factory=list)
    """Ends of here-documents that begin behind this line."""

    def pieces(self) -> Iterator[Raw]:
        """All pieces in order."""
        while self.at < len(self.text):
            self._skip()
            if self.at >= len(self.text):
                return
            array = _ARRAY.match(self.text, self.at)
            if array is not None:
                yield self._array(array)
                continue
            operator = _OPERATOR.match(self.text, self.at)
            if operator is not None and not (
                self.text[self.at] in "<>" and self.text[self.at + 1 : self.at + 2] == "("
            ):
                yield from self._operator(operator.group())
                continue
            if operator is not None:
                self.at += 1  # `<(…)`: what is inside is a command of its own
                continue
            yield self.word()

    def _skip(self) -> None:
        while self.at < len(self.text):
            if self.text[self.at] in " \t\r":
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
                self.line += 1
            elif self.text.startswith("\\\r\n", self.at):
                self.at += 3
                self.line += 1
            elif self.text[self.at] == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                return

    def _operator(self, text: str) -> Iterator[Raw]:
        line = self.line
        self.at += len(text)
        if text == "\n":
            self.line += 1
            yield Raw("operator", text, line)
            for end, plain in self.waiting:
                yield self._here(end, plain=plain)
            self.waiting = []
            return
        if text in {"<<", "<<-"}:
            self._skip()
            end = self.word().text
            self.waiting.append((end.strip("'\"\\"), end[:1] in {"'", '"', "\\"}))
            return
        yield Raw("operator", text, line)

    def _here(self, end: str, *, plain: bool) -> Raw:
        begin, line = self.at, self.line
        while self.at < len(self.text):
            stop = self.text.find("\n", self.at)
            stop = len(self.text) if stop < 0 else stop
            here = self.text[self.at : stop]
            start, self.at = self.at, min(stop + 1, len(self.text))
            self.line += 1
            if here.strip() == end:
                return Raw("here", self.text[begin:start], line, more=plain)
        return Raw("here", self.text[begin : self.at], line, more=plain)

    def _array(self, match: re.Match[str]) -> Raw:
        line = self.line
        self.at = match.end()
        items = []
        while self.at < len(self.text):
            self._skip()
            here = self.text[self.at : self.at + 1]
            if here == "\n":
                self.at += 1
                self.line += 1
            elif here in {")", ""}:
                self.at += 1
                break
            elif here in _BREAKS:
                self.at += 1
            else:
                items.append(self.word())
        return Raw("array", match[1], line, tuple(items), bool(match[2]))

    def word(self) -> Raw:
        """The word that begins here, with its quotes."""
        begin, line = self.at, self.line
        while self.at < len(self.text) and self.text[self.at] not in _BREAKS:
            self.step()
        if self.at == begin:
            self.at += 1
        return Raw("word", self.text[begin : self.at], line)

    def step(self) -> None:
        """Goes over one character, quotation or expansion."""
        here = self.text[self.at]
        if here == "\\":
            self._over(2)
        elif here == "'":
            self._to(self.text.find("'", self.at + 1))
        elif here == '"':
            self.quoted()
        elif here == "`":
            self._to(self.text.find("`", self.at + 1))
        elif self.text.startswith("$(", self.at):
            self._paired("(", ")")
        elif self.text.startswith("${", self.at):
            self._paired("{", "}")
        else:
            self.at += 1

    def _over(self, count: int) -> None:
        self.line += self.text.count("\n", self.at, self.at + count)
        self.at += count

    def _to(self, end: int) -> None:
        stop = len(self.text) if end < 0 else end + 1
        self._over(stop - self.at)

    def quoted(self) -> None:
        """Goes over a text in double quotes."""
        self.at += 1
        while self.at < len(self.text) and self.text[self.at] != '"':
            if self.text[self.at] == "\\":
                self._over(2)
            elif self.text.startswith("$(", self.at):
                self._paired("(", ")")
            elif self.text[self.at] == "`":
                self._to(self.text.find("`", self.at + 1))
            else:
                self._over(1)
        self.at += 1

    def _paired(self, opening: str, closing: str) -> None:
        depth = 0
        self.at += 1
        while self.at < len(self.text):
            here = self.text[self.at]
            if here == "\\":
                self._over(2)
                continue
            if here == "'" and opening == "(":
                self._to(self.text.find("'", self.at + 1))
                continue
            if here == '"':
                self.quoted()
                continue
            depth += (here == opening) - (here == closing)
            self._over(1)
            if depth == 0:
                return
