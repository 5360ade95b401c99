"""Found by Python at its start where `firstfault record` put this folder on the search path: starts the recorder, then makes way.

A `sitecustomize` of the user's own, further down the path, is run as if this one were not there.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def _without_us() -> None:
    """Runs the user's own `sitecustomize`, if there is one."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.abspath(__file__))
    spec = PathFinder.find_spec("sitecustomize", [p for p in sys.path if os.path.abspath(p or ".") != here])
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _start() -> None:
    """Starts the recorder, of the program's own `firstfault` or of the one that `record` belongs to."""
    if os.environ.get("FIRSTFAULT_RECORD") != "1":
        return
    from importlib.util import find_spec, module_from_spec, spec_from_file_location

    root = os.environ.get("FIRSTFAULT_RECORD_ROOT", "")
    if find_spec("firstfault") is None and root:
        # Only this package: nothing else of that environment may become visible to the program.
        folder = os.path.join(root, "firstfault")
        spec = spec_from_file_location(
            "firstfault", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
        )
        if spec is not None and spec.loader is not None:
            module = module_from_spec(spec)
            sys.modules["firstfault"] = module
            spec.loader.exec_module(module)
    from firstfault.recorder.injected import begin

    begin()


with suppress(Exception):  # the program starts as if we were not there
    _start()
_without_us()
