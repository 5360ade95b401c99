"""What is remembered of lines of one shape changes nothing of what is read in them."""

from __future__ import annotations

import random

import pytest

from firstfault.readers import recall
from firstfault.readers.identity import SourceProfile, body_starts, locate
from firstfault.readers.prefixes import parse_chain
from firstfault.readers.recall import forget, read_chain, read_parts
from firstfault.readers.sketch import sketch_of, stamp_at_end
from firstfault.readers.wrapping import Wrapping
from firstfault.signatures.library import load_library

FACTS = (
    "rank",
    "local_rank",
    "group_rank",
    "group",
    "desc",
    "host",
    "pid",
    "device",
    "label",
    "level",
    "c10",
    "tokens",
)
EXAMPLES = sorted({e.line.encode() for s in load_library().signatures for e in (*s.spec.match, *s.spec.no_match)})
PREFIXED = [
    b"[rank17]:[E811 21:37:26.232159190 ProcessGroupNCCL.cpp:629] [Rank 17] Watchdog caught",
    b"[rank17]:[E811 21:37:26.232 ProcessGroupNCCL.cpp:2168] [PG ID 0 PG GUID 0(default_pg) Rank 17] failure detected",
    b"2025-08-11 21:27:05,632 - INFO - [rank 18] rank=18 local_rank=6",
    b"  3: [default5]:W1129 14:18:16.233000 25839 torch/distributed/run.py:766] hello",
    b"node-07: worker says [1,12]<stderr>: text",
    b"2025-08-11 21:27:05 node-07: worker says",
    b"Aug 11 21:27:05 gpu-03 slurmd[4711]: message",
    b"(RayTrainWorker pid=1234, ip=10.0.0.7) [p12] text",
    b"(Worker2 pid=1234) text",
    b"gpu-03:4711:4799 [3] NCCL WARN a",
    b"gpu-03:4711:4799 [-1] NCCL INFO a",
    b"[INFO|DP=1|TP=0|node-4]: hello",
    b"[NeMo W 2025-08-11 21:27:05 utils:12 rank:7] hello",
    b"workload:3(1)] hello [workload:3(1)] there",
    b"[4711@gpu-03:7] hello",
    b'{"time": "2025-08-11T21:27:05Z", "rank": 7, "host": "gpu-03", "message": "hello"}',
    b'{"ts": 1754947625.123, "rank": 7, "message": "hello"}',
    b"rank7[4711][MainThread]: INFO: hello",
    b"slurmstepd: error: *** JOB 4711 ON gpu-03 CANCELLED AT 2025-08-11T21:27:05 DUE TO TIME LIMIT ***",
    b"10:22:05 text of a time of day",
    b"train.log:12: [Rank 5] Some NCCL operations",
    b"step 3 [rank1]: first [rank12]: second [rank7]:[E811 21:37:26.232159190 a.cpp:62] third",
]
PROFILES = [
    SourceProfile(),
    SourceProfile(style="srun_label", tasks_are_ranks=True, unit=4711),
    SourceProfile(
        style="host_label", hosts=frozenset({"node-07", "node-08"}), tee_rank=True, roles=frozenset({"trainer"})
    ),
    SourceProfile(style="dated_host", hosts=frozenset({"node-07"})),
    SourceProfile(wrapping=Wrapping("file_number", several=True)),
    SourceProfile(wrapping=Wrapping("number")),
]


def facts(chain):
    told = {name: getattr(chain, name) for name in FACTS}
    return told, chain.position, chain.starts, [(style, m.span(), m.groupdict()) for style, m in chain.stamps]


def varied(line: bytes, chance: random.Random) -> bytes:
    """The line with other digits: mostly the same, so that dates and known hosts come up too."""
    few = chance.random() < 0.5
    return bytes(
        chance.choice(b"0123456789") if 48 <= c <= 57 and (not few or chance.random() < 0.2) else c for c in line
    )


@pytest.mark.parametrize("number", range(len(PROFILES)))
def test_a_line_is_read_as_if_it_were_the_first(number):
    profile, chance = PROFILES[number], random.Random(number)
    for line in (*PREFIXED, *EXAMPLES[number :: len(PROFILES)]):
        for text in (line, *(varied(line, chance) for _ in range(6))):
            for segment in text.split(b"\r"):
                chain = read_chain(segment, 0, profile)
                assert facts(chain) == facts(parse_chain(segment, 0, profile)), segment
                for part in read_parts(segment, chain, profile):
                    assert facts(part) == facts(parse_chain(segment, part.starts[0], profile)), segment


@pytest.mark.parametrize("number", range(len(PROFILES)))
def test_messages_begin_where_they_would_in_the_first_line(number):
    profile, chance = PROFILES[number], random.Random(number)
    asked = [
        segment
        for line in (*PREFIXED, *EXAMPLES[number :: len(PROFILES)])
        for text in (line, *(varied(line, chance) for _ in range(6)))
        for segment in text.split(b"\r")
    ]
    known = [body_starts(segment, profile) for segment in asked]
    for segment, starts in zip(asked, known, strict=True):
        recall._seen.__init__()
        assert body_starts(segment, profile) == starts, segment


@pytest.mark.parametrize("number", range(len(PROFILES)))
def test_a_sketch_tells_of_the_next_line_what_the_line_itself_tells(number):
    profile, chance, told = PROFILES[number], random.Random(number), 0
    for line in (*PREFIXED, *EXAMPLES[number :: len(PROFILES)]):
        segment = line.split(b"\r")[0]
        places = (0, len(segment) // 2, len(segment))
        for text in (segment, varied(segment, chance)):
            read_parts(text, read_chain(text, 0, profile), profile)
        sketch = sketch_of(segment, places, profile)
        for text in (segment, *(varied(segment, chance) for _ in range(6))):
            sights = None if sketch is None else sketch.read(text, profile)
            stamp = stamp_at_end(text, profile)
            forget()
            whole = [locate(text, at, profile) for at in places]
            assert stamp == whole[-1].stamp, text
            assert sights is None or [s.located() for s in sights] == whole, text
            assert sights is None or [s.key for s in sights] == [p.key for p in whole], text
            told += sights is not None
    assert told > len(PREFIXED)


def test_lines_of_one_shape_share_the_look_at_their_prefixes(monkeypatch):
    profile = SourceProfile(style="compose", roles=frozenset({"one of this test"}))
    asked = []

    def counted(segment, position, seen):
        asked.append(segment)
        return parse_chain(segment, position, seen)

    monkeypatch.setattr(recall, "parse_chain", counted)
    ranks = [read_chain(b"[rank%d]: a" % rank, 0, profile).rank for rank in (3, 5, 7, 9)]
    assert ranks == [3, 5, 7, 9]
    assert len(asked) == 1


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(recall, "MOST", 3)
    profile = SourceProfile(style="stern")
    for word in (b"a", b"b", b"c", b"d", b"e"):
        read_chain(word + b" line", 0, profile)
    assert sum(len(shapes) for shapes in recall._seen.styles.values()) <= 3
