"""YAML with the line of every value; interpolations such as `${model.hidden_size}` stay text.

Makes no objects of any class: only the nodes that PyYAML composes are looked at.
"""

from __future__ import annotations

from typing import Any

from firstfault.config.json_text import DEEPEST, UnreadableError
from firstfault.config.nouns import Node, Problem, as_number

MOST_NODES = 200_000
"""Values that are read; aliases of aliases could make a small text endless."""


def read_yaml(text: str) -> tuple[Node, list[Problem]]:
    """The value of a YAML text, and what is wrong with its form.

    Raises:
        UnreadableError: it is no YAML, or the reader is not installed.
    """
    try:
        import yaml
    except ImportError as error:
        raise UnreadableError("is YAML, and PyYAML, which reads it, is not installed", 1) from error
    try:
        composed = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        what = str(getattr(error, "problem", None) or error).split("\n", 1)[0][:160]
        raise UnreadableError(f"is not valid YAML: {what}", mark.line + 1 if mark is not None else 1) from error
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"is not valid YAML: {type(error).__name__}", 1) from error
    made = _Made()
    if composed is None:
        return Node("map", 1), []
    return made.node(composed, 0), made.problems


class _Made:
    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.count = 0

    def node(self, composed: Any, depth: int) -> Node:
        line = composed.start_mark.line + 1
        self.count += 1
        if depth > DEEPEST or self.count > MOST_NODES:
            raise UnreadableError("is nested too deeply, or is too large", line)
        if composed.id == "mapping":
            return self.map(composed, line, depth)
        if composed.id == "sequence":
            return Node("list", line, items=[self.node(item, depth + 1) for item in composed.value])
        return Node("scalar", line, _scalar(composed), quoted=composed.style in {"'", '"'})

    def map(self, composed: Any, line: int, depth: int) -> Node:
        made = Node("map", line)
        for key, value in composed.value:
            name = str(key.value) if key.id == "scalar" else "?"
            below = self.node(value, depth + 1)
            at = key.start_mark.line + 1
            if name == "<<" and below.kind == "map":
                for inner, node in below.fields.items():
                    made.fields.setdefault(inner, node)
                    made.lines.setdefault(inner, below.lines[inner])
                continue
            if name in made.fields:
                self.problems.append(Problem(check="file.twice", state="fail", line=at, what=f"{name} is set a second time, first on line {made.lines[name]}", why="only the later value counts"))  # fmt: skip
            made.fields[name], made.lines[name] = below, at
        return made


def _scalar(composed: Any) -> object:
    tag = composed.tag.rpartition(":")[2]
    text = str(composed.value)
    if tag == "null":
        return None
    if tag == "bool":
        return text.lower() in {"yes", "true", "on"}
    if tag == "int":
        return as_number(text) if as_number(text) is not None else text
    if tag == "float":
        try:
            return float(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan").replace(".NaN", "nan"))
        except ValueError:
            return text
    return text
