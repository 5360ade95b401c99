"""How much of the store it takes where the job shows no read that failed: less where it read, and nothing stale."""

import pytest
from tests.unit.analysis.storage_logs import STOP, daemon, piece, said, state

from firstfault.analysis.questions.storage_chain import _active, _enough, _strength, origin
from firstfault.analysis.questions.storage_symptom import Symptom
from firstfault.analysis.state.storage_faults import troubles
from firstfault.model.words import Strength


def disk(ago, kind="aistore.disk_fault"):
    held = state(piece(daemon(1), lines=[said(STOP - ago, kind)]), piece(daemon(2), source=1))
    return origin(held, _active(troubles(held), STOP))


@pytest.mark.parametrize("ago", [20, 250])
def test_a_fresh_fault_makes_content_that_does_not_decode_the_store_s_at_possible_only(ago):
    found = disk(ago)
    assert _enough(found, Symptom.CONTENT, ago)
    assert _strength(found, Symptom.CONTENT) == (Strength.POSSIBLE, Strength.POSSIBLE)


@pytest.mark.parametrize("ago", [400, 900, 1500])
def test_a_fault_after_which_reads_went_well_does_not(ago):
    assert not _enough(disk(ago), Symptom.CONTENT, ago)


@pytest.mark.parametrize(("ago", "enough"), [(60, True), (590, True), (700, False), (1500, False)])
def test_a_rank_that_was_late_while_it_read_needs_a_fault_of_that_time(ago, enough):
    assert _enough(disk(ago), Symptom.READING, ago) is enough


def test_load_alone_is_no_reason_where_no_read_failed():
    found = disk(60, "aistore.disk_critical")
    assert not any(_enough(found, seen, 60) for seen in (Symptom.CONTENT, Symptom.READING, Symptom.WAIT))


def test_a_target_that_carried_load_and_then_failed_is_enough():
    held = state(
        piece(daemon(1), lines=[said(STOP - 70, "aistore.memory_critical")], started=[STOP + 30], begins=STOP - 9000),
        piece(daemon(2), source=1, lines=[said(STOP - 8, "aistore.member_removed", source=1, name="nodet1")]),
    )
    found = origin(held, _active(troubles(held), STOP))
    assert (found.trouble.signature, found.trouble.node) == ("aistore.memory_critical", "nodet1")
    assert _enough(found, Symptom.READING, 8)


@pytest.mark.parametrize("receivers", [1, 3])
def test_a_sender_of_which_several_complain_is_enough_and_of_which_one_does_is_not(receivers):
    text = "W t[nodet{n}] shared-dm shared-dm[nodet9<=nodet{n}] sbr_obj_data:[ctx: a.tar(size=1) err: unexpected EOF]"
    held = state(
        *(
            piece(daemon(n), source=n, lines=[said(STOP - 3, "aistore.stream_ended", text.format(n=n), source=n)])
            for n in range(1, receivers + 1)
        )
    )
    found = origin(held, _active(troubles(held), STOP))
    assert found.trouble.node == "nodet9"
    assert _enough(found, Symptom.READING, 3) is (receivers > 1)
