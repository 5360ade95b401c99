"""A pod of the store that was killed is no pod of the job; a pod of the job beside a store's logs still is."""

from __future__ import annotations

import pytest

from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions

DAEMON = (
    "Started up at 2026/03/04 10:00:00, host ais-target-3, go1.25.5 for linux/amd64\n"
    "I 10:00:00.402118 daemon:268 Node t[kWQt8081], Version 4.3.9f8e7d6, build 2026-01-05T18:00:00+0000, CPUs(32, runtime=256), containerized\n"
    "I 11:00:00.402118 {get.n:90211,get.size:812345678901,getbatch.n:203411,state.flags:6}\n"
    "I 11:59:00.402118 {get.n:91223,get.size:812345978901,getbatch.n:204423,state.flags:6}\n"
)
STEPS = "".join(f"2026-03-04T11:5{n}:01.000000+00:00 step {n}\n" for n in range(10))
GAVE_UP = STEPS + "".join(
    f"2026-03-04T12:00:00.118000+00:00 [rank2]: {line}\n"
    for line in (
        "Traceback (most recent call last):",
        '  File "/w/t.py", line 5, in <module>',
        "    main()",
        "aistore.sdk.obj.obj_file.errors.ObjectFileReaderMaxResumeError: ObjectFileReader exceeded max number of stream resumptions: 6",
    )
)
POD = (
    "Name:         {pod}\nNamespace:    {space}\nNode:         {node}/10.0.41.55\nContainers:\n  {box}:\n    State:          Running\n"
    "      Started:      Wed, 04 Mar 2026 12:00:40 +0000\n    Last State:     Terminated\n      Reason:       OOMKilled\n"
    "      Exit Code:    137\n      Started:      Wed, 04 Mar 2026 10:00:00 +0000\n      Finished:     Wed, 04 Mar 2026 11:59:30 +0000\n"
)  # fmt: skip


def verdict_of(folder, job, pod):
    (folder / "ais").mkdir()
    (folder / "ais" / "aistarget.ais-target-3.INFO.0304-100000.1").write_text(DAEMON)
    (folder / "describe.txt").write_text(pod)
    (folder / "n0.log").write_text(job)
    return diagnose([str(folder)], DiagnoseOptions(engine="inline")).verdict


@pytest.mark.parametrize("node", ["stor-5", "n0"])
def test_the_stores_pod(tmp_path, node):
    verdict = verdict_of(tmp_path, GAVE_UP, POD.format(pod="ais-target-3", space="ais", node=node, box="aisnode"))
    assert verdict.category == Category.STORAGE_IO
    assert verdict.culprits.hosts == []


def test_the_jobs_pod(tmp_path):
    verdict = verdict_of(tmp_path, STEPS, POD.format(pod="train-3", space="ml", node="n0", box="train"))
    assert verdict.category == Category.INFRASTRUCTURE
