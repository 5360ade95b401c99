"""The profile of an environment: made without importing anything here, read out of any noise, compared."""

import json
import random
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made import machine, package, program, smi
from msgspec.structs import replace

from firstfault.model.environment import FRAME, Capability, Environment, GpuRow
from firstfault.preflight import environment
from firstfault.preflight.environment import look
from firstfault.preflight.framed import frame, read_frames
from firstfault.preflight.profiles import compare_environments

FULL = Environment(
    platform={
        "system": "Linux",
        "machine": "x86_64",
        "kernel": "5.15",
        "distribution": "Ubuntu 22.04.4 LTS",
        "container": "docker",
    },
    python={"version": "3.10.12", "kind": "system"},
    gpus=[GpuRow(name="NVIDIA H100 80GB HBM3", count=8, memory_mb=81559, compute_capability="9.0")],
    driver="550.54.15",
    packages={"torch": "2.4.0+cu124", "numpy": "1.26.4"},
    capabilities=[
        Capability(name="cuda", requested="CUDA 12.4", resolved="8 GPUs", usable=True),
        Capability(name="nccl", requested="2.20.5", resolved="2.20.5", usable=True),
        Capability(name="transformer_engine", requested="1.9.0", resolved="1.9.0", usable=True),
        Capability(name="apex", usable=False, detail='not "installed" \\ here'),
    ],
    settings={"NCCL_DEBUG": "WARN", "CUDA_DEVICE_MAX_CONNECTIONS": "1"},
)
LINE = frame(FULL)
DIGEST = json.loads(LINE.removeprefix(FRAME))["digest"]
BANNER = "\n=============\n== PyTorch ==\n=============\n\nNVIDIA Release 24.05 (build 91431255)\n\x1b[32mLicensed {see} [here]\x1b[0m\n"


def only(text):
    read = read_frames(text)
    assert [p.digest for p in read.found] == [DIGEST], read.damaged
    return read


def test_a_frame_is_one_line_of_plain_characters():
    assert LINE.isascii()
    assert LINE.count("\n") == 1
    assert LINE.startswith(FRAME)
    (read,) = read_frames(LINE).found
    assert replace(read, digest="") == FULL


@pytest.mark.parametrize(
    "text",
    [
        BANNER + LINE + BANNER,
        BANNER.rstrip("\n") + LINE,
        f"\x1b[1;31m[rank0]:\x1b[0m {LINE}",
        "".join(f"0: {line}\n" for line in (BANNER + LINE).splitlines()),
        f"2026-11-30T07:00:00.123Z stdout F {LINE}",
        LINE.rstrip("\n") + " trailing words }\n",
        LINE.replace("\n", "\r\n"),
        json.dumps({"log": LINE, "stream": "stdout", "time": "2026-11-30T07:00:00.1Z"}) + "\n",
        LINE * 5,
        "\x1b[2J\x1b]0;title\x07" + LINE,
    ],
    ids=[
        "banner",
        "no newline before",
        "colour",
        "srun --label",
        "kubernetes",
        "trailing",
        "crlf",
        "docker json",
        "five times",
        "terminal",
    ],
)
def test_it_is_read_out_of_noise(text):
    only(text)


@pytest.mark.parametrize("width", [1, 40, 80, 132, 1000])
def test_a_line_that_was_cut_in_pieces(width):
    body = LINE.rstrip("\n")
    pieces = (
        [body[i : i + width] for i in range(0, len(body), width)]
        if width > len(FRAME)
        else [body[: len(FRAME)], *(body[i : i + width] for i in range(len(FRAME), len(body), width))]
    )
    only("\n".join(pieces) + "\n")
    only("".join(f"[node-1:0] {p}\n" for p in pieces))


def test_pieces_between_those_of_others():
    body = LINE.rstrip("\n")
    pieces = [body[i : i + 200] for i in range(0, len(body), 200)]
    mine = [f"0: {p}" for p in pieces]
    others = [f"{n}: step {n} | loss 2.{n} {{" for n in range(1, len(mine) + 1)]
    only("\n".join(x for pair in zip(mine, others, strict=True) for x in pair) + "\n")


def test_several_profiles_are_told_apart():
    other = frame(replace(FULL, driver="535.54.03"))
    read = read_frames(LINE + other + LINE + BANNER + other + other)
    assert [p.driver for p in read.found] == ["550.54.15", "535.54.03"]
    assert read.copies == [2, 3]
    assert read.damaged == []


@pytest.mark.parametrize(
    "text",
    [
        LINE[:500],
        LINE[:500] + "\n" + BANNER,
        LINE.replace("550.54.15", "550.54.16"),
        LINE[:300] + "[rank1]: hello" + LINE[300:],
        FRAME + "{}\n",
        FRAME + '{"schema": "firstfault.environment/9", "digest": "x"}\n',
        FRAME + "\n",
        FRAME + "[1, 2]\n",
        FRAME + "{" * 5000,
    ],
    ids=["cut", "cut, then noise", "changed", "mixed", "empty", "schema", "nothing", "list", "deep"],
)
def test_what_is_not_whole_is_told_and_not_believed(text):
    read = read_frames(text)
    assert read.found == []
    assert [line for line, _ in read.damaged] == [1]
    assert read.damaged[0][1]


def test_a_whole_one_beside_a_cut_one():
    read = read_frames(LINE[:400] + "\n" + LINE)
    assert [p.digest for p in read.found] == [DIGEST]
    assert len(read.damaged) == 1


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_is_done_to_it_nothing_wrong_is_read(data):
    text = BANNER + LINE + BANNER
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 60))
        text = text[:at] + data.draw(st.text(max_size=20)) + text[at + cut :]
    assert {p.digest for p in read_frames(text).found} <= {DIGEST}


def test_a_large_noise_is_read_in_time():
    import time

    noise = "".join(f"{n}: iteration {n} | loss {random.Random(n).random()}\n" for n in range(50_000))
    begin = time.process_time()
    only(noise + LINE[:300] + "\n" + noise + LINE)
    assert time.process_time() - begin < 10


# making it


@pytest.fixture
def site(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    package(folder, "torch", "2.4.0+cu124", {"torch/__init__.py": "raise ImportError('libcudart.so.12: cannot open shared object file')\n", "torch/version.py": "__version__ = '2.4.0+cu124'\ncuda = '12.4'\n"})  # fmt: skip
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


def named(profile, name):
    return next(c for c in profile.capabilities if c.name == name)


def test_what_is_asked_for_against_what_is_there(tmp_path, site):
    package(
        site,
        "flash-attn",
        "2.6.3",
        {
            "flash_attn/__init__.py": "print('banner of flash_attn')\n__version__ = '2.6.3'\n",
            "flash_attn_2_cuda.py": "raise ImportError('undefined symbol: _ZN3c104cuda')",
        },
    )
    package(site, "triton", "3.0.0", {"triton/__init__.py": "print('{\"name\": \"triton\"}'); __version__ = '3.0.0'\n"})
    path = smi(tmp_path / "bin", 8)
    profile = look(machine(tmp_path / "r", PATH=path), require=("transformer_engine",))
    assert profile.gpus == [GpuRow(name="NVIDIA H100 80GB HBM3", count=8, memory_mb=81559, compute_capability="9.0")]
    assert profile.driver == "550.54.15"
    assert profile.packages["torch"] == "2.4.0+cu124"
    cuda = named(profile, "cuda")
    assert (cuda.requested, cuda.usable) == ("CUDA 12.4", False)
    assert "libcudart.so.12" in cuda.detail
    flash = named(profile, "flash_attn")
    assert (flash.requested, flash.usable) == ("2.6.3", False)
    assert "undefined symbol" in flash.detail
    assert (named(profile, "triton").usable, named(profile, "triton").resolved) == (True, "3.0.0")
    assert (named(profile, "apex").usable, named(profile, "apex").requested) == (False, "")
    engine = named(profile, "transformer_engine")
    assert (engine.requested, engine.usable) == ("required", False)
    assert profile.missing == ["transformer_engine"]
    assert (
        "torch" not in sys.modules
        or sys.modules["torch"].__file__ is None
        or str(site) not in sys.modules["torch"].__file__
    )


def test_an_import_that_hangs_or_dies_takes_nothing_with_it(tmp_path, site, monkeypatch):
    monkeypatch.setattr(environment, "LIMIT_S", 3.0)
    package(site, "apex", "0.1", {"apex/__init__.py": "import time; time.sleep(600)\n"})
    package(site, "flash-attn", "2.6.3", {"flash_attn/__init__.py": "import os; os._exit(7)\n"})
    package(
        site, "xformers", "0.0.27", {"xformers/__init__.py": "", "xformers/ops/__init__.py": "__version__ = '0.0.27'\n"}
    )
    profile = look(machine(tmp_path / "r", PATH=str(tmp_path)))
    assert (named(profile, "apex").usable, named(profile, "apex").detail) == (None, "its import gave no answer in 3 s")
    assert (named(profile, "flash_attn").usable, named(profile, "flash_attn").detail) == (
        False,
        "its import ended the whole process",
    )
    assert named(profile, "xformers").usable is True


def test_by_metadata_alone_nothing_is_tried(tmp_path, site):
    profile = look(machine(tmp_path / "r", PATH=str(tmp_path)), imports=False)
    assert (named(profile, "cuda").usable, named(profile, "cuda").detail) == (None, "not tried")


def test_a_home_of_the_toolkit_without_compiler(tmp_path):
    made = machine(tmp_path, files={"/opt/cuda/version.txt": ""}, PATH=str(tmp_path), CUDA_HOME="/opt/cuda")
    nvcc = named(look(made, imports=False), "nvcc")
    assert (nvcc.requested, nvcc.usable) == ("CUDA_HOME is set", False)
    assert "holds no nvcc" in nvcc.detail
    path = program(tmp_path / "opt/cuda/bin", "nvcc", "echo 'Cuda compilation tools, release 12.4, V12.4.99'")
    made = machine(tmp_path, PATH=path, CUDA_HOME="/opt/cuda")
    assert named(look(made, imports=False), "nvcc").resolved == "12.4"


def test_no_secret_name_or_number_of_a_card_gets_in(tmp_path):
    env = {
        "NCCL_DEBUG": "WARN", "NCCL_SOCKET_IFNAME": "eth0", "CUDA_VISIBLE_DEVICES": "GPU-6f3a1c2e-0000-1111-2222-333344445555", "TORCH_LOGS_TOKEN": "hf_abcdefghijklmnopqrstuvwxyz0123",
        "TORCH_HOME": "/home/somebody/.cache/torch", "UCX_SECRET": "s3cr3tvalue99x", "CUDA_MPS_PIPE_DIRECTORY": "/tmp/mps", "http_proxy": "http://user:pw@proxy:3128",
        "NCCL_COMM_ID": "10.0.0.1:5555", "MASTER_ADDR": "node-1", "TORCHELASTIC_RUN_ID": "run-of-somebody",
    }  # fmt: skip
    path = smi(tmp_path / "bin", 1, uuid="GPU-6f3a1c2e-0000-1111-2222-333344445555")
    text = frame(look(machine(tmp_path / "r", PATH=path, **env), imports=False))
    for hidden in ("6f3a1c2e", "hf_abc", "somebody", "s3cr3t", "proxy", "node-1", "GPU-"):
        assert hidden not in text, hidden
    assert '"NCCL_DEBUG":"WARN"' in text


# comparing


def changed(**fields):
    return replace(FULL, **fields)


def caps(name, **fields):
    return [replace(c, **fields) if c.name == name else c for c in FULL.capabilities]


@pytest.mark.parametrize(
    ("other", "verdict", "first"),
    [
        (FULL, "comparable", None),
        (changed(platform={**FULL.platform, "kernel": "6.8"}), "comparable", "platform kernel"),
        (changed(packages={**FULL.packages, "numpy": "2.0"}), "comparable", "package numpy"),
        (changed(driver="550.90.07"), "comparable", "driver"),
        (changed(settings={**FULL.settings, "NCCL_DEBUG": "INFO"}), "comparable", "setting NCCL_DEBUG"),
        (changed(driver="535.54.03"), "not_comparable", "driver"),
        (changed(gpus=[replace(FULL.gpus[0], count=4)]), "not_comparable", "gpu"),
        (changed(packages={**FULL.packages, "torch": "2.3.0+cu121"}), "not_comparable", "package torch"),
        (
            changed(capabilities=caps("transformer_engine", usable=False, resolved="", detail="ImportError")),
            "not_comparable",
            "capability transformer_engine",
        ),
        (changed(capabilities=caps("nccl", resolved="2.21.5")), "not_comparable", "capability nccl"),
        (changed(capabilities=caps("apex", detail="other words")), "comparable", None),
        (changed(settings={**FULL.settings, "NCCL_ALGO": "Ring"}), "not_comparable", "setting NCCL_ALGO"),
        (changed(settings={"NCCL_DEBUG": "WARN"}), "not_comparable", "setting CUDA_DEVICE_MAX_CONNECTIONS"),
        (
            changed(capabilities=caps("transformer_engine", usable=None, resolved="1.9.0", detail="not tried")),
            "unknown",
            "capability transformer_engine",
        ),
        (changed(gpus=[], driver="", capabilities=caps("cuda", usable=None)), "unknown", "gpu"),
        (changed(platform={**FULL.platform, "machine": "aarch64"}), "not_comparable", "platform machine"),
    ],
)
def test_whether_two_results_may_be_compared(other, verdict, first):
    for pair in ((FULL, other), (other, FULL)):
        found = compare_environments(*pair, ("a", "b"))
        assert found.verdict == verdict
        assert (found.differences[0].what if found.differences else None) == first
        assert found.summary
    assert "nccl" in compare_environments(FULL, FULL, ("a", "b")).same
