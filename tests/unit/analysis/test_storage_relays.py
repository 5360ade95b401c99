"""What lines of others say of a target whose own log holds nothing of it, old faults elsewhere, and stores that are not the job's."""

import pytest
from tests.unit.analysis.storage_logs import STOP, daemon, piece, said, state

from firstfault.analysis.questions.storage_chain import _active, _strength, origin
from firstfault.analysis.questions.storage_symptom import Symptom
from firstfault.analysis.state.storage_clusters import of_the_failure, stores
from firstfault.analysis.state.storage_faults import troubles
from firstfault.model.storage import Daemon, DaemonRole
from firstfault.model.words import Strength

RELAY = "W moss:749 x-get-batch[k7Qm2xWpL]-s3://asr: remote target abort [t[nodet1]: x-get-batch[k7Qm2xWpL] out-of-bounds index 3]"


def relay(number, at=STOP - 5):
    return piece(daemon(number), source=number, lines=[said(at, "aistore.batch_aborted", RELAY, source=number)])


def found(*pieces, asked=None):
    held = state(*pieces)
    return origin(held, _active(troubles(held), STOP), asked)


@pytest.mark.parametrize("ends", [STOP - 240, STOP + 600])
def test_the_target_that_relays_name_is_the_origin_whatever_its_own_log_holds(ends):
    root = found(relay(2), relay(3), piece(daemon(1), source=1, ends=ends))
    assert (root.trouble.shown, root.by) == ("ais-target-1", {"nodet2", "nodet3"})
    assert _strength(root, Symptom.READ) == (Strength.SUPPORTED, Strength.SUPPORTED)


def test_one_relay_alone_names_it_as_a_possibility():
    root = found(relay(2), piece(daemon(1), source=1))
    assert root.trouble.shown == "ais-target-1"
    assert _strength(root, Symptom.READ)[1] is Strength.POSSIBLE


@pytest.mark.parametrize(("ago", "shown"), [(1700, "ais-target-1"), (20, "ais-target-4")])
def test_a_fault_elsewhere_outranks_the_named_target_only_where_it_is_fresh(ago, shown):
    faulty = piece(daemon(4), source=4, lines=[said(STOP - ago, "aistore.disk_fault", source=4)])
    assert found(relay(2), relay(3), piece(daemon(1), source=1), faulty).trouble.shown == shown


OTHER = Daemon(DaemonRole.TARGET, "zZ0t9090", "backup-7")
PATHS = {
    0: "ais_logs/a.tar.gz!a.log",
    2: "ais_logs/b.tar.gz!b.log",
    3: "ais_logs/c.tar.gz!c.log",
    9: "other/z.tar.gz!z.log",
}


def test_another_store_is_told_apart_and_its_faults_are_none_of_the_job_s():
    held = state(relay(2), relay(3), piece(OTHER, source=9, lines=[said(STOP - 30, "aistore.disk_fault", source=9)]))
    assert sorted(len(part) for part in stores(held, PATHS)) == [1, 2]
    own = of_the_failure(held, PATHS, None, ["nodet2"])
    assert {d.daemon.name for d in own.daemons} == {"ais-target-2", "ais-target-3"}
    assert of_the_failure(held, PATHS, "zZ0t9090", ["nodet2"]).daemons == tuple(
        d for d in held.daemons if d.daemon == OTHER
    )


@pytest.mark.parametrize(
    ("who", "paths", "text"),
    [
        (OTHER, {**PATHS, 9: "ais_logs/z.tar.gz!z.log"}, "E fshc:57 disk fault"),
        (OTHER, PATHS, "E fshc:57 t[nodet2] disk fault"),
        (OTHER, PATHS, "E moss:57 x-get-batch[k7Qm2xWpL]-s3://asr: disk fault"),
        (Daemon(DaemonRole.TARGET, "zZ0t9090", "ais-target-77"), PATHS, "E fshc:57 disk fault"),
    ],
    ids=["folder", "names a member", "same batch", "names alike"],
)
def test_what_has_anything_in_common_is_one_store(who, paths, text):
    held = state(
        relay(2), relay(3), piece(who, source=9, lines=[said(STOP - 30, "aistore.disk_fault", text, source=9)])
    )
    assert len(stores(held, paths)) == 1
    assert of_the_failure(held, paths, None, ["nodet2"]) is held


def test_where_both_stores_failed_batches_nothing_is_left_out():
    held = state(relay(2), piece(OTHER, source=9, lines=[said(STOP - 3, "aistore.out_of_bounds", source=9)]))
    assert of_the_failure(held, PATHS, None, ["nodet2", "zZ0t9090"]) is held
