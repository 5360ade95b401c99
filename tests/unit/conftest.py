"""One full diagnosis, as the pipeline would hand it out, for the tests of what is said and how."""

import pytest

from firstfault.model.diagnosis import (
    Action,
    AttemptSummary,
    ChainLink,
    Classes,
    Count,
    CoverageRow,
    Culprits,
    Diagnosis,
    Evidence,
    Fact,
    FirstFailed,
    NaiveReading,
    RankRow,
    Ranks,
    RivalSummary,
    Time,
    TimelineEntry,
    Verdict,
    Verification,
)
from firstfault.model.words import (
    ActionKind,
    Category,
    CoverageState,
    Domain,
    Form,
    Layer,
    Phase,
    Scope,
    Strength,
)


def line(file="error-4711-4.out", number=1893, text="[rank37]: tokenizing shard 12 of 40"):
    at = Time(earliest="2026-03-02T14:05:01+08:00", latest="2026-03-02T14:05:01+08:00", zone="+08:00")
    return Evidence(file=file, line=number, column=1, text=text, time=at)


def build(text="[rank37]: tokenizing shard 12 of 40", **changes):
    first = line(text=text)
    verdict = Verdict(
        failed=True,
        category=Category.DATA_LOADING_STALL,
        strength=Strength.SUPPORTED,
        summary="Rank 37 (node-04) never entered BROADCAST 7727 of the default group; 127 ranks waited 30 min.",
        culprits=Culprits(ranks=[37], hosts=["node-04"], strength=Strength.ESTABLISHED),
        first_failed=FirstFailed(ranks=[37], hosts=["node-04"]),
        trigger=first,
        classes=Classes(domain=Domain.DATA, form=Form.HUNG, layer=Layer.RUNTIME, phase=Phase.DATA, scope=Scope.RANK),
        action=Action(
            kind=ActionKind.FIX_AND_RERUN,
            exclude_hosts=["node-04"],
            exclude_hostlist="node-04",
            steps=["Give the reader of rank 37 a time-out.", "Rerun from the last checkpoint."],
        ),
    )
    other = line("error-4711-0.out", 20, "[Rank 5] Watchdog caught collective operation timeout")
    parts = {
        "verdict": verdict,
        "job": {"framework": Fact(value="nemo", evidence=[first]), "world_size": Fact(value=128, evidence=[other])},
        "attempts": [
            AttemptSummary(number=1, ended="completed", diagnosed=False),
            AttemptSummary(number=2, ended="failed", diagnosed=True, first_line=first, summary="hung"),
        ],
        "chain": [
            ChainLink(what="Rank 37 stopped reading", why="its last line is a read", evidence=[first]),
            ChainLink(what="127 ranks timed out", why="they waited for rank 37", evidence=[other]),
        ],
        "rivals": [
            RivalSummary(
                category=Category.NETWORK,
                strength=Strength.POSSIBLE,
                supports=["a time-out in a collective"],
                against=["rank 37 never enqueued it"],
                settled_by=["a stack dump of rank 37"],
            )
        ],
        "naive": [
            NaiveReading(
                reading="last_error",
                says="NCCL failed on rank 5",
                dropped_because="rank 5 waited for rank 37",
                evidence=[other],
            )
        ],
        "timeline": [TimelineEntry(time=first.time, what="last line of rank 37", evidence=first, count=3)],
        "counts": [
            Count(
                signature="nccl.timeout",
                title="Watchdog time-out",
                total=127,
                files={"error-4711-0.out": 127},
                ranks={"10": 1, "9": 2},
            )
        ],
        "key_lines": [other],
        "ranks": Ranks(
            expected=128,
            seen=127,
            with_nccl_state=127,
            silent=[37],
            table=[RankRow(rank=37, host="node-04", local_rank=5, state="silent")],
            expected_nodes=16,
            seen_nodes=15,
            missing_files=["error-4711-7.out"],
            witnesses=[Fact(value=128, evidence=[other])],
        ),
        "coverage": [
            CoverageRow(file="error-4711-0.out", state=CoverageState.READ, bytes=4000),
            CoverageRow(file="core.88", state=CoverageState.SKIPPED, reason="binary", bytes=12),
        ],
        "verification": Verification(claims=41, reread=41),
        "collect_next": ["a stack dump of rank 37 (py-spy dump)"],
        "recommendations": {"training": ["Set a time-out on the reader."]},
    }
    return Diagnosis(**{**parts, **changes})


@pytest.fixture(scope="session")
def build_diagnosis():
    """Builds the full diagnosis around a log text, with top-level fields changed at will."""
    return build
