"""firstfault: what was the first fault of a training job on many GPUs.

Importing this package loads nothing else; what it names is imported when it is first used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firstfault.api import (
        DiagnoseOptions,
        Diagnosis,
        Page,
        PipelineError,
        RankTable,
        SignatureError,
        Timeline,
        diagnose,
        page,
        ranks,
        timeline,
    )

__version__ = "0.1.0"
__all__ = [
    "DiagnoseOptions",
    "Diagnosis",
    "Page",
    "PipelineError",
    "RankTable",
    "SignatureError",
    "Timeline",
    "__version__",
    "diagnose",
    "page",
    "ranks",
    "timeline",
]


def __getattr__(name: str) -> object:
    if name in __all__:
        from firstfault import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
