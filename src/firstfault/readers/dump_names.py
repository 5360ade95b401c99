"""The ranks that the names of several dumps of one job tell together, where no name tells its own: the number that varies and fits.

A name may hold the host's number, the job's and the rank's; only beside other names is it seen which one counts the ranks.
Must not open a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.evidence import GlobalRank
from firstfault.model.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Sequence

_NUMBER = lazy(r"[0-9]+")
FEWEST = 2
"""Names of which a number can be seen to vary."""


def ranks_of_names(paths: Sequence[str], members: Sequence[frozenset[GlobalRank]]) -> tuple[GlobalRank, ...] | None:
    """The rank of each of several dumps by the one number of their names that is another in each and lies in its groups.

    Args:
        paths: as shown; the names must be alike but for their numbers.
        members: for each dump, the ranks that it may be of; empty where it does not say.

    Returns:
        None where no number is such a one, or where several differing ones are.
    """
    names = [path.rsplit("!", 1)[-1].rsplit("/", 1)[-1] for path in paths]
    if len(names) < FEWEST or len({_NUMBER.sub("#", n) for n in names}) != 1:
        return None
    columns = zip(*(map(int, _NUMBER.findall(n)) for n in names), strict=True)
    fitting = {
        column
        for column in columns
        if len(set(column)) == len(names) and all(not m or r in m for r, m in zip(column, members, strict=True))
    }
    return tuple(map(GlobalRank, fitting.pop())) if len(fitting) == 1 else None
