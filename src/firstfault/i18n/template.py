"""A template of a sentence: what may stand in its slots, and how a sentence is taken apart by it.

Knows nothing of languages but that English has endings and small words that another language does without.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SLOT = re.compile(r"\{(\w+)\}")
LIGHT = 12
"""Fixed letters below which a template may only be that of a short phrase."""
SHORT = 60
"""Characters that a slot of such a template holds at most."""
_EMPTY = re.compile(r" ?(?:s|es|is|are|was|were|has|have|had|do|does|did|an?|the)")
"""What another language does without even where a translation has a place for it."""
_DROPPED = re.compile(
    r" ?(?:|e?s|ed|is|are|was|were|has|have|had|does|do|did|an?|the|its?|their|they|them|each|one|that|those|this|these|for it|of it|lines?|errors?)"
)
"""What a slot may hold that a translation leaves out: endings, and words that another language does without."""
_LETTERS = re.compile(r"[A-Za-z]{2}")
_CLAUSES = re.compile(r"[.;:!?] |,.*, ")
_RANKS = re.compile(r"\d[\d, -]*(?:,? and \d+ more| … \(\d+ more runs?\))?|[^A-Za-z\s]+")
_COUNT = re.compile(r"(?:[a-z]+ ){0,2}\d[\d,. ]*(?:%|of \d+)?|[a-z]+|[^A-Za-z\s]+")
_COUNTED = re.compile(r"\{(\w+)\} ?[个次条台行份块段种张处轮组]")
_HOSTS = r"[\w.-]+(?:, [\w.-]+)*"
_BREAKS = re.compile(
    r" (?=for|of|on|in|at|by|since|after|before|and|but|that|is|has|was|differs|could|\(|[A-Z])|(?=[;:,.(])|(?<=[;:,.]) "
)
_QUOTED = re.compile(r"“(\{\w+\})”")
"""A slot that is a quotation: quotations are held whole, with their marks."""
_MOST_BREAKS = 12


class Template(Struct, frozen=True, kw_only=True, dict=True):
    """One template of a sentence."""

    fixed: tuple[str, ...]
    """What stands between the slots, with both ends."""
    names: tuple[str, ...]
    """The slots in the order of the sentence."""
    kept: frozenset[str]
    """Those that stand in the translation too."""
    said: str
    """The translation."""
    anchor: str
    """The longest fixed piece: a sentence without it cannot be of this template."""
    weight: int
    """Fixed letters."""

    @cached_property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Slots with nothing between them, in the order of the sentence."""
        found: list[list[str]] = []
        for before, name in zip(self.fixed, self.names, strict=False):
            if before or not found:
                found.append([])
            found[-1].append(name)
        return tuple(tuple(g) for g in found)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """What a sentence of this template looks like, a group for each run of slots."""
        inner = [f for f in self.fixed[1:-1] if f]
        pieces = [self.fixed[0], *inner, self.fixed[-1]]
        first = pieces[0][:1]
        text = f"(?i:{re.escape(first)}){re.escape(pieces[0][1:])}" if first.isalpha() else re.escape(pieces[0])
        for before, group, after in zip(pieces, self.groups, pieces[1:], strict=False):
            guard = r"(?!\w)" if before.endswith(".") else ""
            text += f"{guard}({self._room(before, group, after)}){re.escape(after)}"
        return re.compile(text, re.DOTALL)

    def _room(self, before: str, group: tuple[str, ...], after: str) -> str:
        """The pattern of what stands between two fixed pieces: inside of a clause no sentence ends."""
        if len(group) == 1 and group[0] not in self.kept:
            return _DROPPED.pattern
        if len(group) == 1 and group[0] in self.ranks:
            return _RANKS.pattern
        if before.endswith("`") and after.startswith("`"):
            return "[^`]*"  # a command: what ends a sentence ends nothing in it
        if len(group) == 1 and group[0].startswith("host"):
            return _HOSTS
        if before.isspace() and after.startswith(" "):
            # A slot behind another one and a blank, inside of a clause: it holds no end of a sentence.
            return r"(?:(?![.!?] [A-Z`“]).)*?"
        if not before and after == " ":
            # One that begins a template holds a part of a sentence, or sentences to their end.
            return r"(?:(?![.!?] [A-Z`“]).)*?|.*?[.!?”…]"
        outside = (not before.strip() or before.rstrip()[-1:] in ".:;!?") and (
            not after.strip() or after[:1] in ".;:" or re.match(r" [A-Z]", after) is not None
        )
        if outside:
            return ".*?"
        # The full stop of a sentence is none of its last slot's.
        return r"(?:(?![.!?] [A-Z`“]).)*?" if len(group) > 1 else r"(?:(?![.;!?] |\.\Z).)*?"

    @cached_property
    def raw(self) -> frozenset[str]:
        """Slots inside code, or named so: they are carried over as they are."""
        found, before = set(), ""
        for piece, name in zip(self.fixed, self.names, strict=False):
            before += piece
            if before.count("`") % 2:
                found.add(name)
        return frozenset({*found, *(n for n in self.names if n.startswith(("raw", "host")))})

    @cached_property
    def counted(self) -> frozenset[str]:
        """Slots that the translation counts things with."""
        return frozenset(_COUNTED.findall(self.said))

    @cached_property
    def ranks(self) -> frozenset[str]:
        """Slots behind the word for ranks."""
        named = zip(self.fixed, self.names, strict=False)
        return frozenset(name for piece, name in named if re.search(r"(?i)\branks? $", piece))

    def takes(self, name: str, value: str) -> bool:
        """Whether a value can stand in a slot, and nothing is lost where the translation leaves it out."""
        if name not in self.kept:
            return droppable(value)
        if name in self.counted and not _COUNT.fullmatch(value.strip()):
            return False
        if name in self.ranks and not _RANKS.fullmatch(value):
            return False
        return name in self.raw or (value.count("`") % 2 == 0 and value.count("(") == value.count(")"))

    def short(self, value: str) -> bool:
        """Whether a value is that of a short phrase."""
        if not _LETTERS.search(value) or _RANKS.fullmatch(value):
            return True
        return len(value) <= SHORT and not _CLAUSES.search(value)


def splits(text: str) -> list[int]:
    """Where a text may be cut into what stands in neighbouring slots: its ends, and before small words and marks."""
    inner = sorted({m.start() for m in _BREAKS.finditer(text)} | {len(m.group()) for m in [_DROPPED.match(text)] if m})
    cuts = [i for i in inner if 0 < i < len(text) and text[:i].count("(") == text[:i].count(")")]
    return [0, *cuts[:_MOST_BREAKS], len(text)]


def empty(text: str) -> bool:
    """Whether it is nothing but an ending or a verb form, for which another language has no word."""
    return _EMPTY.fullmatch(text) is not None


def droppable(text: str) -> bool:
    """Whether another language does without it."""
    return _DROPPED.fullmatch(text) is not None


def templates(catalogue: Mapping[str, str]) -> Iterator[Template]:
    """The entries of a catalogue that have slots and something fixed between them."""
    for en, said in (both for entry in catalogue.items() for both in _forms(*entry)):
        pieces: Sequence[str] = SLOT.split(en)
        fixed, names = tuple(pieces[::2]), tuple(pieces[1::2])
        if not names:
            continue
        anchor = max(fixed, key=len)
        anchor = anchor[1:] if fixed[0] is anchor and len(anchor) > 1 else anchor
        weight = sum(c.isalpha() for f in fixed for c in f)
        if weight:
            kept = frozenset(SLOT.findall(said))
            yield Template(fixed=fixed, names=names, kept=kept, said=said, anchor=anchor, weight=weight)


def _forms(en: str, said: str) -> Iterator[tuple[str, str]]:
    """An entry as it stands, and without what stands before it where that is another sentence."""
    en, said = en.strip(), said.strip()
    for slot in _QUOTED.findall(en):
        en, said = (text.replace(f"“{slot}”", slot) for text in (en, said))
    yield en, said
    before = re.match(r"(\{\w+\})+ (?=[A-Z]|\{)", en)
    if before and said.startswith(before.group()) and len(SLOT.findall(before.group())) == 1:
        yield en[before.end() :], said[before.end() :]
