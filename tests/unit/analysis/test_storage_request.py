"""A failed batch of another bucket is another job's; a connection that never came about is not explained by load elsewhere."""

from types import SimpleNamespace

import pytest
from tests.unit.analysis.storage_logs import STOP, daemon, piece, said, state

from firstfault.analysis.questions.storage_chain import _active, origin
from firstfault.analysis.questions.storage_symptom import _CALLERS
from firstfault.analysis.state.storage import Moment
from firstfault.analysis.state.storage_faults import troubles
from firstfault.analysis.state.storage_unjoined import named_target
from firstfault.analysis.storage_request import (
    _BUCKETS,
    _NO_WAY,
    _UNREACHED,
    Request,
    by_reads,
    concerned,
    names_batches,
    of_other_jobs,
    without_others,
)
from firstfault.analysis.storage_words import what

OURS = Request(asked=None, buckets=frozenset({"vox"}), batches=frozenset(), unreached=False, no_way=False)
BATCHES = {
    "4.2": "E moss:758 x-get-batch[k7Qm2xWpL]-s3://{b} t[nodet1] RecvObj: out-of-bounds index 6 (recv'd len=0, wid=Zq8)",
    "5.0": "I moss:331 get-batch[k7Qm2xWpL] aborting: x-get-batch[k7Qm2xWpL]-ais://{b} t[nodet1] out-of-bounds index 6",
    "relay": "W moss:749 x-get-batch[k7Qm2xWpL]-gs://{b}: remote target abort [t[nodet1]: x-get-batch[k7Qm2xWpL] out-of-bounds]",
}


def root(of, *pieces):
    store = without_others(state(*pieces), of)
    found = origin(store, _active(concerned(troubles(store), of), STOP), of.asked)
    return None if found is None else found.trouble.shown


@pytest.mark.parametrize("text", BATCHES.values(), ids=BATCHES)
def test_a_batch_of_another_bucket_neither_blames_nor_moves_the_time_of_the_fault(text):
    def daemons(bucket):
        line = said(STOP - 60, "aistore.out_of_bounds", text.format(b=bucket))
        disk = said(STOP - 20, "aistore.disk_fault", source=1)
        return piece(daemon(1), lines=[line]), piece(daemon(2), source=1, lines=[disk])

    assert root(OURS, *daemons("music")) == "ais-target-2"
    assert root(OURS, *daemons("vox")) == "ais-target-1"
    assert root(OURS._replace(buckets=frozenset()), *daemons("music")) == "ais-target-1"


def test_without_a_common_clock_an_abort_of_another_bucket_names_nobody_either():
    def daemons(bucket):
        text = BATCHES["relay"].format(b=bucket)
        return [
            piece(daemon(n), source=n, lines=[said(STOP - 5, "aistore.batch_aborted", text, source=n)]) for n in (2, 3)
        ]

    assert named_target(without_others(state(*daemons("music"), offset=None), OURS)) is None
    assert named_target(without_others(state(*daemons("vox"), offset=None), OURS))[0].node == "nodet1"


def test_newer_lines_without_a_bucket_are_told_apart_by_those_that_name_it_and_else_by_the_id():
    bare = said(STOP - 30, "aistore.batch_aborted", "I moss:331 get-batch[k7Qm2xWpL] aborting: out-of-bounds index 6")
    named = said(STOP - 90, "aistore.not_found", "W x-get-batch[k7Qm2xWpL]-s3://music late entry", source=1)
    assert root(OURS, piece(daemon(1), lines=[bare]), piece(daemon(2), source=1, lines=[named])) is None
    assert root(OURS, piece(daemon(1), lines=[bare])) == "ais-target-1"
    other = OURS._replace(batches=frozenset({"p2Rr8yBnM"}))
    assert root(other, piece(daemon(1), lines=[bare])) is None
    assert root(OURS._replace(batches=frozenset({"k7Qm2xWpL"})), piece(daemon(1), lines=[bare])) == "ais-target-1"


@pytest.mark.parametrize(
    "text",
    [
        "Sequential GET fallback failed for s3://vox/s-7.tar",
        "REQ_URL:http://ais-proxy-0:51080/v1/objects/vox/s-7.tar?provider=aws",
        "Max retries exceeded with url: /v1/ml/moss/vox (Caused by ReadTimeoutError)",
        "Failed to fetch object s-7.tar from bucket ais://vox: timeout",
    ],
)
def test_the_client_s_error_names_the_bucket(text):
    assert {n for found in _BUCKETS.finditer(text) for n in found.groups() if n} == {"vox"}


LOST = OURS._replace(unreached=True)


@pytest.mark.parametrize("kind", ["aistore.disk_critical", "aistore.disk_fault", "aistore.out_of_space"])
def test_a_connection_that_never_came_about_is_not_explained_by_what_befell_another_daemon(kind):
    pieces = piece(daemon(1), lines=[said(STOP - 60, kind)]), piece(daemon(2), source=1)
    assert root(LOST, *pieces) is None
    assert root(LOST._replace(asked="nodet2"), *pieces) is None
    assert root(LOST._replace(asked="nodet1"), *pieces) == "ais-target-1"
    assert root(OURS, *pieces) == "ais-target-1"


def test_a_daemon_that_died_explains_it_and_its_memory_before_is_told():
    died = [said(STOP - 60, "aistore.memory_critical"), said(STOP - 30, "aistore.panic")]
    store = state(piece(daemon(1), lines=died), piece(daemon(2), source=1))
    found = origin(store, _active(concerned(troubles(store), LOST), STOP))
    assert (found.trouble.shown, found.trouble.signature) == ("ais-target-1", "aistore.memory_critical")


@pytest.mark.parametrize(
    ("text", "no_way"),
    [
        ("Failed to establish a new connection: [Errno 113] No route to host", True),
        ("Failed to establish a new connection: [Errno 101] Network is unreachable", True),
        ("NewConnectionError('<x>: Failed to establish a new connection: [Errno 111] Connection refused')", False),
        ("NameResolutionError: Failed to resolve 'ais-proxy' ([Errno -3] Temporary failure in name resolution)", False),
    ],
)
def test_a_connection_that_was_not_made(text, no_way):
    assert _UNREACHED.search(text)
    assert bool(_NO_WAY.search(text)) is no_way


@pytest.mark.parametrize("text", ["Read timed out. (read timeout=60)", "[Errno 104] Connection reset by peer"])
def test_a_connection_that_was_there_and_broke_is_another_thing(text):
    assert _UNREACHED.search(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "lhotse.ais.batch_loader.AISBatchLoaderError: Invalid object URL: 'vox/s-7.tar'",
        "lhotse.ais.batch_loader.AISBatchLoaderError: Unsupported storage type 'in_memory'. Supported types: ['url']",
        "aistore.sdk.errors.InvalidBckProvider: Invalid bucket provider 'x'",
        "aistore.sdk.errors.ErrBckNotFound: STATUS:404, MESSAGE: bucket does not exist",
    ],
)
def test_words_about_the_caller_are_none_about_the_store(text):
    assert _CALLERS.search(text)


@pytest.mark.parametrize(
    "text",
    [
        "lhotse.ais.batch_loader.AISBatchLoaderError: Sequential GET fallback failed for s3://vox/s-7.tar",
        "lhotse.ais.batch_loader.AISBatchLoaderError: Timeout at request index 3, but cannot recover: index out of range",
        "aistore.sdk.errors.AISError: STATUS:500, MESSAGE: internal",
    ],
)
def test_words_about_the_store_stay_so(text):
    assert _CALLERS.search(text) is None


WOKE = "E tgtobj:81 t[nodet1]: waking up FSHC to check mp[/ais/nvme3n1, nvme3n1, nvme], err: read x: input/output error"
WELL = "I fshc:185 mp[/ais/nvme3n1, nvme3n1, nvme] appears to be healthy"


@pytest.mark.parametrize(
    ("more", "well", "blamed"),
    [
        ("## IO errors (7) exceeded configured limit, which is: (no more than 5 in 10s)", WELL, False),
        (WOKE, WELL, False),
        ("W fshc:217 proceeding to disable mp[/ais/nvme3n1, nvme3n1, nvme]", WELL, True),
        ("E fshc:147 mp[/ais/nvme3n1, nvme3n1, nvme] FAULTED stat: input/output error", WELL, True),
        (WOKE, WELL.replace("nvme3n1", "nvme1n1"), True),
        (WOKE, "I fshc:10 nothing", True),
    ],
)
def test_a_disk_that_the_check_found_healthy_did_not_fail(more, well, blamed):
    lines = [
        said(STOP - 100, "aistore.disk_fault", WOKE),
        said(STOP - 99, "aistore.disk_fault", more, line=2),
        said(STOP - 90, "aistore.harmless", well, line=3),
    ]
    assert (root(OURS, piece(daemon(1), lines=lines)) == "ais-target-1") is blamed


def test_a_disk_that_fails_after_it_was_found_healthy_did():
    lines = [
        said(STOP - 400, "aistore.disk_fault", WOKE),
        said(STOP - 390, "aistore.harmless", WELL, line=2),
        said(STOP - 50, "aistore.disk_fault", WOKE, line=3),
    ]
    assert root(OURS, piece(daemon(1), lines=lines)) == "ais-target-1"


def test_the_mountpath_is_told_where_any_line_of_the_fault_names_it():
    lines = [
        said(STOP - 100, "aistore.disk_fault", "## IO errors (7) exceeded configured limit"),
        said(STOP - 99, "aistore.disk_fault", "proceeding to disable mp[/ais/nvme3n1]", line=2, path="/ais/nvme3n1"),
    ]
    store = state(piece(daemon(1), lines=lines))
    assert "a disk of it failed (/ais/nvme3n1)" in what(store, troubles(store)[0])


@pytest.mark.parametrize(
    ("bucket", "line", "other"),
    [
        ("vox", BATCHES["4.2"].format(b="music"), True),
        ("vox", BATCHES["4.2"].format(b="vox"), False),
        ("", BATCHES["4.2"].format(b="music"), False),
        ("vox", "proceeding to disable mp[/ais/nvme3n1]", False),
    ],
)
def test_a_batch_of_a_bucket_that_the_job_does_not_read_is_of_another_job(bucket, line, other):
    event = said(
        STOP,
        "aistore.batch_loader",
        f"Sequential GET fallback failed for s3://{bucket}/s-1.tar" if bucket else "failed",
    ).event
    signature = "aistore.disk_fault" if "mp[" in line else "aistore.out_of_bounds"
    moment = Moment(STOP, said(STOP, signature, line).event)
    scene = SimpleNamespace(events=(event,))
    assert of_other_jobs(scene, [moment]) == [other]
    assert names_batches(scene) is bool(bucket)


def test_buckets_of_repeated_reads_count_only_where_the_error_names_none():
    plain = OURS._replace(buckets=frozenset(), read=frozenset({"vox"}))
    assert by_reads(plain).buckets == {"vox"}
    assert by_reads(OURS._replace(read=frozenset({"other"}))).buckets == {"vox"}
