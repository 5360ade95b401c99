"""Who waited for entries is not at fault, who did not deliver is; one complaint is no proof, and equal witnesses name nobody."""

import pytest
from tests.unit.analysis.storage_logs import STOP, daemon, piece, said, state

from firstfault.analysis.questions.storage_chain import _active, _strength, origin
from firstfault.analysis.questions.storage_symptom import Symptom
from firstfault.analysis.state.storage_blame import NOT_DELIVERED, blamed, named_sender
from firstfault.analysis.state.storage_faults import troubles
from firstfault.model.words import Strength

WAITED = [
    "W moss:901 x-get-batch[k7Qm2xWpL]-s3://vox: timed out waiting for missing entry at index 4 [ t[nodet1], wid=Zq8, total-wait=30s ]",
    'W moss:1699 get-batch[k7Qm2xWpL] err: x-get-batch[k7Qm2xWpL]-s3://vox: timed out waiting for missing entry at index 4 [ t[nodet1], wid="Zq8", total-wait=20s ]',
    'E x-get-batch[k7Qm2xWpL]-s3://vox: timed out waiting for 4 "hole" to fill',
    'E x-get-batch[k7Qm2xWpL]-s3://vox: work item "Zq8" exceeded soft-errors limit: 7 (max: 6)',
    'W x-get-batch[k7Qm2xWpL]-s3://vox: wid="Zq8" exceeded soft-errors limit: 9 (max: 8)',
    "W moss:1290 x-get-batch[k7Qm2xWpL]-s3://vox Zq8 GFN fail: vox/s-3.tar/u1.flac",
]
FROM = [
    "W moss:820 x-get-batch[k7Qm2xWpL]-s3://vox t[nodet{by}] failed to receive vox/s-3.tar from t[nodet2]: unexpected EOF",
    "E moss:901 x-get-batch[k7]-s3://vox: network error while retrieving entry at index 4 [ err=shared-dm[nodet2<=nodet{by}] ]",
    "W recv:311 t[nodet{by}] shared-dm shared-dm[nodet2<=nodet{by}] sbr_pdu_data:[ctx: vox/u7.flac(size=9) err: unexpected EOF]",
    "E base:201 retry timeout shared-dm[nodet{by}=>nodet2] [ connection refused 8 10.2s ]",
]


def waits(by, text=WAITED[0], at=STOP - 1):
    return said(at, "aistore.batch_entry_missing", text, source=by)


def broke(by, text=FROM[0], at=STOP - 2):
    return said(at, "aistore.stream_ended", text.format(by=by), source=by)


def held(**lines):
    pieces = [piece(daemon(n), source=n, lines=lines.get(f"t{n}", ())) for n in range(1, 5)]
    return state(*pieces)


def judged(**lines):
    """The origin's name with both strengths, for a client that gave up a read; None for nobody."""
    store = held(**lines)
    found = origin(store, _active(troubles(store), STOP))
    return None if found is None else (found.trouble.shown, *_strength(found, Symptom.READ))


@pytest.mark.parametrize("text", WAITED)
def test_the_target_that_only_waited_is_not_at_fault(text):
    assert judged(t1=[waits(1, text)]) is None


@pytest.mark.parametrize("text", WAITED)
def test_of_two_at_their_limit_the_one_that_did_not_wait_fits_but_is_not_proved(text):
    load = {n: said(STOP - 300, "aistore.disk_critical", source=n) for n in (1, 2)}
    name, _, who = judged(t1=[load[1], waits(1, text)], t2=[load[2]])
    assert (name, who) == ("ais-target-2", Strength.POSSIBLE)


@pytest.mark.parametrize("text", FROM)
def test_one_receiver_s_word_makes_a_sender_possible_and_two_make_it_supported(text):
    assert judged(t1=[broke(1, text), waits(1)]) == ("ais-target-2", Strength.SUPPORTED, Strength.POSSIBLE)
    two = judged(t1=[broke(1, text), waits(1)], t3=[broke(3, text)])
    assert two == ("ais-target-2", Strength.SUPPORTED, Strength.SUPPORTED)


def test_a_sender_at_its_limit_that_a_receiver_names_is_the_origin_though_the_receiver_s_neighbour_is_at_its_limit_too():
    load = {n: said(STOP - 300, "aistore.disk_critical", source=n) for n in (2, 3)}
    name, category, who = judged(t1=[broke(1), waits(1)], t2=[load[2]], t3=[load[3]])
    assert (name, category, who) == ("ais-target-2", Strength.ESTABLISHED, Strength.SUPPORTED)


def test_receivers_that_name_different_senders_name_nobody():
    other = FROM[0].replace("nodet2", "nodet4")
    assert judged(t1=[broke(1), waits(1)], t3=[broke(3, other)]) is None


def test_a_sender_whose_stream_broke_off_is_told_with_the_line_of_who_says_it():
    store = held(t1=[broke(1), waits(1)])
    found = origin(store, _active(troubles(store), STOP))
    assert found.trouble.signature == NOT_DELIVERED
    assert found.trouble.first.event.span.source == 1


def test_the_pipe_that_a_sender_finds_broken_names_nobody():
    pipe = (
        "E base:172 shared-dm[nodet1=>nodet2] terminated [write tcp 10.0.0.7:51082->10.0.0.3:51082: write: broken pipe]"
    )
    assert blamed(_active(troubles(held(t1=[broke(1, pipe)])), STOP)) is None


ABORT = "E x-get-batch[k7Qm2xWpL]-s3://vox t[nodet1] RecvObj: t[nodet1] out-of-bounds index 6 (recv'd len=0, wid=Zq8)"
RELAY = "W moss:749 x-get-batch[k7Qm2xWpL]-s3://vox: remote target abort [t[nodet1]: x-get-batch[k7Qm2xWpL] out-of-bounds index 6]"


def test_an_abort_of_one_daemon_is_established_only_with_another_s_word_or_trouble_before_it():
    own = said(STOP - 2, "aistore.out_of_bounds", ABORT, source=1)
    assert judged(t1=[own])[1] is Strength.SUPPORTED
    assert judged(t1=[own], t2=[said(STOP - 1.9, "aistore.batch_aborted", RELAY, source=2)])[1] is Strength.ESTABLISHED
    assert judged(t1=[said(STOP - 200, "aistore.disk_critical", source=1), own])[1] is Strength.ESTABLISHED


@pytest.mark.parametrize("signature", ["aistore.out_of_bounds", "aistore.batch_aborted", "aistore.rejected"])
def test_of_targets_that_say_the_same_at_one_moment_none_is_the_first(signature):
    lines = {f"t{n}": [said(STOP - 2 + n * 0.01, signature, ABORT, source=n)] for n in (1, 2, 3)}
    assert judged(**lines) is None
    assert judged(t1=[said(STOP - 9, signature, ABORT, source=1)], t2=lines["t2"])[0] == "ais-target-1"


@pytest.mark.parametrize("text", ["aborting: user request", "aborting: xaction stopped", "aborting: context canceled"])
def test_who_prints_that_a_job_was_aborted_may_only_have_been_told_so(text):
    assert judged(t1=[said(STOP - 2, "aistore.batch_aborted", f"I moss:311 get-batch[k7] {text}", source=1)]) is None


@pytest.mark.parametrize("kind", ["aistore.disk_critical", "aistore.memory_critical", "aistore.cpu_critical"])
def test_an_entry_that_came_too_late_was_sent_by_the_one_target_at_its_limit(kind):
    own = said(STOP - 2, "aistore.out_of_bounds", ABORT, source=1)
    relay = said(STOP - 1.9, "aistore.batch_aborted", RELAY, source=2)
    load = {n: said(STOP - 300, kind, source=n) for n in (1, 3, 4)}
    assert judged(t1=[own], t2=[relay], t3=[load[3]])[::2] == ("ais-target-3", Strength.POSSIBLE)
    assert judged(t1=[own], t2=[relay], t3=[load[3]], t4=[load[4]])[::2] == ("ais-target-1", Strength.POSSIBLE)
    assert judged(t1=[load[1], own], t2=[relay], t3=[load[3]])[::2] == ("ais-target-1", Strength.SUPPORTED)
    assert judged(t1=[own], t2=[relay])[::2] == ("ais-target-1", Strength.SUPPORTED)


@pytest.mark.parametrize("text", ["reason: starting x-rebalance[g12]", "starting x-resilver[r7]"])
def test_batches_that_a_rebalance_ended_are_nobody_s_and_a_member_that_joined_before_is_told(text):
    moved = {
        f"t{n}": [
            said(STOP - 2, "aistore.batch_aborted", f"I moss:311 x-get-batch[k7]-s3://vox aborting: {text}", source=n)
        ]
        for n in (1, 2, 3)
    }
    assert judged(**moved) is None
    joined = "I clustermap:370 joined t[nEwt4410] -> Smap v43[u8Xk, p[p1], t=5, p=1]"
    known = said(STOP - 50, "aistore.membership", joined, source=4, name="nEwt4410")
    assert judged(**moved, t4=[known]) == ("nEwt4410", Strength.SUPPORTED, Strength.POSSIBLE)
    back = said(STOP - 50, "aistore.membership", joined.replace("nEwt4410", "nodet2"), source=4, name="nodet2")
    assert judged(**moved, t4=[back]) is None


@pytest.mark.parametrize("kind", ["aistore.disk_fault", "aistore.panic", "aistore.out_of_space"])
def test_of_faults_of_one_moment_none_is_the_first(kind):
    assert judged(t1=[said(STOP - 9, kind, source=1)], t2=[said(STOP - 9, kind, source=2)]) is None
    assert judged(t1=[said(STOP - 9, kind, source=1)], t2=[said(STOP - 40, kind, source=2)])[0] == "ais-target-2"


@pytest.mark.parametrize("text", FROM)
@pytest.mark.parametrize("shift", [0, 8 * 3600])
def test_without_a_common_clock_two_receivers_still_name_the_sender(text, shift):
    two = {f"t{n}": [broke(n, text, at=STOP - 2 - shift)] for n in (1, 3)}
    found, why = named_sender(held(**two))
    assert (found.shown, why) == ("ais-target-2", "Several targets got nothing more from it")
    assert named_sender(held(t1=two["t1"])) is None
    assert named_sender(held(**two, t4=[said(STOP - shift - 3, "aistore.batch_aborted", RELAY, source=4)])) is None
    apart = {"t1": two["t1"], "t3": [broke(3, text, at=STOP - 7200 - shift)]}
    assert named_sender(held(**apart)) is None
