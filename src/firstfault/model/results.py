"""Results of trials as rows with columns that not all of them have; no I/O."""

from __future__ import annotations

from msgspec import Struct, field

from firstfault.model.diagnosis import Published

RESULTS = "firstfault.results/1"


class ResultRow(Struct, frozen=True, kw_only=True):
    """One result."""

    name: str
    state: str | None = None
    """As the file says it; None where it does not."""
    file: str = ""
    note: str = ""
    """Why nothing was read of it; empty where something was."""
    values: dict[str, float | int | str | None] = field(default_factory=dict)
    """Name -> what was measured; None for what the file names without a value. Others are not there."""


class Results(Published, frozen=True, kw_only=True):
    """Results beside each other."""

    schema: str = RESULTS
    columns: list[str] = field(default_factory=list)
    """Names of what any of them measured, in the order in which they are shown."""
    rows: list[ResultRow] = field(default_factory=list)
