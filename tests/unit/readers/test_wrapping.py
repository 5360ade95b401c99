"""Quoted, numbered, grepped and indented logs: the wrapping is told from the whole, and peeled off."""

from __future__ import annotations

import pytest

from firstfault.readers.identity import locate, profile_source
from firstfault.readers.wrapping import find_wrapping

PLAIN = [
    b"[rank3]: Traceback (most recent call last):",
    b'[rank3]:   File "/app/train.py", line 12, in <module>',
    b"[rank3]:     main()",
    b"[rank3]: ValueError: bad batch",
    b"epoch 1 step 20 loss 3.1",
    b"epoch 1 step 40 loss 2.9",
    b"Saving model checkpoint to out/checkpoint-40",
    b"done",
]


@pytest.mark.parametrize(
    ("kind", "prefix"),
    [
        ("quote", lambda n: b"> "),
        ("quote", lambda n: b">> "),
        ("number", lambda n: b"%d:" % (n + 17)),
        ("number", lambda n: b"%6d\t" % (n + 1)),
        ("file", lambda n: b"logs/node-3/train.log:"),
        ("file_number", lambda n: b"./train.err:%d:" % (n + 5)),
        ("indent", lambda n: b"    "),
        ("indent", lambda n: b"\t"),
    ],
)
def test_a_wrapping_is_found_and_the_rank_behind_it_is_read(kind, prefix) -> None:
    lines = [prefix(n) + line for n, line in enumerate(PLAIN)]
    found = find_wrapping(lines)
    assert found is not None
    assert found.kind == kind
    profile = profile_source(b"\n".join(lines) + b"\n", "job.log")
    place = locate(lines[0], len(lines[0]), profile)
    assert place.who.rank == 3
    assert lines[0][place.body :] == b"Traceback (most recent call last):"


@pytest.mark.parametrize(
    "lines",
    [
        PLAIN,
        [b"%d: step %d" % (n % 4, n) for n in range(20)],
        [b"%d: hello" % n for n in range(8)],
        [b"2026-03-05 10:11:%02d INFO step" % n for n in range(10)],
        [b"  indented", b"not", b"  indented", b"not", b"  indented", b"not"],
        [b"> one", b"> two"],
    ],
    ids=["plain", "srun labels", "one line a task", "stamps", "half", "too few"],
)
def test_what_is_no_wrapping(lines: list[bytes]) -> None:
    assert find_wrapping(lines) is None


def test_files_of_a_grep_tell_speakers_apart() -> None:
    lines = [b"out/rank_%d.log:step %d" % (n % 2, n) for n in range(12)]
    profile = profile_source(b"\n".join(lines), "grep.txt")
    keys = {locate(x, len(x), profile).key for x in lines}
    assert len(keys) == 2


def test_an_hour_of_iso_stamps_is_no_host() -> None:
    lines = [b"2026-03-05T10:11:%02d.123456789Z stderr F step %d" % (n, n) for n in range(20)]
    profile = profile_source(b"\n".join(lines), "0.log")
    assert profile.hosts == frozenset()


def test_srun_labels_behind_a_collectors_prefix() -> None:
    said = [b"Initializing distributed: GLOBAL_RANK: %d, MEMBER: %d/4" % (n, n + 1) for n in range(4)]
    lines = [b"trainer-1  | %d: %s" % (n, text) for n, text in enumerate(said)]
    lines += [b"trainer-1  | %d: ready" % (n % 4) for n in range(12)]
    profile = profile_source(b"\n".join(lines), "compose.log")
    assert (profile.style, profile.inner) == ("compose", "srun_label")
    assert locate(lines[2], len(lines[2]), profile).who.rank == 2


@pytest.mark.parametrize("others", [0, 1, 2, 3, 6])
@pytest.mark.parametrize("at", ["front", "back"])
def test_one_line_in_twenty_may_lack_the_wrapping_wherever_it_stands(others, at):
    quoted, bare = [b"> " + x for x in PLAIN * 5], [b"plain text"] * others
    lines = bare + quoted if at == "front" else quoted + bare
    allowed = 20 * others <= len(lines)
    assert (find_wrapping(lines) is not None) is allowed
