"""Logs that a tool wrapped into a document, as the lines they were: lists of JSON, saved web pages, pasted Markdown.

Every line keeps its number: what is no line of the log becomes an empty one. Of a list on one line the records are the
lines, counted from 1. Judges nothing.
"""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

JSON, ROW, HTML, MARKDOWN = "json", "row", "html", "markdown"
"""Forms of documents."""
READ_AS = {
    JSON: "records of JSON, each read as one line",
    ROW: "records of JSON on one line: line n is the record n of the list",
    HTML: "a web page, its text read as a log",
    MARKDOWN: "a document, the log quoted in it read",
}
"""What coverage says of each."""
MOST_LINES, MOST_BYTES = 400, 1 << 20
"""Size of one record of JSON; what is larger is none."""
_TEXT_KEY = lazy(rb'\s*"(?:message|msg|log|textPayload|text|line|MESSAGE|@message|_raw|body)"\s?:\s?"')
TIME_KEY = lazy(rb'"(?:@timestamp|timestamp|time|ts|asctime|eventTime|__REALTIME_TIMESTAMP)"\s?:\s?["\d]')
RECORD = lazy(
    rb'\n[ \t]*\{[ \t]*\r?\n(?:[ \t][^\n]*\n){0,60}?[ \t]+"(?:message|msg|log|textPayload|MESSAGE|@message|_raw)"\s?:\s?"'
)
"""An element of a list whose text is on a line of its own; each line can be taken in one way only, so that nothing is tried twice."""
ONE_LINE = lazy(
    rb'(?:\[|\{"\w+": ?\[)\s?\{[^\n]{0,2000}?"(?:message|msg|log|textPayload|MESSAGE|@message|_raw)"\s?:\s?"'
)
"""A list of records without a line break between them."""
_BEGUN = lazy(rb'\s*(?:\{"\w+"\s?:\s?)?\[(?=\s?\{\s?"([^"\\\n]{1,64})"\s?:)')
"""The begin of such a list, up to the key with which its first record, and so every one of them, begins."""
_HELD = 256
"""Bytes behind a comma in which it is told whether a record begins there."""
PAGE = lazy(rb"(?i)\s*(?:<!doctype html|<html|<\?xml[^>\n]*\?>\s*<!doctype html)|<pre[\s>]")
_TAG = lazy(rb"</?[A-Za-z][^<>\n]{0,2000}>|<!--[^\n]{0,2000}?-->|<![A-Za-z][^<>\n]{0,200}>")
_UNSAID = lazy(rb"(?i)<(script|style|head|svg)[\s>]")
"""Elements of a page that it does not show."""
_FENCE = lazy(rb"[ \t>]{0,12}(`{3,}|~{3,})[ \t]*([\w+#.-]*)[^`\n]*$")
_PLAIN = frozenset({b"", b"text", b"txt", b"log", b"logs", b"plaintext", b"plain", b"console", b"output", b"shell", b"sh", b"bash", b"none"})  # fmt: skip
"""Words behind a fence that speak of a log as well as of what is typed."""
PRINTED = lazy(
    rb"(?:\A|[\n\r])(?:<?\d+>? ?)?\[?(?:\d{4}-\d\d-\d\d[ T]\d\d:\d\d|[IWEF]\d{4} \d\d:\d\d:|\d\d:\d\d:\d\d[.,\] ]|rank ?\d+\]|default\d+\]:)"
    rb"|Traceback \(most recent call last\):\r?\n {2}File \"|\] NCCL (?:INFO|WARN) |\d+%\||\btorch\.\w+Error: |[\n\r]slurmstepd: |[\n\r]srun: "
)
"""What programs print and scripts do not hold: a stamp or a rank at the begin of a line, a traceback, a bar."""


def form_of(head: bytes, tail: bytes, suffix: str) -> str:
    """The form of a document that quotes a log; empty where it is none, or quotes none.

    Args:
        head: its first bytes.
        tail: its last bytes.
        suffix: of its name, in lower case.
    """
    if suffix in {".html", ".htm"} or (suffix not in {".md", ".markdown", ".rst"} and PAGE.match(head) is not None):
        form = HTML
    elif suffix in {".md", ".markdown"}:
        form = MARKDOWN
    else:
        return ""
    shown = b"".join(unwrapped([head], form))
    # Where the end begins, in a quotation or outside of one, is not known.
    end = html.unescape(tail.decode("utf-8", "replace")).encode()
    return form if PRINTED.search(shown) is not None or PRINTED.search(end) is not None else ""


def unwrapped(blocks: Iterable[bytes], form: str) -> Iterator[bytes]:
    """The lines of the log, each at the number that it has in the document.

    Args:
        blocks: the document.
        form: one of `JSON`, `ROW`, `HTML`, `MARKDOWN`.
    """
    if form == ROW:
        return _row(blocks)
    return {JSON: _records, HTML: _page, MARKDOWN: _fenced}[form](_lines(blocks))


def _lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Whole lines with their ends; the last may have none."""
    rest = b""
    for block in blocks:
        parts = (rest + block).split(b"\n")
        rest = parts.pop()
        for part in parts:
            yield part + b"\n"
    if rest:
        yield rest


def _row(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Each record of a list on a line of its own; the text that a record quotes cannot hold what stands between two of them."""
    rest = b""
    between: re.Pattern[bytes] | None = None
    for block in blocks:
        rest += block
        if len(rest) <= _HELD:
            continue
        if between is None:
            rest, between = _begun(rest)
        rest = between.sub(b"\n", rest)
        yield rest[:-_HELD]
        rest = rest[-_HELD:]
    if between is None:
        rest, between = _begun(rest)
    # A document that is whole need not end in a newline, as a log does; one that is cut has no end of its list.
    yield between.sub(b"\n", rest) + (b"\n" if rest.endswith((b"]", b"}")) else b"")


def _begun(head: bytes) -> tuple[bytes, re.Pattern[bytes]]:
    """The begin of a list from its first record on, and what stands between its records."""
    found = _BEGUN.match(head)
    start, key = (0, b"") if found is None else (found.end(), found[1])
    return head[start:], re.compile(rb'(?<=\}),(?=\s?\{\s?"' + re.escape(key) + rb'"\s?:)')


def _records(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Each record without its line breaks, where its text stands; the other lines empty."""
    held: list[bytes] = []
    indent, size = b"", 0
    for line in lines:
        bare = line.strip()
        if bare == b"{":
            yield from _empty(held)
            held, size, indent = [], 0, line[: len(line) - len(line.lstrip())]
        held.append(line)
        size += len(line)
        if bare in {b"}", b"},"} and line.startswith(indent + b"}"):
            yield from _record(held)
            held, size = [], 0
        elif len(held) > MOST_LINES or size > MOST_BYTES:
            yield from _empty(held)
            held, size = [], 0
    yield from _empty(held)


def _record(held: list[bytes]) -> Iterator[bytes]:
    at = next((n for n, line in enumerate(held) if _TEXT_KEY.match(line)), None)
    if at is None or held[0].strip() != b"{":
        yield from _empty(held)
        return
    yield from _empty(held[:at])
    end = b"\n" if held[at].endswith(b"\n") else b""
    yield b" ".join(line.strip() for line in held).removesuffix(b",") + end
    yield from _empty(held[at + 1 :])


def _empty(held: Iterable[bytes]) -> Iterator[bytes]:
    return (b"\n" for line in held if line.endswith(b"\n"))


def _page(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The text of a page line by line, without tags and with its characters as they are shown."""
    unsaid: re.Pattern[bytes] | None = None
    for whole in lines:
        line, kept = whole, b""
        while line:
            if unsaid is not None:
                found = unsaid.search(line)
                if found is None:
                    line = b""
                    break
                line, unsaid = line[found.end() :], None
                continue
            found = _UNSAID.search(line)
            if found is None:
                kept, line = kept + line, b""
                break
            kept, line = kept + line[: found.start()], line[found.end() :]
            unsaid = re.compile(rb"(?i)</" + found[1] + rb"\s*>")
        text = html.unescape(_TAG.sub(b"", kept.rstrip(b"\r\n")).decode("utf-8", "surrogateescape"))
        yield text.replace("\n", " ").replace("\xa0", " ").encode("utf-8", "surrogateescape") + (
            b"\n" if whole.endswith(b"\n") else b""
        )


def _fenced(lines: Iterable[bytes]) -> Iterator[bytes]:
    """What stands between fences, where it is no code; all of a document without fences."""
    held: list[bytes] = []
    fence, language, any_fence = b"", b"", False
    before: list[bytes] | None = []
    for line in lines:
        found = _FENCE.match(line)
        if not fence and found is not None:
            if before is not None:
                yield from _empty(before)
                before = None
            fence, language, any_fence = found[1], found[2].lower(), True
            yield from _empty([line])
        elif fence and found is not None and found[1].startswith(fence) and not found[2]:
            yield from _quoted(held, language)
            yield from _empty([line])
            held, fence = [], b""
        elif fence:
            held.append(line)
        elif any_fence:
            yield from _empty([line])
        elif before is not None:
            before.append(line)
    yield from _quoted(held, language)
    yield from before or ()


def _quoted(held: list[bytes], language: bytes) -> Iterator[bytes]:
    text = b"".join(held)
    keep = language in _PLAIN or PRINTED.search(text) is not None
    yield from (held if keep else _empty(held))
