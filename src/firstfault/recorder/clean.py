"""Takes secrets out of what is about to be written, and counts what it took.

`Cleaner` knows all that `privacy/` knows. `plain_item` is for the path of a sample, met thousands of times a second: it is
cheap and takes out too much rather than too little. Neither raises on any text.
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST = 20_000
"""Characters of one text that are kept."""
DEEPEST = 6
_LONGEST_VARIABLE = 2000
MOST = 400
"""Entries of one list or map that are kept."""
_HALF_END, _HALF_BEGIN = re.compile(r"(?<!\S)\S+\Z"), re.compile(r"\A\S+")
"""The word that a cut goes through."""
_NAME = re.compile(
    r"(?i)(?:token|secret|passw|passphrase|passwd|api[_-]?key|access[_-]?key|private[_-]?key|credential|authorization|cookie)"
)
_CALLED = ("name", "key", "Name", "Key")
"""Keys of a map under which the name of its `value` may stand."""
_PLURAL = re.compile(
    r"(?i)\b(?:\w*[_-])?(?:password|passphrase|secret|credential|api_?key|access_?key|private_?key)(?=s$)"
)
"""Of a name of several secrets that of one. Tokens are not among them: most are those of a text."""
_VALUES = frozenset({"value", "val", "default", "content"})
_RUN = re.compile(r"(?=[A-Za-z0-9_+=~-]*\d)(?=[A-Za-z0-9_+=~-]*[A-Za-z])[A-Za-z0-9_+=~-]{16,}")
_HARMLESS = re.compile(
    r"(?:[A-Za-z]+|\d+)(?:[_=+~-]+(?:[A-Za-z]+\d{0,6}|\d+[A-Za-z]{0,3}))*|[A-Za-z]{1,12}\d{1,12}|(?:[A-Za-z]+[_-])?(?:0x)?[0-9a-fA-F]+(?:-[0-9a-fA-F]+)*"
)


class Cleaner:
    """A filter for all texts of one process; the first text costs 50 ms, further ones some 20 µs."""

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        """Begins a filter.

        Args:
            variables: of the environment: a secret among them is one wherever a program says it, whatever it looks like there.
        """
        self._filter: Any = None
        self._variables = dict(variables or {})
        # A signal handler of the program, or a hook of ours, may come here from in here.
        self._lock = threading.RLock()

    @property
    def removed(self) -> dict[str, int]:
        """Kind of secret -> how many were taken out."""
        return {} if self._filter is None else dict(self._filter.removed)

    def text(self, text: str) -> str:
        """The text without secrets, cut where it is too long."""
        with self._lock:
            if self._filter is None:
                from firstfault.privacy.secrets import SecretFilter

                self._filter = SecretFilter()
                for name, value in self._variables.items():
                    if len(value) <= _LONGEST_VARIABLE:
                        self._filter.learn(f"{name}={value}")
            if len(text) > LONGEST:
                # At blanks: half of a secret is not known for one.
                head, tail = _HALF_END.sub("", text[: LONGEST // 2]), _HALF_BEGIN.sub("", text[-LONGEST // 2 :])
                text = f"{head} [{len(text) - len(head) - len(tail)} characters left out] {tail}"
            cleaned: str = self._filter.clean(text)
            return cleaned

    def value(self, value: Any, name: str = "") -> Any:
        """A value of any kind as one that JSON knows, without secrets; a value whose name speaks of a secret is one.

        So is everything below such a name, and the second of a pair or a `value` beside a `name` that speaks of one.

        Args:
            value: a text, number, map, list or anything else.
            name: under which it stands.
        """
        return self._walk(value, (name,) if name else (), 0)

    def _walk(self, value: Any, names: tuple[str, ...], depth: int) -> Any:
        """A value under its names: its own last, before it those above that may speak of a secret."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, (int, float)):
            if value != value:  # noqa: PLR0124 - NaN is no JSON
                return None
            return self._number(value, names)
        if depth > DEEPEST:
            return "…"
        if isinstance(value, dict):
            return self._map(value, names, depth)
        if isinstance(value, (list, tuple, set, frozenset)):
            return self._list(list(value)[:MOST], names, depth)
        return self._leaf(value if isinstance(value, str) else shown(value), names)

    def _map(self, found: dict[Any, Any], names: tuple[str, ...], depth: int) -> dict[str, Any]:
        called = next((found[k] for k in _CALLED if isinstance(found.get(k), str)), "")
        kept: dict[str, Any] = {}
        for key, value in list(found.items())[:MOST]:
            own = "_".join(map(str, key)) if isinstance(key, tuple) else str(key)
            # `{"name": "PASSWORD", "value": …}`, as containers and command lines are described.
            above = _below(names, called) if own.lower() in _VALUES and called else names
            kept[self.text(own)] = self._walk(value, _below(above, own), depth + 1)
        return kept

    def _list(self, found: list[Any], names: tuple[str, ...], depth: int) -> list[Any]:
        pair = len(found) == 2
        kept: list[Any] = []
        before = ""
        for number, value in enumerate(found):
            # `--password`, `x` of a command line, and pairs: the word before names the value.
            above = _below(names, before) if before else names
            kept.append(self._walk(value, above, depth + 1))
            named = isinstance(value, str) and (value.startswith("-") or (pair and number == 0))
            before = value.lstrip("-").replace("-", "_") if named and _NAME.search(value) and "=" not in value else ""
        return kept

    def _leaf(self, text: str, names: tuple[str, ...]) -> str:
        """A text; with a name before it it is known for what it is: `password=…`."""
        if not names:
            return self.text(text)
        for name in reversed(names):
            label = f"{name}="
            cleaned = self.text(label + text).removeprefix(label)
            if cleaned != text[:LONGEST]:
                return cleaned
        return self.text(text)

    def _number(self, value: float, names: tuple[str, ...]) -> Any:
        """A number as it is, unless a name makes a secret of it: a password may have digits alone."""
        labels = (f"{name}={value}" for name in names if _NAME.search(name))
        return value if all(self.text(label) == label for label in labels) else "[removed]"

    def words(self, words: list[str]) -> list[str]:
        """A command line without secrets: cleaned as a whole, since an option names the word behind it."""
        joined = self.text("\n".join(words)).split("\n")
        spaced = self.text(" ".join(words))
        parts = [self.text(w) for w in joined]
        # A secret that only the blank between two words gave away.
        return [w if w in spaced else "[removed]" for w in parts]


def _below(names: tuple[str, ...], own: str) -> tuple[str, ...]:
    """The names of a value in a map: those above that may speak of a secret, and its own."""
    return (*(n for n in names if _NAME.search(n)), own, *_PLURAL.findall(own))


def shown(value: object) -> str:
    """The text of an object of the program, which may refuse it."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a program's own class may do anything
        return f"<{type(value).__name__}>"


def plain_item(text: str) -> str:
    """The path or key of a sample with each part that may be a secret replaced."""
    if "?" in text or "@" in text or "&" in text:
        text = re.sub(r"(?<=//)[^/@]*@|[?&].*", "[removed]", text)
    if not _NAME.search(text) and not _RUN.search(text):
        return text
    parts = text.split("/")
    return "/".join("[removed]" if _risky(part) else part for part in parts)


def _risky(part: str) -> bool:
    if _NAME.search(part):
        return True
    return any(not _HARMLESS.fullmatch(run) for run in _RUN.findall(part))
