"""What whoever reads on in the sources needs: their bytes, with the label style and the clock of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from firstfault.model.evidence import SourceId
    from firstfault.readers.clock import SourceClock
    from firstfault.readers.identity import SourceProfile
    from firstfault.readers.lines import TextStore


class Ground(NamedTuple):
    """The sources of an input, as the readers left them."""

    store: TextStore
    """The bytes of all of them."""
    profiles: Mapping[SourceId, SourceProfile]
    clocks: Mapping[SourceId, SourceClock]
    """Settled with one another."""
