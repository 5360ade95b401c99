"""Loaders that fail, stand, die, grow and end unevenly: each fault is made for real in a child, and named."""

import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from firstfault.cli.check_data import command
from firstfault.dataset import dry_run, loader_child
from firstfault.dataset.dry_run import Limits, frames_of
from firstfault.dataset.judge import judge
from firstfault.dataset.trial import KEPT, KINDS, Trial
from firstfault.pipelines.check_data import DataOptions, check_data
from firstfault.pipelines.errors import PipelineError

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _here(monkeypatch):
    monkeypatch.chdir(HERE)


def tried(name, **more):
    return check_data([f"feeds:{name}"], DataOptions(**{"seconds": 30.0, "stall_s": 20.0, **more}))


def named(found, check):
    (one,) = [f for f in found.findings if f.check == check and (f.names or check != "item.stalls")]
    return one


def test_a_dataset_without_fault_has_none():
    found = tried("Items", batches=0)
    assert (found.state, found.findings) == ("ok", [])
    (rank,) = found.ranks
    assert (rank.end, rank.batches, rank.items, rank.failed) == ("ended", 40, 40, 0)
    assert rank.median_s is not None
    assert rank.median_s <= rank.p99_s <= rank.longest_s


def test_items_that_fail_are_counted_named_and_folded():
    found = tried("Bad", batches=0)
    bad = {f.what.partition(": ")[0]: f for f in found.findings if f.check == "item.fails"}
    assert [(f.count, f.names[0]) for f in bad.values()] == [(4, "3 (/set/img-3.jpg)"), (1, "5 (/set/img-5.jpg)")]
    assert found.ranks[0].failed == 5
    assert any("feeds.py" in line for line in next(iter(bad.values())).lines)
    assert found.state == "fail"


def test_an_item_that_stands_is_named_with_where_it_stands():
    begin = time.monotonic()
    found = tried("Stands", seconds=4.0, stall_s=1.0)
    assert time.monotonic() - begin < 40
    one = named(found, "item.stalls")
    assert (one.state, one.names) == ("fail", ["4 (/set/img-4.jpg)"])
    assert "in read" in one.lines[0]
    assert found.ranks[0].end == "stalled"
    assert found.slowest[0].name == "4 (/set/img-4.jpg)"


def test_a_slow_item_is_named():
    one = named(tried("Slow", batches=0), "item.slow")
    assert (one.state, one.names[0]) == ("warn", "7 (/set/img-7.jpg)")


@pytest.mark.parametrize(
    ("name", "check", "word"),
    [
        ("Dies", "loader.dies", "signal 11"),
        ("fails", "loader.fails", "no such split"),
        ("leaves", "loader.fails", "SystemExit"),
    ],
)
def test_code_that_ends_the_process_is_told(name, check, word):
    found = tried(name)
    assert word in named(found, check).what
    assert found.state == "fail"


def test_memory_has_a_limit():
    found = tried("Grows", batches=0, memory_mb=300)
    assert found.ranks[0].end == "memory"
    assert named(found, "loader.memory").state == "fail"


def test_ranks_that_end_apart_are_named():
    found = tried("uneven", world=3)
    assert found.per_rank == [5, 4, 5]
    assert named(found, "ranks.uneven").ranks == [1]


def test_ranks_that_read_the_same_are_named():
    one = named(tried("not_split", world=2), "stream.every_rank")
    assert (one.count, one.ranks) == (6, [0, 1])


def test_items_of_one_id_are_counted():
    one = named(tried("Same", batches=0), "item.same_key")
    assert (one.count, one.state) == (10, "warn")


def test_what_the_code_prints_is_no_report():
    assert tried("talks").state == "ok"


@pytest.mark.parametrize("name", ["nothing", "Items.nothing"])
def test_a_name_that_is_not_there_is_wrong_use(name):
    with pytest.raises(PipelineError, match="nothing of that name"):
        tried(name)


def test_nothing_of_a_trial_outlives_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "forks.py").write_text(
        "import subprocess, sys, time\ndef make():\n    p = subprocess.Popen(['sleep', '600'])\n    open('pid', 'w').write(str(p.pid))\n    time.sleep(600)\n"
    )
    monkeypatch.setattr(dry_run, "IMPORT_S", 8.0)  # a busy machine starts two programs within it
    found = check_data(["forks:make"], DataOptions(seconds=1.0))
    pid = int((tmp_path / "pid").read_text())
    assert not Path(f"/proc/{pid}").exists() or b") Z" in Path(f"/proc/{pid}/stat").read_bytes()
    assert named(found, "loader.no_batch").lines


def test_what_a_child_tells_is_bounded_and_never_trusted():
    trial = Trial(0)
    for number in range(300):
        trial.take(
            {
                "k": "x",
                "pid": 1,
                "w": None,
                "n": f"{number}",
                "s": 0,
                "type": f"E{number}",
                "text": "t",
                "frames": [f"f:{number}"],
            },
            0.0,
        )
    assert len(trial.failures) == KINDS
    assert sum(f.count for f in trial.failures.values()) == 300
    for bad in ({}, {"k": "e"}, {"k": "sim", "pid": 1, "rank": "x"}):
        with pytest.raises((KeyError, ValueError, TypeError)):
            trial.take(bad, 0.0)
    for number in range(50):
        trial.take({"k": "e", "pid": 1, "w": None, "n": str(number), "s": number, "h": "same"}, 0.0)
    assert len(trial.slow) == KEPT
    assert trial.repeated["content"] == 49


def test_frames_are_those_of_the_thread_that_was_asked():
    text = 'Thread 0x01 (most recent call first):\n  File "a.py", line 1 in x\n\nCurrent thread 0x02 (most recent call first):\n  File "b.py", line 2 in y\n'
    assert frames_of(text) == ["b.py:2 in y"]


def test_the_command_has_exit_codes_and_json(tmp_path):
    runner = CliRunner()
    assert runner.invoke(command, ["feeds:Items", "--batches", "3"], standalone_mode=False).return_value == 0
    done = runner.invoke(command, ["feeds:Bad", "--format", "json"], standalone_mode=False)
    assert (done.return_value, '"check":"item.fails"' in done.output.replace(" ", "")) == (1, True)
    with pytest.raises(PipelineError):
        runner.invoke(command, ["feeds:Items", "--ranks", "3"], standalone_mode=False, catch_exceptions=False)


class Sampler:
    """As torch's for ranks: `rank` of `num_replicas`, padded."""

    def __init__(self, size, rank=0, shared=False):
        self.num_replicas, self.rank, self.shared = size, rank, shared

    def __iter__(self):
        return iter(range(0 if self.shared else self.rank, 41, 1 if self.shared else self.num_replicas))


class Loader:
    """What of a loader is asked for indexes."""

    batch_sampler = None

    def __init__(self, sampler):
        self.sampler = sampler


@pytest.mark.parametrize(
    ("sampler", "check", "state"),
    [
        (Sampler(4), "ranks.uneven", "fail"),
        (Sampler(2), "sampler.world_size", "fail"),
        (Sampler(4, shared=True), "sampler.overlaps", "fail"),
        (range(41), "sampler.not_split", "warn"),
    ],
)
def test_a_sampler_is_asked_for_all_ranks(monkeypatch, sampler, check, state):
    trial = Trial(0)
    monkeypatch.setattr(loader_child, "tell", lambda kind, **told: trial.take({"k": kind, "pid": 1, **told}, 0.0))
    loader_child.simulate(Loader(sampler))
    found = {f.check: f for f in judge([trial], 4, Limits(), None) if f.check.startswith(("sampler", "ranks"))}
    assert {c: f.state for c, f in found.items()} == {check: state}


def test_an_even_sampler_raises_no_alarm(monkeypatch):
    trial = Trial(0)
    monkeypatch.setattr(loader_child, "tell", lambda kind, **told: trial.take({"k": kind, "pid": 1, **told}, 0.0))
    monkeypatch.setattr(Sampler, "__iter__", lambda self: iter(range(self.rank, 40, self.num_replicas)))
    loader_child.simulate(Loader(Sampler(8)))
    assert judge([trial], 8, Limits(), None) == []


@pytest.mark.parametrize(("free", "state"), [(1, "fail"), (600, "warn"), (100_000, None)])
def test_shared_memory_is_held_against_what_the_workers_keep_ready(free, state):
    trial = Trial(0)
    trial.take({"k": "made", "pid": 1, "workers": 4, "prefetch": 2}, 0.0)
    for number in range(4):
        trial.take({"k": "worker", "pid": 10 + number, "w": number}, 0.0)
    trial.take({"k": "batch", "pid": 1, "s": 0.1, "bytes": 64 << 20}, 0.0)
    found = [f.state for f in judge([trial], 1, Limits(), (1 << 40, free << 20)) if f.check == "shm.small"]
    assert found == ([] if state is None else [state])


@pytest.mark.torch
@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
class TestTorch:
    """The same with loaders of torch and their workers."""

    @pytest.mark.parametrize("name", ["bad_loader", "spawned"])
    def test_items_are_named_through_workers(self, name):
        found = tried(name, batches=0, world=2, ranks=(1,))
        assert sorted(f.count for f in found.findings if f.check == "item.fails") == [1, 4]
        assert found.ranks[0].workers[0].items > 0

    def test_a_worker_that_stands(self):
        one = named(tried("stands_loader", seconds=5.0, stall_s=1.0), "item.stalls")
        assert "worker 0" in one.what
        assert "in read" in one.lines[0]

    def test_the_sampler_of_a_job_that_is_only_pretended(self):
        found = tried("split", world=8, ranks=(3,))
        assert found.per_rank == [2] * 8
        assert found.findings == []

    def test_a_stream_that_each_worker_gives_whole(self):
        assert named(tried("stream", batches=0), "stream.every_worker").count == 20

    def test_counting_for_other_ranks_leaves_the_sampler_as_it_was(self):
        # Bad items have odd numbers: they are of rank 1, and rank 1 alone meets them.
        counts = {
            rank: sum(
                f.count
                for f in tried("remembers", batches=0, world=2, ranks=(rank,)).findings
                if f.check == "item.fails"
            )
            for rank in (0, 1)
        }
        assert counts == {0: 0, 1: 5}
        assert tried("remembers", batches=0, world=4, ranks=(2,)).per_rank == [10] * 4

    def test_a_loader_without_a_batch_is_named(self):
        found = tried("no_items", world=2, ranks=(0, 1))
        assert found.state == "fail"
        assert named(found, "loader.no_batch").ranks == [0, 1]
