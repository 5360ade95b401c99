"""The live table over an invented job: who moves, is slow, stands or is gone."""

import http.client
import urllib.request
from threading import Thread

import pytest
from box_folder import START, Box, at
from click.testing import CliRunner

from firstfault.cli.watch import command, table
from firstfault.recorder import format as layout
from firstfault.watch.board import latest_run, read_board
from firstfault.watch.prometheus import server, text
from firstfault.watch.request import ask_for_bundle


def beat(box, rank, seconds, waited=20.0, **fields):
    call = {"name": "all_reduce", "number": 5, "inside": False, "s_ago": 0.1, "in_all_s": waited}
    plain = {
        "step": 100,
        "steps": 100,
        "pace_s": 0.5,
        "phase": "forward",
        "still_s": 0.2,
        "last": "",
        "call": call,
        "world": 4,
    }
    box.line(rank, layout.BEAT, seconds, file=layout.HEARTBEAT_FILE, **{**plain, **fields})


@pytest.fixture
def job(tmp_path):
    box = Box(tmp_path, world=4)
    box.node(0, layout.NODE, 0, hang_s=60.0, start_s=600.0)
    beat(box, 0, 100)
    beat(box, 1, 100, waited=2.0)
    beat(box, 2, 100, still_s=90.0, phase="data", item={"what": "/data/x.tar", "for_s": 90.0, "batch": 1})
    box.node(3, layout.DEATH, 99, signal="SIGKILL", how="was ended by SIGKILL", step=99, still_s=0.0)
    return box.folder


def test_each_rank_is_what_it_is(job):
    rows = {r.rank: r for r in read_board(job, now=START + 101).rows}
    assert {n: r.state for n, r in rows.items()} == {0: "moving", 1: "slow", 2: "stalled", 3: "dead"}
    assert rows[2].note == "at /data/x.tar"
    assert rows[3].note == "was ended by SIGKILL"
    assert rows[1].waited_share == 0.04


def test_a_rank_that_tells_no_step_and_no_phase_is_not_called_stalled(job, tmp_path):
    box = Box(tmp_path, world=4, run="run-2")
    box.node(0, layout.NODE, 0, hang_s=60.0, start_s=600.0)
    for rank, fields in enumerate(
        (
            {"step": None, "steps": None, "pace_s": None, "phase": None},
            {"step": None, "steps": None, "pace_s": None, "phase": "start-up"},
            {"phase": None},
        )
    ):
        beat(box, rank, 4000, still_s=3990.0, **fields)
    rows = {r.rank: r for r in read_board(box.folder, now=START + 4001).rows}
    assert {n: r.state for n, r in rows.items()} == {0: "moving", 1: "stalled", 2: "stalled"}
    assert rows[0].note == "tells no step and no phase"


def test_a_node_that_writes_no_more_is_silent(job):
    rows = {r.rank: r.state for r in read_board(job, now=START + 500).rows}
    assert rows == {0: "silent", 1: "silent", 2: "silent", 3: "dead"}


@pytest.mark.parametrize(
    ("told", "seconds", "state"),
    [
        ({}, 150, "moving"),
        ({}, 161, "silent"),
        ({"gather_s": 60.0}, 300, "moving"),
        ({"gather_s": 60.0}, 341, "silent"),
    ],
)
def test_what_passed_since_the_last_heartbeat_is_no_standstill(tmp_path, told, seconds, state):
    box = Box(tmp_path, world=1)
    box.node(0, layout.NODE, 0, hang_s=10.0, **told)
    beat(box, 0, 100)
    (row,) = read_board(box.folder, now=START + seconds).rows
    assert (row.state, row.still_s) == (state, 0.2)


def test_a_narrow_terminal_shows_what_is_noted_and_a_file_has_a_line_a_rank(tmp_path, monkeypatch):
    monkeypatch.setattr("firstfault.watch.board.time.time", lambda: START + 101)
    monkeypatch.delenv("COLUMNS", raising=False)
    box = Box(tmp_path, world=1)
    box.node(0, layout.NODE, 0, hang_s=60.0)
    where = "/data/" + "x" * 150 + ".tar"
    beat(box, 0, 100, still_s=90.0, phase="data", item={"what": where, "for_s": 90.0, "batch": 1})
    into_file = CliRunner().invoke(command, [str(tmp_path), "--once"], standalone_mode=False).output
    assert f"at {where}" in into_file
    narrow = CliRunner(env={"COLUMNS": "80"}).invoke(command, [str(tmp_path), "--once"], standalone_mode=False).output
    assert all(len(line) <= 80 for line in narrow.splitlines())
    assert narrow.count("x") >= 150
    assert "stalled" in narrow


def test_a_rank_that_was_started_again_lives(job, tmp_path):
    box = Box.__new__(Box)
    box.folder, box.world, box.per_host = job, 4, 4
    beat(box, 3, 100, attempt=1)
    assert {r.rank: r.state for r in read_board(job, now=START + 101).rows}[3] == "moving"


def test_metrics_are_what_the_table_says(job):
    lines = text(read_board(job, now=START + 101)).splitlines()
    assert 'firstfault_ranks{run="run-1",state="dead"} 1' in lines
    assert 'firstfault_rank_step{run="run-1",rank="0",host="node-00"} 100' in lines
    assert 'firstfault_rank_state{run="run-1",rank="3",host="node-00",state="dead"} 1' in lines
    assert 'firstfault_rank_still_seconds{run="run-1",rank="2",host="node-00"} 90.0' in lines


def test_the_page_listens_on_the_loopback_only(job):
    page = server(0, lambda: read_board(job, now=START + 101))
    Thread(target=page.serve_forever, daemon=True).start()
    try:
        assert page.server_address[0] == "127.0.0.1"
        address = f"http://127.0.0.1:{page.server_address[1]}"
        body = urllib.request.urlopen(f"{address}/metrics", timeout=10).read().decode()
        assert body == text(read_board(job, now=START + 101))
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{address}/etc", timeout=10)
        refused.value.close()
    finally:
        page.shutdown()
        page.server_close()


def test_the_run_that_was_written_last_is_watched(job, tmp_path):
    Box(tmp_path, world=1, run="run-0").node(0, layout.NODE, 1)
    assert latest_run(tmp_path).name == "run-0"
    assert latest_run(job) == job


def test_a_folder_without_a_run_is_told_in_one_message(tmp_path):
    done = CliRunner().invoke(command, [str(tmp_path), "--once"])
    assert done.exit_code != 0
    assert "no run of the recorder" in str(done.exception)


def test_the_table_shows_outliers_first_and_exports(job, tmp_path, monkeypatch):
    monkeypatch.setattr("firstfault.watch.board.time.time", lambda: START + 101)  # whatever the day is
    file = tmp_path / "out.prom"
    done = CliRunner(env={"COLUMNS": "220"}).invoke(
        command, [str(job), "--once", "--textfile", str(file)], standalone_mode=False
    )
    assert done.return_value == 1
    assert done.output.index("was ended by SIGKILL") < done.output.index("at /data/x.tar")
    assert "firstfault_ranks" in file.read_text()


def test_a_wish_for_a_bundle_is_a_record(job):
    file = ask_for_bundle(job, "asked for by watch")
    assert file.parent == job / layout.REQUESTS
    assert file.read_bytes().startswith(layout.START.encode())


def test_what_a_file_says_does_not_act_on_the_terminal(tmp_path):
    box = Box(tmp_path, world=1)
    box.node(0, layout.NODE, 0, hang_s=60.0)
    beat(box, 0, 100, still_s=90.0, item={"what": "/data/\x1b]0;x\x07.tar", "for_s": 90.0, "batch": 1})
    board = read_board(box.folder, now=START + 100)
    assert "\x1b" in board.rows[0].note
    cells = [str(cell) for column in table(board, every_rank=True).columns for cell in column.cells]
    assert any(".tar" in c for c in cells)
    assert not [c for c in cells if "\x1b" in c]


@pytest.mark.parametrize(
    ("told", "fields", "state"),
    [
        ({"hang_s": 80.0}, {}, "stalled"),
        ({"hang_s": 120.0}, {}, "moving"),
        ({"hang_s": 0.0}, {}, "moving"),
        ({}, {}, "moving"),
        ({}, {"still_s": 301.0}, "stalled"),
        ({"hang_s": 10.0}, {"pace_s": 8.0}, "moving"),
        ({"hang_s": 10.0, "start_s": 600.0}, {"steps": 0, "pace_s": None}, "moving"),
    ],
)
def test_who_is_stalled_is_told_by_the_recorders_own_setting(tmp_path, told, fields, state):
    box = Box(tmp_path, world=1)
    box.node(0, layout.NODE, 0, **told)
    beat(box, 0, 100, **{"still_s": 90.0, **fields})
    assert [r.state for r in read_board(box.folder, now=START + 100).rows] == [state]


@pytest.mark.parametrize(
    ("hosts", "status"),
    [
        (["localhost:{port}"], 200),
        (["127.0.0.1"], 200),
        (["[::1]:{port}"], 200),
        (["LOCALHOST"], 200),
        (["attacker.example:{port}"], 421),
        (["127.0.0.1.attacker.example"], 421),
        (["localhost", "attacker.example"], 421),
        ([], 421),
    ],
)
def test_the_page_answers_only_who_asks_for_the_loopback(job, hosts, status):
    page = server(0, lambda: read_board(job, now=START + 101))
    Thread(target=page.serve_forever, daemon=True).start()
    try:
        port = page.server_address[1]
        asks = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        asks.putrequest("GET", "/metrics", skip_host=True)
        for host in hosts:
            asks.putheader("Host", host.format(port=port))
        asks.endheaders()
        answer = asks.getresponse()
        assert answer.status == status
        assert (b"firstfault_ranks" in answer.read()) is (status == 200)
        asks.close()
    finally:
        page.shutdown()
        page.server_close()


@pytest.mark.parametrize(("after", "state"), [(100, "silent"), (104, "silent"), (140, "moving")])
def test_ranks_of_a_node_that_its_neighbours_miss_are_silent_until_it_is_back(tmp_path, after, state):
    box = Box(tmp_path, world=8)
    box.node(0, layout.NODE, 0, hang_s=60.0)
    beat(box, 0, after)
    beat(box, 4, after)
    word = layout.line(layout.LOST, {"time": at(101), "host": "node-01", "ranks": [4], "by": "node-00"})
    with (box.folder / "node-00" / layout.NODE_FILE).open("ab") as file:
        file.write(word)
    rows = {r.rank: r.state for r in read_board(box.folder, now=START + after + 2).rows}
    assert rows == {0: "moving", 4: state}
