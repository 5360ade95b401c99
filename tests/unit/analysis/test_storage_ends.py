"""When the process of a daemon ended: by its own last word where there is one, and never by a line of another time."""

from tests.unit.analysis.storage_logs import STOP, daemon, piece, said, state, stats

from firstfault.analysis.questions.storage_chain import _active, origin
from firstfault.analysis.state.storage import Moment
from firstfault.analysis.state.storage_faults import Kind, Trouble, troubles
from firstfault.analysis.storage_words import _of, what

WHO = daemon(1)


def anew(*lines):
    """A daemon that was silent from 50 s before the failure, and began again 20 s after it."""
    before = piece(
        WHO, source=1, lines=lines, counters=[stats(STOP - 110), stats(STOP - 50)], ends=STOP - 50, started=[1.0]
    )
    return state(before, piece(WHO, source=2, begins=STOP + 20, started=[STOP + 20]))


def test_the_line_of_a_crash_is_the_end_and_not_the_last_line_of_counters():
    held = anew(said(STOP - 3, "aistore.panic", "panic: runtime error", source=1))
    root = origin(held, _active(troubles(held), STOP)).trouble
    assert (root.signature, root.first.at) == ("aistore.panic", STOP - 3)
    begun = next(t for t in troubles(held) if t.signature == "aistore.started")
    assert begun.first.at == STOP + 20


def test_without_a_word_of_the_end_the_last_word_is_told_and_its_line_shown():
    held = anew()
    root = next(t for t in troubles(held) if t.signature == "aistore.started")
    assert "its last word before that was at" in what(held, root)
    assert STOP - 50 in {e.when.earliest for e in _of(root)}


def test_the_line_whose_time_is_told_is_cited_first():
    busy = said(STOP - 90, "aistore.disk_busy", "disk nvme0n1 99%", source=1)
    told = said(STOP - 40, "aistore.disk_critical", "pressure", source=1, line=2)
    trouble = Trouble(
        None, "nodet1", "aistore.disk_critical", Kind.LOAD, tuple(Moment(x.at, x.event) for x in (busy, told))
    )
    assert [e.when.earliest for e in _of(trouble)] == [trouble.first.at, STOP - 90]
