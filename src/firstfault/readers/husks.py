"""Husks: what stands for an object of any class while a pickle is read, and keeps what it was made of.

Knows nothing of pickles: which name a husk stands for, and whether that acts on the machine, is given to its class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from typing_extensions import Self

MOST_HEEDED = 256
"""Values among which a function that will be called is looked for."""


class Husk:
    """Stands for an object of any class: keeps what it was made of and does nothing."""

    __slots__ = ("args", "items", "state")
    __firstfault_name__ = ""
    """Module and name that the pickle asked for."""
    __firstfault_acts__ = False
    """Whether it stands for something that acts; calling it then writes it down."""
    args: tuple[object, ...]
    items: list[object]
    state: object

    def __new__(cls, *args: object, **named: object) -> Self:
        """Keeps the arguments."""
        made = object.__new__(cls)
        made.args = (*args, named) if named else args
        made.state = None
        made.items = []
        return made

    def __init__(self, *args: object, **named: object) -> None:
        """What was given is kept already."""

    def __setstate__(self, state: object) -> None:
        self.state = state
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                # A method that is given as an attribute is called by what comes next.
                _heed([value for name, value in part.items() if isinstance(name, str) and name.startswith("__")])

    def __setitem__(self, key: object, value: object) -> None:
        self.items.append((key, value))

    def __call__(self, *args: object) -> Husk:
        """What a function that was looked up by name would give: a husk that keeps its arguments."""
        _heed([*self.args, self.state, *args])
        return Husk(*self.args, *args)

    def append(self, value: object) -> None:
        """Keeps an item of what is a kind of list."""
        self.items.append(value)

    def extend(self, values: list[object]) -> None:
        """Keeps items of what is a kind of list."""
        self.items.extend(values)

    def add(self, value: object) -> None:
        """Keeps an item of what is a kind of set."""
        self.items.append(value)

    def field(self, name: str) -> Any:
        """An attribute that the object was given as state; None where it has none of that name."""
        state = self.state
        if isinstance(state, tuple) and len(state) == 2:
            state = {**(state[0] or {}), **(state[1] or {})} if _maps(state) else None
        return state.get(name) if isinstance(state, dict) else None


def handed(cls: type[Husk], *args: object, **named: object) -> Husk:
    """Makes a husk for a function that may call what it is given, and writes down what of that acts."""
    _heed((*args, *named.values()))
    return Husk.__new__(cls, *args, **named)


def _heed(values: Iterable[object]) -> None:
    """Writes down what acts among values that something gets which will call them, the nearest first."""
    todo = list(values)
    for value in todo:
        if isinstance(value, type) and issubclass(value, Husk):
            if value.__firstfault_acts__:
                value()
        elif len(todo) >= MOST_HEEDED:
            continue
        elif isinstance(value, Husk):
            todo += (*value.args, value.state)
        elif isinstance(value, (tuple, list, dict)) and len(value) <= MOST_HEEDED:
            todo += value.values() if isinstance(value, dict) else value


def _maps(parts: tuple[object, ...]) -> bool:
    return all(part is None or isinstance(part, dict) for part in parts)


class _Made(type):
    """Of classes that a pickle makes and then describes, as it does objects."""

    @property
    def __setstate__(cls) -> Callable[[object], None]:  # noqa: PLE0302 (a property goes before the method of its objects)
        return _nothing


def _nothing(_: object) -> None:
    """What describes a class is not kept."""


def class_husk(whole: str, **parts: object) -> type[Husk]:
    """A class for a name, or for a class that a pickle makes.

    Args:
        whole: module and name.
        parts: methods and attributes of its own.
    """
    made = _Made("Husk", (Husk,), {"__slots__": (), "__firstfault_name__": whole, **parts})
    return cast("type[Husk]", made)
