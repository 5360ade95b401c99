"""What an incident is recognised by: parts that stay the same when hosts, ranks, steps and paths are others.

Version 1: see `docs/decisions/0020-incidents-are-files.md`. A fingerprint finds, it never proves; must not look at evidence itself.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from msgspec import Struct

from firstfault.incidents.mask import mask
from firstfault.model.lazy import lazy
from firstfault.model.words import Category, Form

if TYPE_CHECKING:
    from firstfault.incidents.origin import Origin
    from firstfault.model.diagnosis import Diagnosis, Evidence

VERSION = "ff1"
UNKNOWN = "-"
EXCEPTION = "python.exception"
_WINDOW, _BEFORE = 400, 120
_OPERATIONS = lazy(
    r"\b(?:OpType=)?(_?(?:COALESCED|ALL_?REDUCE|ALL_?GATHER|REDUCE_?SCATTER|ALL_?TO_?ALL|BROADCAST|REDUCE|GATHER|SCATTER|SEND|RECV|BARRIER)(?:_BASE|_COALESCED)?)\b"
)
_RAISED = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Timeout|Exit)\b")
_RAISED_IN = re.compile(
    r"(?:(?<=^)|(?<=[\s\]:|\"'>]))(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Timeout|Exit)(?=:|$|\()"
)
_LABELS = re.compile(r"^(?:\s*[\[(][^\])]{0,40}[\])]:?)+\s*")
_JOINED = frozenset({Category.COLLECTIVE_MISMATCH, Category.DATA_LOADING_STALL, Category.NETWORK})


class Traits(Struct, frozen=True, kw_only=True):
    """The parts of a fingerprint, in words; empty where not known."""

    category: str = ""
    form: str = ""
    layer: str = ""
    phase: str = ""
    signature: str = ""
    """Signature of the line where it began."""
    op: str = ""
    """Collective in which ranks stood."""
    place: str = ""
    """Innermost frame of the job's own code: `train.py:step`."""
    message: str = ""
    """The masked message."""


def fingerprint(traits: Traits) -> str:
    """`ff1:KIND:MESSAGE:PLACE`, each ten hexadecimal digits or `-` where that part is not known."""
    parts = (traits.category, traits.form, traits.signature, traits.op, traits.phase)
    kind = "\0".join(parts)
    return f"{VERSION}:{_digest('kind', kind)}:{_digest('message', traits.message)}:{_digest('place', traits.place)}"


def _digest(part: str, text: str) -> str:
    if not text.strip("\0"):
        return UNKNOWN
    return hashlib.sha256(f"{VERSION}\0{part}\0{text}".encode("utf-8", "backslashreplace")).hexdigest()[:10]


def same(one: str, other: str) -> bool:
    """Whether two fingerprints are of one fault: kind and message are equal, and the place is, where both know it."""
    first, second = one.split(":"), other.split(":")
    if len(first) != 4 or len(second) != 4 or first[:3] != second[:3] or first[0] != VERSION:
        return False
    return first[3] == second[3] or UNKNOWN in {first[3], second[3]}


def traits_of(diagnosis: Diagnosis, origin: Origin | None = None) -> Traits:
    """The parts of a diagnosis.

    Args:
        diagnosis: as it was made, or as it was read from its JSON, redacted or not.
        origin: what the evidence tells of the first line; None where there is only the diagnosis.
    """
    verdict = diagnosis.verdict
    signature = origin.signature if origin is not None and origin.signature else _signature(diagnosis)
    joined = verdict.classes.form is Form.HUNG or verdict.category in _JOINED
    return Traits(
        category=str(verdict.category),
        form=_word(verdict.classes.form),
        layer=_word(verdict.classes.layer),
        phase=_word(verdict.classes.phase),
        signature=signature,
        op=_operation(diagnosis) if joined else "",
        place="" if origin is None else origin.place,
        message="" if verdict.trigger is None else mask(said_of(verdict.trigger), hosts_of(diagnosis)),
    )


def _word(word: object) -> str:
    return "" if word is None or str(word) == "unknown" else str(word)


def _operation(diagnosis: Diagnosis) -> str:
    for text in (
        diagnosis.verdict.summary,
        "" if diagnosis.verdict.trigger is None else diagnosis.verdict.trigger.text,
    ):
        found = _OPERATIONS.search(text)
        if found is not None:
            return found[1].strip("_").replace("_", "")
    return ""


def said_of(line: Evidence) -> str:
    """The text of a cited line from where its message begins.

    An exception begins with its class; another message where the line's evidence does, as far as the column still fits:
    labels of streams are taken off some texts and not counted in a window of a long line.
    """
    text = line.text
    raised = _RAISED_IN.search(text[:_WINDOW])
    if raised is not None:
        return text[raised.start() :]
    at = min(line.column - 1, _BEFORE) if len(text) >= _WINDOW else line.column - 1
    before = text.encode("utf-8", "surrogatepass")[:at].decode("utf-8", "ignore")
    if 0 < len(before) < len(text) and before[-1] in " ])>:|\t" and text[len(before)] not in " \t":
        return text[len(before) :]
    return _LABELS.sub("", text)


def hosts_of(diagnosis: Diagnosis) -> list[str]:
    """Every host that a diagnosis names, each once."""
    found = dict.fromkeys(diagnosis.verdict.culprits.hosts)
    found.update(dict.fromkeys(diagnosis.verdict.first_failed.hosts))
    found.update(dict.fromkeys(diagnosis.verdict.culprits.storage_nodes))
    found.update(dict.fromkeys(row.host for row in diagnosis.ranks.table if row.host is not None))
    return list(found)


def _signature(diagnosis: Diagnosis) -> str:
    """The signature of the first line, by the timeline that names its title; what a stored diagnosis tells."""
    line = diagnosis.verdict.trigger
    if line is None:
        return ""
    ids = {count.title: count.signature for count in diagnosis.counts}
    for entry in diagnosis.timeline:
        if (entry.evidence.file, entry.evidence.line) == (line.file, line.line):
            return ids.get(entry.what, EXCEPTION if _RAISED.match(said_of(line)) else "")
    return EXCEPTION if _RAISED.match(said_of(line)) else ""
