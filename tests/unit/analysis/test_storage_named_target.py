"""The one target to which others' lines point, where nothing joins the clocks of the store and the job."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.analysis.storage_logs import STOP, daemon, piece, said, state

from firstfault.analysis.state.storage_unjoined import lone_trouble, named_target
from firstfault.model.storage import Daemon, DaemonRole

RELAYS = [
    "W moss:749 x-get-batch[k7]-s3://asr: remote target abort [t[nodet1]: x-get-batch[k7]-s3://asr t[nodet1] out-of-bounds index 63]",
    'I moss:311 x-get-batch[k7] aborting: remote target aborted xaction: get-batch[k7] [t[nodet1]: "x-get-batch[k7] out-of-bounds"]',
]
BROKEN = "W moss:980 x-get-batch[k7]-s3://asr t[nodet{0}] failed to receive asr/shard-7.tar/u9.flac from t[nodet1]: read tcp 10.0.0.3:51082->10.0.0.9:40022: i/o timeout"
WAITED = "W moss:1111 x-get-batch[k7]-s3://asr: timed out waiting for missing entry at index 12 [ t[nodet{0}], wid=Zx9, total-wait=30s ]"
MOVED = [
    "I moss:311 x-get-batch[k7]-s3://asr aborting: starting x-rebalance[g12]",
    "W moss:1499 get-batch[k7] err: x-get-batch[k7] aborted, reason: starting x-rebalance[g12] [ work:wid=Zx9 ]",
]


def target(*lines, stop=STOP):
    """What is found among lines (daemon, time, signature, text) of a store in some zone."""
    daemons = sorted({line[0] for line in lines} | {5, 6})
    pieces = [
        piece(daemon(n), source=n, lines=[said(at, s, text, source=n) for d, at, s, text in lines if d == n])
        for n in daemons
    ]
    held = state(*pieces, offset=None)
    found = named_target(replace(held, job=replace(held.job, stop=stop)))
    return None if found is None else found[0].node


@pytest.mark.parametrize("text", RELAYS)
@pytest.mark.parametrize("shift", [0, 8 * 3600])
def test_relays_of_several_targets_name_the_origin(text, shift):
    relays = [(n, STOP - 5 - shift, "aistore.batch_aborted", text) for n in (2, 3, 4)]
    assert target(*relays) == "nodet1"
    own = (1, STOP - 90 - shift, "aistore.disk_critical", "")
    assert target(own, *relays) == "nodet1"


def broken(receiver, at=STOP - 5):
    return (receiver, at, "aistore.stream_ended", BROKEN.format(receiver))


def test_a_receiver_names_the_sender_that_has_a_fault_of_its_own():
    assert target(broken(2), (1, STOP - 40, "aistore.disk_fault", "")) == "nodet1"
    assert target(broken(2), broken(3)) == "nodet1"
    assert target(broken(2)) is None


@pytest.mark.parametrize("receiver", [2, 3])
def test_the_target_that_waited_in_vain_names_itself_in_the_brackets_and_nobody_is_pointed_at(receiver):
    waited = (receiver, STOP - 5, "aistore.batch_entry_missing", WAITED.format(receiver))
    assert target(waited, (4, STOP - 5, "aistore.batch_entry_missing", WAITED.format(4))) is None


def test_a_daemon_known_by_its_host_alone_may_be_the_one_that_its_own_line_names():
    who = Daemon(DaemonRole.TARGET, "", "ais-target-2")
    line = said(STOP - 5, "aistore.stream_ended", BROKEN.format(2), source=2)
    fault = said(STOP - 40 + 8 * 3600, "aistore.disk_fault", source=1)
    held = state(piece(who, source=2, lines=[line]), piece(daemon(1), source=1, lines=[fault]), offset=None)
    assert named_target(held) is None


@pytest.mark.parametrize("text", RELAYS)
def test_where_two_are_named_neither_is_taken(text):
    lines = [(2, STOP - 5, "aistore.batch_aborted", text), (3, STOP - 5, "aistore.batch_aborted", text)]
    other = text.replace("t[nodet1]", "t[nodet4]")
    assert target(*lines, (5, STOP - 4, "aistore.batch_aborted", other)) is None


@pytest.mark.parametrize("text", MOVED)
@pytest.mark.parametrize("shift", [0, -5 * 3600])
def test_the_one_that_stopped_before_the_others_gave_up_for_a_rebalance(text, shift):
    moved = [(n, STOP - 5 - shift, "aistore.batch_aborted", text) for n in (2, 3, 4)]
    assert target((1, STOP - 10 - shift, "aistore.stopping", ""), *moved) == "nodet1"


@pytest.mark.parametrize("text", MOVED)
def test_a_rebalance_without_the_one_that_stopped_names_nobody(text):
    moved = [(n, STOP - 5, "aistore.batch_aborted", text) for n in (2, 3, 4)]
    assert target(*moved) is None
    assert target((1, STOP - 3600, "aistore.stopping", ""), *moved) is None
    assert target((1, STOP - 10, "aistore.stopping", ""), (5, STOP - 9, "aistore.stopping", ""), *moved) is None
    assert target((2, STOP - 10, "aistore.stopping", ""), *moved) is None


def test_lines_of_another_time_name_nobody():
    relays = [(n, STOP - 2000, "aistore.batch_aborted", RELAYS[0]) for n in (2, 3)]
    assert target(*relays) is None
    apart = [(n, STOP - 5 - 3600 * n, "aistore.batch_aborted", RELAYS[0]) for n in (2, 3)]
    assert target(*apart) is None


KALIVE = "W kalive:279 p[nodep1] failed to fast-kalive t[nodet1] err: [ dial tcp 10.0.0.5:51082: connect: connection refused 0 ]"
REMOVED = (
    "E kalive:444 slow-kalive failure after 3 attempts - removing t[nodet1] from Smap v41[u8Xk, p[nodep1], t=5, p=3]"
)


def lone(*lines, asked="nodet1", stop=STOP):
    """The one target in trouble among lines (daemon, time, signature, text, fields), by its first sign of trouble."""
    daemons = sorted({line[0] for line in lines} | {1, 5, 6})
    pieces = [
        piece(daemon(n), source=n, lines=[said(at, s, text, source=n, **f) for d, at, s, text, f in lines if d == n])
        for n in daemons
    ]
    held = state(*pieces, offset=None)
    return lone_trouble(replace(held, job=replace(held.job, stop=stop)), asked)


@pytest.mark.parametrize("late", [5, 25, 80])
def test_a_target_that_is_removed_after_the_client_gave_up_had_been_missed_before(late):
    lines = [
        (2, STOP - 4, "aistore.keepalive_failed", KALIVE, {}),
        (2, STOP + late, "aistore.member_removed", REMOVED, {"name": "nodet1"}),
    ]
    found = lone(*lines)
    assert found is not None
    assert (found.node, found.first.at) == ("nodet1", STOP - 4)
    own = lone(*lines, (1, STOP - 17, "aistore.memory_critical", "W common:549 t[nodet1] alert: oom", {}))
    assert (own.signature, own.first.at) == ("aistore.memory_critical", STOP - 17)


def test_a_target_that_nobody_missed_before_the_client_gave_up_is_not_named():
    removed = (2, STOP + 25, "aistore.member_removed", REMOVED, {"name": "nodet1"})
    assert lone(removed, asked=None) is None
    assert lone(removed, (2, STOP + 3, "aistore.keepalive_failed", KALIVE, {}), asked=None) is None


TERMINATED = "E base:172 shared-dm[nodet{0}=>nodet1] terminated [write tcp 10.0.0.7:51082->10.0.0.3:51082: write: connection reset by peer]"


@pytest.mark.parametrize(("witnesses", "zone"), [((2, 3), True), ((2,), False)])
def test_a_fault_of_which_two_others_tell_may_be_of_any_zone(witnesses, zone):
    away = 8 * 3600
    fault = (1, STOP - 40 - away, "aistore.disk_fault", "", {})
    others = [(n, STOP - 30 - away, "aistore.stream_ended", TERMINATED.format(n), {}) for n in witnesses]
    assert (lone(fault, *others, asked=None) is not None) is zone
