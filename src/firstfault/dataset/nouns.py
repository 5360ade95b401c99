"""What is noted while manifests are read: problems by kind, each with its first places; bounded however many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from firstfault.model.dataset import DataFinding

if TYPE_CHECKING:
    from firstfault.model.checks import CheckState

NAMES = 10
MOST_IDS = 20_000_000
"""Items by whose names repetition is seen."""


class Kind(NamedTuple):
    """A kind of problem."""

    check: str
    state: CheckState
    one: str
    """What is wrong with each of them."""
    why: str = ""
    fix: str = ""


class Held:
    """Problems of one kind."""

    def __init__(self, kind: Kind, file: str, line: int | None, detail: str) -> None:
        self.kind, self.file, self.line, self.detail = kind, file, line, detail
        self.count = 0
        self.names: list[str] = []


class Notes:
    """All problems of the manifests that were given."""

    def __init__(self) -> None:
        self.held: dict[str, Held] = {}
        self.not_checked: list[str] = []

    def note(self, kind: Kind, file: str, name: str = "", *, line: int | None = None, detail: str = "") -> None:
        """Notes one.

        Args:
            kind: of which kind.
            file: where.
            name: of the item or file.
            line: from 1.
            detail: what was seen at the first one.
        """
        one = self.held.setdefault(kind.check, Held(kind, file, line, detail))
        one.count += 1
        if name and len(one.names) < NAMES:
            one.names.append(name[:300])

    def skip(self, why: str) -> None:
        """Notes what could not be looked at, once."""
        if why not in self.not_checked:
            self.not_checked.append(why)

    def findings(self) -> list[DataFinding]:
        """One finding for each kind."""
        return [
            DataFinding(
                check=one.kind.check,
                state=one.kind.state,
                what=f"{one.kind.one} ({one.count}): {one.detail}" if one.detail else f"{one.kind.one} ({one.count})",
                why=one.kind.why,
                fix=one.kind.fix,
                count=one.count,
                file=one.file,
                line=one.line,
                names=one.names,
            )
            for one in self.held.values()
        ]


class Seen:
    """Names that were there before; remembers a number of each, not the name."""

    def __init__(self) -> None:
        self.held: set[int] = set()
        self.full = False

    def again(self, name: str) -> bool:
        """Whether it was there before."""
        mark = hash(name)
        if mark in self.held:
            return True
        if len(self.held) < MOST_IDS:
            self.held.add(mark)
        else:
            self.full = True
        return False
