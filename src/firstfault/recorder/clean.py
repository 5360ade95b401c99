"""Takes secrets out of what is about to be written, and counts what it took.

`Cleaner` knows all that `privacy/` knows. `plain_item` is for the path of a sample, met thousands of times a second: it is
cheap and takes out too much rather than too little. Neither raises on any text.
"""

from __future__ import annotations

import re
import threading
from typing import Any

LONGEST = 20_000
"""Characters of one text that are kept."""
DEEPEST = 6
MOST = 400
"""Entries of one list or map that are kept."""
_NAME = re.compile(
    r"(?i)(?:token|secret|passw|passphrase|passwd|api_?key|access_?key|private_?key|credential|authorization|cookie)"
)
_RUN = re.compile(r"(?=[A-Za-z0-9_+=~-]*\d)(?=[A-Za-z0-9_+=~-]*[A-Za-z])[A-Za-z0-9_+=~-]{16,}")
_HARMLESS = re.compile(
    r"(?:[A-Za-z]+|\d+)(?:[_=+~-]+(?:[A-Za-z]+\d{0,6}|\d+[A-Za-z]{0,3}))*|[A-Za-z]{1,12}\d{1,12}|(?:[A-Za-z]+[_-])?(?:0x)?[0-9a-fA-F]+(?:-[0-9a-fA-F]+)*"
)


class Cleaner:
    """A filter for all texts of one process; the first text costs 50 ms, further ones some 20 µs."""

    def __init__(self) -> None:
        self._filter: Any = None
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
            if len(text) > LONGEST:
                text = f"{text[: LONGEST // 2]} [{len(text) - LONGEST} characters left out] {text[-LONGEST // 2 :]}"
            cleaned: str = self._filter.clean(text)
            return cleaned

    def value(self, value: Any, name: str = "", depth: int = 0) -> Any:
        """A value of any kind as one that JSON knows, without secrets; a value whose name speaks of a secret is one.

        Args:
            value: a text, number, map, list or anything else.
            name: under which it stands.
            depth: how deep it stands.
        """
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, (int, float)):
            if value != value:  # noqa: PLR0124 - NaN is no JSON
                return None
            return self._number(value, name)
        if depth > DEEPEST:
            return "…"
        if isinstance(value, dict):
            return {self.text(str(k)): self.value(v, str(k), depth + 1) for k, v in list(value.items())[:MOST]}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [self.value(v, name, depth + 1) for v in list(value)[:MOST]]
        text = value if isinstance(value, str) else _shown(value)
        if not name:
            return self.text(text)
        # With its name before it a value is known for what it is: `password=…`.
        label = f"{name}="
        cleaned = self.text(label + text)
        return cleaned.removeprefix(label)

    def _number(self, value: float, name: str) -> Any:
        """A number as it is, unless its name makes a secret of it: a password may have digits alone."""
        if not _NAME.search(name):
            return value
        label = f"{name}="
        return value if self.text(f"{label}{value}") == f"{label}{value}" else "[removed]"

    def words(self, words: list[str]) -> list[str]:
        """A command line without secrets: cleaned as a whole, since an option names the word behind it."""
        joined = self.text("\n".join(words)).split("\n")
        spaced = self.text(" ".join(words))
        parts = [self.text(w) for w in joined]
        # A secret that only the blank between two words gave away.
        return [w if w in spaced else "[removed]" for w in parts]


def _shown(value: object) -> str:
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
