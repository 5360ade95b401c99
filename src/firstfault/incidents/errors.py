"""The error that a record or a folder of records gives where a person has to correct something. Holds nothing else."""

from __future__ import annotations


class IncidentError(Exception):
    """What is wrong, where, and what to do."""

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix
