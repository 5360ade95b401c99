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

from firstfault.i18n.atoms import ATOM, Atoms, lost
from firstfault.i18n.template import LIGHT, SLOT, Template, empty, splits, templates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_LETTERS = re.compile(r"[A-Za-z]{2}")
_WORD = re.compile(r"(?<![\w/.`'\"-])[A-Za-z]?[a-z]+(?![\w/`'\"=-]|\.\w)")
_SENTENCES = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9`(\"'…“\ue000-\uf8ff]|[\w.<>]+ \([\w./-]+:\d+\))")
"""Where a sentence ends; the next may begin with a function of a program and its place."""
_WIDE = "\u3000-\u303f\u4e00-\u9fff\uff00-\uffef"
_LOOSE = re.compile(f"(?<=[{_WIDE}]) +(?=[{_WIDE}])| +(?=[，。；：、！？])|(?<=[，。；：、！？]) +")
_STOPS = re.compile(f"(?<=[{_WIDE}])\\.(?= |$)|(?<=[{_WIDE}]\\))\\.(?= |$)", re.MULTILINE)
_MARKS = re.compile(f"(?<=[{_WIDE})])([,;:]) (?=[{_WIDE}])")
_SPACED = re.compile("(?<=[\u4e00-\u9fff])(?=[A-Za-z0-9])|(?<=[A-Za-z0-9])(?=[\u4e00-\u9fff])")
_FIRST = re.compile("^[，；]+", re.MULTILINE)
_TWICE = re.compile("([，；])[，；]+")
_COLONS = re.compile(": ")
_WHERE = re.compile(r" on (?:ranks? [\d, -]+|[\w.-]+)(?: \([^()]*\))?$")
_DEEP = 7
"""How deep slots are translated within slots."""
_MOST = 24
"""Templates that are tried for one sentence, those with the most fixed text first."""
_RUN = 4
"""Sentences that one template holds at most."""
_LONG = 4000
"""Characters above which a text is taken by its sentences only."""


def one_file(language: str, name: str) -> dict[str, str]:
    """The texts of one file of a language that have a translation."""
    file = resources.files("firstfault.i18n").joinpath(language).joinpath(name)
    texts = msgspec.json.decode(file.read_bytes(), type=dict[str, str | None])
    # What is no prose stands for itself.
    kept = name == "kept.json"
    return {en: said or en for en, said in texts.items() if said or (kept and not SLOT.search(en))}


def catalogue(language: str) -> dict[str, str]:
    """Every template of a language with its translation, from all files but that of the command line's help."""
    names = sorted(f.name for f in resources.files("firstfault.i18n").joinpath(language).iterdir())
    found: dict[str, str] = {}
    for name in names:
        if name.endswith(".json") and name != "cli.json":
            found.update(one_file(language, name))
    return found


class Translator:
    """Translates sentences of one language.

    Args:
        catalogue: English template -> its translation.
        joints: what separates parts of a sentence -> what separates them there, the loosest first.
        full_stop: what ends a sentence there.
        phrases: pattern of a phrase of fixed form -> its form there, as `re.Match.expand` takes it.
    """

    def __init__(
        self,
        catalogue: Mapping[str, str],
        joints: Sequence[tuple[str, str]],
        full_stop: str,
        phrases: Mapping[str, str] | None = None,
    ) -> None:
        self._whole = {en.strip(): said.strip() for en, said in catalogue.items() if not SLOT.search(en)}
        self._templates = sorted(templates(catalogue), key=lambda t: (-t.weight, t.fixed))
        self._light = sum(t.weight >= LIGHT for t in self._templates)
        self._joints = tuple(joints)
        self._stop = full_stop
        self._phrases = dict(phrases or {})
        self._forget()

    def _forget(self) -> None:
        self._known: dict[str, str] = {}
        self._atoms = Atoms(self._phrases)

    def __call__(self, text: str) -> str:
        """The text in the other language; what no template covers stays as it is."""
        return self.told(text)[0]

    def told(self, text: str) -> tuple[str, int]:
        """The text in the other language, and how many letters of it no template covers."""
        if not _LETTERS.search(text) or ATOM.search(text):
            return text, 0
        if self._atoms.full:
            self._forget()
        said = self._lines(self._atoms.phrased(self._atoms.quoted(text)))
        if left_over(said):
            said = min(said, self._lines(self._atoms.quoted(text)), key=left_over)
        # Half a sentence in each language reads worse than one in the other, and a fact must never be lost.
        rest, whole = left_over(said), left_over(self._atoms.quoted(text))
        said = self._neat(self._atoms.released(_SPACED.sub(" ", said)))
        return (text, whole) if rest * 4 > whole or lost(text, said) else (said, rest)

    def _neat(self, said: str) -> str:
        """No blanks beside wide characters and marks, and a full stop of that language behind its words."""
        return _FIRST.sub("", _TWICE.sub(r"\1", _LOOSE.sub("", _MARKS.sub(_wide, _STOPS.sub(self._stop, said)))))

    def _lines(self, text: str) -> str:
        return "\n".join(self._of(line, 0) for line in text.split("\n"))

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
        ways: tuple[Callable[[str, int], Iterator[str]], ...] = (
            self._by_heavy,
            self._by_sentences,
            self._by_parts,
            self._by_light,
        )
        if len(text) > _LONG:
            ways = (self._by_sentences,)
        if not depth:
            ways = (*ways, self._by_title)
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
                    return self._meant(said) + end
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
            match = template.pattern.fullmatch(text)
            if match is None:
                continue
            values = self._values(template, match.groups(), depth + 1)
            if values is None:
                continue
            slots = {n: self._slot(template, n, v, depth + 1) for n, v in values.items() if n in template.kept}
            if template.weight < LIGHT and not self._small(template, values, slots):
                continue
            pieces = SLOT.split(template.said)
            yield "".join(slots[p] if i % 2 else self._meant(p) for i, p in enumerate(pieces))
            tried += 1
            if tried >= _MOST:
                return

    def _slot(self, template: Template, name: str, value: str, depth: int) -> str:
        if name in template.raw:
            return self._atoms.hold(value)
        return "" if empty(value) else self._of(value, depth)

    def _meant(self, said: str) -> str:
        """What a catalogue says: English words in it are meant, so that they do not count as left over."""
        return self._atoms.hold(said) if left_over(said) else said

    def _small(self, template: Template, values: Mapping[str, str], slots: Mapping[str, str]) -> bool:
        """Whether a template of few words may be trusted with these values: short ones, or such that are known whole."""
        return all(
            not left_over(said) and (template.short(values[name]) or self._exact(values[name].strip()) is not None)
            for name, said in slots.items()
            if " " in said
        )

    def _values(self, template: Template, found: Sequence[str], depth: int) -> dict[str, str] | None:
        """What stands in each slot; neighbours share what stands between two fixed pieces as it costs the least."""
        values: dict[str, str] = {}
        for group, text in zip(template.groups, found, strict=True):
            shared = (text,) if len(group) == 1 else self._shared(template, group, text, depth)
            if shared is None:
                return None
            if not all(map(template.takes, group, shared)):
                return None
            for name, value in zip(group, shared, strict=True):
                values.setdefault(name, value)
        return values

    def _shared(self, template: Template, group: Sequence[str], text: str, depth: int) -> tuple[str, ...] | None:
        cuts = splits(text)
        ways: dict[int, tuple[float, tuple[str, ...]]] = {0: (0, ())}
        for place, name in enumerate(group):
            further: dict[int, tuple[float, tuple[str, ...]]] = {}
            ends = cuts if place < len(group) - 1 else cuts[-1:]
            for start, (cost, taken) in ways.items():
                for end in ends:
                    if end < start:
                        continue
                    piece = text[start:end]
                    if not template.takes(name, piece):
                        continue
                    more = left_over(self._of(piece, depth)) if name in template.kept and piece else 0
                    whole = cost + more - (0.1 if piece else 0)
                    if end not in further or whole < further[end][0]:
                        further[end] = (whole, (*taken, piece))
            ways = further
        return ways[len(text)][1] if len(text) in ways else None

    def _by_sentences(self, text: str, depth: int) -> Iterator[str]:
        parts = _SENTENCES.split(text)
        if len(parts) > 1:
            yield " ".join(self._of(p, depth + 1) for p in parts)
            if len(text) <= _LONG:
                yield self._by_runs(parts, depth)
        if text.endswith(".") and not text.endswith(".."):
            yield self._of(text[:-1], depth + 1) + self._stop

    def _by_runs(self, parts: Sequence[str], depth: int) -> str:
        """The sentences, of which neighbours may be of one template, as it costs the least."""
        best: list[tuple[int, str]] = [(0, "")]
        for end in range(1, len(parts) + 1):
            ways = []
            for start in range(max(0, end - _RUN), end):
                said = self._of(parts[start], depth + 1) if start == end - 1 else self._run(parts[start:end], depth)
                if said is not None:
                    before = best[start]
                    ways.append((before[0] + left_over(said), f"{before[1]} {said}"))
            best.append(min(ways, key=lambda w: w[0]))
        return best[-1][1].strip()

    def _run(self, parts: Sequence[str], depth: int) -> str | None:
        text = " ".join(parts)
        exact = self._exact(text)
        return exact if exact is not None else min(self._by_heavy(text, depth), key=left_over, default=None)

    def _by_title(self, text: str, depth: int) -> Iterator[str]:
        """A title that is known whole, with where it was, and behind it the words of a log."""
        for place in _COLONS.finditer(text):
            title = text[: place.start()]
            head = _WHERE.sub("", title)
            if self._exact(head) is not None:
                yield f"{self._of(title, depth + 1)}：{self._atoms.hold(text[place.end() :])}"

    def _by_parts(self, text: str, depth: int) -> Iterator[str]:
        for joint, theirs in self._joints:
            # A list of numbers is one thing.
            parts = re.split(rf"(?<!\d){re.escape(joint)}|{re.escape(joint)}(?!\d)", text)
            if 1 < len(parts) <= 40:
                yield theirs.join(self._of(p, depth + 1) for p in parts)
                # Only one of the places may be a joint of two parts: the first or the last is the likeliest.
                if len(parts) > 2:
                    for cut in (1, len(parts) - 1):
                        halves = (joint.join(parts[:cut]), joint.join(parts[cut:]))
                        yield theirs.join(self._of(p, depth + 1) for p in halves)


def _wide(mark: re.Match[str]) -> str:
    return {",": "，", ";": "；", ":": "："}[mark[1]]


def left_over(text: str) -> int:
    """Letters of plain English words that a text still holds; names, paths and code in quotes do not count."""
    return sum(len(word) for word in _WORD.findall(text) if len(word) > 1 and word.lower() not in KEPT)


KEPT = frozenset(
    [
        "rank",
        "step",
        "steps",
        "loss",
        "python",
        "torch",
        "token",
        "tokens",
        "batch",
        "ms",
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
        "optimizer",
        "weights",
        "rng",
        "scaler",
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
