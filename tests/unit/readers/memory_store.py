"""A store over bytes in memory, a scan without engines, and the two together: what the readers' tests stand on."""

from __future__ import annotations

from firstfault.model.evidence import Source, SourceId
from firstfault.model.patterns import Hit
from firstfault.model.words import SourceKind
from firstfault.readers.clock import SourceClock
from firstfault.readers.events import build_events
from firstfault.readers.identity import body_starts, profile_source, stream_key
from firstfault.signatures.library import load_library
from firstfault.signatures.match import Matcher

SOURCE = SourceId(0)
LIBRARY = load_library()
MATCHERS = {s.id: Matcher(s.spec) for s in LIBRARY.signatures}


class MemoryStore:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self, source, offset, length):
        return self.data[offset : offset + length]

    def size(self, source):
        return len(self.data)


def places(data: bytes, needle: bytes) -> list[tuple[int, int]]:
    """Number and offset of the lines that hold some text."""
    found, offset = [], 0
    for number, line in enumerate(data.split(b"\n"), start=1):
        if needle in line:
            found.append((number, offset))
        offset += len(line) + 1
    return found


def hits_of(data: bytes, profile) -> list[Hit]:
    hits, offset = [], 0
    for number, line in enumerate(data.split(b"\n"), start=1):
        at = 0
        for segment in line.split(b"\r"):
            starts = body_starts(segment, profile)
            found = [(name, m) for name, matcher in MATCHERS.items() for m in matcher.find(segment, starts)]
            if any(not LIBRARY.by_id[name].generic for name, _ in found):
                found = [pair for pair in found if not LIBRARY.by_id[pair[0]].generic]
            hits += [
                Hit(
                    signature=name, line=number, offset=offset + at, column=at + m.start + 1, raw=segment, raw_offset=offset + at,
                    match_start=m.start, match_end=m.end, key=stream_key(segment, m.start, profile), fields=m.fields,
                )
                for name, m in found
            ]  # fmt: skip
            at += len(segment) + 1
        offset += len(line) + 1
    return hits


def source_of(path: str = "job.log", modified: float | None = None) -> Source:
    return Source(id=SOURCE, path=path, kind=SourceKind.LOG, modified=modified)


def events_of(data: bytes | str, path: str = "job.log", modified: float | None = None):
    data = data.encode() if isinstance(data, str) else data
    profile = profile_source(data[: 256 * 1024], path)
    store = MemoryStore(data)
    clock = SourceClock(store, source_of(path, modified), profile)
    return build_events(hits_of(data, profile), store, SOURCE, profile, LIBRARY.by_id, clock=clock)
