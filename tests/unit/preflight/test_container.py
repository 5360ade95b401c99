"""Checks of the image, with packages that are really installed in a folder of the test, and compilers on its path."""

import sys
from pathlib import Path

import pytest
from made import found, machine, package, program, states

from firstfault.preflight import container
from firstfault.preflight.container import cuda_home, kind, nvcc

TORCH = {
    "torch/__init__.py": "raise SystemExit('never imported')",
    "torch/version.py": "__version__ = '2.4.0+cu124'\ncuda = '12.4'\n",
}


@pytest.fixture
def site(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    package(folder, "torch", "2.4.0+cu124", TORCH)
    monkeypatch.syspath_prepend(str(folder))
    return folder


@pytest.mark.parametrize(
    ("env", "files", "expected"),
    [
        ({}, {}, ""),
        ({}, {"/.dockerenv": ""}, "docker"),
        ({}, {"/run/.containerenv": ""}, "podman"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, {"/.dockerenv": ""}, "kubernetes"),
        ({"APPTAINER_CONTAINER": "/x.sif"}, {}, "apptainer"),
    ],
)
def test_what_it_runs_in(tmp_path, env, files, expected):
    assert kind(machine(tmp_path, files=files, **env)) == expected


def test_the_systems_python_of_an_image(tmp_path, monkeypatch):
    marker = tmp_path / "EXTERNALLY-MANAGED"
    marker.write_text("[externally-managed]\n")
    monkeypatch.setattr(container, "managed_marker", lambda: marker)
    monkeypatch.setattr(container, "in_environment", lambda: False)
    image = {"/.dockerenv": ""}
    assert states("container.python", machine(tmp_path, files=image)) == {"warn"}
    assert states("container.python", machine(tmp_path, files=image, PIP_BREAK_SYSTEM_PACKAGES="1")) == {"ok"}
    # The Python of a laptop is its owner's business.
    assert states("container.python", machine(tmp_path / "laptop")) == {"ok"}
    monkeypatch.setattr(container, "in_environment", lambda: True)
    assert states("container.python", machine(tmp_path, files=image)) == {"ok"}


def test_the_marker_lies_where_pip_looks():
    assert (
        container.managed_marker()
        == Path(sys.base_prefix) / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "EXTERNALLY-MANAGED"
    )


def test_no_compiler_for_what_compiles_at_the_first_run(tmp_path, site):
    bare = str(tmp_path / "empty")
    assert states("container.toolkit", machine(tmp_path / "r", PATH=bare)) == {"ok"}
    package(site, "deepspeed", "0.14.4")
    assert states("container.toolkit", machine(tmp_path / "r", PATH=bare)) == {"warn"}
    assert states("container.toolkit", machine(tmp_path / "r", PATH=bare, DS_BUILD_OPS="0")) == {"ok"}


def test_a_compiler_of_another_version(tmp_path, site):
    package(site, "deepspeed", "0.14.4")
    path = program(tmp_path / "toolkit" / "bin", "nvcc", "echo 'Cuda compilation tools, release 11.8, V11.8.89'")
    made = machine(tmp_path / "r", PATH=path)
    assert nvcc(made) == "11.8"
    assert states("container.toolkit", made) == {"warn"}
    path = program(tmp_path / "toolkit" / "bin", "nvcc", "echo 'Cuda compilation tools, release 12.6, V12.6.20'")
    assert states("container.toolkit", machine(tmp_path / "r", PATH=path)) == {"ok"}


def test_a_home_of_the_toolkit_that_is_not_there(tmp_path):
    made = machine(tmp_path, PATH=str(tmp_path), CUDA_HOME="/usr/local/cuda-11.1")
    assert cuda_home(made) == ("/usr/local/cuda-11.1", "CUDA_HOME")
    assert states("container.toolkit", made) == {"warn"}


def test_build_tools(tmp_path, site):
    bare = machine(tmp_path / "r", PATH=str(tmp_path / "empty"))
    assert states("container.compilers", bare) == {"ok"}
    package(site, "megatron-core", "0.8.0")
    answers = found("container.compilers", machine(tmp_path / "r", PATH=str(tmp_path / "empty")))
    assert {text.split()[0] for _, text in answers} == {"make", "g++"}
    for name in ("make", "g++", "cc"):
        path = program(tmp_path / "tools", name, "true")
    assert states("container.compilers", machine(tmp_path / "r", PATH=path)) == {"ok"}


def test_triton_without_a_compiler(tmp_path, site):
    package(site, "triton", "3.0.0")
    assert states("container.compilers", machine(tmp_path / "r", PATH=str(tmp_path / "empty"))) == {"warn"}


def test_headers_that_are_missing(tmp_path, site, monkeypatch):
    package(site, "triton", "3.0.0")
    path = program(tmp_path / "tools", "cc", "true")
    monkeypatch.setattr(container.sysconfig, "get_paths", lambda: {"include": str(tmp_path / "include")})
    assert "Python.h" in found("container.compilers", machine(tmp_path / "r", PATH=path))[0][1]


@pytest.mark.parametrize(
    ("name", "version", "state"),
    [
        ("flash-attn", "2.6.3+cu12torch2.4cxx11abiFALSE", "ok"),
        ("flash-attn", "2.6.3+cu12torch2.3cxx11abiFALSE", "warn"),
        ("flash-attn", "2.5.8+cu118torch2.4cxx11abiFALSE", "warn"),
        ("torchvision", "0.19.0+cu124", "ok"),
        ("torchvision", "0.19.0+cu118", "warn"),
        ("transformer-engine", "1.9.0", "ok"),
    ],
)
def test_kernels_for_another_pytorch(site, name, version, state):
    package(site, name, version)
    assert states("container.kernels", machine()) == {state}


def test_an_older_nccl_in_the_way(tmp_path, site):
    package(site, "nvidia-nccl-cu12", "2.20.5")
    (tmp_path / "r/opt/nccl/lib").mkdir(parents=True)
    old = {"/opt/nccl/lib/libnccl.so.2.18.3": ""}
    assert states(
        "container.libraries", machine(tmp_path / "r", files=old, LD_LIBRARY_PATH="/opt/nccl/lib:/usr/lib")
    ) == {"warn"}
    new = {"/opt/new/lib/libnccl.so.2.21.5": ""}
    assert states("container.libraries", machine(tmp_path / "r", files=new, LD_LIBRARY_PATH="/opt/new/lib")) == {"ok"}


def test_a_library_to_load_first_that_is_not_there(tmp_path):
    assert states("container.libraries", machine(tmp_path, LD_PRELOAD="/opt/libtcmalloc.so")) == {"warn"}
    assert states(
        "container.libraries", machine(tmp_path, files={"/opt/libtcmalloc.so": ""}, LD_PRELOAD="/opt/libtcmalloc.so")
    ) == {"ok"}


def test_packages_of_another_python():
    assert states("container.packages", machine(PYTHONPATH="/opt/env/lib/python3.4/site-packages")) == {"warn"}
    assert states("container.packages", machine(PYTHONHOME="/opt/env")) == {"warn"}
    assert states("container.packages", machine(PYTHONPATH="/code/src")) == {"ok"}


def test_packages_of_the_home_folder_in_an_image(tmp_path, monkeypatch):
    monkeypatch.setattr(container, "in_environment", lambda: False)
    monkeypatch.setattr(container, "_user_packages", lambda: True)
    assert states("container.packages", machine(tmp_path, files={"/.dockerenv": ""})) == {"warn"}
    assert states("container.packages", machine(tmp_path, files={"/.dockerenv": ""}, PYTHONNOUSERSITE="1")) == {"ok"}
