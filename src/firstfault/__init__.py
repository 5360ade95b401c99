"""firstfault: what was the first fault of a training job on many GPUs.

Importing this package loads nothing else; what it names is imported when it is first used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firstfault.api import Diagnosis, Page, RankTable, Timeline, diagnose, page, ranks, timeline
    from firstfault.pipelines.errors import PipelineError
    from firstfault.pipelines.options import DiagnoseOptions
    from firstfault.signatures.errors import SignatureError

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


_ELSEWHERE = {
    "DiagnoseOptions": "firstfault.pipelines.options",
    "PipelineError": "firstfault.pipelines.errors",
    "SignatureError": "firstfault.signatures.errors",
}
"""Where that stands which is not of `firstfault.api`."""


def __getattr__(name: str) -> object:
    if name in __all__:
        from importlib import import_module

        return getattr(import_module(_ELSEWHERE.get(name, "firstfault.api")), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
