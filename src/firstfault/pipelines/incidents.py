"""Wires the knowledge base: evidence or a stored diagnosis in, records, comparisons and lists out.

Prints nothing. What goes into a record goes through the one door first, with identities as pseudonyms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.incidents.fingerprint import Origin, Traits, traits_of
from firstfault.pipelines.build import Builder
from firstfault.pipelines.diagnose import concluded

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from firstfault.analysis.conclude import Conclusion
    from firstfault.model.diagnosis import Diagnosis
    from firstfault.pipelines.options import DiagnoseOptions


def examine(paths: Sequence[str | os.PathLike[str]], options: DiagnoseOptions) -> tuple[Diagnosis, Traits]:
    """The diagnosis of evidence, not yet redacted, with the parts of its fingerprint.

    Raises:
        SignatureError: a site signature is wrong.
        PipelineError: the attempt asked for is not there.
    """
    with concluded(paths, options) as (conclusion, verifier):
        diagnosis = Builder(conclusion, verifier).build()
        return diagnosis, traits_of(diagnosis, origin_of(conclusion))


def origin_of(conclusion: Conclusion) -> Origin:
    """What the first line tells beyond its text: its signature, and the innermost frame of the job's own code."""
    trigger = conclusion.answer.trigger
    if trigger is None:
        return Origin()
    frame = None
    if trigger.exception is not None:
        frame = trigger.exception.user_frame or next(iter(trigger.exception.frames[-1:]), None)
    if frame is None:
        return Origin(signature=trigger.signature)
    name = frame.file.replace("\\", "/").rsplit("/", 1)[-1]
    return Origin(signature=trigger.signature, place=f"{name}:{frame.function}")
