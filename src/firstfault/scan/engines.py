"""Engines propose places at which a signature may match; they never decide.

Each proposes at least one place in every segment (see `regions`) in which a signature matches, and for a segment that is
looked at in windows one in every window. What they propose beyond that is refuted later: answers are the same for all.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Protocol

from firstfault.scan import cache
from firstfault.scan.ordinary import ORDINARY
from firstfault.scan.regions import STEP
from firstfault.scan.words import Words, bare_patterns, unpacked, words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from firstfault.scan.plan import Plan

SHIFT = 16
"""A proposal is `position << SHIFT | signature`: plain integers sort fast, and floods make millions."""
_MASK = (1 << SHIFT) - 1
NAMES = ("hyperscan", "re2", "re")


class EngineError(Exception):
    """An engine that was asked for is not here, or cannot take the patterns; says what to do."""


class Engine(Protocol):
    """One way to search."""

    name: str

    def propose(self, data: bytearray, size: int) -> list[int]:
        """Places in the first `size` bytes, in order of position; doubles are allowed."""


class HyperscanEngine:
    """The words of all patterns in one automaton; 1 to 2 GB/s on one core.

    Words and not patterns: the regular-expression parts of the library that the wheels hold (vectorscan 5.4.11 and 5.4.12)
    lose matches for some sets of patterns on x86, depending on what stands before (VectorCamp/vectorscan issues 317 and
    358). Its search for words does not; every table is tried out when it is made.
    """

    name = "hyperscan"

    def __init__(self, plan: Plan) -> None:
        import hyperscan

        self._words, self._database = _database(plan)
        self._database.scratch = hyperscan.Scratch(self._database)
        self._bare = bare_patterns(self._words)
        self._found: list[int] = []
        add = self._found.append

        def note(word: int, _start: int, end: int, _flags: int, _context: object) -> None:
            add((end - 1) << SHIFT | word)

        self._note = note

    def propose(self, data: bytearray, size: int) -> list[int]:
        """See `Engine`."""
        found = self._found
        found.clear()
        if size and self._words.owners:
            with memoryview(data) as view, view[:size] as part:
                self._database.scan(part, self._note)
        owners = self._words.owners
        proposals = [at & ~_MASK | owner for at in found for owner in owners[at & _MASK]]
        if self._bare:
            text = bytes(memoryview(data)[:size])
            for pattern, owner in self._bare:
                _each(pattern.search, text, (0, len(text)), owner, proposals)
        proposals.sort()
        return proposals


def _database(plan: Plan) -> tuple[Words, Any]:
    """The table of words and the compiled database of a plan, from the cache where they are there."""
    import hyperscan

    patterns = b"".join(f"{owner}\0{p}\0".encode() for owner, p in zip(plan.owners, plan.patterns, strict=True))
    version = str(getattr(hyperscan, "__version__", "")).encode()
    name = cache.key(b"hyperscan words 3", version, patterns) + ".db"
    kept = cache.load(name)
    if kept is not None:
        length = int.from_bytes(kept[:8], "little")
        words = unpacked(kept[8 : 8 + length])
        try:
            if words is not None:
                return words, hyperscan.loadb(kept[8 + length :], hyperscan.HS_MODE_BLOCK)
        except hyperscan.HyperscanError:
            pass  # of another build of the library: made again
    words = words_of(plan)
    database = _compile(words)
    packed = words.packed()
    cache.save(name, len(packed).to_bytes(8, "little") + packed + hyperscan.dumpb(database))
    return words, database


def _compile(words: Words) -> Any:
    """A database of words in block mode, tried out.

    Raises:
        EngineError: it does not find what it must.
    """
    import hyperscan

    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    expressions = list(words.all) or [b"nothing to look for"]
    flags = [0] * len(words.exact) + [hyperscan.HS_FLAG_CASELESS] * len(words.any_case) or [0]
    numbers = list(range(len(expressions)))
    try:
        database.compile(expressions=expressions, ids=numbers, elements=len(numbers), flags=flags, literal=True)
    except hyperscan.HyperscanError as error:
        raise EngineError(
            f"hyperscan does not take the words of the signatures: {error}. The engine re2 does."
        ) from error
    database.scratch = hyperscan.Scratch(database)
    text, places = _trial(words.all)
    missed = set(places)

    def note(word: int, _start: int, end: int, _flags: int, _context: object) -> None:
        missed.discard((word, end))

    database.scan(text, note)
    if missed:
        raise EngineError(
            f"this hyperscan loses {len(missed)} of {len(places)} words that it must find. The engine re2 loses none."
        )
    return database


def _trial(words: Sequence[bytes]) -> tuple[bytes, list[tuple[int, int]]]:
    """A text with every word twice, at changing distances from ordinary text, and where each ends."""
    parts = []
    places = []
    at = 0
    for turn in (0, 1):
        for number, word in enumerate(words):
            start = (number * 31 + turn * 17) % (len(ORDINARY) - 96)
            before = ORDINARY[start : start + (number * 7 + turn * 5) % 71]
            parts += [before, b"\n" if turn else b" ", word, b"\n"]
            at += len(before) + 1 + len(word)
            places.append((number, at))
            at += 1
    return b"".join(parts), places


class Re2Engine:
    """All patterns in sets of google-re2: a set says which patterns a piece holds, then each of those is searched."""

    name = "re2"
    _PIECE = 32 * 1024

    def __init__(self, plan: Plan) -> None:
        import re2

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
    """The standard library alone: words by `bytes.find`, patterns without one by `re`."""

    name = "re"

    def __init__(self, plan: Plan) -> None:
        self._words = words_of(plan)
        self._bare = bare_patterns(self._words)

    def propose(self, data: bytearray, size: int) -> list[int]:
        """See `Engine`."""
        text = bytes(memoryview(data)[:size])
        words, owners = self._words, self._words.owners
        found: list[int] = []
        _words(text, zip(words.exact, owners, strict=False), found)
        if words.any_case:
            _words(text.lower(), zip(words.any_case, owners[len(words.exact) :], strict=True), found)
        for pattern, owner in self._bare:
            _each(pattern.search, text, (0, len(text)), owner, found)
        return sorted(found)


def _words(text: bytes, words: Iterable[tuple[bytes, tuple[int, ...]]], found: list[int]) -> None:
    for word, owners in words:
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


def make_engine(name: str, plan: Plan) -> Engine:
    """The engine of a name, or for `auto` the fastest that is installed.

    Raises:
        EngineError: it is not installed, or no engine of that name exists.
    """
    makers: dict[str, Callable[[], Engine]] = {
        "hyperscan": lambda: HyperscanEngine(plan),
        "re2": lambda: Re2Engine(plan),
        "re": lambda: ReEngine(plan),
    }
    if name == "auto":
        for maker in makers.values():
            try:
                return maker()
            except (ImportError, EngineError):
                continue  # not installed, or not fit: the next one gives the same answers
    if name not in makers:
        raise EngineError(f"no engine is called {name!r}. Use auto, {', '.join(NAMES)}.")
    try:
        return makers[name]()
    except ImportError as error:
        raise EngineError(f"the engine {name} is not installed. The engine auto takes one that is.") from error


class _Kept(threading.local):
    """The last engine of a thread: of a thread, since an engine holds what one search finds; between two it holds nothing."""

    name = ""
    plan: Plan | None = None
    engine: Engine | None = None


_kept = _Kept()


def kept_engine(name: str, plan: Plan) -> Engine:
    """As `make_engine`; the same engine again where this thread asked for it last: who scans folder after folder makes one.

    Raises:
        EngineError: see `make_engine`.
    """
    engine = _kept.engine
    if engine is None or _kept.plan is not plan or _kept.name != name:
        engine = make_engine(name, plan)
        _kept.name, _kept.plan, _kept.engine = name, plan, engine
    return engine
