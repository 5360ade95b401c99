"""Outages of a file system's client that were over, or long before, are no cause; those that bring the failure about stay it."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose

WAIT = (
    "[rank{r}]:[E611 10:10:05.{r}00000001 ProcessGroupNCCL.cpp:683] [Rank {r}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=530, OpType=ALLGATHER, NumelIn=512, NumelOut=2048, Timeout(ms)=600000) ran for 60000{r} milliseconds before timing out.\n"
    "[rank{r}]:[E611 10:10:05.{r}10000001 ProcessGroupNCCL.cpp:2241] [PG ID 0 PG GUID 0(default_pg) Rank {r}]  failure detected by watchdog "
    "at work sequence id: 530 PG status: last enqueued work: 530, last completed work: 529\n"
)
RAISED = (
    "2026-06-11 09:59:00 host gq1 rank {r}\n"
    "[rank{r}]: Traceback (most recent call last):\n"
    '[rank{r}]:   File "/proj/fit.py", line 61, in <module>\n'
    "[rank{r}]:     main()\n"
    '[rank{r}]:   File "/proj/fit.py", line 33, in main\n'
    "[rank{r}]:     batch = fetch(it)\n"
    "[rank{r}]: {error}\n"
)
NFS = ("nfs: server nas02 not responding, still trying", "nfs: server nas02 OK")
LUSTRE = (
    "Lustre: work-OST0003-osc-ffff8f: Connection to work-OST0003 (at 10.9.0.7@o2ib) was lost; in progress operations using this service will wait for recovery to complete",
    "Lustre: work-OST0003-osc-ffff8f: Connection restored to 10.9.0.7@o2ib (at 10.9.0.7@o2ib)",
)
LUSTRE_READ = (
    "LustreError: 11-0: work-OST0003-osc-ffff8f: operation ost_read to node 10.9.0.7@o2ib failed: rc = -107",
    "Lustre: work-OST0003-osc-ffff8f: Connection to work-OST0003 (at 10.9.0.7@o2ib) was restored",
)
CEPH = ("ceph: mds0 hung", "ceph: mds0 came back")
KINDS = pytest.mark.parametrize("lines", [NFS, LUSTRE, LUSTRE_READ, CEPH], ids=["nfs", "lustre", "lustre_read", "ceph"])


def job(folder, kernel, *, error=None, beside=""):
    for r in range(4):
        text = WAIT.format(r=r) if error is None else RAISED.format(r=r, error=error)
        (folder / f"rank{r}.log").write_text(f"rank: {r} world_size: 4 host gq1\n" + beside + text, encoding="utf-8")
    text = "".join(f"{stamp} gq1 kernel: {line}\n" for stamp, line in kernel)
    (folder / "gq1-kern.log").write_text(text, encoding="utf-8")
    return diagnose([folder]).verdict


@KINDS
@pytest.mark.parametrize("when", [("Jun 11 06:08:41", "Jun 11 06:08:52"), ("Jun 11 10:05:41", "Jun 11 10:05:52")])
def test_a_short_outage_is_no_reason_for_a_long_wait(tmp_path, lines, when):
    assert job(tmp_path, zip(when, lines, strict=True)).category is not Category.STORAGE_IO


@KINDS
@pytest.mark.parametrize("day", [9, 11])
@pytest.mark.parametrize(
    "error", ["KeyError: 'labels'", "AssertionError: vocab size 32000 != 32064", "IndexError: list index out of range"]
)
def test_an_error_without_any_reading_in_it_is_not_outranked(tmp_path, lines, day, error):
    kernel = ((f"Jun {day:2} 07:59:58", lines[0]), (f"Jun {day:2} 07:59:59", lines[1]))
    verdict = job(tmp_path, kernel, error=error)
    assert verdict.category is Category.SOFTWARE
    assert verdict.first_failed.ranks == [0, 1, 2, 3]


@KINDS
def test_nor_by_an_outage_that_stays_open(tmp_path, lines):
    assert job(tmp_path, [("Jun 11 09:59:00", lines[0])], error="KeyError: 'labels'").category is Category.SOFTWARE


@pytest.mark.parametrize("lines", [NFS, LUSTRE], ids=["nfs", "lustre"])
def test_an_open_outage_right_before_the_wait_stays_the_reason(tmp_path, lines):
    assert job(tmp_path, [("Jun 11 09:59:58", lines[0])]).category is Category.STORAGE_IO


def test_the_answer_of_another_server_closes_nothing(tmp_path):
    kernel = [("Jun 11 09:59:58", NFS[0]), ("Jun 11 10:00:09", "nfs: server nas07 OK")]
    assert job(tmp_path, kernel).category is Category.STORAGE_IO


@pytest.mark.parametrize("lines", [NFS, LUSTRE], ids=["nfs", "lustre"])
def test_an_outage_of_most_of_the_wait_stays_the_reason(tmp_path, lines):
    kernel = [("Jun 11 09:59:58", lines[0]), ("Jun 11 10:09:30", lines[1])]
    assert job(tmp_path, kernel).category is Category.STORAGE_IO


@pytest.mark.parametrize("lines", [NFS, LUSTRE], ids=["nfs", "lustre"])
def test_a_read_that_failed_keeps_the_outage(tmp_path, lines):
    kernel = [("Jun 11 09:59:30", lines[0]), ("Jun 11 09:59:41", lines[1])]
    verdict = job(tmp_path, kernel, error="OSError: [Errno 5] Input/output error: '/work/c4/0031.bin'")
    assert verdict.category is Category.STORAGE_IO


@pytest.mark.parametrize("lines", [NFS, LUSTRE], ids=["nfs", "lustre"])
def test_one_of_hours_before_that_nobody_closed_is_no_reason(tmp_path, lines):
    kernel = [("Jun  9 06:08:41", lines[0])]
    assert job(tmp_path, kernel).category is not Category.STORAGE_IO
