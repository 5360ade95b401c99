"""Looks up a word in everything that can be explained: signatures, vendor tables, closed lists, glossary.

Must not read a log. It answers with what our data say, never with a guess; near misses are offered as such.
"""

from __future__ import annotations

import re
import signal
from difflib import get_close_matches
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from firstfault.analysis.state.storage import HEALTHY, flags
from firstfault.i18n.glossary import WORDS
from firstfault.model.lazy import lazy
from firstfault.signatures.library import load_library

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from firstfault.model.patterns import SignatureFile, TableRow
    from firstfault.signatures.library import Library

_FILLER = lazy(r"[\s_.-]+")
_NUMBERED = lazy(r"(?P<kind>[a-z][a-z ]*?)[ :=#]*(?P<number>-?(?:0x[0-9a-f]+|\d+))")
_FLAGS = lazy(r"state\.flags[ :=]+(\d{1,9})")
EXIT_TABLE = "exit_codes"
COUNTERS_TABLE = "aistore_counters"
_SHORT = {"oom": "out of memory", "ecc": "ecc", "enospc": "no space left", "hang": "timeout", "timeout": "timed out"}
"""Short words that people ask with -> words of titles."""


class Explained(Struct, frozen=True, kw_only=True):
    """One answer."""

    word: str
    kind: str
    """What kind of word it is: `signature`, a closed list, or the title of a vendor table."""
    title: str
    meaning: str
    not_proof: str = ""
    advice: list[str] = []
    facts: dict[str, str] = {}
    """Further facts, such as category or role; only those that are set."""
    examples: list[str] = []
    sources: list[str] = []


class Answer(Struct, frozen=True, kw_only=True):
    """What a word means: several answers where several lists hold it, else what is near."""

    found: list[Explained]
    near: list[str]
    """Words that are spelt alike; empty where something was found."""


def explain(word: str, *, site: Sequence[Path] = ()) -> Answer:
    """Explains a word.

    Args:
        word: an id, a class, a table entry (`xid 79`, `exit 137`, `SIGBUS`, `ncclSystemError`), or a word.
        site: folders of own signatures.

    Returns:
        Every answer, best first; near words where there is none.
    """
    library = load_library(site)
    asked = " ".join(word.strip().split())
    found = [*_signatures(library, asked), *_words(asked), *_rows(library, asked), *_flags(library, asked)]
    found = found or [*_own_exit(asked), *_room(library, asked)]
    if found:
        return Answer(found=found, near=[])
    return Answer(found=[], near=_near(library, asked))


def _same(text: str) -> str:
    return _FILLER.sub(" ", text.strip().lower())


def _signatures(library: Library, asked: str) -> Iterator[Explained]:
    for name, spec in library.by_id.items():
        if asked == name or (len(asked) > 3 and _same(name.rpartition(".")[2]) == _same(asked)):
            yield _signature(name, spec)


def _signature(name: str, spec: SignatureFile) -> Explained:
    facts = {
        key: str(getattr(spec, key))
        for key in ("role", "tier", "category", "domain", "layer", "scope", "blame", "strength")
        if getattr(spec, key) is not None
    }
    return Explained(
        word=name,
        kind="signature",
        title=spec.title,
        meaning=spec.meaning,
        not_proof=spec.not_proof,
        advice=[*spec.advice, *(f"Collect: {c}" for c in spec.collect)],
        facts=facts,
        examples=[e.line for e in spec.match[:3]],
        sources=[f"{s.what} ({s.date})" for s in spec.sources],
    )


def _words(asked: str) -> Iterator[Explained]:
    for kind, entries in WORDS.items():
        for word, meaning in entries.items():
            if kind == "exit code":
                # `explain exit 1` asks about the job's code; ours are told by name alone.
                continue
            if _same(word) == _same(asked) or _bare(word, kind) == _bare(asked, kind):
                yield Explained(word=word, kind=kind, title=f"{word} ({kind})", meaning=meaning)


def _bare(text: str, kind: str) -> str:
    """The name of an operation without the ways in which backends write it: `ALLREDUCE`, `_ALLGATHER_BASE`, `allreduce_`."""
    if kind != "collective operation":
        return _same(text).removesuffix(" explanation")
    return _FILLER.sub("", text.lower()).removesuffix("base").removesuffix("coalesced")


def _own_exit(asked: str) -> Iterator[Explained]:
    """An exit code that is only one of firstfault's own."""
    words = _same(asked).split()
    meaning = WORDS["exit code"].get(words[-1]) if words[:1] == ["exit"] else None
    if meaning is not None:
        yield Explained(word=words[-1], kind="exit code", title=f"exit code {words[-1]} of firstfault", meaning=meaning)


def _room(library: Library, asked: str) -> Iterator[Explained]:
    """A part of the signatures, such as all about NCCL: where to list them."""
    room = _same(asked).replace(" ", "_")
    held = [name for name in library.by_id if name.startswith(f"{room}.")]
    if held:
        yield Explained(
            word=room,
            kind="part of the signatures",
            title=f"{room}: {len(held)} signatures",
            meaning=f"`firstfault signatures list --text {room}.` lists them; `firstfault explain {held[0]}` explains one.",
        )


def _rows(library: Library, asked: str) -> Iterator[Explained]:
    """Rows of vendor tables: by name, by key, or by `<word of the table> <key>`; signals also as exit codes."""
    exact = _same(asked)
    numbered = _NUMBERED.fullmatch(asked.lower())
    kind = "" if numbered is None else numbered["kind"].strip()
    number = asked if re.fullmatch(r"-?\d+", asked) else "" if numbered is None else numbered["number"]
    signals = list(_exit_by_signal(library, asked, kind, number))
    if asked.isdecimal():
        # A bare number of a dead process is a signal or an exit code before it is a code of a library.
        yield from signals
    for table, held in sorted(library.tables.items(), key=lambda t: (t[0] != EXIT_TABLE, t[0])):
        own = _words_of(table)
        for key, row in held.rows.items():
            by_name = exact in {_same(row.name), _same(key)} and not number
            by_number = number and key == number and (not kind or any(_stem(k) in own for k in kind.split()))
            if by_name or by_number:
                yield _row(key, row, held.title, f"{held.source} ({held.date})")
    if not asked.isdecimal():
        yield from signals


def _flags(library: Library, asked: str) -> Iterator[Explained]:
    """The sum of a storage node's flags, taken apart: `state.flags 8198`."""
    found = _FLAGS.fullmatch(asked.lower())
    row = library.row(COUNTERS_TABLE, "state.flags")
    if found is None or row is None:
        return
    held = library.tables[COUNTERS_TABLE]
    value = int(found[1])
    alerts = [*flags(value), *(() if value & HEALTHY == HEALTHY else ("not started",))]
    whole = _row("state.flags", row, held.title, f"{held.source} ({held.date})")
    yield replace(whole, word=asked, title=f"state.flags {value}", facts={"alerts": ", ".join(alerts) or "none"})


def _words_of(table: str) -> set[str]:
    return {_stem(w) for w in table.split("_")}


def _stem(word: str) -> str:
    return word.removesuffix("s")


def _exit_by_signal(library: Library, asked: str, kind: str, number: str) -> Iterator[Explained]:
    """`exit 137`, `signal 9` and `SIGKILL` are one thing in three spellings; the table holds it as `-9`."""
    which: int | None = None
    name = asked.upper() if asked.upper().startswith("SIG") else f"SIG{asked.upper()}"
    if name in signal.Signals.__members__:
        which = signal.Signals[name].value
    elif number.isdecimal():
        if (not kind and int(number) in set(signal.Signals)) or "signal" in kind or "sig" in kind.split():
            which = int(number)
        elif 129 <= int(number) <= 192 and (not kind or "exit" in kind or "code" in kind or "status" in kind):
            which = int(number) - 128
    if which is None or library.row(EXIT_TABLE, number) is not None:
        return  # the code has a row of its own, which tells the signal
    row = library.row(EXIT_TABLE, str(-which))
    if row is None:
        return
    held = library.tables[EXIT_TABLE]
    if _same(asked) != _same(row.name):
        found = _row(str(-which), row, held.title, f"{held.source} ({held.date})")
        yield Explained(**{**{f: getattr(found, f) for f in found.__struct_fields__}, "word": asked})


def _row(key: str, row: TableRow, title: str, source: str) -> Explained:
    facts = {k: str(getattr(row, k)) for k in ("role", "category", "domain", "blame") if getattr(row, k) is not None}
    return Explained(
        word=key,
        kind=title,
        title=row.name if row.name == key else f"{row.name} ({key})",
        meaning=row.meaning,
        advice=[row.action] if row.action else [],
        facts=facts,
        sources=[source],
    )


def vocabulary(library: Library) -> list[str]:
    """Every word that `explain` knows, sorted."""
    known = {word for kind, entries in WORDS.items() if kind != "exit code" for word in entries} | set(library.by_id)
    for table, held in library.tables.items():
        known |= {row.name for row in held.rows.values()}
        known |= {f"{table} {key}" for key in held.rows}
    return sorted(known)


def _near(library: Library, asked: str) -> list[str]:
    known = vocabulary(library)
    by_form = {_same(k): k for k in known}
    close = [by_form[m] for m in get_close_matches(_same(asked), list(by_form), n=5, cutoff=0.6)]
    inside = [k for k in known if len(asked) >= 3 and _same(asked) in _same(k)]
    told = _SHORT.get(_same(asked), _same(asked))
    titled = [name for name, spec in library.by_id.items() if len(told) >= 3 and told in _same(spec.title)]
    return list(dict.fromkeys([*close, *inside, *titled]))[:6]
