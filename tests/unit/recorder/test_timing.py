"""How batches are timed: by clocks, or in samples where steps are short."""

import time

import pytest

from firstfault.recorder import format as layout
from firstfault.recorder.hooks.timing import SAMPLED, STRETCH_NS, Timing
from firstfault.recorder.ring import LIVE

MS = 1_000_000


class Job:
    """A program on a clock of its own, with a loader whose every batch takes a while."""

    def __init__(self, monkeypatch, step_ms, batch_ms):
        monkeypatch.setattr(time, "monotonic_ns", lambda: self.now)
        self.now, self.step_ns, self.batch_ns = 1_000 * MS, int(step_ms * MS), int(batch_ms * MS)
        self.batches = self.timed = 0
        job = self

        class Iterator:
            def __next__(self):
                job.now += job.batch_ns
                job.batches += 1

        self.iterator, self.timing = Iterator(), Timing()
        self.timing.take(Iterator)

    def run(self, seconds, look_s=1.0):
        """Trains, with a look each second, as the listener's thread takes it."""
        end, look = self.now + int(seconds * 1e9), self.now
        while self.now < end:
            self.timed += self.timing.clocks
            next(self.iterator)
            self.now += self.step_ns - self.batch_ns
            LIVE.beats += 1
            if self.now >= look:
                self.look(in_data=False)
                look += int(look_s * 1e9)

    def look(self, *, in_data):
        self.timing.look(self.now, self.batches, in_data=in_data)

    @property
    def waited_ms(self):
        return LIVE.words[layout.WAITED] / MS


@pytest.fixture(autouse=True)
def alone():
    LIVE.leave()
    yield
    LIVE.leave()


def test_every_batch_of_long_steps_is_timed(monkeypatch):
    job = Job(monkeypatch, step_ms=40, batch_ms=4)
    job.run(60)
    assert job.timed == job.batches
    assert job.waited_ms == pytest.approx(job.batches * 4, rel=0.02)


def test_one_batch_in_ten_of_short_steps_is_timed_and_stands_for_the_others(monkeypatch):
    job = Job(monkeypatch, step_ms=5, batch_ms=2)
    job.run(200)
    assert job.timed / job.batches == pytest.approx(1 / SAMPLED, abs=0.03)
    assert job.waited_ms == pytest.approx(job.batches * 2, rel=0.08)


def test_steps_that_become_long_are_timed_again(monkeypatch):
    job = Job(monkeypatch, step_ms=5, batch_ms=2)
    job.run(30)
    job.step_ns, job.batch_ns = 50 * MS, 30 * MS
    job.run(3)
    timed, batches, waited = job.timed, job.batches, job.waited_ms
    job.run(60)
    assert job.timed - timed == job.batches - batches
    assert job.waited_ms - waited == pytest.approx((job.batches - batches) * 30, rel=0.1)


def test_a_wait_that_no_clock_saw_begin_is_told_by_the_second_look_and_ends_with_it(monkeypatch):
    job = Job(monkeypatch, step_ms=5, batch_ms=2)
    job.run(4.5)
    assert not job.timing.clocks
    words, since = LIVE.words, job.now
    job.look(in_data=True)
    assert words[layout.ASKED] <= words[layout.GIVEN]
    for _ in range(5):
        job.now += 1_000 * MS
        job.look(in_data=True)
        assert words[layout.ASKED] == since
        assert words[layout.ASKED] > words[layout.GIVEN]
    # The batch comes, by the function without clocks in which the program stood; then the forward pass hangs.
    job.batches += 1
    job.now += 1_000 * MS
    job.look(in_data=False)
    assert words[layout.GIVEN] == job.now
    # The next wait is one of its own.
    job.run(1)
    assert words[layout.ASKED] <= words[layout.GIVEN]


def test_a_loader_that_is_slow_but_moves_is_no_wait_without_end(monkeypatch):
    job = Job(monkeypatch, step_ms=5, batch_ms=4.9)
    job.run(4.5)
    assert not job.timing.clocks
    for _ in range(10):
        job.batches += 1
        LIVE.beats += 30
        job.now += STRETCH_NS // 2
        job.look(in_data=True)
        assert LIVE.words[layout.ASKED] <= LIVE.words[layout.GIVEN]


def test_an_error_of_the_loader_goes_through_and_ends_the_wait(monkeypatch):
    class Iterator:
        def __next__(self):
            raise StopIteration

    Timing().take(Iterator)
    with pytest.raises(StopIteration):
        next(Iterator())
    assert LIVE.words[layout.GIVEN] >= LIVE.words[layout.ASKED] > 0
