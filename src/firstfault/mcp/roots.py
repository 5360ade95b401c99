"""Which paths a caller may name: what lies below folders that the owner of the server named, whatever links and dots say."""

from __future__ import annotations

import os
from pathlib import Path


class NotAllowedError(ValueError):
    """A path that is not to be read; the message tells the caller why, and not what lies there."""


class Roots:
    """Folders below which paths may be read."""

    def __init__(self, folders: list[str]) -> None:
        """folders: existing ones; links among them count as what they point at."""
        self.folders = tuple(os.path.realpath(folder) for folder in folders)

    def resolve(self, path: str) -> str:
        """The real path of what a caller named.

        Args:
            path: absolute, or relative to the first of the folders that has it.

        Raises:
            NotAllowedError: it does not lie below a folder, or is not there.
        """
        if not path.strip() or "\0" in path:
            raise NotAllowedError("give the path of a file or folder")
        places = [path] if os.path.isabs(path) else [os.path.join(folder, path) for folder in self.folders]  # noqa: PTH117, PTH118 - realpath below
        for place in places:
            real = os.path.realpath(place)
            # Whether something is there is told of allowed places alone.
            if self._allowed(real) and os.path.lexists(real):
                return real
        if any(self._allowed(os.path.realpath(place)) for place in places):
            raise NotAllowedError(f"{path!r} is not there")
        raise NotAllowedError(f"{path!r} is not below a folder that this server may read: {', '.join(self.folders)}")

    def _allowed(self, real: str) -> bool:
        return any(real == folder or Path(folder) in Path(real).parents for folder in self.folders)
