"""The head of a record: a strict part of YAML, read without typing, and edited without touching any other byte.

    ---
    state: fixed            # a comment stays
    signatures:
      - gpu.out_of_memory
    ---

A key holds one text or a list of texts. Must not know which keys there are.
"""

from __future__ import annotations

import json
import re

from msgspec import Struct

from firstfault.incidents.errors import IncidentError

Value = str | tuple[str, ...]

FENCE = "---"
_KEY = re.compile(r"([a-z][a-z0-9_]*):(?:[ ]+(.*?))?[ ]*$")
_ITEM = re.compile(r"[ ]*-(?:[ ]+(.*?))?[ ]*$")
_PLAIN = re.compile(r"[A-Za-z0-9_./一-鿿][^\n\r\t#:\"'\\\[\]{}&*!|>%@`,]*(?<! )")
_TYPED = re.compile(r"(?i)true|false|yes|no|on|off|null|[+-]?[.\d][\d_.eE:+-]*|0[xo]\w*|\d{4}-\d\d-\d\d.*")
_COMMENT = re.compile(r"(?:^|[ ])#.*$")
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'")
_BRACKETS = re.compile(r"\[(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'|[^\]\"'])*\](?=[ ]*(?:$|[ ]#))")
_ODD = re.compile("[\x00-\x1f\x7f\x85\u2028\u2029]")


class Entry(Struct, frozen=True):
    """One key of a head: its value, and the lines on which it stands."""

    value: Value
    first: int
    """Index of the line of the key."""
    last: int
    """Index behind its last line."""


class Head(Struct, frozen=True):
    """The head of a document, by lines of the whole text."""

    entries: dict[str, Entry]
    end: int
    """Index of the closing fence."""


def lines_of(text: str) -> list[str]:
    r"""The lines of a text with their own ends; only `\n` ends a line, so that nothing in a quoted line does."""
    parts = text.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def read_head(text: str, where: str = "") -> Head:
    """The keys of the head.

    Raises:
        IncidentError: there is no head, or a line of it is outside the dialect.
    """
    lines = lines_of(text)
    if not lines or lines[0].removeprefix("\ufeff").rstrip("\r\n ") != FENCE:
        raise IncidentError("it does not begin with a line `---`", where=where, fix="Put the head of the record there.")
    entries: dict[str, Entry] = {}
    at = 1
    while at < len(lines):
        line = lines[at].rstrip("\r\n")
        if line.rstrip(" ") == FENCE:
            return Head(entries, at)
        if not line.strip(" ") or line.lstrip(" ").startswith("#"):
            at += 1
            continue
        at = _entry(lines, at, entries, where)
    raise IncidentError("its head has no end", where=where, fix="Close it with a line `---`.")


def _entry(lines: list[str], at: int, entries: dict[str, Entry], where: str) -> int:
    """Reads one key with its items; the index of the line behind it."""
    found = _KEY.fullmatch(lines[at].rstrip("\r\n"))
    here = f"{where}:{at + 1}" if where else f"line {at + 1}"
    if found is None:
        raise IncidentError(
            "this line of the head is neither `key: value` nor an item of a list",
            where=here,
            fix="Keys are small letters, digits and `_`; items are `  - text`; no tabs.",
        )
    key, rest = found[1], found[2] or ""
    if key in entries:
        raise IncidentError(f"`{key}` stands there twice", where=here, fix="Keep one of them.")
    value = _value(rest, here)
    last = at + 1
    if value == "":
        items, last = _items(lines, at + 1, where)
        value = items if items is not None else ""
    entries[key] = Entry(value, at, last)
    return last


def _items(lines: list[str], at: int, where: str) -> tuple[tuple[str, ...] | None, int]:
    """The items below a key, and the index behind the last of them; None where there is none."""
    items: list[str] = []
    last = at
    while at < len(lines):
        line = lines[at].rstrip("\r\n")
        if not line.strip(" ") or line.lstrip(" ").startswith("#"):
            at += 1
            continue
        found = None if line.rstrip(" ") == FENCE else _ITEM.fullmatch(line)
        if found is None:
            break
        here = f"{where}:{at + 1}" if where else f"line {at + 1}"
        item = _scalar(found[1] or "", here)
        if item:
            items.append(item)
        at += 1
        last = at
    return (tuple(items) if last > at or items else None), last


def _value(rest: str, here: str) -> Value:
    if not rest.startswith("["):
        return _scalar(rest, here)
    whole = _BRACKETS.match(rest)
    inner = _COMMENT.sub("", rest).rstrip(" ") if whole is None else whole.group()
    if not inner.endswith("]"):
        raise IncidentError("a list in brackets has to end on its line", where=here, fix="Write one `  - item` a line.")
    parts = re.findall(r"\s*(\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'|[^,]*?)\s*(?:,|$)", inner[1:-1])
    return tuple(_scalar(part, here) for part in parts if part)


def _scalar(text: str, here: str) -> str:
    quoted = _QUOTED.match(text)
    if quoted is not None:
        if _COMMENT.sub("", text[quoted.end() :]).strip(" "):
            raise IncidentError("something stands behind the closing quote", where=here, fix="Quote the whole value.")
        said = quoted.group()
        if said.startswith("'"):
            return said[1:-1].replace("''", "'")
        try:
            return str(json.loads(said))
        except ValueError:
            raise IncidentError(
                "this quoted text cannot be read", where=here, fix="Write `\\\\` for a backslash."
            ) from None
    plain = _COMMENT.sub("", text).strip(" ")
    if plain[:1] in set("\"'&*!|>%@`{[") or ": " in plain or plain.endswith(":"):
        raise IncidentError("this text needs quotes", where=here, fix=f"Write {json.dumps(plain, ensure_ascii=False)}.")
    return plain


def scalar_text(value: str) -> str:
    """A text as it is written in a head: plain where every reader of YAML takes it for the same text, quoted else."""
    if not value:
        return ""
    if _PLAIN.fullmatch(value) and not _TYPED.fullmatch(value):
        return value
    escaped = json.dumps(value, ensure_ascii=False)
    return _ODD.sub(lambda m: f"\\u{ord(m.group()):04x}", escaped)


def write_entry(key: str, value: Value, end: str = "\n") -> str:
    """The lines of one key."""
    if isinstance(value, str):
        return f"{key}: {scalar_text(value)}".rstrip(" ") + end
    return f"{key}:{end}" + "".join(f"  - {scalar_text(item)}{end}" for item in value)


def set_value(text: str, key: str, value: Value, where: str = "") -> str:
    """The text with one key set; every byte of other lines stays, and so does a comment behind a single value.

    Raises:
        IncidentError: the head cannot be read.
    """
    head, lines = read_head(text, where), lines_of(text)
    end = "\r\n" if lines[0].endswith("\r\n") else "\n"
    entry = head.entries.get(key)
    if entry is None:
        lines[head.end : head.end] = [write_entry(key, value, end)]
        return "".join(lines)
    if entry.value == value:
        return text
    new = write_entry(key, value, end)
    if entry.last == entry.first + 1:
        first, rest = new.split(end, 1)
        new = first + _comment_of(lines[entry.first].rstrip("\r\n")) + end + rest
    lines[entry.first : entry.last] = [new]
    return "".join(lines)


def append_item(text: str, key: str, item: str, where: str = "") -> str:
    """The text with one more item at the end of a list; every byte of other lines stays.

    Raises:
        IncidentError: the head cannot be read.
    """
    head, lines = read_head(text, where), lines_of(text)
    entry = head.entries.get(key)
    if entry is None:
        return set_value(text, key, (item,), where)
    if entry.last == entry.first + 1 and entry.value != "":
        if isinstance(entry.value, str):
            return set_value(text, key, (entry.value, item), where)
        lines[entry.first] = _in_brackets(lines[entry.first], item, more=bool(entry.value))
        return "".join(lines)
    end = "\r\n" if lines[0].endswith("\r\n") else "\n"
    indent = re.match(r"[ ]*(?=-)", lines[entry.last - 1])
    lines[entry.last : entry.last] = [f"{'  ' if indent is None else indent.group()}- {scalar_text(item)}{end}"]
    return "".join(lines)


def _in_brackets(line: str, item: str, *, more: bool) -> str:
    """The line of a list in brackets with one more item before its end."""
    at = line.index("[")
    whole = _BRACKETS.match(line.rstrip("\r\n"), at)
    close = line.rindex("]", 0, len(line) if whole is None else whole.end())
    before = line[:close].rstrip(" ")
    joint = ", " if more and not before.endswith(",") else " " if before.endswith(",") else ""
    return f"{before}{joint}{json.dumps(item, ensure_ascii=False)}{line[close:]}"


def _comment_of(line: str) -> str:
    value = line.partition(":")[2]
    quoted = _QUOTED.match(value.lstrip(" "))
    listed = _BRACKETS.match(value.lstrip(" "))
    known = quoted or listed
    rest = value.lstrip(" ")[known.end() :] if known is not None else value
    found = re.search(r"[ ]+#.*$", rest)
    return "" if found is None else found.group()
