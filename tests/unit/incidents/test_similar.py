"""Likeness, rules, seen before: what is equal and what differs is told, and nothing of the verdict changes."""

import json
from contextlib import closing

import msgspec
import pytest
from incident_text import PROVED, text_of

from firstfault.cli.main import run
from firstfault.incidents.fingerprint import Traits, fingerprint
from firstfault.incidents.index import Index
from firstfault.incidents.record import parse
from firstfault.incidents.rules import Scene, holds, shown
from firstfault.incidents.similar import compared, known_again, similar
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.errors import PipelineError
from firstfault.pipelines.incidents import examine
from firstfault.pipelines.options import DiagnoseOptions

PLAIN = DiagnoseOptions(engine="inline")


@pytest.fixture
def known(oom, put):
    """Writes a record of the incident of `oom`; its traits."""
    _, traits = examine([str(oom)], PLAIN)

    def write(**parts):
        path = put(**{"fingerprint": f'"{fingerprint(traits)}"', **parts})
        text = path.read_text(encoding="utf-8")
        path.write_text(
            text.replace("category: gpu_cuda\n", 'category: gpu_cuda\nplace: "loop.py:step"\n'), encoding="utf-8"
        )
        return traits

    return write


def test_what_is_equal_and_what_differs_is_told():
    traits = Traits(
        category="gpu_cuda", form="hung", signature="gpu.out_of_memory", message="OutOfMemoryError: CUDA out of memory"
    )
    one = compared(parse(text_of()), traits)
    assert "signature: gpu.out_of_memory" in one.equal
    assert "form: interrupted | hung" in one.differs
    assert not one.same


def test_the_nearest_comes_first_and_a_rejected_one_is_left_out(store, put, known):
    traits = known(id="same")
    put(id="alike")
    put(id="rejected", state="rejected")
    with closing(Index(store)) as index:
        index.refresh()
        found = similar(index, traits, limit=10)
        assert [one.record.id for one in found][:2] == ["same", "alike"]
        assert [one.same for one in found][:2] == [True, False]
        assert "rejected" not in {one.record.id for one in found}
        assert [one.record.id for one in known_again(index, traits)] == ["same"]


def test_what_has_neither_message_nor_place_is_never_known_again(store, put):
    bare = Traits(category="unknown", form="hung")
    put(id="a", fingerprint=f'"{fingerprint(bare)}"')
    with closing(Index(store)) as index:
        index.refresh()
        assert known_again(index, bare) == []


SCENE = Scene(
    "gpu.out_of_memory",
    "gpu_cuda",
    ("runtimeerror: cuda error: out of memory",),
    ("run.py:main", "filesystem.py:write", "__init__.py:current_stream"),
)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("signature:gpu.out_of_memory", True),
        ("signature:gpu.out_of_memory & text:CUDA Error", True),
        ("signature:gpu.out_of_memory & text:EOF", False),
        ("frame:current_stream & frame:filesystem.py", True),
        ("frame:filesystem.py:write", True),
        ("frame:filesystem", False),
        ("frame:*system.py", True),
        ("frame:loader.py|*system.py", True),
        ("frame:loader.py|reader.py", False),
        ("text:cuda*memory", True),
        ("text:memory*cuda", False),
        ("text:eof|runtime*out of", True),
        ("category:data", False),
        ("colour:red", False),
        ("text:", False),
        ("", False),
    ],
)
def test_a_rule_holds_where_all_its_conditions_do(rule, expected):
    assert holds(rule, SCENE) is expected
    assert shown(("signature:x", rule), SCENE) == (rule if expected else "")


SHOWN = {
    "E001": 'Error: Failed to pull image "registry.example/train:1.2": rpc error: code = Unknown desc = unexpected EOF',
    "E002": "error: externally-managed-environment",
    "E003": "deepspeed.ops.op_builder.builder.MissingCUDAException: CUDA_HOME does not exist, unable to compile CUDA op(s)",
    "E004": "KeyError: 'grad_norm_mean'",
    "E005": "ImportError: cannot import name 'helpers' from 'megatron.data' (/workspace/megatron/data/__init__.py)",
    "E006": "ModuleNotFoundError: No module named 'transformer_engine'",
    "E007": "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
    "E010": "RuntimeError: aten.mul.Tensor: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before calling distributed operators!",
    "E011": "RuntimeError: CUDA error: out of memory",
}
FRAMES = {
    "E010": ['  File "/app/checkpoint.py", line 77, in digest_state', "    total = total * weight + part"],
    "E007": ['  File "/app/environment.py", line 12, in read_probe', "    return json.loads(out)"],
    "E011": [
        '  File "/app/tests/test_checkpoint.py", line 40, in test_save',
        "    save(state)",
        '  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/checkpoint/filesystem.py", line 120, in __init__',
        "    self.stream = torch.cuda.current_stream()",
        '  File "/opt/venv/lib/python3.11/site-packages/torch/cuda/__init__.py", line 1002, in current_stream',
        "    return torch._C._cuda_getCurrentStream(0)",
    ],
}


def lines_of(name):
    last = SHOWN[name]
    if ": " not in last or last.startswith(("error:", "Error:")):
        return [last]
    frames = FRAMES.get(name, ['  File "/app/run.py", line 5, in main', "    go()"])
    return ["Traceback (most recent call last):", *frames, last]


@pytest.mark.parametrize("name", SHOWN)
def test_a_log_that_shows_a_shipped_incident_names_it(name, tmp_path):
    (tmp_path / "run.log").write_text("\n".join(["starting", *lines_of(name)]) + "\n", encoding="utf-8")
    diagnosis = diagnose([str(tmp_path)], PLAIN)
    assert [one.id for one in diagnosis.seen_before] == [name]
    (one,) = diagnosis.seen_before
    assert one.verified
    assert one.fix
    assert one.by == "lines"


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: aten.embedding.default: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before calling distributed operators!",
        "KeyError: 'loss'",
        "ModuleNotFoundError: No module named 'yaml'",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
    ],
)
def test_a_log_that_shows_none_names_none(line, tmp_path):
    text = 'Traceback (most recent call last):\n  File "/app/run.py", line 5, in main\n    go()\n' + line + "\n"
    (tmp_path / "run.log").write_text(text, encoding="utf-8")
    assert diagnose([str(tmp_path)], PLAIN).seen_before == []


def test_records_of_a_team_are_named_with_their_fix_and_change_nothing_else(oom, store, known):
    before = diagnose([str(oom)], PLAIN)
    assert before.seen_before == []
    known(id="old", **PROVED)
    after = diagnose([str(oom)], DiagnoseOptions(engine="inline", incidents=str(store.folder)))
    (one,) = after.seen_before
    assert (one.id, one.verified, one.by, one.fix) == ("old", True, "fingerprint", "Samples are cut at 8192.")
    assert "message: OutOfMemoryError: CUDA out of memory" in one.equal
    assert msgspec.structs.replace(after, seen_before=[]) == before


def test_a_verified_one_comes_before_an_open_one(oom, store, known):
    known(id="a-open")
    known(id="z-verified", **PROVED)
    found = diagnose([str(oom)], DiagnoseOptions(engine="inline", incidents=str(store.folder))).seen_before
    assert [one.id for one in found] == ["z-verified", "a-open"]


def test_a_rule_of_a_team_is_heeded(oom, store, put):
    path = put(id="ruled", fingerprint="")
    path.write_text(
        path.read_text(encoding="utf-8").replace(
            "hosts:", 'shown_by:\n  - "frame:loop.py & text:out of memory"\nhosts:'
        ),
        encoding="utf-8",
    )
    found = diagnose([str(oom)], DiagnoseOptions(engine="inline", incidents=str(store.folder))).seen_before
    assert [(one.id, one.by) for one in found] == [("ruled", "lines")]


def test_the_folder_is_read_only_where_it_is_named(oom, store, known, monkeypatch):
    known(id="old")
    (store.folder.parent / ".git").mkdir()
    monkeypatch.chdir(store.folder.parent)
    assert diagnose([str(oom)], PLAIN).seen_before == []
    found = diagnose([str(oom)], DiagnoseOptions(engine="inline", incidents="auto")).seen_before
    assert [one.id for one in found] == ["old"]


def test_the_command_looks_into_the_repository_in_which_it_is_called(oom, store, known, monkeypatch, capsys):
    known(id="old")
    root = store.folder.parent
    below = root / "src" / "deep"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)

    def seen(*more):
        run(["diagnose", str(oom), "--format", "json", *more])
        return [one["id"] for one in json.loads(capsys.readouterr().out)["seen_before"]]

    assert seen() == []  # anybody may put a folder into a place that is no repository
    (root / ".git").mkdir()
    assert seen() == ["old"]
    assert seen("--incidents", "none") == []
    (store.folder / "__init__.py").touch()  # a package of that name holds no records
    assert seen() == []


def test_records_that_nobody_named_stop_no_diagnosis(oom, store, put, monkeypatch, capsys):
    (store.folder.parent / ".git").mkdir()
    monkeypatch.chdir(store.folder.parent)
    (store.folder / "broken.md").write_bytes(b"\xff\xfe---")
    assert run(["diagnose", str(oom), "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["seen_before"] == []


def test_a_folder_above_the_repository_is_not_taken(oom, store, known):
    known(id="old")
    (oom / ".git").mkdir()
    with pytest.raises(PipelineError, match="in the repository"):
        diagnose([str(oom)], DiagnoseOptions(engine="inline", incidents="auto"))


@pytest.mark.parametrize("name", ["auto", "nowhere"])
def test_a_folder_that_is_not_there_is_an_error(oom, name, tmp_path):
    with pytest.raises(PipelineError, match=r"records|incidents"):
        diagnose(
            [str(oom)], DiagnoseOptions(engine="inline", incidents=name if name == "auto" else str(tmp_path / name))
        )


def test_what_only_a_launcher_says_is_not_taken_for_the_same_fault(tmp_path, store, put):
    log = tmp_path / "job.log"
    line = "E0302 10:11:12.000 512 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: 0 (pid: 701) of binary: /opt/venv/bin/python3\n"
    log.write_text(line, encoding="utf-8")
    diagnosis, traits = examine([str(log)], PLAIN)
    assert str(diagnosis.verdict.strength) == "unknown"
    put(id="other", fingerprint=f'"{fingerprint(traits)}"')
    found = diagnose([str(log)], DiagnoseOptions(engine="inline", incidents=str(store.folder)))
    assert found.seen_before == []


def test_a_run_without_a_failure_has_seen_nothing_before(tmp_path, store):
    (tmp_path / "ok.log").write_text("step 1/2\nstep 2/2\nTraining completed successfully\n", encoding="utf-8")
    assert (
        diagnose([str(tmp_path / "ok.log")], DiagnoseOptions(engine="inline", incidents=str(store.folder))).seen_before
        == []
    )
