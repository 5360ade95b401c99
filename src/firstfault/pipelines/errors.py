"""The exception that a pipeline raises where a person has to do something.

It is not for damaged logs (those are coverage) and not for our own faults (those stay what they are).
"""

from __future__ import annotations

from firstfault.readers.discover import unsigned


class PipelineError(Exception):
    """Something stops the job: what, where, why, and what to type next."""

    def __init__(self, what: str, *, where: str = "", why: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = unsigned(where)
        self.why = unsigned(why)
        self.fix = fix
