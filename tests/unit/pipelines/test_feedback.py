"""A case out of a job's logs: what it holds, what it hides, and that it is a test as it lies there."""

import json
import random
import shutil
import tarfile
from pathlib import Path

import pytest

from firstfault.cli.main import run
from firstfault.model.words import Category
from firstfault.pipelines.diagnose import diagnose
from firstfault.pipelines.errors import PipelineError
from firstfault.pipelines.feedback import Told, feedback
from firstfault.pipelines.options import DiagnoseOptions
from firstfault.privacy.lookalikes import Lookalikes
from judge import judge, read_expected

CASES = Path(__file__).parents[2] / "cases"
INLINE = DiagnoseOptions(engine="inline")
SECRETS = ["hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345", "AKIAIOSFODNN7EXAMPLE", "hunter2secretpw"]
NAMES = ["gpu-n006", "gpu-n007", "mhuang", "/scratch/mhuang", "10.23.4.6", "acme-models"]


def told(**more):
    return Told(right=Category.GPU_CUDA, **more)


def job(folder, lines=4_000):
    """Two ranks of two machines; one runs out of memory, with names and secrets here and there."""
    folder.mkdir(parents=True)
    noise = random.Random(7)
    for rank, host in enumerate(NAMES[:2]):
        text = [
            f"host {host} user=mhuang HF_TOKEN={SECRETS[0]}",
            f"export AWS_ACCESS_KEY_ID={SECRETS[1]} DB=postgres://mhuang:{SECRETS[2]}@10.23.4.6:5432/x",
            f"{host}:812:812 [0] NCCL INFO Bootstrap : Using eth0:10.23.4.{6 + rank}<0>",
            "loading s3://acme-models/llama/weights.bin to /scratch/mhuang/cache",
        ]
        text += [f"[rank{rank}]: step {n} loss {2 + noise.random():.4f}" for n in range(lines)]
        if rank == 1:
            text += [
                "[rank1]: Traceback (most recent call last):",
                '[rank1]:   File "/scratch/mhuang/train.py", line 3, in <module>',
                "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.25 GiB is free.",
            ]
        (folder / f"{host}-rank{rank}.log").write_text("\n".join(text) + "\n")
    return folder


@pytest.mark.parametrize(
    "name", ["xid45-after-nvlink-fault", "yolov8x-two-gpus-first-validation", "zipformer-causal-exits-in-first-epoch"]
)
def test_put_below_the_cases_it_is_one_and_is_judged_as_the_original(name, tmp_path):
    truth = read_expected(json.loads((CASES / name / "expected.json").read_text()))
    hosts = None if truth.culprit_hosts is None else tuple(sorted(truth.culprit_hosts))
    ranks = None if truth.culprit_ranks is None else tuple(sorted(truth.culprit_ranks))
    made = feedback(
        [CASES / name / "logs"],
        Told(
            right=Category(truth.category),
            ranks=ranks,
            hosts=hosts,
            triggers=tuple((t.file, t.line) for t in truth.trigger),
        ),
        tmp_path / "case",
        INLINE,
    )
    assert made.same
    expected = read_expected(json.loads((tmp_path / "case" / "expected.json").read_text()))
    found = judge(diagnose([tmp_path / "case" / "logs"], INLINE), expected)
    before = judge(diagnose([CASES / name / "logs"], INLINE), truth)
    assert found.strict == before.strict
    assert found.culprits_exact == before.culprits_exact
    assert found.trigger == before.trigger
    assert found.confidently_wrong == before.confidently_wrong == ()


def test_no_secret_and_no_name_is_left_and_a_large_log_is_cut(tmp_path):
    made = feedback(
        [job(tmp_path / "job")],
        told(ranks=(1,), hosts=("gpu-n007",), note="gpu-n007 of mhuang ran full"),
        tmp_path / "case",
        INLINE,
    )
    everything = "".join(
        str(p.relative_to(tmp_path)) + p.read_text() for p in (tmp_path / "case").rglob("*") if p.is_file()
    )
    for word in [*SECRETS, *NAMES]:
        assert word not in everything
    assert made.same
    assert made.lines < 1000 < made.whole_lines
    expected = json.loads((tmp_path / "case" / "expected.json").read_text())
    assert expected["culprit_hosts"] == ["node-b007"] or expected["culprit_hosts"] == ["node-a007"]
    assert expected["culprit_ranks"] == [1]
    found = diagnose([tmp_path / "case" / "logs"], INLINE)
    assert (found.verdict.category, found.verdict.culprits.ranks) == ("gpu_cuda", [1])


def test_the_best_line_is_in_it_at_its_new_number(tmp_path):
    folder = job(tmp_path / "job")
    feedback([folder], told(triggers=(("gpu-n006-rank0.log", 1_800),)), tmp_path / "case", INLINE)
    (line,) = json.loads((tmp_path / "case" / "expected.json").read_text())["trigger"]
    text = (tmp_path / "case" / "logs" / line["file"]).read_text().split("\n")[line["line"] - 1]
    assert text == (folder / "gpu-n006-rank0.log").read_text().split("\n")[1_799]
    assert line["must_contain"] in text


def test_where_little_is_not_enough_more_is_taken(tmp_path):
    """A job that ended well: its progress is the evidence, and it stands nowhere near a cited line."""
    folder = tmp_path / "job"
    folder.mkdir()
    lines = [f"step {n}/6000 loss 2.{n}" for n in range(6_001)]
    (folder / "a.log").write_text("\n".join([*lines, "Training finished. Total steps: 6000"]) + "\n")
    made = feedback([folder], Told(right=Category.NONE), tmp_path / "case", INLINE)
    assert made.same
    assert made.says == "none"


def test_members_of_archives_lie_in_folders_and_dumps_stay_out(tmp_path):
    folder = job(tmp_path / "job", lines=10)
    shutil.copy(CASES.parent / "recorded" / "moe16-lock-gil" / "dumps" / "_dump_9", folder / "nccl_trace_rank_0")
    with tarfile.open(tmp_path / "job.tar.gz", "w:gz") as archive:
        archive.add(folder, "job")
    made = feedback([tmp_path / "job.tar.gz"], told(), tmp_path / "case", INLINE)
    assert made.left_out == ("job.tar.gz!job/nccl_trace_rank_0",)
    assert sorted(p.name for p in (tmp_path / "case" / "logs").rglob("*.log")) == [
        "node-a006-rank0.log",
        "node-a007-rank1.log",
    ]
    assert made.says == "gpu_cuda"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--trigger", "rank9.log:3"], "no file is called"),
        (["--trigger", "gpu-n006-rank0.log:9999"], "has 14 lines"),
        (["--trigger", "gpu-n006-rank0.log"], "FILE:LINE"),
        (["--nobody", "--culprit", "1"], "--nobody"),
    ],
)
def test_what_cannot_be_is_said(words, says, tmp_path, capfd):
    folder = job(tmp_path / "job", lines=10)
    assert run(["feedback", str(folder), "--right", "gpu_cuda", "-o", str(tmp_path / "case"), *words]) == 2
    assert says in capfd.readouterr().err
    assert not (tmp_path / "case").exists()


def test_a_diagnosis_alone_a_pipe_and_a_folder_that_is_taken_are_refused(tmp_path, capfd):
    folder = job(tmp_path / "job", lines=10)
    assert run(["diagnose", str(folder), "--format", "json", "--output", str(tmp_path / "d.json")]) == 1
    for paths, says in [([str(tmp_path / "d.json")], "alone makes no case"), (["-"], "more than once")]:
        assert run(["feedback", *paths, "--right", "gpu_cuda", "-o", str(tmp_path / "case")]) == 2
        assert says in capfd.readouterr().err
    assert (
        run(["feedback", str(tmp_path / "d.json"), str(folder), "--right", "gpu_cuda", "-o", str(tmp_path / "case")])
        == 0
    )
    assert "diagnosed as the whole was" in capfd.readouterr().out
    with pytest.raises(PipelineError, match="there already"):
        feedback([folder], told(), tmp_path / "case", INLINE)


def test_pseudonyms_keep_their_form():
    people = Lookalikes()
    people.learn("host=gpu-n006 NodeList=gpu-n[006-009] user=mhuang")
    text = people.clean(
        "gpu-n006 gpu-n007 gpu-n[006-009] 10.23.4.6 fe80::1:2 mail a.b@acme.org GPU-12345678-1234-1234-1234-123456789abc uid=50123 127.0.0.1"
    )
    words = text.split()
    assert words[0] == "node-a006"
    assert words[2] == "node-a[006-009]"
    assert words[3].startswith("10.1")
    assert words[4].startswith("fd00::")
    assert words[6] == "user-1@mail.example"
    assert len(words[7]) == len("GPU-12345678-1234-1234-1234-123456789abc")
    assert words[7] != "GPU-12345678-1234-1234-1234-123456789abc"
    assert words[8] == "uid=70001"
    assert words[9] == "127.0.0.1"
    assert people.clean("10.23.4.6 10.23.4.6") == f"{words[3]} {words[3]}"


def test_names_of_files_hide_what_texts_do_and_stay_apart(tmp_path):
    folder = job(tmp_path / "job" / SECRETS[0], lines=10)
    (tmp_path / "job" / "scratch" / "mhuang").mkdir(parents=True)
    (tmp_path / "job" / "scratch" / "mhuang" / "node_10.23.4.6.log").write_text("step 1\n")
    (tmp_path / "job" / "a").write_text("step 1\n")
    (tmp_path / "job" / "a!rank0.log").write_text("step 1\n")
    feedback([tmp_path / "job"], told(), tmp_path / "case", INLINE)
    files = [p for p in (tmp_path / "case" / "logs").rglob("*") if p.is_file()]
    assert len(files) == len([p for p in (tmp_path / "job").rglob("*") if p.is_file()])
    for path in files:
        for word in [*SECRETS, *NAMES]:
            assert word not in str(path.relative_to(tmp_path))
    assert folder.exists()


def test_a_line_with_bytes_that_are_no_text_may_be_the_best_evidence(tmp_path):
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "a.log").write_bytes(
        b"step 1\nRuntimeError: CUDA error \xff\xfe: an illegal memory access was encountered\n"
    )
    feedback([tmp_path / "job"], told(triggers=(("a.log", 2),)), tmp_path / "case", INLINE)
    (line,) = json.loads((tmp_path / "case" / "expected.json").read_text())["trigger"]
    assert line["must_contain"] == ": an illegal memory access was encountered"
