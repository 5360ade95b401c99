"""What comes from the node to the shared folder: whatever changed, also where it is as long as before."""

import os
import time

from firstfault.recorder import format as layout
from firstfault.recorder import gathering
from firstfault.recorder.clean import Cleaner
from firstfault.recorder.gathering import beat, gather
from firstfault.recorder.ring import Ring


def test_a_dump_of_the_same_length_takes_the_place_of_the_old_one_and_none_is_copied_twice(tmp_path):
    spool, node = tmp_path / "spool", tmp_path / "node"
    spool.mkdir()
    names = [f"rank-00003.0.4711{end}" for end in (layout.RECORDER, layout.STACKS)]
    seen = {}

    def bring(text):
        for name in names:
            (spool / name).write_text(text, encoding="ascii")
        gather(str(spool), str(node), "node-a", Cleaner(), seen=seen)
        return [(node / name).read_text(encoding="utf-8") for name in names]

    assert all(text.endswith("first one") for text in bring("first one"))
    assert all(text.endswith("other one") for text in bring("other one"))
    for name in names:
        os.unlink(node / name)
    gather(str(spool), str(node), "node-a", Cleaner(), seen=seen)
    assert os.listdir(node) == []


def test_what_could_not_be_written_is_tried_again(tmp_path):
    spool, node = tmp_path / "spool", tmp_path / "node"
    spool.mkdir()
    name = f"rank-00003.0.4711{layout.STACKS}"
    (spool / name).write_text("Current thread", encoding="ascii")
    (node / name).mkdir(parents=True)
    seen = {}
    gather(str(spool), str(node), "node-a", Cleaner(), seen=seen)
    os.rmdir(node / name)
    gather(str(spool), str(node), "node-a", Cleaner(), seen=seen)
    assert (node / name).is_file()


def test_stacks_that_were_emptied_since_keep_what_was_brought(tmp_path):
    spool, node = tmp_path / "spool", tmp_path / "node"
    spool.mkdir()
    name = f"rank-00003.0.4711{layout.STACKS}"
    for text in ("Current thread", ""):
        (spool / name).write_text(text, encoding="ascii")
        gather(str(spool), str(node), "node-a", Cleaner())
    assert "Current thread" in (node / name).read_text(encoding="utf-8")


def test_stacks_that_are_asked_for_again_and_again_do_not_fill_the_memory_of_the_node(tmp_path, monkeypatch):
    monkeypatch.setattr(gathering, "MOST_STACKS", 1000)
    spool, node = tmp_path / "spool", tmp_path / "node"
    spool.mkdir()
    name = f"rank-00003.0.4711{layout.STACKS}"
    for times, left in ((10, 10 * 12), (200, 0)):
        (spool / name).write_text("frame, line\n" * times, encoding="ascii")
        gather(str(spool), str(node), "node-a", Cleaner(), seen={})
        assert (spool / name).stat().st_size == left
        assert (node / name).read_text(encoding="utf-8").count("frame, line") == min(times, 1000 // 12)


def ring_of(tmp_path, wall, uptime_s):
    """The ring of a process that has told nothing since it was made, on a machine that has run for a while."""
    head = layout.Head(layout.MAIN, 4711, 99, 3, 3, 4, 0, -1, 0, 0, 0, int(wall * 1e9), "node-a")
    return Ring(str(tmp_path / f"ring-{uptime_s}"), head)


def read(ring):
    return layout.read_ring(bytes(ring.map))


def test_a_process_that_tells_nothing_has_been_still_since_its_own_start_not_since_the_machine_s(tmp_path):
    now = 1_800_000_000.0
    for started_ago, uptime in ((12.5, 65_786), (0.0, 40 * 60), (7200.0, 10_000_000)):
        told = beat(read(ring_of(tmp_path, now - started_ago, uptime)), now, int(uptime * 1e9))
        assert abs(told["still_s"] - started_ago) < 0.01
        assert told["last"][:19] == told["since"][:19]


def test_a_process_whose_start_is_not_known_says_nothing_of_how_long_it_is_still(tmp_path):
    assert not {"still_s", "last"} & set(beat(read(ring_of(tmp_path, 0, 4000)), 1_800_000_000.0, 4_000 * 10**9))


def test_what_a_process_has_told_counts_not_its_start(tmp_path):
    ring = ring_of(tmp_path, 1_800_000_000.0 - 5000, 1)
    ring.step(4)
    told = beat(read(ring), 1_800_000_000.0, time.monotonic_ns() + 30 * 10**9)
    assert 29.9 < told["still_s"] < 31
