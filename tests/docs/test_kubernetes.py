"""The manifests of examples/kubernetes: they are what Kubernetes takes, they may do little, and their script does what it says."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "examples" / "kubernetes"
MANIFESTS = [(path.name, one) for path in sorted(PLACE.glob("*.yaml")) for one in yaml.safe_load_all(path.read_text())]


def pods():
    return [(name, one["spec"]["template"]["spec"]) for name, one in MANIFESTS if one["kind"] == "Job"]


@pytest.mark.parametrize("version", ["1.29", "1.33"])
@pytest.mark.parametrize(("name", "manifest"), MANIFESTS, ids=[f"{n}-{m['kind']}" for n, m in MANIFESTS])
def test_each_is_of_the_schema(name, manifest, version):
    del name
    import kubernetes_validate

    kubernetes_validate.validate(manifest, version, strict=True)
    broken = json.loads(json.dumps(manifest))
    broken["spec"]["replikas"] = 3
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, version, strict=True)


def test_who_diagnoses_may_write_nothing_but_its_report():
    found = 0
    for name, pod in pods():
        assert pod["automountServiceAccountToken"] is False, name
        for one in [*pod.get("initContainers", []), *pod["containers"]]:
            if one["image"] != "firstfault":
                continue
            found += 1
            allowed = one["securityContext"]
            assert allowed["runAsNonRoot"] is allowed["readOnlyRootFilesystem"] is True
            assert allowed["allowPrivilegeEscalation"] is False
            assert allowed["capabilities"] == {"drop": ["ALL"]}
            assert {m["name"] for m in one["volumeMounts"] if not m.get("readOnly")} <= {"reports", "tmp"}
            assert {m["name"] for m in one["volumeMounts"]} <= {v["name"] for v in pod["volumes"]}
    assert found == 2


def test_the_words_of_the_container_are_words_of_the_program():
    (pod,) = [pod for name, pod in pods() if name == "why.yaml"]
    words = [
        w.replace("/logs/$(FOLDER)", str(ROOT / "examples" / "incident" / "logs")) for w in pod["containers"][0]["args"]
    ]
    done = subprocess.run([sys.executable, "-m", "firstfault", *words], capture_output=True, text=True, check=True)
    assert "FAILED" in done.stdout


@pytest.fixture
def beside(tmp_path):
    """Starts the container beside a training, with folders of this machine in place of volumes."""
    (pod,) = [pod for name, pod in pods() if name == "train.yaml"]
    script = pod["initContainers"][0]["args"][0]
    for place in ("logs", "reports"):
        script = script.replace(f'"/{place}/', f'"{tmp_path}/{place}/')
        (tmp_path / place).mkdir()
    shutil.copytree(ROOT / "examples" / "incident" / "logs", tmp_path / "logs" / "uid-1")
    program = tmp_path / "bin" / "firstfault"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m firstfault "$@"\n')
    program.chmod(0o755)
    running = []

    def start(name):
        env = {
            **os.environ,
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "JOB": "uid-1",
            "SETTLE": "1",
            "MESSAGE": str(tmp_path / name),
        }
        running.append(subprocess.Popen(["/bin/sh", "-c", script], env=env, start_new_session=True))
        return running[-1]

    yield start, tmp_path
    for one in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(one.pid, signal.SIGKILL)
        one.wait()


def test_of_two_pods_that_are_told_of_the_end_one_diagnoses(beside):
    start, place = beside
    pair = [start("first"), start("second")]
    time.sleep(1)
    assert [one.poll() for one in pair] == [None, None]
    assert not list((place / "reports").iterdir())
    for one in pair:
        one.send_signal(signal.SIGTERM)
    assert [one.wait(120) for one in pair] == [0, 0]
    messages = [p for p in (place / "first", place / "second") if p.exists()]
    assert len(messages) == 1
    assert "FAILED" in messages[0].read_text()
    assert messages[0].stat().st_size <= 4096
    verdict = json.loads((place / "reports" / "uid-1" / "diagnosis.json").read_text())["verdict"]
    assert verdict["failed"] is True
    assert (place / "reports" / "uid-1" / "report.html").read_text().startswith("<!doctype html>")
