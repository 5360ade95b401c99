"""Following a job: an answer whenever something was written, told as changed only where it says something else."""

import itertools

import pytest

from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.errors import PipelineError
from firstfault.pipelines.follow import claim, followed
from firstfault.pipelines.options import DiagnoseOptions

INLINE = DiagnoseOptions(engine="inline")
STEPS = "".join(f"2025-09-26 10:00:{n:02d} step {n} loss 2.{n}\n" for n in range(10))
BROKEN = (
    "[rank1]: Traceback (most recent call last):\n"
    '[rank1]:   File "/w/train.py", line 3, in <module>\n'
    "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
)


class Writer:
    """Writes the next piece each time somebody sleeps, and notes for how long."""

    def __init__(self, path, pieces):
        self.path = path
        self.pieces = iter(pieces)
        self.slept = []

    def __call__(self, seconds):
        self.slept.append(seconds)
        piece = next(self.pieces, "")
        if piece:
            with self.path.open("a") as file:
                file.write(piece)


def test_each_answer_is_that_of_a_whole_run_and_it_ends_when_the_job_is_decided(tmp_path):
    log = tmp_path / "run.log"
    log.write_text("start\n")
    writer = Writer(log, [STEPS, "", STEPS, BROKEN, "", ""])
    looks = []
    for look in followed([tmp_path], INLINE, every=10, quiet=25, sleep=writer):
        looks.append(look)
        assert look.diagnosis == diagnose([tmp_path], INLINE)
    assert [look.diagnosis.verdict.category for look in looks] == [Category.UNKNOWN] * 3 + [Category.GPU_CUDA]
    assert looks[0].changed
    assert looks[-1].changed
    assert not looks[2].changed
    assert len(writer.slept) == 7  # four pieces of which one is empty, then three times ten seconds of quiet


def test_a_job_that_only_stands_is_not_left(tmp_path):
    (tmp_path / "run.log").write_text(STEPS)
    waits = itertools.count()

    def sleep(seconds):
        if next(waits) > 50:
            raise KeyboardInterrupt

    told = []
    with pytest.raises(KeyboardInterrupt):
        told.extend(followed([tmp_path], INLINE, every=10, quiet=25, sleep=sleep))
    assert next(waits) > 50


def test_files_that_come_go_and_are_rotated_are_seen(tmp_path):
    first, second = tmp_path / "a.log", tmp_path / "b.log"
    first.write_text(STEPS)
    steps = iter([lambda: second.write_text(STEPS), lambda: first.rename(tmp_path / "a.log.1"), second.unlink, None])

    def sleep(seconds):
        do = next(steps)
        if do is None:
            raise KeyboardInterrupt
        do()

    looks = []
    with pytest.raises(KeyboardInterrupt):
        looks.extend(followed([tmp_path], INLINE, sleep=sleep))
    names = [{row.file.rpartition("/")[2] for row in look.diagnosis.coverage} for look in looks]
    assert names == [{"a.log"}, {"a.log", "b.log"}, {"a.log.1", "b.log"}, {"a.log.1"}]


def test_standard_input_is_refused():
    with pytest.raises(PipelineError, match="cannot be followed"):
        next(followed(["-"], INLINE))


def test_another_wording_is_no_change(tmp_path):
    (tmp_path / "run.log").write_text(STEPS + BROKEN)
    verdict = diagnose([tmp_path], INLINE).verdict
    import msgspec

    assert claim(msgspec.structs.replace(verdict, summary="other words")) == claim(verdict)
    assert claim(msgspec.structs.replace(verdict, failed=None)) != claim(verdict)


def test_an_interrupt_while_it_reads_ends_it(tmp_path, monkeypatch):
    from firstfault.scan import stretch

    (tmp_path / "run.log").write_text(STEPS)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(stretch, "profile_source", interrupted)
    monkeypatch.setattr("firstfault.scan.stretch.regions", interrupted)
    looks = list(followed([tmp_path], INLINE, sleep=lambda _: None))
    assert len(looks) == 1
    assert "interrupted" in looks[0].diagnosis.verdict.summary
