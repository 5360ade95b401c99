"""A container's end in a pod's description is dated by its own block, and an earlier run of it is told as one."""

from firstfault.readers.pod_card import ending

CARD = b"""Name: w-0
Containers:
  a:
    State:          Running
      Started:      Wed, 04 Mar 2026 09:59:00 +0000
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
      Started:      Tue, 03 Mar 2026 09:00:00 +0000
      Finished:     %s
    Restart Count:  1
"""


class Store:
    def __init__(self, data):
        self.data = data

    def read(self, source, offset, length):
        del source
        return self.data[offset : offset + length]


def of(finished, word=b"Reason: "):
    data = CARD % finished
    start = data.rindex(b"\n", 0, data.index(word)) + 1
    return ending(Store(data), 0, start, data[start:].split(b"\n")[0])


def test_the_end_is_dated_by_the_field_of_its_block():
    found = of(b"Tue, 03 Mar 2026 22:00:00 +0000")
    assert (found.last, found.finished.day, found.finished.hour, found.finished.zone) == (True, 3, 22, "Z")


def test_the_time_to_the_next_start_tells_a_restart_from_another_run():
    assert of(b"Tue, 03 Mar 2026 22:00:00 +0000").restarted_after == 11 * 3600 + 59 * 60
    assert of(b"Wed, 04 Mar 2026 09:58:55 +0000").restarted_after == 5


def test_a_block_without_its_end_states_none():
    found = of(b"")
    assert (found.finished, found.restarted_after) == (None, None)


def test_the_present_state_is_no_earlier_run():
    data = b"    State:  Terminated\n      Reason:  OOMKilled\n      Finished:  Wed, 04 Mar 2026 10:04:52 +0000\n"
    start = data.index(b"      Reason")
    found = ending(Store(data), 0, start, data[start:].split(b"\n")[0])
    assert (found.last, found.finished.minute, found.restarted_after) == (False, 4, None)


def test_other_lines_are_of_no_block():
    assert (
        ending(Store(b"train-worker-7   0/1   OOMKilled   0   12m\n"), 0, 0, b"train-worker-7   0/1   OOMKilled")
        is None
    )
    assert ending(Store(b"      Reason: Error\n"), 0, 0, b"      Reason: Error") is None
