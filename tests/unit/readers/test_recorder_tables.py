"""Tables of PyTorch's debug server tell each rank's entries again, or say why they cannot; nothing harms the reader.

The form is that of torch 2.13 with tabulate 0.9 (plain), made from dumps of a simulated job.
"""

import random

import pytest

from firstfault.model.evidence import SourceId
from firstfault.model.recorder import Stage
from firstfault.model.words import Category, SourceKind
from firstfault.pipelines.diagnose import diagnose
from firstfault.readers.recorder_tables import read_tables
from firstfault.readers.sniff import sniff

GROUPS = """\
=== FR Trace ===
--- Groups ---
                  id  desc          size
07327027465595056883  default_pg       4
--- Memberships ---
            group_id    global_rank
07327027465595056883              0
07327027465595056883              1
07327027465595056883              2
07327027465595056883              3
--- Collectives ---
  id    group_id  pass_check      collective_seq_id    p2p_seq_id    record_id  pg_desc       collective_name    input_sizes    output_sizes    expected_ranks    collective_state    collective_frames    input_numel    output_numel    missing_ranks    mismatch_collectives    type_of_mismatch
   0           0  True                        25001             0       100007  0:default_pg  nccl:broadcast     [[1024, 8]]    [[1024, 8]]     {0, 1, 2, 3}      completed           []
"""
LAST = "   1           0  True                        25002             0       100008  0:default_pg  nccl:all_reduce    [[1]]          [[1]]           {0, 1, 2, 3}      scheduled           []                                                  {2}\n"
OTHER = (
    "   1           0  False                       25002             0       100008  0:default_pg  nccl:all_reduce    [[1]]          [[1]]           {0, 1, 2, 3}      scheduled           []                                                                   "
    "{3: Collective(id=1, group_id='0', pass_check=False, collective_seq_id=25002, p2p_seq_id=0, record_id=100008, pg_desc='0:default_pg', "
    "collective_name='nccl:broadcast', input_sizes=[[8]], output_sizes=[[8]], expected_ranks={0, 1, 2, 3}, collective_state='started', "
    "collective_frames=[], input_numel=None, output_numel=None, missing_ranks=None, mismatch_collectives=None, type_of_mismatch=<torch.distributed.flight_recorder.components.types.MatchInfo object at 0x7efe0eb34850>)}  "
    "<torch.distributed.flight_recorder.components.types.MatchInfo object at 0x7efe0eb34850>\n"
)
CALLS = """\
--- NCCL Calls ---
  id  collective_id      group_id    global_rank    traceback_id  collective_type    sizes
   0                            0              0               0  nccl:all_reduce    [[1]]
"""


def told(text):
    found = read_tables(text.encode(), SourceId(0))
    return {
        d.rank: [
            (log.group, s, d.calls[c].op, Stage(t))
            for log in d.logs
            for s, c, t in zip(log.seq, log.call, log.stage, strict=True)
        ]
        for d in found.dumps
    }, found


def test_who_misses_a_collective_has_no_entry_of_it():
    ranks, found = told(GROUPS + LAST + CALLS)
    both = [("0", 25001, "broadcast", Stage.COMPLETED), ("0", 25002, "all_reduce", Stage.UNFINISHED)]
    assert ranks == {0: both, 1: both, 2: both[:1], 3: both}
    text = GROUPS + LAST + CALLS
    for offset, length, line in found.places.values():
        assert text[offset : offset + length] == text.split("\n")[line - 1]


def test_who_issued_another_call_has_that_one():
    ranks, found = told(GROUPS + OTHER + CALLS)
    assert [ops[-1][2] for _, ops in sorted(ranks.items())] == ["all_reduce", "all_reduce", "all_reduce", "broadcast"]
    odd = next(d for d in found.dumps if d.rank == 3)
    assert odd.calls[odd.logs[0].call[-1]].input_sizes == ((8,),)


@pytest.mark.parametrize("rows", [LAST, OTHER])
def test_what_nccl_recorded_comes_before_the_rest(rows):
    cpu = GROUPS[: GROUPS.index("   0           0  True")] + CALLS
    nccl = GROUPS.replace("=== FR Trace ===", "\n=== FR Trace NCCL ===") + rows + CALLS
    assert told(cpu + nccl)[0] == told(GROUPS + rows + CALLS)[0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (GROUPS + LAST, "cut off"),
        ("PARTIAL DATA: 3/4 workers responded\n  Rank 2: Timeout\n\n" + GROUPS + LAST + CALLS, "did not answer"),
        (GROUPS + LAST.replace("all_reduce ", "send 0->1 ") + CALLS, "sends and receives"),
        (GROUPS + LAST + CALLS + "   1                            0              1               0  nccl:recv 1<-0     [[1]]\n", "sends and receives"),
        (GROUPS + LAST[:90] + "\n" + CALLS, "cannot be told"),
        (GROUPS[: GROUPS.index("   0           0  True")] + CALLS, "hold no collective"),
    ],
)  # fmt: skip
def test_what_the_rows_do_not_tell_is_said(text, why):
    ranks, found = told(text)
    assert ranks == {}
    assert why in found.why


def test_the_rank_that_never_came_is_named_and_its_rows_read_back(tmp_path):
    (tmp_path / "fr_trace_20261129_141840.txt").write_text(GROUPS + LAST + CALLS)
    found = diagnose([tmp_path])
    assert (found.verdict.category, found.verdict.culprits.ranks) == (Category.DATA_LOADING_STALL, [2]), (
        found.verdict.summary
    )
    assert found.verification.reread == found.verification.claims > 0
    assert found.verdict.trigger.line == 13


def test_a_rank_without_any_row_in_a_group_may_have_been_cut_away_and_is_not_named(tmp_path):
    rows = LAST.replace("{2}", "{1}")
    (tmp_path / "fr_trace_20261129_141840.txt").write_text(
        GROUPS[: GROUPS.index("   0           0  True")] + rows + CALLS
    )
    verdict = diagnose([tmp_path]).verdict
    assert verdict.culprits.ranks == [], verdict.summary
    assert verdict.category is Category.UNKNOWN


def test_a_file_of_tables_is_a_flight_recorder_dump():
    assert sniff((GROUPS + LAST).encode(), b"", "fr_trace_20261129_141840.txt").kind is SourceKind.FLIGHT_RECORDER


def test_damage_never_raises_and_never_names_a_rank_that_no_row_shows():
    rng, whole = random.Random(11), (GROUPS + OTHER + LAST + CALLS).encode()
    for _ in range(400):
        broken = bytearray(whole[: rng.randrange(len(whole) + 1)])
        for _ in range(rng.randrange(5)):
            if broken:
                broken[rng.randrange(len(broken))] = rng.randrange(256)
        found = read_tables(bytes(broken), SourceId(0))
        assert found.dumps or found.why
        assert all(offset + length <= len(broken) for offset, length, _ in found.places.values())
