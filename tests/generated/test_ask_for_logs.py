"""The request for the daemons' logs, followed as a reader would: what it says to type brings logs that name the daemon."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.options import DiagnoseOptions
from generated.aistore import scenario

if TYPE_CHECKING:
    from pathlib import Path

AIS = """#!/bin/bash
test -n "$AIS_ENDPOINT" && test "$1 $2 $3" = "log get cluster" && test -d "$4" && cp "$CLUSTER"/*.tar.gz "$4"
"""
KUBECTL = """#!/bin/bash
test "$1 $2" = "-n ais" || exit 2
case "$3" in
  get) ls "$CLUSTER"/*.log | sed 's|.*/||; s|\\.log$||; s|^|pod/|'; echo pod/ais-operator-7d9 ;;
  logs) test "$5" = --timestamps || exit 2
        if test "$6" = --previous; then echo 'Error from server (BadRequest): previous terminated container not found' >&2; exit 1; fi
        cat "$CLUSTER/$4.log" ;;
  cp) echo 'tar: /var/log/ais: Cannot stat: No such file or directory' >&2; exit 1 ;;
  *) exit 2 ;;
esac
"""
"""Of a cluster whose daemons write to stderr only: nothing to copy, and no pod was restarted."""


@pytest.mark.parametrize(("layout", "which"), [("archives", 0), ("pods_time", 1)])
def test_the_steps_bring_what_names_the_daemon(layout: str, which: int, tmp_path: Path) -> None:
    kind = next(s for s in scenario.matrix(large=False) if s.kind == "late_abort" and s.version == (4, 2))
    spec = replace(kind, layout=layout, apart=True, decoy=False, tenant=False, zones=(0, 0))
    truth = scenario.build(spec, tmp_path)
    alone = diagnose([tmp_path / "logs"]).verdict
    assert alone.culprits.storage_nodes == []
    steps = [step for step in alone.action.steps if "ais_logs" in step]
    assert _command(steps[2]) == "firstfault diagnose LOGS --storage ais_logs/"
    typed = _command(steps[which])
    place = tmp_path / "reader"
    _type(typed, place, tmp_path / "storage")
    found = diagnose([tmp_path / "logs"], DiagnoseOptions(storage=(str(place / "ais_logs"),))).verdict
    names = {name for host in truth["culprit_hosts"] for name in truth["aliases"][host]}
    assert len(found.culprits.storage_nodes) == 1
    assert set(found.culprits.storage_nodes) <= names


def _command(step: str) -> str:
    """What a step says to run: the code behind its colon."""
    return step.split(": `", 1)[1].split("`", 1)[0]


def _type(command: str, place: Path, cluster: Path) -> None:
    """Runs what the reader types, against a cluster that is a folder."""
    place.mkdir()
    for name, script in (("ais", AIS), ("kubectl", KUBECTL)):
        (place / name).write_text(script, encoding="utf-8")
        (place / name).chmod(0o755)
    path = f"{place}:{os.environ['PATH']}"
    subprocess.run(["bash", "-c", command], cwd=place, env={"PATH": path, "CLUSTER": str(cluster)}, check=False)


def test_an_endpoint_of_the_jobs_own_lines_is_named(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(
        'Traceback (most recent call last):\n  File "/app/train.py", line 9, in <module>\n    main()\n'
        '  File "/opt/venv/lib/python3.11/site-packages/aistore/sdk/response_handler.py", line 61, in handle\n    raise err\n'
        "aistore.sdk.errors.AISError: STATUS:500, MESSAGE:boom, REQ_URL:https://ais-proxy-2.example:51082/v1/objects/asr/a.tar\n",
        encoding="utf-8",
    )
    step = next(s for s in diagnose([tmp_path]).verdict.action.steps if "ais log get" in s)
    assert "export AIS_ENDPOINT=https://ais-proxy-2.example:51082;" in step
    assert "AIS_CLIENT_CA=CA.pem" in step


def test_where_no_line_tells_an_address_both_ways_are_told(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(
        'Traceback (most recent call last):\n  File "/app/train.py", line 9, in <module>\n    main()\n'
        '  File "/opt/venv/lib/python3.11/site-packages/lhotse/ais/batch_loader.py", line 150, in __call__\n    raise AISBatchLoaderError(\n'
        "lhotse.ais.batch_loader.AISBatchLoaderError: Sequential GET fallback failed for asr/a.tar\n",
        encoding="utf-8",
    )
    step = next(s for s in diagnose([tmp_path]).verdict.action.steps if "ais log get" in s)
    assert "export AIS_ENDPOINT=http://PROXY:51080;" in step
    assert "Where it has TLS, write `https://`" in step
    assert "AIS_CLIENT_CA=CA.pem" in step
