"""JSON with the line of every value; forgives what the forgiving readers of trainers forgive, and notes it.

DeepSpeed reads its file with hjson, which takes comments and a comma too many; the json module of Python takes neither.
"""

from __future__ import annotations

import re
from json.decoder import scanstring  # type: ignore[attr-defined]

from firstfault.config.nouns import Node, Problem

_SPACE = re.compile(r"[ \t\r\n\ufeff]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|-?Infinity|NaN")
_WORD = re.compile(r"[A-Za-z_]\w*")
_WORDS = {"true": True, "false": False, "null": None}
_OTHERS = {"True": True, "False": False, "None": None}
DEEPEST = 60
"""Levels of maps and lists; more are no settings."""


class UnreadableError(Exception):
    """The text is not of its format."""

    def __init__(self, what: str, line: int) -> None:
        super().__init__(what)
        self.what = what
        self.line = line


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.problems: list[Problem] = []
        self._counted = (0, 1)

    def line(self, at: int | None = None) -> int:
        """Line of a place; places come in order."""
        at = self.at if at is None else at
        begin, line = self._counted if self._counted[0] <= at else (0, 1)
        line += self.text.count("\n", begin, at)
        self._counted = (at, line)
        return line

    def note(self, what: str, why: str) -> None:
        self.problems.append(Problem(check="file.form", state="warn", line=self.line(), what=what, why=why))

    def skip(self) -> None:
        while True:
            match = _SPACE.match(self.text, self.at)
            self.at = match.end() if match else self.at
            if self.text.startswith(("//", "#"), self.at):
                end = self.text.find("\n", self.at)
            elif self.text.startswith("/*", self.at):
                end = self.text.find("*/", self.at) + 1
            else:
                return
            self.note("holds a comment", "DeepSpeed takes it, the json module of Python does not")
            self.at = len(self.text) if end <= 0 else end + 1

    def value(self, depth: int) -> Node:
        self.skip()
        line = self.line()
        if depth > DEEPEST:
            raise UnreadableError("is nested too deeply", line)
        here = self.text[self.at : self.at + 1]
        if here == "{":
            return self.map(line, depth)
        if here == "[":
            return self.list(line, depth)
        if here == '"':
            return Node("scalar", line, self.string(), quoted=True)
        number = _NUMBER.match(self.text, self.at)
        if number is not None:
            self.at = number.end()
            word = number.group()
            return Node("scalar", line, int(word) if re.fullmatch(r"-?\d+", word) else float(word))
        return Node("scalar", line, self.word())

    def word(self) -> object:
        match = _WORD.match(self.text, self.at)
        word = match.group() if match else self.text[self.at : self.at + 1]
        if match is not None and word in _WORDS:
            self.at = match.end()
            return _WORDS[word]
        if match is not None and word in _OTHERS:
            raise UnreadableError(f"says {word}, which is Python: JSON says {str(_OTHERS[word]).lower().replace('none', 'null')}", self.line())  # fmt: skip
        if match is not None and len(word) > 2 and word.upper() == word:
            raise UnreadableError(f"holds {word}, which something else is to fill in", self.line())
        if word == "'":
            raise UnreadableError("has text in single quotes: JSON wants double ones", self.line())
        raise UnreadableError(
            "ends in the middle" if not word else f"has {word!r} where a value is expected", self.line()
        )

    def string(self) -> str:
        line = self.line()
        try:
            text, self.at = scanstring(self.text, self.at + 1, False)  # noqa: FBT003 - its third argument has no name
        except ValueError as error:
            raise UnreadableError(f"has text that does not end: {str(error).split(':')[0]}", line) from error
        return str(text)

    def map(self, line: int, depth: int) -> Node:
        node = Node("map", line)
        self.at += 1
        comma = False
        while True:
            self.skip()
            here = self.text[self.at : self.at + 1]
            if here == "}":
                if comma:
                    self.note("has a comma behind the last entry", "DeepSpeed takes it, the json module of Python does not")  # fmt: skip
                self.at += 1
                return node
            if node.fields and not comma:
                raise UnreadableError("lacks a comma between two entries", self.line())
            if here != '"':
                what = "has text in single quotes: JSON wants double ones" if here == "'" else "lacks a key in double quotes"  # fmt: skip
                raise UnreadableError(what if here else "ends before its last bracket", self.line())
            at = self.line()
            key = self.string()
            self.skip()
            if self.text[self.at : self.at + 1] != ":":
                raise UnreadableError(f"lacks a colon behind {key!r}", self.line())
            self.at += 1
            if key in node.fields:
                self.problems.append(Problem(check="file.twice", state="fail", line=at, what=f"{key} is set a second time, first on line {node.lines[key]}", why="readers take the later one or refuse both"))  # fmt: skip
            node.fields[key], node.lines[key] = self.value(depth + 1), at
            comma = self.comma()

    def list(self, line: int, depth: int) -> Node:
        node = Node("list", line)
        self.at += 1
        comma = False
        while True:
            self.skip()
            if self.text[self.at : self.at + 1] == "]":
                if comma:
                    self.note("has a comma behind the last entry", "DeepSpeed takes it, the json module of Python does not")  # fmt: skip
                self.at += 1
                return node
            if node.items and not comma:
                raise UnreadableError("lacks a comma between two entries", self.line())
            node.items.append(self.value(depth + 1))
            comma = self.comma()

    def comma(self) -> bool:
        self.skip()
        if self.text[self.at : self.at + 1] == ",":
            self.at += 1
            return True
        return False


def read_json(text: str) -> tuple[Node, list[Problem]]:
    """The value of a JSON text, and what is wrong with its form.

    Raises:
        UnreadableError: it is no JSON, also for those who forgive.
    """
    reader = _Reader(text)
    node = reader.value(0)
    reader.skip()
    if reader.at < len(text):
        raise UnreadableError("goes on behind its last bracket", reader.line())
    return node, reader.problems
