"""Calls a function of ours when a module of a library has been imported; changes nothing about how it is imported."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    Fault = Callable[[BaseException], None]

_applied: set[tuple[str, str]] = set()


class _Finder(MetaPathFinder):
    """Finds the modules that we wait for as Python itself would, and adds our call behind their execution."""

    def __init__(self) -> None:
        self.waiting: dict[str, tuple[str, Fault]] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module that we wait for; None for any other."""
        if fullname not in self.waiting:
            return None
        ours, fault = self.waiting.pop(fullname)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        spec.loader = _After(spec.loader, ours, fault)
        return spec


class _After(Loader):
    """A loader with our call behind it; everything else it leaves to the one that it stands for."""

    def __init__(self, loader: Any, ours: str, fault: Fault) -> None:
        self._loader = loader
        self._ours = ours
        self._fault = fault

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the loader does."""
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Executes the module, then hooks it."""
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        _apply(module, self._ours, self._fault)


_finder = _Finder()


def after_import(name: str, ours: str, fault: Fault) -> None:
    """Hooks a module now, where it is imported, else when it is.

    Args:
        name: of the library's module.
        ours: our module, whose `apply` takes it.
        fault: is told what our module raises.
    """
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        _apply(module, ours, fault)
        return
    _finder.waiting[name] = (ours, fault)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def _apply(module: ModuleType, ours: str, fault: Fault) -> None:
    key = (module.__name__, ours)
    if key in _applied:
        return
    _applied.add(key)
    try:
        import_module(ours).apply(module)
    except Exception as problem:  # noqa: BLE001 - a library that changed is no reason to fail
        fault(problem)
