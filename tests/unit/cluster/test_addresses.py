"""Evidence at addresses: listed and read in ranges where it lies, with the same answer as from a folder of this machine."""

import io
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from firstfault.cli.main import run
from firstfault.model.words import CoverageState
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions
from firstfault.readers import far
from firstfault.readers.discover import is_address
from firstfault.readers.open import open_inputs

fsspec = pytest.importorskip("fsspec")
pytestmark = [
    pytest.mark.threads,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"),
]
INLINE = DiagnoseOptions(engine="inline")
CASES = sorted(Path(__file__).parents[2].glob("cases/*/logs"))
JOB = CASES[0].parent.parent / "xid45-after-nvlink-fault" / "logs"


@pytest.fixture
def memory():
    store = fsspec.filesystem("memory")
    store.store.clear()
    store.pseudo_dirs[:] = [""]
    yield store
    store.store.clear()


@pytest.fixture(scope="module")
def bucket(tmp_path_factory):
    """A bucket of an S3 server on this machine."""
    pytest.importorskip("s3fs")
    pytest.importorskip("moto.server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told = {
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
    }
    before = {name: os.environ.get(name) for name in told}
    os.environ.update(told)
    log = (tmp_path_factory.mktemp("s3") / "server.log").open("wb")
    server = subprocess.Popen([sys.executable, "-m", "moto.server", "-p", str(port)], stdout=log, stderr=log)
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(told["AWS_ENDPOINT_URL"], timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        store = fsspec.filesystem("s3")
        store.mkdir("jobs")
        yield store
    finally:
        server.kill()
        server.wait()
        log.close()
        fsspec.filesystem("s3").clear_instance_cache()
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@pytest.mark.parametrize("case", CASES[5::60], ids=lambda path: path.parent.name)
def test_a_bucket_gives_the_answer_of_a_folder(bucket, case):
    bucket.put(str(case), f"jobs/{case.parent.name}/", recursive=True)
    assert diagnose([f"s3://jobs/{case.parent.name}/logs"], INLINE) == diagnose([case], INLINE)


def test_workers_read_a_bucket_themselves(bucket):
    distributed = pytest.importorskip("distributed")
    bucket.put(str(JOB), "jobs/spread/", recursive=True)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        found = diagnose(["s3://jobs/spread/logs"], DiagnoseOptions(engine=f"dask:{cluster.scheduler_address}"))
    assert found == diagnose([JOB], INLINE)


def test_archives_and_other_encodings_are_copied_first(bucket, tmp_path):
    packed = Path(shutil.make_archive(str(tmp_path / "job"), "gztar", JOB))
    utf16 = tmp_path / "windows.log"
    utf16.write_bytes((JOB / "kern-gpu-h12.log").read_text().encode("utf-16"))
    for file in (packed, utf16):
        bucket.put(str(file), f"jobs/packed/{file.name}")
        assert diagnose([f"s3://jobs/packed/{file.name}"], INLINE) == diagnose([file], INLINE)


def test_a_large_object_is_read_in_ranges_and_not_copied(bucket, monkeypatch):
    line = b"2025-03-01 10:00:00 step 7 loss 2.5\n"
    bucket.pipe(
        "jobs/large/run.log", line * 400_000 + b"RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
    )
    asked = []
    real = far.FarFiles._range
    monkeypatch.setattr(far.FarFiles, "_range", lambda s, a, o, n: asked.append(n) or real(s, a, o, n))
    monkeypatch.setattr(far.FarFiles, "blocks", None)
    found = diagnose(["s3://jobs/large/"], INLINE)
    assert found.verdict.category == "gpu_cuda"
    assert found.verdict.trigger.line == 400_001
    assert max(asked) <= 8 << 20


def test_several_paths_of_both_kinds_and_globs(bucket, tmp_path):
    shutil.copytree(JOB, tmp_path / "here")
    bucket.put(str(JOB), "jobs/there/", recursive=True)
    found = diagnose([tmp_path / "here", "s3://jobs/there/logs"], INLINE)
    assert {row.file.split("/")[0] for row in found.coverage} == {"here", "logs"}
    bucket.pipe({f"jobs/many/node-{n}.log": b"step 1\n" for n in range(3)} | {"jobs/many/notes.txt": b"step 2\n"})
    found = diagnose(["s3://jobs/many/node-*.log"], INLINE)
    assert [row.file for row in found.coverage] == ["node-0.log", "node-1.log", "node-2.log"]


@pytest.mark.parametrize(
    ("address", "state", "why"),
    [
        ("s3://jobs/no-such-folder/", CoverageState.MISSING, "no such file or folder"),
        ("s3://no-such-bucket/a/", CoverageState.MISSING, "no such file or folder"),
        ("nonsense://x/y", CoverageState.SKIPPED, "Protocol not known"),
    ],
)
def test_what_is_not_there_is_coverage(bucket, address, state, why):
    (row,) = diagnose([address], INLINE).coverage
    assert (row.state, why in row.reason) == (state, True)


def test_a_store_that_refuses_is_coverage_and_the_command_ends_with_2(memory, monkeypatch, capfd):
    memory.pipe("/job/a.log", b"step 1\n")
    memory.pipe("/job/b.log", b"step 1\n")
    real = type(memory).cat_file

    def refused(self, path, start=None, end=None, **more):
        if path.endswith("a.log"):
            raise RuntimeError("403: token has expired")
        return real(self, path, start=start, end=end, **more)

    monkeypatch.setattr(type(memory), "cat_file", refused)
    found = diagnose(["memory://job"], INLINE)
    assert [(r.file, r.state) for r in found.coverage] == [
        ("a.log", CoverageState.SKIPPED),
        ("b.log", CoverageState.READ),
    ]
    assert "403: token has expired" in found.coverage[0].reason
    assert run(["diagnose", "memory://job/a.log"]) == 2
    assert "403: token has expired" in capfd.readouterr().err


def test_a_store_that_stops_in_the_middle_leaves_a_damaged_source(memory, monkeypatch):
    memory.pipe("/job/a.log", b"2025-03-01 10:00:00 step 7 loss 2.5\n" * 200_000)
    real = type(memory).cat_file

    def stops(self, path, start=None, end=None, **more):
        if (start or 0) >= 2 << 20:
            raise ConnectionResetError(104, "Connection reset by peer")
        return real(self, path, start=start, end=end, **more)

    with open_inputs(["memory://job"]) as opened:
        assert opened.sources[0].size == 7_200_000
        monkeypatch.setattr(type(memory), "cat_file", stops)
        opened.store.close()
        with pytest.raises(OSError, match="Connection reset by peer"):
            opened.store.read(opened.sources[0].id, 3 << 20, 10)
    monkeypatch.undo()


def test_names_in_a_store_stay_names(memory):
    memory.pipe("/job/../../etc/passwd", b"step 1\n")
    memory.pipe("/job/.git/config", b"step 1\n")
    memory.pipe("/job/a b\u4e2d.log", b"step 1\n")
    files = [row.file for row in diagnose(["memory://job"], INLINE).coverage]
    assert "a b\u4e2d.log" in files
    assert ".git/" in files
    assert all(not file.startswith("/") for file in files)


def test_a_path_of_this_machine_is_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert is_address("s3://bucket/a")
    assert is_address("zip::s3://bucket/a.zip")
    assert not is_address("a:b")
    (tmp_path / "s3:" / "bucket").mkdir(parents=True)
    (tmp_path / "s3:" / "bucket" / "a").write_text("step 1\n")
    assert not is_address("s3://bucket/a")


def test_without_fsspec_it_says_what_brings_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    (row,) = diagnose(["s3://bucket/a"], INLINE).coverage
    assert "pip install firstfault[cluster]" in row.reason


def test_no_address_no_network():
    code = (
        "import sys; from firstfault.pipelines.diagnose import diagnose; "
        f"diagnose([{str(JOB)!r}]); print([m for m in sys.modules if m.split('.')[0] in ('fsspec', 'distributed', 'dask')])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def test_what_was_read_is_kept_and_the_end_is_known(memory, monkeypatch):
    data = bytes(range(256)) * 20_000
    memory.pipe("/a.bin", data)
    asked = []
    real = far.FarFiles._range
    monkeypatch.setattr(far.FarFiles, "_range", lambda s, a, o, n: asked.append((o, n)) or real(s, a, o, n))
    files = far.FarFiles()
    for offset, length in [(0, 10), (5, 100), (1 << 20, 1), ((1 << 20) - 3, 6), (len(data) - 4, 100), (0, 3 << 20)]:
        assert files.read("memory://a.bin", offset, length) == data[offset : offset + length]
    assert len(asked) == 4
    assert io.BytesIO(b"".join(files.blocks("memory://a.bin"))).getvalue() == data


@pytest.fixture
def web(tmp_path):
    """A web server of this machine that gives no parts of files, refuses `secret` and breaks at `broken`."""
    import http.server
    import threading

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *given):
            super().__init__(*given, directory=str(tmp_path))

        def do_GET(self):
            self.answered(super().do_GET)

        def do_HEAD(self):
            self.answered(super().do_HEAD)

        def answered(self, else_):
            for word, status in (("secret", 403), ("broken", 500)):
                if word in self.path:
                    self.send_error(status)
                    return
            else_()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield tmp_path, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_a_web_server_that_gives_no_parts_is_read_whole(web):
    folder, address = web
    (folder / "job").mkdir()
    text = (
        b"2025-03-01 10:00:00 step 7 loss 2.5\n" * 120_000
        + b"RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
    )
    (folder / "job" / "run.log").write_bytes(text)
    (folder / "job" / "small.log").write_bytes(b"step 1\n")
    for asked in (f"{address}/job/run.log", f"{address}/job/"):
        found = diagnose([asked], INLINE)
        assert found.verdict.category == "gpu_cuda"
        assert found.verdict.trigger.line == 120_001
        assert next(row.bytes for row in found.coverage if row.file == "run.log") == len(text)


@pytest.mark.parametrize(
    ("name", "state", "why"),
    [
        ("gone.log", CoverageState.MISSING, "no such file"),
        ("secret.log", CoverageState.SKIPPED, "no permission"),
        ("broken.log", CoverageState.SKIPPED, "500"),
    ],
)
def test_what_a_web_server_answers_is_told_as_it_is(web, name, state, why):
    (row,) = diagnose([f"{web[1]}/{name}"], INLINE).coverage
    assert (row.state, why in row.reason) == (state, True)


def test_a_server_that_is_down_is_not_a_file_that_is_missing():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (row,) = diagnose([f"http://127.0.0.1:{port}/a.log"], INLINE).coverage
    assert row.state is CoverageState.SKIPPED


def test_what_opens_the_way_is_shown_nowhere(web, capfd):
    folder, address = web
    (folder / "a.log").write_bytes(b"step 1\nRuntimeError: no\n")
    signed = f"{address.replace('//', '//me:hunter2pw@')}/a.log?token=abcdef123456"
    for words in (
        [signed],
        [signed, f"{address}/secret.log"],
        [f"{address.replace('//', '//me:hunter2pw@')}/gone.log?token=abcdef123456"],
    ):
        for form in ("text", "json", "markdown"):
            run(["diagnose", *words, "--format", form])
            told = "".join(capfd.readouterr())
            assert "hunter2pw" not in told
            assert "abcdef123456" not in told


def test_members_of_an_archive_in_a_store(memory, tmp_path):
    packed = Path(shutil.make_archive(str(tmp_path / "job"), "zip", JOB))
    memory.pipe("/packed/job.zip", packed.read_bytes())
    found = diagnose(["zip://::memory://packed/job.zip"], INLINE)
    assert found.verdict.category == "gpu_cuda"
    assert [row.file for row in found.coverage] == ["kern-gpu-h12.log"]
