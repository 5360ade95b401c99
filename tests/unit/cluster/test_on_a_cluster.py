"""Scanning and reading on the workers of a Dask cluster: the same answer, whatever becomes of the workers."""

import logging
import os
import shutil
import signal
from pathlib import Path

import pytest

from firstfault.cli.main import run
from firstfault.model.until import OVER, STOPPED
from firstfault.pipelines import site, spread
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.errors import PipelineError
from firstfault.pipelines.options import DiagnoseOptions
from firstfault.scan import cluster as room
from firstfault.scan import tasks
from firstfault.signatures.library import load_library

distributed = pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.threads,
    pytest.mark.filterwarnings(
        "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning", "ignore::UserWarning:distributed"
    ),
]  # of the library, where its processes are killed
INLINE = DiagnoseOptions(engine="inline")
CASES = sorted(Path(__file__).parents[2].glob("cases/*/logs"))
JOB = CASES[0].parent.parent / "xid45-after-nvlink-fault" / "logs"


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as made:
        yield made


@pytest.fixture
def own():
    """A cluster that a test may break."""
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as made:
        yield made


def on(made):
    return DiagnoseOptions(engine=f"dask:{made.scheduler_address}")


def everywhere(made, function):
    with distributed.Client(made, set_as_default=False) as client:
        return client.run(function)


@pytest.fixture
def many(tmp_path):
    """Sixty copies of a job's files, and one file that is split."""
    for number in range(60):
        for file in JOB.iterdir():
            shutil.copy(file, tmp_path / f"{number:02d}-{file.name}")
    return tmp_path


@pytest.fixture
def split_small(monkeypatch):
    """Files are split from a few kilobytes on."""
    monkeypatch.setattr(tasks, "SMALLEST", 4096)
    monkeypatch.setattr(tasks, "UNDIVIDED", 6144)
    monkeypatch.setattr(spread, "UNDIVIDED", 6144)


def _of_a_site(folder):
    assert (
        run(["signatures", "new", "site.quota", "--dir", str(folder), "--line", "FATAL quota of scratch is used up"])
        == 0
    )


def _break(monkeypatch, after):
    """Calls `after` once, when the first task with pieces has told its result."""
    real, done = room.Cluster.outcomes, []

    def outcomes(self, *given):
        for outcome in real(self, *given):
            yield outcome
            if not done:
                done.append(1)
                after()

    monkeypatch.setattr(room.Cluster, "outcomes", outcomes)


@pytest.mark.parametrize("case", CASES[::8], ids=lambda path: path.parent.name)
def test_the_answer_is_that_of_one_machine(cluster, case):
    assert diagnose([case], on(cluster)) == diagnose([case], INLINE)


def test_large_files_are_split_and_the_answer_is_the_same(cluster, split_small):
    for case in CASES[3::40]:
        assert diagnose([case], on(cluster)) == diagnose([case], INLINE)


def test_archives_and_standard_input_too(cluster, tmp_path):
    packed = shutil.make_archive(str(tmp_path / "job"), "gztar", JOB)
    assert diagnose([packed], on(cluster)) == diagnose([packed], INLINE)
    with next(JOB.iterdir()).open("rb") as one, next(JOB.iterdir()).open("rb") as again:
        assert diagnose(["-"], on(cluster), stdin=one) == diagnose(["-"], INLINE, stdin=again)


def test_signatures_of_a_site_are_used_there(cluster, tmp_path):
    folder = tmp_path / "site"
    _of_a_site(folder)
    log = tmp_path / "a.log"
    log.write_text("step 1\nFATAL quota of scratch is used up\n")
    ours = DiagnoseOptions(engine="inline", signatures=(folder,))
    theirs = DiagnoseOptions(engine=on(cluster).engine, signatures=(folder,))
    assert diagnose([log], theirs) == diagnose([log], ours)


def test_a_worker_that_is_killed_costs_nothing(own, many, monkeypatch):
    pids = list(everywhere(own, os.getpid).values())
    _break(monkeypatch, lambda: os.kill(pids[0], signal.SIGKILL))
    assert diagnose([many], on(own)) == diagnose([many], INLINE)


def test_all_workers_killed_and_none_to_come(own, many, monkeypatch, caplog):
    monkeypatch.setattr(room, "ALONE", 1.0)
    _break(monkeypatch, lambda: own.scale(0))
    with caplog.at_level(logging.WARNING, "firstfault.cluster"):
        assert diagnose([many], on(own)) == diagnose([many], INLINE)


def test_a_scheduler_that_goes_away(own, many, monkeypatch):
    monkeypatch.setattr(room, "ALONE", 1.0)
    monkeypatch.setattr(room, "WAIT", 2.0)
    _break(monkeypatch, own.close)
    assert diagnose([many], on(own)) == diagnose([many], INLINE)


def _sees_others():
    from firstfault.pipelines import site as there

    there.Site.seen = lambda self, source: 1


def _cannot_read():
    from firstfault.readers import store

    def read(self, source, offset, length):
        raise OSError(5, "Input/output error")

    store.Store.read = store.Store.head = read
    store.Store.read_into = lambda self, source, offset, buffer: read(self, source, offset, 0)


def _is_older():
    from firstfault.pipelines import site as there

    there.__version__ = "0.0.1"


def _tells_nonsense():
    from firstfault.pipelines import site as there

    there.Transport.pack = lambda self, piece, result: b"\0" * 8 + b"\x93\x01\x02\x03"


@pytest.mark.parametrize("how", [_sees_others, _cannot_read, _is_older, _tells_nonsense])
def test_what_a_worker_cannot_do_or_sees_otherwise_is_done_here(own, many, how, caplog):
    everywhere(own, how)
    with caplog.at_level(logging.WARNING, "firstfault.cluster"):
        assert diagnose([many], on(own)) == diagnose([many], INLINE)
    told = " ".join(r.getMessage() for r in caplog.records)
    assert ("were done on this machine" in told) is (how is not _sees_others)
    assert ("0.0.1" in told) is (how is _is_older)


def test_an_interrupt_gives_what_is_known_so_far(cluster, many, monkeypatch):
    def stop():
        raise KeyboardInterrupt

    real, told = spread._Spread._pieces, []

    def pieces(self, batches):
        _break(monkeypatch, stop)
        told.append(1)
        return real(self, batches)

    monkeypatch.setattr(spread._Spread, "_pieces", pieces)
    found = diagnose([many], on(cluster))
    assert told
    reasons = [row.reason for row in found.coverage]
    assert STOPPED in reasons
    assert "" in reasons
    assert len(found.coverage) == len(list(many.iterdir()))


def _is_slow():
    import time

    from firstfault.pipelines import site as there

    real = there.Site.wanted

    def wanted(self, *given):
        time.sleep(30)
        return real(self, *given)

    there.Site.wanted = wanted


def test_a_deadline_is_kept_where_workers_are_slow(own, many):
    everywhere(own, _is_slow)
    found = diagnose([many], DiagnoseOptions(engine=on(own).engine, deadline=4))
    assert OVER in {row.reason for row in found.coverage}
    assert found.verdict.category != "none"


def test_a_cluster_of_our_own_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert diagnose([JOB], DiagnoseOptions(engine="dask")) == diagnose([JOB], INLINE)
    assert [p for p in tmp_path.rglob("*") if p != place] == []


def test_a_scheduler_file_is_an_address(cluster, tmp_path):
    file = tmp_path / "scheduler.json"
    with distributed.Client(cluster, set_as_default=False) as client:
        client.write_scheduler_file(str(file))
    assert diagnose([JOB], DiagnoseOptions(engine=f"dask:{file}")) == diagnose([JOB], INLINE)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense://x", "/no/such/file.json"])
def test_where_nobody_answers_it_says_so(address, monkeypatch):
    monkeypatch.setattr(room, "WAIT", 1.0)
    with pytest.raises(PipelineError, match="cannot be used"):
        diagnose([JOB], DiagnoseOptions(engine=f"dask:{address}"))


def test_a_cluster_without_workers_is_said(monkeypatch):
    monkeypatch.setattr(room, "WAIT", 2.0)
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=None) as empty,
        pytest.raises(PipelineError, match="no worker"),
    ):
        diagnose([JOB], on(empty))


def test_what_tells_one_firstfault_from_another_hangs_on_the_signatures(tmp_path):
    folder = tmp_path / "site"
    _of_a_site(folder)
    assert site.ourselves(load_library()) != site.ourselves(load_library([folder]))
    assert site.ourselves(load_library()) == site.ourselves(load_library())


def test_a_file_that_nobody_named_may_not_name_a_cluster(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "firstfault.toml").write_text('engine = "dask:tcp://127.0.0.1:1"\n')
    (tmp_path / "a.log").write_text("step 1\n")
    assert run(["diagnose", "a.log"]) == 3
    assert "`engine`" in capfd.readouterr().err
