"""Which daemon was the origin: faults before load, named before loud, and nobody where nothing tells."""

import pytest
from msgspec.structs import replace
from tests.unit.analysis.storage_logs import STOP, daemon, piece, said, state, stats

from firstfault.analysis.questions.storage_chain import _active, origin
from firstfault.analysis.state.storage_faults import Kind, node_at, troubles
from firstfault.analysis.state.storage_unjoined import lone_trouble
from firstfault.model.evidence import Span
from firstfault.model.storage import DaemonRole, DiskLine

RELAY = "W moss:749 x-get-batch[k7Qm2xWpL]-s3://asr: remote target abort [t[nodet1]: x-get-batch[k7Qm2xWpL] out-of-bounds index 3]"
NEWER = 'I moss:311 x-get-batch[k7] aborting: remote target aborted xaction: get-batch[k7] [t[nodet1]: "x-get-batch[k7] out-of-bounds"]'


def found(*pieces, asked=None):
    held = state(*pieces)
    return origin(held, _active(troubles(held), STOP), asked)


@pytest.mark.parametrize("text", [RELAY, NEWER])
def test_a_relayed_abort_names_the_target_at_which_it_began(text):
    root = found(
        piece(daemon(1), lines=[said(STOP - 200, "aistore.disk_critical"), said(STOP - 5, "aistore.out_of_bounds")]),
        piece(daemon(2), source=1, lines=[said(STOP - 4.9, "aistore.batch_aborted", text, source=1)]),
    )
    assert (root.trouble.shown, root.trouble.signature, root.named) == ("ais-target-1", "aistore.disk_critical", True)
    assert root.batch.signature == "aistore.out_of_bounds"


def test_a_target_whose_logs_are_missing_is_named_by_its_id():
    root = found(piece(daemon(2), lines=[said(STOP - 4.9, "aistore.batch_aborted", RELAY)]))
    assert (root.trouble.shown, root.trouble.daemon) == ("nodet1", None)


def test_broken_streams_before_an_abort_in_one_file_are_no_origin():
    root = found(
        piece(
            daemon(2),
            lines=[said(STOP - 5.1, "aistore.stream_ended"), said(STOP - 4.9, "aistore.batch_aborted", RELAY)],
        ),
        piece(daemon(1), source=1, lines=[said(STOP - 5, "aistore.out_of_bounds", source=1)]),
    )
    assert root.trouble.shown == "ais-target-1"


def test_a_target_that_waits_for_a_saturated_one_is_not_the_origin():
    root = found(
        piece(daemon(1), lines=[said(STOP - 60, "aistore.batch_entry_missing")]),
        piece(daemon(2), source=1, lines=[said(STOP - 300, "aistore.disk_critical", source=1)]),
    )
    assert (root.trouble.shown, root.trouble.signature) == ("ais-target-2", "aistore.disk_critical")


def test_a_removed_node_is_the_origin_whoever_says_it():
    root = found(
        piece(daemon(1, DaemonRole.PROXY), lines=[said(STOP - 60, "aistore.member_removed", name="nodet2")]),
        piece(daemon(2), source=1),
    )
    assert (root.trouble.shown, root.trouble.kind) == ("ais-target-2", Kind.FAULT)


def test_memory_before_a_restart_is_the_root_of_it():
    dying = piece(daemon(1), lines=[said(STOP - 120, "aistore.memory_critical")], ends=STOP - 60)
    anew = piece(daemon(1), source=1, begins=STOP - 20, started=[STOP - 20.0])
    root = found(dying, anew, piece(daemon(2), source=2))
    assert (root.trouble.shown, root.trouble.signature) == ("ais-target-1", "aistore.memory_critical")


def test_a_restart_long_before_is_no_reason():
    assert found(piece(daemon(1), ends=STOP - 7300), piece(daemon(1), source=1, started=[STOP - 7200.0])) is None


def test_load_that_all_targets_share_is_nobody_s():
    lines = [[said(STOP - 60, "aistore.disk_critical", source=n)] for n in range(3)]
    assert found(*(piece(daemon(n), source=n, lines=lines[n]) for n in range(3))) is None


def test_load_that_was_over_is_no_reason():
    calm = said(STOP - 1200, "aistore.pressure", "I lcache:251 hk: [ mem/cpu/disk: low low low ]")
    assert found(piece(daemon(1), lines=[said(STOP - 1800, "aistore.disk_critical"), calm])) is None
    assert found(piece(daemon(1), lines=[said(STOP - 1800, "aistore.disk_critical")])) is not None


def test_a_disk_at_its_limit_without_a_break_is_load():
    disks = tuple(DiskLine(STOP - 600 + 10 * i, "nvme3n1", 99, Span(0, i, 5, i + 1, 1), "x") for i in range(50))
    root = found(piece(daemon(1), disks=disks), piece(daemon(2), source=1))
    assert (root.trouble.shown, root.trouble.signature) == ("ais-target-1", "aistore.disk_critical")
    assert found(piece(daemon(1), disks=disks[::20])) is None


def test_a_state_flag_alone_shows_a_faulted_disk():
    root = found(piece(daemon(1), counters=[stats(STOP - 900, state__flags=6), stats(STOP - 60, state__flags=8198)]))
    assert (root.trouble.shown, root.trouble.signature) == ("ais-target-1", "aistore.disk_fault")


def test_the_daemon_that_the_client_names_comes_before_the_others():
    root = found(
        piece(daemon(1), lines=[said(STOP - 60, "aistore.disk_critical")]),
        piece(daemon(2), source=1, lines=[said(STOP - 90, "aistore.disk_critical", source=1)]),
        asked="nodet1",
    )
    assert (root.trouble.shown, root.named) == ("ais-target-1", True)


def test_keep_alives_that_are_repeated_are_noise():
    assert (
        found(piece(daemon(1, DaemonRole.PROXY), lines=[said(STOP - 60, "aistore.keepalive_retry", name="nodet2")]))
        is None
    )


REBALANCED = "I moss:311 x-get-batch[k7]-s3://asr aborting: reason: starting x-rebalance[g12]"


def fresh(*, lines=(), counters=(), proxy=(), aborts=True):
    """A target whose only file begins shortly before the stop, beside one whose batches are aborted."""
    broken = [said(STOP - 10, "aistore.batch_aborted", REBALANCED, source=1)] if aborts else []
    return found(
        piece(daemon(1), begins=STOP - 40, started=[STOP - 40.0], lines=lines, counters=counters),
        piece(daemon(2), source=1, lines=broken),
        piece(daemon(3, DaemonRole.PROXY), source=2, lines=proxy),
    )


JOINED = said(STOP - 35, "aistore.membership", "I clustermap:370 joined t[nodet1] -> Smap v51[u8Xk]", source=2)


def test_the_first_start_of_a_new_member_is_no_restart_and_its_rebalance_is_told():
    root = fresh(proxy=[JOINED])
    assert (root.trouble.signature, root.trouble.node) == ("aistore.membership", "nodet1")
    assert root.batch.signature == "aistore.batch_aborted"


def test_the_first_start_of_a_member_that_moves_no_data_is_no_trouble():
    assert fresh(proxy=[JOINED], aborts=False) is None


@pytest.mark.parametrize(
    "evidence",
    [
        {"counters": [stats(STOP - 900, get__n=5)]},
        {"lines": [said(STOP - 900, "aistore.pressure")]},
        {"counters": [stats(STOP - 5, state__flags=134)]},
        {
            "proxy": [
                said(STOP - 60, "aistore.keepalive_retry", "W kalive:279 failed to fast-kalive t[nodet1]", source=2)
            ]
        },
    ],
    ids=["counters", "lines", "flag", "missed"],
)
def test_a_start_of_a_process_that_had_run_before_is_a_restart(evidence):
    assert fresh(**{"proxy": [JOINED]} | evidence).trouble.signature == "aistore.started"


def test_the_end_of_a_process_is_dated_by_who_missed_it_first():
    root = found(
        piece(daemon(1), ends=STOP - 300),
        piece(daemon(1), source=1, begins=STOP - 5, started=[STOP - 5.0]),
        piece(
            daemon(2, DaemonRole.PROXY),
            source=2,
            lines=[
                said(STOP - 38, "aistore.keepalive_retry", "W kalive:279 failed to fast-kalive t[nodet1]", source=2)
            ],
        ),
    )
    assert (root.trouble.signature, root.trouble.first.at) == ("aistore.started", STOP - 38)


REMOVED = "E 11:59:50.222668 kalive:444 slow-kalive failure after 3 attempts - removing t[nodet1] from Smap v45[u8Xk]"
MISSED = "W 11:59:20.730338 kalive:279 p[nodep9] failed to fast-kalive t[nodet1] err: [ dial tcp 10.3.0.9:51082: i/o timeout 0 ]"


def unplaced(*faults, asked=None, stop=STOP):
    """The lone trouble of a store whose clock nothing joins to the job's."""
    held = state(
        *(piece(daemon(n), source=n, lines=[said(at, s, source=n)], ends=STOP) for n, at, s in faults), offset=None
    )
    return lone_trouble(replace(held, job=replace(held.job, stop=stop)), asked)


def test_the_one_target_in_trouble_is_found_without_a_common_clock():
    assert unplaced((1, STOP - 60, "aistore.disk_fault")).node == "nodet1"
    assert unplaced((1, STOP - 60, "aistore.disk_fault"), (2, STOP - 50, "aistore.disk_fault")) is None
    assert unplaced((1, STOP - 60, "aistore.disk_fault"), asked="nodet2") is None
    assert unplaced((1, STOP - 60, "aistore.client_gone")) is None


def test_a_fault_of_another_time_is_not_taken_without_a_common_clock():
    assert unplaced((1, STOP + 1800, "aistore.disk_fault")) is None
    assert unplaced((1, STOP - 86400, "aistore.disk_fault")) is None
    assert unplaced((1, STOP - 86400, "aistore.disk_fault"), asked="nodet1") is None


def test_a_target_that_the_client_names_may_have_failed_in_another_zone():
    assert unplaced((1, STOP - 60 + 7 * 3600, "aistore.disk_fault"), asked="nodet1").node == "nodet1"
    assert unplaced((1, STOP - 60 + 7 * 3600, "aistore.disk_fault")) is None


def test_where_the_job_tells_no_time_the_fault_must_be_the_last_of_what_is_told():
    assert unplaced((1, STOP - 60, "aistore.disk_fault"), stop=None).node == "nodet1"
    assert unplaced((1, STOP - 7200, "aistore.disk_fault"), stop=None) is None


@pytest.mark.parametrize("address", ["10.3.0.9", "10.3.0.1", "10.3.0.99"])
def test_a_target_is_known_by_the_address_at_which_others_reach_it(address):
    lines = [said(STOP - 40, "aistore.keepalive_retry", MISSED), said(STOP - 10, "aistore.member_removed", REMOVED)]
    held = state(piece(daemon(9, DaemonRole.PROXY), lines=lines), piece(daemon(1), source=1))
    assert node_at(held, address) == ("nodet1" if address == "10.3.0.9" else None)


def test_an_address_of_two_targets_names_neither():
    lines = [said(STOP - 40 + i, "aistore.keepalive_retry", MISSED.replace("nodet1", f"nodet{i}")) for i in (1, 2)]
    assert node_at(state(piece(daemon(9, DaemonRole.PROXY), lines=lines)), "10.3.0.9") is None


@pytest.mark.parametrize(("loaded", "of", "alike"), [(1, 4, 0), (2, 2, 0), (3, 4, 3), (3, 8, 0), (4, 4, 4)])
def test_load_that_most_targets_carry_is_not_one_target_s_own(loaded, of, alike):
    abort = said(STOP - 1, "aistore.out_of_bounds", "E moss:758 t[nodet1] RecvObj: out-of-bounds index 6")
    pieces = []
    for n in range(1, of + 1):
        lines = [said(STOP - 200, "aistore.disk_critical", source=n)] if n <= loaded else []
        pieces.append(piece(daemon(n), source=n, lines=[*lines, abort] if n == 1 else lines))
    held = state(*pieces)
    found = origin(held, _active(troubles(held), STOP))
    assert (found.trouble.node, found.alike) == ("nodet1", alike)


def test_a_fault_beside_the_load_is_its_own_whatever_the_others_carry():
    pieces = [
        piece(daemon(n), source=n, lines=[said(STOP - 200, "aistore.disk_critical", source=n)]) for n in (2, 3, 4)
    ]
    own = [said(STOP - 210, "aistore.disk_critical"), said(STOP - 20, "aistore.disk_fault", line=2)]
    held = state(piece(daemon(1), lines=own), *pieces)
    found = origin(held, _active(troubles(held), STOP))
    assert (found.trouble.node, found.alike) == ("nodet1", 0)
