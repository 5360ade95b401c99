"""What the reader of tracebacks gives: one exception, and the block in which it stands with its chain. Holds no rules."""

from __future__ import annotations

import re

from msgspec import Struct, structs

from firstfault.model.evidence import GlobalRank, PythonException, Span, Who
from firstfault.model.lazy import lazy
from firstfault.model.place import Stamp


class Raised(Struct, frozen=True):
    """One exception of a block: the one that counts, or an earlier one of its chain."""

    exception: PythonException
    span: Span
    """Of the last line, from its class name on; of the head where there is no last line."""
    who: Who
    lines: frozenset[int]
    """Numbers of the lines of its message, the last line of the traceback among them."""
    stamp: Stamp | None = None
    """Time stamp in front of the last line."""


class Block(Struct, frozen=True):
    """One traceback with its whole chain."""

    raised: Raised
    earlier: tuple[Raised, ...]
    """Exceptions from which it was chained, oldest first."""
    first_line: int
    first_offset: int
    lines: frozenset[int]
    """Numbers of all lines that belong to it."""
    key: bytes
    """Stream key of its speaker."""
    reprinted: bool = False
    """Whether a launcher's banner printed it again."""
    by_words: bool = False
    """Whether nothing but a program's words before it say that it was caught."""
    promised: bool = False
    """Whether these words promise that the program goes on."""


def json_text(body: bytes) -> bytes:
    r"""Message of a JSON line up to its closing quote, a `\n` at its end left out."""
    found = re.match(rb'(?:[^"\\]|\\.)*', body)
    text = body if found is None else found.group()
    return text.removesuffix(b"\\n").replace(b'\\"', b'"').replace(b"\\t", b"\t")


def quoted_lines(body: bytes, count: int) -> list[bytes]:
    r"""The first lines of a text whose line breaks are spelt out as `\n`, as they stand; the last ends with its quotation."""
    *lines, last = body.split(b"\\n", count)[:count]
    found = re.match(rb'(?:[^"\\]|\\.)*', last)
    return [*lines, last if found is None else found.group()]


def with_worker(who: Who, worker: int) -> Who:
    """The same speaker, for a worker of its data loader."""
    return structs.replace(who, worker=worker)


_OF_RANK = lazy(r"\(most recent call last\): \(RANK (\d{1,6})\)\s*$")
"""How a distributed checkpoint heads the traceback of the rank that met the error, which every rank prints."""


def of_rank(head: str, who: Who) -> Who:
    """The speaker of a traceback, or the rank whose it is where its head names another."""
    found = _OF_RANK.search(head)
    if found is None or who.rank == int(found[1]):
        return who
    return Who(rank=GlobalRank(int(found[1])))


_REMOTE = lazy(r"ray::\S{1,120} \(pid=(\d{1,9})(?:, ip=([\w.:]{3,45}))?")


def of_remote(block: Block) -> Block:
    """A block whose exception Ray handed on from another process: its speaker is that process, as the head above it names it."""
    if not block.earlier or "RayTaskError" in block.raised.exception.kind:
        return block
    head = block.earlier[-1].exception
    found = _REMOTE.match(head.message) if "RayTaskError" in head.kind else None
    if found is None:
        return block
    return structs.replace(block, raised=structs.replace(block.raised, who=Who(pid=int(found[1]), host=found[2])))


def unproven(block: Block) -> Block:
    """The same block as one that nobody is seen to have survived.

    It was caught by nobody; where its program promised to go on, that stays open: the mark stays, as of its last words.
    """
    if block.promised:
        exception = structs.replace(block.raised.exception, last_word=True)
        return structs.replace(block, raised=structs.replace(block.raised, exception=exception))
    raised, *earlier = (
        structs.replace(r, exception=structs.replace(r.exception, ignored=False))
        for r in (block.raised, *block.earlier)
    )
    return structs.replace(block, raised=raised, earlier=tuple(earlier))


def one_line(exception: PythonException) -> str:
    """Class and first line of the message."""
    first = exception.message.split("\n", 1)[0]
    return f"{exception.kind}: {first}" if first else exception.kind


def as_cut(raised: Raised) -> Raised:
    """The same exception, with the mark that what followed it is lost."""
    return structs.replace(raised, exception=structs.replace(raised.exception, complete=False))
