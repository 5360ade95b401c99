"""Lines of one file with their neighbours, as a proof is read again: `python -m firstfault.pipelines.quote` serves an assistant.

Keeps a bounded part of each line, however long it is. Judges nothing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Struct

from firstfault.pipelines.errors import PipelineError
from firstfault.privacy.secrets import find_secrets
from firstfault.redact import Level

if TYPE_CHECKING:
    from firstfault.model.evidence import SourceId
    from firstfault.readers.store import Store

MOST_AROUND = 50
"""Lines before and behind the wanted one."""
MOST_TEXT = 2000
"""Bytes of a line."""
BEFORE = 400
"""Of these, bytes before the wanted column."""
MARGIN = 512
"""Further bytes of a line on both sides that are read and not shown: a secret that a side cuts in two is known by them."""
MOST_KEPT = MOST_TEXT + 2 * MARGIN
BEYOND = 60
"""Further lines on both sides that are read and not shown: a private key is known by its first and last line."""


class Asked(Struct, frozen=True, kw_only=True):
    """Which lines."""

    paths: list[str]
    """As they were given to the diagnosis."""
    file: str
    """As the diagnosis names it."""
    line: int
    around: int = 5
    column: int = 1
    """From which the wanted line is shown, with some text before it."""
    level: Level = "secrets"


class _Piece(NamedTuple):
    """A line as far as it is kept."""

    text: bytes
    size: int


def quoted(asked: Asked) -> dict[str, object]:
    """The wanted line with its neighbours, after redaction.

    Returns:
        `file`, and `lines` with `line`, `text`, and `cut`: whether it is longer.

    Raises:
        PipelineError: the file or the line is not there.
    """
    from firstfault.model.page import Context, Quote
    from firstfault.readers.open import open_inputs
    from firstfault.redact import redact

    if asked.line < 1:
        raise PipelineError("lines are counted from 1", where=asked.file)
    around = max(0, min(asked.around, MOST_AROUND))
    first = max(1, asked.line - around)
    begin = max(1, first - BEYOND)
    with open_inputs(asked.paths) as opened:
        found = next((s for s in opened.sources if s.path == asked.file), None)
        if found is None:
            names = ", ".join(s.path for s in opened.sources[:20])
            raise PipelineError("this file was not read there", where=asked.file, fix=f"Name it as the diagnosis does. Read were: {names}")  # fmt: skip
        skipped = max(0, asked.column - 1 - BEFORE)
        unseen = min(skipped, MARGIN)
        last = asked.line + around + BEYOND
        pieces = lines_between(opened.store, found.id, begin, last, {asked.line: skipped - unseen})
    if len(pieces) <= asked.line - begin:
        raise PipelineError("the file has no such line", where=f"{asked.file}:{asked.line}")
    texts = [_shown(piece.text, unseen if begin + n == asked.line else 0) for n, piece in enumerate(pieces)]
    quote = Quote(context=[Context(file=asked.file, first=begin, lines=texts)])
    safe = redact(quote, asked.level).content.context[0]
    numbers = range(first, min(asked.line + around, begin + len(pieces) - 1) + 1)
    return {
        "file": safe.file,
        "lines": [
            {
                "line": n,
                "text": safe.lines[n - begin],
                "cut": pieces[n - begin].size > MOST_TEXT or (n == asked.line and skipped > 0),
            }
            for n in numbers
        ],
    }


def _shown(piece: bytes, unseen: int) -> str:
    """What is shown of a piece of a line: `MOST_TEXT` bytes behind the unseen ones, without secrets that a side cuts in two."""
    before, after = piece[:unseen], piece[unseen + MOST_TEXT :]
    parts = [part.decode("utf-8", "backslashreplace") for part in (before, piece[unseen : unseen + MOST_TEXT], after)]
    first, last = len(parts[0]), len(parts[0]) + len(parts[1])
    whole = "".join(parts)
    for secret in find_secrets(whole):
        if secret.start < first < secret.end:
            first = min(secret.end, last)
        if secret.start < last < secret.end:
            last = max(secret.start, first)
    return whole[first:last]


def lines_between(store: Store, source: SourceId, first: int, last: int, skipped: dict[int, int]) -> list[_Piece]:
    """Some lines, of each a part of little more than `MOST_TEXT` bytes; nothing behind the last is read, no line is held whole.

    Args:
        store: the bytes.
        source: the file.
        first: number of the first line, from 1.
        last: number of the last one.
        skipped: number of a line -> bytes of it that are left out at its front.
    """
    found: list[_Piece] = []
    number, size, text = 1, 0, b""
    for block in store.blocks(source):
        at = 0
        while at < len(block):
            end = block.find(b"\n", at)
            stop = len(block) if end < 0 else end
            if number >= first and len(text) < MOST_KEPT:
                begin = at + max(0, skipped.get(number, 0) - size)
                text += bytes(block[begin : min(stop, begin + MOST_KEPT - len(text))]) if begin < stop else b""
            size += stop - at
            at = stop + 1
            if end < 0:
                break
            if number >= first:
                found.append(_Piece(text.rstrip(b"\r"), size))
            number, size, text = number + 1, 0, b""
            if number > last:
                return found
    if size and number >= first:
        found.append(_Piece(text.rstrip(b"\r"), size))
    return found


def main() -> int:
    """Answers one question on standard input with JSON on standard output; errors go to standard error."""
    from firstfault.report.json import escaped

    try:
        answer = quoted(msgspec.json.decode(sys.stdin.buffer.read(), type=Asked))
    except PipelineError as error:
        sys.stderr.write(". ".join(part for part in (f"{error.where}: {error.what}", error.why, error.fix) if part))
        return 2
    sys.stdout.write(escaped(msgspec.json.encode(answer).decode()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
