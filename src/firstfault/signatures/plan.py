"""Turns a library of signatures into the plan of a scan. Must not read logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.signatures.match import Matcher, engine_pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.model.patterns import Signature


class SignaturePlan:
    """The plan of a set of signatures (see `firstfault.scan.plan.Plan`); pickles as the signatures."""

    def __init__(self, signatures: Sequence[Signature]) -> None:
        self._signatures = tuple(signatures)
        self._matchers: dict[int, Matcher] = {}
        self.ids = tuple(s.id for s in self._signatures)
        index = {name: i for i, name in enumerate(self.ids)}
        pairs = [(engine_pattern(p), i) for i, s in enumerate(self._signatures) for p in s.spec.patterns]
        self.patterns = tuple(p for p, _ in pairs)
        self.owners = tuple(i for _, i in pairs)
        self.drops = tuple(frozenset(index[r] for r in s.spec.refines if r in index) for s in self._signatures)
        self.generic = frozenset(i for i, s in enumerate(self._signatures) if s.spec.generic)

    def __getstate__(self) -> tuple[Signature, ...]:
        return self._signatures

    def __setstate__(self, state: tuple[Signature, ...]) -> None:
        self.__init__(state)  # type: ignore[misc] # derived parts are made again

    def confirmer(self, signature: int) -> Matcher:
        """The matcher of one signature, compiled at its first use."""
        known = self._matchers.get(signature)
        if known is None:
            known = self._matchers[signature] = Matcher(
                self._signatures[signature].spec, self._signatures[signature].words
            )
        return known
