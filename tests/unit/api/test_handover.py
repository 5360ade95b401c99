"""A diagnosis handed over to the libraries themselves, each with a store of its own on this machine."""

import json
from pathlib import Path

import pytest

import firstfault
from firstfault import handover

pytestmark = pytest.mark.threads
LOGS = Path(__file__).parents[3] / "examples" / "incident" / "logs"
NAMED = Path(__file__).parents[2] / "cases" / "xid45-after-nvlink-fault" / "logs"


@pytest.fixture(scope="module")
def found():
    return firstfault.diagnose(LOGS)


def test_facts_are_flat_and_without_names():
    diagnosis = firstfault.diagnose(NAMED)
    told = handover.facts(diagnosis)
    assert told["firstfault.failed"] is True
    assert told["firstfault.category"] == "gpu_cuda"
    assert "gpu-h12" not in json.dumps(told)
    assert "gpu-h12" in json.dumps(handover.facts(diagnosis, share=False))
    assert all(isinstance(value, (str, bool)) for value in told.values())


def test_what_is_not_known_is_left_out(tmp_path):
    (tmp_path / "a.log").write_text("step 1\n")
    told = handover.facts(firstfault.diagnose(tmp_path))
    assert told["firstfault.category"] == "unknown"
    assert not {"firstfault.failed", "firstfault.trigger", "firstfault.culprit_ranks"} & told.keys()


def test_weights_and_biases_offline(found, tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    for name in ("WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    run = wandb.init(mode="offline", dir=tmp_path, project="x", settings=wandb.Settings(silent=True))
    handover.to_wandb(run, found)
    assert run.summary["firstfault.category"] == str(found.verdict.category)
    files = Path(run.dir, "firstfault")
    run.finish()
    assert json.loads((files / "diagnosis.json").read_text())["redaction"] == "identities"
    assert found.verdict.summary.split(" ")[0] in (files / "report.md").read_text()
    assert not [p for p in files.iterdir() if p.is_symlink()]


def test_mlflow_in_a_local_store(found, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    client = mlflow.MlflowClient(tracking_uri=tmp_path.as_uri())
    run = client.create_run(client.create_experiment("x")).info.run_id
    client.set_terminated(run, "FAILED")
    handover.to_mlflow(client, run, found)
    kept = client.get_run(run)
    assert kept.data.tags["firstfault.category"] == str(found.verdict.category)
    assert kept.data.tags["firstfault.failed"] == "true"
    (report,) = tmp_path.rglob("report.md")
    assert report.read_text() == found.report(share=True)


def test_tensorboard(found, tmp_path):
    board = pytest.importorskip("tensorboardX")
    with board.SummaryWriter(str(tmp_path)) as writer:
        handover.to_tensorboard(writer, found, step=7)
    raw = next(tmp_path.glob("events*")).read_bytes()
    assert b"firstfault/report" in raw
    assert b"firstfault/failed" in raw
    assert found.report(share=True).split("\n")[0].encode() in raw


def test_opentelemetry(found):
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    handover.to_opentelemetry(provider.get_tracer("firstfault"), found)
    (span,) = kept.get_finished_spans()
    assert span.name == "firstfault.diagnosis"
    assert span.attributes["firstfault.category"] == str(found.verdict.category)
    assert [e.name for e in span.events] == ["firstfault.link"] * len(found.chain)
    assert [e.attributes["firstfault.what"] for e in span.events] == [link.what for link in found.chain]
    stated = [link.evidence[0].time for link in found.chain if link.evidence]
    dated = [t for t in stated if t is not None and t.earliest and t.earliest.endswith(("Z", "+00:00"))]
    if dated:
        assert min(e.timestamp for e in span.events) < span.start_time


def test_the_package_loads_none_of_them():
    import subprocess
    import sys

    code = "import sys; import firstfault.handover; print([m for m in ('wandb', 'mlflow', 'tensorboardX', 'opentelemetry') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )
