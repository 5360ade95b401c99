"""Signs of life between nodes: a node that dies with its monitor is missed by its neighbours, and by nobody without a reason."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from firstfault.recorder import format as layout
from firstfault.recorder import pulse
from firstfault.recorder.monitoring import LOCK
from firstfault.recorder.pulse import Pulse


class Clock:
    """The clock of all nodes of a test, which are awake in turns."""

    def __init__(self, monkeypatch, folder, names):
        self.now = 100.0
        monkeypatch.setattr(pulse, "time", self)
        self.folder = folder
        for name in names:
            (folder / name).mkdir()
        self.nodes = {name: Pulse(str(folder), name) for name in names}

    def monotonic(self):
        return self.now

    def run(self, seconds, without=(), slow=0.0):
        """All nodes but some look twice a second; who tells of whom."""
        told = []
        for _ in range(int(seconds * 2)):
            self.now += 0.5 + slow
            for name, node in self.nodes.items():
                if name not in without:
                    told += [(name, lost.host) for lost in node.turn()]
        return told


@pytest.fixture
def five(monkeypatch, tmp_path):
    return Clock(monkeypatch, tmp_path, [f"n{i}" for i in range(5)])


def test_nobody_is_missed_while_all_are_there(five):
    assert five.run(120) == []


def test_a_dead_node_is_missed_by_those_that_watch_it_within_five_seconds_and_once(five):
    five.run(20)
    told = five.run(4.5, without={"n3"})
    assert sorted(told) == [("n1", "n3"), ("n2", "n3")]
    assert five.run(60, without={"n3"}) == []


def test_of_two_nodes_the_other_misses_it(monkeypatch, tmp_path):
    two = Clock(monkeypatch, tmp_path, ["a", "b"])
    two.run(20)
    assert two.run(4.5, without={"b"}) == [("a", "b")]


def test_half_of_the_nodes_at_once_are_missed_too(five):
    five.run(20)
    told = five.run(4.5, without={"n2", "n3"})
    assert {lost for _, lost in told} == {"n2", "n3"}


def test_who_leaves_by_itself_is_not_missed(five):
    five.run(20)
    five.nodes["n3"].end()
    assert five.run(60, without={"n3"}) == []


def test_who_has_no_ranks_any_more_is_not_missed_however_it_goes(five):
    """A container ends with its program, and its monitor has no time to say that it leaves."""
    five.run(20)
    five.nodes["n3"].idle = True
    five.run(0.5)
    assert five.run(60, without={"n3"}) == []


def test_who_has_ranks_again_is_missed_again(five):
    five.nodes["n3"].idle = True
    five.run(20)
    five.nodes["n3"].idle = False
    five.run(1)
    assert len(five.run(6, without={"n3"})) == 2


def test_the_silence_is_counted_from_the_last_move_however_slow_somebody_was(monkeypatch, tmp_path):
    two = Clock(monkeypatch, tmp_path, ["a", "b"])
    two.run(20)
    two.run(4, without={"b"}, slow=1.5)
    silent = []
    for _ in range(12):
        two.now += 0.5
        silent += [lost.silent_s for lost in two.nodes["a"].turn()]
    assert len(silent) == 1
    assert silent[0] > 16


def test_who_was_only_asleep_is_told_to_be_back(five):
    five.run(20)
    assert five.run(10, without={"n3"})
    assert five.run(3) == []
    assert five.nodes["n1"].returned == ["n3"]
    assert five.nodes["n2"].returned == ["n3"]
    assert len(five.run(10, without={"n3"})) == 2  # and is missed anew


def test_who_slept_itself_blames_nobody(five):
    """Looks that come late (a machine under load, a suspended process) measure nothing."""
    five.run(20)
    assert five.run(60, without={"n3"}, slow=1.5) == []


def test_what_a_late_look_finds_is_told_by_one_that_counts(monkeypatch, tmp_path):
    """Stacks are taken for two seconds just when a neighbour would be missed."""
    two = Clock(monkeypatch, tmp_path, ["a", "b"])
    two.run(20)
    assert two.run(2.5, without={"b"}) == []
    two.now += 2.0
    assert two.nodes["a"].turn() == []
    assert two.nodes["a"].watches()
    assert two.run(4.5, without={"b"}) == [("a", "b")]


def test_a_folder_that_does_not_take_what_is_written_blames_nobody(five, monkeypatch):
    five.run(20)
    monkeypatch.setattr(pulse.os, "pwrite", lambda *_: 0)
    assert five.run(60, without={"n3"}) == []


def test_a_folder_that_is_gone_harms_nobody(five, tmp_path):
    five.run(5)
    for name in five.nodes:
        for file in (tmp_path / name).iterdir():
            file.unlink()
        (tmp_path / name).rmdir()
    tmp_path.rmdir()
    assert five.run(60) == []


def test_many_nodes_give_fewer_signs_each(monkeypatch, tmp_path):
    many = Clock(monkeypatch, tmp_path, [f"n{i:04d}" for i in range(650)])
    for node in many.nodes.values():
        node.turn()
    many.now += pulse.LIST_S
    some = list(many.nodes.values())[:3]
    for node in some:
        node.turn()
    assert all(node.every * pulse.MOST_A_SECOND >= len(many.nodes) - 1 for node in some)
    assert all(len(node._seen) == pulse.NEIGHBOURS for node in some)


def test_what_it_writes_is_a_record_of_the_box(five, tmp_path):
    from firstfault.model.evidence import SourceId
    from firstfault.readers.blackbox import read_box

    five.run(3)
    five.nodes["n0"].end()
    read = read_box((tmp_path / "n0" / layout.PULSE).read_bytes(), SourceId(0), f"box/run/n0/{layout.PULSE}")
    assert read.damaged == 0
    assert [r.kind for r in read.records] == [layout.SIGN]
    assert read.records[0].fields["over"] is True


def test_a_whole_rack_is_missed_though_most_of_it_was_watched_by_itself(monkeypatch, tmp_path):
    names = [f"r{i // 16}n{i % 16:02d}" for i in range(40)]
    many = Clock(monkeypatch, tmp_path, names)
    many.run(25)
    rack = {name for name in names if name.startswith("r1")}
    told = many.run(25, without=rack)
    assert {lost for _, lost in told} == rack


def test_what_an_earlier_run_of_that_name_left_is_not_missed(monkeypatch, tmp_path):
    """`--stop` would end the ranks of a job that is well, for a node that this job never had."""
    Clock(monkeypatch, tmp_path, ["a", "b"]).run(10)
    (tmp_path / "a" / layout.PULSE).touch()
    later = Clock(monkeypatch, tmp_path, ["c"])
    later.nodes["a"] = Pulse(str(tmp_path), "a")
    assert later.run(60) == []


def test_a_node_lost_within_seconds_of_its_start_is_missed_though_nobody_saw_it_move(monkeypatch, tmp_path):
    two = Clock(monkeypatch, tmp_path, ["a", "b"])
    two.run(0.5, without={"b"})
    two.nodes["b"].turn()
    # Written behind the other's first sign, by the clock of the folder; two files of one moment may bear the same time.
    began = (tmp_path / "a" / layout.PULSE).stat().st_mtime
    os.utime(tmp_path / "b" / layout.PULSE, (began + 1, began + 1))
    assert two.run(8, without={"b"}) == [("a", "b")]


def test_behind_nodes_that_have_ended_the_next_one_is_watched(monkeypatch, tmp_path):
    four = Clock(monkeypatch, tmp_path, ["a", "b", "c", "d"])
    four.run(15)
    four.nodes["b"].end()
    four.nodes["c"].end()
    four.run(15, without={"b", "c"})
    assert four.run(6, without={"b", "c", "d"}) == [("a", "d")]


def test_to_choose_its_neighbours_a_node_asks_for_no_others(monkeypatch, tmp_path):
    many = Clock(monkeypatch, tmp_path, [f"n{i:03d}" for i in range(400)])
    many.run(25)
    read, one, real = [], many.nodes["n200"], pulse.read_file
    monkeypatch.setattr(pulse, "read_file", lambda path, most: read.append(path) or real(path, most))
    listed = []
    monkeypatch.setattr(one, "_choose", lambda choose=one._choose: listed.append(choose()))
    while not listed:
        many.run(0.5, without={"n200"})
        read.clear()
        one.turn()
    assert {os.path.basename(os.path.dirname(path)) for path in read} <= {"n200", "n201", "n202"}


def test_each_silence_of_a_node_has_a_number_of_its_own_the_same_for_all_who_miss_it(monkeypatch, tmp_path):
    three = Clock(monkeypatch, tmp_path, ["a", "b", "c"])
    numbers = []
    for _ in range(2):
        three.run(20)
        found = []
        for _ in range(12):
            three.now += 0.5
            found += [lost.number for name in ("a", "b") for lost in three.nodes[name].turn()]
        numbers.append(found)
    assert [len(set(found)) for found in numbers] == [1, 1]
    assert [len(found) for found in numbers] == [2, 2]
    assert numbers[0] != numbers[1]


class Watcher:
    """A monitor of node a with one rank that lives, whose bundles and ends are noted instead of done."""

    def __init__(self, tmp_path, monkeypatch, *, stop):
        from firstfault.recorder.monitor import Monitor
        from firstfault.recorder.settings import Settings

        settings = Settings(str(tmp_path / "box"), "two", str(tmp_path / "local"), "a")._replace(stop=stop)
        self.monitor = Monitor(settings, {})
        self.ended, self.planned, self.running = [], [], 0
        monkeypatch.setattr(self.monitor, "attempt", lambda: self.running)
        monkeypatch.setattr(self.monitor, "has_ranks", lambda: True)
        monkeypatch.setattr(self.monitor, "stale", lambda *_, **__: False)
        monkeypatch.setattr(self.monitor, "plan", lambda why, parts: self.planned.append(why))
        monkeypatch.setattr(self.monitor, "end_ranks", lambda *, tell=False: self.ended.append(self.running))
        self.silent, self.back = [], []
        monkeypatch.setattr(self.monitor.nodes.pulse, "turn", self._turn)

    def _turn(self):
        found, self.silent = self.silent, []
        self.monitor.nodes.pulse.returned, self.back = self.back, []
        return found

    def turn(self):
        self.monitor.nodes.turn()

    def dies(self, rank):
        os.makedirs(self.monitor.faults, exist_ok=True)
        word = {"host": "c", "rank": rank, "how": "exited with code 1", "attempt": self.running}
        with open(os.path.join(self.monitor.faults, f"c.{rank}.{self.running}.json"), "wb") as file:
            file.write(layout.line(layout.DEATH, word))
        self.monitor.hear()


def test_a_rank_that_dies_after_a_node_fell_silent_still_ends_the_others_where_that_was_asked_for(
    tmp_path, monkeypatch
):
    watcher = Watcher(tmp_path, monkeypatch, stop=True)
    watcher.silent = [pulse.Lost("b", 3.4, "0000000007")]
    watcher.turn()
    assert (len(watcher.planned), watcher.ended) == (1, [])
    watcher.dies(3)
    assert len(watcher.planned) == 2
    assert watcher.ended == [0]


def test_a_node_that_fell_silent_in_an_attempt_ends_no_ranks_of_the_next(tmp_path, monkeypatch):
    from firstfault.recorder import nodes

    watcher = Watcher(tmp_path, monkeypatch, stop=True)
    watcher.silent = [pulse.Lost("b", 3.4, "0000000007")]
    watcher.turn()
    watcher.running = 1
    monkeypatch.setattr(nodes, "STOP_LOST_S", -1.0)
    watcher.turn()
    assert watcher.ended == []
    watcher.silent = [pulse.Lost("c", 3.4, "0000000009")]
    watcher.turn()
    watcher.turn()
    assert watcher.ended == [1]


def test_a_node_that_is_back_and_falls_silent_again_is_told_again(tmp_path, monkeypatch):
    watcher = Watcher(tmp_path, monkeypatch, stop=False)
    words = []
    for number in ("0000000007", "0000000031"):
        watcher.silent = [pulse.Lost("b", 3.4, number)]
        watcher.turn()
        words.append(os.listdir(watcher.monitor.faults))
        watcher.back = ["b"]
        watcher.turn()
        assert os.listdir(watcher.monitor.faults) == []
    assert words[0] != words[1]
    assert len(watcher.planned) == 2


def _alone(tmp_path, monkeypatch):
    """A watcher all ranks of which have ended, beside a neighbour that is at work."""
    watcher = Watcher(tmp_path, monkeypatch, stop=False)
    monkeypatch.setattr(watcher.monitor, "has_ranks", lambda: False)
    monkeypatch.setattr(watcher.monitor.nodes.pulse, "watches", lambda: True)
    return watcher


def test_a_monitor_whose_ranks_failed_tells_of_a_neighbour_that_is_gone(tmp_path, monkeypatch):
    watcher = _alone(tmp_path, monkeypatch)
    watcher.monitor.nodes.failed(2)
    assert watcher.monitor.nodes.stays()
    watcher.silent = [pulse.Lost("b", 3.4, "0000000007")]
    watcher.turn()
    (word,) = os.listdir(watcher.monitor.faults)
    with open(os.path.join(watcher.monitor.faults, word), "rb") as file:
        told = json.loads(file.read())
    assert (told["host"], told["attempt"], told[layout.AFTER_END]) == ("b", 2, True)
    assert watcher.planned == ["node b gives no sign of life any more"]


def test_a_monitor_without_ranks_stays_for_seconds_only_and_only_for_a_failure(tmp_path, monkeypatch):
    from firstfault.recorder import nodes

    watcher = _alone(tmp_path, monkeypatch)
    assert not watcher.monitor.nodes.stays()
    watcher.silent = [pulse.Lost("b", 3.4, "0000000007")]
    watcher.turn()
    assert not os.path.exists(watcher.monitor.faults)
    watcher.monitor.nodes.failed(0)
    monkeypatch.setattr(watcher.monitor.nodes.pulse, "watches", lambda: False)
    assert not watcher.monitor.nodes.stays()  # the neighbours have ended too
    monkeypatch.setattr(watcher.monitor.nodes.pulse, "watches", lambda: True)
    monkeypatch.setattr(nodes, "STAY_S", -1.0)
    assert not watcher.monitor.nodes.stays()


@pytest.mark.parametrize(("anew", "stays"), [(0.0, False), (103.0, True), (99.0, False), (107.0, False)])
def test_a_monitor_whose_ranks_failed_stays_longer_where_it_had_to_measure_anew_meanwhile(
    tmp_path, monkeypatch, anew, stays
):
    from firstfault.recorder import nodes

    watcher = _alone(tmp_path, monkeypatch)
    clock = iter([100.0, 107.0])
    monkeypatch.setattr(nodes.time, "monotonic", lambda: next(clock))
    watcher.monitor.nodes.failed(0)
    watcher.monitor.nodes.pulse.anew = anew
    assert watcher.monitor.nodes.stays() is stays


def test_a_folder_of_words_is_not_listed_each_second_and_no_word_is_missed(tmp_path, monkeypatch):
    from firstfault.recorder import listing

    looks, real = [], os.listdir
    monkeypatch.setattr(listing.os, "listdir", lambda path: looks.append(path) or real(path))
    folder = listing.Listing(str(tmp_path))
    for _ in range(100):
        folder.names()
    assert len(looks) <= 15
    (tmp_path / "word.json").touch()
    assert folder.names() == ["word.json"]
    for _ in range(20):
        folder.names()
    status = os.stat(tmp_path)
    (tmp_path / "other.json").touch()
    os.utime(tmp_path, ns=(status.st_atime_ns, status.st_mtime_ns))  # as where the time is coarse
    assert any("other.json" in folder.names() for _ in range(listing.EACH))
    folder.again()
    assert len(folder.names()) == 2
    (tmp_path / "word.json").unlink()
    assert listing.Listing(str(tmp_path / "gone")).names() == []


PROGRAM = """
import os, socket, sys, time
socket.gethostname = lambda: sys.argv[1]
import firstfault.recorder as recorder
recorder.start(sys.argv[2])
for step in range(10_000):
    recorder.step()
    time.sleep(0.05)
"""


def wait_for(seconds, what):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = what()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"not there after {seconds} s")


def test_the_monitor_loads_nothing_that_is_large_and_that_it_has_no_use_for():
    """One runs on each node, all the time: 14.5 MB when all is loaded, of which Python itself is 8.5."""
    large = ("hashlib", "tempfile", "pathlib", "random", "urllib.parse", "logging", "ssl", "msgspec")
    code = f"import sys; sys.path.insert(0, sys.argv[1]); import firstfault.recorder.monitor; print([m for m in {large} if m in sys.modules])"
    root = os.path.dirname(os.path.dirname(os.path.dirname(layout.__file__)))
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, root], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"


@pytest.mark.skipif(sys.platform != "linux", reason="monitors run on Linux")
def test_a_node_that_dies_with_its_monitor_is_told_to_the_other(tmp_path):
    box, local = tmp_path / "box", tmp_path / "local"
    env = {
        **os.environ,
        "FIRSTFAULT_RECORD_LOCAL": str(local),
        "FIRSTFAULT_RECORD_RUN": "two",
        "FIRSTFAULT_RECORD_GRACE_S": "0",
        "FIRSTFAULT_RECORD_GATHER_S": "0.5",
        "WORLD_SIZE": "2",
    }
    programs = {
        host: subprocess.Popen(
            [sys.executable, "-c", PROGRAM, host, str(box)], env={**env, "RANK": str(rank)}, start_new_session=True
        )
        for rank, host in enumerate(["node-a", "node-b"])
    }
    monitors = {}
    try:
        for host in programs:
            wait_for(30, (box / "two" / host / layout.HEARTBEAT_FILE).exists)
            wait_for(30, (box / "two" / host / layout.PULSE).exists)
            lock = next(local / folder / host / LOCK for folder in os.listdir(local))
            monitors[host] = json.loads(lock.read_text().splitlines()[0])["pid"]
        time.sleep(2 * pulse.SOON_S)  # until each knows the other
        os.kill(monitors["node-b"], signal.SIGKILL)
        programs["node-b"].kill()
        word = wait_for(30, lambda: next(iter((box / "two" / layout.FAULTS).glob("node-b.node.*.json")), None))
        told = json.loads(word.read_text())
        assert (told["kind"], told["host"], told["by"], told["ranks"]) == (layout.LOST, "node-b", "node-a", [1])
        wait_for(15, lambda: list((box / "two" / "node-a").glob("bundle-*")))
        assert programs["node-a"].poll() is None
    finally:
        for program in programs.values():
            program.kill()
            program.wait()
        if "node-a" in monitors:
            wait_for(30, lambda: not os.path.exists(f"/proc/{monitors['node-a']}"))
