"""Says a diagnosis or a view in another language: its sentences are translated, what was quoted and named stays.

Which fields are sentences is a closed list; a test holds it against every published type, so that a new field is not
forgotten. It infers nothing and must never touch a quoted line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from msgspec import Struct

from firstfault.i18n import translator
from firstfault.model.diagnosis import Published
from firstfault.redact import Redacted, rewritten

if TYPE_CHECKING:
    from collections.abc import Callable

P = TypeVar("P", bound=Published)

SENTENCES: dict[str, tuple[str, ...]] = {
    "Action": ("steps",),
    "AttemptSummary": ("summary",),
    "Change": ("what", "before", "after"),
    "ChainLink": ("what", "why"),
    "CheckResult": ("seen", "fix", "why"),
    "Checkpoint": ("summary", "not_checked", "steps"),
    "CheckpointComparison": ("summary", "problems"),
    "CheckpointDifference": ("what",),
    "CheckpointProblem": ("what", "fix"),
    "Comparison": ("why",),
    "Count": ("title",),
    "ConfigCheck": ("summary",),
    "ConfigFinding": ("what", "why", "fix"),
    "CoursePoint": ("what",),
    "CoverageRow": ("reason",),
    "DataCheck": ("summary", "not_checked"),
    "DataFinding": ("what", "why", "fix"),
    "Diagnosis": ("collect_next", "recommendations"),
    "Difference": ("kind", "shift"),
    "Entry": ("what",),
    "InputChange": ("before", "after"),
    "JobAnswer": ("summary", "note"),
    "MemoryPlace": ("part",),
    "MemoryRow": ("sentences", "steps", "use"),
    "MetricFinding": ("claim", "supports", "against", "next"),
    "MetricPoint": ("before", "summary"),
    "NaiveReading": ("says", "dropped_because"),
    "PlotMark": ("text",),
    "Preflight": ("summary",),
    "RankColumns": ("notes",),
    "RankLine": ("note",),
    "ResultRow": ("note",),
    "RankRow": ("note",),
    "Recurrence": ("what",),
    "RivalSummary": ("supports", "against", "settled_by"),
    "RunComparison": ("summary", "missing"),
    "RunDifference": ("what",),
    "StackPlace": ("doing",),
    "StackThreads": ("doing",),
    "StorageClock": ("why",),
    "StorageDaemon": ("holes", "alerts"),
    "StorageEvent": ("what",),
    "StuckWork": ("why",),
    "TimelineEntry": ("what",),
    "Verdict": ("summary",),
    "Withdrawn": ("why",),
}
"""Published type -> its fields that hold sentences, or words of ours."""


def localised(safe: Redacted[P], language: str) -> Redacted[P]:
    """The same content, its sentences in a language.

    Raises:
        KeyError: there is no catalogue of that language.
    """
    if language == "en":
        return safe
    say = translator(language)
    return rewritten(safe, lambda content: cast("P", _said(content, say)))


def _said(value: object, say: Callable[[str], str]) -> object:
    if isinstance(value, Struct):
        spoken = SENTENCES.get(type(value).__name__, ())
        fields = ((f, getattr(value, f)) for f in value.__struct_fields__)
        return type(value)(**{f: _spoken(held, say) if f in spoken else _said(held, say) for f, held in fields})
    if isinstance(value, (list, tuple)):
        if not any(isinstance(v, (Struct, list, tuple, dict)) for v in value[:1]):
            return value
        return type(value)(_said(v, say) for v in value)
    if isinstance(value, dict):
        return {name: _said(held, say) for name, held in value.items()}
    return value


def _spoken(value: object, say: Callable[[str], str]) -> object:
    """The sentences in whatever holds them; names of a map are not sentences."""
    if isinstance(value, str):
        return say(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_spoken(v, say) for v in value)
    if isinstance(value, dict):
        return {name: _spoken(held, say) for name, held in value.items()}
    return value
