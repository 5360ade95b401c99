"""The one exception of this room."""

from __future__ import annotations


class SignatureError(Exception):
    """A signature or table file is wrong: says which file, what is wrong and what to do."""

    def __init__(self, where: str, what: str, fix: str) -> None:
        super().__init__(f"{where}: {what}. {fix}")
        self.where = where
        self.what = what
        self.fix = fix
