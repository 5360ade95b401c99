"""A C++ exception tells its class, its words and the innermost frame of the user's own code; a victim's words blame nobody."""

import random

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose
from firstfault.readers.cpp_trace import exception_at
from firstfault.readers.identity import profile_source

TORCH = "/opt/venv/lib/python3.11/site-packages/torch/lib/libc10.so"
OWN = "/opt/venv/lib/python3.11/site-packages/rowops/_C.cpython-311-x86_64-linux-gnu.so"
STEP = "[rank3]: 2026-02-11 05:30:58,118 INFO train: step 118/1000 loss=2.41\n"
HEAD = "terminate called after throwing an instance of 'c10::Error'\n"


def thrown(words, *, raised="gather_rows at /build/rowops/csrc/gather.cpp:88"):
    return (
        f"{HEAD}  what():  {words}\n"
        f"Exception raised from {raised} (most recent call first):\n"
        f"frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f3b1c3b9f86 in {TORCH})\n"
        f"frame #1: rowops::gather_rows(at::Tensor const&) + 0x1f3 (0x7f3a8812c1f3 in {OWN})\n"
        "frame #2: <unknown function> + 0x93da4 (0x7f2d9a12bda4 in /usr/lib/x86_64-linux-gnu/libc.so.6)\n\n"
    )


class Store:
    def __init__(self, data):
        self.data = data

    def read(self, source, offset, length):
        del source
        return self.data[offset : offset + length]


def read(text, *, at=None):
    data = text.encode() if isinstance(text, str) else text
    start = data.rfind(b"\n", 0, data.index(b"what()")) + 1 if at is None else at
    return exception_at(Store(data), 0, start, 1, profile_source(data, "rank-3.log"))


def test_class_words_and_place_are_read():
    found = read(STEP + thrown("expected 3 index tensors, got 2"))
    assert (found.kind, found.message) == ("c10::Error", "expected 3 index tensors, got 2")
    assert (found.user_frame.function, found.user_frame.line) == ("gather_rows", 88)


def test_where_pytorch_itself_threw_the_innermost_own_library_is_told():
    found = read(thrown("bad", raised="checkFail at ../c10/util/Exception.cpp:12"))
    assert (found.user_frame.file, found.user_frame.function) == (OWN, "rowops::gather_rows(at::Tensor const&)")


def test_without_frames_there_is_no_place():
    found = read("terminate called after throwing an instance of 'std::out_of_range'\n  what():  map::at\n")
    assert (found.kind, found.message, found.user_frame) == ("std::out_of_range", "map::at", None)


def test_an_exception_that_nothing_else_explains_is_the_cause_at_possible(tmp_path):
    (tmp_path / "rank-3.log").write_text(STEP + thrown("expected 3 index tensors, got 2"))
    verdict = diagnose([tmp_path]).verdict
    assert (verdict.category, verdict.strength) == (Category.SOFTWARE, Strength.POSSIBLE)
    assert "expected 3 index tensors, got 2" in verdict.summary
    assert "gather.cpp:88" in verdict.summary
    assert verdict.first_failed.ranks == [3]


@pytest.mark.parametrize(
    "words",
    [
        "[Rank 3] NCCL watchdog thread terminated with exception: NCCL error: remote process exited or there was a network error",
        "Connection reset by peer",
        "CUDA driver shutting down",
    ],
)
def test_words_of_a_victim_are_no_cause_in_software(tmp_path, words):
    (tmp_path / "rank-3.log").write_text(STEP + thrown(words))
    assert diagnose([tmp_path]).verdict.category is not Category.SOFTWARE


def test_damage_never_raises():
    rng, whole = random.Random(2), (STEP + thrown("bad")).encode()
    for _ in range(300):
        broken = bytearray(whole[: rng.randrange(len(whole) + 1)])
        for _ in range(rng.randrange(5)):
            if broken:
                broken[rng.randrange(len(broken))] = rng.randrange(256)
        read(bytes(broken), at=rng.randrange(len(broken) + 1))
