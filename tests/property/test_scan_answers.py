"""The answer of a scan hangs on the bytes alone: not on engine, size of blocks, split of work or order of sources."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from firstfault.model.evidence import SourceId
from firstfault.model.patterns import Reference, Signature, SignatureFile
from firstfault.model.words import Role, Tier
from firstfault.readers.identity import body_starts
from firstfault.readers.store import Extent, Store
from firstfault.scan import collect, engines, regions
from firstfault.scan.engines import make_engine
from firstfault.scan.results import FIRST, LAST, joined
from firstfault.scan.stretch import Stretch, scan_stretch
from firstfault.signatures.match import Matcher
from firstfault.signatures.plan import SignaturePlan


def signature(name: str, *patterns: str, **more: object) -> Signature:
    spec = SignatureFile(
        title=name,
        tier=Tier.KILLER,
        role=Role.CAUSE,
        patterns=list(patterns),
        meaning=".",
        not_proof=".",
        sources=[Reference("x", "2026-11")],
        match=[],
        **more,
    )
    return Signature(name, spec)


SIGNATURES = [
    signature("a.plain", "out of mem", extract=[r"mem (?P<size>\d+)"]),
    signature("a.refined", r"out of mem \d+ GiB", refines=["a.plain"]),
    signature("b.start", r"^Err\w*: (?P<what>[a-z]+)\b"),
    signature("b.any", r"(?i)fatal", generic=True),
    signature("c.space", r"rank\s+(?P<rank>\d+)\s+died", unless=["harmless"]),
    signature("c.either", r"(?:kill|stop)ed by (?:9|15)\b"),
]
PLAN = SignaturePlan(SIGNATURES)
OPEN = [HealthCheck.function_scoped_fixture]
NAMES = ("hyperscan", "re2", "re")

WORDS = [
    b"out of mem", b"out of mem 12 GiB", b" ", b"Error: disk", b"Err: x", b"FATAL", b"fatal", b"rank 3 died", b"rank\t",
    b"7  died", b"harmless", b"killed by 9", b"stopped by 15", b"\n", b"\n", b"\r", b"\r\n", b"\x00", b"[rank1]: ",
    b"[rank2]: ", b"\xff\xfe", b"step 1 loss 2", b"x" * 40, b"rank 3\ndied", b"rank 3\rdied", b"\x0b", b"out of", b" mem",
]  # fmt: skip
TEXT = st.lists(st.sampled_from(WORDS), max_size=60).map(b"".join)

INLINE = [w for w in WORDS if not set(w) & set(b"\r\n")]
LONG = st.lists(st.sampled_from([*INLINE, *INLINE, *INLINE, b"\n", b"\r"]), min_size=10, max_size=80).map(b"".join)


@pytest.fixture(autouse=True, params=[1, 1 << 30], ids=["newlines at once", "newlines one by one"])
def newlines(request, monkeypatch):
    """Both ways to find the lines of places."""
    pytest.importorskip("numpy")
    monkeypatch.setattr("firstfault.scan.newlines.MANY", request.param)
    monkeypatch.setattr("firstfault.scan.newlines._numpy_wanted", True)


@contextmanager
def small_windows():
    """Windows and giants of a few bytes, so that short texts go through all paths."""
    with pytest.MonkeyPatch.context() as patch:
        for module, names in (
            (regions, ("STEP", "WINDOW", "GIANT")),
            (collect, ("STEP", "WINDOW")),
            (engines, ("STEP",)),
        ):
            for name in names:
                patch.setattr(module, name, {"STEP": 32, "WINDOW": 64, "GIANT": 128}[name])
        yield


def scan_bytes(data: bytes, tmp: str, engine: str, block: int, cuts: tuple[int, ...] = ()):
    Path(tmp).write_bytes(data)
    store = Store([Extent(tmp, 0, len(data))])
    borders = sorted({0, len(data), *(data.find(b"\n", c % (len(data) + 1)) + 1 for c in cuts)})
    borders = borders if len(borders) > 1 else [0, 0]
    searcher = make_engine(engine, PLAN)
    parts = [
        scan_stretch(store, Stretch(SourceId(0), "a.log", a, b), PLAN, searcher, block_size=block)
        for a, b in pairwise(borders)
    ]
    store.close()
    return joined(SourceId(0), parts)


@pytest.fixture(scope="module")
def tmp(tmp_path_factory):
    return str(tmp_path_factory.mktemp("scan") / "a.log")


def expected_tallies(data: bytes) -> dict[str, int]:
    """By the matchers alone, segment by segment."""
    found: dict[str, int] = {}
    for line in data.split(b"\n"):
        for segment in line.split(b"\r"):
            here = {s.id: Matcher(s.spec).find(segment, body_starts(segment)) for s in SIGNATURES}
            here = {name: matches for name, matches in here.items() if matches}
            if "a.refined" in here:
                here.pop("a.plain", None)
            if set(here) != {"b.any"}:
                here.pop("b.any", None)
            for name, matches in here.items():
                found[name] = found.get(name, 0) + len(matches)
    return found


@given(data=TEXT, block=st.integers(1, 300))
@settings(max_examples=80, deadline=None, suppress_health_check=OPEN)
def test_every_engine_finds_what_the_matchers_find(tmp, data, block):
    expected = expected_tallies(data)
    for engine in NAMES:
        result = scan_bytes(data, tmp, engine, block)
        got: dict[str, int] = {}
        for (name, _), count in result.tallies.items():
            got[name] = got.get(name, 0) + count
        assert got == expected
        assert result.bytes == len(data)
        assert result.lines == data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))


@given(data=TEXT, block=st.integers(1, 300), cuts=st.lists(st.integers(0, 5000), max_size=4))
@settings(max_examples=80, deadline=None, suppress_health_check=OPEN)
def test_nothing_but_the_bytes_matters(tmp, data, block, cuts):
    whole = scan_bytes(data, tmp, "hyperscan", 1 << 16)
    for engine in NAMES:
        assert scan_bytes(data, tmp, engine, block, tuple(cuts)) == whole


@example(
    data=b"[rank1]: Error: disk" + b"x" * 128 + b"Error: diskout of mem", block=3, cuts=[]
)  # \b at a cut is no end of a word
@given(data=LONG, block=st.integers(1, 300), cuts=st.lists(st.integers(0, 5000), max_size=4))
@settings(max_examples=150, deadline=None, suppress_health_check=OPEN)
def test_long_segments_do_not_depend_on_blocks_either(tmp, data, block, cuts):
    with small_windows():
        whole = scan_bytes(data, tmp, "hyperscan", 1 << 16)
        for engine in NAMES:
            assert scan_bytes(data, tmp, engine, block, tuple(cuts)) == whole


@given(data=TEXT)
@settings(max_examples=60, deadline=None, suppress_health_check=OPEN)
def test_every_hit_reads_back(tmp, data):
    result = scan_bytes(data, tmp, "hyperscan", 64)
    lines = data.split(b"\n")
    for hit in result.hits:
        matched = hit.raw[hit.match_start : hit.match_end]
        assert matched
        assert lines[hit.line - 1][hit.column - 1 :].startswith(matched)
        assert data[hit.raw_offset : hit.raw_offset + len(hit.raw)] == hit.raw


@given(data=TEXT)
@settings(max_examples=60, deadline=None, suppress_health_check=OPEN)
def test_what_is_kept_of_a_fold(tmp, data):
    result = scan_bytes(data, tmp, "hyperscan", 64)
    for (name, key), count in result.tallies.items():
        kept = [h for h in result.hits if h.signature == name and h.key == key]
        assert len(kept) == min(count, FIRST + LAST)
        assert all(h.count == count for h in kept)
        behind = len(kept) - min(count, FIRST)
        assert [h.ordinal for h in kept] == [*range(min(count, FIRST)), *range(-behind, 0)]


@given(data=st.binary(max_size=2000), block=st.integers(1, 300))
@settings(max_examples=60, deadline=None, suppress_health_check=OPEN)
def test_arbitrary_bytes_never_raise(tmp, data, block):
    assert scan_bytes(data, tmp, "hyperscan", block).bytes == len(data)
