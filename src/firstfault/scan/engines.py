"""Engines propose places at which a signature may match; they never decide.

Each proposes at least one place in every segment (see `regions`) in which a signature matches, and for a segment that is
looked at in windows one in every window. What they propose beyond that is refuted later: answers are the same for all.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol

from firstfault.scan.literals import required_literals
from firstfault.scan.regions import STEP

if TYPE_CHECKING:
    from collections.abc import Callable

    from firstfault.scan.plan import Plan

SHIFT = 16
"""A proposal is `position << SHIFT | signature`: plain integers sort fast, and floods make millions."""
NAMES = ("hyperscan", "re2", "re")


class EngineError(Exception):
    """An engine that was asked for is not here, or cannot take the patterns; says what to do."""


class Engine(Protocol):
    """One way to search."""

    name: str

    def propose(self, data: bytearray, size: int) -> list[int]:
        """Places in the first `size` bytes, in order of position; doubles are allowed."""


class HyperscanEngine:
    """All patterns in one automaton; 1 to 2 GB/s on one core."""

    name = "hyperscan"

    def __init__(self, plan: Plan, load: Callable[[Plan], Any] | None = None) -> None:
        import hyperscan  # noqa: PLC0415 - 20 ms that only this engine costs

        self._database = load(plan) if load is not None else compile_hyperscan(plan)
        self._database.scratch = hyperscan.Scratch(self._database)
        self._found: list[int] = []
        add = self._found.append

        def note(signature: int, _start: int, end: int, _flags: int, _context: object) -> None:
            add((end - 1) << SHIFT | signature)

        self._note = note

    def propose(self, data: bytearray, size: int) -> list[int]:
        """See `Engine`."""
        self._found.clear()
        if size:
            with memoryview(data) as view, view[:size] as part:
                self._database.scan(part, self._note)
        return sorted(self._found)


def compile_hyperscan(plan: Plan) -> Any:
    """The database of a plan, in block mode, without start of match (which costs half the speed).

    Raises:
        EngineError: a pattern is outside the dialect.
    """
    import hyperscan  # noqa: PLC0415 - see above

    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    expressions = [p.encode("utf-8") for p in plan.patterns]
    if not expressions:
        expressions, owners = [b"\\x00firstfault\\x00"], [0]
    else:
        owners = list(plan.owners)
    try:
        database.compile(expressions=expressions, ids=owners, elements=len(owners), flags=[0] * len(owners))
    except hyperscan.HyperscanError as error:
        raise EngineError(f"hyperscan does not take a pattern: {error}. Run `firstfault signatures check`.") from error
    return database


class Re2Engine:
    """All patterns in sets of google-re2: a set says which patterns a piece holds, then each of those is searched."""

    name = "re2"
    _PIECE = 32 * 1024

    def __init__(self, plan: Plan) -> None:
        import re2  # noqa: PLC0415 - optional

        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.log_errors = False
        options.max_mem = 256 << 20
        self._owners = plan.owners
        self._set = re2.Set.SearchSet(options)
        self._patterns = []
        try:
            for pattern in plan.patterns:
                body = _for_re2(pattern)
                self._set.Add(body)
                self._patterns.append(re2.compile(body, options))
        except re2.error as error:
            raise EngineError(f"re2 does not take a pattern: {error}. Run `firstfault signatures check`.") from error
        if self._patterns:
            self._set.Compile()

    def propose(self, data: bytearray, size: int) -> list[int]:
        """See `Engine`."""
        if not self._patterns:
            return []
        text = bytes(memoryview(data)[:size])
        found: list[int] = []
        for start, end in _pieces(text, self._PIECE):
            for index in self._set.Match(text[start:end]) or ():
                _each(self._patterns[index].search, text, (start, end), self._owners[index], found)
        return sorted(found)


class ReEngine:
    """The standard library alone: literals by `bytes.find`, patterns without one by `re`."""

    name = "re"

    def __init__(self, plan: Plan) -> None:
        self._exact: dict[bytes, set[int]] = {}
        self._any_case: dict[bytes, set[int]] = {}
        self._bare: list[tuple[re.Pattern[bytes], int]] = []
        for pattern, owner in zip(plan.patterns, plan.owners, strict=True):
            literals = required_literals(pattern)
            if literals is None:
                self._bare.append((re.compile(pattern.encode("utf-8")), owner))
                continue
            words = self._any_case if literals.any_case else self._exact
            for word in literals.words:
                words.setdefault(word, set()).add(owner)

    def propose(self, data: bytearray, size: int) -> list[int]:
        """See `Engine`."""
        text = bytes(memoryview(data)[:size])
        found: list[int] = []
        _words(text, self._exact, found)
        if self._any_case:
            _words(text.lower(), self._any_case, found)
        for pattern, owner in self._bare:
            _each(pattern.search, text, (0, len(text)), owner, found)
        return sorted(found)


def _words(text: bytes, words: dict[bytes, set[int]], found: list[int]) -> None:
    for word, owners in words.items():
        at = text.find(word)
        while at >= 0:
            found.extend(at << SHIFT | owner for owner in owners)
            at = text.find(word, _onward(text, at, len(text)))


def _each(search: Any, text: bytes, borders: tuple[int, int], owner: int, found: list[int]) -> None:
    start, end = borders
    match = search(text, start, end)
    while match is not None:
        at = match.start()
        found.append(at << SHIFT | owner)
        onward = _onward(text, at, end)
        if onward >= end:
            return
        match = search(text, onward, end)


def _onward(text: bytes, at: int, end: int) -> int:
    """Where to search on after a place was proposed: behind its segment where that is seen to be short, else a byte on."""
    near = min(end, at + STEP)
    newline = text.find(b"\n", at, near)
    limit = newline if newline >= 0 else near
    carriage = text.find(b"\r", at, limit)
    behind = carriage if carriage >= 0 else newline
    before = max(0, at - STEP)
    if behind < 0 or (text.rfind(b"\n", before, at) < 0 and text.rfind(b"\r", before, at) < 0):
        return at + 1
    return behind + 1


def _pieces(text: bytes, size: int) -> list[tuple[int, int]]:
    """Borders of pieces that end behind a newline where there is one near."""
    pieces = []
    start = 0
    while start < len(text):
        end = text.find(b"\n", start + size) + 1 or len(text)
        pieces.append((start, end))
        start = end
    return pieces


def _for_re2(pattern: str) -> bytes:
    r"""The pattern with `\s` as Python and hyperscan read it, with the vertical tab."""
    text = pattern.encode("utf-8")
    out = bytearray()
    inside = False
    i = 0
    while i < len(text):
        two = text[i : i + 2]
        if two[:1] == b"\\":
            out += (rb"\s\v" if inside else rb"[\s\v]") if two == rb"\s" else two
            i += 2
            continue
        if two[:1] == b"[" and not inside:
            inside = True
        elif two[:1] == b"]" and inside:
            inside = False
        out += two[:1]
        i += 1
    return bytes(out)


def make_engine(name: str, plan: Plan, load: Callable[[Plan], Any] | None = None) -> Engine:
    """The engine of a name, or for `auto` the fastest that is installed.

    Raises:
        EngineError: it is not installed, or no engine of that name exists.
    """
    makers: dict[str, Callable[[], Engine]] = {
        "hyperscan": lambda: HyperscanEngine(plan, load),
        "re2": lambda: Re2Engine(plan),
        "re": lambda: ReEngine(plan),
    }
    if name == "auto":
        for maker in makers.values():
            try:
                return maker()
            except ImportError:
                continue
    if name not in makers:
        raise EngineError(f"no engine is called {name!r}. Use auto, {', '.join(NAMES)}.")
    try:
        return makers[name]()
    except ImportError as error:
        raise EngineError(f"the engine {name} is not installed. Use --engine auto, or install it.") from error
