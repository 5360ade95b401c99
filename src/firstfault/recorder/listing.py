"""A folder into which other nodes put small files: looked at each second by each node, so it is listed only where that may show more.

To ask for its time of change is one question to a shared file system, to list it one for each of the files that thousands of nodes
have left there.
"""

from __future__ import annotations

import os

AFTER, EACH = 4, 10
"""Looks for which it is listed after it changed, and which of the others list it anyway: such a time may be as coarse as two
seconds, and a client may remember one that is no more."""


class Listing:
    """One such folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._changed: int | None = None
        self._looks = 0
        """How many looks have found it at that time."""

    def names(self) -> list[str]:
        """Its names; none where it cannot hold others than at the last look, or cannot be read."""
        try:
            changed = os.stat(self.folder).st_mtime_ns
            self._looks = self._looks + 1 if changed == self._changed else 0
            self._changed = changed
            return os.listdir(self.folder) if self._looks <= AFTER or self._looks % EACH == 0 else []
        except OSError:
            self._changed = None
            return []

    def again(self) -> None:
        """Lists it at the next look in any case: not all was read."""
        self._changed = None
