"""Turns the English sentences of a report into those of another language, by a catalogue of their templates.

The analysis speaks English only. A catalogue holds every template of a sentence, as `Rank {0} waited for {1}.`, with its
translation, in which the slots may stand in another order or be left out. A sentence is looked up whole, then by its
template (what stands in the slots is translated in turn), then by its parts. What nothing covers stays in English, so
that nothing is lost. It knows nothing of diagnoses, and quoted lines of logs must not be given to it.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SLOT = re.compile(r"\{(\w+)\}")
_LETTERS = re.compile(r"[A-Za-z]{2}")
_WORD = re.compile(r"(?<![\w/.`'\"-])[A-Za-z]?[a-z]+(?![\w/`'\"=-])")
_SENTENCES = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9`(\"'…])")
_WIDE = "\u3000-\u303f\u4e00-\u9fff\uff00-\uffef"
_LOOSE = re.compile(f"(?<=[{_WIDE}]) +(?=[{_WIDE}])")
_DROPPED = re.compile(
    r" ?(?:|e?s|ed|is|are|was|were|has|have|had|does|do|did|an?|the|its?|their|they|them|each|one|that|those|this|these|for it|of it)"
)
"""What a slot may hold that a translation leaves out: endings, and words that another language does without."""
_CLAUSES = re.compile(r"[.;:!?] |,.*, ")
_LIGHT = 12
"""Fixed letters below which a template may only be that of a short phrase."""
_SHORT = 60
"""Characters that a slot of such a template holds at most."""
_DEEP = 7
"""How deep slots are translated within slots."""
_MOST = 24
"""Templates that are tried for one sentence, those with the most fixed text first."""
_LONG = 4000
"""Characters above which a text is taken by its sentences only."""


def catalogue(language: str) -> dict[str, str]:
    """Every template of a language with its translation, from all of its files."""
    found: dict[str, str] = {}
    for file in sorted(resources.files("firstfault.i18n").joinpath(language).iterdir(), key=lambda f: f.name):
        if file.name.endswith(".json") and file.name != "kept.json":
            texts = msgspec.json.decode(file.read_bytes(), type=dict[str, str | None])
            found.update({en: said for en, said in texts.items() if said})
    return found


class Template(Struct, frozen=True, kw_only=True):
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


class Translator:
    """Translates sentences of one language.

    Args:
        catalogue: English template -> its translation.
        joints: what separates parts of a sentence -> what separates them there, the loosest first.
        full_stop: what ends a sentence there.
    """

    def __init__(self, catalogue: Mapping[str, str], joints: Sequence[tuple[str, str]], full_stop: str) -> None:
        self._whole = {en: said for en, said in catalogue.items() if not SLOT.search(en)}
        self._templates = sorted(_templates(catalogue), key=lambda t: (-t.weight, t.fixed))
        self._light = sum(t.weight >= _LIGHT for t in self._templates)
        self._joints = tuple(joints)
        self._stop = full_stop
        self._known: dict[str, str] = {}
        self._compiled: dict[int, re.Pattern[str]] = {}

    def __call__(self, text: str) -> str:
        """The text in the other language; what no template covers stays as it is."""
        if not _LETTERS.search(text):
            return text
        said = _LOOSE.sub("", "\n".join(self._of(line, 0) for line in text.split("\n")))
        # Half a sentence in each language reads worse than one in the other.
        return text if left_over(said) * 2 > left_over(text) else said

    def _of(self, text: str, depth: int) -> str:
        found = self._known.get(text)
        if found is None:
            inner = text.strip()
            head, tail = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
            found = text if not _LETTERS.search(inner) else head + self._best(inner, depth) + tail
            if depth < _DEEP or not left_over(found):
                self._known[text] = found
        return found

    def _best(self, text: str, depth: int) -> str:
        exact = self._exact(text)
        if exact is not None:
            return exact
        if depth >= _DEEP:
            return text
        best, cost = text, left_over(text)
        ways = (self._by_heavy, self._by_sentences, self._by_parts, self._by_light)
        if len(text) > _LONG:
            ways = (self._by_sentences,)
        for way in ways:
            for made in way(text, depth):
                if (less := left_over(made)) < cost:
                    best, cost = made, less
                if not cost:
                    return best
        return best

    def _exact(self, text: str) -> str | None:
        """The text as it stands, with another first letter, or without its full stop."""
        for form, end in ((text, ""), (text[:-1], self._stop)) if text.endswith(".") else ((text, ""),):
            for first in (form[:1], form[:1].lower(), form[:1].upper()):
                if (said := self._whole.get(first + form[1:])) is not None:
                    return said + end
        return None

    def _by_heavy(self, text: str, depth: int) -> Iterator[str]:
        return self._by_template(text, depth, range(self._light))

    def _by_light(self, text: str, depth: int) -> Iterator[str]:
        return self._by_template(text, depth, range(self._light, len(self._templates)))

    def _by_template(self, text: str, depth: int, which: range) -> Iterator[str]:
        tried = 0
        for number in which:
            template = self._templates[number]
            if template.anchor not in text:
                continue
            match = self._pattern(number).fullmatch(text)
            if match is None or not _fits(template, match.groups()):
                continue
            slots: dict[str, str] = {}
            for name, value in zip(template.names, match.groups(), strict=True):
                if name in template.kept:
                    slots.setdefault(name, self._of(value, depth + 1))
            if template.weight < _LIGHT and any(" " in v and left_over(v) for v in slots.values()):
                continue
            yield SLOT.sub(lambda m, slots=slots: slots.get(m.group(1), m.group()), template.said)  # type: ignore[misc]
            tried += 1
            if tried >= _MOST:
                return

    def _by_sentences(self, text: str, depth: int) -> Iterator[str]:
        parts = _SENTENCES.split(text)
        if len(parts) > 1:
            yield " ".join(self._of(p, depth + 1) for p in parts)
        if text.endswith(".") and not text.endswith(".."):
            yield self._of(text[:-1], depth + 1) + self._stop

    def _by_parts(self, text: str, depth: int) -> Iterator[str]:
        for joint, theirs in self._joints:
            parts = text.split(joint)
            if 1 < len(parts) <= 40:
                yield theirs.join(self._of(p, depth + 1) for p in parts)
                # Only one of the places may be a joint of two parts: the first or the last is the likeliest.
                if len(parts) > 2:
                    for cut in (1, len(parts) - 1):
                        halves = (joint.join(parts[:cut]), joint.join(parts[cut:]))
                        yield theirs.join(self._of(p, depth + 1) for p in halves)

    def _pattern(self, number: int) -> re.Pattern[str]:
        found = self._compiled.get(number)
        if found is None:
            fixed = self._templates[number].fixed
            first = fixed[0][:1]
            head = f"(?i:{re.escape(first)}){re.escape(fixed[0][1:])}" if first.isalpha() else re.escape(fixed[0])
            text = "(.*?)".join([head, *(re.escape(f) for f in fixed[1:])])
            found = self._compiled[number] = re.compile(text, re.DOTALL)
        return found


def left_over(text: str) -> int:
    """Letters of plain English words that a text still holds; names, paths and code in quotes do not count."""
    return sum(len(word) for word in _WORD.findall(text) if len(word) > 1 and word.lower() not in KEPT)


KEPT = frozenset(
    [
        "rank",
        "ranks",
        "step",
        "steps",
        "loss",
        "python",
        "torch",
        "token",
        "tokens",
        "batch",
        "ms",
        "min",
        "watchdog",
        "socket",
        "torchrun",
        "torchtitan",
        "srun",
        "sacct",
        "sbatch",
        "dmesg",
        "df",
        "kernel",
        "worker",
        "workers",
        "loader",
        "epoch",
        "barrier",
        "broadcast",
        "checkpoint",
        "dump",
        "shard",
        "proxy",
        "target",
        "scheduler",
        "stage",
        "signal",
        "main",
        "global",
        "local",
        "trainer",
        "gloo",
        "hydra",
        "pyxis",
        "enroot",
        "dask",
        "polars",
        "matplotlib",
        "store",
        "agent",
        "lightning",
        "tokenizer",
        "manifest",
        "micro",
        "accelerate",
        "ibstat",
        "mlxlink",
        "host",
        "ipc",
        "shm",
        "size",
    ]
)
"""Words of the field that stay as they are."""


def _templates(catalogue: Mapping[str, str]) -> Iterator[Template]:
    for en, said in catalogue.items():
        pieces = SLOT.split(en)
        fixed, names = tuple(pieces[::2]), tuple(pieces[1::2])
        if not names:
            continue
        anchor = max(fixed, key=len)
        anchor = anchor[1:] if fixed[0] is anchor and len(anchor) > 1 else anchor
        weight = sum(c.isalpha() for f in fixed for c in f)
        if weight:
            kept = frozenset(SLOT.findall(said))
            yield Template(fixed=fixed, names=names, kept=kept, said=said, anchor=anchor, weight=weight)


def _fits(template: Template, values: Sequence[str]) -> bool:
    """Whether what stands in the slots can belong there, and nothing is lost that the translation leaves out."""
    for name, value in zip(template.names, values, strict=True):
        if name not in template.kept and not _DROPPED.fullmatch(value):
            return False
        if template.weight < _LIGHT and (len(value) > _SHORT or _CLAUSES.search(value)):
            return False
    return True
