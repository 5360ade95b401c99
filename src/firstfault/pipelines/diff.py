"""Reads two diagnoses that were kept as JSON and compares them.

Must not diagnose anything anew: what the two files say is all it knows.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from firstfault.analysis.compared import compare
from firstfault.model.diagnosis import SCHEMA, Diagnosis
from firstfault.pipelines.errors import PipelineError

if TYPE_CHECKING:
    import os

    from firstfault.model.comparison import Comparison

LARGEST = 1 << 28
"""Bytes of a file beyond which it is no diagnosis."""


def compared(before: str | os.PathLike[str], after: str | os.PathLike[str]) -> Comparison:
    """What differs between two diagnoses.

    Args:
        before: a file that `firstfault diagnose --format json` wrote.
        after: another one, of the same incident.

    Returns:
        The comparison, not yet redacted.

    Raises:
        PipelineError: a file is no diagnosis, or hosts of one are pseudonyms and of the other names.
    """
    old, new = _read(before), _read(after)
    if ("identities" in (old.redaction, new.redaction)) and old.redaction != new.redaction:
        raise PipelineError(
            "the names in one of the two are pseudonyms, in the other they are not",
            where=f"{before}, {after}",
            why="a host in one cannot be told to be that of the other",
            fix="Make both with --share, or both without.",
        )
    return compare(old, new)


def _read(path: str | os.PathLike[str]) -> Diagnosis:
    file = Path(path)
    try:
        if file.stat().st_size > LARGEST:
            raise PipelineError("this file is too large to be a diagnosis", where=str(path), fix=_FIX)
        found = msgspec.json.decode(file.read_bytes(), type=Diagnosis)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PipelineError("this is no diagnosis as JSON", where=str(path), why=str(error), fix=_FIX) from error
    if found.schema != SCHEMA:
        raise PipelineError(
            "this is a document of another kind", where=str(path), why=f"its schema is {found.schema}", fix=_FIX
        )
    return found


_FIX = "Make one with `firstfault diagnose PATH --format json --output FILE`."
