"""What the neighbours of a node say of its silence, in a diagnosis: who was missed, unless it lived on."""

import json

import pytest

from firstfault.model.words import Category, Strength
from firstfault.pipelines.diagnose import diagnose
from firstfault.recorder import format as layout


def at(second):
    return layout.stamp(1_790_000_000 + second)


def beat(host, rank, second, step):
    return layout.line(
        layout.BEAT,
        {
            "time": at(second),
            "rank": rank,
            "host": host,
            "pid": 100 + rank,
            "attempt": 0,
            "world": 2,
            "step": step,
            "still_s": 0.1,
            "last": at(second),
            "since": at(0),
            "steps": step,
        },
    )


CLOSED = "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.9]:40112"


def lay(folder, *, back=None, b_until=60, copied=False, deaths=(), after_end=False, says=CLOSED):
    """Two nodes of a rank each; node-a missed node-b at 63 s, and its rank died of a closed connection at 70 s."""
    run = folder / "run"
    for host in ("node-a", "node-b"):
        (run / host).mkdir(parents=True)
    lost = {
        "time": at(60),
        "host": "node-b",
        "how": "gives no sign of life any more",
        "silent_s": 3.1,
        "ranks": [1],
        "step": 12,
        "attempt": 0,
        "by": "node-a",
        **({layout.AFTER_END: True} if after_end else {}),
    }
    node = [
        layout.line(layout.NODE, {"time": at(0), "host": "node-a"}),
        layout.line(layout.LOST, lost),
        layout.line(
            layout.DEATH,
            {
                "time": at(70),
                "rank": 0,
                "host": "node-a",
                "how": "exited with code 1",
                "exit_code": 1,
                "pid": 100,
                "attempt": 0,
                "world": 2,
                "step": 12,
            },
        ),
    ]
    (run / "node-b" / layout.NODE_FILE).write_bytes(layout.line(layout.NODE, {"time": at(0), "host": "node-b"}))
    for host, kind, second, how in deaths:
        rank = 0 if host == "node-a" else 1
        end = layout.line(
            kind, {"time": at(second), "rank": rank, "host": host, "pid": 100 + rank, "attempt": 0, "world": 2, **how}
        )
        if host == "node-a":
            node[2:] = [end]
        else:
            (run / host / layout.NODE_FILE).write_bytes(end)
    if back is not None:
        node.insert(2, layout.line(layout.NOTE, {"time": at(back), "host": "node-a", "node": "node-b", "back": True}))
    (run / "node-a" / layout.NODE_FILE).write_bytes(b"".join(node))
    (run / "node-a" / layout.HEARTBEAT_FILE).write_bytes(beat("node-a", 0, 69, 12))
    (run / "node-b" / layout.HEARTBEAT_FILE).write_bytes(beat("node-b", 1, b_until, 12))
    header = {"time": at(0), "world": 2, "attempt": 0}
    for rank, host in enumerate(("node-a", "node-b")):
        told = [layout.line(layout.HEADER, {**header, "rank": rank, "host": host, "pid": 100 + rank})]
        if rank == 0:
            told.append(
                layout.line(
                    layout.EXCEPTION,
                    {
                        "time": at(70),
                        "rank": 0,
                        "host": host,
                        "pid": 100,
                        "attempt": 0,
                        "caught": False,
                        "type": "RuntimeError",
                        "message": says,
                        "frames": [{"file": "/w/t.py", "line": 3, "function": "<module>"}],
                    },
                )
            )
        (run / host / f"rank-{rank:05d}.0.{100 + rank}.jsonl").write_bytes(b"".join(told))
    if copied:
        (run / "faults").mkdir()
        (run / "faults" / "node-b.node.0.json").write_bytes(layout.line(layout.LOST, {**lost, "run": "run"}))
    return diagnose([folder]).verdict


@pytest.mark.parametrize("copied", [False, True])
def test_the_missed_node_is_named_and_no_more_than_possible(tmp_path, copied):
    found = lay(tmp_path, copied=copied)
    assert found.category is Category.INFRASTRUCTURE
    assert found.strength is Strength.POSSIBLE
    assert found.culprits.hosts == ["node-b"]
    assert found.culprits.strength.level <= Strength.POSSIBLE.level


@pytest.mark.parametrize("how", [{"back": 66}, {"back": 75}, {"b_until": 80}])
def test_a_node_that_lives_on_is_not(tmp_path, how):
    assert lay(tmp_path, **how).culprits.hosts == []


@pytest.mark.parametrize(
    "deaths",
    [
        [("node-b", layout.END, 60, {"exit_code": 0})],
        [("node-b", layout.DEATH, 60, {"exit_code": 1})],
        [("node-a", layout.DEATH, 50, {"exit_code": 1})],
        [("node-a", layout.DEATH, 61, {"signal": "SIGTERM"})],
        [("node-a", layout.DEATH, 58, {"signal": "SIGKILL"})],
    ],
    ids=["its rank had ended", "its rank had died", "a rank died before", "all were stopped", "all were killed"],
)
def test_who_falls_silent_with_its_job_is_not(tmp_path, deaths):
    found = lay(tmp_path, deaths=deaths)
    assert not (found.category is Category.INFRASTRUCTURE and found.culprits.hosts == ["node-b"])


def test_a_rank_that_dies_with_the_connection_is_no_end_of_the_job_before(tmp_path):
    """The last sign of life is seen up to a second late, the closed connection at once."""
    found = lay(tmp_path, deaths=[("node-a", layout.DEATH, 59.5, {"exit_code": 1})])
    assert found.culprits.hosts == ["node-b"]


def test_the_word_is_one_that_the_reader_knows():
    assert json.loads(layout.line(layout.LOST, {"time": at(1), "host": "x"}))["kind"] in layout.KINDS


@pytest.mark.parametrize("second", [60, 61])
def test_a_node_missed_after_the_end_is_named_where_its_peer_met_a_closed_connection(tmp_path, second):
    found = lay(tmp_path, after_end=True, deaths=[("node-a", layout.DEATH, second, {"exit_code": 1})])
    assert (found.category, found.strength) == (Category.INFRASTRUCTURE, Strength.POSSIBLE)
    assert found.culprits.hosts == ["node-b"]


@pytest.mark.parametrize(
    ("says", "how"),
    [("mat1 and mat2 shapes cannot be multiplied (8x64 and 32x8)", {"exit_code": 1}), (CLOSED, {"signal": "SIGKILL"})],
    ids=["an error of its own, and the launcher took the rest", "killed with it"],
)
def test_a_node_that_was_taken_away_after_an_end_of_another_kind_is_not(tmp_path, says, how):
    found = lay(tmp_path, after_end=True, says=says, deaths=[("node-a", layout.DEATH, 60, how)])
    assert found.culprits.hosts != ["node-b"]
