"""What settings are made of: values with the line on which each stands, and what is found wrong with one; no I/O."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

from firstfault.model.checks import CheckState
from firstfault.model.config import ConfigKind

if TYPE_CHECKING:
    from collections.abc import Iterator

HIGHEST_PORT = 65535
AUTO = "auto"
_NUMBER = re.compile(r"[+-]?(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)?")
_TRUE = frozenset({"true", "yes", "on", "1", "t", "y"})
_FALSE = frozenset({"false", "no", "off", "0", "f", "n"})


class Node(Struct):
    """A value of a settings file."""

    kind: Literal["map", "list", "scalar"]
    line: int
    value: object = None
    """Of a scalar: text, number, truth value or None, as its format has it."""
    fields: dict[str, Node] = field(default_factory=dict)
    """Of a map."""
    lines: dict[str, int] = field(default_factory=dict)
    """Key of a map -> the line on which the key stands."""
    items: list[Node] = field(default_factory=list)
    """Of a list."""
    quoted: bool = False
    """Whether a scalar is text by its quotes."""

    def at(self, path: str) -> Node | None:
        """The value at a path such as `zero_optimization.stage`; None where there is none."""
        node: Node | None = self
        for key in path.split("."):
            node = node.fields.get(key) if node is not None and node.kind == "map" else None
        return node

    def line_of(self, path: str) -> int:
        """The line of the key at a path; of what is there of it where it is not there."""
        node, line = self, self.line
        for key in path.split("."):
            if node.kind != "map" or key not in node.fields:
                break
            line, node = node.lines[key], node.fields[key]
        return line

    def text(self, path: str) -> str | None:
        """The value at a path as text; None where it is not there, null, a map or a list."""
        node = self.at(path)
        if node is None or node.kind != "scalar" or node.value is None:
            return None
        return str(node.value)

    def number(self, path: str) -> int | float | None:
        """The number at a path; None where there is none or it is left to be filled in."""
        node = self.at(path)
        return None if node is None or node.kind != "scalar" else as_number(node.value)

    def whole(self, path: str) -> int | None:
        """The whole number at a path; None where there is none or it has a fraction."""
        return as_whole(self.number(path))

    def truth(self, path: str) -> bool | None:
        """The truth value at a path; None where there is none."""
        node = self.at(path)
        return None if node is None or node.kind != "scalar" else as_truth(node.value)

    def walk(self, path: str = "") -> Iterator[tuple[str, Node]]:
        """All values below with their paths."""
        for key, node in self.fields.items():
            below = f"{path}.{key}" if path else key
            yield below, node
            yield from node.walk(below)


def as_number(value: object) -> int | float | None:
    """A number, also one that is written as text; None for anything else, a truth value too."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        text = value.strip().replace("_", "")
        try:
            return int(text)
        except ValueError:
            return float(text)
    return None


def as_whole(number: float | None) -> int | None:
    """A number as a whole one; None where it has a fraction."""
    if number is None or number != number or number in {float("inf"), float("-inf")}:  # noqa: PLR0124 - NaN
        return None
    return int(number) if int(number) == number else None


def as_truth(value: object) -> bool | None:
    """A truth value, also one that is written as text."""
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    return True if text in _TRUE else False if text in _FALSE else None


class Word(Struct, frozen=True):
    """One word of a command."""

    text: str
    line: int

    @property
    def known(self) -> bool:
        """Whether it is what the program gets, and not a variable or a command whose value is not in the file."""
        return "$" not in self.text and "`" not in self.text and "\0" not in self.text


class Option(Struct):
    """One option of a command."""

    name: str
    """As it is written, without dashes."""
    line: int
    values: list[Word] = field(default_factory=list)
    dashes: int = 2

    @property
    def text(self) -> str | None:
        """Its value; None where it has none, or one that is not known."""
        return self.values[0].text if self.values and self.values[0].known else None


class Options:
    """Options of one command, by name with `-` and `_` alike."""

    def __init__(self, options: list[Option], rest: list[Word], *, whole: bool) -> None:
        self.options = options
        self.rest = rest
        """Words that belong to no option."""
        self.whole = whole
        """Whether all words are known, so that what is not there is not given."""
        self._by_name: dict[str, Option] = {plain(option.name): option for option in options}

    def get(self, *names: str) -> Option | None:
        """The option of the first of these names that is given; where it is given twice, the later."""
        return next((self._by_name[plain(n)] for n in names if plain(n) in self._by_name), None)

    def has(self, *names: str) -> bool:
        """Whether one of these names is given."""
        return self.get(*names) is not None

    def number(self, *names: str) -> int | float | None:
        """The number behind an option; None where it is not given or not known."""
        option = self.get(*names)
        return None if option is None else as_number(option.text)

    def whole_number(self, *names: str) -> int | None:
        """The whole number behind an option."""
        return as_whole(self.number(*names))

    def text(self, *names: str) -> str | None:
        """The text behind an option."""
        option = self.get(*names)
        return None if option is None else option.text

    def flag(self, name: str) -> bool | None:
        """Whether a switch is on: given alone or with a truth value; None where its value is not known."""
        option = self.get(name)
        if option is None:
            return False
        return True if not option.values else as_truth(option.text) if option.text is not None else None

    def line(self, *names: str) -> int:
        """The line of an option; 0 where it is not given."""
        option = self.get(*names)
        return 0 if option is None else option.line


def plain(name: str) -> str:
    """An option's name without dashes at its begin and with `_` for those inside."""
    return name.lstrip("-").replace("-", "_")


def options_of(words: list[Word], flags: frozenset[str] = frozenset()) -> Options:
    """Options and other words of a command; an option takes the words up to the next one, a flag none.

    Args:
        words: without the program.
        flags: plain names of options that take no value.
    """
    options: list[Option] = []
    rest: list[Word] = []
    whole = True
    for word in words:
        if word.text.startswith("-") and as_number(word.text) is None and word.text not in {"-", "--"}:
            name, equals, value = word.text.partition("=")
            bare = name.lstrip("-")
            options.append(Option(bare, word.line, [Word(value, word.line)] if equals else [], len(name) - len(bare)))
            continue
        last = options[-1] if options else None
        takes = last is not None and plain(last.name) not in flags
        if not word.known and not (takes and last is not None and not last.values):
            # A variable that nothing in the file sets may hold further options.
            whole = False
        elif last is not None and takes:
            last.values.append(word)
        else:
            rest.append(word)
    return Options(options, rest, whole=whole)


class Problem(Struct, frozen=True, kw_only=True):
    """What one check found in one place."""

    check: str
    state: CheckState
    file: str = ""
    line: int | None = None
    what: str
    why: str = ""
    message: str = ""
    """What the program would say when it dies of it."""
    fix: str = ""


def problem(
    check: str,
    state: CheckState,
    file: str,
    line: int | None,
    what: str,
    *,
    why: str = "",
    message: str = "",
    fix: str = "",
) -> Problem:
    """What one check found, its place by position."""
    return Problem(
        check=check,
        state=state,
        file=file,
        line=line,
        what=what,
        why=why,
        message=message,
        fix=fix,
    )


class Document(Struct):
    """One file, read."""

    name: str
    kind: ConfigKind
    tree: Node | None = None
    """Of a file of keys and values."""
    script: object = None
    """Of a script or command: what `shell.read_script` gives."""
    problems: list[Problem] = field(default_factory=list)
    """What is wrong with its form."""
    embedded: str = ""
    """The script that writes this file; empty where it is a file of its own."""
