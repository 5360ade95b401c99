"""Daemon logs as sources: who wrote them, when, and which records of a wanted time they hold."""

import gzip

import pytest

from firstfault.model.evidence import Source, SourceId
from firstfault.model.storage import DaemonRole, Opening
from firstfault.model.words import SourceKind
from firstfault.readers import aistore
from firstfault.readers.aistore import begins, ends, index_source, read_piece
from firstfault.readers.open import open_inputs
from firstfault.scan.records import RecordSearch
from firstfault.signatures.library import load_library

DAY = 86400
JAN_15 = 1768435200.0  # 2026-01-15T00:00:00Z
HEAD = "Rotated at 2026/01/15 22:00:00, host ais-target-3, go1.25.5 for linux/amd64\nNode t[kWQt8081], Version 4.3.9f8e7d6, build 2026-03-25T18:00:00+0000, CPUs(32, runtime=256), containerized\n"
OOB = "x-get-batch[k7Qm2xWpL]-s3://asr t[kWQt8081] RecvObj: x-get-batch[k7Qm2xWpL]-s3://asr t[kWQt8081] out-of-bounds index 63 (recv'd len=0, wid=Zx9)"


class Bytes:
    def __init__(self, data):
        self.data = data

    def read(self, source, offset, length):
        return self.data[offset : offset + length]

    def size(self, source):
        return len(self.data)


@pytest.fixture(scope="module")
def search():
    return RecordSearch(load_library().plan, lambda name: name.startswith("aistore."), "re")


def read(text, path="aistarget.ais-target-3.INFO.0115-220000.1", search=None, within=(0.0, 9e9)):
    store = Bytes(text.encode())
    source = Source(id=SourceId(0), path=path, kind=SourceKind.AISTORE)
    index = index_source(store, source, lambda data: data.count(b"\n"), JAN_15)
    return index, read_piece(store, index, within, search, JAN_15)


def test_identity_comes_from_first_lines_before_names():
    index, (piece,) = read(HEAD, path="aistarget-Other.tar.gz!aistarget.shortened-host.INFO.0115-220000.1")
    assert (piece.daemon.role, piece.daemon.node, piece.daemon.name) == (DaemonRole.TARGET, "kWQt8081", "ais-target-3")
    assert piece.version == "4.3.9f8e7d6"
    assert [b.opening for b in index.beginnings] == [Opening.ROTATED]


def test_the_archive_names_the_node_where_the_file_does_not():
    _, (piece,) = read(
        "I 01:00:00.000001 lcache:300 hk begin\n", path="out/aisproxy-gVkFp8080.tar.gz!aisproxy.x.INFO.0115-220000.1"
    )
    assert (piece.daemon.role, piece.daemon.node) == (DaemonRole.PROXY, "gVkFp8080")


def test_a_name_that_all_nodes_share_is_no_name():
    _, (piece,) = read(HEAD.replace("ais-target-3", "prod-ais"), path="aistarget.prod-ais.INFO.0115-220000.1")
    assert (piece.daemon.name, piece.daemon.shown) == ("", "kWQt8081")


def test_a_time_of_day_that_falls_is_the_next_day():
    text = HEAD + "I 23:59:00.000001 {get.n:1}\nI 00:01:00.000001 {get.n:2}\nI 02:01:00.000001 {get.n:3}\n"
    index, (piece,) = read(text)
    assert [round(s.at - JAN_15) for s in piece.stats] == [DAY - 60, DAY + 60, DAY + 7260]
    assert (round(begins(index)), round(ends(index))) == (JAN_15 + 22 * 3600, JAN_15 + DAY + 7260)


def test_records_before_the_first_date_are_dated_backwards():
    text = "I 23:59:00.000001 {get.n:1}\nI 00:01:00.000001 {get.n:2}\nI 00:02:00.000001 common:502 16 Jan 26 00:02 UTC =============\n"
    _, (piece,) = read(text, path="target.log")
    assert [round(s.at - JAN_15) for s in piece.stats] == [DAY - 60, DAY + 60]
    assert (piece.zone, piece.zone_text) == (0, "UTC")


def test_a_record_that_is_glued_to_a_cut_one_is_a_record(search):
    text = HEAD + f"I 23:00:00.000001 {{get.n:1,stream.out.size:841E 23:00:05.000001 moss:758 {OOB}\n"
    _, (piece,) = read(text, search=search)
    (line,) = [x for x in piece.lines if x.event.signature == "aistore.out_of_bounds"]
    assert round(line.at - JAN_15) == 23 * 3600 + 5
    assert line.event.text.startswith("E 23:00:05.000001 moss:758")
    assert (line.event.span.line, line.event.span.column) == (
        3,
        len("I 23:00:00.000001 {get.n:1,stream.out.size:841") + 1,
    )
    assert piece.stats[0].counters == {"get.n": 1}


def test_pods_in_one_file_are_told_apart(search):
    text = (
        "[pod/ais-target-1/aisnode] I 23:00:00.000001 common:502 15 Jan 26 23:00 UTC =============\n"
        "[pod/ais-target-3/aisnode] I 23:00:01.000001 common:502 15 Jan 26 23:00 UTC =============\n"
        f"[pod/ais-target-3/aisnode] E 23:00:05.000001 moss:758 {OOB}\n"
        "[pod/ais-target-1/aisnode] panic: runtime error: index out of range [3] with length 2\n"
    )
    _, pieces = read(text, path="all.log", search=search)
    said = {p.daemon.name: [x.event.signature for x in p.lines] for p in pieces}
    assert said == {"ais-target-1": ["aistore.panic"], "ais-target-3": ["aistore.out_of_bounds"]}
    assert {p.daemon.name: p.daemon.node for p in pieces}["ais-target-3"] == "kWQt8081"


def test_the_runtime_s_stamp_tells_the_zone():
    text = "2026-01-15T23:00:00.5Z I 04:30:00.500000 {get.n:1}\n2026-01-15T23:01:00.5Z I 04:31:00.500000 {get.n:2}\n"
    _, (piece,) = read(text, path="ais-target-3.log")
    assert piece.zone == 19800
    assert round(piece.stats[0].at - JAN_15 - DAY) == 4 * 3600 + 1800


def test_of_a_large_file_only_the_wanted_time_is_taken_apart(monkeypatch, search):
    monkeypatch.setattr(aistore, "WHOLE", 0)
    monkeypatch.setattr(aistore, "BLOCK", 4096)
    hours = []
    for hour in range(30):
        day, h = 15 + (22 + hour) // 24, (22 + hour) % 24
        hours.append(f"I {h:02d}:02:00.000001 common:502 {day} Jan 26 {h:02d}:02 UTC =============\n")
        hours += [f"I {h:02d}:{m:02d}:00.000001 {{get.n:{hour * 60 + m}}}\n" for m in range(3, 60)]
        hours.append(f"E {h:02d}:59:30.000001 moss:758 {OOB}\n")
    text = HEAD + "".join(hours)
    low = JAN_15 + 22 * 3600 + 10 * 3600
    _, (piece,) = read(text, search=search, within=(low, low + 3600))
    found = [x for x in piece.lines if x.event.signature == "aistore.out_of_bounds"]
    assert [round(x.at - low) for x in found] == [3570]
    lines = text.split("\n")
    assert lines[found[0].event.span.line - 1].startswith("E 08:59:30")
    assert all(low <= s.at <= low + 3600 for s in piece.stats)
    assert len(piece.stats) == 57


@pytest.mark.parametrize("name", ["ais-target-3.log", "aistarget.ais-target-3.INFO.0115-220000.1", "x.log.gz"])
def test_a_daemon_s_log_is_known_by_its_content(tmp_path, name):
    text = "".join(f"I 23:00:{s:02d}.000001 {{get.n:{s},kalive.ns:12,state.flags:6}}\n" for s in range(1, 50))
    data = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    with open_inputs([tmp_path]) as opened:
        assert [s.kind for s in opened.sources] == [SourceKind.AISTORE]


def test_a_worker_s_log_that_speaks_of_the_store_stays_a_log(tmp_path):
    lines = [
        "2026-01-15 14:00:01,118 WARNING: Error while reading 's3://asr/a.tar', retrying 1/5\n",
        "Epoch 0: 3/900\n",
    ]
    (tmp_path / "error-1.out").write_text("".join(lines * 30))
    with open_inputs([tmp_path]) as opened:
        assert [s.kind for s in opened.sources] == [SourceKind.LOG]
