"""Lists of hosts as schedulers write them (`gpu[001-004,007]`): which text is one, and which names stand in it.

Standard library only. It must not raise on any text, and must not take the index of an array (`loss[3]`) for a list.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_RANGES = r"\[\d{1,8}(?:-\d{1,8})?(?:,\d{1,8}(?:-\d{1,8})?)*\]"
_LIST = rf"[A-Za-z][\w.-]{{0,63}}(?:{_RANGES}[\w.-]{{0,63}})+"
_ONE = lazy(rf"(?<![\w.\-\]]){_LIST}")
_LABELLED = lazy(
    rf"(?i:node_?list|node list|host_?list|slurm_nodes|--exclude|--nodes)[\"'`]?[ =:]{{1,4}}[\"'`]?(?P<lists>{_LIST}(?:,[\w.-]{{1,64}}(?:{_RANGES}[\w.-]{{0,63}})*)*)"
)
_NUMBERED = lazy(r"(?P<head>[A-Za-z][\w.-]*?)\d+(?:\.[\w.-]*)?")
_STREAM = lazy(r"(?:default|rank|task|local_rank|worker|node_rank|attempt|cuda|gpu|std(?:out|err))_?", re.IGNORECASE)
"""Heads of labels of streams: `gpu[0-7]` may name hosts, and `gpu0` is a card all the same."""
WIDE = 3
"""Digits from which such a name is a host's."""


class Hostlists:
    """The lists that some texts hold; learn all texts first, then clean them."""

    def __init__(self) -> None:
        self._heads: set[str] = set()
        self._members: set[tuple[str, int]] = set()

    def learn(self, text: str) -> None:
        """Takes what a text calls a list of nodes."""
        if "[" in text:
            for found in _LABELLED.finditer(text):
                self.take(found["lists"])

    def take(self, lists: str) -> None:
        """Takes a text that is known to be a list of hosts."""
        for found in _ONE.finditer(lists):
            head, _, inside = found.group().partition("[")
            self._heads.add(head)
            numbers = inside.partition("]")[0].replace("-", ",").split(",")
            for digits in {len(n) for n in numbers}:
                if digits >= WIDE or not _STREAM.fullmatch(head):
                    self._members.add((head, digits))

    def take_host(self, name: str) -> None:
        """Takes one host: a list of names that begin as its name does is one of hosts."""
        found = _NUMBERED.fullmatch(name)
        if found is not None and not _STREAM.fullmatch(found["head"]):
            self._heads.add(found["head"])

    def members(self) -> Iterable[str]:
        """Patterns of the names that stand in the lists."""
        return (rf"{re.escape(head)}\d{{{digits}}}" for head, digits in sorted(self._members))

    def clean(self, text: str, pseudonym: Callable[[str], str]) -> str:
        """The text with every list replaced by one pseudonym."""
        if "[" not in text or not self._heads:
            return text
        return _ONE.sub(
            lambda m: pseudonym(m.group()) if m.group().partition("[")[0] in self._heads else m.group(), text
        )
