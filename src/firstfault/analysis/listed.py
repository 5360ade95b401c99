"""Which ranks a distributed checkpoint lists as those that met an error in it: all of them, whichever rank prints the list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.answer import Named
from firstfault.model.evidence import GlobalRank
from firstfault.model.lazy import lazy
from firstfault.model.words import Category

if TYPE_CHECKING:
    from firstfault.analysis.scene import Scene
    from firstfault.analysis.suspects import Suspect

SIGNATURE = "checkpoint.save_failed"
_LISTED = lazy(r"CheckpointException ranks: ?dict_keys\(\[([\d, ]{1,4000})\]\)")
_OF_FILES = frozenset({Category.STORAGE_IO, Category.SOFTWARE, Category.DATA})


def with_listed(scene: Scene, root: Suspect, failed: Named) -> Named:
    """The ranks that failed first, or all that the checkpoint lists where the root is the error of some of these."""
    texts = [found[1] for e in scene.events if e.signature == SIGNATURE and (found := _LISTED.search(e.text))]
    if len(set(texts)) != 1 or root.nature.category not in _OF_FILES:
        return failed
    ranks = tuple(sorted({GlobalRank(int(n)) for n in texts[0].split(",") if n.strip()}))
    known = set(root.everyone) | set(failed.ranks)
    if not known <= set(ranks) or (not known and root.nature.category is not Category.STORAGE_IO):
        return failed
    hosts = {h for r in ranks if (h := scene.roster.host_of_rank(r)) is not None}
    strength = failed.strength if failed.ranks else root.nature.strength
    return Named(ranks=ranks, hosts=tuple(sorted(hosts)), strength=strength)
