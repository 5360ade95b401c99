"""Checks of GPUs against a program `nvidia-smi` on the path, which says what that of a bad machine would."""

import pytest
from made import found, machine, package, program, smi, states

EIGHT = {"RANK": "0", "WORLD_SIZE": "8", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "8"}
ALL = ("visible", "named", "enough", "memory_errors", "throttle", "free", "mig", "fabric")
TORCH = (
    "__version__ = '{}'\ndebug = False\ncuda: Optional[str] = '{}'\ngit_version = 'abc'\nhip: Optional[str] = None\n"
)


@pytest.mark.parametrize(
    ("count", "env"),
    [(8, EIGHT), (1, {}), (8, {**EIGHT, "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7"}), (4, {"CUDA_VISIBLE_DEVICES": ""})],
)
def test_healthy_machines_pass(tmp_path, count, env):
    made = machine(tmp_path, PATH=smi(tmp_path / "bin", count), **env)
    for name in ALL:
        assert states(f"gpu.{name}", made) == {"ok"}, name


def test_an_old_driver_that_does_not_know_all_fields(tmp_path):
    unknown = {"fabric.state", "compute_cap", "mig.mode.current", "retired_pages.pending"}
    made = machine(tmp_path, PATH=smi(tmp_path / "bin", 2, unknown=unknown))
    for name in ALL:
        assert states(f"gpu.{name}", made) == {"ok"}, name


def test_a_laptop_without_gpu_is_no_fault(tmp_path):
    made = machine(tmp_path, PATH=str(tmp_path))
    for name in (*ALL, "xid"):
        assert states(f"gpu.{name}", made) <= {"not_checkable", "ok"}, name


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (
            "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18",
            "Driver/library version mismatch",
        ),
        (
            'echo "NVIDIA-SMI has failed because it couldn\'t communicate with the NVIDIA driver."; exit 9',
            "couldn't communicate",
        ),
        ("echo 'No devices were found'; exit 6", "No devices were found"),
        ("echo 'Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error'; exit 15", "Unknown Error"),
    ],
)
def test_a_driver_that_does_not_answer(tmp_path, script, says):
    path = program(tmp_path / "bin", "nvidia-smi", script)
    (state, text), *_ = found("gpu.visible", machine(tmp_path, PATH=path, SLURM_GPUS_ON_NODE="8"))
    assert state == "fail"
    assert says in text
    assert states("gpu.visible", machine(tmp_path, files={"/dev/nvidia0": ""}, PATH=path)) == {"fail"}
    # An image on a log in node has the program, and nobody asked for a GPU.
    assert states("gpu.visible", machine(tmp_path / "none", PATH=path)) == {"warn"}


def test_a_driver_that_hangs(tmp_path, monkeypatch):
    import firstfault.preflight.cards as cards

    monkeypatch.setattr(cards, "SLOW_S", 0.3)
    path = program(tmp_path / "bin", "nvidia-smi", "exec sleep 60")
    (state, text), *_ = found("gpu.visible", machine(tmp_path, PATH=path, SLURM_GPUS_ON_NODE="8"))
    assert state == "fail"
    assert "gave no answer" in text


def test_a_driver_that_hangs_is_asked_once(tmp_path, monkeypatch):
    import firstfault.preflight.cards as cards

    monkeypatch.setattr(cards, "SLOW_S", 0.3)
    path = program(tmp_path / "bin", "nvidia-smi", f"echo x >> {tmp_path}/asked; exec sleep 60")
    made = machine(tmp_path, PATH=path)
    assert states("gpu.visible", made) == {"warn"}
    assert cards.processes(made) is None
    assert (tmp_path / "asked").read_text() == "x\n"


def test_a_container_without_the_drivers_libraries(tmp_path):
    assert states("gpu.visible", machine(tmp_path, files={"/dev/nvidia0": ""}, PATH=str(tmp_path))) == {"fail"}


def test_a_lost_gpu(tmp_path):
    made = machine(tmp_path, PATH=smi(tmp_path / "bin", 7), SLURM_GPUS_ON_NODE="8")
    assert found("gpu.visible", made) == [("fail", "SLURM gave 8 GPUs on this machine, 7 answer")]


def test_gpus_of_two_kinds(tmp_path):
    assert states("gpu.visible", machine(tmp_path, PATH=smi(tmp_path / "bin", 2, name="NVIDIA A100"))) == {"warn"}


@pytest.mark.parametrize(
    ("told", "state"),
    [("0,1", "ok"), ("0,2", "fail"), ("5", "fail"), ("0,0", "fail"), ("GPU-11111111,GPU-22222222", "ok"), ("-1", "ok")],
)
def test_the_names_of_gpus(tmp_path, told, state):
    assert states("gpu.named", machine(tmp_path, PATH=smi(tmp_path / "bin", 2), CUDA_VISIBLE_DEVICES=told)) == {state}


def test_more_ranks_than_gpus(tmp_path):
    assert states("gpu.enough", machine(tmp_path, PATH=smi(tmp_path / "bin", 4), **EIGHT)) == {"fail"}
    # With the GPUs hidden on purpose, as a test on CPUs does, nobody needs one.
    assert states("gpu.enough", machine(tmp_path, PATH=smi(tmp_path / "bin", 4), CUDA_VISIBLE_DEVICES="", **EIGHT)) == {
        "ok"
    }


@pytest.mark.parametrize(
    ("changed", "rows", "state"),
    [
        ({"ecc__errors__uncorrected__volatile__total": "3"}, "", "warn"),
        ({"retired_pages__pending": "Yes"}, "", "warn"),
        ({}, "00000000:19:00.0, No, Yes\n", "fail"),
        ({}, "00000000:19:00.0, Yes, No\n", "warn"),
        ({}, "00000000:19:00.0, No, No\n", "ok"),
    ],
)
def test_memory_errors(tmp_path, changed, rows, state):
    assert states("gpu.memory_errors", machine(tmp_path, PATH=smi(tmp_path / "bin", 2, rows=rows, **changed))) == {
        state
    }


def test_a_gpu_that_is_slowed_down(tmp_path):
    made = machine(
        tmp_path,
        PATH=smi(tmp_path / "bin", 2, clocks_throttle_reasons__hw_thermal_slowdown="Active", temperature__gpu="91"),
    )
    assert found("gpu.throttle", made) == [("warn", "GPU 0 is slowed down by heat, at 91 °C")]


def test_a_gpu_that_somebody_uses(tmp_path):
    made = machine(
        tmp_path, PATH=smi(tmp_path / "bin", 2, apps="4711, 70000 MiB, /usr/bin/python3\n", memory__used="70000 MiB")
    )
    assert found("gpu.free", made) == [("warn", "memory is taken already: GPU 0 70000 MiB (4711 python3)")]
    hidden = machine(tmp_path, PATH=smi(tmp_path / "other", 2, memory__used="70000 MiB"))
    assert "by nobody that can be seen here" in found("gpu.free", hidden)[0][1]
    # Another job on the other GPU of a shared machine is none of ours.
    shared = machine(
        tmp_path,
        PATH=smi(tmp_path / "bin", 2, apps="4711, 70000 MiB, python3\n", memory__used="70000 MiB"),
        CUDA_VISIBLE_DEVICES="1",
    )
    assert states("gpu.free", shared) == {"ok"}


def test_a_gpu_that_nobody_may_use(tmp_path):
    assert states("gpu.free", machine(tmp_path, PATH=smi(tmp_path / "bin", 2, compute_mode="Prohibited"))) == {"fail"}


def test_parts_of_a_gpu(tmp_path):
    path = smi(tmp_path / "bin", 1, mig__mode__current="Enabled")
    assert states("gpu.mig", machine(tmp_path, PATH=path, **EIGHT)) == {"warn"}
    assert states("gpu.mig", machine(tmp_path, PATH=path)) == {"ok"}


@pytest.mark.parametrize(
    ("state", "status", "expected"),
    [
        ("In Progress", "N/A", "fail"),
        ("Completed", "Success", "ok"),
        ("Completed", "Insufficient Resources", "fail"),
        ("N/A", "N/A", "ok"),
    ],
)
def test_a_fabric_that_is_not_up(tmp_path, state, status, expected):
    assert states(
        "gpu.fabric",
        machine(tmp_path, PATH=smi(tmp_path / "bin", 8, fabric__state=[state] * 8, fabric__status=[status] * 8)),
    ) == {expected}


@pytest.mark.parametrize(
    ("log", "state"),
    [
        ("[  5.1] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.", "warn"),
        ("[  5.1] NVRM: Xid (PCI:0000:3b:00): 13, pid=1234, Graphics SM Warp Exception", "ok"),
        ("[  5.1] usb 1-1: new device", "ok"),
    ],
)
def test_xids_since_boot(tmp_path, monkeypatch, log, state):
    path = smi(tmp_path / "bin", 2)
    program(tmp_path / "bin", "dmesg", f"echo '{log}'")
    monkeypatch.setenv("PATH", path)
    assert states("gpu.xid", machine(tmp_path, PATH=path)) == {state}


def test_a_kernel_log_that_may_not_be_read(tmp_path, monkeypatch):
    path = smi(tmp_path / "bin", 2)
    program(tmp_path / "bin", "dmesg", "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1")
    monkeypatch.setenv("PATH", path)
    assert states("gpu.xid", machine(tmp_path, PATH=path)) == {"not_checkable"}


@pytest.mark.parametrize(
    ("version", "cuda", "driver", "capability", "state"),
    [
        ("2.4.0+cu121", "12.1", "550.54.15", "9.0", "ok"),
        ("2.4.0+cu121", "12.1", "470.57.02", "8.0", "fail"),
        ("2.9.0+cu130", "13.0", "550.54.15", "9.0", "fail"),
        ("2.4.0+cu124", "12.4", "570.86.15", "12.0", "fail"),
        ("2.7.0+cu128", "12.8", "570.86.15", "12.0", "ok"),
        ("2.4.0a0+git1", "12.4", "570.86.15", "10.0", "warn"),
        ("1.12.1+cu113", "11.3", "535.54.03", "9.0", "warn"),
        ("2.4.0+cpu", "", "550.54.15", "9.0", "warn"),
    ],
)
def test_the_fit_of_driver_build_and_gpu(tmp_path, monkeypatch, version, cuda, driver, capability, state):
    text = TORCH.format(version, cuda) if cuda else f"__version__ = '{version}'\ncuda: Optional[str] = None\n"
    package(
        tmp_path / "site",
        "torch",
        version,
        {"torch/__init__.py": "raise SystemExit('never imported')", "torch/version.py": text},
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    path = smi(tmp_path / "bin", 2, driver_version=[driver] * 2, compute_cap=[capability] * 2)
    assert states("gpu.fit", machine(tmp_path, PATH=path)) == {state}


def test_compat_libraries_may_help(tmp_path, monkeypatch):
    package(
        tmp_path / "site",
        "torch",
        "2.9.0+cu130",
        {"torch/__init__.py": "", "torch/version.py": TORCH.format("2.9.0+cu130", "13.0")},
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    files = {"/usr/local/cuda/compat/libcuda.so.1": ""}
    assert states("gpu.fit", machine(tmp_path, files=files, PATH=smi(tmp_path / "bin", 2))) == {"warn"}
