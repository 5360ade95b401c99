"""One generic test over every signature: its examples are its test."""

from __future__ import annotations

import functools
import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import pytest

from firstfault.model.words import Mark, Role
from firstfault.readers.identity import body_starts
from firstfault.signatures.library import load_library
from firstfault.signatures.match import Matcher, engine_pattern

if TYPE_CHECKING:
    from collections.abc import Callable

    from firstfault.model.patterns import Signature

LIBRARY = load_library()
MATCHERS = {s.id: Matcher(s.spec) for s in LIBRARY.signatures}
SPARING = {s.id: Matcher(s.spec, s.words) for s in LIBRARY.signatures}
"""They look at a line only where it holds the words it must; that this changes no answer is tested below."""


def each(check: Callable[[Signature], None]) -> Callable[[], None]:
    """One test of a check over all signatures, which names each that fails: thousands of tests would cost more than the checks."""

    @functools.wraps(check)
    def test() -> None:
        failed = []
        for signature in LIBRARY.signatures:
            try:
                check(signature)
            except AssertionError as error:
                failed.append(f"{signature.id}: {error}")
        assert not failed, "\n".join(failed)

    del test.__wrapped__  # pytest would ask for a fixture `signature`
    return test


@functools.cache
def claims(line: str) -> dict[str, dict[str, str]]:
    """Every signature that matches a line, with fields, after `refines` is applied."""
    segment = line.encode()
    found = {}
    for part in segment.split(b"\r"):
        for name, matcher in SPARING.items():
            for match in matcher.find(part, body_starts(part)):
                found.setdefault(name, match.fields)
    dropped = {general for name in found for general in LIBRARY.by_id[name].refines}
    if any(not LIBRARY.by_id[name].generic for name in found):
        dropped |= {name for name in found if LIBRARY.by_id[name].generic}
    return {name: fields for name, fields in found.items() if name not in dropped}


@each
def test_matching_lines_match_with_their_fields(signature):
    for example in signature.spec.match:
        found = claims(example.line)
        assert signature.id in found, example.line
        for name, value in example.fields.items():
            assert found[signature.id].get(name) == value, (example.line, found[signature.id])


@each
def test_no_other_signature_claims_the_line_by_surprise(signature):
    for example in signature.spec.match:
        for other in claims(example.line):
            if other == signature.id:
                continue
            allowed = any(fnmatchcase(other, g) for g in signature.spec.together) or any(
                fnmatchcase(signature.id, g) for g in LIBRARY.by_id[other].together
            )
            assert allowed, f"{other} claims {example.line!r} too: refine it, or name it in `together`"


def test_the_words_that_spare_a_search_change_no_answer():
    lines = [
        part
        for s in LIBRARY.signatures
        for e in (*s.spec.match, *s.spec.no_match)
        for part in e.line.encode().split(b"\r")
    ]
    plan = LIBRARY.plan
    for number, signature in enumerate(LIBRARY.signatures):
        spared, plain = plan.confirmer(number), MATCHERS[signature.id]
        own = [part for e in signature.spec.match for part in e.line.encode().split(b"\r")]
        for line in (*own, *lines[number % 50 :: 50]):
            starts = body_starts(line)
            assert [(m.start, m.end, m.fields) for m in spared.find(line, starts)] == [
                (m.start, m.end, m.fields) for m in plain.find(line, starts)
            ], line


@each
def test_non_matching_lines_do_not_match(signature):
    for example in signature.spec.no_match:
        for part in example.line.encode().split(b"\r"):
            assert not MATCHERS[signature.id].find(part, body_starts(part)), example.line


@each
def test_it_is_complete(signature):
    spec = signature.spec
    assert spec.match, "at least one matching line"
    assert spec.no_match, "at least one non-matching line with the reason"
    assert all(e.why for e in spec.no_match)
    assert len(spec.title) <= 90
    assert spec.meaning.endswith(".")
    assert spec.not_proof.endswith(".")
    if spec.role in {Role.CAUSE, Role.EFFECT}:
        assert spec.advice
    if spec.role is Role.CAUSE:
        assert spec.category is not None
        assert spec.domain is not None
        assert spec.layer is not None
    if Mark.RETRY in spec.marks:
        assert not spec.fatal


@each
def test_named_signatures_exist(signature):
    ids = set(LIBRARY.by_id)
    for name in signature.spec.refines:
        assert name in ids, name
    for glob in (*signature.spec.explains, *signature.spec.together):
        assert any(fnmatchcase(i, glob) for i in ids), glob
    if signature.spec.table:
        assert signature.spec.table in LIBRARY.tables


@each
def test_patterns_stay_in_the_shared_dialect(signature):
    for pattern in signature.spec.patterns:
        body = engine_pattern(pattern)
        re.compile(body.encode())
        for banned in (
            r"\(\?(=|!|<=|<!)",
            r"\\[1-9]",
            r"(?<!\\)\$",
            r"(?<![\\\[])\^",
            r"\*\+|\+\+|\?\+",
            r"\(\?>",
            r"\\A|\\Z|\\K",
        ):
            bad = re.search(banned, body)
            assert bad is None, f"{pattern!r}: {bad.group() if bad else ''} is outside the dialect"
        assert not re.search(r"(?<!\\)\[\^(?![^\]]*\\n)", body), f"{pattern!r}: a negated class must exclude \\n"
        assert not re.search(r"(?:\.|\]|\\[wdsSWD])[*+]\??$", body), (
            f"{pattern!r}: ends in an open repeat; every further byte would be a hit"
        )


def test_every_pattern_compiles_in_hyperscan():
    hyperscan = pytest.importorskip("hyperscan")
    patterns = [engine_pattern(p).encode() for s in LIBRARY.signatures for p in s.spec.patterns]
    count = len(patterns)
    database = hyperscan.Database()
    database.compile(
        expressions=patterns, ids=list(range(count)), elements=count, flags=[0] * count
    )  # it names the bad one
