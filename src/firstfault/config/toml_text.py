"""TOML with the line of every value: read by the standard library, the lines found in the text."""

from __future__ import annotations

import re
import sys
from typing import Any

from firstfault.config.json_text import UnreadableError
from firstfault.config.nouns import Node, Problem

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_TABLE = re.compile(r"^\s*\[{1,2}\s*([^\]]+?)\s*\]{1,2}\s*(?:#.*)?$")
_KEY = re.compile(r"""^\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_AT = re.compile(r"line (\d+)")


def read_toml(text: str) -> tuple[Node, list[Problem]]:
    """The value of a TOML text, and what is wrong with its form (nothing, where it can be read).

    Raises:
        UnreadableError: it is no TOML.
    """
    try:
        value = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        match = _AT.search(str(error))
        raise UnreadableError(f"is not valid TOML: {str(error)[:160]}", int(match[1]) if match else 1) from error
    return _node(value, (), _lines(text), 1), []


def _parts(name: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in name.split("."))


def _lines(text: str) -> dict[tuple[str, ...], int]:
    """Path -> the line on which it is set."""
    found: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), 1):
        head = _TABLE.match(line)
        if head is not None:
            table = _parts(head[1])
            found.setdefault(table, number)
            continue
        key = _KEY.match(line)
        if key is not None:
            found.setdefault((*table, *_parts(key[1])), number)
    return found


def _node(value: Any, path: tuple[str, ...], lines: dict[tuple[str, ...], int], above: int) -> Node:
    line = lines.get(path, above)
    if isinstance(value, dict):
        node = Node("map", line)
        for key, below in value.items():
            node.fields[key] = _node(below, (*path, key), lines, line)
            node.lines[key] = node.fields[key].line
        return node
    if isinstance(value, list):
        return Node("list", line, items=[_node(item, path, lines, line) for item in value])
    return Node("scalar", line, value, quoted=isinstance(value, str))
