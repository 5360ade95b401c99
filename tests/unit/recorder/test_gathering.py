"""What comes from the node to the shared folder: whatever changed, also where it is as long as before."""

import os

from firstfault.recorder import format as layout
from firstfault.recorder.clean import Cleaner
from firstfault.recorder.gathering import gather


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
