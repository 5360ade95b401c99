"""A cited line must read back; the source is changed behind the citation in every way that a file can change."""

from __future__ import annotations

import pytest

from firstfault.analysis.verify import Verifier
from firstfault.model.evidence import Event, Span

LOG = b"step 1\nstep 2\nRuntimeError: CUDA error\nexiting\n"
LINE = 3
OFFSET = LOG.index(b"Runtime")
TEXT = "RuntimeError: CUDA error"


class Memory:
    def __init__(self, data, *, broken_below=None):
        self.data = data
        self.broken_below = broken_below
        self.reads = 0

    def read(self, _source, offset, length):
        self.reads += 1
        if self.broken_below is not None and offset < self.broken_below:
            raise OSError("input/output error")
        return self.data[offset : offset + length]


def decode(raw):
    return raw.decode("utf-8", "backslashreplace")


def event(text=TEXT, *, offset=OFFSET, line=LINE, length=24):
    return Event(signature="cuda.error", span=Span(0, offset, length, line, 1), text=text)


def checked(data, cited=None, **more):
    return Verifier(Memory(data, **more), decode=decode).check(cited or event())


def test_an_unchanged_line_reads_back():
    assert checked(LOG) == (True, "")


def test_a_line_of_which_only_blanks_are_left_does_not_read_back():
    assert checked(LOG.replace(TEXT.encode(), b" " * len(TEXT))) == (False, "the bytes at that place are different now")


def test_evidence_inside_a_longer_line_reads_back():
    cited = event("[rank3]: RuntimeError: CUDA error", offset=OFFSET + 14, length=4)
    assert checked(LOG, cited) == (True, "")


@pytest.mark.parametrize(
    "changed",
    [
        LOG.replace(b"CUDA", b"cuda"),
        LOG.replace(b"step 2\n", b"step 2 \n"),
        LOG.replace(b"step 2\n", b"step\n2\n"),
        LOG[:OFFSET],
        LOG[: OFFSET + 7],
        b"",
    ],
    ids=["other bytes", "moved by one byte", "other line number", "cut before", "cut inside", "emptied"],
)
def test_a_changed_source_is_withdrawn_with_a_reason(changed):
    ok, why = checked(changed)
    assert not ok
    assert why


def test_a_first_line_of_an_emptied_source_is_withdrawn():
    assert checked(b"", event("boom", offset=0, line=1, length=4))[0] is False


@pytest.mark.parametrize("broken_below", [1, OFFSET + 1], ids=["while lines are counted", "at the line itself"])
def test_an_unreadable_source_is_withdrawn_and_does_not_raise(broken_below):
    ok, why = checked(LOG, broken_below=broken_below)
    assert not ok
    assert "input/output error" in why


def test_a_wrong_line_number_is_withdrawn():
    ok, why = checked(LOG, event(line=4))
    assert (ok, why) == (False, "the place is in line 3")


def test_undecodable_bytes_read_back_as_they_were_shown():
    raw = b"lost \xff\xfe peer"
    assert checked(raw, event(decode(raw), offset=0, line=1, length=len(raw))) == (True, "")


def test_lines_are_counted_across_chunks():
    data = b"x\n" * (1 << 20) + LOG
    assert checked(data, event(offset=len(data) - len(LOG) + OFFSET, line=LINE + (1 << 20))) == (True, "")


def test_a_place_is_read_and_counted_once():
    memory = Memory(LOG)
    verifier = Verifier(memory, decode=decode)
    verifier.check(event())
    reads = memory.reads
    verifier.check(event())
    verifier.check(event(line=4))
    assert (verifier.claims, verifier.reread) == (2, 1)
    assert memory.reads > reads


def test_a_quote_is_what_stands_there_now_and_never_what_was_remembered():
    verifier = Verifier(Memory(LOG), decode=decode)
    assert verifier.quote(Span(0, OFFSET, 400, LINE, 1), 400) == (TEXT, "")
    assert verifier.quote(Span(0, OFFSET, 400, LINE, 1), 7) == ("Runtime", "")
    assert (verifier.claims, verifier.reread) == (1, 1)


@pytest.mark.parametrize(
    ("memory", "span"),
    [
        (Memory(b""), Span(0, 0, 5, 1, 1)),
        (Memory(LOG), Span(0, OFFSET, 5, LINE + 1, 1)),
        (Memory(LOG, broken_below=1), Span(0, OFFSET, 5, LINE, 1)),
    ],
    ids=["emptied", "other line", "unreadable"],
)
def test_a_place_that_cannot_be_quoted_is_withdrawn(memory, span):
    verifier = Verifier(memory, decode=decode)
    text, why = verifier.quote(span, 400)
    assert text is None
    assert why
    assert (verifier.claims, verifier.reread) == (1, 0)


@pytest.mark.parametrize(("lines", "first", "wanted"), [(0, 3, [3]), (1, 2, [2, 3, 4]), (9, 1, [1, 2, 3, 4])])
def test_lines_around_a_place_are_those_of_the_source(lines, first, wanted):
    number, found = Verifier(Memory(LOG), decode=decode).around(event().span, lines)
    assert number == first
    assert found == [LOG.decode().splitlines()[n - 1] for n in wanted]


def test_lines_around_a_place_are_whole_where_only_a_part_of_the_source_is_read():
    log = b"".join(b"line %05d of a long log\r\n" % n for n in range(1, 4001))
    at = log.index(b"line 02000")
    number, found = Verifier(Memory(log), decode=decode).around(Span(0, at, 23, 2000, 1), 5)
    assert number == 1995
    assert found == [f"line {n:05d} of a long log" for n in range(1995, 2006)]


def test_no_lines_are_around_a_place_that_cannot_be_read():
    assert Verifier(Memory(LOG, broken_below=10**6), decode=decode).around(event().span, 5) == (LINE, [])
