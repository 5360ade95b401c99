"""Pseudonyms that look like what they stand for, so that a text with them is read as it was: an address stays an address.

Numbers of machines stay (`gpu-n006` becomes `node-a006`), so that lists of hosts and the order of nodes hold; the names go.
Must not be used where one report is to agree with another: what a name becomes hangs on what was met before it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from firstfault.model.lazy import lazy
from firstfault.privacy.identities import Identities

if TYPE_CHECKING:
    from collections.abc import Callable

_HOST = lazy(r"(?P<head>.*?)(?P<number>\d+)(?P<tail>\.[\w.-]*)?")
_LIST = lazy(r"(?P<head>[^\[]*)(?P<ranges>(?:\[[^\]]*\][^\[]*)+)")
_DIGIT = lazy(r"[0-9A-Fa-f]")


class Lookalikes(Identities):
    """Identities whose pseudonyms have the form of what they replace."""

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[tuple[str, str], str] = {}
        self._folders: set[str] = set()
        self._forms: dict[str, Callable[[str], str]] = {
            "host": self._host,
            "hostlist": self._hostlist,
            "addr": self._numbered_address,
            "mail": lambda name: f"user-{self._number('mail', name)}@mail.example",
            "device": self._device,
            "uid": lambda name: str(70000 + self._number("uid", name)),
            "account": lambda name: f"{self._number('account', name):012d}",
        }

    def pseudonym(self, kind: str, name: str) -> str:
        """The pseudonym of one name, of its form; the same name of one kind gives the same one."""
        form = self._forms.get(kind)
        if form is None:
            return super().pseudonym(kind, name)
        known = self._made.get((kind, name))
        if known is None:
            known = self._made[kind, name] = form(name)
        return known

    def folder(self, name: str) -> str:
        """The name of a folder, by a pseudonym where a path that was cleaned had it and not everybody has it."""
        return self._part(name) if name in self._folders else name

    def _folder(self, path: str) -> str:
        self._folders.update(path.split("/"))
        return super()._folder(path)

    def _number(self, kind: str, name: str) -> int:
        return int(super().pseudonym(kind, name).rpartition("-")[2])

    def _stem(self, head: str) -> str:
        number, letters = self._number("host", head), ""
        while number:
            number, letter = divmod(number - 1, 26)
            letters = chr(ord("a") + letter) + letters
        return f"node-{letters}"

    def _host(self, name: str) -> str:
        found = _HOST.fullmatch(name)
        return self._stem(name) if found is None else f"{self._stem(found['head'])}{found['number']}"

    def _hostlist(self, name: str) -> str:
        found = _LIST.fullmatch(name)
        return self._stem(name) if found is None else f"{self._stem(found['head'])}{found['ranges']}"

    def _numbered_address(self, name: str) -> str:
        number = self._number("addr", name)
        if ":" in name:
            return f"fd00::{number:x}"
        return f"10.{100 + (number >> 16) % 100}.{number >> 8 & 255}.{number & 255}"

    def _device(self, name: str) -> str:
        digits = iter(hashlib.sha256(str(self._number("device", name)).encode()).hexdigest())
        kept = name[:4] if name.startswith(("GPU-", "MIG-")) else ""
        return kept + _DIGIT.sub(lambda _: next(digits), name[len(kept) :])
