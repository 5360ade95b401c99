"""Masks the message of an older record anew, from the first line that it quotes, where today's mask gives another one.

A record tells by `mask` which mask made its message; one without it is of before that was told. What is found has to be the
same saying, or the record stays as it is: a person may have put another line first. Must not write a file.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firstfault.incidents.fingerprint import said_of
from firstfault.incidents.mask import LONGEST, VERSION, mask
from firstfault.model.diagnosis import Evidence
from firstfault.signatures.library import load_library
from firstfault.signatures.match import Matcher

if TYPE_CHECKING:
    from firstfault.incidents.record import Record

_BEGINS = re.compile(r"(?<=[ \])>:|\t])(?=[^ \t])")
_NAMES = re.compile(r"<\w+>(?:\.\w+)?")
_WORDS = re.compile(r"[^\W\d_]{2,}")
_ALIKE = 0.6
"""Share of the words of the shorter message that have to stand in the other one."""


def masked_anew(record: Record) -> str | None:
    """The message as today's mask gives it; None where the record does not show it.

    One that is of today's mask, or that has no message, is given back as it is.
    """
    told = record.one("message")
    if not told or record.one("mask") == VERSION:
        return told
    text = next((line.text for line in record.quoted()), "")
    if not text:
        return None
    starts = _starts(text)
    usual = [_said(text, at) for at in (_kind_begins(record.one("signature"), text, starts), 0)]
    if told in usual:
        return told
    # Where it began to speak is kept: of that the mask is not asked.
    there = [mask(text[at:]) for at in starts]
    if told in there:
        return None  # today it may begin elsewhere, and the line does not say so
    alike = [now for now in there if now.split()[:2] == told.split()[:2]]
    return next((now for now in (*alike, *usual) if _same_saying(told, now)), None)


def _starts(text: str) -> list[int]:
    """Where something may begin to speak in a text: at its begin and behind its prefixes."""
    return [0, *(at.start() for at in _BEGINS.finditer(text[:LONGEST]))]


def _said(text: str, at: int) -> str:
    """What the line says where its own kind begins at a place."""
    column = len(text[:at].encode("utf-8", "surrogatepass")) + 1
    return mask(said_of(Evidence(file="", line=1, column=column, text=text)))


def _kind_begins(signature: str, text: str, starts: list[int]) -> int:
    """Where the record's own kind of line begins in a text; its begin where that kind is not known."""
    spec = load_library().by_id.get(signature)
    if spec is None:
        return 0
    raw = text.encode("utf-8", "surrogatepass")
    found = Matcher(spec).find(raw, [len(text[:at].encode("utf-8", "surrogatepass")) for at in starts])
    return len(raw[: found[0].start].decode("utf-8", "ignore")) if found else 0


def _same_saying(one: str, other: str) -> bool:
    """Whether two masked messages have most words of the shorter one in common, in their order."""
    first, second = (_WORDS.findall(_NAMES.sub(" ", text).lower()) for text in (one, other))
    short, long = sorted((first, second), key=len)
    at, common = 0, 0
    for word in short:
        if word in long[at:]:
            at, common = long.index(word, at) + 1, common + 1
    return common >= _ALIKE * len(short) and (bool(short) or one == other)
